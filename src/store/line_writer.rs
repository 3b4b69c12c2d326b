//! Appending lines of a session that were recorded before: in a journal, a bundle, a shared database,
//! the rows of a damaged database, or by another agent.
//!
//! Invariant: each line follows the entry before it. Otherwise the caller's transaction must end
//! without a commit.

use rusqlite::{Transaction, params};

use super::append::Prepared;
use super::blobs::{Packed, insert_blob};
use super::chain::Head;
use super::error::Doing;
use super::journal_writer::Recorded;
use super::row::Body;
use super::{Store, StoreError, cached};
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::EntryLine;

/// A line that is parsed and compressed, so that the transaction has only to write it.
pub(crate) struct PreparedLine {
    pub at_ms: i64,
    /// The tip that the line states.
    pub tip: ChainHash,
    /// Whether work is pending after it, apart from queued messages.
    pub owed: bool,
    /// The queued message of the session here that became this entry. It is removed.
    pub taken: Option<i64>,
    /// The signal of the session here that became this entry. It is removed.
    pub signal: Option<i64>,
    pub prepared: Prepared<'static>,
}

impl PreparedLine {
    /// Returns a line that takes nothing from the queues here, and leaves no work pending.
    pub(crate) fn new(at_ms: i64, tip: ChainHash, prepared: Prepared<'static>) -> PreparedLine {
        PreparedLine {
            at_ms,
            tip,
            owed: false,
            taken: None,
            signal: None,
            prepared,
        }
    }

    /// Prepares a line of another store, with the JSON as which its entry was first stored. Rows of
    /// the queues of that store mean nothing here.
    pub(super) fn of_elsewhere(line: &EntryLine) -> Result<PreparedLine, StoreError> {
        let prepared = Prepared::of_body(Body::of(line.entry.get().to_string()))?;
        Ok(PreparedLine::new(line.at_ms, line.tip, prepared))
    }

    /// Prepares a line of this store.
    pub(super) fn of(line: &EntryLine) -> Result<PreparedLine, StoreError> {
        Ok(PreparedLine {
            owed: line.owed,
            taken: line.taken,
            signal: line.signal,
            ..PreparedLine::of_elsewhere(line)?
        })
    }
}

/// Appends lines to one session. The caller commits the transaction, then has the journal written.
pub(crate) struct LineWriter {
    what: &'static str,
    /// The head before the last line.
    before: Head,
    pub head: Head,
    last: Option<PreparedLine>,
    /// Number of lines that were appended.
    pub count: u64,
}

impl LineWriter {
    /// Begins after this head, which must have its tip. `what`: the action that errors name.
    pub(super) fn new(head: Head, what: &'static str) -> LineWriter {
        LineWriter {
            what,
            before: head.clone(),
            head,
            last: None,
            count: 0,
        }
    }

    /// Stores bytes that a line refers to. Returns their stored size.
    pub(super) fn blob(&self, tx: &Transaction<'_>, bytes: &[u8]) -> Result<usize, StoreError> {
        let packed = Packed::new(bytes);
        insert_blob(tx, &packed).doing(self.what)?;
        Ok(packed.stored_bytes())
    }

    /// Appends a line: its row, the head, and all rows that are derived from its entry. Returns its
    /// row.
    ///
    /// # Errors
    /// `Damaged`: it does not follow the entry before it. `HeadMoved`: another process appended.
    pub(super) fn append(
        &mut self,
        tx: &Transaction<'_>,
        line: PreparedLine,
    ) -> Result<i64, StoreError> {
        let head = &mut self.head;
        self.before.clone_from(head);
        // Otherwise the message would be sent, or the signal obeyed, a second time. A message that
        // is still queued counts as unfinished work, so this comes first.
        for (table, row) in [("inbox", line.taken), ("signals", line.signal)] {
            if let Some(row) = row {
                let sql = format!("DELETE FROM {table} WHERE id = ?1 AND session = ?2");
                cached::execute(tx, &sql, params![row, head.key]).doing(self.what)?;
            }
        }
        line.prepared.put(tx, head, line.at_ms, line.owed)?;
        let Some(row) = head.row.filter(|_| head.tip == line.tip) else {
            return Err(StoreError::damaged(format!(
                "entry {} of session {} does not follow",
                head.seq(),
                head.session
            )));
        };
        self.last = Some(line);
        self.count += 1;
        Ok(row)
    }

    /// Writes the journal after the commit, if there is a line. The journal lacks the lines before
    /// the last one, and gets all of them.
    pub(super) fn write_journal(&self, store: &mut Store) {
        if let Some(line) = &self.last {
            let recorded = Recorded {
                owed: line.owed,
                ..line.prepared.recorded(line.at_ms)
            };
            store.follow(&self.before, &self.head, &recorded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::Entry;
    use crate::store::{NewSession, new_id};
    use serde_json::value::to_raw_value;

    #[test]
    fn a_line_that_does_not_follow_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let note = |text: &str| Entry::Noted {
            text: text.into(),
            about: None,
        };
        let (head, _) = store.create(&new, 1, note("first")).unwrap();
        let line = |before: ChainHash, seq| {
            let entry = to_raw_value(&note("second")).unwrap();
            EntryLine {
                seq,
                at_ms: 2,
                tip: before.and(seq, 2, entry.get().as_bytes()),
                taken: None,
                signal: None,
                owed: true,
                entry,
            }
        };
        for wrong in [line(head.tip, 2), line(ChainHash::of_nothing(), 1)] {
            let tx = store.write_entries(&new.id, "test").unwrap();
            let mut writer = LineWriter::new(head.clone(), "test");
            let refused = writer.append(&tx, PreparedLine::of(&wrong).unwrap());
            assert!(matches!(refused, Err(StoreError::Damaged { .. })));
        }
        let tx = store.write_entries(&new.id, "test").unwrap();
        let mut writer = LineWriter::new(head.clone(), "test");
        writer
            .append(&tx, PreparedLine::of(&line(head.tip, 1)).unwrap())
            .unwrap();
        tx.commit().unwrap();
        writer.write_journal(&mut store);
        let loaded = store.load(&new.id).unwrap();
        assert_eq!((loaded.0, loaded.1.len()), (writer.head, 2));
    }
}
