//! The processes between a keeper and its command in a process namespace.
//!
//! ```text
//! keeper ── stage ── bound ── first ── command
//!             │        │        └ pid 1 of the namespace that the command sees
//!             │        └ pid 1 of a namespace around it, whose `pid_max` limits the processes
//!             └ outside of both; ends as the command did
//! ```
//!
//! All are made by forking the process that sets up the sandbox. The bound is left out where the
//! kernel has one `pid_max` for the whole machine.
//!
//! The kernel treats pid 1 specially: a signal without a handler does nothing to it, and it
//! inherits every process whose parent has ended. A shell is not made for that. So the first
//! process starts the command, reaps all others, and kills the remaining ones when the command
//! ends. It reports the status and the number of processes that it killed.
//!
//! Invariant: nothing of a namespace outlives the stage, and the stage does not outlive the process
//! that started it. The kernel ensures both: each of the three gets SIGKILL when its parent ends,
//! and a namespace ends with its pid 1.
//!
//! Invariant: none of them has an open descriptor of the command. So the end of a pipe is noticed
//! as if they did not exist.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open, wait, waitpid,
};

use super::kernel::Kernel;
use super::namespaces::own_processes;

/// File with the last pid that was given in a namespace. The reader's namespace counts, not that of
/// the mount.
const LAST_NUMBER: &str = "/proc/sys/kernel/ns_last_pid";

/// File with the first pid that no process gets.
const MOST_NUMBERS: &str = "/proc/sys/kernel/pid_max";

/// The kernel uses pids below this one only once.
const RESERVED: u32 = 300;

/// Time for the processes that a command left running to end. A process that waits for a dead disk
/// cannot be killed, and must not delay the result.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// The process that started the stage, and the pipe on which the stage reports how many processes
/// ended with the command.
#[derive(Debug)]
pub(super) struct Parent {
    pub pid: Option<Pid>,
    pub left: Option<OwnedFd>,
}

/// The first process of a namespace, before it starts the command.
pub(super) struct First {
    /// Pipe on which it reports to the stage.
    ends: PipeWriter,
    /// The signals that are blocked for the command.
    mask: libc::sigset_t,
}

/// Forks into the process namespace that was just created. Returns only in the first process of it.
/// An error may come from any of the processes, which must report it.
pub(super) fn enter(kernel: &Kernel, processes: u32, parent: &Parent) -> Result<First, String> {
    let outside = Outside::look();
    let (ends, end) = io::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    // The process that started us may ignore SIGCHLD, and then no end would be reported.
    set_default(libc::SIGCHLD);
    let mask = set_mask(libc::SIG_BLOCK, &all_signals());
    end_with_parent(parent.pid);
    if let Some(child) = fork()? {
        drop(end);
        follow(child, ends, parent.left.as_ref());
    }
    drop(ends);
    end_with_stage(&end)?;
    if kernel.process_limit && outside.is_own_limit() {
        limit_numbers(processes)?;
        own_processes().map_err(|e| format!("cannot make a process namespace: {e}"))?;
        if let Some(child) = fork()? {
            bound(child, end);
        }
    }
    if kernel.process_numbers {
        let most = read_number(MOST_NUMBERS).unwrap_or(outside.most);
        let first = first_number(outside.own, outside.most, most);
        write_number(LAST_NUMBER, first.saturating_sub(1))
            .map_err(|e| format!("cannot choose the numbers of processes: {e}"))?;
    }
    Ok(First { ends: end, mask })
}

impl First {
    /// Forks. Returns in the process that becomes the command.
    pub(super) fn start(mut self) -> Result<(), String> {
        let Some(command) = fork()? else {
            set_mask(libc::SIG_SETMASK, &self.mask);
            return Ok(());
        };
        close_all_but(&[self.ends.as_raw_fd()]);
        let status = wait_for_command(command);
        let _ = self.ends.write_all(&status.to_ne_bytes());
        let ended = kill_namespace();
        let _ = self.ends.write_all(&ended.to_ne_bytes());
        exit_with(0)
    }
}

/// Returns the status of the command, and reaps orphans meanwhile. Runs in the first process.
fn wait_for_command(command: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => return status.as_raw(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => exit_with(1),
        }
    }
}

/// Kills all other processes of the namespace. The kernel kills them in one step, so none can
/// escape by forking. Returns their number.
fn kill_namespace() -> u32 {
    kill_all();
    let mut ended = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some(_)) => ended += 1,
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return ended,
        }
    }
}

/// Waits in the bound. If the first process was killed, so was the command.
fn bound(first: Pid, mut end: PipeWriter) -> ! {
    close_all_but(&[end.as_raw_fd()]);
    match wait_for(first) {
        Some(0) => {}
        status => {
            let _ = end.write_all(&status.unwrap_or(1 << 8).to_ne_bytes());
        }
    }
    exit_with(0)
}

