//! What is done when nobody waits: the write-ahead log is copied into the database, the search
//! index is filled, entries of older versions get their tips, and sessions without a journal get
//! one. The database is checked, and a copy of it is made.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::database;
use super::error::Doing;
use super::{Check, Store, StoreError};

/// Pages in the write-ahead log (4 MiB) that are worth copying into the database. The
/// longer it waits, the more often a page that changes with every append is written once.
const WORTH_COPYING: i64 = 1024;

/// Entries that are worth indexing: the more at once, the less is written. A search does not
/// wait for them, it indexes what is missing first.
const WORTH_INDEXING: u64 = 1_000;

/// Entries indexed in one step. It takes some tens of milliseconds.
const ROWS_IN_A_STEP: u32 = 500;

/// `quick_check` stops after so many faults.
const MAX_FAULTS: u32 = 20;

const PAGES_AT_ONCE: i32 = 1024;
const PAUSE: Duration = Duration::from_millis(5);

impl Store {
    /// One step of what is to be done; to be called when there is nothing else to do. True
    /// when it did anything: then there may be more.
    pub fn maintain(&mut self) -> Result<bool, StoreError> {
        if waiting_pages(&self.conn, "NOOP")? >= WORTH_COPYING {
            let left = waiting_pages(&self.conn, "PASSIVE")?;
            // A reader may keep it from being copied: that is not tried again and again.
            return Ok(left < WORTH_COPYING);
        }
        if self.catch_up()? || self.add_tips()? || self.journal_older()? {
            return Ok(true);
        }
        // Last: a damaged index keeps nothing else from being done.
        let is_worth_it = self.indexing || self.index().index_waiting()? >= WORTH_INDEXING;
        if is_worth_it {
            self.indexing = self.index().index_pending(ROWS_IN_A_STEP)? > 0;
        }
        Ok(is_worth_it)
    }

    /// A copy of the whole database, of one instant, that can be opened as a store.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        copy_database(&self.conn, to)
    }
}

/// Asks for a checkpoint of this kind: pages of the log that are not in the database.
fn waiting_pages(conn: &Connection, kind: &str) -> Result<i64, StoreError> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |row| {
        let (in_log, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(in_log - copied)
    })
    .doing("copy the log into the database")
}

impl Check<'_> {
    /// What is wrong with the database file; empty when it is sound. Reads all of it.
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
