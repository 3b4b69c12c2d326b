//! The schema of the database: one SQL file, applied in one transaction with its number in
//! `user_version`. Formats begin with version 0.1.0: a database with another number is refused.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
use super::error::Doing;

const SCHEMA: i64 = 10;

/// Returns whether the database has the schema. If not, it is empty.
///
/// # Errors
/// `Older` and `Newer`: it has another schema.
pub(super) fn is_current(conn: &Connection) -> Result<bool, StoreError> {
    let found = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .doing("open the session store")?;
    refuse_other(found)?;
    Ok(found == SCHEMA)
}

/// Fails if this is the number of another schema.
pub(crate) fn refuse_other(found: i64) -> Result<(), StoreError> {
    match found {
        0 | SCHEMA => Ok(()),
        1..SCHEMA => Err(StoreError::Older { found }),
        _ => Err(StoreError::Newer {
            found,
            known: SCHEMA,
        }),
    }
}

/// Makes the tables of an empty database. The caller has the store alone.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    // Another process may have made them while this one waited for the lock.
    if is_current(conn)? {
        return Ok(());
    }
    let mut apply = || -> rusqlite::Result<()> {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(include_str!("../../assets/schema.sql"))?;
        tx.pragma_update(None, "user_version", SCHEMA)?;
        tx.commit()
    };
    apply().doing("make the tables of the session store")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(schema: i64) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", schema).unwrap();
        conn
    }

    #[test]
    fn an_empty_database_gets_the_tables_once() {
        let mut conn = numbered(0);
        assert!(!is_current(&conn).unwrap());
        migrate(&mut conn).unwrap();
        migrate(&mut conn).unwrap();
        assert!(is_current(&conn).unwrap());
    }

    #[test]
    fn tables_of_another_program_are_left_as_they_are() {
        let mut conn = numbered(0);
        conn.execute_batch("CREATE TABLE entries (x)").unwrap();
        let error = migrate(&mut conn).unwrap_err();
        assert!(error.is_damage(), "{error}");
        assert!(error.to_string().contains("table entries already exists"));
        let tables: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn a_database_with_another_schema_is_refused() {
        for schema in 1..SCHEMA {
            let error = migrate(&mut numbered(schema)).unwrap_err();
            assert!(matches!(error, StoreError::Older { found } if found == schema));
            assert!(error.hint().unwrap().contains("REWAKE_HOME"));
        }
        for schema in [SCHEMA + 1, i64::from(i32::MAX), -1] {
            let error = migrate(&mut numbered(schema)).unwrap_err();
            assert!(matches!(error, StoreError::Newer { found, .. } if found == schema));
        }
    }
}
