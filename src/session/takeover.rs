//! A session that another process has, taken over: that process is asked to leave, which it
//! does in order, and what it runs goes on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::{SessionError, SessionList};
use crate::store::{SessionLock, StoreError};

const PAUSE: Duration = Duration::from_millis(20);

impl SessionList {
    /// Returns when the session is free; the other process gets `patience` to record that it
    /// leaves. Nobody holds the session for us meanwhile: opening it may still find it taken.
    ///
    /// # Errors
    /// [`StoreError::Held`] when the other process does not leave, is not known, or is this one.
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
            // Without a name it has just come or is just leaving: it is looked at again.
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

/// Only the process that holds the session, whatever happens meanwhile: what the system gave
/// us stands for one process, which was the holder after we had it. False when nobody was asked.
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
