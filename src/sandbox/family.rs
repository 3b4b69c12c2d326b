//! All that a command started: the descendants of its keeper.
//!
//! A keeper that adopts orphans ([`adopt_orphans`]) is the parent of every process whose parent
//! ended, also of those that left the session.
//!
//! Where the command has a process namespace, the kernel ends the family when the command is over.
//! Elsewhere it is looked for in `/proc` and ended. Such a look cannot be exact: a process that
//! forks and exits may be missed by each of them. So one look that finds nobody proves nothing,
//! and what is still found when the time is over is reported ([`Ended::survivors`]).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, kill_process, kill_process_group,
    waitid, waitpid,
};

use super::profile::Profile;

/// How long ending a family may take.
const END_WITHIN: Duration = Duration::from_secs(5);

/// So many looks, and so far apart, have to find nobody.
const EMPTY_LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// More are not counted.
const MOST: usize = 20_000;

/// From now on, descendants whose parent ends are ours. Linux only; elsewhere it does nothing.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// The descendants of this process.
#[derive(Debug)]
pub struct Family {
    /// Our own child, which is reaped elsewhere.
    first: Pid,
    /// The kernel ends them with the first.
    is_contained: bool,
    /// The kernel keeps the limit of processes.
    is_limited: bool,
    /// Of the descendants, so many are ours and not the command's.
    between: usize,
}

/// What ending a family came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Processes that were ended.
    pub ended: usize,
    /// Processes that were found when the time was over.
    pub survivors: Vec<Pid>,
}

impl Family {
    /// The family of this process. `first` is the pid of what [`super::command`] or
    /// [`super::forked`] started with this profile, and is a child of this process. `None` when
    /// that cannot be a pid.
    pub fn of(first: u32, profile: &Profile) -> Option<Family> {
        let first = i32::try_from(first).ok().and_then(Pid::from_raw)?;
        let between = profile.processes_between();
        Some(Family {
            first,
            is_contained: between > 0,
            is_limited: profile.is_limited(),
            between,
        })
    }

    /// How many processes of the command are alive, itself included. Threads do not count.
    pub fn count(&self) -> usize {
        let others = self.others().len();
        match self.is_contained {
            true => others.saturating_sub(self.between),
            false => others + 1,
        }
    }

    /// Those alive, without the first.
    fn others(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        let mut parents = vec![rustix::process::getpid()];
        while let Some(parent) = parents.pop() {
            for child in children(parent) {
                if found.len() >= MOST {
                    return found;
                }
                parents.push(child);
                if child != self.first && is_alive(child) {
                    found.push(child);
                }
            }
        }
        found
    }

    /// Whether the kernel lets the command have only as many processes as it may.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Takes the ends of adopted orphans, so that none is left behind as a zombie.
    pub fn reap(&self) {
        // In a namespace its first process does that.
        if !self.is_contained {
            self.reap_orphans();
        }
    }

    fn reap_orphans(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // The first one's end is left for whoever waits for it, and would hide the others'.
        for child in children(rustix::process::getpid()) {
            let ended =
                child != self.first && matches!(waitid(WaitId::Pid(child), options), Ok(Some(_)));
            if ended {
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }

    /// Ends all but the first, which is expected to be over.
    pub fn end(&self) -> Ended {
        // The first is over when its namespace is, and else was killed with its children.
        let empty_looks = match self.is_contained {
            true => 1,
            false => EMPTY_LOOKS,
        };
        let until = Instant::now() + END_WITHIN;
        let mut ended = BTreeSet::new();
        let mut empty = 0;
        loop {
            self.reap_orphans();
            let others = self.others();
            if others.is_empty() {
                empty += 1;
                if empty >= empty_looks {
                    break;
                }
                std::thread::sleep(BETWEEN_LOOKS);
                continue;
            }
            empty = 0;
            if Instant::now() >= until {
                return Ended {
                    ended: ended.len(),
                    survivors: others,
                };
            }
            end_now(&others);
            ended.extend(others.iter().map(|pid| pid.as_raw_nonzero()));
            std::thread::yield_now();
        }
        Ended {
            ended: ended.len(),
            survivors: Vec::new(),
        }
    }
}

/// Groups first: those of processes that fork and exit hold still for a single signal. Then each,
/// stopped before it is killed: what stands still makes no more.
fn end_now(others: &[Pid]) {
    let own = getpgrp();
    let parents: BTreeSet<_> = others
        .iter()
        .chain([&rustix::process::getpid()])
        .map(|pid| pid.as_raw_nonzero())
        .collect();
    // A number may be a stranger's by now, whose parent is none of ours.
    let group = |pid: &Pid| {
        let found = stat(*pid)?;
        let parent = found.parent?.as_raw_nonzero();
        parents.contains(&parent).then_some(found.group?)
    };
    let groups = others.iter().filter_map(group);
    let groups: BTreeSet<_> = groups.map(Pid::as_raw_nonzero).collect();
    for group in groups
        .into_iter()
        .filter_map(|group| Pid::from_raw(group.get()))
    {
        if group != own {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in others {
            let _ = kill_process(*pid, signal);
        }
    }
}

/// The file is there where the kernel is built with CONFIG_PROC_CHILDREN, as all distributions'
/// are; else the list of all processes is gone through.
fn children(parent: Pid) -> Vec<Pid> {
    let tasks = format!("/proc/{}/task", parent.as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).into_iter().flatten();
    let mut found = Vec::new();
    for task in tasks.filter_map(Result::ok) {
        match std::fs::read_to_string(task.path().join("children")) {
            Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(pid)),
            Err(_) => return children_by_list(parent),
        }
    }
    found
}

fn children_by_list(parent: Pid) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    let pids = all.filter_map(|entry| pid(entry.ok()?.file_name().to_str()?));
    pids.filter(|pid| stat(*pid).is_some_and(|found| found.parent == Some(parent)))
        .collect()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// The fields of `/proc/PID/stat` that are needed here (proc_pid_stat(5)).
struct Stat {
    state: char,
    parent: Option<Pid>,
    group: Option<Pid>,
}

fn stat(of: Pid) -> Option<Stat> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", of.as_raw_nonzero())).ok()?;
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: pid(fields.next()?),
        group: pid(fields.next()?),
    })
}

fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|found| !matches!(found.state, 'Z' | 'X' | 'x'))
}
