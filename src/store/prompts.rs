//! The user's earlier prompts in a project, the newest first.
//!
//! Prompts have no separate storage: they are read from the log each time. So a secret in a prompt
//! is only in the log, and leaves the list with its session, for example into the trash.

use std::collections::HashSet;

use rusqlite::types::Value;

use super::error::Doing;
use super::row::BodyReader;
use super::{History, StoreError};
use crate::core::entry::{Entry, Via};

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
