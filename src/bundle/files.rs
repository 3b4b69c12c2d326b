//! Verifying the files of a bundle.

use std::collections::BTreeMap;

use super::BundleError;
use crate::core::file_name::path_text;
use crate::core::rewind::is_never_written;
use crate::core::tree::ContentHash;
use crate::store::MovedTree;

/// Maximum number of trees that one is made of.
const MAX_DELTAS: u32 = 512;
/// Maximum size in memory of the trees that one is made of, bytes.
const MAX_SIZE: usize = 256 << 20;

/// The files of a bundle that were verified.
#[derive(Debug, Default)]
pub struct CheckedFiles {
    /// The trees by their names, with the number of trees that each is made of, and their size.
    trees: BTreeMap<String, (u32, usize)>,
    /// The contents, with their sizes in bytes.
    pub contents: Vec<(ContentHash, u64)>,
}

impl CheckedFiles {
    /// Returns the number of states of files.
    pub fn states(&self) -> u64 {
        self.trees.len() as u64
    }

    /// Returns whether the bundle has a tree.
    pub(super) fn has(&self, tree: &str) -> bool {
        self.trees.contains_key(tree)
    }

    /// Returns whether a content or a tree came already.
    pub(super) fn have_begun(&self) -> bool {
        !self.trees.is_empty() || !self.contents.is_empty()
    }

    pub(super) fn content(
        &mut self,
        hash: ContentHash,
        bytes: &[u8],
        place: &str,
    ) -> Result<(), BundleError> {
        if !self.trees.is_empty() {
            let why = "a content follows a tree, which may name it";
            return Err(BundleError::refused(place, why));
        }
        self.contents.push((hash, bytes.len() as u64));
        Ok(())
    }

    pub(super) fn tree(&mut self, tree: &MovedTree, place: &str) -> Result<(), BundleError> {
        let (depth, size) = match &tree.parent {
            None => (0, 0),
            Some(parent) => *self.trees.get(parent).ok_or_else(|| {
                let why = "the tree that it is a difference to is not there";
                BundleError::damaged(place, why)
            })?,
        };
        if depth >= MAX_DELTAS {
            return Err(BundleError::refused(place, "a tree is made of too many"));
        }
        let delta = tree
            .delta(MAX_SIZE - size)
            .map_err(|why| BundleError::damaged(place, why))?;
        for path in delta.0.keys() {
            if let Some(why) = path_refusal(path) {
                let path = path_text(path);
                return Err(BundleError::refused(
                    place,
                    format!("the path {path} {why}"),
                ));
            }
        }
        let made_of = (depth + 1, size + delta.size());
        self.trees.insert(tree.name.clone(), made_of);
        Ok(())
    }
}

/// Returns why a path cannot be one of an export. An absolute one is a file that a tool wrote outside
/// of the files that snapshots cover. It is placed only if it is below the root.
pub fn path_refusal(path: &[u8]) -> Option<&'static str> {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let leaves = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    if path.contains(&0) || below.split(|byte| *byte == b'/').any(leaves) {
        return Some("leads outside of its folder");
    }
    let is_relative = !path.starts_with(b"/");
    (is_relative && is_never_written(path)).then_some("belongs to version control")
}
