//! A run of the real binary with what it cost, as the system accounts for it.
//!
//! The figures are read from `/proc` between the end of the process and its burial. The peak
//! of memory is the kernel's own high-water mark, looked at while the process lives: that
//! of `getrusage` would be at least that of the process that started it. Elsewhere than on
//! Linux these figures are missing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// The unit of times in `/proc/PID/stat`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Nothing here takes longer, however busy the machine.
const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, Default, Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    /// Of the process itself.
    pub cpu: Duration,
    /// Of those that it started and waited for: keepers and shells.
    pub cpu_below: Duration,
    pub peak_bytes: u64,
    /// Peak of what it and its keepers take of the memory: shared pages are counted once.
    pub peak_shared_bytes: u64,
    /// Given to the disk, those below included.
    pub written_bytes: u64,
}

/// Runs it to its end, which must be a good one. The peak may miss what happened in the last
/// `look_every`.
pub fn run(mut command: Command, look_every: Duration) -> Cost {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let since = Instant::now();
    let mut child = command.spawn().expect("start rewake");
    let stderr = child.stderr.take().expect("stderr is a pipe");
    let stderr = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let mut cost = Cost::default();
    while !has_ended(&child) {
        cost.peak_bytes = cost.peak_bytes.max(peak_bytes(child.id()));
        cost.peak_shared_bytes = cost.peak_shared_bytes.max(shared_bytes(child.id()));
        assert!(since.elapsed() < LIMIT, "{command:?} takes too long");
        std::thread::sleep(look_every);
    }
    cost.wall = since.elapsed();
    cost.written_bytes = number(&proc(&child, "io"), "write_bytes:").unwrap_or(0);
    (cost.cpu, cost.cpu_below) = cpu(&proc(&child, "stat"));
    let status = child.wait().expect("wait for rewake");
    let stderr = stderr.join().unwrap_or_default();
    assert!(status.success(), "{command:?}: {status}\n{stderr}");
    cost
}

/// The kernel's high-water mark of a process that lives.
pub fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    number(&status, "VmHWM:").unwrap_or(0) * 1024
}

/// What a process that lives has for itself alone: without the pages of the program and of libraries,
/// which all that run the same share. 0 where the system does not say.
pub fn own_bytes(pid: u32) -> u64 {
    let memory = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    number(&memory, "Anonymous:").unwrap_or(0) * 1024
}

/// The proportional set size of an agent and of its keepers.
fn shared_bytes(pid: u32) -> u64 {
    let read = |pid: &str, name: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
    };
    let agent = pid.to_string();
    let children = read(&agent, &format!("task/{pid}/children"));
    // Before its exec a child has the memory of the agent, which would count twice.
    let is_keeper = |pid: &&str| read(pid, "cmdline").starts_with("rewake\0__keep\0");
    let keepers = children.split_whitespace().filter(is_keeper);
    let of = |pid: &str| number(&read(pid, "smaps_rollup"), "Pss:").unwrap_or(0) * 1024;
    keepers.chain([&agent[..]]).map(of).sum()
}

/// It stays a zombie, so that what it cost can still be read.
fn has_ended(child: &Child) -> bool {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options)
        .expect("look at rewake")
        .is_some()
}

fn proc(child: &Child, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap_or_default()
}

fn number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// proc_pid_stat(5): utime, stime, cutime, cstime are fields 14 to 17.
pub fn cpu(stat: &str) -> (Duration, Duration) {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<u32> = behind_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    match ticks[..] {
        [user, system, user_below, system_below] => {
            (TICK * (user + system), TICK * (user_below + system_below))
        }
        _ => Default::default(),
    }
}
