//! What came into a session from its journal and was not told in it yet. Whoever puts entries
//! back may be another command than the one that takes the session up.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::error::Doing;
use super::row::{count, int};
use super::{History, StoreError};

const WHAT: &str = "keep what was put back";

const UNTOLD: &str = "brought:";

/// The row of `meta` that counts what came into this session and was not told in it yet.
fn untold(session: &str) -> String {
    format!("{UNTOLD}{session}")
}

/// In the transaction that puts them back.
pub(super) fn keep_untold(
    tx: &Transaction<'_>,
    session: &str,
    entries: u64,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = value + ?2",
    )
    .and_then(|mut s| s.execute(params![untold(session), int(entries)]))
    .doing(WHAT)
    .map(drop)
}

/// The session was taken up, and it was told.
pub(super) fn is_told(tx: &Transaction<'_>, session: &str) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM meta WHERE name = ?1")
        .and_then(|mut s| s.execute([untold(session)]))
        .doing(WHAT)
        .map(drop)
}

/// Of all sessions.
pub(super) fn all_untold(conn: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(sum(value), 0) FROM meta WHERE name GLOB ?1 || '*'";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([UNTOLD], |row| row.get(0)))
        .doing(WHAT)
        .map(count)
}

impl History<'_> {
    /// Entries that came into this session from the journal, whoever put them in, since it was
    /// last taken up.
    pub fn brought_into(&self, session: &str) -> Result<u64, StoreError> {
        self.conn
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")
            .and_then(|mut s| s.query_row([untold(session)], |row| row.get(0)).optional())
            .doing(WHAT)
            .map(|entries| entries.map_or(0, count))
    }
}
