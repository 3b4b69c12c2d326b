//! Full text search in messages, answers, calls and output: see [`super::index`] for the indexed
//! text. A search fills the index first.

use std::cmp::Reverse;
use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use super::error::Doing;
use super::index::IndexedText;
use super::load::explain;
use super::memories::{MemoryQuery, recency};
use super::query::{MatchLocation, any_of, distinctive_words, escape, list, place, snippet, terms};
use super::row::{BodyReader, count};
use super::{Index, StoreError};
use crate::core::entry::Seq;

const WHAT: &str = "search";

/// Rows indexed in one transaction when a search has to wait for them.
const ROWS_AT_ONCE: u32 = 1_000;

/// Number of matches from which the best and newest are chosen.
const CANDIDATES: u32 = 100;

/// The sessions that are searched.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The chain of this session, with the entries of its ancestors, even if these are in the
    /// trash.
    Session(&'a str),
    /// All sessions of a workspace, given by its root.
    Workspace(&'a str),
    All,
}

/// The order of the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The newest entry first. No score is computed.
    Newest,
    /// The best match first, by BM25.
    Best,
}

/// An entry that matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session that recorded the entry.
    pub session: String,
    pub seq: Seq,
    /// The kind of the entry, as it is stored.
    pub kind: String,
    /// The time of the entry: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// One line around the first match.
    pub snippet: String,
    /// The line with the words, and how many such lines the entry has.
    pub place: MatchLocation,
    /// The BM25 score; higher is better. Set only for [`Order::Best`], since it is expensive.
    pub score: Option<f64>,
}

impl Index<'_> {
    /// Returns entries with all the words of `query`, the last of which may be the beginning of
    /// one. Any text is a valid query; one without words finds nothing.
    pub fn search(
        &self,
        query: &str,
        scope: Scope<'_>,
        order: Order,
        limit: u32,
    ) -> Result<Vec<Hit>, StoreError> {
        let words = terms(query);
        let Some(escaped) = escape(&words) else {
            return Ok(Vec::new());
        };
        let found = self.search_words(&words, &escaped, scope, order, limit);
        found.map_err(|error| explain(self.conn, self.copies, error))
    }

    fn search_words(
        &self,
        words: &[&str],
        escaped: &str,
        scope: Scope<'_>,
        order: Order,
        limit: u32,
    ) -> Result<Vec<Hit>, StoreError> {
        while self.index_pending(ROWS_AT_ONCE)? > 0 {}
        let mut found: Vec<(i64, Hit)> = Vec::new();
        for part in IndexedText::BOTH {
            let (sql, mut values) = statement(part, scope, order, "");
            values.extend([Value::from(escaped.to_string()), Value::from(limit)]);
            found.extend(self.hits(part, &sql, values, words)?);
        }
        let score = |hit: &Hit| hit.score.unwrap_or(0.0);
        match order {
            Order::Newest => found.sort_by_key(|(row, _)| Reverse(*row)),
            Order::Best => found.sort_by(|(_, a), (_, b)| score(b).total_cmp(&score(a))),
        }
        let mut known = HashSet::new();
        found.retain(|(row, _)| known.insert(*row));
        found.truncate(limit as usize);
        Ok(found.into_iter().map(|(_, hit)| hit).collect())
    }

    /// Returns entries that match: those with all significant words, and if these are few, also
    /// those with some of them. Better and newer ones come first. The arguments of calls are not
    /// searched, since they would match earlier questions instead of answers.
    pub fn recall(&self, sought: &MemoryQuery<'_>) -> Result<Vec<Hit>, StoreError> {
        let found = self.recall_once(sought);
        found.map_err(|error| explain(self.conn, self.copies, error))
    }

    fn recall_once(&self, sought: &MemoryQuery<'_>) -> Result<Vec<Hit>, StoreError> {
        while self.index_pending(ROWS_AT_ONCE)? > 0 {}
        let words = distinctive_words(sought.query);
        let kinds = format!("AND e.kind IN ({})", list(sought.kinds));
        let limit = sought.limit as usize;
        let mut found: Vec<Hit> = Vec::new();
        for query in [escape(&words), any_of(&words)].into_iter().flatten() {
            if found.len() >= limit {
                break;
            }
            let (sql, mut values) =
                statement(IndexedText::Words, sought.scope, Order::Best, &kinds);
            values.extend([Value::from(query), Value::from(CANDIDATES)]);
            let more = self.hits(IndexedText::Words, &sql, values, &words)?;
            let mut more: Vec<Hit> = more.into_iter().map(|(_, hit)| hit).collect();
            more.retain(|m| {
                let same = |h: &Hit| h.seq == m.seq && h.session == m.session;
                !found.iter().any(same)
            });
            for hit in &mut more {
                hit.score = hit.score.map(|s| s * recency(hit.at_ms, sought.now_ms));
            }
            more.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
            found.extend(more);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns matches, each with the row ID of its entry.
    fn hits(
        &self,
        part: IndexedText,
        sql: &str,
        values: Vec<Value>,
        terms: &[&str],
    ) -> Result<Vec<(i64, Hit)>, StoreError> {
        let mut bodies = BodyReader::new()?;
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| {
                let read = |row: &Row<'_>| Ok((row.get(6)?, hit(part, row, terms, &mut bodies)?));
                s.query_map(params_from_iter(values), read)?.collect()
            })
            .doing(WHAT)
    }
}

