//! The state of a session apart from its entries: queued messages, signals, unsent text, the trash.
//! It is written to the session's journal after each change, and restored from there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::value::RawValue;

use super::blobs::{Packed, blob, insert_blob};
use super::chain::{Head, chain};
use super::copies::Copies;
use super::database::begin;
use super::error::Doing;
use super::gap::gap_of;
use super::inbox::Message;
use super::row::{BodyReader, count};
use super::{Inbox, InboxWriter, StoreError, cached};
use crate::core::entry::{Entry, Seq};
use crate::core::signal::{self, Signal};
use crate::journal::line::EntryLine;
use crate::journal::read::{JournalItem, lines};
use crate::journal::state::{GapRow, State, Waiting, WaitingSignal, read_state};

const WHAT: &str = "keep what waits in the journal";

/// Rows that were removed because an entry was recorded for them, by their ids.
#[derive(Default)]
pub(crate) struct ConsumedIds {
    /// Queued messages.
    pub taken: BTreeSet<i64>,
    /// Signals.
    pub obeyed: BTreeSet<i64>,
}

impl ConsumedIds {
    pub(crate) fn note(&mut self, taken: Option<i64>, signal: Option<i64>) {
        self.taken.extend(taken);
        self.obeyed.extend(signal);
    }

    /// Makes sure that none of these ids is used again.
    pub(super) fn mark_ids_used(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        let last = |ids: &BTreeSet<i64>| ids.last().copied().unwrap_or(0);
        mark_ids_used(tx, "inbox", last(&self.taken))?;
        mark_ids_used(tx, "signals", last(&self.obeyed))
    }
}

impl InboxWriter<'_> {
    /// Writes the state to the journal after a commit that changed it. A failure here does not fail
    /// the change.
    pub(super) fn write_pending_rows(&mut self, session: &str) {
        if let Some(copies) = self.copies.as_deref_mut()
            && let Err(error) = copies.write_waiting(self.conn, session)
        {
            copies.fails(&error);
        }
    }
}

impl Copies {
    pub(super) fn write_waiting(
        &mut self,
        conn: &Connection,
        session: &str,
    ) -> Result<(), StoreError> {
        let held = self.journal.hold_state(session)?;
        let Some(state) = state(conn, session)? else {
            return Ok(());
        };
        let mut blobs = Vec::new();
        for waiting in &state.inbox {
            let message = serde_json::from_str::<Message>(waiting.message.get());
            for image in message.map(|m| m.images).unwrap_or_default() {
                // A damaged blob is reported when it is read.
                if let Ok(Some(bytes)) = blob(conn, &image.blob.hash) {
                    blobs.push((image.blob.hash, bytes));
                }
            }
        }
        self.journal.write_state(session, &state, &blobs)?;
        drop(held);
        Ok(())
    }
}

