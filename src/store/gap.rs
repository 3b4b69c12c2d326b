//! Sessions with a gap: entries that are missing from every copy, as found when the database was
//! rebuilt. Such a session is locked, since continuing could repeat the effects of the missing
//! entries. A fork at the last entry before the gap is not locked.
//!
//! Counts of entries that were restored from the journal and not reported in their session yet. The
//! command that restores entries may differ from the one that resumes the session.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::conversation::last_summary;
use super::copies::Copies;
use super::error::Doing;
use super::inbox::Message;
use super::machine::now_ms;
use super::missing::Gap;
use super::row::{count, int};
use super::{History, Store, StoreError, cached};
use crate::core::entry::Via;
use crate::journal::state::{GapRow, read_state};

const WHAT: &str = "look for gaps in the session";

const GAP: &str = "gap:";

impl From<Gap> for GapRow {
    fn from(gap: Gap) -> GapRow {
        GapRow {
            first: gap.first,
            last: gap.last,
            behind: gap.behind,
            since_ms: gap.since_ms,
            until_ms: gap.until_ms,
        }
    }
}

impl GapRow {
    pub(crate) fn of(&self, session: &str) -> Gap {
        Gap {
            session: session.to_string(),
            first: self.first,
            last: self.last,
            behind: self.behind,
            since_ms: self.since_ms,
            until_ms: self.until_ms,
            summary: None,
        }
    }
}

pub(super) fn store_gap(tx: &Transaction<'_>, gap: &Gap) -> Result<(), StoreError> {
    let row = serde_json::to_string(&GapRow::from(gap.clone())).doing(WHAT)?;
    cached::set_meta(tx, &format!("{GAP}{}", gap.session), row).doing(WHAT)
}

/// Removes the session's gap if its entries exist up to this length.
pub(super) fn close_gap(
    tx: &Transaction<'_>,
    session: &str,
    length: u64,
) -> Result<(), StoreError> {
    match gap_of(tx, session)? {
        Some(gap) if gap.last < length => tx
            .execute(
                "DELETE FROM meta WHERE name = ?1",
                [format!("{GAP}{session}")],
            )
            .doing(WHAT)
            .map(drop),
        _ => Ok(()),
    }
}

/// Returns the number of entries that were recorded, have no row, and belong to a known session.
pub(super) fn count_missing_entries(conn: &Connection) -> Result<u64, StoreError> {
    let mut entries = 0;
    for session in sessions_with_gap(conn)? {
        let gap = gap_of(conn, &session)?;
        entries += gap.map_or(0, |gap| gap.last + 1 - gap.first + gap.behind);
    }
    Ok(entries)
}

pub(crate) fn gap_of(conn: &Connection, session: &str) -> Result<Option<Gap>, StoreError> {
    let row: Option<String> = cached::meta(conn, &format!("{GAP}{session}"))
        .optional()
        .doing(WHAT)?;
    let row = row.and_then(|row| serde_json::from_str::<GapRow>(&row).ok());
    Ok(row.map(|row| row.of(session)))
}

pub(super) fn sessions_with_gap(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT substr(name, length(?1) + 1) FROM meta WHERE name GLOB ?1 || '*'";
    cached::rows(conn, sql, [GAP], |row| row.get(0)).doing(WHAT)
}

impl Copies {
    /// Writes the gaps into the journals that do not record them yet.
    pub(super) fn write_gaps(&mut self, conn: &Connection) -> Result<(), StoreError> {
        for session in sessions_with_gap(conn)? {
            let gap = gap_of(conn, &session)?;
            let known = read_state(&self.journal.of(&session)).and_then(|(state, _)| state.gap);
            if known.map(|row| row.of(&session)) != gap
                && let Err(error) = self.write_waiting(conn, &session)
            {
                self.fails(&error);
            }
        }
        Ok(())
    }
}

impl History<'_> {
    /// Returns the gap of this session, with the last summary before it.
    pub fn gap(&self, session: &str) -> Result<Option<Gap>, StoreError> {
        let gap = gap_of(self.conn, session)?;
        // An unreadable summary is left out: the gap is reported without it.
        let summary = |gap: &Gap| last_summary(self.conn, &gap.session).ok().flatten();
        Ok(gap.map(|gap| Gap {
            summary: summary(&gap),
            ..gap
        }))
    }

    /// Fails when the session lacks entries that are in no copy.
    pub fn check_no_gap(&self, session: &str) -> Result<(), StoreError> {
        match self.gap(session)? {
            None => Ok(()),
            Some(gap) => Err(StoreError::Gap(Box::new(gap))),
        }
    }
}

impl Store {
    /// Unlocks all sessions with gaps. The next message of each tells the model what is missing.
    pub fn forget_gaps(&mut self) -> Result<(), StoreError> {
        for session in sessions_with_gap(&self.conn)? {
            let Some(gap) = self.history().gap(&session)? else {
                continue;
            };
            let note = Message::new(gap.note(), Via::Note);
            match self.inbox_mut().queue(&session, &note, &[], now_ms()) {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let tx = self.write(WHAT)?;
        tx.execute("DELETE FROM meta WHERE name GLOB ?1 || '*'", [GAP])
            .doing(WHAT)?;
        tx.commit().doing(WHAT)
    }
}

const WHAT_COUNTS: &str = "keep what was put back";

const UNTOLD: &str = "brought:";

/// Returns the name of the row in `meta` with the count of this session.
fn row_name(session: &str) -> String {
    format!("{UNTOLD}{session}")
}

/// Adds to the count of a session, in the transaction that restores the entries.
pub(super) fn add_restored_count(
    tx: &Transaction<'_>,
    session: &str,
    entries: u64,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = value + ?2";
    cached::execute(tx, sql, params![row_name(session), int(entries)])
        .doing(WHAT_COUNTS)
        .map(drop)
}

/// Removes the count: the session was resumed, and the restored entries were reported in it.
pub(super) fn clear_restored_count(tx: &Transaction<'_>, session: &str) -> Result<(), StoreError> {
    cached::execute(tx, "DELETE FROM meta WHERE name = ?1", [row_name(session)])
        .doing(WHAT_COUNTS)
        .map(drop)
}

/// Returns the total of all sessions.
pub(super) fn total_restored_count(conn: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(sum(value), 0) FROM meta WHERE name GLOB ?1 || '*'";
    cached::row(conn, sql, [UNTOLD], |row| row.get(0))
        .doing(WHAT_COUNTS)
        .map(count)
}

impl History<'_> {
    /// Returns the number of entries that any process restored into this session from the journal
    /// since it was last resumed.
    pub fn restored_entry_count(&self, session: &str) -> Result<u64, StoreError> {
        cached::meta(self.conn, &row_name(session))
            .optional()
            .doing(WHAT_COUNTS)
            .map(|entries| entries.map_or(0, count))
    }
}
