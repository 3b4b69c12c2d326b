//! Signals: requests of other processes to a session. They wait here, durable, until an append
//! records the entry that each becomes and deletes its row in the same transaction.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::error::Doing;
use super::file_identity::begin;
use super::head::read_head;
use super::row::count;
use super::{Inbox, InboxWriter, StoreError};
use crate::core::entry::Seq;
use crate::core::signal::Signal;

const WHAT: &str = "send a signal";
const WHAT_READ: &str = "read the signals";

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
        self.conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing(WHAT_READ)
    }

    /// Returns the waiting signals, the oldest first.
    pub fn signals(&self, session: &str) -> Result<Vec<QueuedSignal>, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT g.id, g.at_ms, g.origin, g.body FROM signals g JOIN sessions s ON s.key = g.session
                 WHERE s.id = ?1 ORDER BY g.id",
            )
            .and_then(|mut s| s.query_map([session], sent)?.collect())
            .doing(WHAT_READ)
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
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let head = read_head(&tx, session)?;
        let waiting: i64 = tx
            .prepare_cached("SELECT count(*) FROM signals WHERE session = ?1")
            .and_then(|mut s| s.query_row([head.key], |row| row.get(0)))
            .doing(WHAT)?;
        if count(waiting) >= MAX_SIGNALS {
            return Err(StoreError::TooMany {
                what: "signals",
                session: session.to_string(),
                limit: MAX_SIGNALS,
            });
        }
        let body = serde_json::to_string(&signal(head.seq())).doing(WHAT)?;
        tx.prepare_cached(
            "INSERT INTO signals (session, at_ms, origin, body) VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut s| s.execute(params![head.key, at_ms, origin, body]))
        .doing(WHAT)?;
        let id = SignalId(tx.last_insert_rowid());
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(session);
        Ok(id)
    }

    /// Deletes a signal that has no effect. It is not an error if it is gone already.
    pub fn remove_signal(&mut self, id: SignalId) -> Result<(), StoreError> {
        self.in_use.check_names()?;
        let session = session_of(self.conn, "signals", id.0);
        self.conn
            .prepare_cached("DELETE FROM signals WHERE id = ?1")
            .and_then(|mut s| s.execute([id.0]))
            .doing(WHAT)?;
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
    let read = conn
        .prepare_cached(&sql)
        .and_then(|mut s| s.query_row([id], |row| row.get(0)).optional());
    read.ok().flatten()
}

/// Deletes a signal in the transaction of the entry that it became.
pub(super) fn obey(tx: &Transaction<'_>, session: i64, id: SignalId) -> Result<(), StoreError> {
    let rows = tx
        .prepare_cached("DELETE FROM signals WHERE id = ?1 AND session = ?2")
        .and_then(|mut s| s.execute(params![id.0, session]))
        .doing(WHAT)?;
    if rows == 1 {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what: "signal",
        name: id.0.to_string(),
        near: None,
    })
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
