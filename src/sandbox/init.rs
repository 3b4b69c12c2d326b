//! The first process of a process namespace, between the stage and the command.
//!
//! The kernel treats that process apart: a signal that it has no handler for does nothing to
//! it, and it inherits every process whose parent has ended. A shell is not made for that. So
//! this process is the first: it starts the command, takes the ends of all others, and tells
//! the stage how the command ended. With it the kernel ends all that is left in the namespace.
//!
//! The stage lives outside of the namespace and inside of the command's group. It waits, deaf
//! to signals that are meant for the command, and then ends as the command did.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait, waitpid};

/// Runs a command in the process namespace that was just made. Returns in the stage and in the
/// first process, with what each of them has to exit with. The report is dropped when the
/// command runs; an error is one for whoever reads it.
pub(super) fn run(command: &mut Command, report: &mut Option<File>) -> Result<ExitCode, String> {
    let (ends, end) = io::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    hear_of_ends();
    let mask = set_mask(libc::SIG_BLOCK, &all_signals());
    match fork().map_err(|e| format!("cannot make a process: {e}"))? {
        Some(first) => {
            *report = None;
            drop(end);
            Ok(follow(first, ends))
        }
        None => {
            drop(ends);
            // The command inherits what is blocked. To this process itself signals do nothing.
            set_mask(libc::SIG_SETMASK, &mask);
            start(command, report, end)
        }
    }
}

/// In the first process.
fn start(
    command: &mut Command,
    report: &mut Option<File>,
    mut end: PipeWriter,
) -> Result<ExitCode, String> {
    let program = command.get_program().to_os_string();
    let child = command
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    *report = None;
    let status = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == child.id() => {
                break status;
            }
            // An orphan, which would stay behind as a zombie.
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ok(ExitCode::FAILURE),
        }
    };
    let _ = end.write_all(&status.as_raw().to_ne_bytes());
    Ok(ExitCode::SUCCESS)
}

/// In the stage: waits until all of the namespace is gone, and ends as the command did.
fn follow(first: Pid, mut ends: PipeReader) -> ExitCode {
    let mut told = [0; 4];
    let told = ends
        .read_exact(&mut told)
        .map(|()| i32::from_ne_bytes(told));
    let own = loop {
        match waitpid(Some(first), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(Some((_, status))) => break status.as_raw(),
            Ok(None) | Err(_) => return ExitCode::FAILURE,
        }
    };
    // The first process was killed: so was the command.
    let status = ExitStatus::from_raw(told.unwrap_or(own));
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        let _ = kill_process(getpid(), signal);
        set_mask(libc::SIG_UNBLOCK, &all_signals());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

/// None: in the new process.
#[allow(unsafe_code)]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: a stage has one thread, so the new process holds no lock of another one and may
    // do what any process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Whoever started us may ignore SIGCHLD, and then nothing would be told of an end.
#[allow(unsafe_code)]
fn hear_of_ends() {
    // SAFETY: sets no handler, only what the kernel does by itself.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

#[allow(unsafe_code)]
fn all_signals() -> libc::sigset_t {
    // SAFETY: a set is plain data, and is filled before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        all
    }
}

/// Which signals are blocked. The ones that were before.
#[allow(unsafe_code)]
fn set_mask(how: i32, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = all_signals();
    // SAFETY: both sets are whole and live longer than the call.
    unsafe { libc::sigprocmask(how, set, &mut before) };
    before
}
