//! The restore of files on this machine: it reads the two trees and the contents from the store,
//! takes the lock of the workspace, and works on a separate thread.
//!
//! It cannot be stopped: a half restored workspace is useless. A kill leaves each path in its old
//! or its new state, and the next start completes the restore.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::oneshot;

use crate::core::entry::KeptWhy;
use crate::core::file_name::path_text;
use crate::core::tree::{PathBytes, diff};
use crate::store::{Store, StoreError, WorkspaceLock};
use crate::workspace::files::{self, Done, Order, Point};

/// The progress of a restore, shared with the waiting side.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    /// Number of paths that are done.
    pub done: AtomicU64,
    /// Number of all paths that differ.
    pub all: AtomicU64,
}

/// A request to restore files: the names of two trees.
#[derive(Debug, Clone)]
pub struct RestoreOrder {
    pub before: String,
    pub target: String,
    pub progress: Arc<RestoreProgress>,
}

/// The result of a restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreEnd {
    pub written: u64,
    pub removed: u64,
    /// These paths, for a person.
    pub paths: Vec<String>,
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// The reason why nothing was done.
    pub why: Option<String>,
}

impl RestoreEnd {
    /// Returns the result of a restore that did nothing.
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
        return RestoreEnd::nothing(format!("cannot start a thread for it: {error}"));
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
    let tree = |name: &str| match store.snapshots().tree(name).map_err(said)? {
        Some(known) => Ok(known.tree),
        None => Err(format!("the tree {name} is not stored any more")),
    };
    let (before, target) = (tree(&order.before)?, tree(&order.target)?);
    let all = diff(&before, &target).0.len() as u64;
    order.progress.all.store(all, Ordering::Relaxed);
    // The paths of a tree apply to its own folder, and nothing is written into another one.
    match store.snapshots().tree_root(&order.target).map_err(said)? {
        Some(of) if of == root => {}
        Some(of) => return Err(format!("the tree is of another folder: {}", of.display())),
        None => return Err("the folder of a tree is not known".to_string()),
    }
    let _lock = WorkspaceLock::exclusive(data_dir, root).map_err(said)?;
    let mut content = |hash: &_| store.snapshots().content(hash).map_err(|e| e.to_string());
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
