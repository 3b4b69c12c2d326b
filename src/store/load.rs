//! Reading a session back: from the head to the first entry by `parent`, then forward,
//! each row checked. What is read is never repaired.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension};

use super::append::planned;
use super::error::Doing;
use super::row::{BodyReader, Place, SELECT_ROW, count};
use super::{Store, StoreError, ahead};
use crate::core::entry::{Entry, Record, Seq};

const WHAT: &str = "read the session";

/// Where a session stands; what an append goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub(super) session: String,
    pub(super) key: i64,
    /// The row of the last entry.
    pub(super) row: Option<i64>,
    /// Entries in the chain.
    pub(super) length: u64,
    /// The step of the plan that is being worked on.
    pub(super) plan_step: Option<String>,
}

impl Head {
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The place of the last entry.
    pub fn seq(&self) -> Seq {
        self.length.saturating_sub(1)
    }

    pub(super) fn before_first(session: String, key: i64) -> Head {
        Head {
            session,
            key,
            row: None,
            length: 0,
            plan_step: None,
        }
    }

    pub(super) fn note(&mut self, entry: &Entry) {
        if let Some(step) = planned(entry) {
            self.plan_step = step;
        }
    }
}

impl Store {
    pub fn load(&self, session: &str) -> Result<(Head, Vec<Record>), StoreError> {
        let mut records = Vec::new();
        let head = self.load_each(session, |record| {
            records.push(record);
            Ok::<(), StoreError>(())
        })?;
        Ok((head, records))
    }

    /// Gives the entries one by one, first to last. An error of `each` ends the reading
    /// and is given back.
    pub fn load_each<E: From<StoreError>>(
        &self,
        session: &str,
        mut each: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Head, E> {
        // One transaction: the head and its chain are of the same instant.
        let tx = self.conn.unchecked_transaction().doing(WHAT)?;
        let mut head = read_head(&tx, session)?;
        let chain = chain(&tx, &head, 0)?;
        let mut statement = tx.prepare_cached(SELECT_ROW).doing(WHAT)?;
        ahead::records(session, &chain, &mut statement, |record| {
            head.note(&record.entry);
            each(record)
        })?;
        Ok(head)
    }
}

impl Store {
    /// The entries of a part of the chain, first to last; the end of the chain ends it. Only
    /// these are read.
    pub fn records(
        &self,
        session: &str,
        range: RangeInclusive<Seq>,
    ) -> Result<Vec<Record>, StoreError> {
        let (first, last) = range.into_inner();
        let tx = self.conn.unchecked_transaction().doing(WHAT)?;
        let head = read_head(&tx, session)?;
        if first >= head.length {
            return Err(StoreError::NotFound {
                what: "entry",
                name: format!("{first} of session {session}"),
                near: Some(head.seq().to_string()),
            });
        }
        // With the one before, which the first must follow.
        let from = first.saturating_sub(1);
        let mut rows = (from..).zip(chain(&tx, &head, from)?.into_iter().rev());
        let mut parent = match first {
            0 => None,
            _ => rows.next().map(|(_, id)| id),
        };
        let mut statement = tx.prepare_cached(SELECT_ROW).doing(WHAT)?;
        let mut bodies = BodyReader::new()?;
        let mut records = Vec::new();
        for (seq, id) in rows.take_while(|(seq, _)| *seq <= last) {
            let place = Place {
                session,
                id,
                parent,
                seq,
            };
            let record = ahead::record(&mut statement, &place, &mut bodies)?;
            records.push(record);
            parent = Some(id);
        }
        Ok(records)
    }
}

pub(super) fn read_head(conn: &Connection, session: &str) -> Result<Head, StoreError> {
    conn.prepare_cached("SELECT key, head, length FROM sessions WHERE id = ?1")
        .and_then(|mut s| {
            s.query_row([session], |row| {
                Ok(Head {
                    session: session.to_string(),
                    key: row.get(0)?,
                    row: Some(row.get(1)?),
                    length: count(row.get(2)?),
                    plan_step: None,
                })
            })
            .optional()
        })
        .doing(WHAT)?
        .ok_or_else(|| StoreError::no_session(session))
}

/// The rows of the chain from the head back to the entry `down_to`, newest first.
pub(super) fn chain(conn: &Connection, head: &Head, down_to: Seq) -> Result<Vec<i64>, StoreError> {
    let corrupt = |seq: Seq, what: &str| StoreError::Corrupt {
        session: head.session.clone(),
        seq,
        what: what.to_string(),
    };
    let mut statement = conn
        .prepare_cached("SELECT parent FROM entries WHERE id = ?1")
        .doing(WHAT)?;
    let mut rows = Vec::new();
    let mut next = head.row;
    for seq in (down_to..head.length).rev() {
        let id = next.ok_or_else(|| corrupt(seq, "it is missing"))?;
        let parent: Option<i64> = statement
            .query_row([id], |row| row.get(0))
            .optional()
            .doing(WHAT)?
            .ok_or_else(|| corrupt(seq, "it is missing"))?;
        // A parent was always recorded before; this also ends any walk.
        if parent.is_some_and(|parent| parent >= id) {
            return Err(corrupt(seq, "its parent is younger than itself"));
        }
        rows.push(id);
        next = parent;
    }
    match next {
        Some(_) if down_to == 0 => Err(corrupt(0, "something comes before it")),
        _ => Ok(rows),
    }
}
