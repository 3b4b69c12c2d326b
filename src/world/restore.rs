//! Setting files back on this machine: the two trees and the contents from the store, the lock of
//! the workspace, and the work itself on a thread of its own.
//!
//! It is not stopped: what is half set back is of no use to anybody. A kill leaves each path as it was
//! or as it is to be, and the next start does the rest.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::oneshot;

use crate::core::entry::KeptWhy;
use crate::core::tree::{PathBytes, diff, path_text};
use crate::store::{Store, StoreError, WorkspaceLock};
use crate::workspace::files::{self, Done, Order, Point};

/// How far it is, shared with who waits for it.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    /// Paths that are done.
    pub done: AtomicU64,
    /// All that differ.
    pub all: AtomicU64,
}

/// What is to be set back: the names of two trees.
#[derive(Debug, Clone)]
pub struct RestoreOrder {
    pub before: String,
    pub target: String,
    pub progress: Arc<RestoreProgress>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct RestoreEnd {
    pub written: u64,
    pub removed: u64,
    /// Those, for a person.
    pub paths: Vec<String>,
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// Why nothing was done.
    pub why: Option<String>,
}

impl RestoreEnd {
    /// Nothing was done.
    pub fn nothing(why: impl Into<String>) -> RestoreEnd {
        RestoreEnd {
            why: Some(why.into()),
            ..RestoreEnd::default()
        }
    }
}

pub(super) async fn restore(data_dir: PathBuf, root: PathBuf, order: RestoreOrder) -> RestoreEnd {
    let (reply, answer) = oneshot::channel();
    let started = thread::Builder::new()
        .name("restore".to_string())
        .spawn(move || reply.send(work(&data_dir, &root, &order)));
    if let Err(error) = started {
        return RestoreEnd::nothing(format!("there can be no thread for it: {error}"));
    }
    let ended = answer.await;
    ended.unwrap_or_else(|_| RestoreEnd::nothing("what set them back has ended"))
}

fn work(data_dir: &Path, root: &Path, order: &RestoreOrder) -> RestoreEnd {
    let done = locked(data_dir, root, order).unwrap_or_else(|why| Done {
        why: Some(why),
        ..Done::default()
    });
    let paths = done.written.iter().chain(&done.removed);
    RestoreEnd {
        written: done.written.len() as u64,
        removed: done.removed.len() as u64,
        paths: paths.map(|path| path_text(path)).collect(),
        kept: done.kept,
        why: done.why,
    }
}

fn locked(data_dir: &Path, root: &Path, order: &RestoreOrder) -> Result<Done, String> {
    let said = |error: StoreError| error.to_string();
    let store = Store::open(data_dir).map_err(said)?;
    let tree = |name: &str| match store.tree(name).map_err(said)? {
        Some(known) => Ok(known.tree),
        None => Err(format!("the tree {name} is not kept any more")),
    };
    let (before, target) = (tree(&order.before)?, tree(&order.target)?);
    let all = diff(&before, &target).0.len() as u64;
    order.progress.all.store(all, Ordering::Relaxed);
    // What a tree says of paths holds in its own folder, and nothing is written into another one.
    match store.tree_root(&order.target).map_err(said)? {
        Some(of) if of == root => {}
        Some(of) => return Err(format!("the tree is of another folder: {}", of.display())),
        None => return Err("the folder of a tree is not known".to_string()),
    }
    let _lock = WorkspaceLock::alone(data_dir, root).map_err(said)?;
    let mut content = |hash: &_| store.content(hash).map_err(|e| e.to_string());
    let done = files::restore(&mut Order {
        root,
        before: &before,
        target: &target,
        id: &order.target,
        content: &mut content,
        at: &mut |point| {
            if point == Point::AfterPlace {
                order.progress.done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        },
    });
    Ok(done.unwrap_or_default())
}

/// Returns when the file at a path last changed: UTC, milliseconds since 1970.
pub fn changed_ms(path: &Path) -> Option<i64> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(
        found
            .ctime()
            .saturating_mul(1_000)
            .saturating_add(found.ctime_nsec() / 1_000_000),
    )
}
