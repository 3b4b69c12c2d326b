//! The index for full text search. Commits do not update it: it is filled later, when a process has
//! time.
//!
//! The index is derived from the log.
//!
//! Full text search in messages, answers, calls and output: see [`super::index`] for the indexed
//! text. A search fills the index first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde_json::Value;

use super::database::{begin, is_read_only};
use super::error::Doing;
use super::load::explain;
use super::memories::{MemoryQuery, recency};
use super::query::{
    MatchLocation, Scope, any_of, distinctive_words, escape, floor, list, place, snippet, terms,
};
use super::row::{BodyReader, count};
use super::{Index, StoreError};
use crate::core::entry::{About, Block, Entry, Fact, Outcome, Seq};

const WHAT: &str = "fill the search index";

/// Maximum number of bytes that are indexed of one entry.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Maximum number of bytes that are indexed of the arguments of one call. Commands and paths are
/// short, and the content of a written file does not help to find a session.
const MAX_CALL_BYTES: usize = 16 << 10;

/// A searched part of an entry. Calls are separate, so that a search of the conversation does not
/// find the arguments of earlier searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexedText {
    /// Messages, answers and output: rows of the index with the row ID of the entry.
    Words,
    /// Arguments of tool calls: rows with the negated row ID.
    Calls,
}

impl IndexedText {
    pub(super) const BOTH: [IndexedText; 2] = [IndexedText::Words, IndexedText::Calls];

    /// Returns the SQL condition that joins a row `f` of the index with its entry `e`.
    pub(super) fn join(self) -> &'static str {
        match self {
            IndexedText::Words => "e.id = f.rowid",
            IndexedText::Calls => "e.id = -f.rowid",
        }
    }

    pub(super) fn condition(self) -> &'static str {
        match self {
            IndexedText::Words => "f.rowid > 0",
            IndexedText::Calls => "f.rowid < 0",
        }
    }

    /// Returns the SQL order with the newest entry first, in the order of the index.
    pub(super) fn newest_first(self) -> &'static str {
        match self {
            IndexedText::Words => "f.rowid DESC",
            IndexedText::Calls => "f.rowid ASC",
        }
    }

    pub(super) fn text(self, entry: &Entry) -> Option<Cow<'_, str>> {
        match self {
            IndexedText::Words => words(entry),
            IndexedText::Calls => calls(entry).map(Cow::Owned),
        }
    }
}

impl Index<'_> {
    /// Returns the number of entries that are not indexed yet.
    pub(super) fn index_waiting(&self) -> Result<u64, StoreError> {
        pending(self.conn).doing(WHAT)
    }

    /// Indexes at most `max_rows` entries, and returns how many remain. Larger steps write less in
    /// total: use thousands when nobody waits.
    pub fn index_pending(&self, max_rows: u32) -> Result<u64, StoreError> {
        // A store that is open read-only uses the index as it is.
        if pending(self.conn).doing(WHAT)? == 0 || is_read_only(self.conn)? {
            return Ok(0);
        }
        let tx = begin(self.conn, self.in_use, WHAT)?;
        index_rows(&tx, &mut BodyReader::new()?, max_rows).doing(WHAT)?;
        let left = pending(&tx).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        Ok(left)
    }
}

pub(super) fn begin_again(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "INSERT INTO entry_index (entry_index) VALUES ('delete-all');
         UPDATE indexed SET upto = 0;",
    )
}

fn pending(conn: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (SELECT coalesce(max(id), 0) FROM entries) - (SELECT upto FROM indexed)";
    conn.prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .map(count)
}

fn index_rows(conn: &Connection, bodies: &mut BodyReader, max_rows: u32) -> rusqlite::Result<()> {
    let mut rows = conn.prepare_cached(
        "SELECT id, kind IN ('said', 'replied', 'finished', 'noted', 'named', 'titled'), body FROM entries
         WHERE id > (SELECT upto FROM indexed) ORDER BY id LIMIT ?1",
    )?;
    let mut insert =
        conn.prepare_cached("INSERT INTO entry_index (rowid, text) VALUES (?1, ?2)")?;
    let mut rows = rows.query([max_rows.max(1)])?;
    let mut upto = None;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        upto = Some(id);
        if row.get(1)? {
            // A damaged row is left out of the index; loading its session reports the damage.
            let Ok(entry) = bodies.read(row.get_ref(2)?) else {
                continue;
            };
            for (part, id) in [(IndexedText::Words, id), (IndexedText::Calls, -id)] {
                if let Some(text) = part.text(&entry) {
                    let end = floor(&text, MAX_TEXT_BYTES.min(text.len()));
                    insert.execute(params![id, &text[..end]])?;
                }
            }
        }
    }
    conn.prepare_cached("UPDATE indexed SET upto = coalesce(?1, upto)")?
        .execute([upto])?;
    Ok(())
}

