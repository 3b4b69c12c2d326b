//! Journals that may lack the last transaction of their session: the process that recorded it was
//! killed between the commit and the write of its lines.
//!
//! The first append of a process to a session leaves a row in `meta`, in its transaction. Each
//! process that opens the store for writing compares the journals of these sessions with their
//! rows. It writes the missing lines before its own first commit. Its first append removes the rows
//! of the sessions that it compared, so nothing here needs a sync.
//!
//! A session that was recorded without a journal gets one when the process is idle. Its rows are
//! found by their ids, and `journals_upto` in `meta` is the highest id that was looked at.
//!
//! Invariant: a row is removed only if it is still the note that was read under the lock of the
//! session, when the journal was compared.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::chain::read_head;
use super::copies::{APPENDED, Copies};
use super::database::begin;
use super::error::Doing;
use super::lock::SessionLock;
use super::tips::{Comparison, compare};
use super::{Store, StoreError, cached};

const WHAT: &str = "compare the journal with the database";

/// Prefix of a name in `meta` that a hash of the journal folder follows. The value is the row up to
/// which sessions were searched for journals that are missing there.
pub(crate) const JOURNALS_UPTO: &str = "journals_upto:";

/// Number of rows that one step looks at.
const ROWS_IN_A_STEP: i64 = 500;

/// Number of rows below which the progress is not stored: looking at them again costs less than a
/// write.
const ROWS_WORTH_NOTING: i64 = 1_000;

impl Store {
    /// Begins a transaction that appends to this session.
    pub(super) fn write_entries(
        &mut self,
        session: &str,
        what: &'static str,
    ) -> Result<Transaction<'_>, StoreError> {
        let tx = begin(&self.conn, &self.in_use, what)?;
        if let Some(copies) = &self.copies {
            copies.lag.note(&tx, session).doing(what)?;
        }
        Ok(tx)
    }

    /// See [`Copies::journal_older`].
    pub(super) fn journal_older(&mut self) -> Result<bool, StoreError> {
        match &mut self.copies {
            Some(copies) => copies.journal_older(&self.conn),
            None => Ok(false),
        }
    }

    /// Locks a session that no process has open, restores the entries that only its journal has,
    /// and calls `act`.
    ///
    /// # Errors
    /// `Held`: a process has it open. Those of [`Store::restore_from_journal`].
    pub fn with_closed_session<T>(
        &mut self,
        data_dir: &Path,
        session: &str,
        act: impl FnOnce(&mut Store) -> T,
    ) -> Result<T, StoreError> {
        let _lock = SessionLock::take(data_dir, session)?;
        let done = self.restore_from_journal(session).map(|()| act(self));
        if let Some(copies) = &mut self.copies {
            copies.leave(session);
        }
        done
    }
}

impl Copies {
    /// Writes the lines that a killed process did not write, for all sessions that are not open.
    ///
    /// # Errors
    /// The rows of `meta` cannot be read. A failure of one session is logged, and is not an error.
    pub(super) fn fill_lag(
        &mut self,
        conn: &Connection,
        data_dir: &Path,
    ) -> Result<(), StoreError> {
        for session in appended(conn)? {
            // The process that has the session open writes its journal.
            let Some(_held) = SessionLock::lock_unsigned(data_dir, &session) else {
                continue;
            };
            // Read again under the lock: another process may have worked in the session.
            let Some(by) = appended_by(conn, &session)? else {
                continue;
            };
            match self.fill(conn, &session) {
                Ok(false) => {}
                Ok(true) => self.lag.compared.push((session, by)),
                Err(error) => tracing::warn!(%session, %error, "the journal is not compared"),
            }
        }
        Ok(())
    }

    /// Returns whether the journal has every row now. If not, the next start compares it again.
    fn fill(&mut self, conn: &Connection, session: &str) -> Result<bool, StoreError> {
        match compared(conn, &self.journal.of(session), session)? {
            Comparison::Same => return Ok(true),
            // They are restored when the session is opened.
            Comparison::Ahead(_) | Comparison::Parted(..) => return Ok(false),
            Comparison::Behind => {}
        }
        let filled = self.write_missing(conn, session);
        self.leave(session);
        filled.map(|()| true)
    }

