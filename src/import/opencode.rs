//! Sessions of opencode: an SQLite database with the tables `session`, `message` and `part`.
//!
//! After a kill the database may be empty, with all rows in its `-wal` file. Both are copied to a
//! private folder and opened there, so the source stays as it is. Only tables are read.
//!
//! Source: files of version 1.18.33 in `tests/fixtures/import`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::lines::{counted, take_said, text};
use super::{About, Piece, Report, Sink};
use crate::core::half_character::read_lenient;
use crate::store::database::open_damaged;
use crate::workspace::handle::Folder;

/// Bytes of the header of a `-wal` file. They change when it is written from its beginning again.
const WAL_HEADER: usize = 32;
/// How often a copy is made again if the source was written meanwhile.
const ATTEMPTS: usize = 3;

/// A copy of the database of opencode.
pub struct Database {
    connection: Connection,
    _folder: tempfile::TempDir,
}

/// A session that a database lists.
pub(super) struct Listed {
    pub about: About,
    pub updated_ms: i64,
}

impl Database {
    /// Copies the database `name` of a folder, with its `-wal` file, and opens the copy.
    pub(super) fn copy(folder: &Folder, name: &str) -> io::Result<Database> {
        let private = tempfile::Builder::new()
            .prefix("rewake-import-")
            .tempdir()?;
        for attempt in 1.. {
            let before = wal_header(folder, name)?;
            for ending in ["", "-wal"] {
                let name = format!("{name}{ending}");
                let to = private.path().join(format!("copy.db{ending}"));
                match super::open::regular(folder, Path::new(&name)) {
                    Ok(mut file) => drop(io::copy(&mut file, &mut File::create(to)?)?),
                    Err(e) if e.kind() == io::ErrorKind::NotFound && !ending.is_empty() => {}
                    Err(e) => return Err(e),
                }
            }
            if wal_header(folder, name)? == before || attempt == ATTEMPTS {
                break;
            }
        }
        let connection = open_damaged(&private.path().join("copy.db")).map_err(io::Error::other)?;
        let trust = connection.pragma_update(None, "trusted_schema", false);
        trust.map_err(io::Error::other)?;
        check_tables(&connection)?;
        Ok(Database {
            connection,
            _folder: private,
        })
    }

    /// Lists the sessions that a person began: not those of subagents.
    pub(super) fn sessions(&self, report: &mut Report) -> Vec<Listed> {
        let query = "SELECT id, version, directory, title, time_updated, time_created FROM session
             WHERE parent_id IS NULL ORDER BY time_updated DESC";
        self.rows("session", query, None, report, |row| {
            let known = |text: String| Some(text).filter(|text| !text.is_empty());
            Ok(Listed {
                about: About {
                    id: row.get(0)?,
                    version: known(row.get(1)?),
                    folder: known(row.get(2)?).map(Into::into),
                    title: known(row.get(3)?),
                    began_ms: row.get(5)?,
                    left: Vec::new(),
                },
                updated_ms: row.get(4)?,
            })
        })
    }

    /// Reads a session. `sink` gets its pieces in order. Returns the bytes of its messages and their
    /// parts.
    pub(super) fn read(&self, session: &str, report: &mut Report, sink: Sink<'_>) -> u64 {
        let mut bytes = 0;
        let messages = "SELECT id FROM message WHERE session_id = ?1 ORDER BY time_created, id";
        let messages: Vec<String> =
            self.rows("message", messages, Some(session), report, |row| row.get(0));
        for id in messages {
            let data = "SELECT data FROM message WHERE id = ?1 LIMIT 1";
            let data: Vec<String> = self.rows("message", data, Some(&id), report, |row| row.get(0));
            bytes += data.iter().map(String::len).sum::<usize>();
            let Some(message) = data.first().and_then(|data| json(data, report)) else {
                continue;
            };
            let parts = "SELECT data FROM part WHERE message_id = ?1 ORDER BY id";
            let parts = self.rows("part", parts, Some(&id), report, |row| row.get(0));
            bytes += parts.iter().map(String::len).sum::<usize>();
            let parts: Vec<Value> = parts.iter().filter_map(|data| json(data, report)).collect();
            pieces(&id, &message, &parts, report, sink);
        }
        bytes as u64
    }

