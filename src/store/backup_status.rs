//! Comparison of the journal and the high-water mark with the database, for a report. Nothing is
//! changed.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::Access;

use super::chain::read_head;
use super::error::{Doing, io as io_error};
use super::gap::{count_missing_entries, gap_of, sessions_with_gap, total_restored_count};
use super::high_water_mark::HighWaterMark;
use super::journal_writer::{has_all, highest};
use super::missing::Gap;
use super::row::count;
use super::{Check, StoreError, cached, now_ms};
use crate::journal::folder::{JournalPlace, sessions};
use crate::journal::read::end;

/// Maximum number of sessions that are counted for a hint.
pub(super) const AT_MOST: usize = 1_000_000;

/// The result of comparing journal and mark with the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupStatus {
    /// Number of sessions that have a journal.
    pub sessions: u64,
    /// Number of entries that the journals have.
    pub lines: u64,
    /// Number of entries that the database has, of all sessions. Entries that forks share count
    /// once.
    pub entries: u64,
    /// Age of the last entry that a journal lacks, in milliseconds; 0 if no journal lacks any.
    pub late_ms: u64,
    /// Number of sessions of which the database has more entries: the journal catches up when they
    /// are used.
    pub behind: u64,
    /// Number of entries that only the journal has.
    pub ahead: u64,
    /// Number of entries that were recorded, according to the mark, above the last one of the
    /// database.
    pub beyond: u64,
    /// Number of these that the journal lacks too: sessions from before are locked.
    pub held: Option<u64>,
    /// The gaps of sessions: entries that are missing from every copy. These sessions are locked.
    pub gaps: Vec<Gap>,
    /// Number of entries that were restored from the journal into sessions that were not resumed
    /// since.
    pub put_back: u64,
    /// The reason why the journal cannot be written.
    pub trouble: Option<String>,
}

impl JournalPlace {
    /// Returns at most `at_most` sessions that have a journal, without a database.
    pub fn sessions(&self, at_most: usize) -> Vec<String> {
        sessions(&self.folder, at_most)
    }

    /// Adds to an error the number of sessions in the journal, for its hint.
    pub fn with_journal_count(&self, error: StoreError) -> StoreError {
        error.with_journal(|| self.sessions(AT_MOST).len() as u64)
    }

    /// Accepts the database as it is: moves journal and mark aside, so that both start again.
    /// Nothing is deleted. The caller has made sure that no process uses the store.
    ///
    /// # Errors
    /// `Io`: one of them could not be moved.
    pub fn move_aside(&self, data_dir: &Path) -> Result<(), StoreError> {
        let now_ms = now_ms();
        if self.folder.is_dir() {
            let mut name = self.folder.clone().into_os_string();
            name.push(format!(".old-{now_ms}"));
            let fail = |e| io_error(format!("move {} aside", self.folder.display()), e);
            fs::rename(&self.folder, name).map_err(fail)?;
        }
        let mark = HighWaterMark::open(&self.state_dir, data_dir)?;
        mark.move_aside(now_ms)
            .map_err(|e| io_error("move the mark aside", e))
    }
}

impl Check<'_> {
    /// Compares the journal and the mark with this database.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn standing(
        &self,
        data_dir: &Path,
        place: &JournalPlace,
    ) -> Result<BackupStatus, StoreError> {
        let mut standing = BackupStatus {
            put_back: total_restored_count(self.conn)?,
            ..BackupStatus::default()
        };
        for session in sessions_with_gap(self.conn)? {
            standing.gaps.extend(gap_of(self.conn, &session)?);
        }
        if HighWaterMark::path(&place.state_dir, data_dir).exists()
            && let Ok(mark) = HighWaterMark::open(&place.state_dir, data_dir)
        {
            let beyond = mark.said.highest - highest(self.conn)?;
            let beyond = u64::try_from(beyond).unwrap_or(0);
            standing.beyond = beyond.saturating_sub(count_missing_entries(self.conn)?);
            let store: String = cached::meta(self.conn, "store").doing("look at the mark")?;
            // If everything was restored, the next start unlocks the sessions.
            if !has_all(self.conn, &store, &mark.said)? {
                standing.held = mark.said.held.map(|(missing, _)| missing);
            }
        }
        match can_write(&place.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                standing.trouble = Some(format!("{}: {error}", place.folder.display()));
            }
            _ => {}
        }
        standing.entries = self.entries_of_sessions()?;
        for session in place.sessions(usize::MAX) {
            let end = match end(&place.folder.join(&session)) {
                Ok(Some((end, _))) => end,
                Ok(None) => continue,
                Err(error) => {
                    standing.trouble = Some(format!("session {session}: {error}"));
                    continue;
                }
            };
            standing.sessions += 1;
            let shared = end.header.forked.as_ref().map_or(0, |f| f.seq + 1);
            let length = match read_head(self.conn, &session) {
                Ok(head) => head.length,
                Err(StoreError::NotFound { .. }) => shared,
                Err(error) => return Err(error),
            };
            standing.lines += end.next.saturating_sub(shared);
            if end.next < length {
                let late = now_ms() - self.history().find(&session)?.updated_ms;
                standing.late_ms = standing.late_ms.max(u64::try_from(late).unwrap_or(0));
            }
            if !standing.gaps.iter().any(|gap| gap.session == session) {
                standing.ahead += end.next.saturating_sub(length);
            }
            standing.behind += u64::from(end.next < length);
        }
        Ok(standing)
    }

    /// Returns the number of own entries of all sessions.
    fn entries_of_sessions(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(length - coalesce(forked_seq + 1, 0)), 0) FROM sessions";
        self.conn
            .query_row(sql, [], |row| row.get(0))
            .doing("count the entries")
            .map(count)
    }
}

fn can_write(folder: &Path) -> io::Result<()> {
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(
        folder,
        Access::WRITE_OK | Access::EXEC_OK,
    )?)
}
