//! Reading the rows of a chain in order, with checks on other threads. The thread with the database
//! connection reads rows. Other threads verify and parse them at the same time, since that is most
//! of the work of opening a long session.
//!
//! Invariant: records come in their order, and an error comes at the place of its row, whichever
//! thread met it.
//! Invariant: only a few rows are in memory, however long the chain.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use rusqlite::Statement;

use super::StoreError;
use super::row::{BodyReader, KeptRow, Linked, RawRow, RowPosition, row_positions};
use crate::core::entry::Record;
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "read the session";

/// Maximum number of entries of a chain that is read without threads.
const LONG: usize = 256;

/// Limits of rows and bytes at which a batch is complete.
const BATCH_ROWS: usize = 32;
const BATCH_BYTES: usize = 256 * 1024;

/// Maximum number of batches that were read and not returned yet.
const AHEAD: usize = 4;

/// Number of threads that verify rows.
const CHECKERS: usize = 2;

type Read<'a> = Result<(RowPosition<'a>, KeptRow), StoreError>;
type Checked = Vec<Result<Linked, StoreError>>;

/// Calls `each` for the records of `chain`, from the first entry of the session to its tip, and
/// returns the tip. `chain` is sorted newest first.
pub(super) fn records<E: From<StoreError>>(
    session: &str,
    chain: &[i64],
    statement: &mut Statement<'_>,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<ChainHash, E> {
    let mut positions = row_positions(session, 0, chain.iter().rev().copied());
    if chain.len() >= LONG {
        return ahead(&mut positions, statement, each);
    }
    let mut bodies = BodyReader::new()?;
    let mut tip = ChainHash::of_nothing();
    for position in positions {
        let linked = record(statement, &position, Some(tip), &mut bodies)?;
        tip = linked.tip;
        each(linked.record)?;
    }
    Ok(tip)
}

/// Reads the record at one position. `before` is the tip of the chain up to the previous entry.
pub(super) fn record(
    statement: &mut Statement<'_>,
    position: &RowPosition<'_>,
    before: Option<ChainHash>,
    bodies: &mut BodyReader,
) -> Result<Linked, StoreError> {
    statement
        .query_row([position.id], |row| {
            RawRow::take(row).map(|row| row.verify(position, before, bodies))
        })
        .map_err(|e| position.failed(WHAT, e))?
}

/// Reads the record at one position, and its JSON. `what` is the purpose, for errors.
pub(super) fn record_and_json(
    statement: &mut Statement<'_>,
    position: &RowPosition<'_>,
    before: ChainHash,
    bodies: &mut BodyReader,
    what: &'static str,
) -> Result<(Linked, String), StoreError> {
    let row = statement.query_row([position.id], |row| {
        let row = RawRow::take(row)?;
        let linked = row.verify(position, Some(before), bodies);
        Ok(linked.map(|linked| (linked, row.json(bodies))))
    });
    row.map_err(|e| position.failed(what, e))?
}

fn ahead<'a, E: From<StoreError>>(
    positions: &mut dyn Iterator<Item = RowPosition<'a>>,
    statement: &mut Statement<'_>,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<ChainHash, E> {
    std::thread::scope(|threads| {
        // An early return drops the channels, and the threads end.
        let checkers = (0..CHECKERS).map(|_| Checker::start(threads));
        let checkers: Vec<Checker<'_>> = checkers.collect::<Result<_, StoreError>>()?;
        let mut under_way = VecDeque::new();
        let mut tip = ChainHash::of_nothing();
        // The tip that the next rows follow, as stored in the last row that was read.
        let mut before = tip;
        let mut next = checkers.iter().cycle();
        loop {
            let rows = read(positions, statement);
            let is_last = rows.is_empty();
            let most = if is_last { 0 } else { AHEAD - 1 };
            while under_way.len() > most {
                let checker: Option<&Checker<'_>> = under_way.pop_front();
                for linked in checker.map_or(Ok(Vec::new()), Checker::give)? {
                    let linked = linked?;
                    tip = linked.tip;
                    each(linked.record)?;
                }
            }
            if is_last {
                return Ok(tip);
            }
            let batch = Batch { before, rows };
            // After a row without a tip nothing is returned, so what the next rows follow is the same.
            before = batch.tip().unwrap_or(before);
            if let Some(checker) = next.next() {
                checker.take(batch);
                under_way.push_back(checker);
            }
        }
    })
}

/// Rows that are verified together.
struct Batch<'a> {
    /// The tip of the chain before these rows.
    before: ChainHash,
    rows: Vec<Read<'a>>,
}

impl Batch<'_> {
    /// Returns the tip that is stored in the last row, unverified.
    fn tip(&self) -> Option<ChainHash> {
        self.rows.last()?.as_ref().ok()?.1.tip()
    }
}

/// A thread that verifies batches, one after another.
struct Checker<'a> {
    batches: SyncSender<Batch<'a>>,
    checked: Receiver<Checked>,
}

impl<'a> Checker<'a> {
    fn start<'s>(threads: &'s Scope<'s, '_>) -> Result<Checker<'a>, StoreError>
    where
        'a: 's,
    {
        // At most `AHEAD` batches are in flight, so no sender blocks.
        let (batches, to_be_checked) = sync_channel(AHEAD);
        let (to_give, checked) = sync_channel(AHEAD);
        let bodies = BodyReader::new()?;
        std::thread::Builder::new()
            .name("check".to_string())
            .spawn_scoped(threads, move || check(bodies, &to_be_checked, &to_give))
            .map_err(|e| super::error::io(WHAT, e))?;
        Ok(Checker { batches, checked })
    }

    fn take(&self, batch: Batch<'a>) {
        // A thread that ended is noticed when its records are requested.
        let _ = self.batches.send(batch);
    }

    /// Returns the records of the oldest batch that was not returned yet.
    fn give(&self) -> Result<Checked, StoreError> {
        self.checked.recv().map_err(|_| {
            let ended = std::io::Error::other("the thread that checks ended");
            super::error::io(WHAT, ended)
        })
    }
}

/// Reads the next batch of rows, unverified. An error ends the batch.
fn read<'a>(
    positions: &mut dyn Iterator<Item = RowPosition<'a>>,
    statement: &mut Statement<'_>,
) -> Vec<Read<'a>> {
    let mut batch = Vec::with_capacity(BATCH_ROWS);
    let mut bytes = 0;
    while batch.len() < BATCH_ROWS && bytes < BATCH_BYTES {
        let Some(position) = positions.next() else {
            break;
        };
        let row = statement
            .query_row([position.id], |row| RawRow::take(row).map(|row| row.keep()))
            .map_err(|e| position.failed(WHAT, e));
        let row = row.map(|row| (position, row));
        bytes += row.as_ref().map_or(BATCH_BYTES, |(_, row)| row.bytes());
        batch.push(row);
    }
    batch
}

fn check(mut bodies: BodyReader, batches: &Receiver<Batch<'_>>, checked: &SyncSender<Checked>) {
    for batch in batches {
        let mut tip = batch.before;
        let records = batch.rows.into_iter().map(|row| {
            let (position, row) = row?;
            let linked = row.as_raw().verify(&position, Some(tip), &mut bodies)?;
            tip = linked.tip;
            Ok(linked)
        });
        if checked.send(records.collect()).is_err() {
            return;
        }
    }
}
