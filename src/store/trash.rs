//! The trash: a session that is not listed any more. Nothing is removed from it by itself, and
//! nothing of the session changes; appending to it takes it out again.

use rusqlite::params;

use super::error::Doing;
use super::row::count;
use super::{Store, StoreError};

const WHAT: &str = "move the session to the trash";
const WHAT_LOOK: &str = "look whether the session is in the trash";
const WHAT_BACK: &str = "take the session out of the trash";

impl Store {
    /// The caller has the session's lock, so nobody works in it.
    pub fn trash(&mut self, session: &str, at_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET trashed_ms = coalesce(trashed_ms, ?2) WHERE id = ?1";
        let rows = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut s| s.execute(params![session, at_ms]))
            .doing(WHAT)?;
        self.keep_waiting(session);
        one(rows, session)
    }

    /// Whether the session is in the trash.
    pub fn is_in_trash(&self, session: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND trashed_ms NOT NULL)";
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row([session], |row| row.get(0)))
            .doing(WHAT_LOOK)
    }

    /// Takes a session out of the trash, if it is in it.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn restore(&mut self, session: &str) -> Result<(), StoreError> {
        let rows = self
            .conn
            .prepare_cached("UPDATE sessions SET trashed_ms = NULL WHERE id = ?1")
            .and_then(|mut s| s.execute([session]))
            .doing(WHAT_BACK)?;
        self.keep_waiting(session);
        one(rows, session)
    }
}

impl Store {
    /// How many sessions are in the trash, and the bytes of their entries as stored.
    pub fn in_trash(&self) -> Result<(u64, u64), StoreError> {
        self.conn
            .query_row(
                "SELECT count(*), coalesce(sum(bytes), 0) FROM sessions WHERE trashed_ms IS NOT NULL",
                [],
                |row| Ok((count(row.get(0)?), count(row.get(1)?))),
            )
            .doing("look at the trash")
    }
}

fn one(rows: usize, session: &str) -> Result<(), StoreError> {
    match rows {
        0 => Err(StoreError::no_session(session)),
        _ => Ok(()),
    }
}
