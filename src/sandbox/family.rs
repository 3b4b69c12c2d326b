//! All that a command started: the descendants of its keeper.
//!
//! A keeper that adopts orphans ([`adopt_orphans`]) is the parent of every process whose parent
//! ended, also of those that left the session. So no descendant is lost, and none can escape.

use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid,
};

/// How long ending a family may take. One that makes processes faster than they are ended is
/// ended with the machine's help only.
const END_WITHIN: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(2);

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
}

impl Family {
    /// The family of this process. `first` is the pid of the command, which is its child.
    /// `None` when that cannot be a pid.
    pub fn of(first: u32) -> Option<Family> {
        let first = i32::try_from(first).ok().and_then(Pid::from_raw)?;
        Some(Family { first })
    }

    /// Those alive, without the first.
    pub fn others(&self) -> Vec<Pid> {
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

    /// Takes the ends of adopted orphans, so that none is left behind as a zombie.
    pub fn reap(&self) {
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

    /// Ends all but the first, which is expected to be over. How many there were.
    pub fn end(&self) -> usize {
        let until = Instant::now() + END_WITHIN;
        let mut ended = std::collections::BTreeSet::new();
        loop {
            self.reap();
            let others = self.others();
            if others.is_empty() || Instant::now() >= until {
                return ended.len();
            }
            // Stopped first: what stands still makes no more.
            for signal in [Signal::STOP, Signal::KILL] {
                for pid in &others {
                    let _ = kill_process(*pid, signal);
                }
            }
            ended.extend(others.iter().map(|pid| pid.as_raw_nonzero()));
            std::thread::sleep(TICK);
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
    pids.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent.as_raw_nonzero().get()))
        .collect()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// State and parent: proc_pid_stat(5).
fn stat(pid: Pid) -> Option<(char, i32)> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X' | 'x'))
}
