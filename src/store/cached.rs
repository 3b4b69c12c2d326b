//! Statements that a connection keeps prepared.

use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row, ToSql, params};

/// Runs a statement. Returns the number of rows that it changed.
pub(super) fn execute(
    conn: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<usize> {
    conn.prepare_cached(sql)?.execute(params)
}

/// Reads the first row.
///
/// # Errors
/// `QueryReturnedNoRows`: there is none.
pub(super) fn row<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    conn.prepare_cached(sql)?.query_row(params, read)
}

/// Reads a value of the table `meta`.
///
/// # Errors
/// `QueryReturnedNoRows`: it has none with this name.
pub(super) fn meta<T: FromSql>(conn: &Connection, name: &str) -> rusqlite::Result<T> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    row(conn, sql, [name], |row| row.get(0))
}

/// Writes a value of the table `meta`.
pub(super) fn set_meta(conn: &Connection, name: &str, value: impl ToSql) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)";
    execute(conn, sql, params![name, value]).map(drop)
}

/// Reads all rows.
pub(super) fn rows<T, C: FromIterator<T>>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    conn.prepare_cached(sql)?.query_map(params, read)?.collect()
}
