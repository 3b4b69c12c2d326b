//! The takeover of a session from another process. That process is asked to leave and does so in
//! order. Its commands keep running.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::{SessionError, SessionList};
use crate::store::{SessionLock, StoreError};

const PAUSE: Duration = Duration::from_millis(20);

impl SessionList {
    /// Waits until the session is free. The other process gets `patience` to record that it leaves.
    /// The session is not locked meanwhile, so opening it may still fail.
    ///
    /// # Errors
    /// [`StoreError::Held`] if the other process does not leave, is not known, or is this one.
    pub fn take_over(&self, session: &str, patience: Duration) -> Result<(), SessionError> {
        let holder = || SessionLock::holder(&self.data_dir, session);
        let end = Instant::now() + patience;
        let mut is_asked = false;
        while self.is_in_use(session) {
            let pid = holder();
            if pid == Some(std::process::id()) || Instant::now() > end {
                return Err(SessionError::Store(StoreError::Held {
                    pid,
                    session: session.to_string(),
                    since_ms: None,
                }));
            }
            // A lock without an ID belongs to a process that has just started or is leaving, so it
            // is checked again.
            if let Some(pid) = pid
                && !is_asked
            {
                is_asked = ask(pid, || holder() == Some(pid));
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

/// Asks only the process that holds the session to leave. The pidfd refers to one process, and that
/// one was still the holder after the pidfd was opened. Returns false if no process was asked.
#[cfg(target_os = "linux")]
fn ask(pid: u32, is_holder: impl Fn() -> bool) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    pidfd_open(pid, PidfdFlags::empty())
        .is_ok_and(|process| is_holder() && pidfd_send_signal(process, Signal::TERM).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn ask(pid: u32, is_holder: impl Fn() -> bool) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| is_holder() && rustix::process::kill_process(pid, Signal::TERM).is_ok())
}
