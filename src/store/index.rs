//! The index for full text search. Commits do not update it: it is filled later, when a process has
//! time.
//!
//! The index is derived from the log. An index of an earlier version, which covers less than is
//! searched now, is emptied and filled again, in the same steps. A special row, which belongs to no
//! entry, marks an index of this version.

use std::borrow::Cow;

use rusqlite::{Connection, params};
use serde_json::Value;

use super::error::Doing;
use super::file_identity::begin;
use super::query::floor;
use super::read_only::is_read_only;
use super::row::{BodyReader, count};
use super::{Index, StoreError};
use crate::core::entry::{About, Block, Entry, Fact, Outcome};

const WHAT: &str = "fill the search index";

/// Maximum number of bytes that are indexed of one entry.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Maximum number of bytes that are indexed of the arguments of one call. Commands and paths are
/// short, and the content of a written file does not help to find a session.
const MAX_CALL_BYTES: usize = 16 << 10;

/// Row ID of the mark: it says that the index has the calls of answers too. Row IDs of entries
/// begin at 1.
const MARK: i64 = 0;

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
        let fill = || -> rusqlite::Result<()> {
            if !is_marked(&tx)? {
                begin_again(&tx)?;
            }
            Ok(())
        };
        fill().doing(WHAT)?;
        index_rows(&tx, &mut BodyReader::new()?, max_rows).doing(WHAT)?;
        let left = pending(&tx).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        Ok(left)
    }
}

fn is_marked(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM entry_index WHERE rowid = ?1)")?
        .query_row([MARK], |row| row.get(0))
}

pub(super) fn begin_again(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "INSERT INTO entry_index (entry_index) VALUES ('delete-all');
         UPDATE indexed SET upto = 0;",
    )?;
    conn.execute(
        "INSERT INTO entry_index (rowid, text) VALUES (?1, '')",
        [MARK],
    )?;
    Ok(())
}

fn pending(conn: &Connection) -> rusqlite::Result<u64> {
    let upto = match is_marked(conn)? {
        true => "(SELECT upto FROM indexed)",
        false => "0",
    };
    let sql = format!("SELECT (SELECT coalesce(max(id), 0) FROM entries) - {upto}");
    conn.prepare_cached(&sql)?
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
        Entry::Replied { blocks, .. } => {
            let texts = blocks.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                Block::Thinking { .. } | Block::Call { .. } => None,
            });
            Some(texts.collect::<Vec<_>>().join("\n").into())
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

fn calls(entry: &Entry) -> Option<String> {
    let Entry::Replied { blocks, .. } = entry else {
        return None;
    };
    let calls = blocks.iter().filter_map(|block| match block {
        Block::Call {
            name, arguments, ..
        } => Some(call_text(name, arguments)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
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
