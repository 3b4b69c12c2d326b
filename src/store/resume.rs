//! The checks before a session is resumed, in one order.
//!
//! Invariant: a session is resumed only with every entry that its journal has.

use rusqlite::params;

use super::error::Doing;
use super::head::read_head;
use super::{Store, StoreError};

const WHAT: &str = "take the session up";

/// Maximum number of rows that are searched for an entry after the head.
const MAX_ROWS: i64 = 10_000;

impl Store {
    /// Restores the entries that only the journal has. The caller has the lock of the session, and
    /// reads it afterwards.
    ///
    /// # Errors
    /// `Elsewhere`, `Gap` and `BackInTime`: resuming could repeat an effect. `Damaged` and
    /// `Corrupt`: the database contradicts itself or its journal.
    pub fn take_up(&mut self, session: &str) -> Result<(), StoreError> {
        self.check_other_machine(session)?;
        self.history().check_no_gap(session)?;
        self.check_missing_entries(session)?;
        let restored = self.restore_from_journal(session);
        if restored.as_ref().is_err_and(StoreError::is_damage) {
            // Loading the whole session names the damaged entry.
            self.load_each(session, |_| Ok::<(), StoreError>(()))?;
        }
        restored?;
        // The restore may have found a gap in the journal.
        self.history().check_no_gap(session)?;
        self.ends_at_its_head(session)
    }

    /// Fails when the session has entries after its head: the row of the session is older than they
    /// are. A write-ahead log that lost its end leaves this state.
    fn ends_at_its_head(&self, session: &str) -> Result<(), StoreError> {
        let head = read_head(&self.conn, session)?;
        let sql = "SELECT EXISTS (SELECT 1 FROM entries
           WHERE id > ?1 AND id <= ?1 + ?3 AND session = ?2)";
        let is_behind: bool = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row(params![head.row, head.key, MAX_ROWS], |row| row.get(0)))
            .doing(WHAT)?;
        match is_behind {
            false => Ok(()),
            true => Err(self.explain(StoreError::damaged(format!(
                "session {session} has entries after entry {}, where its row ends",
                head.seq()
            )))),
        }
    }
}
