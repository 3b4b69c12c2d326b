//! The users of a worktree. A process holds a shared lock of it from before it reads it until the
//! process exits.
//!
//! Invariant: a worktree is removed only by a process that holds this lock exclusively.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::make_private_folder;

/// Time to wait for a process that is about to exit.
const EXITS_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// The locks of the worktrees that this process uses.
static OWN: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Marks a worktree as used by this process, until it exits or leaves it.
///
/// # Errors
/// The file cannot be made, or another process is removing the worktree.
pub(super) fn enter(file: &Path) -> io::Result<()> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !own.contains_key(file) {
        let lock = open(file)?;
        let until = Instant::now() + EXITS_WITHIN;
        loop {
            match lock.try_lock_shared() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process is removing it"));
                }
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        own.insert(file.to_path_buf(), lock);
    }
    Ok(())
}

/// Ends the use of a worktree by this process. Returns whether the process used it.
pub(super) fn leave(file: &Path) -> bool {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.remove(file).is_some()
}

/// Returns whether any process uses the worktree.
pub(super) fn is_used(file: &Path) -> bool {
    File::open(file).is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Takes the lock exclusively. No process can use the worktree while it is held.
///
/// # Errors
/// Another process uses it, or the lock cannot be taken; for a person.
pub(super) fn exclusive(file: &Path) -> Result<File, String> {
    exclusive_within(file, EXITS_WITHIN, "rewake is open in it")
}

/// Takes a lock exclusively, within this time. `held`: the error if another process holds it.
///
/// # Errors
/// Another process holds it, or it cannot be taken; for a person.
pub(super) fn exclusive_within(file: &Path, within: Duration, held: &str) -> Result<File, String> {
    let failed = |e: io::Error| format!("{} cannot be locked: {e}", file.display());
    let lock = open(file).map_err(failed)?;
    let until = Instant::now() + within;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(held.to_string()),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
    }
}

fn open(file: &Path) -> io::Result<File> {
    if let Some(folder) = file.parent() {
        make_private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_in_use_cannot_be_removed_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("in-use/fix");
        assert!(!is_used(&file));
        enter(&file).unwrap();
        enter(&file).unwrap();
        assert!(is_used(&file));
        assert_eq!(exclusive(&file).unwrap_err(), "rewake is open in it");
        leave(&file);
        assert!(!is_used(&file));
        let alone = exclusive(&file).unwrap();
        assert!(enter(&file).is_err());
        drop(alone);
        enter(&file).unwrap();
        leave(&file);
    }
}
