//! The trash: sessions that lists leave out. Nothing is removed from the trash automatically, and
//! nothing of the session changes. An append takes the session out of the trash. The sessions of
//! its subagents move to the trash and back together with it.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Doing;
use super::row::count;
use super::sessions::{IS_CHILD, OF_PARENT};
use super::{History, Store, StoreError};

const WHAT: &str = "move the session to the trash";
const WHAT_LOOK: &str = "look whether the session is in the trash";
const WHAT_BACK: &str = "take the session out of the trash";

impl Store {
    /// Moves a session to the trash, with the sessions of its subagents. The caller has the locks
    /// of all of them, so no process uses them.
    pub fn trash(&mut self, session: &str, at_ms: i64) -> Result<(), StoreError> {
        let tx = self.write(WHAT)?;
        let trash = |tx: &Connection| -> rusqlite::Result<Vec<String>> {
            // Subagents that were in the trash already keep their time: they were moved there
            // separately.
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

    /// Takes a session out of the trash, with the sessions of subagents that were moved there with
    /// it. Restoring the session of a subagent also restores its parent, below which it is listed.
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
            self.inbox_mut().write_pending_rows(&id);
        }
        Ok(())
    }
}

impl History<'_> {
    /// Returns whether the session is in the trash.
    pub fn is_in_trash(&self, session: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND trashed_ms NOT NULL)";
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row([session], |row| row.get(0)))
            .doing(WHAT_LOOK)
    }

    /// Returns the number of sessions in the trash, and the stored size of their entries in bytes.
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
