//! The end of a sub-agent that somebody wants stopped. Its keeper alone could only end its process,
//! and the commands that it runs would go on.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::run::{Runs, Stopped};
use crate::core::signal::Signal;
use crate::store::{Store, StoreError, now_ms};

/// How long one that was told to stop may take to end its commands.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who tells it.
const ORIGIN: &str = "task";

impl Runs {
    /// It is told, so that it ends what it runs and its log says that it was stopped. Blocks until
    /// its keeper wrote down its end; one that does not obey in time is ended by its keeper.
    pub(super) fn stop_child(&self, run: &str, session: &str) -> io::Result<Stopped> {
        if let Err(error) = self.tell_to_stop(session) {
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

    fn tell_to_stop(&self, session: &str) -> Result<(), StoreError> {
        // Run folders lie in the data folder.
        let Some(data_dir) = self.root().parent() else {
            return Ok(());
        };
        let mut store = Store::open(data_dir)?;
        store.signal(session, ORIGIN, now_ms(), |seen| Signal::Stop { seen })?;
        Ok(())
    }
}
