//! What full text search finds, and the index of it. It is filled behind the commits, by whoever
//! has time.
//!
//! The index is derived from the log: one that was made for less than is searched now is emptied
//! and filled again, in the same steps. Which it is says a row of its own, that no entry has.

use std::borrow::Cow;

use rusqlite::{Connection, params};
use serde_json::Value;

use super::error::Doing;
use super::moved::begin;
use super::query::floor;
use super::read_only::is_read_only;
use super::row::{BodyReader, count};
use super::{Index, StoreError};
use crate::core::entry::{About, Block, Entry, Fact, Outcome};

const WHAT: &str = "fill the search index";

/// Of one entry no more is indexed.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Of the arguments of one call: commands and paths are short, and a file that is written whole
/// is not what a session is found by.
const MAX_CALL_BYTES: usize = 16 << 10;

/// Row ids of entries begin at 1. With this row the index has the calls of answers too.
const MARK: i64 = 0;

/// What of an entry is searched. Calls are kept apart: who looks for what was said finds no
/// question that was put to the search itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What was said, answered and printed: rows of the index with the row id of the entry.
    Words,
    /// What tools were called with: rows with the negated row id.
    Calls,
}

impl Part {
    pub(super) const BOTH: [Part; 2] = [Part::Words, Part::Calls];

    /// Which entry a row `f` of the index is of.
    pub(super) fn join(self) -> &'static str {
        match self {
            Part::Words => "e.id = f.rowid",
            Part::Calls => "e.id = -f.rowid",
        }
    }

    pub(super) fn condition(self) -> &'static str {
        match self {
            Part::Words => "f.rowid > 0",
            Part::Calls => "f.rowid < 0",
        }
    }

    /// The newest entry first, as the index has them.
    pub(super) fn newest_first(self) -> &'static str {
        match self {
            Part::Words => "f.rowid DESC",
            Part::Calls => "f.rowid ASC",
        }
    }

    pub(super) fn text(self, entry: &Entry) -> Option<Cow<'_, str>> {
        match self {
            Part::Words => words(entry),
            Part::Calls => calls(entry).map(Cow::Owned),
        }
    }
}

impl Index<'_> {
    /// Entries that are not indexed yet.
    pub(super) fn index_waiting(&self) -> Result<u64, StoreError> {
        pending(self.conn).doing(WHAT)
    }

    /// Indexes at most so many entries; says how many rows are left. The more at once, the
    /// less is written: thousands, when nobody waits.
    pub fn index_pending(&self, max_rows: u32) -> Result<u64, StoreError> {
        // One that is only looked at finds what is in the index.
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
            // A damaged row is not found; loading its session says what is wrong with it.
            let Ok(entry) = bodies.read(row.get_ref(2)?) else {
                continue;
            };
            for (part, id) in [(Part::Words, id), (Part::Calls, -id)] {
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

/// The tool, and what its arguments say without the names and marks of JSON: `bash git push`.
fn call_text(name: &str, arguments: &str) -> String {
    let mut text = String::from(name);
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => leaves(&value, name.len(), &mut text),
        // As the model wrote it.
        Err(_) => {
            text.push(' ');
            text.push_str(arguments);
        }
    }
    let end = floor(&text, MAX_CALL_BYTES.min(text.len()));
    text.truncate(end);
    text
}

/// The first stands behind the name, each other on lines of its own.
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
