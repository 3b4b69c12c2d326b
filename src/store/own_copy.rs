//! A temporary copy of the store for a process that only reads. It is removed when it is closed.
//! The copy of a killed process is removed by the next process that makes one.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use tempfile::TempDir;

const PREFIX: &str = "rewake-copy-";

/// A file that is locked as long as the copy is used.
const LOCK: &str = "in-use";

/// Minimum age of a copy that may be removed: a younger one may not have its lock yet.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Maximum number of names in the temporary folder that are looked at.
const MAX_LOOKED_AT: usize = 10_000;

#[derive(Debug)]
pub(super) struct OwnCopy {
    folder: TempDir,
    _lock: File,
}

impl OwnCopy {
    /// Creates an empty folder that only this user can read.
    pub(super) fn new() -> io::Result<OwnCopy> {
        let below = std::env::temp_dir();
        sweep(&below);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(below)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        // On a file system without locks, no copy is ever removed as abandoned.
        let _ = lock.try_lock();
        Ok(OwnCopy {
            folder,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the copies of killed processes of this user. A copy that cannot be removed is left to
/// the system.
fn sweep(below: &Path) {
    let names = fs::read_dir(below).into_iter().flatten().flatten();
    for entry in names.take(MAX_LOOKED_AT) {
        let is_copy = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if is_copy && is_left(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether the folder belongs to this user, is old enough, and is not in use.
fn is_left(folder: &Path) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(folder)?;
    let is_own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    // After the clock was set back, a copy counts as new.
    let age = metadata.modified()?.elapsed().unwrap_or_default();
    if !is_own || age < MIN_AGE {
        return Ok(false);
    }
    Ok(File::open(folder.join(LOCK))?.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn copy_in(below: &Path, name: &str, age: Duration) -> File {
        let folder = below.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("rewake.db"), "all that was said").unwrap();
        let lock = File::create_new(folder.join(LOCK)).unwrap();
        let opened = File::open(&folder).unwrap();
        opened.set_modified(SystemTime::now() - age).unwrap();
        lock
    }

    #[test]
    fn only_copies_of_killed_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path();
        let old = 2 * MIN_AGE;
        drop(copy_in(below, "rewake-copy-left", old));
        let in_use = copy_in(below, "rewake-copy-in-use", old);
        in_use.lock().unwrap();
        drop(copy_in(below, "rewake-copy-young", Duration::ZERO));
        drop(copy_in(below, "of-another", old));
        std::os::unix::fs::symlink(below.join("of-another"), below.join("rewake-copy-link"))
            .unwrap();
        sweep(below);
        let is_there = |name: &str| below.join(name).join("rewake.db").exists();
        assert!(!below.join("rewake-copy-left").exists());
        for name in ["in-use", "young", "link"] {
            assert!(is_there(&format!("rewake-copy-{name}")), "{name}");
        }
        assert!(is_there("of-another"));
    }

    #[test]
    fn a_copy_is_locked_as_long_as_it_is_used() {
        let copy = OwnCopy::new().unwrap();
        let lock = File::open(copy.path().join(LOCK)).unwrap();
        assert!(lock.try_lock().is_err());
        let path = copy.path().to_path_buf();
        drop(copy);
        assert!(!path.exists());
    }
}
