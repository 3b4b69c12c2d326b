//! The family of a command: all processes that it started, the descendants of its keeper.
//!
//! A keeper that adopts orphans ([`adopt_orphans`]) becomes the parent of every process whose
//! parent ended, even of those that left the process session.
//!
//! If the command has a process namespace, the kernel ends the family with the command. Otherwise
//! the family is searched for in `/proc` and ended. Such a scan cannot be exact: it may miss a
//! process that forks and exits. So one scan without a result proves nothing, and the processes
//! that are still found at the time limit are reported ([`EndedProcess::survivors`]).

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroI32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    waitid, waitpid,
};

use super::placeholders::Placeholders;
use super::profile::Profile;

/// Time limit for ending a family.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Number of consecutive scans that must find nobody who can be killed.
const EMPTY_LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// Number of scans without a pause between them: a process that forks and exits is fast.
const BUSY_LOOKS: u32 = 200;

/// Maximum number of processes that are counted.
const MOST: usize = 20_000;

/// Makes this process the parent of descendants whose parent ends. Does nothing on systems other
/// than Linux.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
    }
}

/// The descendants of this process.
#[derive(Debug)]
pub struct Family {
    /// The first process, a child of this one. It is reaped elsewhere.
    first: Pid,
    /// Whether the kernel ends the family with its first process.
    is_contained: bool,
    /// Whether the kernel enforces the limit of processes.
    is_limited: bool,
    /// Number of descendants that belong to rewake and not to the command.
    between: usize,
    /// Processes that are not the command's, whatever started them.
    is_spared: fn(Pid) -> bool,
    /// Removed with this value, when no process of the family is left.
    _placeholders: Placeholders,
}

/// The result of ending a family.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndedProcess {
    /// Number of processes that were ended.
    pub ended: usize,
    /// Processes that were still found at the time limit.
    pub survivors: Vec<Pid>,
}

impl Family {
    /// Returns the family of this process. `first` is the pid of the child that [`super::command`]
    /// or [`super::forked`] started with this profile and these placeholders. Returns `None` for an
    /// invalid pid.
    pub fn of(first: u32, profile: &Profile, placeholders: Placeholders) -> Option<Family> {
        let first = i32::try_from(first).ok().and_then(Pid::from_raw)?;
        let between = profile.processes_between();
        Some(Family {
            first,
            is_contained: between > 0,
            is_limited: profile.is_limited(),
            between,
            is_spared: |_| false,
            _placeholders: placeholders,
        })
    }

    /// Returns the family of a command that runs without a sandbox, as [`Family::of`] does. The
    /// processes that `is_spared` names and their descendants do not belong to it.
    pub fn unconfined(first: u32, is_spared: fn(Pid) -> bool) -> Option<Family> {
        let first = i32::try_from(first).ok().and_then(Pid::from_raw)?;
        Some(Family {
            first,
            is_contained: false,
            is_limited: false,
            between: 0,
            is_spared,
            _placeholders: Placeholders::default(),
        })
    }

    /// Returns how many processes of the command are alive, including itself. Threads do not count.
    pub fn count(&self) -> usize {
        let others = self.others().len();
        if self.is_contained {
            others.saturating_sub(self.between)
        } else {
            others + 1
        }
    }

    /// Returns the living processes, without the first.
    pub fn others(&self) -> Vec<Pid> {
        let mut found = descendants(getpid(), self.is_spared);
        found.retain(|pid| *pid != self.first);
        found
    }

    /// Asks the processes outside the group of the first one to end.
    pub fn ask_to_end(&self) {
        signal_groups(&self.others(), Signal::TERM, Some(self.first));
    }

    /// Returns numbers of which one changes whenever a process of the family runs. Returns `None`
    /// while one runs, or if that cannot be found out.
    pub fn activity(&self) -> Option<Vec<u64>> {
        let mut numbers = Vec::new();
        for pid in std::iter::once(self.first).chain(self.others()) {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
            for task in tasks {
                let path = task.ok()?.path();
                let status = std::fs::read_to_string(path.join("status")).ok()?;
                let field = |name: &str| {
                    let mut lines = status.lines();
                    Some(lines.find_map(|line| line.strip_prefix(name))?.trim_start())
                };
                if !field("State:")?.starts_with(['S', 'T', 't', 'Z']) {
                    return None;
                }
                numbers.push(path.file_name()?.to_str()?.parse().ok()?);
                numbers.push(field("voluntary_ctxt_switches:")?.parse().ok()?);
                numbers.push(field("nonvoluntary_ctxt_switches:")?.parse().ok()?);
            }
        }
        Some(numbers)
    }

    /// Returns whether the kernel enforces the limit of processes.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Reaps adopted orphans, so that none stays as a zombie.
    pub fn reap(&self) {
        // In a namespace the first process reaps them.
        if !self.is_contained {
            self.reap_orphans();
        }
    }