    /// Returns the rows up to the first one that is damaged, which the report names.
    fn rows<T>(
        &self,
        table: &str,
        query: &str,
        key: Option<&str>,
        report: &mut Report,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let mut read = Vec::new();
        let all = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(query)?;
            let rows = match key {
                Some(key) => statement.query_map(params![key], row)?,
                None => statement.query_map([], row)?,
            };
            for one in rows {
                read.push(one?);
            }
            Ok(())
        };
        if let Err(e) = all() {
            let said = format!("the table {table} could be read only in part: {e}");
            if !report.partial.contains(&said) {
                report.partial.push(said);
            }
        }
        read
    }
}

/// Checks that what is read are tables with columns that are stored. A view or a generated column
/// could compute without end.
fn check_tables(connection: &Connection) -> io::Result<()> {
    let query = "SELECT count(*) FROM sqlite_master m WHERE name IN ('session', 'message', 'part')
       AND (type <> 'table' OR rootpage = 0
         OR EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name) WHERE hidden <> 0))";
    // A database that cannot be read is reported when its tables are read.
    let computed: i64 = connection
        .query_row(query, [], |row| row.get(0))
        .unwrap_or(0);
    match computed {
        0 => Ok(()),
        _ => Err(io::Error::other("it is no database of opencode")),
    }
}

/// Returns the header of the `-wal` file. Empty: there is none.
fn wal_header(folder: &Folder, name: &str) -> io::Result<Vec<u8>> {
    let name = format!("{name}-wal");
    let mut header = Vec::new();
    match super::open::regular(folder, Path::new(OsStr::new(&name))) {
        Ok(file) => drop(file.take(WAL_HEADER as u64).read_to_end(&mut header)?),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    Ok(header)
}

fn json(data: &str, report: &mut Report) -> Option<Value> {
    report.lines += 1;
    let value = read_lenient(data.as_bytes()).ok();
    report.damaged += u64::from(value.is_none());
    value
}

fn pieces(id: &str, message: &Value, parts: &[Value], report: &mut Report, sink: Sink<'_>) {
    let at_ms = message["time"]["created"].as_i64().unwrap_or(0);
    let is_user = message["role"] == "user";
    let mut said = Vec::new();
    // All calls of an answer come before the first result.
    let mut results = Vec::new();
    for part in parts {
        let words = text(part, &["text"]);
        match text(part, &["type"]) {
            "text" if words.trim().is_empty() => {}
            "text" if is_user && part["synthetic"] == true => report.of_agent += 1,
            "text" if is_user => said.push(json!({ "text": unquoted(words) })),
            "text" if message["summary"] == true => sink(Piece::Summary {
                at_ms,
                text: words.to_string(),
            }),
            "text" => sink(Piece::Text {
                at_ms,
                answer: id.to_string(),
                text: words.to_string(),
            }),
            "file" if is_user => said.push(part.clone()),
            "tool" => {
                sink(call(id, at_ms, part));
                results.extend(result(at_ms, part));
            }
            "step-start" | "step-finish" | "reasoning" | "snapshot" | "patch" | "agent"
            | "retry" | "compaction" | "subtask" | "file" => {}
            kind => report.unknown(kind),
        }
    }
    take_said(said, at_ms, sink);
    if !is_user {
        let model = text(message, &["modelID"]);
        sink(counted(id, model, &message["tokens"]));
    }
    results.into_iter().for_each(sink);
}

fn call(answer: &str, at_ms: i64, part: &Value) -> Piece {
    let state = &part["state"];
    let printed = text(state, &["metadata", "output"]);
    Piece::Call {
        at_ms,
        answer: answer.to_string(),
        id: text(part, &["callID"]).to_string(),
        name: text(part, &["tool"]).to_string(),
        arguments: state["input"].to_string(),
        printed: (!printed.is_empty()).then(|| printed.to_string()),
    }
}

/// Returns the result of a call, if it has ended.
fn result(at_ms: i64, part: &Value) -> Option<Piece> {
    let state = &part["state"];
    let said = match text(state, &["status"]) {
        "error" => text(state, &["error"]),
        "completed" => text(state, &["output"]),
        _ => return None,
    };
    Some(Piece::Result {
        at_ms: state["time"]["end"].as_i64().unwrap_or(at_ms),
        call: text(part, &["callID"]).to_string(),
        text: said.to_string(),
        is_error: state["status"] == "error",
        images: Vec::new(),
    })
}

/// Removes the quotes of a message that is one JSON string, as `opencode run` stores it.
fn unquoted(text: &str) -> String {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| text.to_string())
}