fn words(entry: &Entry) -> Option<Cow<'_, str>> {
    match entry {
        // Recalled content is in the log, and so in the index, already.
        Entry::Noted {
            about: Some(About::Recalled),
            ..
        }
        | Entry::Finished {
            fact: Some(Fact::Recalled),
            ..
        } => None,
        Entry::Said { text, .. }
        | Entry::Noted { text, .. }
        | Entry::Checked {
            told: Some(text), ..
        } => Some(text.into()),
        Entry::Named { title }
        | Entry::Titled {
            title: Some(title), ..
        } => Some(title.into()),
        Entry::Replied { blocks, .. } => Some(Block::joined_texts(blocks).into()),
        Entry::Finished { outcome, .. } => match outcome {
            Outcome::Done { output }
            | Outcome::Error { output }
            | Outcome::Interrupted { output, .. } => Some((&output.text).into()),
            Outcome::Denied { .. } => None,
        },
        _ => None,
    }
}

fn calls(entry: &Entry) -> Option<String> {
    let Entry::Replied { blocks, .. } = entry else {
        return None;
    };
    let calls = Block::calls(0, blocks).map(|(_, name, arguments)| call_text(name, arguments));
    let calls: Vec<String> = calls.collect();
    (!calls.is_empty()).then(|| calls.join("\n"))
}

/// Returns the name of the tool and the values of its arguments, without the keys and punctuation
/// of JSON: `bash git push`.
fn call_text(name: &str, arguments: &str) -> String {
    let mut text = String::from(name);
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => leaves(&value, name.len(), &mut text),
        // Invalid JSON is indexed as the model wrote it.
        Err(_) => {
            text.push(' ');
            text.push_str(arguments);
        }
    }
    let end = floor(&text, MAX_CALL_BYTES.min(text.len()));
    text.truncate(end);
    text
}

/// Appends the values of the arguments: the first one after the name on the same line, each other
/// one on a new line.
fn leaves(value: &Value, name_bytes: usize, text: &mut String) {
    if text.len() >= MAX_CALL_BYTES {
        return;
    }
    let mut put = |words: &str| {
        text.push(if text.len() == name_bytes { ' ' } else { '\n' });
        text.push_str(words);
    };
    match value {
        Value::String(words) => put(words),
        Value::Number(number) => put(&number.to_string()),
        Value::Null | Value::Bool(_) => {}
        Value::Array(values) => {
            for value in values {
                leaves(value, name_bytes, text);
            }
        }
        Value::Object(values) => {
            for value in values.values() {
                leaves(value, name_bytes, text);
            }
        }
    }
}

const WHAT_SEARCH: &str = "search";

/// Rows indexed in one transaction when a search has to wait for them.
const ROWS_AT_ONCE: u32 = 1_000;

/// Number of matches from which the best and newest are chosen.
const CANDIDATES: u32 = 100;

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
            values.extend([SqlValue::from(escaped.to_string()), SqlValue::from(limit)]);
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
            values.extend([SqlValue::from(query), SqlValue::from(CANDIDATES)]);
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
        values: Vec<SqlValue>,
        terms: &[&str],
    ) -> Result<Vec<(i64, Hit)>, StoreError> {
        let mut bodies = BodyReader::new()?;
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| {
                let read = |row: &Row<'_>| Ok((row.get(6)?, hit(part, row, terms, &mut bodies)?));
                s.query_map(params_from_iter(values), read)?.collect()
            })
            .doing(WHAT_SEARCH)
    }
}

/// Returns the SQL statement and the values of the scope. The query and the limit come after these
/// values.
fn statement(
    part: IndexedText,
    scope: Scope<'_>,
    order: Order,
    kinds: &str,
) -> (String, Vec<SqlValue>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_searched_by_what_its_arguments_say() {
        let text = |arguments: &str| call_text("bash", arguments);
        let command = r#"{"command": "git push\norigin", "timeout_ms": 9, "background": true}"#;
        assert_eq!(text(command), "bash git push\norigin\n9");
        assert_eq!(
            text(r#"{"edits": [{"old": "a", "new": "b"}]}"#),
            "bash b\na"
        );
        assert_eq!(text(r#"{"path": "#), "bash {\"path\": ");
        let whole = format!(r#"{{"content": "{}"}}"#, "ü".repeat(MAX_CALL_BYTES));
        assert!(text(&whole).len() <= MAX_CALL_BYTES);
    }
}
