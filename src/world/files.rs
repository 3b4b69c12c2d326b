//! Snapshots of the workspace's files, taken by a separate thread: it finds changes, and compresses
//! and stores the contents. The engine records the trees that it returns.
//!
//! A few small contents go into the transaction of the entry that names their tree. Many, or large
//! ones, are stored before that: in packs, and in separate transactions.
//!
//! Invariant: a returned tree names only contents that it carries or that are durable.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::store::{Cause, NewTree};
use crate::workspace::files::{Coverage, Progress, Unwatched};
use keeper::Keeper;

mod keeper;
mod kept;

/// Stack of the thread, enough for the deepest walk, which calls a function for each folder.
const STACK_BYTES: usize = 16 << 20;

/// Interval at which a waiting snapshot checks whether it still waits until the end.
const AGAIN: Duration = Duration::from_millis(100);

/// The settings of snapshots of a workspace.
#[derive(Debug, Clone)]
pub struct Keeping {
    pub coverage: Coverage,
    /// Why only files that tools write are stored; `None` if all covered files are.
    pub only_written: Option<String>,
    /// Maximum time that an effect waits for its snapshot.
    pub wait: Duration,
    /// Maximum size of the stored contents of all workspaces.
    pub max_bytes: u64,
    pub data_dir: PathBuf,
    /// The maximum number of folders that the kernel watches, or why it watches none.
    pub watch: Result<usize, Unwatched>,
}

/// The files that a snapshot scans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotScope {
    /// All covered files.
    All,
    /// All covered files, and these, inside or outside of the workspace: files that tools wrote or
    /// are about to write.
    AllAnd(Vec<PathBuf>),
    /// Only the file that a tool wrote, inside or outside of the workspace: absolute, with links
    /// followed. The earlier state of the other files is known.
    Written(PathBuf),
}

/// A request for a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotRequest {
    /// The last tree that the log names.
    pub last: Option<String>,
    pub cause: Cause,
    pub scope: SnapshotScope,
    /// The commands that run meanwhile, recorded with the snapshot.
    pub live: Option<String>,
    /// Maximum time for the snapshot.
    pub at_most: Duration,
    /// Scan every covered file, whatever the kernel reported.
    pub is_whole: bool,
}

/// The result of a snapshot.
#[derive(Debug)]
pub enum Snapshot {
    /// Snapshots are off.
    Off,
    /// The files equal this stored tree.
    Same(String),
    /// The files equal this tree, which is stored when it is recorded.
    New(Box<NewTree>),
    /// The files could not be stored, for this reason.
    NotKept(String),
}

struct Request {
    wish: SnapshotRequest,
    /// Where the result goes; `None` for a scan ahead of time, which nobody waits for.
    reply: Option<oneshot::Sender<Snapshot>>,
}

/// The engine's handle of the snapshot thread.
pub struct Files {
    requests: Sender<Request>,
    progress: Arc<Progress>,
    wait: Duration,
    said: Arc<Mutex<Option<String>>>,
    /// Whether the current snapshot is awaited without a time limit.
    waits_on: AtomicBool,
    ahead: Arc<QueuedAhead>,
}

/// Whether a scan ahead of time is queued: a partial one, and a full one. A second one would find
/// nothing more.
type QueuedAhead = [AtomicBool; 2];

impl Drop for Files {
    fn drop(&mut self) {
        self.progress.cancel.store(true, Ordering::Relaxed);
    }
}

impl Files {
    /// Starts the thread. It scans only on request.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(keeping: Keeping) -> std::io::Result<Files> {
        // Unbounded: the engine must not wait. At most two scans ahead of time are queued, and the
        // thread skips snapshots that nobody waits for any more.
        let (requests, wished) = channel();
        let progress = Arc::new(Progress::default());
        let (wait, shared) = (keeping.wait, Arc::clone(&progress));
        let said = Arc::default();
        let to_say = Arc::clone(&said);
        let ahead: Arc<QueuedAhead> = Arc::default();
        let queued = Arc::clone(&ahead);
        thread::Builder::new()
            .name("files".to_string())
            .stack_size(STACK_BYTES)
            .spawn(move || Keeper::new(keeping, shared, to_say).serve(&wished, &queued))?;
        Ok(Files {
            requests,
            progress,
            wait,
            said,
            waits_on: AtomicBool::new(false),
            ahead,
        })
    }

    /// Returns a message on snapshots for a person; each only once.
    pub(super) fn to_say(&self) -> Option<String> {
        self.said.lock().ok()?.take()
    }

    /// Returns how many files the current scan has visited.
    pub fn seen(&self) -> u64 {
        self.progress.files.load(Ordering::Relaxed)
    }

    /// Lets the current snapshot take as long as it needs.
    pub fn lift_time_limit(&self) {
        self.waits_on.store(true, Ordering::Relaxed);
    }

    /// Scans ahead of time, while nobody waits.
    pub(super) fn scan_ahead(&self, wish: SnapshotRequest) {
        let queued = &self.ahead[usize::from(wish.is_whole)];
        if !queued.swap(true, Ordering::Relaxed) {
            let _ = self.requests.send(Request { wish, reply: None });
        }
    }

    /// Takes a snapshot of the current files.
    pub async fn snapshot(&self, wish: SnapshotRequest) -> Snapshot {
        let wait = match wish.cause {
            // A person waits for it, and nothing happens without it.
            Cause::Target | Cause::Restored => wish.at_most,
            Cause::First | Cause::Call | Cause::Outside => self.wait.min(wish.at_most),
        };
        self.waits_on.store(false, Ordering::Relaxed);
        let (reply, mut answer) = oneshot::channel();
        let reply = Some(reply);
        if self.requests.send(Request { wish, reply }).is_err() {
            return Snapshot::NotKept("what looks after them has ended".to_string());
        }
        let mut answered = tokio::time::timeout(wait, &mut answer).await;
        while answered.is_err() && self.waits_on.load(Ordering::Relaxed) {
            answered = tokio::time::timeout(wait.max(AGAIN), &mut answer).await;
        }
        match answered {
            Ok(Ok(snapshot)) => snapshot,
            Ok(Err(_)) => Snapshot::NotKept("what looks after them has ended".to_string()),
            Err(_) => Snapshot::NotKept(format!(
                "it took over {} ms (files.wait_ms) to look at them; the scan continues",
                wait.as_millis()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_two_look_aheads_are_queued() {
        let (requests, wished) = channel();
        let files = Files {
            requests,
            progress: Arc::default(),
            wait: Duration::ZERO,
            said: Arc::default(),
            waits_on: AtomicBool::new(false),
            ahead: Arc::default(),
        };
        let look = |is_whole| {
            files.scan_ahead(SnapshotRequest {
                last: None,
                cause: Cause::Outside,
                scope: SnapshotScope::All,
                live: None,
                at_most: Duration::ZERO,
                is_whole,
            });
        };
        let queued = || {
            wished
                .try_iter()
                .map(|r| r.wish.is_whole)
                .collect::<Vec<_>>()
        };
        for n in 0..10 {
            look(n % 2 == 1);
        }
        assert_eq!(queued(), [false, true]);
        // A scan that was started is not queued any more.
        files.ahead[1].store(false, Ordering::Relaxed);
        look(true);
        look(false);
        assert_eq!(queued(), [true]);
    }
}
