//! Writing the journal after each commit. An up-to-date journal gets its lines at once. A journal
//! may lag after a full disk, after it was off, or for an older session. It then catches up from
//! the database step by step, from its own last line. Only the end of the journal says how far it
//! is.
//!
//! Invariant: no row is left out. A line is written only after the line of the entry before it.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::value::RawValue;

use super::chain::{Head, chain, read_head};
use super::copies::Copies;
use super::error::Doing;
use super::high_water_mark::MarkText;
use super::machine::Machine;
use super::parallel_read::record_and_json;
use super::pending_rows::recognised;
use super::replica::of_header;
use super::row::{BodyReader, SELECT_ROW, count, row_positions};
use super::{Store, StoreError, blobs, cached};
use crate::core::entry::{Entry, Seq};
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{EntryLine, FIRST_FORM, FORM, Header, Parent};
use crate::journal::writer::{Journal, Lines};

const WHAT: &str = "write the journal";

/// Maximum size of one step of catching up, in bytes.
const BYTES_IN_A_STEP: usize = 1 << 20;

const STEPS_ON_LEAVING: u32 = 16;

/// The content of one transaction, for its journal lines.
#[derive(Default)]
pub(super) struct Recorded<'a> {
    pub at_ms: i64,
    pub entries: &'a [Entry],
    pub json: Vec<&'a str>,
    pub blobs: &'a [Vec<u8>],
    pub taken: Option<i64>,
    pub signal: Option<i64>,
    pub owed: bool,
}

impl Drop for Store {
    /// Writes the journal as far as that takes a moment. The next process that works in the session
    /// writes the rest.
    fn drop(&mut self) {
        for _ in 0..STEPS_ON_LEAVING {
            if !matches!(self.catch_up(), Ok(true)) {
                break;
            }
        }
    }
}

impl Store {
    /// Returns once why the journal cannot be written. The session continues without it.
    pub fn take_journal_failure(&mut self) -> Option<String> {
        let copies = self.copies.as_mut()?;
        if let Some(why) = copies.journal.trouble() {
            copies.note_journal_failure(why);
        }
        let fault = copies.trouble.as_mut().filter(|fault| !fault.is_told)?;
        fault.is_told = true;
        Some(fault.why.clone())
    }

    /// Writes the journal lines of a commit, and the high-water mark. A failure here does not fail
    /// the append.
    pub(super) fn follow(&mut self, before: &Head, after: &Head, recorded: &Recorded<'_>) {
        if let Some(copies) = &mut self.copies {
            copies.follow(&self.conn, before, after, recorded);
        }
    }

    /// Writes one step of the lines that the session's journal lacks. Returns whether it lacks
    /// more.
    pub(super) fn catch_up(&mut self) -> Result<bool, StoreError> {
        match &mut self.copies {
            Some(copies) => copies.catch_up(&self.conn),
            None => Ok(false),
        }
    }

    /// Writes all lines that the session's journal lacks. A failure is reported as a trouble of the
    /// journal, and [`Store::catch_up`] tries again.
    pub(super) fn write_journal_of(&mut self, session: &str) {
        if let Some(copies) = &mut self.copies {
            copies.behind = Some(session.to_string());
        }
        while matches!(self.catch_up(), Ok(true)) {}
    }
}

impl Copies {
    /// See [`Store::follow`].
    fn follow(&mut self, conn: &Connection, before: &Head, after: &Head, recorded: &Recorded<'_>) {
        let session = after.session.as_str();
        self.lag.is_noted(session);
        let is_behind = match self.behind.as_deref() == Some(session) {
            true => Ok(true),
            false => self.follow_with(conn, before, after, recorded),
        };
        // An effect needs its entry in the journal, so all earlier entries are written first.
        let followed = is_behind.and_then(|is_behind| match is_behind {
            true => self.write_missing(conn, session),
            false => Ok(()),
        });
        match followed {
            Ok(()) => {
                self.behind.take_if(|behind| behind == session);
                self.works();
            }
            Err(error) => {
                self.fails(&error);
                self.behind = Some(session.to_string());
            }
        }
        // The mark comes after the journal: after a kill between the two, it names no entry that
        // the journal lacks.
        if let (Some(mark), Some(row)) = (&mut self.mark, after.row)
            && let Err(error) = mark.raise(&self.store, row, Some(after.tip))
        {
            self.fails(&super::error::io("raise the mark", error));
        }
    }

