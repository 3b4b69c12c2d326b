//! The files of the workspace, looked after by a thread of its own: it finds what changed, and
//! compresses and keeps the contents. What it gives is recorded by the engine.
//!
//! Few small contents go into the transaction of the entry that names their tree. Many, or large
//! ones, are kept before that: in packs, and in transactions of their own.
//!
//! Invariant: a tree that is given out names only contents that it carries or that are durable.

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

/// A walk goes down so many folders at most, each a call of a function.
const STACK_BYTES: usize = 16 << 20;

/// Who wants to wait until the end is asked again after this whether that is still so.
const AGAIN: Duration = Duration::from_millis(100);

/// What is kept of a workspace's files, and how.
#[derive(Debug, Clone)]
pub struct Keeping {
    pub coverage: Coverage,
    /// `None`: all that is covered. Else only what file tools write is kept, and why.
    pub only_written: Option<String>,
    /// An effect waits so long for its snapshot.
    pub wait: Duration,
    /// For the contents of all workspaces, as stored.
    pub max_bytes: u64,
    pub data_dir: PathBuf,
    /// Whether what changed is told by the kernel: of at most so many folders.
    pub watch: Result<usize, Unwatched>,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All that is covered.
    All,
    /// The same, and these files, wherever they are: those that tools wrote, or are about to.
    AllAnd(Vec<PathBuf>),
    /// The file that a tool wrote, wherever it is. Absolute, its links followed. Of the others it
    /// is known what they were before.
    Written(PathBuf),
}

/// What is wanted of a snapshot.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The last tree that the log names.
    pub last: Option<String>,
    pub cause: Cause,
    pub scope: Scope,
    /// The commands that run meanwhile, to be named with it.
    pub live: Option<String>,
    /// It is given up after this time.
    pub at_most: Duration,
    /// Every covered file is looked at, whatever the kernel told.
    pub is_whole: bool,
}

/// What the files were, found now.
#[derive(Debug)]
pub enum Snapshot {
    /// They are not looked after.
    Off,
    /// They are as in this tree, which is kept.
    Same(String),
    /// They are as in this tree, which is kept once it is recorded.
    New(Box<NewTree>),
    /// They could not be kept: why.
    NotKept(String),
}

struct Request {
    wish: Wish,
    /// `None`: nobody waits, it is only to be quicker next time.
    reply: Option<oneshot::Sender<Snapshot>>,
}

/// The thread, from the engine's side.
pub struct Files {
    requests: Sender<Request>,
    progress: Arc<Progress>,
    wait: Duration,
    said: Arc<Mutex<Option<String>>>,
    /// Whoever waits now wants to wait until the end.
    waits_on: AtomicBool,
    ahead: Arc<QueuedAhead>,
}

/// Whether a look-ahead is queued, and a whole one. A second one would find nothing more.
type QueuedAhead = [AtomicBool; 2];

impl Drop for Files {
    fn drop(&mut self) {
        self.progress.cancel.store(true, Ordering::Relaxed);
    }
}

impl Files {
    /// The thread begins to look when it is asked to.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(keeping: Keeping) -> std::io::Result<Files> {
        // Unbounded: the engine must not wait. At most two look-aheads are queued, and the thread
        // skips snapshots that nobody waits for any more.
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

    /// What a person is to know of how the files are looked after; each once.
    pub(super) fn to_say(&self) -> Option<String> {
        self.said.lock().ok()?.take()
    }

    /// How many files the look that goes on has seen.
    pub fn seen(&self) -> u64 {
        self.progress.files.load(Ordering::Relaxed)
    }

    /// Who waits now, waits until the end.
    pub fn wait_on(&self) {
        self.waits_on.store(true, Ordering::Relaxed);
    }

    /// Looks while nobody waits for it.
    pub(super) fn look_ahead(&self, wish: Wish) {
        let queued = &self.ahead[usize::from(wish.is_whole)];
        if !queued.swap(true, Ordering::Relaxed) {
            let _ = self.requests.send(Request { wish, reply: None });
        }
    }

    /// What the files are now.
    pub async fn snapshot(&self, wish: Wish) -> Snapshot {
        let wait = match wish.cause {
            // A person waits for it, and nothing is done without it.
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
            files.look_ahead(Wish {
                last: None,
                cause: Cause::Outside,
                scope: Scope::All,
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
        // One that was begun is not queued any more.
        files.ahead[1].store(false, Ordering::Relaxed);
        look(true);
        look(false);
        assert_eq!(queued(), [true]);
    }
}
