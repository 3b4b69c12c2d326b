//! What was said, read from the newest back: the prompts of a project.
//!
//! Prompts have no place of their own: they are read from the log each time, so a secret in one is
//! nowhere that the log is not, and goes where its session goes, as into the trash.

use std::collections::HashSet;

use rusqlite::types::Value;

use super::error::Doing;
use super::row::BodyReader;
use super::{History, StoreError};
use crate::core::entry::{Entry, Via};

const WHAT_PROMPTS: &str = "read the prompts of the project";

/// So many entries of all sessions are looked through for prompts, the newest.
const MAX_ROWS: i64 = 500_000;

/// A longer prompt was pasted or piped in: nobody looks for it to say it again.
const MAX_PROMPT_BYTES: usize = 16 << 10;

/// Of all prompts together.
const MAX_BYTES: usize = 2 << 20;

/// Worktrees of one repository.
const MAX_WORKSPACES: usize = 100;

impl History<'_> {
    /// What a person said in the sessions of these workspaces, each once, the newest first.
    pub fn prompts(&self, workspaces: &[String], max: usize) -> Result<Vec<String>, StoreError> {
        let workspaces = &workspaces[..workspaces.len().min(MAX_WORKSPACES)];
        let marks = vec!["?"; workspaces.len()].join(", ");
        // No index knows what was said; met from the end, the newest are found first.
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
                // Of a custom command its name, and not what that stands for.
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
