//! Forks. A fork is a new session whose head is an entry of another session. Nothing is copied: the
//! two share all entries up to that one.

use rusqlite::{Connection, params};

use super::append::Prepared;
use super::chain::chain;
use super::error::Doing;
use super::head::{Head, read_head};
use super::journal_writer::Recorded;
use super::row::int;
use super::tips::tip_of;
use super::trees::{self, NewTree};
use super::{History, Store, StoreError};
use crate::core::entry::{Entry, ForkPoint, Seq};

const WHAT: &str = "fork the session";

/// A session that continues from an entry of another one.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// See [`super::new_id`].
    pub id: String,
    /// The entry that it continues from.
    pub from: ForkPoint,
    /// The folder of the fork. `None`: that of the other session, with the same files.
    pub place: Option<NewPlace>,
    /// Whether work is pending after `Forked`. The caller knows it from folding the entries.
    pub unfinished: bool,
}

/// A folder with separate files for the fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPlace {
    /// The canonical root, which decides whether the session belongs to the current workspace.
    pub workspace: String,
    /// The folder that the session works in.
    pub folder: String,
}

impl Store {
    /// Records the session with its first own entry, `Forked`.
    pub fn fork(&mut self, new: &NewFork, at_ms: i64) -> Result<Head, StoreError> {
        self.fork_with(new, &[], &[], at_ms)
    }

    /// Forks with more entries after `Forked`, in one transaction. `trees` are those that the
    /// entries name and that are not stored yet.
    pub fn fork_with(
        &mut self,
        new: &NewFork,
        also: &[Entry],
        trees: &[NewTree],
        at_ms: i64,
    ) -> Result<Head, StoreError> {
        let ForkPoint { session: from, seq } = &new.from;
        let (session, seq) = (new.id.clone(), *seq);
        let place = new.place.as_ref();
        let mut entries = vec![Entry::Forked {
            from: new.from.clone(),
            folder: place.map(|place| place.folder.clone()),
        }];
        entries.extend_from_slice(also);
        let batch = Prepared::new(&entries, &[])?;
        // These reads come before the write transaction. SQLite writes nothing more in a
        // transaction that met a damaged page, and the walk from the head may meet one. The result
        // cannot change meanwhile.
        let (origin, row) = row_of(&self.conn, from, seq)?;
        let tip = tip_of(&self.conn, from, row, seq)?;
        let tx = self.write_entries(&session, WHAT)?;
        tx.prepare_cached(
            "INSERT INTO sessions (id, workspace, folder, head, length, forked_from, forked_seq,
               created_ms, updated_ms, title, version, model)
             SELECT ?1, coalesce(?7, workspace), coalesce(?8, folder), ?2, ?3, key, ?4, ?5, ?5, title, version, model
             FROM sessions WHERE key = ?6",
        )
        .and_then(|mut s| {
            s.execute(params![
                session,
                row,
                int(seq + 1),
                int(seq),
                at_ms,
                origin.key,
                place.map(|place| &place.workspace),
                place.map(|place| &place.folder),
            ])
        })
        .doing(WHAT)?;
        let mut head = Head {
            session,
            key: tx.last_insert_rowid(),
            row,
            length: seq + 1,
            plan_step: None,
            tip,
        };
        head.plan_step = plan_step_at(&tx, row).doing(WHAT)?;
        let before = head.clone();
        for tree in trees {
            trees::insert(&tx, at_ms, tree).doing(WHAT)?;
        }
        batch.record(&tx, &mut head, at_ms, new.unfinished)?;
        tx.commit().doing(WHAT)?;
        let recorded = Recorded {
            owed: new.unfinished,
            ..batch.recorded(at_ms)
        };
        self.follow(&before, &head, &recorded);
        Ok(head)
    }
}

impl History<'_> {
    /// Fails when the session has no entry with this number.
    pub fn has_entry(&self, session: &str, seq: Seq) -> Result<(), StoreError> {
        let head = read_head(self.conn, session)?;
        is_in(&head, seq)
    }
}

fn is_in(head: &Head, seq: Seq) -> Result<(), StoreError> {
    if seq < head.length {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what: "entry",
        name: format!("{seq} of session {}", head.session()),
        near: Some(head.seq().to_string()),
    })
}

/// Returns the head of the session, and the row of its entry at this place.
fn row_of(conn: &Connection, session: &str, seq: Seq) -> Result<(Head, Option<i64>), StoreError> {
    let tx = conn.unchecked_transaction().doing(WHAT)?;
    let head = read_head(&tx, session)?;
    is_in(&head, seq)?;
    let chain = chain(&tx, &head, seq)?;
    chain.readable_upto(seq)?;
    Ok((head, chain.rows.last().copied()))
}

/// Returns the step of the plan at this row. Every checkpoint stores it, so the nearest checkpoint
/// at or before the row has it.
fn plan_step_at(conn: &Connection, row: Option<i64>) -> rusqlite::Result<Option<String>> {
    use rusqlite::OptionalExtension;
    conn.prepare_cached(
        "WITH RECURSIVE chain (id) AS (
           SELECT ?1
           UNION ALL
           SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id WHERE e.parent < e.id)
         SELECT c.plan_step FROM chain JOIN checkpoints c ON c.entry = chain.id LIMIT 1",
    )?
    .query_row([row], |row| row.get(0))
    .optional()
    .map(Option::flatten)
}
