//! The inbox: messages that were sent while a step was in progress. A message is durable and can be
//! edited until an append records it as `Said` and removes it in the same transaction.

use std::borrow::Cow;

use rusqlite::{Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::blobs::{Packed, insert_blob};
use super::drafts::{Draft, clear};
use super::error::Doing;
use super::file_identity::begin;
use super::head::read_head;
use super::row::count;
use super::signals::{MAX_MESSAGES, MAX_MESSAGES_BYTES, session_of};
use super::{Inbox, InboxWriter, StoreError};
use crate::core::entry::{Image, UsedCommand, Via};

const WHAT: &str = "queue a message";
const WHAT_EDIT: &str = "change a queued message";
const WHAT_READ: &str = "read the queued messages";

/// The ID of a queued message. It is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(i64);

impl InboxId {
    /// Returns the number under which other processes know the message.
    pub fn number(self) -> i64 {
        self.0
    }
}

/// A message of the user, or a note, before it is an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub text: String,
    /// Images of the message. Their bytes are blobs of the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The source of the message. It decides which entry the message becomes: `Noted` for a note,
    /// else `Said`.
    pub via: Via,
    /// The custom command whose text this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<UsedCommand>,
    /// The sender, if the message came from another process: `cli`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Message {
    /// Returns the message as it was typed: the text, or the custom command that stands for it.
    pub fn typed(&self) -> Cow<'_, str> {
        match &self.command {
            Some(command) => command.line().into(),
            None => self.text.as_str().into(),
        }
    }
}

/// A message that waits in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub id: InboxId,
    /// Time when it was queued: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub message: Message,
}

impl Queued {
    /// Returns whether this is a note and not a message: see [`Via::Note`].
    pub fn is_note(&self) -> bool {
        self.message.via == Via::Note
    }
}

impl Inbox<'_> {
    /// Returns all queued messages, the oldest first.
    pub fn queued(&self, session: &str) -> Result<Vec<Queued>, StoreError> {
        self.read_inbox(session, u32::MAX)
    }

    /// Returns the newest message, or `None` if the inbox is empty.
    pub fn newest_queued(&self, session: &str) -> Result<Option<InboxId>, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT max(i.id) FROM inbox i JOIN sessions s ON s.key = i.session WHERE s.id = ?1",
            )
            .and_then(|mut s| s.query_row([session], |row| row.get::<_, Option<i64>>(0)))
            .doing(WHAT_READ)
            .map(|id| id.map(InboxId))
    }

    /// Returns the message that waits longest, or `None` if the inbox is empty.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn oldest_queued(&self, session: &str) -> Result<Option<Queued>, StoreError> {
        Ok(self.read_inbox(session, 1)?.pop())
    }

    fn read_inbox(&self, session: &str, limit: u32) -> Result<Vec<Queued>, StoreError> {
        let key = read_head(self.conn, session)?.key;
        let rows: Vec<(i64, i64, String)> = self
            .conn
            .prepare_cached(
                "SELECT id, at_ms, body FROM inbox WHERE session = ?1 ORDER BY id LIMIT ?2",
            )
            .and_then(|mut s| s.query_map(params![key, limit], raw)?.collect())
            .doing(WHAT_READ)?;
        rows.into_iter()
            .map(|(id, at_ms, body)| {
                let message = serde_json::from_str(&body).map_err(|e| {
                    StoreError::damaged(format!("queued message {id} cannot be read: {e}"))
                })?;
                Ok(Queued {
                    id: InboxId(id),
                    at_ms,
                    message,
                })
            })
            .collect()
    }
}

