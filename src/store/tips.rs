//! Adding tips to entries that an older version recorded. It runs when the process is idle, the
//! oldest entries first, so that the entry before always has its tip. A damaged entry gets none,
//! and neither do the entries after it.
//!
//! The comparison of a session's journal with its rows.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::chain::{Head, chain, read_head};
use super::error::{Doing, io as io_error};
use super::row::{BodyReader, RawRow, RowPosition, SELECT_ROW, count};
use super::{Check, Store, StoreError, parallel_read};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::journal::read::{End, JournalItem, end, lines};

const WHAT: &str = "protect older entries";

/// Limits of one step: it takes some tens of milliseconds, and is repeated after a kill.
const ROWS_IN_A_STEP: i64 = 500;
const BYTES_IN_A_STEP: i64 = 4 << 20;

const SELECT: &str = "SELECT id, parent, seq, at_ms, kind, checksum, body, tip, octet_length(body)
FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3";

/// Returns whether a session of this length has all entries of a journal that ends here.
pub(super) fn has_end(
    conn: &Connection,
    session: &str,
    length: u64,
    end: &End,
) -> Result<bool, StoreError> {
    match end.next {
        0 => Ok(true),
        next if next > length => Ok(false),
        next => tip_upto(conn, session, next - 1).map(|tip| tip == end.tip),
    }
}

impl Store {
    /// Adds tips in one step. Returns whether there is more to do.
    pub(super) fn add_tips(&mut self) -> Result<bool, StoreError> {
        if self.has_all_tips {
            return Ok(false);
        }
        let (upto, end) = progress(&self.conn)?;
        if upto >= end {
            self.has_all_tips = true;
            return Ok(false);
        }
        let mut bodies = BodyReader::new()?;
        let tx = self.write(WHAT)?;
        let upto = add(&tx, upto, end, &mut bodies)?;
        tx.prepare_cached("UPDATE meta SET value = ?1 WHERE name = 'tips_upto'")
            .and_then(|mut s| s.execute([upto]))
            .doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        Ok(upto < end)
    }
}

impl Check<'_> {
    /// Counts the entries that only their checksum protects: those of an older version that have no
    /// tip yet, and damaged ones.
    pub fn without_tip(&self) -> Result<u64, StoreError> {
        let (_, end) = progress(self.conn)?;
        self.conn
            .query_row(
                "SELECT count(*) FROM entries WHERE id <= ?1 AND tip IS NULL",
                [end],
                |row| row.get(0),
            )
            .doing(WHAT)
            .map(count)
    }
}