    fn reap_orphans(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // Another place waits for the first process, whose unreaped end would hide those of the
        // others.
        for child in children(getpid()) {
            let ended =
                child != self.first && matches!(waitid(WaitId::Pid(child), options), Ok(Some(_)));
            if ended {
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }

    /// Ends all processes but the first, which is expected to have ended.
    ///
    /// Only own children and their process groups get signals. Nobody but this process reaps them,
    /// so until then their pids and group numbers are not reused, and no signal reaches a stranger.
    /// The children of an ended process become own children.
    pub fn end(&self) -> EndedProcess {
        // The first process ends with its namespace. Without one it was killed together with its
        // children.
        let empty_looks = if self.is_contained { 1 } else { EMPTY_LOOKS };
        let until = Instant::now() + END_WITHIN;
        let mut ended = BTreeSet::new();
        let (mut empty, mut looks) = (0, 0);
        loop {
            // An ended process counts as well: it may have forked before.
            let own = self.own_children();
            // `None`: a process of another user, such as that of `sudo`, can get no signal.
            let killed = end_now(&own);
            empty = if killed.is_none() { empty + 1 } else { 0 };
            ended.extend(killed.into_iter().flatten());
            self.reap_orphans();
            if empty >= empty_looks || Instant::now() >= until {
                return EndedProcess {
                    ended: ended.len(),
                    survivors: self.others(),
                };
            }
            looks += 1;
            if empty == 0 && looks < BUSY_LOOKS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        }
    }

    /// Returns the children of this process, including those that have ended.
    fn own_children(&self) -> Vec<Pid> {
        let all = children(getpid());
        let is_own = |pid: &Pid| *pid != self.first && !(self.is_spared)(*pid);
        all.into_iter().filter(is_own).collect()
    }
}

/// Kills the groups first, since one signal stops processes that fork and exit, and then each
/// process. Returns those that were alive. Returns `None` if none of them may get a signal.
fn end_now(own: &[Pid]) -> Option<Vec<NonZeroI32>> {
    let alive: Vec<_> = own.iter().filter(|pid| is_alive(**pid)).collect();
    signal_groups(own, Signal::KILL, None);
    let may_not = |pid: &Pid| kill_process(*pid, Signal::KILL) == Err(Errno::PERM);
    let refused: Vec<_> = own.iter().filter(|pid| may_not(pid)).collect();
    let killed = alive.into_iter().filter(|pid| !refused.contains(pid));
    (refused.len() < own.len()).then(|| killed.map(|pid| pid.as_raw_nonzero()).collect())
}

/// Sends a signal to the groups of these processes, except the own group and the group `but`.
fn signal_groups(of: &[Pid], signal: Signal, but: Option<Pid>) {
    // The system call says 0 for a group outside the process namespace, which is not a valid `Pid`.
    let own = stat(getpid()).and_then(|own| own.group);
    let groups = of.iter().filter_map(|pid| stat(*pid)?.group);
    let groups = groups.filter(|group| ![own, but].contains(&Some(*group)));
    for group in groups.collect::<HashSet<Pid>>() {
        let _ = kill_process_group(group, signal);
    }
}

/// Returns the living descendants of a process, without those that `is_spared` names and the
/// descendants of these.
pub fn descendants(of: Pid, is_spared: fn(Pid) -> bool) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if found.len() >= MOST {
                return found;
            }
            if !is_spared(child) {
                parents.push(child);
                found.extend(Some(child).filter(|child| is_alive(*child)));
            }
        }
    }
    found
}

/// Returns whether a process has a controlling terminal, or serves those of others as tmux does:
/// it leads a session, and children of it have one.
pub fn has_terminal(pid: Pid) -> bool {
    let has = |pid| stat(pid).is_some_and(|found| found.has_terminal);
    let leads = stat(pid).is_some_and(|found| found.session == Some(pid));
    has(pid) || (leads && children(pid).into_iter().any(has))
}

/// Returns the children of a process. The file `children` exists if the kernel has
/// CONFIG_PROC_CHILDREN, as in all distributions; otherwise all processes are searched.
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

/// Parses a pid or group. The kernel writes -1 for fields of a process that is just exiting, and a
/// signal to that group would reach process 1.
fn pid(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number| *number > 0)?;
    Pid::from_raw(number)
}

/// The fields of `/proc/PID/stat` that are needed here (proc_pid_stat(5)).
struct Stat {
    state: char,
    parent: Option<Pid>,
    group: Option<Pid>,
    session: Option<Pid>,
    has_terminal: bool,
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
            session: pid(fields.next()?),
            has_terminal: fields.next()? != "0",
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
        assert!(!found.has_terminal);
        let line = "42 (sh) S 41 42 42 34816 42 4194304 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let found = Stat::parse(line).unwrap();
        assert_eq!((found.session, found.has_terminal), (pid("42"), true));
    }

    /// Credentials are those of a thread, so no other test loses its rights.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_may_not_be_killed_is_given_up() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut sleep = std::process::Command::new("sleep");
        let mut sleep = sleep.arg("1000").spawn().unwrap();
        let child = Pid::from_child(&sleep);
        let as_other = std::thread::spawn(move || {
            let other = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(other, other, other).unwrap();
            end_now(&[child])
        });
        assert_eq!(as_other.join().unwrap(), None);
        assert!(sleep.try_wait().unwrap().is_none());
        assert_eq!(end_now(&[child]), Some(vec![child.as_raw_nonzero()]));
        sleep.wait().unwrap();
        assert_eq!(end_now(&[]), None);
    }
}
