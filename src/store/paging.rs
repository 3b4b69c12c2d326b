//! Sessions page by page and entries as they come, for whoever looks from outside of the program.
//!
//! A page goes on behind the place of a session's last entry, which is a number and not a cursor
//! of the database: who pages holds nothing open.

use rusqlite::{OptionalExtension, Row, params};

use super::error::Doing;
use super::listing::{SaidIn, SessionKey};
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

/// Among the newest so many entries with the words, sessions are found.
const MAX_HITS: u32 = 2_000;

/// So far back from its end the last checkpoints of a session are looked for, entries.
const CHECKPOINT_ENTRIES: u32 = 300;

/// Which sessions a page has.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageFilter<'a> {
    /// Only those of this folder: they work in it, or it is their workspace.
    pub folder: Option<&'a str>,
    /// Only those whose [`Paged::at`] is lower.
    pub before: Option<i64>,
}

/// A session of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Paged {
    /// The place of its last entry among those of all sessions: the newest has the highest.
    pub at: i64,
    pub info: SessionInfo,
    /// A person was asked something, and has not answered.
    pub asks: bool,
    /// Where the words are that were searched for.
    pub said: Option<SaidIn>,
}

/// An entry of any session, by its place among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    pub row: i64,
    pub session: String,
    pub seq: Seq,
    pub kind: String,
    pub at_ms: i64,
}

impl History<'_> {
    /// The newest first. Neither what is in the trash nor what is blank, nor sessions of
    /// sub-agents.
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

    /// The session as it stands in a page.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn one_paged(&self, id: &str) -> Result<Paged, StoreError> {
        let id = self.find(id)?.id;
        let sql = format!("{} WHERE s.id = ?1", columns());
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row([&id], paged).optional())
            .doing(WHAT)?
            .ok_or_else(|| StoreError::no_session(&id))
    }

    /// The last checkpoints of a session, the newest first, among its last entries: a long
    /// session costs no more than a short one.
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

    /// The summary that is kept beside the log. `None`: none is, or not yet.
    pub fn kept_summary(&self, session: &str) -> Result<Option<String>, StoreError> {
        self.conn
            .prepare_cached("SELECT summary FROM conversation_context WHERE conversation_id = ?1")
            .and_then(|mut s| s.query_row([session], |row| row.get(0)).optional())
            .doing(WHAT_SUMMARY)
    }

    /// The place of the last entry of all sessions; 0 when there is none.
    pub fn last_row(&self) -> Result<i64, StoreError> {
        self.conn
            .prepare_cached("SELECT coalesce(max(id), 0) FROM entries")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing(WHAT_NEW)
    }

    /// Entries of all sessions behind this place, the oldest first.
    pub fn entries_behind(&self, row: i64, limit: u32) -> Result<Vec<NewEntry>, StoreError> {
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
    /// The same of the sessions in which all words of a query were said, called or printed.
    pub fn page_saying(
        &self,
        query: &str,
        filter: PageFilter<'_>,
        limit: u32,
    ) -> Result<Vec<Paged>, StoreError> {
        // Where it cannot be written, what is indexed already is found.
        while self.index_pending(ROWS_AT_ONCE).unwrap_or(0) > 0 {}
        let mut found = Vec::new();
        for said in self.history().saying(query, MAX_HITS)? {
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
    /// Whether the open files are still those with their names.
    ///
    /// # Errors
    /// `Moved`.
    pub fn still_there(&self) -> Result<(), StoreError> {
        self.in_use.still_there()
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