    /// Writes a part of the journal of one session that lacks one, or lines of it. Returns whether
    /// there is more to do.
    pub(super) fn journal_older(&mut self, conn: &Connection) -> Result<bool, StoreError> {
        let (data_dir, name) = (self.lag.data_dir.clone(), upto_name(&self.journal.folder));
        let older = &mut self.lag.older;
        if older.is_complete {
            return Ok(false);
        }
        let noted = journals_upto(conn, &name)?;
        let rows = sessions_after(conn, older.upto.unwrap_or(noted))?;
        let Some((last, _)) = rows.last() else {
            older.is_complete = true;
            let upto = older.upto.unwrap_or(noted);
            if !older.has_failed && upto - noted >= ROWS_WORTH_NOTING {
                note_journals_upto(conn, &name, upto)?;
            }
            return Ok(false);
        };
        let last = *last;
        let next = rows.into_iter().find(|(_, id)| !older.seen.contains(id));
        let Some((_, session)) = next else {
            older.upto = Some(last);
            return Ok(true);
        };
        let written = self.journal_part(conn, &data_dir, &session);
        if let Err(error) = &written {
            tracing::warn!(%session, %error, "the session gets no journal");
            // Damage is permanent, so another attempt would not help.
            self.lag.older.has_failed |= !error.is_damage();
        }
        if !matches!(written, Ok(true)) {
            self.lag.older.seen.insert(session);
        }
        Ok(true)
    }

    /// Writes the next lines that the journal lacks. Returns whether it lacks more.
    fn journal_part(
        &mut self,
        conn: &Connection,
        data_dir: &Path,
        session: &str,
    ) -> Result<bool, StoreError> {
        // The process that has the session open writes its journal.
        let Some(_held) = SessionLock::lock_unsigned(data_dir, session) else {
            return Ok(false);
        };
        let written = match compared(conn, &self.journal.of(session), session) {
            Ok(Comparison::Behind) => self.catch_up_with(conn, session),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        self.leave(session);
        written
    }

    /// Closes the journal of a session whose lock is released next: only the holder of the lock
    /// writes in its folder.
    pub(super) fn leave(&mut self, session: &str) {
        self.behind.take_if(|behind| behind == session);
        self.journal.leave(session);
        self.lag.noted.remove(session);
    }
}

/// Compares the journal in `folder` with the rows of its session.
fn compared(conn: &Connection, folder: &Path, session: &str) -> Result<Comparison, StoreError> {
    match read_head(conn, session) {
        Ok(head) => compare(conn, folder, &head),
        // The database has no row that could be written.
        Err(StoreError::NotFound { .. }) => Ok(Comparison::Same),
        Err(error) => Err(error),
    }
}

/// Returns the name of the row of `meta` for this journal folder. Another folder has another row,
/// so its search starts from the beginning.
fn upto_name(folder: &Path) -> String {
    let hash = blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex();
    format!("{JOURNALS_UPTO}{}", &hash[..16])
}

fn journals_upto(conn: &Connection, name: &str) -> Result<i64, StoreError> {
    cached::meta(conn, name)
        .optional()
        .doing(WHAT)
        .map(|upto| upto.unwrap_or(0))
}

fn note_journals_upto(conn: &Connection, name: &str, upto: i64) -> Result<(), StoreError> {
    cached::set_meta(conn, name, upto).doing(WHAT)
}

/// Returns the sessions of the rows after this one, each with its row.
fn sessions_after(conn: &Connection, row: i64) -> Result<Vec<(i64, String)>, StoreError> {
    let sql = "SELECT e.id, s.id FROM entries e JOIN sessions s ON s.key = e.session
       WHERE e.id > ?1 ORDER BY e.id LIMIT ?2";
    cached::rows(conn, sql, [row, ROWS_IN_A_STEP], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .doing(WHAT)
}

/// Returns the sessions that a process appended to since their journals were compared.
fn appended(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT substr(name, length(?1) + 1) FROM meta WHERE name GLOB ?1 || '*'";
    cached::rows(conn, sql, [APPENDED], |row| row.get(0)).doing(WHAT)
}

/// Returns the ID of the newest note of the session.
fn appended_by(conn: &Connection, session: &str) -> Result<Option<String>, StoreError> {
    cached::meta(conn, &format!("{APPENDED}{session}"))
        .optional()
        .doing(WHAT)
}
