//! What SQL can read of a damaged database: each table as far as it goes, and behind what cannot
//! be read, row by row.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Row};

use super::found::{Found, FoundRow, Rows};
use super::progress::Progress;
use crate::core::text;
use crate::journal::tip::Tip;
use crate::store::StoreError;
use crate::store::database;
use crate::store::row::count;

/// Behind a row that cannot be read so many ids are tried, and this is done so often for one
/// table. A page has some hundred rows at most.
const TRIED: i64 = 100_000;
const BREAKS: u32 = 1_000;

/// A row of `sessions`.
#[derive(Debug, Clone)]
pub(super) struct SessionRow {
    pub key: i64,
    pub id: String,
    pub workspace: String,
    pub folder: String,
    pub head: i64,
    pub length: u64,
    pub forked_from: Option<i64>,
    pub forked_seq: Option<i64>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub title: Option<String>,
    pub version: Option<String>,
    pub model: Option<String>,
    pub unfinished: i64,
    /// Sums: input, cached, cache_written, output, bytes.
    pub sums: [i64; 5],
    pub trashed_ms: Option<i64>,
    pub billed: Option<i64>,
    pub asks: bool,
}

/// One database, and what was found in it.
pub(super) struct Source {
    pub conn: Connection,
    pub sessions: Vec<SessionRow>,
    pub rows: Rows,
    /// Tables of which not everything could be read.
    pub torn: Vec<&'static str>,
    schema: i64,
}

/// The first schema that has signals.
const SIGNALS_SINCE: i64 = 6;

impl Source {
    /// Nobody could send a signal yet.
    pub(super) fn is_older_than_signals(&self) -> bool {
        self.schema < SIGNALS_SINCE
    }

    /// `None`: SQL can read nothing of it at all.
    pub(super) fn open(path: &Path) -> Result<Option<Source>, StoreError> {
        let Ok(conn) = database::open_damaged(path) else {
            return Ok(None);
        };
        let set = || -> rusqlite::Result<i64> {
            // What lies in its log stays there: nothing of the old files changes.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            conn.pragma_update(None, "query_only", true)?;
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            // A page of the schema that is gone costs what it names: with this the statement that
            // loads the schema fails, and the next one has the tables before the damage.
            conn.pragma_update(None, "writable_schema", true)?;
            let _ = conn.prepare("SELECT 1 FROM sqlite_schema");
            // One lock for all: behind a damaged page many rows are asked for one by one.
            conn.execute_batch("BEGIN")?;
            conn.pragma_query_value(None, "user_version", |row| row.get(0))
        };
        match set() {
            Ok(found) if found > crate::store::migrate::known() => Err(StoreError::Newer {
                found,
                known: crate::store::migrate::known(),
            }),
            Ok(schema) => Ok(Some(Source {
                conn,
                sessions: Vec::new(),
                rows: Rows::default(),
                torn: Vec::new(),
                schema,
            })),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn read_sessions(&mut self) {
        let mut sessions = Vec::new();
        let is_whole = each_row(&self.conn, "sessions", "key", None, &mut |row| {
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

    /// Returns whether all rows could be read. `highest`: of the rows that the mark knows of.
    pub(super) fn read_entries(
        &mut self,
        found: &mut Found,
        highest: i64,
        progress: &mut Progress<'_>,
    ) -> Result<bool, StoreError> {
        let rows = &mut self.rows;
        let upto = Some(highest).filter(|upto| *upto > 0);
        let mut met = 0_u64;
        each_row(&self.conn, "entries", "id", upto, &mut |row| {
            met += 1;
            progress.so_far(|| text::count(met, "entry"));
            match entry(row) {
                Ok(entry) => found.row(rows, &entry),
                Err(_) => Ok(()),
            }
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
        // Older schemas do not have these.
        trashed_ms: row.get("trashed_ms").unwrap_or(None),
        billed: row.get("billed").unwrap_or(None),
        asks: row.get("asks").unwrap_or(false),
    })
}

fn entry<'r>(row: &'r Row<'_>) -> rusqlite::Result<FoundRow<'r>> {
    // Older schemas have no tips.
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
        tip: tip.and_then(Tip::from_bytes),
    })
}

/// All rows of a table that can be read, by their ids. `upto`: the highest id that there may be.
/// True when nothing was left out.
///
/// # Errors
/// Those of `each`.
pub(super) fn each_row(
    conn: &Connection,
    table: &str,
    key: &str,
    upto: Option<i64>,
    each: &mut dyn FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
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
