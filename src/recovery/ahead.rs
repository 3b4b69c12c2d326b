//! A thread that syncs the new database while it is written, so that little is left to sync at the
//! end. Nothing relies on it: only the sync before the swap counts.

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

/// The handle of the syncing thread. Dropping it stops the thread.
pub(super) struct SyncAhead {
    /// The thread ends when this is dropped.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
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
                let Ok(bytes) = file.metadata().map(|file| file.len()) else {
                    return;
                };
                // The failure is ignored. On Linux, the sync before the swap may not report it
                // again.
                if bytes >= synced + GROWN && file.sync_data().is_ok() {
                    synced = bytes;
                }
            }
        })?;
        Ok(SyncAhead {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for SyncAhead {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
