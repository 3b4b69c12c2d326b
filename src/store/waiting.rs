//! What a session has besides its entries, kept in its journal after each change, and put back
//! from there.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::value::RawValue;

use super::blobs::{Packed, insert_blob};
use super::error::Doing;
use super::follow::Copies;
use super::gap::gap_of;
use super::inbox::Message;
use super::journal::{GapRow, Met, State, Waiting, lines, read_state};
use super::row::count;
use super::{Store, StoreError};
use crate::core::entry::{Entry, Seq};

const WHAT: &str = "keep what waits in the journal";

impl Store {
    /// After a commit that changed it. What fails is no error of the change.
    pub(super) fn keep_waiting(&mut self, session: &str) {
        let Some(mut copies) = self.copies.take() else {
            return;
        };
        if let Err(error) = self.write_waiting(&mut copies, session) {
            copies.fails(&error);
        }
        self.copies = Some(copies);
    }

    pub(super) fn write_waiting(
        &self,
        copies: &mut Copies,
        session: &str,
    ) -> Result<(), StoreError> {
        // Else the journal would not have it any more either.
        self.put_back_lost(copies)?;
        let Some(state) = state(&self.conn, session)? else {
            return Ok(());
        };
        let mut blobs = Vec::new();
        for waiting in &state.inbox {
            let message = serde_json::from_str::<Message>(waiting.message.get());
            for image in message.map(|m| m.images).unwrap_or_default() {
                // A damaged one is told when it is wanted.
                if let Ok(Some(bytes)) = self.blob(&image.blob.hash) {
                    blobs.push((image.blob.hash, bytes));
                }
            }
        }
        copies.journal.write_state(session, &state, &blobs)
    }

    /// The same, of the session that a queued message is of.
    pub(super) fn session_of_queued(&self, id: i64) -> Option<String> {
        let sql = "SELECT s.id FROM inbox i JOIN sessions s ON s.key = i.session WHERE i.id = ?1";
        let read = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row([id], |row| row.get(0)).optional());
        read.ok().flatten()
    }
}

