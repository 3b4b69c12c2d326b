//! A session that another process has, taken over: that process is asked to leave, which it
//! does in order, and what it runs goes on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{SessionError, Surroundings};
use crate::store::{SessionLock, StoreError};

/// The other process gets so long: it records that it leaves.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

impl Surroundings {
    /// Returns when the session is free. Nobody holds it for us meanwhile: opening it may
    /// still find it taken.
    ///
    /// # Errors
    /// [`StoreError::Held`] when the other process does not leave, or is not known.
    pub fn take_over(&self, session: &str) -> Result<(), SessionError> {
        let session = self.open_store()?.find(session)?.id;
        let data_dir = &self.paths.data_dir;
        let holder = SessionLock::holder(data_dir, &session);
        let pid = holder.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if self.is_in_use(&session)
            && let Some(pid) = pid
        {
            // One that is gone already is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while self.is_in_use(&session) {
            if Instant::now() > end {
                return Err(SessionError::Store(StoreError::Held {
                    session,
                    pid: holder,
                    since_ms: None,
                }));
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}
