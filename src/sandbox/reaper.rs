//! The first process of a container, if that is this program.
//!
//! The kernel gives such a process every orphan, and a program that waits only for its own children
//! leaves the orphans as zombies. So the first process starts the program as its child, reaps
//! everything, passes signals on, and ends as the child did. It never takes an exit status for which
//! the child waits.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::init::{all_signals, exit_with, fork, set_default, set_mask};

/// Forks if this is the first process. Returns in the child, or in any other process at once. Call it
/// while there is one thread.
pub fn reap_if_first() {
    if getpid().as_raw_nonzero().get() != 1 {
        return;
    }
    // If the ends of children were ignored, there would be no status to pass on.
    set_default(libc::SIGCHLD);
    let mask = set_mask(libc::SIG_BLOCK, &all_signals());
    if let Ok(Some(child)) = fork() {
        serve(child);
    }
    set_mask(libc::SIG_SETMASK, &mask);
}

/// Reaps and passes signals on until the child has ended.
fn serve(child: Pid) -> ! {
    loop {
        // A signal of the terminal went to the whole group, and so to the child too. A stopped child
        // would wait for ever.
        if let Some((signal, false)) = next_signal()
            && !matches!(
                signal,
                libc::SIGCHLD | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
            )
            && let Some(signal) = Signal::from_named_raw(signal)
        {
            let _ = kill_process(child, signal);
        }
        // Several ends may have been reported as one.
        if let Some(code) = reap(child) {
            exit_with(code);
        }
    }
}

/// Reaps all processes that have ended. Returns the exit code of the child, if it was one of them.
fn reap(child: Pid) -> Option<i32> {
    loop {
        match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child => {
                let signal = status.terminating_signal();
                return Some(match (status.exit_status(), signal) {
                    (Some(code), _) => code,
                    (None, signal) => 128 + signal.unwrap_or_default(),
                });
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Waits for a blocked signal. Returns it, and whether the kernel sent it by itself.
#[allow(unsafe_code)]
fn next_signal() -> Option<(i32, bool)> {
    let all = all_signals();
    // SAFETY: both values are plain data and live longer than the call.
    let (signal, code) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::sigwaitinfo(&all, &mut info), info.si_code)
    };
    (signal > 0).then_some((signal, code == libc::SI_KERNEL))
}
