//! Copying of the tables without entries, as far as SQL can read them. Tables that follow from
//! entries are filled when the entries are written.
//!
//! Reading other copies of the store, which the user names with `--from`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rusqlite::Row;
use rusqlite::types::Value;

use super::sql::{Source, each_row};
use crate::journal::folder::folders;
use crate::store::StoreError;
use crate::store::recovering::{BlobRow, JOURNALS_UPTO, NewRows, database, io_error};

/// The tables of file snapshots, each with its key. Each comes after the tables that its rows refer
/// to. The journal does not have them.
const FILES: [(&str, &str); 4] = [
    ("places", "key"),
    ("packs", "id"),
    ("contents", "id"),
    ("trees", "id"),
];

pub(super) fn files(rows: &NewRows<'_>, source: &mut Source) -> Result<(), StoreError> {
    for (table, key) in FILES {
        let is_whole = table_as_it_is(rows, source, table, Some(key))?;
        rows.remove_dangling(table)?;
        // An empty database has no tables. If the schema cannot be read, it may have existed.
        let is_there = source
            .tables()
            .is_none_or(|all| all.contains(&table.to_string()));
        if !is_whole && is_there {
            source.torn.push(table);
        }
    }
    Ok(())
}

/// Copies all rows of a table that SQL can read. Returns whether it could read all.
fn table_as_it_is(
    rows: &NewRows<'_>,
    source: &Source,
    table: &str,
    key: Option<&str>,
) -> Result<bool, StoreError> {
    table_with(rows, source, (table, key), &mut |_, _| true)
}

/// Copies the rows for which `change` returns true, with its changes. `change` also gets the names
/// of the columns. Returns whether all rows could be read. `key`: `None` for a table without row
/// IDs.
pub(super) fn table_with(
    rows: &NewRows<'_>,
    source: &Source,
    (table, key): (&str, Option<&str>),
    change: &mut dyn FnMut(&[String], &mut [Value]) -> bool,
) -> Result<bool, StoreError> {
    let columns = rows.columns(table)?;
    each_row(&source.conn, table, key, None, &mut |row| {
        let values: rusqlite::Result<Vec<Value>> =
            columns.iter().map(|name| row.get(name.as_str())).collect();
        let Ok(mut values) = values else {
            return Ok(());
        };
        match change(&columns, &mut values) {
            true => rows.copy_row(table, &columns, values),
            false => Ok(()),
        }
    })
}

/// Copies the rows of the sessions in `keys`, which maps old keys to new ones. `is_wanted` gets the
/// ID of the row, or 0 if it has none.
pub(super) fn table_of_sessions(
    rows: &NewRows<'_>,
    source: &Source,
    of: (&str, Option<&str>),
    keys: &HashMap<i64, i64>,
    is_wanted: &dyn Fn(i64) -> bool,
) -> Result<bool, StoreError> {
    table_with(rows, source, of, &mut |columns, row| {
        let mut key = None;
        let mut id = 0;
        for (name, value) in columns.iter().zip(row.iter_mut()) {
            match (name.as_str(), &*value) {
                ("id", Value::Integer(of_row)) => id = *of_row,
                ("session", Value::Integer(session)) => {
                    key = keys.get(session);
                    *value = key.map_or(Value::Null, |key| Value::Integer(*key));
                }
                _ => {}
            }
        }
        key.is_some() && is_wanted(id)
    })
}

/// Copies the blobs that match their hash.
pub(super) fn blobs(rows: &NewRows<'_>, source: &mut Source) -> Result<(), StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<(Vec<u8>, i64, String, Vec<u8>)> {
        Ok((
            row.get("hash")?,
            row.get("bytes")?,
            row.get("encoding")?,
            row.get("data")?,
        ))
    };
    let is_whole = each_row(&source.conn, "blobs", Some("id"), None, &mut |row| {
        let Ok((hash, bytes, encoding, data)) = read(row) else {
            return Ok(());
        };
        rows.blob_row(&BlobRow {
            hash: &hash,
            bytes,
            is_packed: encoding == "zstd",
            data: &data,
        })
    })?;
    if !is_whole {
        source.torn.push("blobs");
    }
    Ok(())
}

/// Copies the limits of models, the catalogue of servers, the progress of telemetry and `meta`. Returns whether all of `meta`
/// could be read.
pub(super) fn small(rows: &NewRows<'_>, source: &Source) -> Result<bool, StoreError> {
    table_as_it_is(rows, source, "model_limits", None)?;
    table_as_it_is(rows, source, "catalogue", None)?;
    table_as_it_is(rows, source, "telemetry", None)?;
    table_with(
        rows,
        source,
        ("meta", None),
        &mut |_, row| match row.first() {
            // These depend on the old row IDs, and all new rows have tips.
            Some(Value::Text(name)) => {
                !name.starts_with("tips_") && !name.starts_with(JOURNALS_UPTO)
            }
            _ => false,
        },
    )
}

/// Copies the usage counts of those memories that were recreated from their entries.
pub(super) fn memories(
    rows: &NewRows<'_>,
    source: &Source,
    keys: &HashMap<i64, i64>,
) -> Result<(), StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<[i64; 4]> {
        Ok([
            row.get("session")?,
            row.get("seq")?,
            row.get("uses")?,
            row.get("last_used_ms")?,
        ])
    };
    each_row(
        &source.conn,
        "memories",
        Some("id"),
        None,
        &mut |row| match read(row).map(|uses| (keys.get(&uses[0]), uses)) {
            Ok((Some(key), [_, seq, uses, last])) if uses > 0 => {
                rows.memory_uses([*key, seq, uses, last])
            }
            _ => Ok(()),
        },
    )
    .map(drop)
}

/// Returns the database and the journal in a path of `--from`: a data folder, a journal or a
/// database.
pub(super) fn copy_in(from: &Path) -> Result<(Option<PathBuf>, Option<PathBuf>), StoreError> {
    let none = || {
        let what = format!("find a database or a journal in {}", from.display());
        io_error(what, io::ErrorKind::NotFound.into())
    };
    if from.is_file() {
        return Ok((Some(from.to_path_buf()), None));
    }
    let database = database::exists(from).then(|| database::names(from).database);
    let journal = [from.join("journal"), from.to_path_buf()];
    let journal = journal
        .into_iter()
        .find(|folder| !folders(folder).is_empty());
    match (&database, &journal) {
        (None, None) => Err(none()),
        _ => Ok((database, journal)),
    }
}

pub(super) fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    match fs::copy(database::wal_path(from), database::wal_path(to)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop),
    }
}
