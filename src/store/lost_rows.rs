//! Queued messages, signals, unsent words and gaps that were lost with a damaged page, put back from the
//! journal.
//!
//! [`super::mend`] makes a table anew, and does not know where the journal lies. So it notes in
//! `meta` that rows may be missing, in the transaction of the new table. Whoever knows the journal
//! puts them back, before it writes there what waits now.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::error::Doing;
use super::follow::Copies;
use super::gap::{gap_of, keep_gap, sessions_with_gap};
use super::head::read_head;
use super::missing::Gap;
use super::purge::{keep_unused, purged};
use super::waiting::{Became, never_again, put_waiting_back, said_since};
use super::{Store, StoreError};
use crate::journal::folder::sessions;
use crate::journal::state::{State, read_state};

const WHAT: &str = "put back what was lost with a damaged page";

/// Rows of `inbox`, `signals`, `drafts` or of the numbers of the first two may be missing.
const LOST_WAITING: &str = "lost:waiting";
/// Rows of `meta` itself may be missing.
const LOST_META: &str = "lost:meta";

/// In the transaction that makes this table anew.
pub(super) fn note_lost(tx: &Transaction<'_>, table: &str) -> rusqlite::Result<()> {
    let name = match table {
        "inbox" | "signals" | "drafts" | "sqlite_sequence" => LOST_WAITING,
        "meta" => LOST_META,
        _ => return Ok(()),
    };
    tx.execute("INSERT OR REPLACE INTO meta VALUES (?1, 1)", [name])
        .map(drop)
}

/// The highest number that any row of `table` is known to have had, for a table of the numbers
/// that is made anew: by what can be read of that one, and by the rows. A journal may know a higher one.
pub(super) fn highest_number(
    table: &str,
    numbers: &[Vec<Value>],
    rows: &[Vec<Value>],
    now_ms: i64,
) -> [Value; 2] {
    let number = |value: Option<&Value>| match value {
        Some(Value::Integer(number)) => *number,
        _ => 0,
    };
    let is_of_it = |row: &&Vec<Value>| row.first() == Some(&Value::Text(table.into()));
    let given = numbers
        .iter()
        .filter(is_of_it)
        .map(|row| number(row.get(1)));
    let rows = rows.iter().map(|row| number(row.first()));
    // The clock, for where nothing can be read: no number is as high as the time.
    let highest = given.chain(rows).max().unwrap_or(0).max(now_ms);
    [table.to_string().into(), highest.into()]
}

fn is_noted(conn: &Connection, name: &str) -> Result<bool, StoreError> {
    conn.prepare_cached("SELECT 1 FROM meta WHERE name = ?1")
        .and_then(|mut s| s.query_row([name], |_| Ok(())).optional())
        .doing(WHAT)
        .map(|found| found.is_some())
}

impl Store {
    /// What the journal has of rows that were lost with a damaged page. It costs one look where
    /// nothing was lost.
    pub(super) fn put_back_lost(&self, copies: &Copies) -> Result<(), StoreError> {
        if !is_noted(&self.conn, LOST_WAITING)? {
            return Ok(());
        }
        let (mut messages, mut signals) = (0, 0);
        for session in sessions(&copies.journal.folder, usize::MAX) {
            let folder = copies.journal.of(&session);
            let Some((state, _)) = read_state(&folder) else {
                continue;
            };
            messages = messages.max(state.highest_message());
            signals = signals.max(state.highest_signal());
            if !state.inbox.is_empty() || !state.signals.is_empty() || state.input.is_some() {
                let back = self.put_back_lost_of(&session, &folder)?;
                self.put_back.set(self.put_back.get() + back);
            }
        }
        let tx = self.write_lost()?;
        never_again(&tx, "inbox", messages)?;
        never_again(&tx, "signals", signals)?;
        forget(&tx, LOST_WAITING)?;
        tx.commit().doing(WHAT)
    }

    /// How many messages, signals and words came back.
    fn put_back_lost_of(&self, session: &str, folder: &Path) -> Result<u64, StoreError> {
        let tx = self.write_lost()?;
        let head = match read_head(&tx, session) {
            Ok(head) => head,
            // Its rows come in with its entries.
            Err(StoreError::NotFound { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        // As it is now that nobody can change it.
        let Some((state, blobs)) = read_state(folder) else {
            return Ok(0);
        };
        let said = match said_since(&tx, &head, state.length) {
            // Whether a message was said cannot be read: it waits once more, and is not lost.
            Err(StoreError::Corrupt { .. } | StoreError::Damaged { .. }) => Vec::new(),
            said => said?,
        };
        let back = put_waiting_back(&tx, (&state, &blobs), head.key, &Became::default(), &said)?;
        tx.execute(
            "UPDATE sessions SET unfinished = 1 WHERE key = ?1 AND unfinished = 0
               AND EXISTS (SELECT 1 FROM inbox WHERE session = ?1)",
            [head.key],
        )
        .doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        Ok(back)
    }

    /// Rows of `meta`: the gaps that journals know, and the row ids that tombstones know. Then
    /// the journals are told of gaps that they do not know yet.
    pub(super) fn put_back_lost_meta(
        &self,
        copies: &mut Copies,
        data_dir: &Path,
    ) -> Result<(), StoreError> {
        if is_noted(&self.conn, LOST_META)? {
            let tx = self.write_lost()?;
            for session in sessions(&copies.journal.folder, usize::MAX) {
                let gap = read_state(&copies.journal.of(&session)).and_then(|(state, _)| state.gap);
                if let Some(gap) = gap {
                    keep_gap(&tx, &gap.of(&session))?;
                }
            }
            keep_unused(&tx, purged(data_dir).unused)?;
            forget(&tx, LOST_META)?;
            tx.commit().doing(WHAT)?;
        }
        for session in sessions_with_gap(&self.conn)? {
            let gap: Option<Gap> = gap_of(&self.conn, &session)?;
            let known = read_state(&copies.journal.of(&session)).and_then(|(state, _)| state.gap);
            if known.map(|row| row.of(&session)) != gap
                && let Err(error) = self.write_waiting(copies, &session)
            {
                copies.fails(&error);
            }
        }
        Ok(())
    }

    fn write_lost(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate).doing(WHAT)
    }
}

fn forget(tx: &Transaction<'_>, name: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM meta WHERE name = ?1", [name])
        .doing(WHAT)
        .map(drop)
}

impl State {
    /// Of all numbers of queued messages that it knows.
    fn highest_message(&self) -> i64 {
        let waiting = self.inbox.iter().map(|waiting| waiting.id).max();
        waiting.unwrap_or(0).max(self.used)
    }

    /// The same of signals.
    fn highest_signal(&self) -> i64 {
        let waiting = self.signals.iter().map(|waiting| waiting.id).max();
        waiting.unwrap_or(0).max(self.signals_used)
    }
}
