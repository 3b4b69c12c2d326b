//! Memories: facts that are stored for later sessions of a workspace.
//!
//! Invariant: a memory is a row made in the transaction of its `Finished`, so there is exactly one
//! for each, whenever the process dies.

use rusqlite::{Row, Transaction, params};

use super::database::begin;
use super::error::Doing;
use super::load::explained;
use super::query::{any_of, distinctive_words, escape};
use super::{Index, Scope, StoreError, cached};
use crate::core::entry::{Memory, Seq};

const WHAT: &str = "search the memories";

/// Number of matches from which the best are chosen.
const CANDIDATES: u32 = 100;

/// A search of entries ([`Index::recall`]) or of memories ([`Index::memories`]).
#[derive(Debug, Clone, Copy)]
pub struct MemoryQuery<'a> {
    /// Words, as a person or a model writes them.
    pub query: &'a str,
    /// The scope. For memories a session stands for its workspace.
    pub scope: Scope<'a>,
    /// Kinds of entries or of memories.
    pub kinds: &'a [&'a str],
    /// The current time: newer results get a higher score.
    pub now_ms: i64,
    /// Maximum number of results.
    pub limit: u32,
}

/// A memory that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// The session that recorded it, and the entry.
    pub session: String,
    pub seq: Seq,
    /// `episodic`, `semantic` or `procedural`.
    pub kind: String,
    /// The topic in a few words. `None`: the model gave none.
    pub topic: Option<String>,
    pub text: String,
    /// When it was recorded: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// The score; higher is better.
    pub score: f64,
    row: i64,
}

pub(super) fn remember(
    tx: &Transaction<'_>,
    session: i64,
    seq: Seq,
    at_ms: i64,
    memory: &Memory,
) -> rusqlite::Result<()> {
    let (topic, text) = (&memory.topic, &memory.text);
    // A bundle could plant them.
    let made = tx.prepare_cached(
        "INSERT INTO memories (workspace, session, seq, kind, topic, text, created_ms, last_used_ms)
         SELECT workspace, key, ?2, ?3, ?4, ?5, ?6, ?6 FROM sessions
         WHERE key = ?1 AND (replica IS NULL OR replica GLOB 'shared@*')",
    )?
    .execute(params![
        session,
        super::row::int(seq),
        memory.kind.name(),
        topic,
        text,
        at_ms
    ])?;
    if made == 0 {
        return Ok(());
    }
    tx.prepare_cached("INSERT INTO memory_index (rowid, text, topic) VALUES (?1, ?2, ?3)")?
        .execute(params![tx.last_insert_rowid(), text, topic])?;
    Ok(())
}

