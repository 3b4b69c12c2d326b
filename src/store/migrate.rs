//! Schema versions: numbered SQL files, applied in order, each in one transaction with its number
//! in `user_version`.
//!
//! Invariant: a released migration is never edited, and there is no way back; a database of a newer
//! version is refused.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
use super::database;
use super::error::Doing;
use super::scrub::copy_database;

pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../assets/migrations/0001_initial.sql"),
    include_str!("../../assets/migrations/0002_memory.sql"),
    include_str!("../../assets/migrations/0003_trash.sql"),
    include_str!("../../assets/migrations/0004_tips.sql"),
    include_str!("../../assets/migrations/0005_files.sql"),
    include_str!("../../assets/migrations/0006_signals.sql"),
    include_str!("../../assets/migrations/0007_catalogue.sql"),
    include_str!("../../assets/migrations/0008_telemetry.sql"),
    include_str!("../../assets/migrations/0009_import.sql"),
];

pub(super) fn is_current(conn: &Connection, migrations: &[&str]) -> Result<bool, StoreError> {
    let (found, known) = (version(conn)?, newest(migrations));
    if !(0..=known).contains(&found) {
        return Err(StoreError::Newer { found, known });
    }
    Ok(found == known)
}

/// Applies the missing migrations. The caller has the store alone. A database with content is
/// copied first.
pub(super) fn migrate(
    conn: &mut Connection,
    data_dir: &Path,
    migrations: &[&str],
) -> Result<(), StoreError> {
    // Another process may have migrated it while this one waited for the lock.
    if is_current(conn, migrations)? {
        return Ok(());
    }
    let found = version(conn)?;
    if found > 0 {
        copy_database(conn, &database::copy_of_schema(data_dir, found))?;
    }
    let steps = (1..).zip(migrations).filter(|(number, _)| *number > found);
    for (number, sql) in steps {
        apply(conn, number, sql)
            .doing("bring the session store up to date")
            .map_err(|error| match error {
                StoreError::Sqlite { source, .. } => StoreError::Migration {
                    from: found,
                    to: number,
                    why: source.to_string(),
                },
                error => error,
            })?;
    }
    Ok(())
}

fn apply(conn: &mut Connection, number: i64, sql: &str) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(sql)?;
    tx.pragma_update(None, "user_version", number)?;
    tx.commit()
}

fn version(conn: &Connection) -> Result<i64, StoreError> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
        .doing("open the session store")
}

/// Returns the newest schema that this version knows.
pub(crate) fn known() -> i64 {
    newest(MIGRATIONS)
}

fn newest(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[&str] = &["CREATE TABLE a (x);", "ALTER TABLE a ADD COLUMN y;"];

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn each_migration_is_applied_once_and_the_old_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = memory();
        migrate(&mut conn, dir.path(), &TWO[..1]).unwrap();
        conn.execute("INSERT INTO a VALUES (7)", []).unwrap();
        migrate(&mut conn, dir.path(), TWO).unwrap();
        migrate(&mut conn, dir.path(), TWO).unwrap();
        assert!(is_current(&conn, TWO).unwrap());
        let old = Connection::open(dir.path().join("rewake.db.schema-1")).unwrap();
        let kept: i64 = old.query_row("SELECT x FROM a", [], |r| r.get(0)).unwrap();
        assert_eq!(kept, 7);
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = memory();
        let broken = &["CREATE TABLE a (x); CREATE TABLE a (x);"];
        let error = migrate(&mut conn, dir.path(), broken).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot bring the session store from schema 0 to schema 1: table a already exists"
        );
        assert!(error.hint().unwrap().contains("changed nothing"));
        assert_eq!(version(&conn).unwrap(), 0);
        migrate(&mut conn, dir.path(), TWO).unwrap();
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let conn = memory();
        conn.pragma_update(None, "user_version", 3).unwrap();
        assert!(matches!(
            is_current(&conn, TWO),
            Err(StoreError::Newer { found: 3, known: 2 })
        ));
    }

    /// Databases with this schema exist: change it by a new migration.
    #[test]
    fn released_migrations_are_not_edited() {
        let hashes = MIGRATIONS.iter().map(|sql| blake3::hash(sql.as_bytes()));
        let hashes: Vec<String> = hashes.map(|h| h.to_hex()[..16].to_string()).collect();
        assert_eq!(
            hashes,
            [
                "5460f5bbc9c2039b",
                "3421d4928d0086cb",
                "7e32c19ebcc0c6c2",
                "b2092683312bdc39",
                "9252819e29f33b96",
                "338aabe09f491dcb",
                "68b692f9eb5f93a9",
                "e6630ab0fdb65c08",
                "143bf417a6f6327d"
            ]
        );
    }
}
