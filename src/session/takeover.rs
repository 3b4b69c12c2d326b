//! A session that another process has, taken over: that process is asked to leave, which it
//! does in order, and what it runs goes on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::{SessionError, Surroundings};
use crate::store::{SessionLock, StoreError};

const PAUSE: Duration = Duration::from_millis(20);

impl Surroundings {
    /// Returns when the session is free; the other process gets `patience` to record that it
    /// leaves. Nobody holds the session for us meanwhile: opening it may still find it taken.
    ///
    /// # Errors
    /// [`StoreError::Held`] when the other process does not leave, is not known, or is this one.
    pub fn take_over(&self, session: &str, patience: Duration) -> Result<(), SessionError> {
        let session = self.open_store()?.find(session)?.id;
        let asked = self.ask_to_leave(&session);
        let end = Instant::now() + patience;
        while self.is_in_use(&session) {
            if asked.is_none() || Instant::now() > end {
                return Err(SessionError::Store(StoreError::Held {
                    pid: SessionLock::holder(&self.paths.data_dir, &session),
                    session,
                    since_ms: None,
                }));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// `None` when nobody was asked.
    fn ask_to_leave(&self, session: &str) -> Option<()> {
        let holder = || SessionLock::holder(&self.paths.data_dir, session);
        let pid = holder().filter(|pid| *pid != std::process::id())?;
        ask(Pid::from_raw(i32::try_from(pid).ok()?)?, || {
            holder() == Some(pid)
        })
    }
}

/// Only the process that holds the session, whatever happens meanwhile: what the system gave
/// us stands for one process, which was the holder after we had it.
#[cfg(target_os = "linux")]
fn ask(pid: Pid, is_holder: impl Fn() -> bool) -> Option<()> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_holder().then(|| pidfd_send_signal(process, Signal::TERM).ok())?
}

#[cfg(not(target_os = "linux"))]
fn ask(pid: Pid, is_holder: impl Fn() -> bool) -> Option<()> {
    is_holder().then(|| rustix::process::kill_process(pid, Signal::TERM).ok())?
}