impl Index<'_> {
    /// Returns memories that match. Better, newer and more often used ones come first.
    pub fn memories(&self, sought: &MemoryQuery<'_>) -> Result<Vec<Remembered>, StoreError> {
        explained(self.conn, self.copies, || self.matching_any(sought))
    }

    fn matching_any(&self, sought: &MemoryQuery<'_>) -> Result<Vec<Remembered>, StoreError> {
        let words = distinctive_words(sought.query);
        let mut found: Vec<Remembered> = Vec::new();
        for query in [escape(&words), any_of(&words)].into_iter().flatten() {
            if found.len() < sought.limit as usize {
                let known: Vec<i64> = found.iter().map(|m| m.row).collect();
                let mut more = self.matching(&query, sought).doing(WHAT)?;
                more.retain(|m| !known.contains(&m.row));
                more.sort_by(|a, b| b.score.total_cmp(&a.score));
                found.extend(more);
            }
        }
        found.truncate(sought.limit as usize);
        Ok(found)
    }

    /// Returns the memories of a workspace, the newest first.
    pub fn newest_memories(
        &self,
        workspace: &str,
        now_ms: i64,
        limit: u32,
    ) -> Result<Vec<Remembered>, StoreError> {
        let read = || -> rusqlite::Result<Vec<Remembered>> {
            self.conn
                .prepare_cached(
                    "SELECT s.id, m.seq, m.kind, m.topic, m.text, m.created_ms, 0.0, m.id,
                            m.last_used_ms, m.uses
                     FROM memories m CROSS JOIN sessions s ON s.key = m.session
                     WHERE m.workspace = ?1 ORDER BY m.id DESC LIMIT ?2",
                )?
                .query_map(params![workspace, limit], |row| remembered(row, now_ms))?
                .collect()
        };
        read().doing(WHAT)
    }

    fn matching(&self, query: &str, sought: &MemoryQuery<'_>) -> rusqlite::Result<Vec<Remembered>> {
        let (condition, value) = match sought.scope {
            Scope::Session(id) => (
                "m.workspace = (SELECT workspace FROM sessions WHERE id = ?2)",
                Some(id),
            ),
            Scope::Workspace(workspace) => ("m.workspace = ?2", Some(workspace)),
            Scope::All => ("?2 IS NULL", None),
        };
        let sql = format!(
            "SELECT s.id, m.seq, m.kind, m.topic, m.text, m.created_ms, -f.rank, m.id,
                    m.last_used_ms, m.uses
             FROM memory_index f CROSS JOIN memories m ON m.id = f.rowid
             CROSS JOIN sessions s ON s.key = m.session
             WHERE memory_index MATCH ?1 AND {condition} AND m.kind IN ({})
             ORDER BY f.rank, f.rowid DESC LIMIT {CANDIDATES}",
            super::query::list(sought.kinds)
        );
        self.conn
            .prepare_cached(&sql)?
            .query_map(params![query, value], |row| remembered(row, sought.now_ms))?
            .collect()
    }

    /// Counts a use of these memories. A count that is lost costs nothing: a search must also work
    /// on a full disk.
    pub fn used(&self, found: &[Remembered], now_ms: i64) {
        if found.is_empty() {
            return;
        }
        let counted = begin(self.conn, self.in_use, WHAT).and_then(|tx| {
            for memory in found {
                let sql =
                    "UPDATE memories SET uses = uses + 1, last_used_ms = max(last_used_ms, ?2)
                     WHERE id = ?1";
                cached::execute(&tx, sql, params![memory.row, now_ms]).doing(WHAT)?;
            }
            tx.commit().doing(WHAT)
        });
        if let Err(error) = counted {
            tracing::debug!(%error, "memories were not counted as used");
        }
    }
}

fn remembered(row: &Row<'_>, now_ms: i64) -> rusqlite::Result<Remembered> {
    let (score, last_used_ms, uses): (f64, i64, i64) = (row.get(6)?, row.get(8)?, row.get(9)?);
    let often = 1.0 + uses.clamp(0, 10) as f64 / 20.0;
    Ok(Remembered {
        session: row.get(0)?,
        seq: super::row::count(row.get(1)?),
        kind: row.get(2)?,
        topic: row.get(3)?,
        text: row.get(4)?,
        at_ms: row.get(5)?,
        score: score * recency(last_used_ms, now_ms) * often,
        row: row.get(7)?,
    })
}

/// Returns the weight of an age: 1 for now, falling to a quarter, and half of the way down after
/// two weeks.
pub(super) fn recency(at_ms: i64, now_ms: i64) -> f64 {
    const HALF_MS: f64 = 14.0 * 86_400_000.0;
    let age_ms = now_ms.saturating_sub(at_ms).max(0) as f64;
    0.25 + 0.75 * (-age_ms / HALF_MS).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_memories_count_less_but_never_nothing() {
        const DAY: i64 = 86_400_000;
        assert_eq!(recency(5, 5), 1.0);
        assert_eq!(recency(9, 5), 1.0);
        assert!((recency(0, 14 * DAY) - 0.625).abs() < 1e-9);
        assert!(recency(0, i64::MAX) >= 0.25);
    }
}
