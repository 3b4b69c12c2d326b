//! The list of all sessions in display order. It is fast for ten thousand sessions: the order is
//! read first, then only the sessions on the screen.
//!
//! The order is a value, not a cursor in the database. Heads move while somebody looks, and a list
//! that is paged by them would leave sessions out.
//!
//! Pages of sessions and new entries, for clients outside of the process.
//!
//! A page starts after the position of a session's last entry. That is a number and not a cursor of
//! the database, so nothing stays open between two pages.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Row, params};

use super::error::Doing;
use super::index::IndexedText;
use super::load::explained;
use super::query::{escape, snippet, terms};
use super::replica::IS_COPY;
use super::row::{BodyReader, count};
use super::sessions::{IS_BLANK, IS_CHILD, SELECT, info, position};
use super::{Checkpoint, History, Index, SessionInfo, Store, StoreError, cached};
use crate::core::entry::Seq;

const WHAT: &str = "list the sessions";
const WHAT_SEARCH: &str = "search";

/// A number that identifies a session within this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey(pub(super) i64);

/// The place of a session in the list, with all that is read before the session is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    pub key: SessionKey,
    /// The title of the session, or else its first message. `None`: it has neither.
    pub title: Option<String>,
    /// Whether it belongs to the workspace that was asked about.
    pub is_here: bool,
    /// The session that gave it its task. `None` if it is not the session of a subagent.
    pub parent: Option<SessionKey>,
}

/// The newest entry of a session that has all words of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageMatch {
    pub key: SessionKey,
    /// The place of the entry.
    pub seq: Seq,
    /// One line around the first match.
    pub snippet: String,
    /// Number of entries of the session with the words, among those that were looked at.
    pub entries: u64,
}

/// Returns the SQL of the list. It groups sessions by workspace: first `?1`, then the workspace
/// with the newest entry. Within a group the newest session is first. Sessions without a message
/// are not listed.
fn listing_sql() -> String {
    format!(
        "SELECT key, title, here, parent FROM (
  SELECT s.key, s.title, s.workspace, s.workspace = ?1 AS here, {IS_COPY} AS copy, s.updated_ms,
    iif({IS_CHILD}, s.forked_from, NULL) AS parent, {} AS position
  FROM sessions s WHERE (s.trashed_ms IS NOT NULL) = ?2 AND NOT ({IS_BLANK}))
ORDER BY here DESC, max(position) OVER (PARTITION BY workspace) DESC, workspace, position DESC,
  NOT copy, updated_ms DESC",
        position()
    )
}

/// Returns the SQL of a search, the newest entry first in the order of the index: it stops when
/// enough entries are found.
fn matching_sql(part: IndexedText) -> String {
    let (entry, of_part, by) = (part.join(), part.condition(), part.newest_first());
    format!(
        "SELECT e.id, e.session, e.seq FROM entry_index f CROSS JOIN entries e ON {entry}
WHERE entry_index MATCH ?1 AND {of_part} ORDER BY {by} LIMIT ?2"
    )
}

const BODY: &str = "SELECT body FROM entries WHERE id = ?1";

impl History<'_> {
    /// Returns the sessions in the trash, or those that are not in it.
    pub fn listing(&self, here: &str, in_trash: bool) -> Result<Vec<ListPosition>, StoreError> {
        let sql = &listing_sql();
        cached::rows(self.conn, sql, params![here, in_trash], |row| {
            Ok(ListPosition {
                key: SessionKey(row.get(0)?),
                title: row.get(1)?,
                is_here: row.get(2)?,
                parent: row.get::<_, Option<i64>>(3)?.map(SessionKey),
            })
        })
        .doing(WHAT)
        .map(below_parents)
    }

    /// Returns the details of these sessions.
    pub fn listed(
        &self,
        keys: &[SessionKey],
    ) -> Result<Vec<(SessionKey, super::SessionInfo)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut one = self
                .conn
                .prepare_cached(&format!("{SELECT} WHERE s.key = ?1"))?;
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.extend(one.query_row([key.0], info).optional()?.map(|i| (*key, i)));
            }
            Ok(found)
        };
        read().doing(WHAT)
    }

    /// Returns the sessions that recorded an entry with all the words, each with its newest one,
    /// among the newest `max_hits` entries. Entries that are not indexed yet are not found: see
    /// [`super::Index::index_pending`].
    pub fn sessions_matching(
        &self,
        query: &str,
        max_hits: u32,
    ) -> Result<Vec<MessageMatch>, StoreError> {
        let terms = terms(query);
        let Some(escaped) = escape(&terms) else {
            return Ok(Vec::new());
        };
        let mut bodies = BodyReader::new()?;
        let mut read = || -> rusqlite::Result<Vec<MessageMatch>> {
            let mut places: Vec<(i64, SessionKey, i64, IndexedText)> = Vec::new();
            for part in IndexedText::BOTH {
                let mut statement = self.conn.prepare_cached(&matching_sql(part))?;
                let place =
                    |row: &Row<'_>| Ok((row.get(0)?, SessionKey(row.get(1)?), row.get(2)?, part));
                for found in statement.query_map(params![escaped, max_hits], place)? {
                    places.push(found?);
                }
            }
            places.sort_by_key(|(id, ..)| Reverse(*id));
            places.dedup_by_key(|(id, ..)| *id);
            places.truncate(max_hits as usize);
            let mut body = self.conn.prepare_cached(BODY)?;
            let mut known: HashMap<SessionKey, usize> = HashMap::new();
            let mut found: Vec<MessageMatch> = Vec::new();
            for (id, key, seq, part) in places {
                if let Some(said) = known.get(&key).and_then(|at| found.get_mut(*at)) {
                    said.entries += 1;
                    continue;
                }
                known.insert(key, found.len());
                let entry = body.query_row([id], |row| Ok(bodies.read(row.get_ref(0)?).ok()))?;
                let text = entry
                    .as_ref()
                    .and_then(|e| part.text(e))
                    .unwrap_or_default();
                found.push(MessageMatch {
                    key,
                    seq: count(seq),
                    snippet: snippet(&text, &terms),
                    entries: 1,
                });
            }
            Ok(found)
        };
        read().doing(WHAT_SEARCH)
    }
}

