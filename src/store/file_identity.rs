//! A check that the files which SQLite has open are still those with their names. After they were
//! removed or replaced, new entries would go into files that nobody finds again.
//!
//! The check uses only their paths and opens nothing: see [`super::database`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::database;
use super::error::Doing;

/// Pause before a second look, which must agree: a file that is being replaced is missing for an
/// instant.
const AGAIN: Duration = Duration::from_millis(50);

/// The files of an open database, as they were when it was opened.
pub(super) struct InUse {
    /// The paths with device and inode numbers. Empty on a file system whose inode numbers change.
    files: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl InUse {
    /// Looks at the files. Call it after the first statement, with which SQLite opens the last of
    /// them.
    pub(super) fn look(data_dir: &Path) -> InUse {
        if !is_steady(data_dir) {
            return InUse { files: Vec::new() };
        }
        let files = database::of_records(data_dir);
        InUse {
            files: files.map(|path| (path.clone(), number(&path))).collect(),
        }
    }

    /// Checks that the files still have their names.
    ///
    /// # Errors
    /// `Moved`.
    pub(super) fn check_names(&self) -> Result<(), StoreError> {
        let gone = || self.files.iter().find(|(path, at)| number(path) != *at);
        if gone().is_none() {
            return Ok(());
        }
        std::thread::sleep(AGAIN);
        match gone() {
            None => Ok(()),
            Some((path, _)) => Err(StoreError::Moved { path: path.clone() }),
        }
    }
}

fn number(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

/// Returns whether inode numbers stay the same. FUSE file systems may change them.
#[cfg(target_os = "linux")]
fn is_steady(data_dir: &Path) -> bool {
    const FUSE: u64 = 0x6573_5546;
    rustix::fs::statfs(data_dir).is_ok_and(|found| u64::try_from(found.f_type) != Ok(FUSE))
}

#[cfg(not(target_os = "linux"))]
fn is_steady(_: &Path) -> bool {
    true
}

/// Begins a transaction that holds the write lock from the start. So it cannot fail half-way
/// because another process writes.
pub(super) fn begin<'a>(
    conn: &'a Connection,
    in_use: &InUse,
    what: &'static str,
) -> Result<Transaction<'a>, StoreError> {
    in_use.check_names()?;
    Transaction::new_unchecked(conn, TransactionBehavior::Immediate).doing(what)
}
