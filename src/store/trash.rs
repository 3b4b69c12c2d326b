//! The trash: a session that is not listed any more. Nothing is removed from it by itself, and
//! nothing of the session changes; appending to it takes it out again. The sessions of its
//! sub-agents go into the trash with it, and come back with it.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Doing;
use super::row::count;
use super::sessions::{IS_CHILD, OF_PARENT};
use super::{History, Store, StoreError};

const WHAT: &str = "move the session to the trash";
const WHAT_LOOK: &str = "look whether the session is in the trash";
const WHAT_BACK: &str = "take the session out of the trash";

impl Store {
    /// With its sub-agents' sessions. The caller has the locks of all of them, so nobody works
    /// there.
    pub fn trash(&mut self, session: &str, at_ms: i64) -> Result<(), StoreError> {
        let tx = self.write(WHAT)?;
        let trash = |tx: &Connection| -> rusqlite::Result<Vec<String>> {
            // Those that are in the trash already keep their time: they came there by themselves.
            let mut changed = tx.prepare(&format!(
                "UPDATE sessions AS s SET trashed_ms =
                   coalesce((SELECT trashed_ms FROM sessions WHERE id = ?1), ?2)
                 WHERE (s.id = ?1 OR {OF_PARENT}) AND (s.trashed_ms IS NULL OR s.id = ?1)
                 RETURNING id"
            ))?;
            changed
                .query_map(params![session, at_ms], |row| row.get(0))?
                .collect()
        };
        let changed = trash(&tx).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.all_of(changed, session)
    }

    /// Takes a session out of the trash, if it is in it, with its sub-agents' sessions that were
    /// put there with it. That of a sub-agent brings back its parent, below which it stands.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn restore(&mut self, session: &str) -> Result<(), StoreError> {
        let tx = self.write(WHAT_BACK)?;
        let restore = |tx: &Connection| -> rusqlite::Result<Vec<String>> {
            let parent = format!(
                "SELECT p.id FROM sessions s JOIN sessions p ON p.key = s.forked_from
                 WHERE s.id = ?1 AND {IS_CHILD} AND p.trashed_ms NOT NULL"
            );
            let parent: Option<String> = tx
                .query_row(&parent, [session], |row| row.get(0))
                .optional()?;
            let top = parent.as_deref().unwrap_or(session);
            let mut changed = tx.prepare(&format!(
                "UPDATE sessions AS s SET trashed_ms = NULL
                 WHERE s.id IN (?1, ?2) OR ({OF_PARENT} AND s.trashed_ms =
                   (SELECT trashed_ms FROM sessions WHERE id = ?1))
                 RETURNING id"
            ))?;
            changed
                .query_map([top, session], |row| row.get(0))?
                .collect()
        };
        let changed = restore(&tx).doing(WHAT_BACK)?;
        tx.commit().doing(WHAT_BACK)?;
        self.all_of(changed, session)
    }

    fn all_of(&mut self, changed: Vec<String>, session: &str) -> Result<(), StoreError> {
        if !changed.iter().any(|id| id == session) {
            return Err(StoreError::no_session(session));
        }
        for id in changed {
            self.inbox_mut().keep_waiting(&id);
        }
        Ok(())
    }
}

impl History<'_> {
    /// Whether the session is in the trash.
    pub fn is_in_trash(&self, session: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND trashed_ms NOT NULL)";
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row([session], |row| row.get(0)))
            .doing(WHAT_LOOK)
    }

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
