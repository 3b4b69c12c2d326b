//! Full text over what was said, answered and printed. The index is filled behind the
//! commits, by whoever has time; a search fills the rest first.

use std::borrow::Cow;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::error::Doing;
use super::memories::{Sought, recency};
use super::query::{any_of, escape, floor, list, snippet, telling, terms};
use super::row::{BodyReader, count};
use super::{Store, StoreError};
use crate::core::entry::{About, Block, Entry, Fact, Outcome, Seq};

const WHAT: &str = "search";
const WHAT_INDEX: &str = "fill the search index";

/// Rows indexed in one transaction when a search has to wait for them.
const ROWS_AT_ONCE: u32 = 1_000;

/// Of so many the best and newest are chosen.
const CANDIDATES: u32 = 100;

/// Of one entry no more is indexed.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Where is searched.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The chain of this session, its ancestors' entries included, be they in the trash.
    Session(&'a str),
    /// All sessions of a workspace, given by its root.
    Workspace(&'a str),
    All,
}

/// Which hits come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The newest entry first. No score is computed.
    Newest,
    /// BM25.
    Best,
}

/// An entry in which something was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session that recorded the entry.
    pub session: String,
    pub seq: Seq,
    /// The kind of the entry, as it is stored.
    pub kind: String,
    /// The time of the entry: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// One line around the first hit.
    pub snippet: String,
    /// BM25, more is better. Only when asked for the best: it costs.
    pub score: Option<f64>,
}

impl Store {
    /// Entries with all the words of `query`, the last of which may be the beginning of
    /// one. Any text is a valid query; one without words finds nothing.
    pub fn search(
        &mut self,
        query: &str,
        scope: Scope<'_>,
        order: Order,
        limit: u32,
    ) -> Result<Vec<Hit>, StoreError> {
        let words = terms(query);
        let Some(escaped) = escape(&words) else {
            return Ok(Vec::new());
        };
        while self.index_pending(ROWS_AT_ONCE)? > 0 {}
        let (sql, mut values) = statement(scope, order, "");
        values.extend([Value::from(escaped), Value::from(limit)]);
        self.hits(&sql, values, &words)
    }

    /// Entries that speak of what is sought: those with all the telling words, and where
    /// these are few, those with some of them. Better and newer ones first.
    pub fn recall(&mut self, sought: &Sought<'_>) -> Result<Vec<Hit>, StoreError> {
        while self.index_pending(ROWS_AT_ONCE)? > 0 {}
        let words = telling(sought.query);
        let kinds = format!("AND e.kind IN ({})", list(sought.kinds));
        let limit = sought.limit as usize;
        let mut found: Vec<Hit> = Vec::new();
        for query in [escape(&words), any_of(&words)].into_iter().flatten() {
            if found.len() >= limit {
                break;
            }
            let (sql, mut values) = statement(sought.scope, Order::Best, &kinds);
            values.extend([Value::from(query), Value::from(CANDIDATES)]);
            let mut more = self.hits(&sql, values, &words)?;
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

    fn hits(&self, sql: &str, values: Vec<Value>, terms: &[&str]) -> Result<Vec<Hit>, StoreError> {
        let mut bodies = BodyReader::new()?;
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| {
                s.query_map(params_from_iter(values), |row| hit(row, terms, &mut bodies))?
                    .collect()
            })
            .doing(WHAT)
    }

    /// Entries that are not indexed yet.
    pub(super) fn index_waiting(&self) -> Result<u64, StoreError> {
        pending(&self.conn).doing(WHAT_INDEX)
    }

    /// Indexes at most so many entries; says how many rows are left. The more at once, the
    /// less is written: thousands, when nobody waits.
    pub fn index_pending(&mut self, max_rows: u32) -> Result<u64, StoreError> {
        if pending(&self.conn).doing(WHAT_INDEX)? == 0 {
            return Ok(0);
        }
        let tx = self.write(WHAT_INDEX)?;
        index_rows(&tx, &mut BodyReader::new()?, max_rows).doing(WHAT_INDEX)?;
        let left = pending(&tx).doing(WHAT_INDEX)?;
        tx.commit().doing(WHAT_INDEX)?;
        Ok(left)
    }
}

fn pending(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached(
        "SELECT (SELECT coalesce(max(id), 0) FROM entries) - (SELECT upto FROM indexed)",
    )?
    .query_row([], |row| row.get(0))
    .map(count)
}

fn index_rows(conn: &Connection, bodies: &mut BodyReader, max_rows: u32) -> rusqlite::Result<()> {
    let mut rows = conn.prepare_cached(
        "SELECT id, kind IN ('said', 'replied', 'finished', 'noted', 'named'), body FROM entries
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
            // A damaged row is not found; loading its session says what is wrong with it.
            if let Ok(entry) = bodies.read(row.get_ref(2)?)
                && let Some(text) = text_of(&entry)
            {
                insert.execute(params![
                    id,
                    &text[..floor(&text, MAX_TEXT_BYTES.min(text.len()))]
                ])?;
            }
        }
    }
    conn.prepare_cached("UPDATE indexed SET upto = coalesce(?1, upto)")?
        .execute([upto])?;
    Ok(())
}

pub(super) fn text_of(entry: &Entry) -> Option<Cow<'_, str>> {
    match entry {
        // What was found again is in the log already.
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
        Entry::Named { title } => Some(title.into()),
        Entry::Replied { blocks, .. } => {
            let texts: Vec<&str> = blocks.iter().filter_map(block_text).collect();
            Some(texts.join("\n").into())
        }
        Entry::Finished { outcome, .. } => match outcome {
            Outcome::Done { output }
            | Outcome::Error { output }
            | Outcome::Interrupted { output, .. } => Some((&output.text).into()),
            Outcome::Denied { .. } => None,
        },
        _ => None,
    }
}

fn block_text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        Block::Thinking { .. } | Block::Call { .. } => None,
    }
}

/// The scope's values come first, then the query, then the limit.
fn statement(scope: Scope<'_>, order: Order, kinds: &str) -> (String, Vec<Value>) {
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
        Order::Newest => ("NULL", "f.rowid DESC"),
        Order::Best => ("-f.rank", "f.rank, f.rowid DESC"),
    };
    let (query, limit) = (values.len() + 1, values.len() + 2);
    // CROSS JOIN: the index is asked first, whatever the planner thinks.
    let sql = format!(
        "{with} SELECT s.id, e.seq, e.kind, e.at_ms, e.body, {score}
         FROM entry_index f CROSS JOIN entries e ON e.id = f.rowid
         CROSS JOIN sessions s ON s.key = e.session {join}
         WHERE entry_index MATCH ?{query} {condition} {kinds} ORDER BY {by} LIMIT ?{limit}"
    );
    (sql, values)
}

fn hit(row: &Row<'_>, terms: &[&str], bodies: &mut BodyReader) -> rusqlite::Result<Hit> {
    let entry = bodies.read(row.get_ref(4)?).ok();
    let text = entry.as_ref().and_then(text_of).unwrap_or_default();
    Ok(Hit {
        session: row.get(0)?,
        seq: count(row.get(1)?),
        kind: row.get(2)?,
        at_ms: row.get(3)?,
        snippet: snippet(&text, terms),
        score: row.get(5)?,
    })
}
