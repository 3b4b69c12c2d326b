//! The inbox: messages that were sent while a step was in progress. A message is durable and can be
//! edited until an append records it as `Said` and removes it in the same transaction.
//!
//! Signals: requests of other processes to a session. They wait here, durable, until an append
//! records the entry that each becomes and deletes its row in the same transaction.
//!
//! Drafts: the answer that is streaming, and the unsent text in the input box. They survive the
//! process. An append removes them when they are recorded as entries.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::blobs::{Packed, insert_blob};
use super::chain::read_head;
use super::database::begin;
use super::error::Doing;
use super::replica::refuse_copy;
use super::row::count;
use super::{Inbox, InboxWriter, StoreError, cached};
use crate::core::entry::{Image, Seq, UsedCommand, Via};
use crate::core::signal::Signal;

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
    /// Returns a message without images.
    pub fn new(text: impl Into<String>, via: Via) -> Message {
        Message {
            text: text.into(),
            images: Vec::new(),
            via,
            command: None,
            origin: None,
        }
    }

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
        let sql =
            "SELECT max(i.id) FROM inbox i JOIN sessions s ON s.key = i.session WHERE s.id = ?1";
        cached::row(self.conn, sql, [session], |row| {
            row.get::<_, Option<i64>>(0)
        })
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
        let sql = "SELECT id, at_ms, body FROM inbox WHERE session = ?1 ORDER BY id LIMIT ?2";
        let rows: Vec<(i64, i64, String)> =
            cached::rows(self.conn, sql, params![key, limit], raw).doing(WHAT_READ)?;
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
    /// Marks what is queued next with its number in a shared database.
    #[must_use]
    pub fn of_mail(mut self, mail: i64) -> Self {
        self.mail = Some(mail);
        self
    }

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
        let sql = "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0)
                 FROM inbox i JOIN sessions s ON s.key = i.session WHERE s.id = ?1";
        let (waiting, bytes): (i64, i64) = cached::row(self.conn, sql, [session], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
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
        refuse_copy(self.conn, session)?;
        let body = with_mail(message, self.mail)?;
        let packed: Vec<Packed<'_>> = blobs.iter().map(|bytes| Packed::new(bytes)).collect();
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        for blob in &packed {
            insert_blob(&tx, blob).doing(WHAT)?;
        }
        let sql = "INSERT INTO inbox (session, at_ms, body) VALUES (?1, ?2, ?3)";
        cached::execute(&tx, sql, params![key, at_ms, body]).doing(WHAT)?;
        let id = InboxId(tx.last_insert_rowid());
        if let Some(draft) = draft {
            clear(&tx, key, draft).doing(WHAT)?;
        }
        let sql = "UPDATE sessions SET unfinished = 1 WHERE key = ?1";
        cached::execute(&tx, sql, [key]).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(session);
        Ok(id)
    }

    /// Replaces a queued message, which keeps its place in the queue. `NotFound` when it is no
    /// longer queued.
    pub fn edit_queued(&mut self, id: InboxId, message: &Message) -> Result<(), StoreError> {
        let body = serde_json::to_string(message).doing(WHAT_EDIT)?;
        let sql = "UPDATE inbox SET body = iif(json_extract(body, '$.mail') IS NULL, ?2,
                   json_set(?2, '$.mail', json_extract(body, '$.mail'))) WHERE id = ?1";
        let rows = cached::execute(self.conn, sql, params![id.0, body]).doing(WHAT_EDIT)?;
        if let Some(session) = session_of(self.conn, "inbox", id.0) {
            self.write_pending_rows(&session);
        }
        one_of(rows, "queued message", id.0)
    }

    /// Removes a queued message. `NotFound` when it is no longer queued.
    pub fn remove_queued(&mut self, id: InboxId) -> Result<(), StoreError> {
        let session = session_of(self.conn, "inbox", id.0);
        let sql = "DELETE FROM inbox WHERE id = ?1";
        let rows = cached::execute(self.conn, sql, [id.0]).doing(WHAT_EDIT)?;
        if let Some(session) = session {
            self.write_pending_rows(&session);
        }
        one_of(rows, "queued message", id.0)
    }
}

/// Returns a row for the inbox or the signals. `mail`: its number in a shared database.
fn with_mail(row: &impl Serialize, mail: Option<i64>) -> Result<String, StoreError> {
    let mut row = serde_json::to_value(row).doing(WHAT)?;
    if let (Some(fields), Some(mail)) = (row.as_object_mut(), mail) {
        fields.insert("mail".to_string(), mail.into());
    }
    serde_json::to_string(&row).doing(WHAT)
}

/// Removes a message from the queue of its session.
pub(super) fn take(tx: &Transaction<'_>, session: i64, id: InboxId) -> Result<(), StoreError> {
    let sql = "DELETE FROM inbox WHERE id = ?1 AND session = ?2";
    let rows = cached::execute(tx, sql, params![id.0, session]).doing(WHAT_EDIT)?;
    one_of(rows, "queued message", id.0)
}

