//! Restoring entries from a journal: the lines after the last entry in the database are recorded.
//!
//! Invariant: nothing is recorded after a gap. The entries after it are reported, and stay where
//! they are.

use std::io;
use std::path::Path;

use rusqlite::Transaction;

use super::StoreError;
use super::append::WHAT_BROUGHT as WHAT;
use super::chain::Head;
use super::error::io as io_error;
use super::gap::{close_gap, gap_of, store_gap};
use super::line_writer::{LineWriter, PreparedLine};
use super::missing::Gap;
use super::pending_rows::{ConsumedIds, possible_pending_entry, restore_state};
use crate::core::entry::Seq;
use crate::journal::read::{JournalItem, lines};

/// The result of restoring entries into a session.
pub(super) struct RestoredLines {
    pub entries: u64,
    /// The head after them.
    pub head: Head,
    /// The gap that stops the restore, if it was not known yet.
    pub gap: Option<Gap>,
}

/// Records the journal's lines after this head, up to the first gap.
pub(super) fn restore_lines(
    tx: &Transaction<'_>,
    folder: &Path,
    head: Head,
) -> Result<RestoredLines, StoreError> {
    let mut writer = LineWriter::new(head, WHAT);
    let mut failed = None;
    let mut became = ConsumedIds::default();
    let mut said = Vec::new();
    // The first entry after the gap with its time, and the last one.
    let mut behind: Option<((Seq, i64), Seq)> = None;
    let mut since_ms = None;
    let read = lines(folder, &mut |met| {
        let fails = |error| {
            failed = Some(error);
            io::ErrorKind::Other.into()
        };
        let line = match met {
            JournalItem::Blob(bytes) => return writer.blob(tx, &bytes).map(drop).map_err(fails),
            JournalItem::Gap(..) => return Ok(()),
            JournalItem::Entry(line) => line,
        };
        became.note(line.taken, line.signal);
        said.extend(possible_pending_entry(&line));
        let length = writer.head.length;
        if line.seq > length {
            let first = behind.map_or((line.seq, line.at_ms), |(first, _)| first);
            behind = Some((first, line.seq));
        }
        if line.seq <= length {
            since_ms = Some(line.at_ms);
        }
        if line.seq != length {
            return Ok(());
        }
        let appended = PreparedLine::of(&line).and_then(|line| writer.append(tx, line));
        appended.map(drop).map_err(fails)
    });
    match (failed, read) {
        (Some(error), _) => return Err(error),
        (None, Err(error)) => return Err(io_error(WHAT, error)),
        (None, Ok(_)) => {}
    }
    let LineWriter { head, count, .. } = writer;
    let gap = behind.map(|((first, until_ms), last)| Gap {
        session: head.session.clone(),
        first: head.length,
        last: first - 1,
        behind: last + 1 - first,
        since_ms,
        until_ms: Some(until_ms),
        summary: None,
    });
    if count > 0 {
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
    Ok(RestoredLines {
        entries: count,
        head,
        gap,
    })
}
