//! Facts from the system about processes: this boot, this binary, and the processes that remain of
//! a command whose keeper was killed.
//!
//! Linux answers exactly, from `/proc`: everything that the keeper started is in the keeper's
//! process session, even in other process groups. On other systems only the command's first process
//! group is known.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::status::Begun;

/// Time between asking a command to end and killing it.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Interval at which a group is checked for being gone.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Returns the arguments after `word`, if that is the first argument of this process.
pub(super) fn arguments_after(word: &str) -> Option<impl Iterator<Item = OsString>> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == word).then_some(args)
}

/// Returns the ID of this boot of the machine. Empty when the system has none: then no command
/// counts as started in this boot, and nothing is run again.
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

/// Returns when the machine was started, in milliseconds since 1970, UTC. `None` on systems other
/// than Linux.
pub fn booted_ms() -> Option<i64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds: i64 = stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|at| at.trim().parse().ok())?;
    seconds.checked_mul(1000)
}

/// Returns the path of this program, even if an update replaced its file meanwhile.
pub fn own_exe() -> io::Result<PathBuf> {
    let same = PathBuf::from("/proc/self/exe");
    if same.exists() {
        return Ok(same);
    }
    std::env::current_exe()
}

/// Makes the kernel report the ends of our children. The process that started us may ignore
/// SIGCHLD, and we would inherit that. An empty handler replaces it, and unlike ignoring the signal
/// it is not inherited.
pub fn watch_child_exits() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, unread).map(drop)
}

pub(super) fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// Sends a signal to a group. It is fine if the group is already gone.
pub(super) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = pid(group) {
        let _ = kill_process_group(group, signal);
    }
}

/// Ends the processes that a killed keeper left: asks them, and then kills those that remain.
/// Blocks up to [`GRACE`]. Returns whether there were any.
pub(super) fn end_survivors_of(begun: &Begun) -> bool {
    let first = survivors_of(begun);
    for group in &first {
        signal_group(*group, Signal::TERM);
    }
    let kill_at = Instant::now() + GRACE;
    while !survivors_of(begun).is_empty() && Instant::now() < kill_at {
        std::thread::sleep(TICK);
    }
    for group in survivors_of(begun) {
        signal_group(group, Signal::KILL);
    }
    !first.is_empty()
}

/// Returns when a living process was started, in the kernel's unit.
#[cfg(target_os = "linux")]
pub(super) fn started(pid: u32) -> Option<u64> {
    Stat::of(pid).filter(Stat::is_alive).map(|stat| stat.start)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn started(_pid: u32) -> Option<u64> {
    None
}

/// Returns the process that started this one, or that adopted it.
#[cfg(target_os = "linux")]
pub(super) fn parent(pid: u32) -> Option<u32> {
    Stat::of(pid).map(|stat| stat.parent)
}

/// Returns the parent of this process, by its pid in `/proc`.
#[cfg(target_os = "linux")]
pub(super) fn own_parent() -> Option<u32> {
    own_stat().map(|stat| stat.parent)
}

#[cfg(target_os = "linux")]
fn own_stat() -> Option<Stat> {
    Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Returns the leader of the process session of this process. In a container that is often a
/// process outside of it, which has no pid here; getsid(2) returns 0 then.
#[cfg(target_os = "linux")]
pub(super) fn session_leader() -> Option<u32> {
    let own = own_stat()?;
    (own.session != 0).then_some(own.session)
}

/// Returns the living process groups of a command whose keeper is dead.
#[cfg(target_os = "linux")]
pub(super) fn survivors_of(begun: &Begun) -> Vec<u32> {
    // The kernel reuses a pid only when no process, group or session has it. So another process
    // with the keeper's pid means that the keeper's session is empty.
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
pub(super) fn survivors_of(begun: &Begun) -> Vec<u32> {
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

    /// The name of the program, in parentheses, may itself contain parentheses and spaces.
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
