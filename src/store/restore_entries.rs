//! Restoring entries from a journal: the lines after the last entry in the database are recorded.
//!
//! Invariant: nothing is recorded after a gap. The entries after it are reported, and stay where
//! they are.

use std::io;
use std::path::Path;

use rusqlite::Transaction;

use super::StoreError;
use super::append::{Prepared, WHAT_BROUGHT as WHAT};
use super::blobs::{Packed, insert_blob};
use super::chain::Head;
use super::error::{Doing, io as io_error};
use super::gap::{close_gap, gap_of, store_gap};
use super::missing::Gap;
use super::pending_rows::{ConsumedIds, possible_pending_entry, restore_state};
use crate::core::entry::Seq;
use crate::journal::line::EntryLine;
use crate::journal::read::{JournalItem, lines};

/// The result of restoring entries into a session.
pub(super) struct Came {
    pub entries: u64,
    /// The gap that stops the restore, if it was not known yet.
    pub gap: Option<Gap>,
}

/// Records the journal's lines after this head, up to the first gap, and moves the head with them.
pub(super) fn restore_lines(
    tx: &Transaction<'_>,
    folder: &Path,
    head: &mut Head,
) -> Result<Came, StoreError> {
    let (mut entries, mut failed) = (0, None);
    let mut became = ConsumedIds::default();
    let mut said = Vec::new();
    // The first entry after the gap with its time, and the last one.
    let mut behind: Option<((Seq, i64), Seq)> = None;
    let mut since_ms = None;
    let read = lines(folder, &mut |met| {
        let line = match met {
            JournalItem::Blob(bytes) => {
                return match insert_blob(tx, &Packed::new(&bytes)).doing(WHAT) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        failed = Some(error);
                        Err(io::ErrorKind::Other.into())
                    }
                };
            }
            JournalItem::Gap(..) => return Ok(()),
            JournalItem::Entry(line) => line,
        };
        became.note(line.taken, line.signal);
        said.extend(possible_pending_entry(&line));
        if line.seq > head.length {
            let first = behind.map_or((line.seq, line.at_ms), |(first, _)| first);
            behind = Some((first, line.seq));
        }
        if line.seq <= head.length {
            since_ms = Some(line.at_ms);
        }
        if line.seq != head.length {
            return Ok(());
        }
        entries += 1;
        insert_restored_line(tx, &line, head).map_err(|error| {
            failed = Some(error);
            io::ErrorKind::Other.into()
        })
    });
    match (failed, read) {
        (Some(error), _) => return Err(error),
        (None, Err(error)) => return Err(io_error(WHAT, error)),
        (None, Ok(_)) => {}
    }
    let gap = behind.map(|((first, until_ms), last)| Gap {
        session: head.session.clone(),
        first: head.length,
        last: first - 1,
        behind: last + 1 - first,
        since_ms,
        until_ms: Some(until_ms),
        summary: None,
    });
    if entries > 0 {
        let session = (head.key, head.length);
        restore_state(tx, folder, session, &became, &said)?;
        became.mark_ids_used(tx)?;
    }
    close_gap(tx, &head.session, head.length)?;
    let known = gap_of(tx, &head.session)?;
    let gap = gap.filter(|_| known.is_none());
    if let Some(gap) = &gap {
        store_gap(tx, gap)?;
    }
    Ok(Came { entries, gap })
}

fn insert_restored_line(
    tx: &Transaction<'_>,
    line: &EntryLine,
    head: &mut Head,
) -> Result<(), StoreError> {
    // Otherwise the message would be sent a second time.
    if let Some(id) = line.taken {
        tx.execute(
            "DELETE FROM inbox WHERE id = ?1 AND session = ?2",
            [id, head.key],
        )
        .doing(WHAT)?;
    }
    // Otherwise the signal would be obeyed a second time.
    if let Some(id) = line.signal {
        tx.execute(
            "DELETE FROM signals WHERE id = ?1 AND session = ?2",
            [id, head.key],
        )
        .doing(WHAT)?;
    }
    Prepared::of_line(line)?.put(tx, head, line.at_ms, line.owed)?;
    match head.tip == line.tip {
        true => Ok(()),
        false => Err(StoreError::damaged(format!(
            "entry {} of session {} in the journal does not follow",
            line.seq, head.session
        ))),
    }
}
