//! Loading a session: rows are found from the head to the first entry by `parent`, and then read
//! forward, each one verified. Damaged rows are never repaired here.
//!
//! Invariant: the entries before the first damaged one are returned, then the error that names it.

use std::ops::RangeInclusive;

use rusqlite::Connection;

use super::backup_status::AT_MOST;
use super::chain::{Head, chain, planned, read_head};
use super::copies::Copies;
use super::error::Doing;
use super::row::{BodyReader, SELECT_ROW, row_positions};
use super::{Store, StoreError, parallel_read};
use crate::core::entry::{Record, Seq};
use crate::core::hook::{MAX_ENTRIES_TO_VERDICT, was_refused};
use crate::journal::chain_hash::ChainHash;
use crate::journal::folder::sessions;

const WHAT: &str = "read the session";

impl Store {
    /// Loads the whole chain of a session, first entry first, and its head.
    ///
    /// # Errors
    /// `NotFound` when there is no such session. A damaged or unknown entry is an error that names
    /// it.
    pub fn load(&self, session: &str) -> Result<(Head, Vec<Record>), StoreError> {
        let mut records = Vec::new();
        let head = self.load_each(session, |record| {
            records.push(record);
            Ok::<(), StoreError>(())
        })?;
        Ok((head, records))
    }

    /// Calls `each` for the entries one by one, first to last. An error of `each` stops the loading
    /// and is returned.
    pub fn load_each<E: From<StoreError>>(
        &self,
        session: &str,
        each: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Head, E> {
        load_each(&self.conn, self.copies.as_ref(), session, each)
    }

    /// Adds to an error the values that its hint needs.
    pub(super) fn explain(&self, error: StoreError) -> StoreError {
        explain(&self.conn, self.copies.as_ref(), error)
    }
}

/// Calls `read`, and adds to its error the values that the hint needs.
pub(super) fn explained<T>(
    conn: &Connection,
    copies: Option<&Copies>,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    read().map_err(|error| explain(conn, copies, error))
}

/// Loads a session from its first entry on: see [`Store::load_each`].
pub(super) fn load_each<E: From<StoreError>>(
    conn: &Connection,
    copies: Option<&Copies>,
    session: &str,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<Head, E> {
    // In one transaction, the head and its chain are of the same instant.
    let tx = conn.unchecked_transaction().doing(WHAT)?;
    let mut head = read_head(&tx, session).map_err(|error| explain(conn, copies, error))?;
    let chain = chain(&tx, &head, 0)?;
    let mut statement = tx.prepare_cached(SELECT_ROW).doing(WHAT)?;
    let mut plan = None;
    let each = |record: Record| {
        plan = planned(&record.entry).or(plan.take());
        each(record).map_err(Stop::Each)
    };
    let read = parallel_read::records(session, &chain.rows, &mut statement, each)
        .and_then(|tip| Ok(chain.readable_upto(Seq::MAX).map(|()| tip)?));
    head.tip = match read {
        Ok(tip) => tip,
        Err(Stop::Store(error)) => return Err(explain(conn, copies, error).into()),
        Err(Stop::Each(error)) => return Err(error),
    };
    head.plan_step = plan.flatten();
    Ok(head)
}

/// Adds to an error the values that its hint needs: the number of sessions in the journal, and
/// whether any session can be read.
pub(super) fn explain(conn: &Connection, copies: Option<&Copies>, error: StoreError) -> StoreError {
    let error = match &error {
        StoreError::Damaged { .. } if !has_readable_session(conn) => error.while_opening(),
        _ => error,
    };
    let Some(copies) = copies else {
        return error;
    };
    error.with_journal(|| sessions(&copies.journal.folder, AT_MOST).len() as u64)
}

fn has_readable_session(conn: &Connection) -> bool {
    let sql = "SELECT 1 FROM sessions NOT INDEXED LIMIT 1";
    match conn.query_row(sql, [], |_| Ok(())) {
        Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => true,
        Err(_) => false,
    }
}

/// The reason why loading stopped early.
enum Stop<E> {
    Store(StoreError),
    Each(E),
}

impl<E> From<StoreError> for Stop<E> {
    fn from(error: StoreError) -> Stop<E> {
        Stop::Store(error)
    }
}

impl Store {
    /// Returns the entries of a part of the chain, first to last. Stops at the end of the chain.
    /// Only these entries are read.
    pub fn records(
        &self,
        session: &str,
        range: RangeInclusive<Seq>,
    ) -> Result<Vec<Record>, StoreError> {
        let read = rows_of(&self.conn, session, range);
        read.map_err(|error| self.explain(error))
    }

    /// Returns whether hooks refused a message of the user, so the model must not read it.
    pub fn was_refused(&self, session: &str, message: Seq) -> Result<bool, StoreError> {
        let records = self.records(session, message..=message + MAX_ENTRIES_TO_VERDICT)?;
        Ok(was_refused(message, &records))
    }
}

fn rows_of(
    conn: &Connection,
    session: &str,
    range: RangeInclusive<Seq>,
) -> Result<Vec<Record>, StoreError> {
    let (first, last) = range.into_inner();
    let tx = conn.unchecked_transaction().doing(WHAT)?;
    let head = read_head(&tx, session)?;
    if first >= head.length {
        return Err(StoreError::NotFound {
            what: "entry",
            name: format!("{first} of session {session}"),
            near: Some(head.seq().to_string()),
        });
    }
    // The entry before the first one is included: the first one must follow it.
    let from = first.saturating_sub(1);
    let chain = chain(&tx, &head, from)?;
    chain.readable_upto(last)?;
    let mut statement = tx.prepare_cached(SELECT_ROW).doing(WHAT)?;
    let mut bodies = BodyReader::new()?;
    let mut tip = (first == 0).then(ChainHash::of_nothing);
    let mut records = Vec::new();
    let positions = row_positions(session, first, chain.rows.into_iter().rev());
    for position in positions.take_while(|position| position.seq <= last) {
        let linked = parallel_read::record(&mut statement, &position, tip, &mut bodies)?;
        records.push(linked.record);
        tip = Some(linked.tip);
    }
    Ok(records)
}
