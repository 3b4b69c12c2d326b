//! The tables that are not entries: copied as far as they can be read. What follows from entries
//! is recreated when those are recorded.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, Transaction, params, params_from_iter};

use super::WHAT;
use super::sql::{Source, each_row};
use crate::store::StoreError;
use crate::store::blobs::BlobRow;
use crate::store::error::Doing;
use crate::store::lag::JOURNALS_UPTO;

/// With a row id, in an order in which nothing names what comes later.
const TABLES: [(&str, &str); 4] = [
    ("places", "key"),
    ("packs", "id"),
    ("contents", "id"),
    ("trees", "id"),
];

/// What each workspace's files were. It is kept in the database alone.
pub(super) fn files(tx: &Transaction<'_>, source: &mut Source) -> Result<(), StoreError> {
    for (table, key) in TABLES {
        let columns = columns(tx, table)?;
        let holes = vec!["?"; columns.len()].join(", ");
        let sql = format!(
            "INSERT OR IGNORE INTO {table} ({}) VALUES ({holes})",
            columns.join(", ")
        );
        let is_whole = each_row(&source.conn, table, key, None, &mut |row| {
            let values: rusqlite::Result<Vec<Value>> =
                columns.iter().map(|name| row.get(name.as_str())).collect();
            if let Ok(values) = values {
                let _ = tx
                    .prepare_cached(&sql)
                    .and_then(|mut s| s.execute(params_from_iter(values)));
            }
            Ok(())
        })?;
        remove_dangling(tx, table)?;
        // Older schemas do not have it. Where that cannot be read, it may have been there.
        let is_there = tables(&source.conn).is_none_or(|all| all.contains(&table.to_string()));
        if !is_whole && is_there {
            source.torn.push(table);
        }
    }
    Ok(())
}

/// A row that names what is not here is of no use, nor is one that names such a row.
fn remove_dangling(tx: &Transaction<'_>, table: &str) -> Result<(), StoreError> {
    let sql = format!(
        "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM pragma_foreign_key_check(?1))"
    );
    let mut remove = tx.prepare(&sql).doing(WHAT)?;
    while remove.execute([table]).doing(WHAT)? > 0 {}
    Ok(())
}

/// `None`: not all of the schema can be read.
fn tables(conn: &Connection) -> Option<Vec<String>> {
    conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .ok()
}

fn columns(conn: &Connection, table: &str) -> Result<Vec<String>, StoreError> {
    conn.prepare("SELECT name FROM pragma_table_info(?1)")
        .and_then(|mut s| s.query_map([table], |row| row.get(0))?.collect())
        .doing(WHAT)
}

/// Each is checked against its hash.
pub(super) fn blobs(tx: &Transaction<'_>, source: &mut Source) -> Result<(), StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<(Vec<u8>, i64, String, Vec<u8>)> {
        Ok((
            row.get("hash")?,
            row.get("bytes")?,
            row.get("encoding")?,
            row.get("data")?,
        ))
    };
    let is_whole = each_row(&source.conn, "blobs", "id", None, &mut |row| {
        let Ok((hash, bytes, encoding, data)) = read(row) else {
            return Ok(());
        };
        let blob = BlobRow {
            hash: &hash,
            bytes,
            is_packed: encoding == "zstd",
            data: &data,
        };
        // The same blob may have come from another copy.
        match blob.is_in(tx).doing(WHAT)? || !blob.is_whole() {
            true => Ok(()),
            false => blob.insert(tx).doing(WHAT),
        }
    })?;
    if !is_whole {
        source.torn.push("blobs");
    }
    Ok(())
}

/// Copies what is learnt of models and servers, and what the store knows of itself. Returns whether all of the
/// latter could be read.
pub(super) fn small(tx: &Transaction<'_>, source: &mut Source) -> Result<bool, StoreError> {
    let limits = |row: &Row<'_>| -> rusqlite::Result<(String, Option<i64>, Option<f64>)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    let sql = "SELECT model, context_tokens, bytes_per_token FROM model_limits";
    for row in plain(&source.conn, sql, limits).0 {
        tx.execute(
            "INSERT OR IGNORE INTO model_limits VALUES (?1, ?2, ?3)",
            params![row.0, row.1, row.2],
        )
        .doing(WHAT)?;
    }
    let tools = |row: &Row<'_>| -> rusqlite::Result<(String, String, i64, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    };
    let sql = "SELECT server, config_hash, at_ms, body FROM catalogue";
    for row in plain(&source.conn, sql, tools).0 {
        tx.execute(
            "INSERT OR IGNORE INTO catalogue (server, config_hash, at_ms, body) VALUES (?1, ?2, ?3, ?4)",
            params![row.0, row.1, row.2, row.3],
        )
        .doing(WHAT)?;
    }
    let value =
        |row: &Row<'_>| -> rusqlite::Result<(String, Value)> { Ok((row.get(0)?, row.get(1)?)) };
    let (rows, is_whole) = plain(&source.conn, "SELECT name, value FROM meta", value);
    for (name, value) in rows {
        // The new rows have all their tips, and other ids.
        if !name.starts_with("tips_") && !name.starts_with(JOURNALS_UPTO) {
            tx.execute(
                "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
                params![name, value],
            )
            .doing(WHAT)?;
        }
    }
    Ok(is_whole)
}

/// A table without row ids, until something cannot be read. False: not all of it.
pub(super) fn plain<T>(
    conn: &Connection,
    sql: &str,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> (Vec<T>, bool) {
    let mut all = Vec::new();
    let walked = conn.prepare(sql).and_then(|mut statement| {
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(value) = read(row) {
                all.push(value);
            }
        }
        Ok(())
    });
    (all, walked.is_ok())
}

/// How often a memory was found: of those that were recreated from their entries.
pub(super) fn memories(
    tx: &Transaction<'_>,
    source: &Source,
    keys: &HashMap<i64, i64>,
) -> Result<(), StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<[i64; 4]> {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
    };
    let sql = "SELECT session, seq, uses, last_used_ms FROM memories WHERE uses > 0";
    for [session, seq, uses, last] in plain(&source.conn, sql, read).0 {
        if let Some(key) = keys.get(&session) {
            tx.execute(
                "UPDATE memories SET uses = ?3, last_used_ms = ?4 WHERE session = ?1 AND seq = ?2",
                params![key, seq, uses, last],
            )
            .doing(WHAT)?;
        }
    }
    Ok(())
}
