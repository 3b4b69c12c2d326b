//! A thread that syncs the new database while it is written, so that little is left to sync at the
//! end.
//!
//! Invariant: a failed sync of the thread fails the recovery. On Linux the sync before the swap does
//! not report a write error that another descriptor has already reported.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum growth of the file since the last sync, in bytes.
const GROWN: u64 = 8 << 20;

/// The handle of the syncing thread. [`SyncAhead::finish`] or dropping it stops the thread.
pub(super) struct SyncAhead {
    /// The thread ends when this is dropped.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl SyncAhead {
    /// Starts the thread. No other process may have the file open: when the thread closes the file,
    /// this process loses its locks on it.
    pub(super) fn start(path: &Path) -> io::Result<SyncAhead> {
        let file = File::open(path)?;
        let (end, ended) = sync_channel::<()>(0);
        let thread = thread::Builder::new().spawn(move || {
            let mut synced = 0;
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let bytes = file.metadata()?.len();
                if bytes >= synced + GROWN {
                    file.sync_data()?;
                    synced = bytes;
                }
            }
            Ok(())
        })?;
        Ok(SyncAhead {
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Stops the thread, and returns its failure.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        drop(self.end.take());
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(synced)) => synced,
            Some(Err(_)) => Err(io::Error::other("the thread that syncs ended in a panic")),
        }
    }
}

impl Drop for SyncAhead {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
