//! Other names of stored keys. A hard link or a symbolic link in a workspace leads to the same
//! file, and no rule for paths knows that name. So an open file is compared with the stored keys
//! by device and inode.
//!
//! The list is in this lower room so that all code that opens a file by a name from outside can
//! ask.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Error text for such a file.
pub const IS_KEPT_KEY: &str =
    "it is another name of a file in the folder where keys of model providers are kept";

/// Maximum number of keys to compare with.
const MAX_KEYS: usize = 1_000;

/// Key folders of all configs that this process has loaded. Outside of tests there is one.
static FOLDERS: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// Registers a folder of stored keys.
pub(super) fn know(folder: &Path) {
    let mut folders = FOLDERS.write().unwrap_or_else(PoisonError::into_inner);
    if !folders.iter().any(|known| known == folder) {
        folders.push(folder.to_path_buf());
    }
}

/// Returns whether an open file is a stored key, whatever its name.
pub fn is_stored_key(file: &File) -> bool {
    let folders = FOLDERS.read().unwrap_or_else(PoisonError::into_inner);
    let is = |found: &Metadata| {
        let mut keys = folders.iter().flat_map(|folder| keys_in(folder));
        keys.any(|(_, key)| (key.dev(), key.ino()) == (found.dev(), found.ino()))
    };
    file.metadata().is_ok_and(|found| is(&found))
}

/// Same as [`is_stored_key`] for a file that was opened by its real path, without following links.
/// Only a hard link to a key can have another name then, so most files need no comparison.
pub fn is_linked_key(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() > 1) && is_stored_key(file)
}

/// Returns a key in this folder that has a second name somewhere.
pub fn key_with_other_name(folder: &Path) -> Option<PathBuf> {
    let mut keys = keys_in(folder);
    keys.find(|(_, key)| key.nlink() > 1).map(|(path, _)| path)
}

fn keys_in(folder: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = |path: PathBuf| Some((path.clone(), path.symlink_metadata().ok()?));
    let found = entries.take(MAX_KEYS).filter_map(move |e| found(e.path()));
    found.filter(|(_, metadata)| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_is_known_by_each_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("keys");
        fs::create_dir(&folder).unwrap();
        let key = folder.join("openai");
        let (hard, symbolic) = (dir.path().join("hard"), dir.path().join("symbolic"));
        for path in [&key, &dir.path().join("other")] {
            fs::write(path, "k").unwrap();
        }
        let is = |path: &Path| is_stored_key(&File::open(path).unwrap());
        assert!(!is(&key), "the folder is not known");
        know(&folder);
        assert!(is(&key) && !is(&dir.path().join("other")));
        assert!(!is_linked_key(&File::open(&key).unwrap()));
        assert_eq!(key_with_other_name(&folder), None);
        std::os::unix::fs::symlink(&key, &symbolic).unwrap();
        fs::hard_link(&key, &hard).unwrap();
        assert!(is(&symbolic) && is(&hard));
        assert!(is_linked_key(&File::open(&hard).unwrap()));
        assert_eq!(key_with_other_name(&folder), Some(key));
    }
}
