//! Rules that a person allowed for one project. They are in a file in the user's own data folder,
//! named after the canonical path of the project's root. No repository can write it.

use std::path::{Path, PathBuf};

use super::layer::{Layer, read_layer};
use super::worktree::project_root;
use super::{ConfigError, Paths};

/// Folder below the data folder.
pub(super) const FOLDER: &str = "permissions";

/// Length of a name, enough to avoid collisions.
const NAME_DIGITS: usize = 32;

/// Returns the file with the rules of this project.
pub fn file(paths: &Paths, root: &Path) -> PathBuf {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    // If a worktree's project is missing, loading the config fails anyway.
    let root = project_root(paths, &root).unwrap_or(root);
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    let name = format!("{}.toml", &hash[..NAME_DIGITS]);
    paths.data_dir.join(FOLDER).join(name)
}

/// Returns the initial content of a new file.
pub(super) fn beginning(root: &Path) -> String {
    format!("# Rules that were allowed for {root:?}\n\n[permissions]\nallow = []\n")
}

/// Reads a file that may contain rules only.
pub(super) fn read(file: &Path) -> Layer {
    let mut layer = read_layer(file);
    if let Ok(leaves) = &layer.leaves {
        let is_rules = |path: &[String]| path.first().is_some_and(|part| part == "permissions");
        if let Some(leaf) = leaves.iter().find(|leaf| !is_rules(&leaf.path)) {
            let (origin, key) = (&leaf.origin, leaf.path.join("."));
            layer.leaves = Err(ConfigError::new(format!(
                "{origin}: {key} has no place here: this file holds the rules of one project"
            ))
            .with_hint("only [permissions] may stand in it"));
        }
    }
    layer
}
