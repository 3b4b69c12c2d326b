//! Verifying the files of a bundle.

use std::collections::BTreeMap;

use super::BundleError;
use crate::core::rewind::is_never_written;
use crate::core::tree::path_text;
use crate::store::MovedTree;

/// Maximum number of trees that one is made of.
const MAX_DELTAS: u32 = 512;

/// The files of a bundle that were verified.
#[derive(Debug, Default)]
pub struct CheckedFiles {
    /// The trees by their names, with the number of trees before each.
    trees: BTreeMap<String, u32>,
    /// Number of contents.
    pub contents: u64,
    /// Size of the contents, bytes.
    pub bytes: u64,
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

    pub(super) fn content(&mut self, bytes: &[u8], place: &str) -> Result<(), BundleError> {
        if !self.trees.is_empty() {
            let why = "a content follows a tree, which may name it";
            return Err(BundleError::refused(place, why));
        }
        self.contents += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn tree(&mut self, tree: &MovedTree, place: &str) -> Result<(), BundleError> {
        let delta = tree
            .delta()
            .map_err(|why| BundleError::damaged(place, why))?;
        for path in delta.0.keys() {
            if let Some(why) = refusal(path) {
                let path = path_text(path);
                return Err(BundleError::refused(
                    place,
                    format!("the path {path} {why}"),
                ));
            }
        }
        let depth = match &tree.parent {
            None => Some(0),
            Some(parent) => self.trees.get(parent).map(|depth| depth + 1),
        };
        match depth.filter(|depth| *depth < MAX_DELTAS) {
            Some(depth) => {
                self.trees.insert(tree.name.clone(), depth);
                Ok(())
            }
            None => {
                let why = "the tree that it is a difference to is not there, or too far away";
                Err(BundleError::damaged(place, why))
            }
        }
    }
}

/// Returns why a path cannot be one of an export. An absolute one is a file that a tool wrote outside
/// of the workspace. It is never placed.
fn refusal(path: &[u8]) -> Option<&'static str> {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let leaves = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    if path.contains(&0) || below.split(|byte| *byte == b'/').any(leaves) {
        return Some("leads outside of its folder");
    }
    let is_relative = !path.starts_with(b"/");
    (is_relative && is_never_written(path)).then_some("belongs to version control")
}
