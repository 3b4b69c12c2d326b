//! What the system says of processes: this boot, this binary, and who is left of a command
//! whose keeper was killed.
//!
//! Linux answers exactly, from `/proc`: everything the keeper started is in the keeper's
//! session, also when it made process groups of its own. Elsewhere only the command's first
//! process group is known.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::status::Begun;

/// Between asking a command to end and killing it.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How often it is looked whether a group is gone.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Names this boot of the machine. Empty when the system does not say: then no command counts
/// as started in this boot, and nothing is run again.
pub fn boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| read_boot_id().unwrap_or_default().trim().to_string())
        .clone()
}

#[cfg(target_os = "linux")]
fn read_boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

#[cfg(not(target_os = "linux"))]
fn read_boot_id() -> Option<String> {
    let output = std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "kern.bootsessionuuid"])
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()
}

/// When the machine was started: UTC, milliseconds since 1970. Only Linux says it in a file.
pub fn booted_ms() -> Option<i64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds: i64 = stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|at| at.trim().parse().ok())?;
    seconds.checked_mul(1000)
}

/// This program, also when its file was replaced by an update meanwhile.
pub fn own_exe() -> io::Result<PathBuf> {
    let same = PathBuf::from("/proc/self/exe");
    if same.exists() {
        return Ok(same);
    }
    std::env::current_exe()
}

/// Sees to it that the ends of our children are told to us: whoever started us may ignore
/// SIGCHLD, and we would inherit that. A handler that does nothing is in its place, and unlike
/// ignoring it is not handed on.
pub fn hear_of_children() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, unread).map(drop)
}

pub(super) fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// A group that is gone is no error: that is what was wanted.
pub(super) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = pid(group) {
        let _ = kill_process_group(group, signal);
    }
}

/// Ends what a killed keeper left behind: asks, and kills what does not obey. Blocks up to
/// [`GRACE`]. True when there was anything.
pub(super) fn end_left_behind(begun: &Begun) -> bool {
    let first = left_behind(begun);
    for group in &first {
        signal_group(*group, Signal::TERM);
    }
    let kill_at = Instant::now() + GRACE;
    while !left_behind(begun).is_empty() && Instant::now() < kill_at {
        std::thread::sleep(TICK);
    }
    for group in left_behind(begun) {
        signal_group(group, Signal::KILL);
    }
    !first.is_empty()
}

/// When a process was started, in the kernel's own unit.
#[cfg(target_os = "linux")]
pub(super) fn started(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.start)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn started(_pid: u32) -> Option<u64> {
    None
}

/// The process that started this one, or took it over from there.
#[cfg(target_os = "linux")]
pub(super) fn parent(pid: u32) -> Option<u32> {
    Stat::of(pid).map(|stat| stat.parent)
}

/// The same of this process. The number is one of the list of processes that is read.
#[cfg(target_os = "linux")]
pub(super) fn own_parent() -> Option<u32> {
    own_stat().map(|stat| stat.parent)
}

#[cfg(target_os = "linux")]
fn own_stat() -> Option<Stat> {
    Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Who leads the session of processes that this one is in. In a container that is often a process
/// outside of it, which has no number here; getsid(2) gives 0 then.
#[cfg(target_os = "linux")]
pub(super) fn session_leader() -> Option<u32> {
    let own = own_stat()?;
    (own.session != 0).then_some(own.session)
}

/// The groups that are alive of what a dead keeper started.
#[cfg(target_os = "linux")]
pub(super) fn left_behind(begun: &Begun) -> Vec<u32> {
    // The kernel gives a pid away again only when no process, group or session bears it. So
    // another process with the keeper's pid means that the keeper's session is empty.
    if let Some(stat) = Stat::of(begun.keeper)
        && Some(stat.start) != begun.keeper_start
    {
        return Vec::new();
    }
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut groups: Vec<u32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != begun.keeper)
        .filter_map(Stat::of)
        .filter(|stat| stat.session == begun.keeper && stat.is_alive())
        .map(|stat| stat.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(not(target_os = "linux"))]
pub(super) fn left_behind(begun: &Begun) -> Vec<u32> {
    let alive = |group: &u32| {
        pid(*group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    };
    begun.group.filter(alive).into_iter().collect()
}

/// The fields of `/proc/PID/stat` that are needed here (proc_pid_stat(5)).
#[cfg(target_os = "linux")]
struct Stat {
    state: char,
    parent: u32,
    group: u32,
    session: u32,
    start: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of the program, in brackets, may itself hold brackets and spaces.
    fn parse(line: &str) -> Option<Stat> {
        let (_, rest) = line.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Stat {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
            start: fields.nth(15)?.parse().ok()?,
        })
    }

    fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_named_as_it_likes() {
        let line = "42 (a) b (c) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.group), (1, 40));
        assert_eq!((stat.session, stat.start), (39, 98765));
        assert!(stat.is_alive());
        assert!(Stat::parse("42 (a").is_none());
    }

    #[test]
    fn this_boot_has_a_name_that_stays() {
        assert!(!boot_id().is_empty());
        assert_eq!(boot_id(), boot_id());
    }
}
