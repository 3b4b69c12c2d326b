//! Whether the files that SQLite has open are still those with their names. Once they were removed
//! or replaced, what is written goes into files that nobody finds again.
//!
//! They are looked at by their names; nothing is opened: see [`super::database`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::database;
use super::error::Doing;

/// Two looks must agree: a file that is being replaced is missing for an instant.
const AGAIN: Duration = Duration::from_millis(50);

/// The files of an open database, as they were when it was opened.
pub(super) struct InUse {
    /// Empty where a file system does not keep the numbers of its files.
    files: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl InUse {
    /// After a first statement, with which SQLite opens the last of them.
    pub(super) fn look(data_dir: &Path) -> InUse {
        if !is_steady(data_dir) {
            return InUse { files: Vec::new() };
        }
        let files = database::of_records(data_dir);
        InUse {
            files: files.map(|path| (path.clone(), number(&path))).collect(),
        }
    }

    /// # Errors
    /// `Moved`.
    pub(super) fn still_there(&self) -> Result<(), StoreError> {
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

/// FUSE gives numbers as it likes.
#[cfg(target_os = "linux")]
fn is_steady(data_dir: &Path) -> bool {
    const FUSE: u64 = 0x6573_5546;
    rustix::fs::statfs(data_dir).is_ok_and(|found| u64::try_from(found.f_type) != Ok(FUSE))
}

#[cfg(not(target_os = "linux"))]
fn is_steady(_: &Path) -> bool {
    true
}

/// Begins a transaction that holds the write lock from the start, so it cannot fail half-way
/// because another process writes.
pub(super) fn begin<'a>(
    conn: &'a Connection,
    in_use: &InUse,
    what: &'static str,
) -> Result<Transaction<'a>, StoreError> {
    in_use.still_there()?;
    Transaction::new_unchecked(conn, TransactionBehavior::Immediate).doing(what)
}
