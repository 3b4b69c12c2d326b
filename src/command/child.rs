//! Stopping of a subagent. Its keeper alone could end only the subagent's process, and the commands
//! that the subagent runs would continue.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::run::{Runs, Stopped};
use crate::core::signal::Signal;
use crate::store::{Store, StoreError, now_ms};

/// Time limit for a subagent to end its commands after the signal to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Origin of the signal.
const ORIGIN: &str = "task";

impl Runs {
    /// Sends the subagent the signal to stop, so that it ends its commands and records the stop in
    /// its log. Blocks until its keeper has recorded the end. The keeper ends a subagent that does
    /// not stop in time.
    pub(super) fn stop_child(&self, run: &str, session: &str) -> io::Result<Stopped> {
        if let Err(error) = self.request_stop(session) {
            tracing::warn!(session, %error, "a task was not told to stop");
            return self.stop_process(run);
        }
        let until = Instant::now() + STOPS_WITHIN;
        while Instant::now() < until {
            match self.ended(run) {
                Ok(None) => sleep(LOOK_EVERY),
                Ok(Some(_)) => return Ok(Stopped::Asked),
                Err(_) => break,
            }
        }
        self.stop_process(run)
    }

    fn request_stop(&self, session: &str) -> Result<(), StoreError> {
        // Run folders are in the data folder.
        let Some(data_dir) = self.root().parent() else {
            return Ok(());
        };
        let mut store = Store::open(data_dir)?;
        store
            .inbox_mut()
            .signal(session, ORIGIN, now_ms(), |seen| Signal::Stop { seen })?;
        Ok(())
    }
}
