//! Opening a store that cannot be written: on a read-only file system, in a folder of another user,
//! in a copy.
//!
//! SQLite cannot read a database with a write-ahead log where it can create no file. If that log
//! has no pages, the database is complete, and is read as it is. Otherwise database and log are
//! copied to a temporary folder, and the copy is opened.
//!
//! Invariant: nothing in the data folder is changed, and nothing there is locked.

use std::path::Path;
use std::time::Duration;

use super::database::Copied;
use super::open::{Parts, set_up};
use super::own_copy::OwnCopy;
use super::{Store, StoreError, database, migrate};

const WHAT: &str = "read the session store";

/// Maximum size of a database that is copied, in bytes.
const MAX_COPY_BYTES: u64 = 2 << 30;

/// Number of attempts to copy it while another process writes to it.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

impl Store {
    /// Opens the store for reading only, without writing anything beside it.
    ///
    /// # Errors
    /// `Unreadable` when it is too large to be copied, or changed during each attempt.
    pub fn open_read_only(data_dir: &Path) -> Result<Store, StoreError> {
        if !database::has_log(data_dir) {
            let files = database::files_in_use(data_dir);
            let conn = set_up(database::open_unchanging(data_dir)?)?;
            // This check runs the first statement.
            if migrate::is_current(&conn)? && !database::has_log(data_dir) {
                return Ok(Store::of(Parts {
                    conn,
                    files,
                    data_dir,
                    lock: None,
                }));
            }
        }
        open_copy(data_dir)
    }

    /// Makes the store searchable: the newest entries have to be put into the index, in a copy if
    /// necessary.
    ///
    /// # Errors
    /// As [`Store::open_read_only`].
    pub fn into_searchable(self, data_dir: &Path) -> Result<Store, StoreError> {
        // A copy is needed only if entries are not indexed and cannot be added here.
        if !database::is_read_only(&self.conn)? || self.index().index_waiting()? == 0 {
            return Ok(self);
        }
        drop(self);
        open_copy(data_dir)
    }
}

fn open_copy(data_dir: &Path) -> Result<Store, StoreError> {
    let folder = copied(data_dir)?;
    let mut store = Store::open(folder.path())?;
    store.packs = super::packs::folder(data_dir);
    store.copy = Some(folder);
    Ok(store)
}

fn copied(data_dir: &Path) -> Result<OwnCopy, StoreError> {
    let unreadable = |why: String| StoreError::Unreadable {
        what: WHAT.to_string(),
        why,
    };
    let bytes = database::bytes(data_dir);
    if bytes > MAX_COPY_BYTES {
        return Err(unreadable(format!(
            "it cannot be written, and with {:.1} GB it is too large for a temporary copy",
            bytes as f64 / 1e9
        )));
    }
    let folder = OwnCopy::new().map_err(|e| super::error::io("make a temporary folder", e))?;
    for _ in 0..TRIES {
        match database::copy_to(data_dir, folder.path())? {
            Copied::Whole => return Ok(folder),
            Copied::Changing => std::thread::sleep(PAUSE),
        }
    }
    Err(unreadable(
        "another process writes in it all the time".into(),
    ))
}