impl InboxWriter<'_> {
    /// Queues a message. The session counts as unfinished from now on. `blobs` are the message's
    /// images.
    pub fn queue(
        &mut self,
        session: &str,
        message: &Message,
        blobs: &[Vec<u8>],
        at_ms: i64,
    ) -> Result<InboxId, StoreError> {
        self.insert(session, message, blobs, at_ms, None)
    }

    /// Queues the unsent text with [`InboxWriter::queue`] and removes it from the input box, in one
    /// transaction.
    pub fn send(
        &mut self,
        session: &str,
        message: &Message,
        blobs: &[Vec<u8>],
        at_ms: i64,
    ) -> Result<InboxId, StoreError> {
        self.insert(session, message, blobs, at_ms, Some(Draft::Input))
    }

    /// Queues a message of another process with [`InboxWriter::queue`]. At most [`MAX_MESSAGES`]
    /// wait, of [`MAX_MESSAGES_BYTES`] together.
    ///
    /// # Errors
    /// `TooMany`.
    pub fn queue_from_outside(
        &mut self,
        session: &str,
        message: &Message,
        blobs: &[Vec<u8>],
        at_ms: i64,
    ) -> Result<InboxId, StoreError> {
        let (waiting, bytes): (i64, i64) = self
            .conn
            .prepare_cached(
                "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0)
                 FROM inbox i JOIN sessions s ON s.key = i.session WHERE s.id = ?1",
            )
            .and_then(|mut s| s.query_row([session], |row| Ok((row.get(0)?, row.get(1)?))))
            .doing(WHAT)?;
        let too_many = |what, limit| StoreError::TooMany {
            what,
            session: session.to_string(),
            limit,
        };
        if count(waiting) >= MAX_MESSAGES {
            return Err(too_many("messages", MAX_MESSAGES));
        }
        // Each read of the queue reads all of it, and each change writes all of it to the journal.
        if waiting > 0 && count(bytes) + message.text.len() as u64 > MAX_MESSAGES_BYTES {
            return Err(too_many("MiB of messages", MAX_MESSAGES_BYTES >> 20));
        }
        self.queue(session, message, blobs, at_ms)
    }

    fn insert(
        &mut self,
        session: &str,
        message: &Message,
        blobs: &[Vec<u8>],
        at_ms: i64,
        draft: Option<Draft>,
    ) -> Result<InboxId, StoreError> {
        let body = serde_json::to_string(message).doing(WHAT)?;
        let packed: Vec<Packed<'_>> = blobs.iter().map(|bytes| Packed::new(bytes)).collect();
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        for blob in &packed {
            insert_blob(&tx, blob).doing(WHAT)?;
        }
        tx.prepare_cached("INSERT INTO inbox (session, at_ms, body) VALUES (?1, ?2, ?3)")
            .and_then(|mut s| s.execute(params![key, at_ms, body]))
            .doing(WHAT)?;
        let id = InboxId(tx.last_insert_rowid());
        if let Some(draft) = draft {
            clear(&tx, key, draft).doing(WHAT)?;
        }
        tx.prepare_cached("UPDATE sessions SET unfinished = 1 WHERE key = ?1")
            .and_then(|mut s| s.execute([key]))
            .doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(session);
        Ok(id)
    }

    /// Replaces a queued message, which keeps its place in the queue. `NotFound` when it is no
    /// longer queued.
    pub fn edit_queued(&mut self, id: InboxId, message: &Message) -> Result<(), StoreError> {
        let body = serde_json::to_string(message).doing(WHAT_EDIT)?;
        let rows = self
            .conn
            .prepare_cached("UPDATE inbox SET body = ?2 WHERE id = ?1")
            .and_then(|mut s| s.execute(params![id.0, body]))
            .doing(WHAT_EDIT)?;
        if let Some(session) = session_of(self.conn, "inbox", id.0) {
            self.write_pending_rows(&session);
        }
        one_of(rows, id)
    }

    /// Removes a queued message. `NotFound` when it is no longer queued.
    pub fn remove_queued(&mut self, id: InboxId) -> Result<(), StoreError> {
        let session = session_of(self.conn, "inbox", id.0);
        let rows = self
            .conn
            .prepare_cached("DELETE FROM inbox WHERE id = ?1")
            .and_then(|mut s| s.execute([id.0]))
            .doing(WHAT_EDIT)?;
        if let Some(session) = session {
            self.write_pending_rows(&session);
        }
        one_of(rows, id)
    }
}

/// Removes a message from the queue of its session.
pub(super) fn take(tx: &Transaction<'_>, session: i64, id: InboxId) -> Result<(), StoreError> {
    let rows = tx
        .prepare_cached("DELETE FROM inbox WHERE id = ?1 AND session = ?2")
        .and_then(|mut s| s.execute(params![id.0, session]))
        .doing(WHAT_EDIT)?;
    one_of(rows, id)
}

fn raw(row: &Row<'_>) -> rusqlite::Result<(i64, i64, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn one_of(rows: usize, id: InboxId) -> Result<(), StoreError> {
    if rows == 1 {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what: "queued message",
        name: id.0.to_string(),
        near: None,
    })
}
