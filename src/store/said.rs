//! What was said, read from the newest back: the last words of a session, and the prompts of a
//! project.
//!
//! Prompts have no place of their own: they are read from the log each time, so a secret in one is
//! nowhere that the log is not, and goes where its session goes, as into the trash.

use std::collections::HashSet;

use rusqlite::OptionalExtension;
use rusqlite::types::Value;

use super::error::Doing;
use super::row::{BodyReader, int};
use super::{Store, StoreError};
use crate::core::entry::{Entry, Via};

const WHAT_LAST: &str = "read what was said last";
const WHAT_PROMPTS: &str = "read the prompts of the project";

/// So far back from its end a session is looked through for its last words.
const MAX_STEPS: u64 = 2_000;

/// So many entries of all sessions are looked through for prompts, the newest.
const MAX_ROWS: i64 = 500_000;

/// A longer prompt was pasted or piped in: nobody looks for it to say it again.
const MAX_PROMPT_BYTES: usize = 16 << 10;

/// Of all prompts together.
const MAX_BYTES: usize = 2 << 20;

/// Worktrees of one repository.
const MAX_WORKSPACES: usize = 100;

const LAST: &str = "WITH RECURSIVE chain (id, parent, seq, kind, step) AS (
  SELECT e.id, e.parent, e.seq, e.kind, 0
  FROM sessions s JOIN entries e ON e.id = s.head WHERE s.id = ?1
  UNION ALL
  SELECT e.id, e.parent, e.seq, e.kind, c.step + 1
  FROM chain c JOIN entries e ON e.id = c.parent
  WHERE c.kind <> 'said' AND e.parent < e.id AND c.step < ?2)
SELECT e.body FROM chain c JOIN entries e ON e.id = c.id JOIN sessions s ON s.id = ?1
WHERE c.kind = 'said' AND c.seq > coalesce(s.forked_seq, -1) LIMIT 1";

impl Store {
    /// The user's last words in a session, of a fork those that it does not share. `None`: there
    /// are none, or only far back.
    pub fn last_said(&self, session: &str) -> Result<Option<String>, StoreError> {
        let mut bodies = BodyReader::new()?;
        let read = |row: &rusqlite::Row<'_>| Ok(bodies.read(row.get_ref(0)?).ok());
        let found = self
            .conn
            .prepare_cached(LAST)
            .and_then(|mut s| s.query_row((session, int(MAX_STEPS)), read).optional())
            .doing(WHAT_LAST)?;
        Ok(match found.flatten() {
            Some(said) => said.typed().map(|words| words.into_owned()),
            None => None,
        })
    }

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
