//! The new database is synced while it is written, so that little is left to be synced when it is
//! complete. Nothing relies on it: what counts is the sync before the swap.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two syncs, and what has to have come meanwhile.
const PAUSE: Duration = Duration::from_millis(100);
const GROWN: u64 = 8 << 20;

/// It ends with this.
pub(super) struct SyncAhead {
    /// The thread ends when this is dropped.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncAhead {
    /// Nobody else has the file open: closing it takes away the locks that this process has on it.
    pub(super) fn start(path: &Path) -> io::Result<SyncAhead> {
        let file = File::open(path)?;
        let (end, ended) = sync_channel::<()>(0);
        let thread = thread::Builder::new().spawn(move || {
            let mut synced = 0;
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let Ok(bytes) = file.metadata().map(|file| file.len()) else {
                    return;
                };
                // A failure is met again where it counts.
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
