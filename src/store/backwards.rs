//! Entries of a session from the newest to the oldest, for callers that want only a few of them.
//! Only those are read completely.
//!
//! Nothing is verified here: the entries are shown in a list, and no decision depends on them.

use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension};

use super::error::Doing;
use super::row::{BodyReader, count};
use super::{History, StoreError};
use crate::core::entry::{Entry, Seq};

const WHAT: &str = "read the session from its end";

const HEAD: &str = "SELECT head FROM sessions WHERE id = ?1";
const STEP: &str = "SELECT parent, seq, kind FROM entries WHERE id = ?1";
const BODY: &str = "SELECT body FROM entries WHERE id = ?1";

/// An entry that was reached on the way back.
pub struct VisitedEntry<'a> {
    pub seq: Seq,
    /// The kind, as returned by [`Entry::kind`].
    pub kind: &'a str,
    row: i64,
    conn: &'a Connection,
    bodies: &'a mut BodyReader,
}

impl VisitedEntry<'_> {
    /// Reads the whole entry. Returns `None` if it cannot be read.
    pub fn entry(&mut self) -> Option<Entry> {
        let mut body = self.conn.prepare_cached(BODY).ok()?;
        let read = body.query_row([self.row], |row| Ok(self.bodies.read(row.get_ref(0)?)));
        read.ok()?.ok()
    }
}

impl History<'_> {
    /// Calls `each` for at most `at_most` entries of a session, the newest first, until it returns
    /// `Break`. Returns the number of entries that were visited.
    ///
    /// # Errors
    /// The database cannot be read there.
    pub fn backwards(
        &self,
        session: &str,
        at_most: u64,
        mut each: impl FnMut(VisitedEntry<'_>) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        let mut head = self.conn.prepare_cached(HEAD).doing(WHAT)?;
        let head = head.query_row([session], |row| row.get(0)).optional();
        let mut next: Option<i64> = head.doing(WHAT)?;
        let mut step = self.conn.prepare_cached(STEP).doing(WHAT)?;
        let mut bodies = BodyReader::new()?;
        let mut met = 0;
        while let Some(id) = next.filter(|_| met < at_most) {
            let mut rows = step.query([id]).doing(WHAT)?;
            let Some(row) = rows.next().doing(WHAT)? else {
                break;
            };
            met += 1;
            let parent: Option<i64> = row.get(0).doing(WHAT)?;
            let kind = row.get_ref(2).doing(WHAT)?;
            let it = VisitedEntry {
                seq: count(row.get(1).doing(WHAT)?),
                kind: kind.as_str().unwrap_or_default(),
                row: id,
                conn: self.conn,
                bodies: &mut bodies,
            };
            if each(it).is_break() {
                break;
            }
            // A parent always has a smaller id, so a cycle in damaged rows ends here.
            next = parent.filter(|parent| *parent < id);
        }
        Ok(met)
    }
}
