//! Sessions that lack a stretch of entries which is in no copy: found when the database was
//! rebuilt. They are held, since to go on could do once more what those entries did. A fork at
//! the last entry before the gap is not.

use rusqlite::{OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

use super::error::Doing;
use super::missing::Gap;
use super::{Store, StoreError};
use crate::core::entry::Seq;

const WHAT: &str = "look for gaps in the session";

const GAP: &str = "gap:";

/// As it lies in the row of `meta`.
#[derive(Serialize, Deserialize)]
struct Row {
    first: Seq,
    last: Seq,
    #[serde(default)]
    behind: u64,
}

pub(super) fn keep_gap(tx: &Transaction<'_>, gap: &Gap) -> Result<(), StoreError> {
    let row = Row {
        first: gap.first,
        last: gap.last,
        behind: gap.behind,
    };
    let row = serde_json::to_string(&row).doing(WHAT)?;
    tx.execute(
        "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
        [format!("{GAP}{}", gap.session), row],
    )
    .doing(WHAT)
    .map(drop)
}

impl Store {
    /// The stretch that this session lacks.
    pub fn gap(&self, session: &str) -> Result<Option<Gap>, StoreError> {
        let row: Option<String> = self
            .conn
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")
            .and_then(|mut s| {
                s.query_row([format!("{GAP}{session}")], |row| row.get(0))
                    .optional()
            })
            .doing(WHAT)?;
        let row = row.and_then(|row| serde_json::from_str::<Row>(&row).ok());
        Ok(row.map(|row| Gap {
            session: session.to_string(),
            first: row.first,
            last: row.last,
            behind: row.behind,
        }))
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
