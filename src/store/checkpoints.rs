//! The checkpoints of a session, from which it can be forked. Other programs read them in the SQL
//! view `checkpoints`.

use super::error::Doing;
use super::head::read_head;
use super::row::count;
use super::{History, StoreError};
use crate::core::entry::Seq;

/// A checkpoint, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl History<'_> {
    /// Returns the checkpoints of the session and of the ancestors it is a fork of, the newest
    /// first.
    pub fn checkpoints(&self, session: &str, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        let head = read_head(self.conn, session)?;
        self.conn
            .prepare_cached(
                "WITH RECURSIVE chain (id) AS (
                   SELECT ?1
                   UNION ALL
                   SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id
                   WHERE e.parent < e.id)
                 SELECT c.session, c.seq, c.at_ms, c.reason, c.plan_step
                 FROM chain JOIN checkpoints c ON c.entry = chain.id
                 ORDER BY c.seq DESC LIMIT ?2",
            )
            .and_then(|mut s| {
                s.query_map((head.row, limit), |row| {
                    Ok(Checkpoint {
                        session: row.get(0)?,
                        seq: count(row.get(1)?),
                        at_ms: row.get(2)?,
                        reason: row.get(3)?,
                        plan_step: row.get(4)?,
                    })
                })?
                .collect()
            })
            .doing("list the checkpoints")
    }
}