/// Waits for a child and returns its raw status.
fn wait_for(child: Pid) -> Option<i32> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(Some((_, status))) => return Some(status.as_raw()),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Waits in the stage until the namespace is gone, and ends as the command did.
fn follow(child: Pid, mut ends: PipeReader, left: Option<&OwnedFd>) -> ! {
    let kept: Vec<i32> = left.map(AsRawFd::as_raw_fd).into_iter().collect();
    let kept = [&kept[..], &[ends.as_raw_fd()]].concat();
    close_all_but(&kept);
    // A terminal may stop the process group of the command, and the waiting shell must notice that.
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        set_mask(libc::SIG_UNBLOCK, &one_signal(signal));
    }
    let status = read_i32(&mut ends);
    let until = Instant::now() + GONE_WITHIN;
    let mut ended = 0;
    if status.is_some() && is_readable(&ends, until) {
        ended = read_i32(&mut ends).unwrap_or(0);
    }
    let own = match status {
        Some(_) => wait_until(child, until),
        // The first process was killed: so was the command.
        None => wait_for(child),
    };
    if let Some(left) = left {
        let _ = rustix::io::write(left, &ended.to_ne_bytes());
    }
    let status = ExitStatus::from_raw(status.or(own).unwrap_or(1 << 8));
    if let Some(signal) = status.signal() {
        set_default(signal);
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(getpid(), signal);
        }
        set_mask(libc::SIG_UNBLOCK, &one_signal(signal));
    }
    exit_with(status.code().unwrap_or(1))
}

/// Returns the raw status of a child if it ends in time.
fn wait_until(child: Pid, until: Instant) -> Option<i32> {
    if let Ok(process) = pidfd_open(child, PidfdFlags::empty())
        && !is_readable(&process, until)
    {
        return None;
    }
    wait_for(child)
}

fn is_readable(fd: &impl std::os::fd::AsFd, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn read_i32(from: &mut PipeReader) -> Option<i32> {
    let mut bytes = [0; 4];
    let read = from.read_exact(&mut bytes);
    read.ok().map(|()| i32::from_ne_bytes(bytes))
}

/// The values that the stage has outside of the namespaces.
struct Outside {
    /// The pid of the stage.
    own: u32,
    /// The value of [`MOST_NUMBERS`].
    most: u32,
    limit: Option<std::fs::File>,
}

impl Outside {
    fn look() -> Outside {
        Outside {
            own: std::process::id(),
            most: read_number(MOST_NUMBERS).unwrap_or(u32::MAX),
            limit: std::fs::File::open(MOST_NUMBERS).ok(),
        }
    }

    /// Returns whether a write to that file affects only the caller's namespace. A kernel before
    /// 6.14 has one limit for the whole machine, and then both files are the same.
    fn is_own_limit(&self) -> bool {
        let inode = |file: &std::fs::File| file.metadata().ok().map(|found| found.ino());
        let (Some(outside), Ok(inside)) = (&self.limit, std::fs::File::open(MOST_NUMBERS)) else {
            return false;
        };
        inode(outside) != inode(&inside)
    }
}

/// The features of a process namespace.
#[derive(Debug, Default)]
pub(super) struct TriedProcesses {
    /// Whether pids can be chosen.
    pub numbers: bool,
    /// Whether the number of processes can be limited.
    pub limit: bool,
}

/// Tries the process namespace that was just created in its first process. That process is forked
/// like the one of a command: a program that is executed for an ordinary user has no capabilities.
/// `None`: there is no such namespace.
pub(super) fn try_processes() -> Option<TriedProcesses> {
    let outside = Outside::look();
    let (mut answer, mut writer) = io::pipe().ok()?;
    let Some(child) = fork().ok()? else {
        // Its writes are only for a namespace that ends with it.
        if getpid().as_raw_nonzero().get() == 1 {
            let tried = try_numbers(&outside);
            let _ = writer.write_all(&[u8::from(tried.numbers), u8::from(tried.limit)]);
        }
        exit_with(0)
    };
    drop(writer);
    let mut bytes = [0; 2];
    let read = answer.read_exact(&mut bytes);
    wait_for(child);
    let [numbers, limit] = bytes.map(|byte| byte == 1);
    read.is_ok().then_some(TriedProcesses { numbers, limit })
}

fn try_numbers(outside: &Outside) -> TriedProcesses {
    let numbers = write_number(LAST_NUMBER, RESERVED).is_ok();
    let most = read_number(MOST_NUMBERS).filter(|_| outside.is_own_limit());
    let limit = most.is_some_and(|most| write_number(MOST_NUMBERS, most).is_ok());
    TriedProcesses {
        numbers,
        // A command then gets a second namespace below this one.
        limit: limit && own_processes().is_ok(),
    }
}

/// Limits the number of processes below this one, which is in a separate namespace, to `processes`
/// besides the first. One more is possible, so that a count notices the excess. Threads count too.
fn limit_numbers(processes: u32) -> Result<(), String> {
    let most = RESERVED.saturating_add(processes).saturating_add(2);
    write_number(MOST_NUMBERS, most)
        // Otherwise pids below the reserved ones would be used too, once.
        .and_then(|()| write_number(LAST_NUMBER, RESERVED))
        .map_err(|e| format!("cannot limit the processes of a command: {e}"))
}

/// Returns the pid of a command's first process. Commands share a folder for temporary files, and
/// `$TMPDIR/x.$$` must be another file for each. So the pid follows from that of the stage, which
/// the machine reuses only after a long time. It is far from the pids outside, so a PID file from
/// there names nobody in the namespace.
fn first_number(outside: u32, most_outside: u32, most: u32) -> u32 {
    match most / most_outside.max(1) {
        0 | 1 => {
            let room = most.saturating_sub(RESERVED).max(1);
            RESERVED + (outside.saturating_sub(RESERVED) % room + room / 2) % room
        }
        times => most_outside + outside * (times - 1),
    }
}

fn read_number(path: &str) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn write_number(path: &str, number: u32) -> io::Result<()> {
    std::fs::write(path, number.to_string())
}

/// Makes the kernel kill this process when its parent ends. `None`: it may outlive its parent.
fn end_with_parent(parent: Option<Pid>) {
    let Some(parent) = parent else { return };
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        exit_with(1);
    }
}