/// Returns the last row that is done, and the last one that was recorded without a tip.
fn progress(conn: &Connection) -> Result<(i64, i64), StoreError> {
    let value = "(SELECT value FROM meta WHERE name = ";
    let sql = format!("SELECT {value}'tips_upto'), {value}'tips_end')");
    conn.prepare_cached(&sql)
        .and_then(|mut s| s.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
        .doing(WHAT)
}

/// Adds tips to the next rows, and returns the row up to which all is done.
fn add(conn: &Connection, upto: i64, end: i64, bodies: &mut BodyReader) -> Result<i64, StoreError> {
    let mut statement = conn.prepare_cached(SELECT).doing(WHAT)?;
    let mut rows = statement
        .query(params![upto, end, ROWS_IN_A_STEP])
        .doing(WHAT)?;
    let (mut last, mut seen, mut bytes) = (upto, 0, 0);
    while bytes < BYTES_IN_A_STEP {
        let Some(row) = rows.next().doing(WHAT)? else {
            break;
        };
        (last, seen) = (row.get(0).doing(WHAT)?, seen + 1);
        bytes += row.get::<_, i64>(8).doing(WHAT)?;
        let row = RawRow::take(row).doing(WHAT)?;
        let Some(before) = tip_before(conn, row.parent())? else {
            continue;
        };
        let position = RowPosition {
            session: "",
            id: row.id(),
            parent: row.parent(),
            seq: row.seq(),
        };
        if let Ok(linked) = row.verify(&position, Some(before), bodies) {
            conn.prepare_cached("UPDATE entries SET tip = ?2 WHERE id = ?1 AND tip IS NULL")
                .and_then(|mut s| {
                    s.execute(params![
                        row.id(),
                        linked.tip.as_ref().map(ChainHash::as_bytes)
                    ])
                })
                .doing(WHAT)?;
        }
    }
    let is_over = bytes < BYTES_IN_A_STEP && seen < ROWS_IN_A_STEP;
    Ok(if is_over { end } else { last })
}

/// Returns the tip of the parent, or `None` if it has none.
fn tip_before(conn: &Connection, parent: Option<i64>) -> Result<Option<ChainHash>, StoreError> {
    let Some(parent) = parent else {
        return Ok(Some(ChainHash::of_nothing()));
    };
    let tip: Option<Option<Vec<u8>>> = conn
        .prepare_cached("SELECT tip FROM entries WHERE id = ?1")
        .and_then(|mut s| s.query_row([parent], |row| row.get(0)).optional())
        .doing(WHAT)?;
    Ok(tip.flatten().as_deref().and_then(ChainHash::from_bytes))
}

/// Returns the tip of a session's chain up to this entry.
pub(super) fn tip_upto(
    conn: &Connection,
    session: &str,
    seq: Seq,
) -> Result<ChainHash, StoreError> {
    let head = read_head(conn, session)?;
    let chain = chain(conn, &head, seq)?;
    chain.readable_upto(seq)?;
    tip_of(conn, session, chain.rows.last().copied(), seq)
}

/// Returns the tip of the chain up to this entry, which is in this row. If the row does not store
/// it, it is computed from the whole chain.
pub(super) fn tip_of(
    conn: &Connection,
    session: &str,
    row: Option<i64>,
    seq: Seq,
) -> Result<ChainHash, StoreError> {
    let tip: Option<Vec<u8>> = conn
        .prepare_cached("SELECT tip FROM entries WHERE id = ?1")
        .and_then(|mut s| s.query_row([row], |row| row.get(0)))
        .doing(WHAT)?;
    if let Some(tip) = tip.as_deref().and_then(ChainHash::from_bytes) {
        return Ok(tip);
    }
    let head = read_head(conn, session)?;
    let chain = chain(conn, &head, 0)?;
    chain.readable_upto(seq)?;
    let behind = chain.rows.iter().position(|id| Some(*id) == row);
    let upto = &chain.rows[behind.unwrap_or(0)..];
    let mut statement = conn.prepare_cached(SELECT_ROW).doing(WHAT)?;
    parallel_read::records(session, upto, &mut statement, |_| Ok::<(), StoreError>(()))
}

const WHAT_COMPARE: &str = "compare the journal with the database";

/// The difference between a journal and the rows of its session.
pub(super) enum Comparison {
    Same,
    /// The journal lacks the last rows.
    Behind,
    /// The journal has more entries, and no known entry differs.
    Ahead(Ahead),
    /// The two diverge after this entry. `None`: from the start.
    Parted(Option<Seq>, Ahead),
}

/// A journal that has entries which the database lacks.
pub(super) struct Ahead {
    /// The tip of the last entry of the database.
    pub tip: ChainHash,
    pub journal: End,
}

/// Compares the journal in `folder` with the session that has this head.
pub(super) fn compare(
    conn: &Connection,
    folder: &Path,
    head: &Head,
) -> Result<Comparison, StoreError> {
    let session = head.session.as_str();
    let Some((journal, _)) = end(folder).map_err(|e| io_error(WHAT_COMPARE, e))? else {
        return Ok(Comparison::Behind);
    };
    if has_end(conn, session, head.length, &journal)? {
        return Ok(match journal.next == head.length {
            true => Comparison::Same,
            false => Comparison::Behind,
        });
    }
    let tip = tip_upto(conn, session, head.seq())?;
    let ahead = Ahead { tip, journal };
    let (tips, is_beyond) = tips_in(folder, head)?;
    let is_same = |seq: Seq, known: &ChainHash| match seq == head.seq() {
        true => Ok(tip == *known),
        false => tip_upto(conn, session, seq).map(|tip| tip == *known),
    };
    let mut both = tips.iter().rev().peekable();
    let Some((last, known)) = both.peek() else {
        return Ok(match is_beyond {
            true => Comparison::Ahead(ahead),
            false => Comparison::Parted(None, ahead),
        });
    };
    // This includes a journal with a gap at the last entry of the database: nothing shows that they
    // diverge.
    if is_same(**last, known)? && (is_beyond || **last == head.seq()) {
        return Ok(Comparison::Ahead(ahead));
    }
    for (seq, known) in both {
        if is_same(*seq, known)? {
            return Ok(Comparison::Parted(Some(*seq), ahead));
        }
    }
    Ok(Comparison::Parted(None, ahead))
}

/// Returns the tips of a journal up to the head, and whether it has entries after that.
fn tips_in(folder: &Path, head: &Head) -> Result<(BTreeMap<Seq, ChainHash>, bool), StoreError> {
    let mut tips: BTreeMap<Seq, ChainHash> = BTreeMap::new();
    let mut is_empty = true;
    let read = lines(folder, &mut |met| {
        match met {
            JournalItem::Entry(line) => drop(tips.insert(line.seq, line.tip)),
            JournalItem::Gap(first, tip) => {
                if let Some(seq) = first.checked_sub(1) {
                    tips.insert(seq, tip);
                }
            }
            JournalItem::Blob(_) => {}
        }
        is_empty = false;
        Ok(())
    });
    let end = read.map_err(|e| io_error(WHAT_COMPARE, e))?;
    // The entry before the first line counts too: a fork may have no entries after its fork point
    // in the database.
    if let (false, Some(end)) = (is_empty, end)
        && let Some(parent) = end.header.first.checked_sub(1)
    {
        tips.insert(parent, end.header.tip);
    }
    let is_beyond = !tips.split_off(&head.length).is_empty();
    Ok((tips, is_beyond))
}
