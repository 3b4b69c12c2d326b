//! The list of all sessions in display order. It is fast for ten thousand sessions: the order is
//! read first, then only the sessions on the screen.
//!
//! The order is a value, not a cursor in the database. Heads move while somebody looks, and a list
//! that is paged by them would leave sessions out.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Row, params};

use super::error::Doing;
use super::index::IndexedText;
use super::query::{escape, snippet, terms};
use super::row::{BodyReader, count};
use super::sessions::{IS_BLANK, IS_CHILD, SELECT, info};
use super::{History, StoreError};
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
        "SELECT s.key, s.title, workspace = ?1, iif({IS_CHILD}, s.forked_from, NULL) FROM sessions s
WHERE (s.trashed_ms IS NOT NULL) = ?2 AND NOT ({IS_BLANK})
ORDER BY workspace = ?1 DESC, max(head) OVER (PARTITION BY workspace) DESC, head DESC"
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
        self.conn
            .prepare_cached(&listing_sql())
            .and_then(|mut s| {
                s.query_map(params![here, in_trash], |row| {
                    Ok(ListPosition {
                        key: SessionKey(row.get(0)?),
                        title: row.get(1)?,
                        is_here: row.get(2)?,
                        parent: row.get::<_, Option<i64>>(3)?.map(SessionKey),
                    })
                })?
                .collect()
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