/// Returns the state of a session, or `None` if there is no such session.
fn state(conn: &Connection, session: &str) -> Result<Option<State>, StoreError> {
    let sql = "SELECT key, length, trashed_ms,
        (SELECT text FROM drafts WHERE session = key AND kind = 'input' AND piece = 0)
      FROM sessions WHERE id = ?1";
    let row: Option<(i64, i64, Option<i64>, Option<String>)> =
        cached::row(conn, sql, [session], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()
        .doing(WHAT)?;
    let Some((key, length, trashed_ms, input)) = row else {
        return Ok(None);
    };
    let used = |table: &str| {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        cached::row(conn, sql, [table], |row| row.get::<_, i64>(0))
            .optional()
            .doing(WHAT)
    };
    let sql = "SELECT id, at_ms, body FROM inbox WHERE session = ?1 ORDER BY id";
    let rows: Vec<(i64, i64, String)> = cached::rows(conn, sql, [key], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
    .doing(WHAT)?;
    let mut inbox = Vec::with_capacity(rows.len());
    for (id, at_ms, body) in rows {
        let message = RawValue::from_string(body).doing(WHAT)?;
        inbox.push(Waiting { id, at_ms, message });
    }
    Ok(Some(State {
        inbox,
        signals: signals(conn, key)?,
        input: input.filter(|text| !text.is_empty()),
        trashed_ms,
        length: count(length),
        used: used("inbox")?.unwrap_or(0),
        signals_used: used("signals")?.unwrap_or(0),
        gap: gap_of(conn, session)?.map(GapRow::from),
    }))
}

fn signals(conn: &Connection, key: i64) -> Result<Vec<WaitingSignal>, StoreError> {
    let sql = "SELECT id, at_ms, origin, body FROM signals WHERE session = ?1 ORDER BY id";
    let rows: Vec<(i64, i64, String, String)> = cached::rows(conn, sql, [key], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })
    .doing(WHAT)?;
    let one = |(id, at_ms, origin, body)| {
        Ok(WaitingSignal {
            id,
            at_ms,
            origin,
            signal: RawValue::from_string(body).doing(WHAT)?,
        })
    };
    rows.into_iter().map(one).collect()
}

/// An entry that a message or a signal may have become. It has its place and not its time, since a
/// clock may have been set back.
pub(crate) type MayHaveWaited = (Seq, Entry);

/// Returns the entry of a line, if it may have been a message or a signal that the line does not
/// name.
pub(super) fn possible_pending_entry(line: &EntryLine) -> Option<MayHaveWaited> {
    if line.taken.is_some() || line.signal.is_some() {
        return None;
    }
    let json = line.entry.get();
    let is_kind = |kind: &&str| json.starts_with(&format!("{{\"kind\":\"{kind}\""));
    if !["said", "noted"].iter().chain(signal::BECOME).any(is_kind) {
        return None;
    }
    let entry = serde_json::from_str(json).ok()?;
    Some((line.seq, entry))
}

/// Returns such entries from the rows of a session, from this place on.
pub(super) fn consumed_since(
    conn: &Connection,
    head: &Head,
    first: Seq,
) -> Result<Vec<MayHaveWaited>, StoreError> {
    let mut said = Vec::new();
    if first >= head.length {
        return Ok(said);
    }
    let chain = chain(conn, head, first)?;
    chain.readable_upto(Seq::MAX)?;
    let mut statement = conn
        .prepare_cached("SELECT kind, body FROM entries WHERE id = ?1")
        .doing(WHAT)?;
    let mut bodies = BodyReader::new()?;
    for (seq, id) in (first..).zip(chain.rows.into_iter().rev()) {
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Option<Entry>> {
            let kind: String = row.get(0)?;
            let is_wanted = matches!(kind.as_str(), "said" | "noted")
                || signal::BECOME.contains(&kind.as_str());
            match is_wanted {
                true => Ok(bodies.read(row.get_ref(1)?).ok()),
                false => Ok(None),
            }
        };
        let entry = statement.query_row([id], read).optional().doing(WHAT)?;
        said.extend(entry.flatten().map(|entry| (seq, entry)));
    }
    Ok(said)
}

/// The message or signal that each of these entries was, found by content. All of them waited when
/// the session had as many entries as its state says. Each became the oldest entry that fits.
#[derive(Default)]
pub(super) struct Recognised {
    pub taken: BTreeMap<Seq, i64>,
    pub obeyed: BTreeMap<Seq, i64>,
}

impl Recognised {
    pub(super) fn is_any(&self) -> bool {
        !self.taken.is_empty() || !self.obeyed.is_empty()
    }

    fn among(state: &State, became: &ConsumedIds, said: &[MayHaveWaited]) -> Recognised {
        let since = said.iter().filter(|(seq, _)| *seq >= state.length);
        let mut left: Vec<&MayHaveWaited> = since.collect();
        let mut first_that = |fits: &dyn Fn(&Entry) -> bool| -> Option<Seq> {
            let at = left.iter().position(|(_, entry)| fits(entry))?;
            Some(left.remove(at).0)
        };
        let mut recognised = Recognised::default();
        let messages = state.inbox.iter();
        for waiting in messages.filter(|waiting| !became.taken.contains(&waiting.id)) {
            let message = waiting.message.get();
            let seq = first_that(&|entry| is_of(entry, message));
            recognised.taken.extend(seq.map(|seq| (seq, waiting.id)));
        }
        let signals = state.signals.iter();
        for waiting in signals.filter(|waiting| !became.obeyed.contains(&waiting.id)) {
            let signal = serde_json::from_str::<Signal>(waiting.signal.get());
            let is_it = |entry: &Entry| signal.as_ref().is_ok_and(|signal| signal.became(entry));
            let seq = first_that(&is_it);
            recognised.obeyed.extend(seq.map(|seq| (seq, waiting.id)));
        }
        recognised
    }
}

/// Returns the messages and signals that waited when the state of this session was written, and are
/// entries by now.
pub(super) fn recognised(
    conn: &Connection,
    folder: &Path,
    head: &Head,
) -> Result<Recognised, StoreError> {
    let inbox = Inbox { conn };
    let Some((mut state, _)) = read_state(folder) else {
        return Ok(Recognised::default());
    };
    // A message that still waits is not an entry yet.
    for waits in inbox.queued(head.session())? {
        state.inbox.retain(|was| was.id != waits.id.number());
    }
    for waits in inbox.signals(head.session())? {
        state.signals.retain(|was| was.id != waits.id.number());
    }
    if state.inbox.is_empty() && state.signals.is_empty() {
        return Ok(Recognised::default());
    }
    let said = consumed_since(conn, head, state.length)?;
    Ok(Recognised::among(&state, &ConsumedIds::default(), &said))
}

/// Restores the state of a session from the journal in this folder into a database that lost it.
/// `became`: ids that were recorded already. `said`: entries of which it is not known which message
/// or signal they were; the oldest is always matched first.
pub(super) fn restore_state(
    tx: &Transaction<'_>,
    folder: &Path,
    session: (i64, u64),
    became: &ConsumedIds,
    said: &[MayHaveWaited],
) -> Result<(), StoreError> {
    let Some((state, blobs)) = read_state(folder) else {
        return Ok(());
    };
    let (key, length) = session;
    restore_pending_rows(tx, (&state, &blobs), key, became, said)?;
    mark_ids_used(tx, "inbox", state.used)?;
    mark_ids_used(tx, "signals", state.signals_used)?;
    // Entries that were appended later took the session out of the trash.
    let trashed_ms = state.trashed_ms.filter(|_| state.length == length);
    tx.execute(
        "UPDATE sessions SET trashed_ms = ?2,
           unfinished = max(unfinished, EXISTS (SELECT 1 FROM inbox WHERE session = ?1))
         WHERE key = ?1",
        params![key, trashed_ms],
    )
    .doing(WHAT)
    .map(drop)
}

/// Restores the queued messages, signals and unsent text that are missing.
fn restore_pending_rows(
    tx: &Transaction<'_>,
    (state, blobs): (&State, &[Vec<u8>]),
    key: i64,
    became: &ConsumedIds,
    said: &[MayHaveWaited],
) -> Result<(), StoreError> {
    for bytes in blobs {
        insert_blob(tx, &Packed::new(bytes)).doing(WHAT)?;
    }
    let recognised = Recognised::among(state, became, said);
    let is_entry = |ids: &BTreeSet<i64>, found: &BTreeMap<Seq, i64>, id: i64| {
        ids.contains(&id) || found.values().any(|known| *known == id)
    };
    for waiting in &state.inbox {
        let message = waiting.message.get();
        if is_entry(&became.taken, &recognised.taken, waiting.id) {
            continue;
        }
        tx.execute(
            "INSERT OR IGNORE INTO inbox (id, session, at_ms, body) VALUES (?1, ?2, ?3, ?4)",
            params![waiting.id, key, waiting.at_ms, message],
        )
        .doing(WHAT)?;
    }
    for waiting in &state.signals {
        let body = waiting.signal.get();
        if is_entry(&became.obeyed, &recognised.obeyed, waiting.id) {
            continue;
        }
        tx.execute(
            "INSERT OR IGNORE INTO signals (id, session, at_ms, origin, body)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            params![waiting.id, key, waiting.at_ms, waiting.origin, body],
        )
        .doing(WHAT)?;
    }
    if let Some(input) = &state.input {
        tx.execute(
            "INSERT OR IGNORE INTO drafts (session, kind, piece, text)
                 VALUES (?1, 'input', 0, ?2)",
            params![key, input],
        )
        .doing(WHAT)?;
    }
    Ok(())
}

/// Returns whether the entry is what this message became.
fn is_of(entry: &Entry, message: &str) -> bool {
    let Ok(message) = serde_json::from_str::<Message>(message) else {
        return false;
    };
    match entry {
        Entry::Said {
            text,
            images,
            via,
            command,
            ..
        } => {
            *text == message.text
                && *images == message.images
                && *via == message.via
                && *command == message.command
        }
        Entry::Noted { text, .. } => *text == message.text,
        _ => false,
    }
}

impl InboxWriter<'_> {
    /// Removes waiting messages that were sent, and signals that were obeyed, according to the
    /// journal. Such rows exist if an older copy of the database is used with a newer write-ahead
    /// log. That log has the entry but not the page of the row.
    pub(super) fn remove_consumed(
        &mut self,
        folder: &Path,
        session: &str,
    ) -> Result<(), StoreError> {
        let ids = |rows: Vec<i64>| rows.into_iter().collect::<BTreeSet<i64>>();
        let inbox = Inbox { conn: self.conn };
        let queued = inbox
            .queued(session)?
            .iter()
            .map(|q| q.id.number())
            .collect();
        let sent = inbox
            .signals(session)?
            .iter()
            .map(|s| s.id.number())
            .collect();
        let (queued, sent) = (ids(queued), ids(sent));
        if queued.is_empty() && sent.is_empty() {
            return Ok(());
        }
        let (mut became, mut gone) = (ConsumedIds::default(), Vec::new());
        let read = lines(folder, &mut |met| {
            if let JournalItem::Entry(line) = met {
                let said = line.taken.filter(|id| queued.contains(id));
                let obeyed = line.signal.filter(|id| sent.contains(id));
                became.taken.extend(said);
                became.obeyed.extend(obeyed);
                gone.extend(said.map(|id| ("inbox", id, line.at_ms)));
                gone.extend(obeyed.map(|id| ("signals", id, line.at_ms)));
            }
            Ok(())
        });
        // Only the readable part of the journal is used.
        drop(read);
        if gone.is_empty() {
            return Ok(());
        }
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let mut forgotten = 0;
        for (table, id, at_ms) in gone {
            // The older copy of the database gave the same id to a later row, which stays.
            let sql = format!(
                "DELETE FROM {table} WHERE id = ?1 AND at_ms <= ?2
                 AND session = (SELECT key FROM sessions WHERE id = ?3)"
            );
            forgotten += tx.execute(&sql, params![id, at_ms, session]).doing(WHAT)?;
        }
        became.mark_ids_used(&tx)?;
        tx.commit().doing(WHAT)?;
        if forgotten > 0 {
            tracing::warn!(%session, forgotten, "what waited had been said or obeyed");
        }
        Ok(())
    }
}

/// Marks the ids of this table up to this one as used.
pub(super) fn mark_ids_used(
    tx: &Transaction<'_>,
    table: &str,
    highest: i64,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2
      WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)";
    tx.execute(sql, params![table, highest]).doing(WHAT)?;
    let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
    tx.execute(sql, params![table, highest])
        .doing(WHAT)
        .map(drop)
}
