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
use std::num::NonZeroI32;
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
    ///
    /// Only own children are signalled, and the groups they are in. Nobody but this process takes
    /// their ends, so until then their numbers and those of their groups are not given away again,
    /// and no signal reaches a stranger. The children of one that was ended are own ones next.
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
            // One that has ended counts as well: it may have forked before.
            let own = self.own_children();
            if own.is_empty() {
                empty += 1;
                if empty >= empty_looks {
                    break;
                }
                std::thread::sleep(BETWEEN_LOOKS);
                continue;
            }
            empty = 0;
            ended.extend(end_now(&own));
            self.reap_orphans();
            if Instant::now() >= until {
                let survivors = self.others();
                return Ended {
                    ended: ended.len(),
                    survivors,
                };
            }
            std::thread::yield_now();
        }
        Ended {
            ended: ended.len(),
            survivors: Vec::new(),
        }
    }

    /// Those whose parent is this process, also those that have ended.
    fn own_children(&self) -> Vec<Pid> {
        let all = children(rustix::process::getpid());
        all.into_iter().filter(|pid| *pid != self.first).collect()
    }
}

/// Groups first: those of processes that fork and exit hold still for a single signal. Then each.
/// Returns those that were alive.
fn end_now(own: &[Pid]) -> Vec<NonZeroI32> {
    let seen: Vec<_> = own
        .iter()
        .filter_map(|pid| Some((*pid, stat(*pid)?)))
        .collect();
    let groups = seen.iter().filter_map(|(_, found)| found.group);
    let groups: BTreeSet<_> = groups.map(Pid::as_raw_nonzero).collect();
    for group in groups.iter().filter_map(|group| Pid::from_raw(group.get())) {
        if group != getpgrp() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    for pid in own {
        let _ = kill_process(*pid, Signal::KILL);
    }
    let alive = seen.iter().filter(|(_, found)| found.is_alive());
    alive.map(|(pid, _)| pid.as_raw_nonzero()).collect()
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

/// The kernel writes -1 for what a process that is just going has no more, and a signal to that
/// group would go to process 1.
fn pid(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number| *number > 0)?;
    Pid::from_raw(number)
}

/// The fields of `/proc/PID/stat` that are needed here (proc_pid_stat(5)).
struct Stat {
    state: char,
    parent: Option<Pid>,
    group: Option<Pid>,
}

fn stat(of: Pid) -> Option<Stat> {
    Stat::parse(&std::fs::read_to_string(format!("/proc/{}/stat", of.as_raw_nonzero())).ok()?)
}

impl Stat {
    fn parse(line: &str) -> Option<Stat> {
        let (_, rest) = line.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Stat {
            state: fields.next()?.chars().next()?,
            parent: pid(fields.next()?),
            group: pid(fields.next()?),
        })
    }

    fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|found| found.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_just_going_has_no_group() {
        let line = "42 (a) b) X 0 -1 -1 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 0 0 98765 0 0";
        let found = Stat::parse(line).unwrap();
        assert!(!found.is_alive());
        assert_eq!((found.parent, found.group), (None, None));
    }
}
