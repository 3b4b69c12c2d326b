//! Sessions that lack a stretch of entries which is in no copy: found when the database was
//! rebuilt. They are held, since to go on could do once more what those entries did. A fork at
//! the last entry before the gap is not.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::error::Doing;
use super::journal::GapRow;
use super::missing::Gap;
use super::{Store, StoreError};

const WHAT: &str = "look for gaps in the session";

const GAP: &str = "gap:";

pub(super) fn keep_gap(tx: &Transaction<'_>, gap: &Gap) -> Result<(), StoreError> {
    let row = serde_json::to_string(&GapRow::from(gap.clone())).doing(WHAT)?;
    tx.execute(
        "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
        [format!("{GAP}{}", gap.session), row],
    )
    .doing(WHAT)
    .map(drop)
}

pub(super) fn gap_of(conn: &Connection, session: &str) -> Result<Option<Gap>, StoreError> {
    let row: Option<String> = conn
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")
        .and_then(|mut s| {
            s.query_row([format!("{GAP}{session}")], |row| row.get(0))
                .optional()
        })
        .doing(WHAT)?;
    let row = row.and_then(|row| serde_json::from_str::<GapRow>(&row).ok());
    Ok(row.map(|row| row.of(session)))
}

pub(super) fn sessions_with_gap(conn: &Connection) -> Result<Vec<String>, StoreError> {
    conn.prepare_cached("SELECT substr(name, length(?1) + 1) FROM meta WHERE name GLOB ?1 || '*'")
        .and_then(|mut s| s.query_map([GAP], |row| row.get(0))?.collect())
        .doing(WHAT)
}

impl Store {
    /// The stretch that this session lacks.
    pub fn gap(&self, session: &str) -> Result<Option<Gap>, StoreError> {
        gap_of(&self.conn, session)
    }

    /// Fails when the session lacks entries that are in no copy.
    pub fn has_no_gap(&self, session: &str) -> Result<(), StoreError> {
        match self.gap(session)? {
            None => Ok(()),
            Some(gap) => Err(StoreError::Gap(Box::new(gap))),
        }
    }

    /// Sessions are taken as they are: none is held for a gap any more.
    pub fn forget_gaps(&mut self) -> Result<(), StoreError> {
        let tx = self.write(WHAT)?;
        tx.execute("DELETE FROM meta WHERE name GLOB ?1 || '*'", [GAP])
            .doing(WHAT)?;
        tx.commit().doing(WHAT)
    }
}