    /// Writes the lines of one transaction. Returns whether the journal lacks earlier ones.
    fn follow_with(
        &mut self,
        conn: &Connection,
        before: &Head,
        after: &Head,
        recorded: &Recorded<'_>,
    ) -> Result<bool, StoreError> {
        let session = after.session.as_str();
        if recorded.entries.is_empty() {
            return Ok(false);
        }
        let end = self.end_of(conn, session)?;
        if end != (before.length, before.tip) {
            return Ok(true);
        }
        let mut lines = Lines::default();
        let (mut seq, mut tip) = end;
        for (entry, json) in recorded.entries.iter().zip(&recorded.json) {
            tip = tip.and(seq, recorded.at_ms, json.as_bytes());
            add_blobs(
                conn,
                &self.journal,
                &mut lines,
                session,
                entry,
                recorded.blobs,
            )?;
            let owed = recorded.owed && seq + 1 == after.length;
            let line = EntryLine {
                seq,
                at_ms: recorded.at_ms,
                tip,
                taken: recorded.taken,
                signal: recorded.signal,
                owed,
                entry: raw(json)?,
            };
            lines.entry(&line).map_err(|e| super::error::io(WHAT, e))?;
            // The end of a segment of the context also ends the journal's file.
            lines.ends_window |= entry.ends_window();
            seq += 1;
        }
        self.journal.write(session, lines)?;
        Ok(false)
    }

    /// Returns the end of a journal, which is opened if it is not open yet.
    fn end_of(&mut self, conn: &Connection, session: &str) -> Result<(Seq, ChainHash), StoreError> {
        let header = || header(conn, &self.store, session);
        match self.journal.end_of_open(session) {
            Some(end) => Ok(end),
            None => self.journal.open(session, header),
        }
    }

    /// See [`Store::catch_up`].
    pub(super) fn catch_up(&mut self, conn: &Connection) -> Result<bool, StoreError> {
        let caught = match self.behind.clone() {
            Some(session) => self.catch_up_with(conn, &session),
            None => Ok(false),
        };
        match &caught {
            Ok(true) => {}
            Ok(false) => self.behind = None,
            Err(error) => self.fails(error),
        }
        caught
    }

    /// Writes all lines that the journal of this session lacks.
    pub(super) fn write_missing(
        &mut self,
        conn: &Connection,
        session: &str,
    ) -> Result<(), StoreError> {
        while self.catch_up_with(conn, session)? {}
        Ok(())
    }

    pub(super) fn catch_up_with(
        &mut self,
        conn: &Connection,
        session: &str,
    ) -> Result<bool, StoreError> {
        let (from, tip) = self.end_of(conn, session)?;
        let tx = conn.unchecked_transaction().doing(WHAT)?;
        let head = read_head(&tx, session)?;
        if from >= head.length {
            return Ok(false);
        }
        let chain = chain(&tx, &head, from.saturating_sub(1))?;
        chain.readable_upto(Seq::MAX)?;
        let recognised = recognised(&tx, &self.journal.of(session), &head)?;
        let sql = "SELECT unfinished FROM sessions WHERE id = ?1";
        let owed: bool = cached::row(&tx, sql, [session], |row| row.get(0)).doing(WHAT)?;
        let (mut lines, mut seq, mut tip) = (Lines::default(), from, tip);
        let mut statement = tx.prepare_cached(SELECT_ROW).doing(WHAT)?;
        let mut bodies = BodyReader::new()?;
        for position in row_positions(session, from, chain.rows.into_iter().rev()) {
            let (linked, json) =
                record_and_json(&mut statement, &position, tip, &mut bodies, WHAT)?;
            tip = linked.tip;
            let record = &linked.record;
            add_blobs(conn, &self.journal, &mut lines, session, &record.entry, &[])?;
            let line = EntryLine {
                seq,
                at_ms: record.at_ms,
                tip,
                // Otherwise a database that is restored from this journal would send the message or
                // obey the signal a second time.
                taken: recognised.taken.get(&seq).copied(),
                signal: recognised.obeyed.get(&seq).copied(),
                owed: seq + 1 == head.length && owed,
                entry: raw(&json)?,
            };
            lines.entry(&line).map_err(|e| super::error::io(WHAT, e))?;
            seq += 1;
            if lines.bytes() >= BYTES_IN_A_STEP {
                break;
            }
        }
        self.journal.write(session, lines)?;
        drop(statement);
        drop(tx);
        let is_more = seq < head.length;
        if !is_more && recognised.is_any() {
            self.write_waiting(conn, session)?;
        }
        Ok(is_more)
    }
}