/// `None`: there is no such session.
fn state(conn: &Connection, session: &str) -> Result<Option<State>, StoreError> {
    let sql = "SELECT key, length, trashed_ms,
        (SELECT text FROM drafts WHERE session = key AND kind = 'input' AND piece = 0)
      FROM sessions WHERE id = ?1";
    let row: Option<(i64, i64, Option<i64>, Option<String>)> = conn
        .prepare_cached(sql)
        .and_then(|mut s| {
            s.query_row([session], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()
        })
        .doing(WHAT)?;
    let Some((key, length, trashed_ms, input)) = row else {
        return Ok(None);
    };
    let used: Option<i64> = conn
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'")
        .and_then(|mut s| s.query_row([], |row| row.get(0)).optional())
        .doing(WHAT)?;
    let rows: Vec<(i64, i64, String)> = conn
        .prepare_cached("SELECT id, at_ms, body FROM inbox WHERE session = ?1 ORDER BY id")
        .and_then(|mut s| {
            s.query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .doing(WHAT)?;
    let mut inbox = Vec::with_capacity(rows.len());
    for (id, at_ms, body) in rows {
        let message = RawValue::from_string(body).doing(WHAT)?;
        inbox.push(Waiting { id, at_ms, message });
    }
    Ok(Some(State {
        inbox,
        input: input.filter(|text| !text.is_empty()),
        trashed_ms,
        length: count(length),
        used: used.unwrap_or(0),
        gap: gap_of(conn, session)?.map(GapRow::from),
    }))
}

/// An entry that a message may have become. By its place, not by its time: a clock may have been
/// set back.
pub(super) type Said = (Seq, Entry);

/// What the journal in this folder says that a session had, put into a database that lost it.
/// `taken`: messages that became entries. `said`: entries of which it is not known which message
/// they were; the oldest message is always said first.
pub(super) fn put_back(
    tx: &Transaction<'_>,
    folder: &Path,
    session: (i64, u64),
    taken: &BTreeSet<i64>,
    said: &[Said],
) -> Result<(), StoreError> {
    let Some((state, blobs)) = read_state(folder) else {
        return Ok(());
    };
    let (key, length) = session;
    put_waiting_back(tx, (&state, &blobs), key, taken, said)?;
    // What was appended behind it took the session out of the trash.
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

/// Its queued messages and unsent words, those that are not there. How many they were.
pub(super) fn put_waiting_back(
    tx: &Transaction<'_>,
    (state, blobs): (&State, &[Vec<u8>]),
    key: i64,
    taken: &BTreeSet<i64>,
    said: &[Said],
) -> Result<u64, StoreError> {
    for bytes in blobs {
        insert_blob(tx, &Packed::new(bytes)).doing(WHAT)?;
    }
    // All of them waited when the session had that many entries.
    let since = said.iter().filter(|(seq, _)| *seq >= state.length);
    let mut said: Vec<&Entry> = since.map(|(_, entry)| entry).collect();
    let mut back = 0;
    for waiting in &state.inbox {
        let message = waiting.message.get();
        if taken.contains(&waiting.id) {
            continue;
        }
        if let Some(at) = said.iter().position(|entry| is_of(entry, message)) {
            said.remove(at);
            continue;
        }
        back += tx
            .execute(
                "INSERT OR IGNORE INTO inbox (id, session, at_ms, body) VALUES (?1, ?2, ?3, ?4)",
                params![waiting.id, key, waiting.at_ms, message],
            )
            .doing(WHAT)?;
    }
    if let Some(input) = &state.input {
        back += tx
            .execute(
                "INSERT OR IGNORE INTO drafts (session, kind, piece, text)
                 VALUES (?1, 'input', 0, ?2)",
                params![key, input],
            )
            .doing(WHAT)?;
    }
    Ok(back as u64)
}

/// Whether the entry is what this message became.
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

impl Store {
    /// Messages wait here that the journal says were said: an older copy of the database lies
    /// under a newer write-ahead log, which has the entry and not the page of the inbox.
    pub(super) fn forget_said(&mut self, folder: &Path, session: &str) -> Result<(), StoreError> {
        let waiting = self.queued(session)?;
        if waiting.is_empty() {
            return Ok(());
        }
        let mut said: Vec<(i64, i64)> = Vec::new();
        let read = lines(folder, &mut |met| {
            if let Met::Entry(line) = met
                && let Some(id) = line.taken
                && waiting.iter().any(|queued| queued.id.number() == id)
            {
                said.push((id, line.at_ms));
            }
            Ok(())
        });
        // As far as it can be read.
        drop(read);
        if said.is_empty() {
            return Ok(());
        }
        let tx = self.write(WHAT)?;
        let mut forgotten = 0;
        for (id, at_ms) in &said {
            // One that was queued later has been given the same id by the older copy.
            let sql = "DELETE FROM inbox WHERE id = ?1 AND at_ms <= ?2
              AND session = (SELECT key FROM sessions WHERE id = ?3)";
            forgotten += tx.execute(sql, params![id, at_ms, session]).doing(WHAT)?;
        }
        never_again(&tx, said.iter().map(|(id, _)| *id).max().unwrap_or(0))?;
        tx.commit().doing(WHAT)?;
        if forgotten > 0 {
            tracing::warn!(%session, forgotten, "queued messages had been said");
        }
        Ok(())
    }
}

/// Ids of messages up to this one were used.
pub(super) fn never_again(tx: &Transaction<'_>, highest: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO sqlite_sequence (name, seq) SELECT 'inbox', ?1
      WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'inbox')";
    tx.execute(sql, [highest]).doing(WHAT)?;
    let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'inbox'";
    tx.execute(sql, [highest]).doing(WHAT).map(drop)
}