/// Returns the SQL statement and the values of the scope. The query and the limit come after these
/// values.
fn statement(
    part: IndexedText,
    scope: Scope<'_>,
    order: Order,
    kinds: &str,
) -> (String, Vec<Value>) {
    let (with, join, condition, values) = match scope {
        Scope::All => ("", "", "AND s.trashed_ms IS NULL", vec![]),
        Scope::Workspace(w) => (
            "",
            "",
            "AND s.workspace = ?1 AND s.trashed_ms IS NULL",
            vec![w.to_string().into()],
        ),
        Scope::Session(id) => (
            "WITH RECURSIVE lineage (key, length) AS (
               SELECT key, length FROM sessions WHERE id = ?1
               UNION ALL
               SELECT s.forked_from, min(l.length, s.forked_seq + 1)
               FROM lineage l JOIN sessions s ON s.key = l.key
               WHERE s.forked_from < s.key)",
            "JOIN lineage l ON l.key = e.session AND e.seq < l.length",
            "",
            vec![id.to_string().into()],
        ),
    };
    let (score, by) = match order {
        Order::Newest => ("NULL", String::new()),
        Order::Best => ("-f.rank", "f.rank, ".to_string()),
    };
    let (of_part, newest_first) = (part.condition(), part.newest_first());
    let entry = part.join();
    let (query, limit) = (values.len() + 1, values.len() + 2);
    // CROSS JOIN makes SQLite start with the index, whatever the planner estimates.
    let sql = format!(
        "{with} SELECT s.id, e.seq, e.kind, e.at_ms, e.body, {score}, e.id
         FROM entry_index f CROSS JOIN entries e ON {entry}
         CROSS JOIN sessions s ON s.key = e.session {join}
         WHERE entry_index MATCH ?{query} AND {of_part} {condition} {kinds}
         ORDER BY {by}{newest_first} LIMIT ?{limit}"
    );
    (sql, values)
}

fn hit(
    part: IndexedText,
    row: &Row<'_>,
    terms: &[&str],
    bodies: &mut BodyReader,
) -> rusqlite::Result<Hit> {
    let entry = bodies.read(row.get_ref(4)?).ok();
    let text = entry
        .as_ref()
        .and_then(|e| part.text(e))
        .unwrap_or_default();
    Ok(Hit {
        session: row.get(0)?,
        seq: count(row.get(1)?),
        kind: row.get(2)?,
        at_ms: row.get(3)?,
        snippet: snippet(&text, terms),
        place: place(&text, terms),
        score: row.get(5)?,
    })
}