/// Moves the sessions of subagents directly after their parents, if these are in the list.
fn below_parents(listed: Vec<ListPosition>) -> Vec<ListPosition> {
    if listed.iter().all(|one| one.parent.is_none()) {
        return listed;
    }
    let keys: HashSet<SessionKey> = listed.iter().map(|one| one.key).collect();
    let is_below = |one: &ListPosition| one.parent.is_some_and(|parent| keys.contains(&parent));
    let (below, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_below);
    let mut of_parent: HashMap<SessionKey, Vec<ListPosition>> = HashMap::new();
    for child in below {
        let parent = child.parent.unwrap_or(child.key);
        of_parent.entry(parent).or_default().push(child);
    }
    let mut all = Vec::with_capacity(keys.len());
    for one in others {
        let children = of_parent.remove(&one.key);
        all.push(one);
        all.extend(children.into_iter().flatten());
    }
    all
}

const WHAT_PAGE: &str = "list the sessions";
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
            cached::rows(
                self.conn,
                &sql,
                params![before, filter.folder, limit],
                paged,
            )
            .doing(WHAT_PAGE)
        })
    }

    fn one_of_page(&self, key: SessionKey) -> Result<Option<Paged>, StoreError> {
        let sql = format!("{} WHERE s.key = ?1 AND s.trashed_ms IS NULL", columns());
        cached::row(self.conn, &sql, [key.0], paged)
            .optional()
            .doing(WHAT_PAGE)
    }

    /// Returns one session in the form of a page.
    ///
    /// # Errors
    /// As [`History::find`].
    pub fn one_paged(&self, id: &str) -> Result<Paged, StoreError> {
        let id = self.find(id)?.id;
        let sql = format!("{} WHERE s.id = ?1", columns());
        cached::row(self.conn, &sql, [&id], paged)
            .optional()
            .doing(WHAT_PAGE)?
            .ok_or_else(|| StoreError::no_session(&id))
    }

    /// Returns the last checkpoints of a session, the newest first. Only its last entries are
    /// searched: a long session costs no more than a short one.
    pub fn last_checkpoints(
        &self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let sql = "WITH RECURSIVE chain (id, n) AS (
                   SELECT head, 1 FROM sessions WHERE id = ?1
                   UNION ALL
                   SELECT e.parent, n + 1 FROM chain JOIN entries e ON e.id = chain.id
                   WHERE e.parent < e.id AND n < ?3)
                 SELECT c.session, c.seq, c.at_ms, c.reason, c.plan_step
                 FROM chain CROSS JOIN checkpoints c ON c.entry = chain.id LIMIT ?2";
        cached::rows(
            self.conn,
            sql,
            params![session, limit, CHECKPOINT_ENTRIES],
            Checkpoint::of_row,
        )
        .doing(WHAT_CHECKPOINTS)
    }

    /// Returns the summary that is stored beside the log. `None`: there is none, or not yet.
    pub fn stored_summary(&self, session: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT summary FROM conversation_context WHERE conversation_id = ?1";
        cached::row(self.conn, sql, [session], |row| row.get(0))
            .optional()
            .doing(WHAT_SUMMARY)
    }

    /// Returns the position of the last entry of all sessions, or 0 if there is none.
    pub fn last_row(&self) -> Result<i64, StoreError> {
        let sql = "SELECT coalesce(max(id), 0) FROM entries";
        cached::row(self.conn, sql, [], |row| row.get(0)).doing(WHAT_NEW)
    }

    /// Returns entries of all sessions after this position, the oldest first.
    pub fn entries_after_row(&self, row: i64, limit: u32) -> Result<Vec<NewEntry>, StoreError> {
        let sql = "SELECT e.id, s.id, e.seq, e.kind, e.at_ms
                 FROM entries e JOIN sessions s ON s.key = e.session
                 WHERE e.id > ?1 ORDER BY e.id LIMIT ?2";
        cached::rows(self.conn, sql, params![row, limit], |row| {
            Ok(NewEntry {
                row: row.get(0)?,
                session: row.get(1)?,
                seq: count(row.get(2)?),
                kind: row.get(3)?,
                at_ms: row.get(4)?,
            })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn plan(store: &Store, sql: &str, values: impl rusqlite::Params) -> String {
        let mut statement = store
            .conn
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let steps = statement
            .query_map(values, |row| row.get::<_, String>(3))
            .unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn entries_are_only_met_by_their_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let listing = plan(&store, &listing_sql(), params!["/w", false]);
        for name in ["entries", "e"] {
            let scan = format!("SCAN {name}");
            assert!(listing.lines().all(|line| line != scan), "{listing}");
        }
        for part in IndexedText::BOTH {
            let saying = plan(&store, &matching_sql(part), params!["\"a\"", 9]);
            assert!(
                saying.contains("SEARCH e USING INTEGER PRIMARY KEY"),
                "{saying}"
            );
            // A sort would read every match before the first is returned.
            assert!(!saying.contains("TEMP B-TREE"), "{saying}");
        }
    }
}
