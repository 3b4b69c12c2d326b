//! The current summary of each session, in a row that can be read without the session. It is
//! derived from the last `Compacted` of the chain.
//!
//! Invariant: nothing is folded from it. If the row is gone, it is derived from the entries again.
//!
//! The user's earlier prompts in a project, the newest first.
//!
//! Prompts have no separate storage: they are read from the log each time. So a secret in a prompt
//! is only in the log, and leaves the list with its session, for example into the trash.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::chain::{Head, read_head};
use super::error::Doing;
use super::row::{BodyReader, count, int};
use super::{History, Store, StoreError, cached};
use crate::core::entry::{Entry, Seq, Via};

const WHAT: &str = "read the summary of the session";

/// The current summary of a session, stored beside its log for readers that do not load the
/// session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub summary: String,
    /// Number of entries, from the first one, that the summary replaces.
    pub message_count: u64,
    /// UTC, milliseconds since 1970.
    pub last_summarised_at_ms: i64,
}

impl Store {
    /// Returns the summary of the session, or `None` if nothing of it was summarised.
    pub fn conversation(&mut self, session: &str) -> Result<Option<Conversation>, StoreError> {
        if let Some(kept) = read(&self.conn, session).doing(WHAT)? {
            return Ok(Some(kept));
        }
        let tx = self.write(WHAT)?;
        let head = read_head(&tx, session)?;
        if let Some((last, summary, at_ms)) = last_closed(&tx, &head)? {
            summarised(&tx, &head, &summary, last, at_ms).doing(WHAT)?;
        }
        let made = read(&tx, session).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        Ok(made)
    }
}

/// Returns the newest summary of the session, read from its entries.
pub(super) fn last_summary(conn: &Connection, session: &str) -> Result<Option<String>, StoreError> {
    let head = read_head(conn, session)?;
    let last = last_closed(conn, &head)?;
    Ok(last.map(|(_, summary, _)| summary))
}

fn read(conn: &Connection, session: &str) -> rusqlite::Result<Option<Conversation>> {
    conn.prepare_cached(
        "SELECT summary, message_count, last_summarised_at FROM conversation_context
         WHERE conversation_id = ?1",
    )?
    .query_row([session], |row| {
        Ok(Conversation {
            summary: row.get(0)?,
            message_count: count(row.get(1)?),
            last_summarised_at_ms: row.get(2)?,
        })
    })
    .optional()
}

/// Stores the summary that applies from now on.
pub(super) fn summarised(
    tx: &Transaction<'_>,
    head: &Head,
    summary: &str,
    last: Seq,
    at_ms: i64,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO conversation_context
           (conversation_id, summary, message_count, last_summarised_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (conversation_id) DO UPDATE SET
           summary = excluded.summary, message_count = excluded.message_count,
           last_summarised_at = excluded.last_summarised_at, updated_at = excluded.updated_at",
    )?
    .execute(params![head.session, summary, int(last + 1), at_ms])?;
    Ok(())
}

/// Returns the range, the summary and the time of the newest `Compacted` of the chain.
fn last_closed(conn: &Connection, head: &Head) -> Result<Option<(Seq, String, i64)>, StoreError> {
    let mut bodies = BodyReader::new()?;
    let sql = "WITH RECURSIVE chain (id) AS (
           SELECT ?1
           UNION ALL
           SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id WHERE e.parent < e.id)
         SELECT e.at_ms, e.body FROM chain JOIN entries e ON e.id = chain.id
         WHERE e.kind = 'closed' LIMIT 1";
    cached::row(conn, sql, [head.row], |row| {
        let at_ms = row.get(0)?;
        Ok(match bodies.read(row.get_ref(1)?) {
            Ok(Entry::Compacted { last, summary, .. }) => Some((last, summary, at_ms)),
            // A damaged entry is reported when its session is loaded.
            _ => None,
        })
    })
    .optional()
    .doing(WHAT)
    .map(Option::flatten)
}

const WHAT_PROMPTS: &str = "read the prompts of the project";

/// Maximum number of entries of all sessions that are searched for prompts, the newest first.
const MAX_ROWS: i64 = 500_000;

/// Maximum length of a listed prompt, in bytes. A longer one was pasted or piped in, and nobody
/// wants to send it again.
const MAX_PROMPT_BYTES: usize = 16 << 10;

/// Maximum size of all prompts together, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// Maximum number of workspaces: the worktrees of one repository.
const MAX_WORKSPACES: usize = 100;

impl History<'_> {
    /// Returns the prompts of a person in the sessions of these workspaces, each once, the newest
    /// first.
    pub fn prompts(&self, workspaces: &[String], max: usize) -> Result<Vec<String>, StoreError> {
        let workspaces = &workspaces[..workspaces.len().min(MAX_WORKSPACES)];
        let marks = vec!["?"; workspaces.len()].join(", ");
        // No index finds prompts. Reading from the end finds the newest ones first.
        let sql = format!(
            "SELECT e.body FROM entries e CROSS JOIN sessions s ON s.key = e.session
             WHERE e.kind = 'said' AND s.trashed_ms IS NULL AND s.workspace IN ({marks})
               AND e.id > (SELECT max(id) FROM entries) - {MAX_ROWS}
             ORDER BY e.id DESC"
        );
        let values = workspaces.iter().map(|w| Value::from(w.clone()));
        let mut bodies = BodyReader::new()?;
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.conn.prepare(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let mut known = HashSet::new();
            let (mut found, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let Ok(said) = bodies.read(row.get_ref(0)?) else {
                    continue;
                };
                // A custom command is listed by its name, without its text.
                let Some(text) = said.typed().map(|words| words.into_owned()) else {
                    continue;
                };
                let Entry::Said { via, .. } = said else {
                    continue;
                };
                let is_typed = matches!(via, Via::Prompt | Via::Queue);
                let fits = text.len() <= MAX_PROMPT_BYTES && !text.trim().is_empty();
                if !is_typed || !fits || !known.insert(text.clone()) {
                    continue;
                }
                bytes += text.len();
                if found.len() == max || bytes > MAX_BYTES {
                    break;
                }
                found.push(text);
            }
            Ok(found)
        };
        read().doing(WHAT_PROMPTS)
    }
}
