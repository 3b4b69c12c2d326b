//! Reading of a damaged database with SQL: each table up to the damage, then row by row after it.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Row};

use super::found::{EntryIndex, FoundRow, Rows};
use super::progress::Progress;
use crate::core::text;
use crate::journal::chain_hash::ChainHash;
use crate::store::StoreError;
use crate::store::recovering::{SessionRow, count, database, refuse_other_schema};

/// Maximum number of row IDs that are tried after an unreadable row. A page has a few hundred rows
/// at most.
const TRIED: i64 = 100_000;
/// Maximum number of damaged places that are skipped in one table.
const BREAKS: u32 = 1_000;

/// A database, and the rows that were read from it.
pub(super) struct Source {
    pub conn: Connection,
    pub sessions: Vec<SessionRow>,
    pub rows: Rows,
    /// Tables that could not be read completely.
    pub torn: Vec<&'static str>,
}

impl Source {
    /// Opens a database that may be damaged. `None`: SQL cannot read any of it.
    pub(super) fn open(path: &Path) -> Result<Option<Source>, StoreError> {
        let Ok(conn) = database::open_damaged(path) else {
            return Ok(None);
        };
        let set = || -> rusqlite::Result<i64> {
            // The write-ahead log is not checkpointed, so the old files do not change.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            conn.pragma_update(None, "query_only", true)?;
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            // If a page of the schema is damaged, the statement that loads the schema fails. With
            // this setting, the next statement still has the tables before the damage.
            conn.pragma_update(None, "writable_schema", true)?;
            let _ = conn.prepare("SELECT 1 FROM sqlite_schema");
            // One transaction for all reads: after a damaged page, many rows are read one by one.
            conn.execute_batch("BEGIN")?;
            conn.pragma_query_value(None, "user_version", |row| row.get(0))
        };
        let Ok(schema) = set() else {
            return Ok(None);
        };
        refuse_other_schema(schema)?;
        Ok(Some(Source {
            conn,
            sessions: Vec::new(),
            rows: Rows::default(),
            torn: Vec::new(),
        }))
    }

    /// Returns the names of the tables. `None`: not all of the schema can be read.
    pub(super) fn tables(&self) -> Option<Vec<String>> {
        self.conn
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
            .ok()
    }

    /// Returns the highest row ID that each table has used.
    pub(super) fn numbers(&self) -> rusqlite::Result<HashMap<String, i64>> {
        let mut numbers = self.conn.prepare("SELECT name, seq FROM sqlite_sequence")?;
        numbers
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }

    /// Returns the ID of its store. `None`: it cannot be read.
    pub(super) fn store(&self) -> Option<String> {
        let sql = "SELECT value FROM meta WHERE name = 'store'";
        self.conn.query_row(sql, [], |row| row.get(0)).ok()
    }

    pub(super) fn read_sessions(&mut self) {
        let mut sessions = Vec::new();
        let is_whole = each_row(&self.conn, "sessions", Some("key"), None, &mut |row| {
            if let Ok(session) = session(row) {
                sessions.push(session);
            }
            Ok(())
        });
        self.sessions = sessions;
        if !matches!(is_whole, Ok(true)) {
            self.torn.push("sessions");
        }
    }

    /// Reads the entries. Returns whether all rows could be read. `highest`: the highest row ID
    /// that the mark names, or 0.
    pub(super) fn read_entries(
        &mut self,
        found: &mut EntryIndex,
        highest: i64,
        progress: &mut Progress<'_>,
    ) -> Result<bool, StoreError> {
        let rows = &mut self.rows;
        let upto = Some(highest).filter(|upto| *upto > 0);
        let mut met = 0_u64;
        each_row(&self.conn, "entries", Some("id"), upto, &mut |row| {
            met += 1;
            progress.so_far(|| text::count(met, "entry"));
            entry(row).map_or(Ok(()), |entry| found.row(rows, &entry))
        })
    }
}

fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let sum = |name| row.get(name).unwrap_or(0);
    Ok(SessionRow {
        key: row.get("key")?,
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        folder: row.get("folder")?,
        head: row.get("head")?,
        length: count(row.get("length")?),
        forked_from: row.get("forked_from")?,
        forked_seq: row.get("forked_seq")?,
        created_ms: row.get("created_ms")?,
        updated_ms: row.get("updated_ms")?,
        title: row.get("title")?,
        version: row.get("version")?,
        model: row.get("model")?,
        unfinished: row.get("unfinished")?,
        sums: [
            sum("input"),
            sum("cached"),
            sum("cache_written"),
            sum("output"),
            sum("bytes"),
        ],
        // A damaged value costs less than the session.
        trashed_ms: row.get("trashed_ms").unwrap_or(None),
        billed: row.get("billed").unwrap_or(None),
        asks: row.get("asks").unwrap_or(false),
        replica: row.get("replica").unwrap_or_default(),
    })
}

fn entry<'r>(row: &'r Row<'_>) -> rusqlite::Result<FoundRow<'r>> {
    // A row without a tip is proven by its parent.
    let tip = row.get_ref("tip").ok();
    let tip = tip.and_then(|tip| tip.as_blob().ok());
    Ok(FoundRow {
        id: row.get("id")?,
        parent: row.get("parent")?,
        session: row.get("session")?,
        seq: count(row.get("seq")?),
        at_ms: row.get("at_ms")?,
        checksum: row.get_ref("checksum")?.as_bytes()?,
        body: row.get_ref("body")?,
        tip: tip.and_then(ChainHash::from_bytes),
    })
}

/// Calls `each` with all readable rows of a table, ordered by key. Returns whether no row was left
/// out. `key`: without one, the table is read up to the first damage. `upto`: the highest possible
/// key.
///
/// # Errors
/// Those of `each`.
pub(super) fn each_row(
    conn: &Connection,
    table: &str,
    key: Option<&str>,
    upto: Option<i64>,
    each: &mut dyn FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let Some(key) = key else {
        let mut failed = None;
        let walked = conn
            .prepare(&format!("SELECT * FROM {table}"))
            .and_then(|mut all| {
                let mut rows = all.query([])?;
                while failed.is_none()
                    && let Some(row) = rows.next()?
                {
                    failed = each(row).err();
                }
                Ok(())
            });
        return failed.map_or(Ok(walked.is_ok()), Err);
    };
    let behind = format!("SELECT *, {key} AS at_ FROM {table} WHERE {key} > ?1 ORDER BY {key}");
    let single = format!("SELECT *, {key} AS at_ FROM {table} WHERE {key} = ?1");
    let (mut last, mut is_whole) = (0_i64, true);
    for _ in 0..BREAKS {
        let mut failed = None;
        let walked = conn.prepare(&behind).and_then(|mut statement| {
            let mut rows = statement.query([last])?;
            while let Some(row) = rows.next()? {
                last = row.get("at_")?;
                if let Err(error) = each(row) {
                    failed = Some(error);
                    break;
                }
            }
            Ok(())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if walked.is_ok() {
            return Ok(is_whole);
        }
        is_whole = false;
        let end = last.saturating_add(TRIED);
        let end = upto.map_or(end, |upto| end.min(upto));
        let Ok(mut statement) = conn.prepare(&single) else {
            return Ok(false);
        };
        let mut found = false;
        for id in last + 1..=end {
            let read = statement.query_row([id], |row| Ok(each(row)));
            if let Ok(given) = read {
                given?;
                (last, found) = (id, true);
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(false)
}