fn raw(row: &Row<'_>) -> rusqlite::Result<(i64, i64, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn one_of(rows: usize, what: &'static str, id: i64) -> Result<(), StoreError> {
    if rows == 1 {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what,
        name: id.to_string(),
        near: None,
    })
}

const WHAT_SIGNAL: &str = "send a signal";
const WHAT_SIGNALS: &str = "read the signals";

/// Maximum number of signals that wait in one session. A sender that reaches it does not check
/// whether the session obeys.
pub const MAX_SIGNALS: u64 = 1_000;

/// Maximum number of messages from other processes that wait in one session.
pub const MAX_MESSAGES: u64 = 1_000;

/// Maximum size of these messages together, in bytes. A single message may be larger.
pub const MAX_MESSAGES_BYTES: u64 = 64 << 20;

/// The ID of a signal. It is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(i64);

impl SignalId {
    /// Returns the number under which other processes know the signal.
    pub fn number(self) -> i64 {
        self.0
    }
}

/// A signal that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedSignal {
    pub id: SignalId,
    /// Time when it was sent: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// The sender: `cli`.
    pub origin: String,
    /// The signal. `Err` says why it cannot be parsed; no version wrote such a row.
    pub signal: Result<Signal, String>,
}

impl Inbox<'_> {
    /// Returns a number that changes when another connection has committed. Costs two microseconds.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        cached::row(self.conn, "PRAGMA data_version", [], |row| row.get(0)).doing(WHAT_SIGNALS)
    }

    /// Returns the waiting signals, the oldest first.
    pub fn signals(&self, session: &str) -> Result<Vec<QueuedSignal>, StoreError> {
        let sql = "SELECT g.id, g.at_ms, g.origin, g.body FROM signals g JOIN sessions s ON s.key = g.session
                 WHERE s.id = ?1 ORDER BY g.id";
        cached::rows(self.conn, sql, [session], sent).doing(WHAT_SIGNALS)
    }
}

impl InboxWriter<'_> {
    /// Sends a signal. It is durable when this returns. `signal` is called with the place of the
    /// session's last entry.
    ///
    /// # Errors
    /// `TooMany`: too many wait already.
    pub fn signal(
        &mut self,
        session: &str,
        origin: &str,
        at_ms: i64,
        signal: impl FnOnce(Seq) -> Signal,
    ) -> Result<SignalId, StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_SIGNAL)?;
        refuse_copy(&tx, session)?;
        let head = read_head(&tx, session)?;
        let sql = "SELECT count(*) FROM signals WHERE session = ?1";
        let waiting: i64 =
            cached::row(&tx, sql, [head.key], |row| row.get(0)).doing(WHAT_SIGNAL)?;
        if count(waiting) >= MAX_SIGNALS {
            return Err(StoreError::TooMany {
                what: "signals",
                session: session.to_string(),
                limit: MAX_SIGNALS,
            });
        }
        let body = with_mail(&signal(head.seq()), self.mail)?;
        let sql = "INSERT INTO signals (session, at_ms, origin, body) VALUES (?1, ?2, ?3, ?4)";
        cached::execute(&tx, sql, params![head.key, at_ms, origin, body]).doing(WHAT_SIGNAL)?;
        let id = SignalId(tx.last_insert_rowid());
        tx.commit().doing(WHAT_SIGNAL)?;
        self.write_pending_rows(session);
        Ok(id)
    }

    /// Deletes a signal that has no effect. It is not an error if it is gone already.
    pub fn remove_signal(&mut self, id: SignalId) -> Result<(), StoreError> {
        self.in_use.check_names()?;
        let session = session_of(self.conn, "signals", id.0);
        cached::execute(self.conn, "DELETE FROM signals WHERE id = ?1", [id.0])
            .doing(WHAT_SIGNAL)?;
        if let Some(session) = session {
            self.write_pending_rows(&session);
        }
        Ok(())
    }
}

/// Returns the session of a row of `table`: `inbox`, or `signals`.
pub(super) fn session_of(conn: &Connection, table: &str, id: i64) -> Option<String> {
    let sql =
        format!("SELECT s.id FROM {table} w JOIN sessions s ON s.key = w.session WHERE w.id = ?1");
    let read = cached::row(conn, &sql, [id], |row| row.get(0)).optional();
    read.ok().flatten()
}

/// Deletes a signal in the transaction of the entry that it became.
pub(super) fn obey(tx: &Transaction<'_>, session: i64, id: SignalId) -> Result<(), StoreError> {
    let sql = "DELETE FROM signals WHERE id = ?1 AND session = ?2";
    let rows = cached::execute(tx, sql, params![id.0, session]).doing(WHAT_SIGNAL)?;
    one_of(rows, "signal", id.0)
}

fn sent(row: &Row<'_>) -> rusqlite::Result<QueuedSignal> {
    let body: String = row.get(3)?;
    Ok(QueuedSignal {
        id: SignalId(row.get(0)?),
        at_ms: row.get(1)?,
        origin: row.get(2)?,
        signal: serde_json::from_str(&body).map_err(|e| e.to_string()),
    })
}

