//! The rows of a chain, first to last, each checked. A long chain is read by the thread that
//! has the database while another one checks and parses what was read: that is most of the
//! work, and a person waits for it.
//!
//! Invariant: records come in their order, and an error where its row stands, whichever
//! thread met it.
//! Invariant: only a few rows are in memory, however long the chain.

use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Statement;

use super::StoreError;
use super::row::{BodyReader, KeptRow, Linked, RawRow, RowPosition};
use crate::core::entry::{Record, Seq};
use crate::lines::tip::Tip;

const WHAT: &str = "read the session";

/// Shorter chains are read before a thread is started.
const LONG: usize = 256;

/// Rows that are handed over together end with one of these.
const BATCH_ROWS: usize = 32;
const BATCH_BYTES: usize = 256 * 1024;

/// Batches that were read and not yet given.
const AHEAD: usize = 3;

type Read<'a> = Result<(RowPosition<'a>, KeptRow), StoreError>;
type Checked = Vec<Result<Linked, StoreError>>;

/// Gives the records of `chain`, which is newest first, from the first entry of the session on,
/// and the tip of it.
pub(super) fn records<E: From<StoreError>>(
    session: &str,
    chain: &[i64],
    statement: &mut Statement<'_>,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<Tip, E> {
    let parents = std::iter::once(None).chain(chain.iter().rev().copied().map(Some));
    let ids = (0..).zip(chain.iter().rev().copied()).zip(parents);
    let mut positions = ids.map(|((seq, id), parent): ((Seq, i64), _)| RowPosition {
        session,
        id,
        parent,
        seq,
    });
    if chain.len() >= LONG {
        return ahead(&mut positions, statement, each);
    }
    let mut bodies = BodyReader::new()?;
    let mut tip = Tip::of_nothing();
    for position in positions {
        let linked = record(statement, &position, Some(tip), &mut bodies)?;
        tip = linked.tip.unwrap_or(tip);
        each(linked.record)?;
    }
    Ok(tip)
}

/// The one record at this place, behind the one with the tip `before`.
pub(super) fn record(
    statement: &mut Statement<'_>,
    position: &RowPosition<'_>,
    before: Option<Tip>,
    bodies: &mut BodyReader,
) -> Result<Linked, StoreError> {
    statement
        .query_row([position.id], |row| {
            RawRow::take(row).map(|row| row.verify(position, before, bodies))
        })
        .map_err(|e| position.failed(WHAT, e))?
}

fn ahead<'a, E: From<StoreError>>(
    positions: &mut dyn Iterator<Item = RowPosition<'a>>,
    statement: &mut Statement<'_>,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<Tip, E> {
    let mut tip = Tip::of_nothing();
    let (to_check, to_be_checked) = channel();
    let (checked, records) = channel();
    let bodies = BodyReader::new()?;
    std::thread::scope(|threads| {
        let started = std::thread::Builder::new()
            .name("check".to_string())
            .spawn_scoped(threads, move || check(bodies, &to_be_checked, &checked));
        started.map_err(|e| super::error::io(WHAT, e))?;
        // Whatever ends this early drops its channel, and the thread ends.
        let to_check = to_check;
        let mut under_way = 0;
        loop {
            let batch = read(positions, statement);
            let is_last = batch.is_empty();
            if !is_last {
                // A thread that ended has given its last records.
                let _ = to_check.send(batch);
                under_way += 1;
            }
            while under_way > 0 && (is_last || under_way >= AHEAD) {
                let Ok(batch) = records.recv() else {
                    let ended = std::io::Error::other("the thread that checks ended");
                    return Err(super::error::io(WHAT, ended).into());
                };
                under_way -= 1;
                for linked in batch {
                    let linked = linked?;
                    tip = linked.tip.unwrap_or(tip);
                    each(linked.record)?;
                }
            }
            if is_last {
                return Ok(tip);
            }
        }
    })
}

/// The next rows as they lie there. An error is the last of them.
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

fn check(mut bodies: BodyReader, read: &Receiver<Vec<Read<'_>>>, checked: &Sender<Checked>) {
    let mut tip = Tip::of_nothing();
    for batch in read {
        let records = batch.into_iter().map(|row| {
            let (position, row) = row?;
            let linked = row.as_raw().verify(&position, Some(tip), &mut bodies)?;
            tip = linked.tip.unwrap_or(tip);
            Ok(linked)
        });
        if checked.send(records.collect()).is_err() {
            return;
        }
    }
}
