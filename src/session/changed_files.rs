//! Changes of the workspace's files by calls: the files, and the numbers of lines.
//!
//! Changes of others between two calls do not count. Only the tree before a call and the tree after
//! it are compared.

use std::collections::BTreeMap;
use std::time::Instant;

use super::FileChange;
use super::file_change::COUNTED_FOR;
use crate::core::entry::{Record, Seq};
use crate::core::file_name::path_text;
use crate::core::text::count;
use crate::core::tree::{Change, Delta, Item, PathBytes, Tree, diff, tree_at};
use crate::store::{Store, StoreError};

/// Maximum number of files whose lines are counted. For more files, only their number is given.
const MAX_COUNTED: usize = 200;

/// Number of entries before and after a call that are searched for its trees.
const AROUND: u64 = 50;

/// The names of the trees before and after an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreePair {
    pub(super) before: String,
    pub(super) after: String,
}

impl TreePair {
    /// Returns the trees around a call that started and finished with these entries. `None`: the
    /// files are not known there. `records` are consecutive records of the log. Only those that
    /// start something or name a tree are needed.
    pub fn around(records: &[Record], started: Seq, finished: Seq) -> Option<TreePair> {
        Some(TreePair {
            before: tree_at(records, started.checked_sub(1)?)?.to_string(),
            after: tree_at(records, finished)?.to_string(),
        })
    }
}

/// Files that were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    /// Names for a person and `+12 −3`, by path. Empty if there are too many files.
    pub files: Vec<(String, String)>,
    /// Number of changed files.
    pub count: usize,
    /// Numbers of added and removed lines. `None`: no changed file is text.
    pub lines: Option<(usize, usize)>,
}

impl ChangedFiles {
    /// Returns the files that differ over these pairs of trees, one after the other. `None`: a tree
    /// is not stored any more.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of(store: &Store, pairs: &[TreePair]) -> Result<Option<ChangedFiles>, StoreError> {
        let mut paths = BTreeMap::<PathBytes, (Option<Item>, Option<Item>)>::new();
        let mut last: Option<(String, Tree)> = None;
        for TreePair { before, after } in pairs {
            if before == after {
                continue;
            }
            let tree = match last.take() {
                Some((name, tree)) if name == *before => Some(tree),
                _ => store.snapshots().tree(before)?.map(|known| known.tree),
            };
            let Some(mut tree) = tree else {
                return Ok(None);
            };
            let Some(delta) = delta(store, before, &tree, after)? else {
                return Ok(None);
            };
            for (path, change) in &delta.0 {
                let to = match change {
                    // Nobody wrote or removed it: only the ignore rules changed.
                    Change::Put { entered: true, .. } | Change::Gone { left: true } => continue,
                    Change::Put { item, .. } => Some(item.clone()),
                    Change::Gone { .. } => None,
                };
                match paths.get_mut(path) {
                    Some(known) => known.1 = to,
                    None => drop(paths.insert(path.clone(), (tree.0.get(path).cloned(), to))),
                }
            }
            tree.apply(&delta);
            last = Some((after.clone(), tree));
        }
        paths.retain(|_, (from, to)| from != to);
        counted(store, &paths).map(Some)
    }

    /// Returns a short text: `+12 −3 in 4`, or nothing if no file was changed.
    pub fn in_short(&self) -> String {
        match (self.count, self.lines) {
            (0, _) => String::new(),
            (files, Some((added, removed))) => format!("+{added} −{removed} in {files}"),
            (files, None) => count(files, "file"),
        }
    }
}

/// Returns the files that a call changed, given its `Started` and `Finished` in a session. `None`:
/// the files are not known there.
///
/// # Errors
/// The store cannot be read.
pub fn changed_by_call(
    store: &Store,
    session: &str,
    (started, finished): (Seq, Seq),
) -> Result<Option<ChangedFiles>, StoreError> {
    let around = started.saturating_sub(AROUND)..=finished.saturating_add(AROUND);
    let records = store.records(session, around)?;
    match TreePair::around(&records, started, finished) {
        Some(pair) => ChangedFiles::of(store, &[pair]),
        None => Ok(None),
    }
}

/// Returns the difference from one tree to another. `None`: the other one is not stored.
fn delta(
    store: &Store,
    before: &str,
    tree: &Tree,
    after: &str,
) -> Result<Option<Delta>, StoreError> {
    if let Some(delta) = store.snapshots().delta_from(after, before)? {
        return Ok(Some(delta));
    }
    let after = store.snapshots().tree(after)?;
    Ok(after.map(|after| diff(tree, &after.tree)))
}

fn counted(
    store: &Store,
    paths: &BTreeMap<PathBytes, (Option<Item>, Option<Item>)>,
) -> Result<ChangedFiles, StoreError> {
    let mut found = ChangedFiles {
        count: paths.len(),
        ..ChangedFiles::default()
    };
    if paths.len() > MAX_COUNTED {
        return Ok(found);
    }
    let began = Instant::now();
    for (path, (from, to)) in paths {
        if began.elapsed() > COUNTED_FOR {
            return Ok(ChangedFiles {
                count: paths.len(),
                ..ChangedFiles::default()
            });
        }
        let change = FileChange::of(store, from.as_ref(), to.as_ref())?;
        if let Some((added, removed)) = change.lines {
            let (more, less) = found.lines.unwrap_or_default();
            found.lines = Some((more + added, less + removed));
        }
        found.files.push((path_text(path), change.figures()));
    }
    Ok(found)
}
