//! The history of a session, backwards and in pieces, and its forks.
//!
//! The checkpoints of a session, from which it can be forked. Other programs read them in the SQL
//! view `checkpoints`.

use rusqlite::Row;
use serde::Serialize;

use super::chain::{chain, read_head};
use super::error::Doing;
use super::row::{BodyReader, RawRow, count, row_positions};
use super::{History, StoreError, cached};
use crate::core::entry::{Record, Seq};
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "read the session";

/// [`RawRow::take`] reads all columns but the last.
const SELECT_TRACED: &str = "SELECT id, parent, seq, at_ms, kind, checksum, body, tip, plan_step
FROM entries WHERE id = ?1";

/// Maximum number of related sessions that are returned.
const MAX_BRANCHES: u32 = 1_000;

/// An entry of a chain, with the values that its row adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    pub record: Record,
    /// For a checkpoint, the step of the plan that was in progress.
    pub plan_step: Option<String>,
}

/// A session that shares entries with another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub session: String,
    pub title: Option<String>,
    /// The last entry that it shares with the requested session.
    pub upto: Seq,
    /// Number of entries in its chain.
    pub entries: u64,
    /// The time of its last entry: UTC, milliseconds since 1970.
    pub updated_ms: i64,
}

/// The ancestors of a session, and the forks from its history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// The ancestors, the nearest first.
    pub ancestors: Vec<Branch>,
    /// Forks of the session and of its ancestors, without those in the trash.
    pub forks: Vec<Branch>,
}

const LINEAGE: &str = "WITH RECURSIVE lineage (key, length) AS (
  SELECT key, length FROM sessions WHERE id = ?1
  UNION ALL
  SELECT s.forked_from, min(l.length, s.forked_seq + 1)
  FROM lineage l JOIN sessions s ON s.key = l.key
  WHERE s.forked_from < s.key)";

impl History<'_> {
    /// Calls `each` for at most `count` entries of the chain, first to last, that end with `upto`,
    /// or with the last one. Only these are read.
    pub fn trace<E: From<StoreError>>(
        &self,
        session: &str,
        upto: Option<Seq>,
        count: u64,
        mut each: impl FnMut(Traced) -> Result<(), E>,
    ) -> Result<(), E> {
        let tx = self.conn.unchecked_transaction().doing(WHAT)?;
        let head = read_head(&tx, session)?;
        let last = upto.unwrap_or(head.seq()).min(head.seq());
        let first = (last + 1).saturating_sub(count);
        // The entry before the first one is included: the first one must follow it.
        let from = first.saturating_sub(1);
        let chain = chain(&tx, &head, from)?;
        chain.readable_upto(last)?;
        let mut statement = tx.prepare_cached(SELECT_TRACED).doing(WHAT)?;
        let mut bodies = BodyReader::new()?;
        let mut tip = (first == 0).then(ChainHash::of_nothing);
        let positions = row_positions(session, first, chain.rows.into_iter().rev());
        for position in positions.take_while(|position| position.seq <= last) {
            let read = |row: &Row<'_>| {
                let plan_step = row.get(8)?;
                let linked = RawRow::take(row)?.verify(&position, tip, &mut bodies);
                Ok(linked.map(|linked| (linked, plan_step)))
            };
            let row = statement.query_row([position.id], read);
            let (linked, plan_step) = row.map_err(|e| position.failed(WHAT, e))??;
            tip = Some(linked.tip);
            each(Traced {
                record: linked.record,
                plan_step,
            })?;
        }
        Ok(())
    }

    /// Returns the sessions that share entries with this one. At most a thousand ancestors, and as
    /// many forks.
    pub fn family(&self, session: &str) -> Result<Family, StoreError> {
        let what = "look for the forks of the session";
        let ancestors = format!(
            "{LINEAGE} SELECT s.id, s.title, l.length - 1, s.length, s.updated_ms
             FROM lineage l JOIN sessions s ON s.key = l.key WHERE s.id <> ?1
             ORDER BY s.key DESC LIMIT ?2"
        );
        let forks = format!(
            "{LINEAGE} SELECT o.id, o.title, o.forked_seq, o.length, o.updated_ms
             FROM lineage l JOIN sessions o ON o.forked_from = l.key
             WHERE o.forked_seq < l.length AND o.trashed_ms IS NULL
               AND o.key NOT IN (SELECT key FROM lineage)
             ORDER BY o.forked_seq, o.key LIMIT ?2"
        );
        let read = |sql: &str| -> rusqlite::Result<Vec<Branch>> {
            let mut statement = self.conn.prepare_cached(sql)?;
            statement
                .query_map((session, MAX_BRANCHES), branch)?
                .collect()
        };
        Ok(Family {
            ancestors: read(&ancestors).doing(what)?,
            forks: read(&forks).doing(what)?,
        })
    }
}

fn branch(row: &Row<'_>) -> rusqlite::Result<Branch> {
    Ok(Branch {
        session: row.get(0)?,
        title: row.get(1)?,
        upto: count(row.get(2)?),
        entries: count(row.get(3)?),
        updated_ms: row.get(4)?,
    })
}

/// A checkpoint, as lists show it and as JSON has it: an entry that a session can be forked or
/// resumed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    /// The session that recorded it: this one or an ancestor.
    pub session: String,
    pub seq: Seq,
    /// UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// `replied`, `finished`, `closed`, `continued`, or the reason of a `Saved` entry.
    pub reason: String,
    /// The step of the plan that was in progress.
    pub plan_step: Option<String>,
}

impl Checkpoint {
    /// Reads a row with the columns in the order of the fields.
    pub(super) fn of_row(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
        Ok(Checkpoint {
            session: row.get(0)?,
            seq: count(row.get(1)?),
            at_ms: row.get(2)?,
            reason: row.get(3)?,
            plan_step: row.get(4)?,
        })
    }
}

impl History<'_> {
    /// Returns the checkpoints of the session and of the ancestors it is a fork of, the newest
    /// first.
    pub fn checkpoints(&self, session: &str, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        let head = read_head(self.conn, session)?;
        let sql = "WITH RECURSIVE chain (id) AS (
                   SELECT ?1
                   UNION ALL
                   SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id
                   WHERE e.parent < e.id)
                 SELECT c.session, c.seq, c.at_ms, c.reason, c.plan_step
                 FROM chain JOIN checkpoints c ON c.entry = chain.id
                 ORDER BY c.seq DESC LIMIT ?2";
        cached::rows(self.conn, sql, (head.row, limit), Checkpoint::of_row)
            .doing("list the checkpoints")
    }
}
