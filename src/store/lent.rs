//! Entries that are damaged in the database, read from the journal where it has them. Nothing is
//! repaired by it, and what is appended goes into the database as before.
//!
//! Invariant: the journal is believed only where it goes on from the last entry that the database
//! has, by the tip of that, and ends with the same tip as the session, as far as that can be read.

use std::io;

use rusqlite::Connection;

use super::follow::Copies;
use super::head::Head;
use super::{Store, StoreError};
use crate::core::entry::{Record, Seq};
use crate::core::text::count;
use crate::journal::line::EntryLine;
use crate::journal::read::{Met, begin, lines};
use crate::journal::tip::Tip;

/// Forks of forks that are followed.
const MAX_PARENTS: u32 = 64;

/// Sessions that are counted.
const AT_MOST: usize = 1_000_000;

/// A part of a session's chain.
#[derive(Clone, Copy)]
struct Part {
    from: Seq,
    /// The tip of all before it.
    tip: Tip,
    /// The entry behind the last one.
    end: Seq,
}

impl Store {
    /// What was read from the journal, for the damage of the database, for a person.
    pub fn was_lent(&self) -> Option<String> {
        let entries = self.lent.get();
        (entries > 0).then(|| {
            format!(
                "the database is damaged: {} of this session {} read from the journal; rewake doctor \
                 says what is damaged",
                count(entries, "entry"),
                if entries == 1 { "was" } else { "were" }
            )
        })
    }

    /// Whether new entries can be recorded behind this head, as far as it can be told without
    /// trying: SQLite looks at the row of the last one, and at the end of the table.
    pub fn can_append(&self, head: &Head) -> bool {
        let sql = "SELECT 1 FROM entries WHERE id = ?1";
        let last = self.conn.query_row(sql, [head.row], |_| Ok(()));
        last.is_ok() && super::chain::can_append(&self.conn)
    }

    /// The entries from this one on to the end of the session, behind this tip; and the tip of the
    /// session. `None`: the journal does not have all of them.
    ///
    /// # Errors
    /// That of `each`.
    pub(super) fn lend<E>(
        &self,
        conn: &Connection,
        head: &Head,
        from: Seq,
        tip: Tip,
        mut each: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Option<Tip>, E> {
        let part = Part {
            from,
            tip,
            end: head.length,
        };
        let Some(copies) = self.copies.as_ref().filter(|_| from < head.length) else {
            return Ok(None);
        };
        // Looked at first: what is given cannot be taken back.
        let is_entry = |line: EntryLine| record(&line).map(drop);
        let end = walk(copies, &head.session, part, &mut { is_entry }, MAX_PARENTS);
        let Ok(Some(end)) = end else {
            return Ok(None);
        };
        if recorded_tip(conn, head).is_some_and(|recorded| recorded != end) {
            return Ok(None);
        }
        let mut stopped = None;
        let mut give = |line: EntryLine| {
            each(record(&line)?).map_err(|error| {
                stopped = Some(error);
                io::ErrorKind::Other.into()
            })
        };
        let given = walk(copies, &head.session, part, &mut give, MAX_PARENTS);
        match (stopped, given) {
            (Some(error), _) => Err(error),
            (None, Ok(given)) => {
                self.lent.set(head.length - from);
                Ok(given)
            }
            (None, Err(_)) => Ok(None),
        }
    }

    /// The error with what else is to be known for its hint: what the journal has, and whether
    /// any session can be read here.
    pub(super) fn told(&self, error: StoreError) -> StoreError {
        let error = match &error {
            StoreError::Damaged { .. } if !self.has_readable_session() => error.while_opening(),
            _ => error,
        };
        let Some(copies) = &self.copies else {
            return error;
        };
        error.with_journal(|| {
            crate::journal::folder::sessions(&copies.journal.folder, AT_MOST).len() as u64
        })
    }
}

impl Store {
    fn has_readable_session(&self) -> bool {
        let sql = "SELECT 1 FROM sessions NOT INDEXED LIMIT 1";
        match self.conn.query_row(sql, [], |_| Ok(())) {
            Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => true,
            Err(_) => false,
        }
    }
}

fn record(line: &EntryLine) -> io::Result<Record> {
    Ok(Record {
        seq: line.seq,
        at_ms: line.at_ms,
        entry: serde_json::from_str(line.entry.get())?,
    })
}

/// As the row of the last entry says it. `None`: that cannot be read, or an older version wrote it.
fn recorded_tip(conn: &Connection, head: &Head) -> Option<Tip> {
    let sql = "SELECT tip FROM entries WHERE id = ?1";
    let tip: Option<Vec<u8>> = conn.query_row(sql, [head.row], |row| row.get(0)).ok()?;
    Tip::from_bytes(&tip?)
}

/// A fork has its own entries in its journal, and those before in that of the session that it
/// parts from.
fn walk(
    copies: &Copies,
    session: &str,
    part: Part,
    each: &mut dyn FnMut(EntryLine) -> io::Result<()>,
    parents: u32,
) -> io::Result<Option<Tip>> {
    let folder = copies.journal.of(session);
    if !folder.is_dir() {
        return Ok(None);
    }
    let Some(header) = begin(&folder)? else {
        return Ok(None);
    };
    let Part {
        mut from,
        mut tip,
        end,
    } = part;
    if from < header.first {
        let parent = header
            .forked
            .as_ref()
            .filter(|of| of.seq + 1 == header.first);
        let (Some(parent), Some(parents)) = (parent, parents.checked_sub(1)) else {
            return Ok(None);
        };
        let part = Part {
            end: header.first,
            ..part
        };
        if walk(copies, &parent.session, part, each, parents)? != Some(header.tip) {
            return Ok(None);
        }
        (from, tip) = (header.first, header.tip);
    }
    let mut is_ours = (from, tip) == (header.first, header.tip);
    let mut next = from;
    lines(&folder, &mut |met| {
        let line = match met {
            Met::Entry(line) => line,
            Met::Gap(first, before) => {
                is_ours |= (first, before) == (from, tip);
                return Ok(());
            }
            Met::Blob(_) => return Ok(()),
        };
        is_ours |= line.seq + 1 == from && line.tip == tip;
        if !is_ours || line.seq != next || next >= end {
            return Ok(());
        }
        (next, tip) = (next + 1, line.tip);
        each(line)
    })?;
    Ok((is_ours && next == end).then_some(tip))
}
