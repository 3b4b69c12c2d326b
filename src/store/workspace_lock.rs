//! The lock of a workspace: one process at a time restores its files, and no effect starts
//! meanwhile.
//!
//! It is an OS lock on an empty file, so it ends with the process that has it.

use std::fs::{File, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::StoreError;
use super::error::io as io_error;
use super::files::{private_file, private_folder};

/// Maximum time to wait for the lock. No restore takes longer.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// The lock, which is held until this is dropped.
#[derive(Debug)]
pub struct WorkspaceLock {
    _file: File,
}

impl WorkspaceLock {
    /// Takes the lock exclusively. Waits until no other process has it.
    ///
    /// # Errors
    /// `Io` when the lock cannot be taken.
    pub fn exclusive(data_dir: &Path, root: &Path) -> Result<WorkspaceLock, StoreError> {
        take(data_dir, root, File::try_lock)
    }

    /// Takes the lock shared. Waits until no process has it exclusively.
    ///
    /// # Errors
    /// As [`WorkspaceLock::exclusive`].
    pub fn shared(data_dir: &Path, root: &Path) -> Result<WorkspaceLock, StoreError> {
        take(data_dir, root, File::try_lock_shared)
    }
}

fn take(
    data_dir: &Path,
    root: &Path,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<WorkspaceLock, StoreError> {
    let folder = data_dir.join("files").join("locks");
    private_folder(&folder)?;
    let hash = blake3::hash(root.as_os_str().as_bytes()).to_hex();
    let file = private_file(&folder.join(&hash[..32]))?;
    let end = Instant::now() + PATIENCE;
    let failed = |error| io_error(format!("lock the workspace {}", root.display()), error);
    loop {
        match lock(&file) {
            Ok(()) => return Ok(WorkspaceLock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(failed(std::io::Error::other(
                    "another session sets its files back",
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}
