//! Counts of entries that were restored from the journal and not reported in their session yet. The
//! command that restores entries may differ from the one that resumes the session.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::error::Doing;
use super::row::{count, int};
use super::{History, StoreError};

const WHAT: &str = "keep what was put back";

const UNTOLD: &str = "brought:";

/// Returns the name of the row in `meta` with the count of this session.
fn row_name(session: &str) -> String {
    format!("{UNTOLD}{session}")
}

/// Adds to the count of a session, in the transaction that restores the entries.
pub(super) fn add_restored_count(
    tx: &Transaction<'_>,
    session: &str,
    entries: u64,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = value + ?2",
    )
    .and_then(|mut s| s.execute(params![row_name(session), int(entries)]))
    .doing(WHAT)
    .map(drop)
}

/// Removes the count: the session was resumed, and the restored entries were reported in it.
pub(super) fn clear_restored_count(tx: &Transaction<'_>, session: &str) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM meta WHERE name = ?1")
        .and_then(|mut s| s.execute([row_name(session)]))
        .doing(WHAT)
        .map(drop)
}

/// Returns the total of all sessions.
pub(super) fn total_restored_count(conn: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(sum(value), 0) FROM meta WHERE name GLOB ?1 || '*'";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([UNTOLD], |row| row.get(0)))
        .doing(WHAT)
        .map(count)
}

impl History<'_> {
    /// Returns the number of entries that any process restored into this session from the journal
    /// since it was last resumed.
    pub fn restored_entry_count(&self, session: &str) -> Result<u64, StoreError> {
        self.conn
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")
            .and_then(|mut s| {
                s.query_row([row_name(session)], |row| row.get(0))
                    .optional()
            })
            .doing(WHAT)
            .map(|entries| entries.map_or(0, count))
    }
}