const WHAT_DRAFT: &str = "keep a draft";

/// Maximum number of stored pieces of a stream. Later ones are not stored: a draft is only shown,
/// and the answer is recorded when it is complete.
const MAX_PIECES: u32 = 20_000;

/// A kind of draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draft {
    /// The answer of the model so far.
    Stream,
    /// The text in the input box that the user has not sent.
    Input,
}

/// The drafts of a session. `None` if there is no such draft.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drafts {
    /// The streamed text of an answer that is not recorded.
    pub stream: Option<String>,
    /// The unsent text of the input box.
    pub input: Option<String>,
}

/// The unsent text of a session that the user left, as long as it is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedDraft {
    pub session: String,
    pub draft: String,
}

impl Draft {
    fn name(self) -> &'static str {
        match self {
            Draft::Stream => "stream",
            Draft::Input => "input",
        }
    }
}

impl Inbox<'_> {
    /// Returns the drafts of a session, the pieces of each joined.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn drafts(&self, session: &str) -> Result<Drafts, StoreError> {
        let key = read_head(self.conn, session)?.key;
        let sql = "SELECT kind, text FROM drafts WHERE session = ?1 ORDER BY kind, piece";
        let pieces: Vec<(String, String)> =
            cached::rows(self.conn, sql, [key], |row| Ok((row.get(0)?, row.get(1)?)))
                .doing("read the drafts")?;
        let mut drafts = Drafts::default();
        for (kind, text) in pieces {
            let draft = match kind.as_str() {
                "stream" => &mut drafts.stream,
                _ => &mut drafts.input,
            };
            draft.get_or_insert_default().push_str(&text);
        }
        Ok(drafts)
    }
}

impl InboxWriter<'_> {
    /// Appends a piece to the streamed answer.
    pub fn append_draft(&mut self, session: &str, piece: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_DRAFT)?;
        let key = read_head(&tx, session)?.key;
        let sql = "INSERT INTO drafts (session, kind, piece, text)
             SELECT ?1, 'stream', n, ?2
             FROM (SELECT coalesce(max(piece) + 1, 0) AS n FROM drafts
                   WHERE session = ?1 AND kind = 'stream')
             WHERE n < ?3";
        cached::execute(&tx, sql, params![key, piece, MAX_PIECES]).doing(WHAT_DRAFT)?;
        tx.commit().doing(WHAT_DRAFT)
    }

    /// Replaces the unsent text.
    pub fn set_input(&mut self, session: &str, text: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_DRAFT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT_DRAFT)?;
        tx.commit().doing(WHAT_DRAFT)?;
        self.write_pending_rows(session);
        Ok(())
    }

    /// Moves unsent text from another session to this one, in one transaction, like
    /// [`InboxWriter::set_input`].
    pub fn move_input_from(
        &mut self,
        session: &str,
        text: &str,
        from: &AbandonedDraft,
    ) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_DRAFT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT_DRAFT)?;
        forget(&tx, from).doing(WHAT_DRAFT)?;
        tx.commit().doing(WHAT_DRAFT)?;
        self.write_pending_rows(session);
        self.write_pending_rows(&from.session);
        Ok(())
    }

    /// Removes this draft after its text was sent in another session.
    pub fn remove_left_draft(&mut self, from: &AbandonedDraft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_DRAFT)?;
        forget(&tx, from).doing(WHAT_DRAFT)?;
        tx.commit().doing(WHAT_DRAFT)?;
        self.write_pending_rows(&from.session);
        Ok(())
    }

    /// Removes a draft, if there is one.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn clear_draft(&mut self, session: &str, draft: Draft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_DRAFT)?;
        let key = read_head(&tx, session)?.key;
        clear(&tx, key, draft).doing(WHAT_DRAFT)?;
        tx.commit().doing(WHAT_DRAFT)?;
        if draft == Draft::Input {
            self.write_pending_rows(session);
        }
        Ok(())
    }
}

fn set(conn: &Connection, session: i64, text: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO drafts (session, kind, piece, text) VALUES (?1, 'input', 0, ?2)
         ON CONFLICT DO UPDATE SET text = excluded.text";
    cached::execute(conn, sql, params![session, text]).map(drop)
}

/// Removes the unsent text if it is still the same and the session still exists.
fn forget(conn: &Connection, left: &AbandonedDraft) -> rusqlite::Result<()> {
    let sql = "DELETE FROM drafts WHERE kind = 'input' AND text = ?2
         AND session = (SELECT key FROM sessions WHERE id = ?1)";
    cached::execute(conn, sql, params![left.session, left.draft]).map(drop)
}

pub(super) fn clear(conn: &Connection, session: i64, draft: Draft) -> rusqlite::Result<()> {
    let sql = "DELETE FROM drafts WHERE session = ?1 AND kind = ?2";
    cached::execute(conn, sql, params![session, draft.name()]).map(drop)
}
