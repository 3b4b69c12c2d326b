//! Pages of sessions and new entries, for clients outside of the process.
//!
//! A page starts after the position of a session's last entry. That is a number and not a cursor of
//! the database, so nothing stays open between two pages.

use rusqlite::{OptionalExtension, Row, params};

use super::error::Doing;
use super::listing::{MessageMatch, SessionKey};
use super::load::explained;
use super::row::count;
use super::sessions::{IS_BLANK, IS_CHILD, SELECT, info};
use super::{Checkpoint, History, Index, SessionInfo, Store, StoreError};
use crate::core::entry::Seq;

const WHAT: &str = "list the sessions";
const WHAT_NEW: &str = "read what was recorded";
const WHAT_CHECKPOINTS: &str = "list the checkpoints";
const WHAT_SUMMARY: &str = "read the summary of the session";

/// Rows indexed in one transaction when a search has to wait for them.
const ROWS_AT_ONCE: u32 = 1_000;

/// Number of matching entries, the newest first, from which sessions are found.
const MAX_HITS: u32 = 2_000;

/// Number of entries at the end of a session that are searched for its last checkpoints.
const CHECKPOINT_ENTRIES: u32 = 300;

/// The sessions that a page includes.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageFilter<'a> {
    /// Only sessions of this folder: they work in it, or it is their workspace.
    pub folder: Option<&'a str>,
    /// Only sessions whose [`Paged::at`] is lower.
    pub before: Option<i64>,
}

/// A session of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Paged {
    /// The position of its last entry among those of all sessions: the newest has the highest.
    pub at: i64,
    pub info: SessionInfo,
    /// Whether a question to a person is open.
    pub asks: bool,
    /// The place of the words that were searched for.
    pub said: Option<MessageMatch>,
}

/// An entry of any session, with its position among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    pub row: i64,
    pub session: String,
    pub seq: Seq,
    pub kind: String,
    pub at_ms: i64,
}

impl History<'_> {
    /// Returns a page of sessions, the newest first. It leaves out sessions in the trash, blank
    /// ones, and those of subagents.
    pub fn page(&self, filter: PageFilter<'_>, limit: u32) -> Result<Vec<Paged>, StoreError> {
        let sql = format!(
            "{} WHERE s.trashed_ms IS NULL AND s.head < ?1
             AND (?2 IS NULL OR s.folder = ?2 OR s.workspace = ?2)
             AND NOT {IS_CHILD} AND NOT ({IS_BLANK}) ORDER BY s.head DESC LIMIT ?3",
            columns()
        );
        let before = filter.before.unwrap_or(i64::MAX);
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(params![before, filter.folder, limit], paged)?
                        .collect()
                })
                .doing(WHAT)
        })
    }

    fn one_of_page(&self, key: SessionKey) -> Result<Option<Paged>, StoreError> {
        let sql = format!("{} WHERE s.key = ?1 AND s.trashed_ms IS NULL", columns());
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row([key.0], paged).optional())
            .doing(WHAT)
    }

    /// Returns one session in the form of a page.
    ///
    /// # Errors
    /// As [`History::find`].
    pub fn one_paged(&self, id: &str) -> Result<Paged, StoreError> {
        let id = self.find(id)?.id;
        let sql = format!("{} WHERE s.id = ?1", columns());
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row([&id], paged).optional())
            .doing(WHAT)?
            .ok_or_else(|| StoreError::no_session(&id))
    }

    /// Returns the last checkpoints of a session, the newest first. Only its last entries are
    /// searched: a long session costs no more than a short one.
    pub fn last_checkpoints(
        &self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.conn
            .prepare_cached(
                "WITH RECURSIVE chain (id, n) AS (
                   SELECT head, 1 FROM sessions WHERE id = ?1
                   UNION ALL
                   SELECT e.parent, n + 1 FROM chain JOIN entries e ON e.id = chain.id
                   WHERE e.parent < e.id AND n < ?3)
                 SELECT c.session, c.seq, c.at_ms, c.reason, c.plan_step
                 FROM chain CROSS JOIN checkpoints c ON c.entry = chain.id LIMIT ?2",
            )
            .and_then(|mut s| {
                s.query_map(params![session, limit, CHECKPOINT_ENTRIES], |row| {
                    Ok(Checkpoint {
                        session: row.get(0)?,
                        seq: count(row.get(1)?),
                        at_ms: row.get(2)?,
                        reason: row.get(3)?,
                        plan_step: row.get(4)?,
                    })
                })?
                .collect()
            })
            .doing(WHAT_CHECKPOINTS)
    }

    /// Returns the summary that is stored beside the log. `None`: there is none, or not yet.
    pub fn stored_summary(&self, session: &str) -> Result<Option<String>, StoreError> {
        self.conn
            .prepare_cached("SELECT summary FROM conversation_context WHERE conversation_id = ?1")
            .and_then(|mut s| s.query_row([session], |row| row.get(0)).optional())
            .doing(WHAT_SUMMARY)
    }

    /// Returns the position of the last entry of all sessions, or 0 if there is none.
    pub fn last_row(&self) -> Result<i64, StoreError> {
        self.conn
            .prepare_cached("SELECT coalesce(max(id), 0) FROM entries")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing(WHAT_NEW)
    }

    /// Returns entries of all sessions after this position, the oldest first.
    pub fn entries_after_row(&self, row: i64, limit: u32) -> Result<Vec<NewEntry>, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT e.id, s.id, e.seq, e.kind, e.at_ms
                 FROM entries e JOIN sessions s ON s.key = e.session
                 WHERE e.id > ?1 ORDER BY e.id LIMIT ?2",
            )
            .and_then(|mut s| {
                s.query_map(params![row, limit], |row| {
                    Ok(NewEntry {
                        row: row.get(0)?,
                        session: row.get(1)?,
                        seq: count(row.get(2)?),
                        kind: row.get(3)?,
                        at_ms: row.get(4)?,
                    })
                })?
                .collect()
            })
            .doing(WHAT_NEW)
    }
}

impl Index<'_> {
    /// Returns a page of the sessions in which all words of a query occur in messages, calls or
    /// output.
    pub fn page_of_matches(
        &self,
        query: &str,
        filter: PageFilter<'_>,
        limit: u32,
    ) -> Result<Vec<Paged>, StoreError> {
        // If the store cannot be written, the search uses the entries that are indexed already.
        while self.index_pending(ROWS_AT_ONCE).unwrap_or(0) > 0 {}
        let mut found = Vec::new();
        for said in self.history().sessions_matching(query, MAX_HITS)? {
            let Some(mut paged) = self.history().one_of_page(said.key)? else {
                continue;
            };
            let is_before = filter.before.is_none_or(|before| paged.at < before);
            let is_there = filter
                .folder
                .is_none_or(|f| paged.info.folder == f || paged.info.workspace == f);
            if is_before && is_there {
                paged.said = Some(said);
                found.push(paged);
            }
        }
        found.sort_by_key(|paged| std::cmp::Reverse(paged.at));
        found.truncate(limit as usize);
        Ok(found)
    }
}

impl Store {
    /// Checks that the open files still have their names.
    ///
    /// # Errors
    /// `Moved`.
    pub fn check_names(&self) -> Result<(), StoreError> {
        self.in_use.check_names()
    }
}

fn columns() -> String {
    SELECT.replacen("\nFROM", ", s.head, s.asks\nFROM", 1)
}

fn paged(row: &Row<'_>) -> rusqlite::Result<Paged> {
    Ok(Paged {
        at: row.get("head")?,
        info: info(row)?,
        asks: row.get("asks")?,
        said: None,
    })
}
