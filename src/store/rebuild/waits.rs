//! What sessions have besides their entries: by the rows, where these can be read, else as their
//! journals have it.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Row, Transaction, params};

use super::record::Made;
use super::sessions::Known;
use super::sql::{Source, each_row};
use super::{WHAT, copy, keys};
use crate::store::StoreError;
use crate::store::clock::now_ms;
use crate::store::error::Doing;
use crate::store::waiting::{never_again, put_back};

/// Where it is looked for.
pub(super) struct Waits<'a> {
    /// The damaged database.
    pub source: Option<&'a Source>,
    pub sessions: &'a BTreeMap<String, Known>,
    pub journal: Option<&'a Path>,
}

pub(super) fn waiting(
    tx: &Transaction<'_>,
    made: &Made,
    waits: &Waits<'_>,
    torn: &mut Vec<String>,
) -> Result<(), StoreError> {
    let is_whole = match waits.source {
        Some(source) => {
            let inbox = queued(tx, source, waits, made)?;
            let drafts = words(tx, source, waits, made)?;
            signals(tx, source, waits, made)? && inbox && drafts && numbers(source).is_ok()
        }
        None => false,
    };
    for (id, session) in &made.keys {
        let row = waits.sessions.get(id).and_then(|known| known.row.as_ref());
        let by_rows = is_whole && row.is_some_and(|(source, _)| *source == 0);
        if let (Some(journal), false) = (waits.journal, by_rows) {
            let said = made.said.get(id).map_or(&[][..], Vec::as_slice);
            put_back(tx, &journal.join(id), *session, &made.became, said)?;
        }
    }
    if !is_whole && waits.journal.is_none() {
        torn.push("queued messages, signals and unsent words may be missing".to_string());
    }
    made.became.never_again(tx)?;
    for table in ["inbox", "signals"] {
        let used = match waits.source.map(numbers) {
            Some(Ok(numbers)) => numbers
                .into_iter()
                .find(|(name, _)| name == table)
                .map_or(0, |(_, used)| used),
            // Usually no number is as high as the time.
            Some(Err(_)) | None => now_ms(),
        };
        never_again(tx, table, used)?;
    }
    tx.execute(
        "UPDATE sessions SET unfinished = 1
         WHERE NOT unfinished AND key IN (SELECT session FROM inbox)",
        [],
    )
    .doing(WHAT)
    .map(drop)
}

/// Returns the highest number that each table gave to a row.
fn numbers(source: &Source) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut numbers = source
        .conn
        .prepare("SELECT name, seq FROM sqlite_sequence")?;
    numbers
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// False: not all rows could be read.
fn queued(
    tx: &Transaction<'_>,
    source: &Source,
    waits: &Waits<'_>,
    made: &Made,
) -> Result<bool, StoreError> {
    let keys = keys(0, waits.sessions, made);
    let read = |row: &Row<'_>| -> rusqlite::Result<(i64, i64, i64, String)> {
        Ok((
            row.get("id")?,
            row.get("session")?,
            row.get("at_ms")?,
            row.get("body")?,
        ))
    };
    each_row(&source.conn, "inbox", "id", None, &mut |row| {
        let Ok((id, session, at_ms, body)) = read(row) else {
            return Ok(());
        };
        // The journal may know that it was said already.
        match keys.get(&session) {
            Some(key) if !made.became.taken.contains(&id) => tx
                .execute(
                    "INSERT OR IGNORE INTO inbox (id, session, at_ms, body) VALUES (?1, ?2, ?3, ?4)",
                    params![id, key, at_ms, body],
                )
                .doing(WHAT)
                .map(drop),
            _ => Ok(()),
        }
    })
}

/// As [`queued`].
fn signals(
    tx: &Transaction<'_>,
    source: &Source,
    waits: &Waits<'_>,
    made: &Made,
) -> Result<bool, StoreError> {
    if source.is_older_than_signals() {
        return Ok(true);
    }
    let keys = keys(0, waits.sessions, made);
    let read = |row: &Row<'_>| -> rusqlite::Result<(i64, i64, i64, String, String)> {
        Ok((
            row.get("id")?,
            row.get("session")?,
            row.get("at_ms")?,
            row.get("origin")?,
            row.get("body")?,
        ))
    };
    each_row(&source.conn, "signals", "id", None, &mut |row| {
        let Ok((id, session, at_ms, origin, body)) = read(row) else {
            return Ok(());
        };
        // The journal may know that it was obeyed already.
        match keys.get(&session) {
            Some(key) if !made.became.obeyed.contains(&id) => tx
                .execute(
                    "INSERT OR IGNORE INTO signals (id, session, at_ms, origin, body)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id, key, at_ms, origin, body],
                )
                .doing(WHAT)
                .map(drop),
            _ => Ok(()),
        }
    })
}

fn words(
    tx: &Transaction<'_>,
    source: &Source,
    waits: &Waits<'_>,
    made: &Made,
) -> Result<bool, StoreError> {
    let keys = keys(0, waits.sessions, made);
    let read = |row: &Row<'_>| -> rusqlite::Result<(i64, String, i64, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    };
    let sql = "SELECT session, kind, piece, text FROM drafts";
    let (rows, is_whole) = copy::plain(&source.conn, sql, read);
    for (session, kind, piece, text) in rows {
        if let Some(key) = keys.get(&session) {
            tx.execute(
                "INSERT OR IGNORE INTO drafts (session, kind, piece, text) VALUES (?1, ?2, ?3, ?4)",
                params![key, kind, piece, text],
            )
            .doing(WHAT)?;
        }
    }
    Ok(is_whole)
}