/// Does the same in a child of the stage, where the parent has no pid. Only the stage reads from
/// the other side of `end`.
fn end_with_stage(end: &PipeWriter) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| format!("cannot end with the process that keeps the command: {e}"))?;
    let mut fds = [PollFd::new(end, PollFlags::empty())];
    let is_alone = poll(&mut fds, Some(&Timespec::default())).is_ok()
        && fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR));
    if is_alone { exit_with(1) } else { Ok(()) }
}

/// Closes all descriptors but `kept`, and keeps the command from inspecting this process.
#[allow(unsafe_code)]
fn close_all_but(kept: &[i32]) {
    super::conceal();
    let mut kept: Vec<u32> = kept
        .iter()
        .filter_map(|fd| u32::try_from(*fd).ok())
        .collect();
    kept.sort_unstable();
    let mut from = 0;
    // Without the list in `/proc`, which may lack this process.
    for end in kept.into_iter().chain([u32::MAX]) {
        if from < end {
            // SAFETY: what owned these descriptors is not used in this process any more.
            unsafe { libc::syscall(libc::SYS_close_range, from, end - 1, 0) };
        }
        from = end.saturating_add(1);
    }
    // The forked program's signal handlers must not run here.
    for signal in 1..=libc::SIGSYS {
        set_default(signal);
    }
}

/// Exits without running the exit handlers of the forked program, or flushing its buffers.
#[allow(unsafe_code)]
pub(super) fn exit_with(code: i32) -> ! {
    // SAFETY: ends this process, and nothing of it is used after that.
    unsafe { libc::_exit(code) }
}

/// Forks. Returns `None` in the new process.
#[allow(unsafe_code)]
pub(super) fn fork() -> Result<Option<Pid>, String> {
    // SAFETY: a stage has one thread, so the new process holds no lock of another one and may
    // do what any process may.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            Err(format!("cannot make a process: {error}"))
        }
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Kills all processes of the namespace but the caller.
#[allow(unsafe_code)]
fn kill_all() {
    if getpid().as_raw_nonzero().get() == 1 {
        // SAFETY: as the first process of a namespace it reaches nobody outside.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

#[allow(unsafe_code)]
pub(super) fn set_default(signal: i32) {
    // SAFETY: sets no handler, only what the kernel does by itself.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[allow(unsafe_code)]
pub(super) fn all_signals() -> libc::sigset_t {
    // SAFETY: a set is plain data, and is filled before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        all
    }
}

#[allow(unsafe_code)]
fn one_signal(signal: i32) -> libc::sigset_t {
    // SAFETY: a set is plain data, and is emptied before it is used.
    unsafe {
        let mut one: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut one);
        libc::sigaddset(&mut one, signal);
        one
    }
}

/// Changes the blocked signals and returns the previous ones.
#[allow(unsafe_code)]
pub(super) fn set_mask(how: i32, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = all_signals();
    // SAFETY: both sets are whole and live longer than the call.
    unsafe { libc::sigprocmask(how, set, &mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_commands_are_apart_and_none_is_one_outside() {
        for (most_outside, most) in [(32_768, 4_194_304), (65_536, 4_194_304)] {
            let mut last = most_outside - 1;
            for outside in 1..most_outside {
                let first = first_number(outside, most_outside, most);
                assert!(first > last && first < most, "{outside}: {first}");
                last = first;
            }
        }
    }

    #[test]
    fn where_all_numbers_are_in_use_outside_they_are_far_from_the_own_one() {
        for most in [32_768, 4_194_304] {
            let mut seen = std::collections::HashSet::new();
            for outside in RESERVED..most {
                let first = first_number(outside, most, most);
                assert!((RESERVED..most).contains(&first), "{outside}: {first}");
                assert!(first.abs_diff(outside) >= most / 3, "{outside}: {first}");
                assert!(seen.insert(first), "{outside}");
            }
        }
    }
}
