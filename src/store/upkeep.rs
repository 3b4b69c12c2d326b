//! Maintenance when the process is idle, and checks and backups of the database. Maintenance copies
//! the write-ahead log into the database, fills the search index, adds tips to entries of older
//! versions, and writes missing journals.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::database;
use super::error::Doing;
use super::{Check, Store, StoreError};

/// Pages in the write-ahead log (4 MiB) that are worth copying into the database. The later they
/// are copied, the fewer copies are made of a page that changes with every append.
const WORTH_COPYING: i64 = 1024;

/// Number of entries that are worth indexing: larger steps write less in total. A search does not
/// wait for this: it indexes missing entries first.
const WORTH_INDEXING: u64 = 1_000;

/// Number of entries indexed in one step, which takes some tens of milliseconds.
const ROWS_IN_A_STEP: u32 = 500;

/// Number of faults after which `quick_check` stops.
const MAX_FAULTS: u32 = 20;

const PAGES_AT_ONCE: i32 = 1024;
const PAUSE: Duration = Duration::from_millis(5);

impl Store {
    /// Does one step of the maintenance. Call it when there is nothing else to do. Returns whether
    /// there may be more to do.
    pub fn maintain(&mut self) -> Result<bool, StoreError> {
        if waiting_pages(&self.conn, "NOOP")? >= WORTH_COPYING {
            let left = waiting_pages(&self.conn, "PASSIVE")?;
            // A reader may prevent the copy, which is then not retried at once.
            return Ok(left < WORTH_COPYING);
        }
        if self.catch_up()? || self.add_tips()? || self.journal_older()? {
            return Ok(true);
        }
        // This comes last: a damaged index prevents nothing else.
        let is_worth_it = self.indexing || self.index().index_waiting()? >= WORTH_INDEXING;
        if is_worth_it {
            self.indexing = self.index().index_pending(ROWS_IN_A_STEP)? > 0;
        }
        Ok(is_worth_it)
    }

    /// Copies the whole database, as of one instant, to a file that can be opened as a store.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        copy_database(&self.conn, to)
    }
}

/// Runs a checkpoint of this kind. Returns the number of pages of the log that are not in the
/// database.
fn waiting_pages(conn: &Connection, kind: &str) -> Result<i64, StoreError> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |row| {
        let (in_log, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(in_log - copied)
    })
    .doing("copy the log into the database")
}

impl Check<'_> {
    /// Returns the faults of the database file; empty when it is sound. Reads all of it.
    pub fn quick_check(&self) -> Result<Vec<String>, StoreError> {
        let found: Vec<String> = self
            .conn
            .prepare(&format!("PRAGMA quick_check({MAX_FAULTS})"))
            .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
            .doing("check the session store")?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }
}

pub(super) fn copy_database(from: &Connection, to: &Path) -> Result<(), StoreError> {
    let what = "copy the session store";
    let mut copy = database::make(to)?;
    Backup::new(from, &mut copy)
        .and_then(|backup| backup.run_to_completion(PAGES_AT_ONCE, PAUSE, None))
        .doing(what)
}
