//! The tips of entries: see [`ChainHash`].
//!
//! The comparison of a session's journal with its rows.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::chain::{ForkedFrom, Head, chain, read_head};
use super::error::{Doing, io as io_error};
use super::row::{NO_TIP, RowPosition};
use super::{StoreError, cached};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::journal::read::{End, JournalItem, end, lines};

const WHAT: &str = "read the session";

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

/// Returns the entry of a session that another one continues.
pub(super) fn forked_from(
    conn: &Connection,
    of: &Head,
    seq: Seq,
) -> Result<ForkedFrom, StoreError> {
    let chain = chain(conn, of, seq)?;
    chain.readable_upto(seq)?;
    let row = chain.rows.last().copied();
    Ok(ForkedFrom {
        session: of.key,
        row: row.unwrap_or(0),
        seq,
        tip: tip_of(conn, &of.session, row, seq)?,
    })
}

/// Returns the tip of the chain up to this entry, which is in this row.
fn tip_of(
    conn: &Connection,
    session: &str,
    row: Option<i64>,
    seq: Seq,
) -> Result<ChainHash, StoreError> {
    let position = RowPosition {
        session,
        id: row.unwrap_or(0),
        parent: None,
        seq,
    };
    tip_in(conn, position.id)?.ok_or_else(|| position.corrupt(NO_TIP.to_string()))
}

/// Returns the tip of the entry in this row, as stored.
pub(super) fn tip_in(conn: &Connection, row: i64) -> Result<Option<ChainHash>, StoreError> {
    let sql = "SELECT tip FROM entries WHERE id = ?1";
    let tip: Option<Vec<u8>> = cached::row(conn, sql, [row], |row| row.get(0))
        .optional()
        .doing(WHAT)?;
    Ok(tip.as_deref().and_then(ChainHash::from_bytes))
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