fn add_blobs(
    conn: &Connection,
    journal: &Journal,
    lines: &mut Lines,
    session: &str,
    entry: &Entry,
    at_hand: &[Vec<u8>],
) -> Result<(), StoreError> {
    for blob in entry.blobs() {
        let hash = blob.hash.as_str();
        if journal.has_blob(session, hash) || lines.has_blob(hash) {
            continue;
        }
        let is_it = |bytes: &&Vec<u8>| {
            bytes.len() as u64 == blob.bytes && blake3::hash(bytes).to_hex().as_str() == hash
        };
        let written = match at_hand.iter().find(is_it) {
            Some(bytes) => lines.blob(hash, bytes),
            // A damaged blob is reported when it is read.
            None => match blobs::blob(conn, hash) {
                Ok(Some(bytes)) => lines.blob(hash, &bytes),
                _ => Ok(()),
            },
        };
        written.map_err(|e| super::error::io(WHAT, e))?;
    }
    Ok(())
}

fn raw(json: &str) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(json.to_string()).doing(WHAT)
}

/// Returns the header of this session's journal, which the first own entry of the session follows.
pub(super) fn header(conn: &Connection, store: &str, session: &str) -> Result<Header, StoreError> {
    let sql = "SELECT s.workspace, s.folder, s.created_ms, o.id, s.forked_seq, s.replica
      FROM sessions s LEFT JOIN sessions o ON o.key = s.forked_from WHERE s.id = ?1";
    let row = cached::row(conn, sql, [session], |row| {
        let origin: Option<String> = row.get(3)?;
        let forked_seq: Option<i64> = row.get(4)?;
        let forked = origin.zip(forked_seq).map(|(session, seq)| Parent {
            session,
            seq: count(seq),
        });
        let replica: Option<String> = row.get(5)?;
        Ok(Header {
            rewake: match replica {
                Some(_) => FORM,
                None => FIRST_FORM,
            },
            replica: replica.is_some(),
            source: replica.filter(|source| of_header(source).is_some()),
            machine: Machine::this().map(Machine::word),
            store: store.to_string(),
            session: session.to_string(),
            workspace: row.get(0)?,
            folder: row.get(1)?,
            created_ms: row.get(2)?,
            first: forked.as_ref().map_or(0, |forked| forked.seq + 1),
            forked,
            tip: ChainHash::of_nothing(),
        })
    })
    .optional();
    let mut header = row
        .doing(WHAT)?
        .ok_or_else(|| StoreError::no_session(session))?;
    if let Some(parent) = &header.forked {
        header.tip = super::tips::tip_upto(conn, &parent.session, parent.seq)?;
    }
    Ok(header)
}

/// Returns whether this database has the newest entry that the mark knows, in the same row. Apart
/// from purges, rows are removed only at the end, so it has all earlier ones too.
pub(super) fn has_all(conn: &Connection, store: &str, said: &MarkText) -> Result<bool, StoreError> {
    Ok(said.store == store
        && said.tip.is_some()
        && super::tips::tip_in(conn, said.highest)? == said.tip)
}

/// Returns the row id of the newest entry, or 0 if there is none.
pub(super) fn highest(conn: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(id), 0) FROM entries";
    cached::row(conn, sql, params![], |row| row.get(0)).doing(WHAT)
}
