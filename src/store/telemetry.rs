//! How far the spans of each session were sent to a collector.
//!
//! A lost row costs no entry: the next start of the session begins a new one at its end.

use rusqlite::{OptionalExtension, Row, params};

use super::database::begin;
use super::error::Doing;
use super::row::{count, int};
use super::{Store, StoreError, Telemetry, cached};
use crate::core::entry::Seq;

const WHAT: &str = "read how much telemetry was sent";
const WHAT_WRITE: &str = "store how much telemetry was sent";

/// Progress of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryCursor {
    /// The spans that end before this entry were sent.
    pub seq: Seq,
    /// The first entry that the next spans need.
    pub turn: Seq,
    /// Id of the trace.
    pub trace: [u8; 16],
    /// The span above those of the session.
    pub parent: Option<[u8; 8]>,
}

fn cursor(row: &Row<'_>) -> rusqlite::Result<TelemetryCursor> {
    Ok(TelemetryCursor {
        seq: count(row.get(0)?),
        turn: count(row.get(1)?),
        trace: row.get(2)?,
        parent: row.get(3)?,
    })
}

impl<'a> Telemetry<'a> {
    pub fn of(store: &'a Store) -> Telemetry<'a> {
        Telemetry {
            conn: &store.conn,
            in_use: &store.in_use,
        }
    }
}

impl Telemetry<'_> {
    /// Stops syncing the commits of this connection: an older cursor only repeats spans.
    pub fn stop_syncing(&self) -> Result<(), StoreError> {
        self.conn
            .pragma_update(None, "synchronous", "NORMAL")
            .doing(WHAT_WRITE)
    }

    /// Returns the progress of a session. `None`: its spans are not sent.
    pub fn cursor(&self, session: &str) -> Result<Option<TelemetryCursor>, StoreError> {
        let sql = "SELECT seq, turn, trace, parent FROM telemetry WHERE session = ?1";
        cached::row(self.conn, sql, [session], cursor)
            .optional()
            .doing(WHAT)
    }

    /// Returns the number of entries of a session.
    pub fn length(&self, session: &str) -> Result<Seq, StoreError> {
        let sql = "SELECT length FROM sessions WHERE id = ?1";
        cached::row(self.conn, sql, [session], |row| row.get(0))
            .optional()
            .doing(WHAT)
            .map(|length| length.map_or(0, count))
    }

    /// Returns the sessions with entries after their cursor, the newest first.
    pub fn unsent(&self, at_most: u32) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT sessions.id FROM telemetry JOIN sessions ON sessions.id = session
                 WHERE seq < length ORDER BY updated_ms DESC LIMIT ?1";
        cached::rows(self.conn, sql, [at_most], |row| row.get(0)).doing(WHAT)
    }

    /// Stores the progress of a session. A cursor that is further already stays.
    pub fn set_cursor(&self, session: &str, at: &TelemetryCursor) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_WRITE)?;
        let sql =
            "INSERT INTO telemetry (session, seq, turn, trace, parent) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET seq = excluded.seq, turn = excluded.turn
             WHERE seq < excluded.seq";
        let values = params![session, int(at.seq), int(at.turn), at.trace, at.parent];
        cached::execute(&tx, sql, values).doing(WHAT_WRITE)?;
        tx.commit().doing(WHAT_WRITE)
    }

    /// Forgets a session: the entries that it has now are never sent.
    pub fn forget(&self, session: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT_WRITE)?;
        tx.execute("DELETE FROM telemetry WHERE session = ?1", [session])
            .doing(WHAT_WRITE)?;
        tx.commit().doing(WHAT_WRITE)
    }
}
