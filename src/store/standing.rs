//! How journal and mark stand to the database, for one who only looks: nothing is changed.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::Access;

use super::error::{Doing, io as io_error};
use super::follow::{has_all, highest};
use super::gap::{entries_in_gaps, gap_of, sessions_with_gap};
use super::head::read_head;
use super::mark::Mark;
use super::missing::Gap;
use super::row::count;
use super::untold::all_untold;
use super::{Check, StoreError, now_ms};
use crate::journal::folder::{JournalPlace, sessions};
use crate::journal::read::end;

/// Sessions that are counted for a hint.
pub(super) const AT_MOST: usize = 1_000_000;

/// What a look at journal and mark found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Sessions that have a journal.
    pub sessions: u64,
    /// Entries that the journal has, of …
    pub lines: u64,
    /// … those that the database has, of all sessions. A fork's are its own.
    pub entries: u64,
    /// How long ago the last entry was recorded that a journal lacks, milliseconds; 0: none lacks any.
    pub late_ms: u64,
    /// Sessions whose database has more: the journal follows when they are worked in.
    pub behind: u64,
    /// Entries that only the journal has.
    pub ahead: u64,
    /// Entries that were recorded, as the mark says, beyond those that the database has.
    pub beyond: u64,
    /// Of these, after the journal was looked at, are nowhere: what was recorded before is held.
    pub held: Option<u64>,
    /// What sessions lack that is in no copy. They are held.
    pub gaps: Vec<Gap>,
    /// Entries that were put back from the journal into sessions that nobody took up since.
    pub put_back: u64,
    /// Why the journal cannot be written.
    pub trouble: Option<String>,
}

impl JournalPlace {
    /// Sessions that the journal knows, without a database. At most so many.
    pub fn sessions(&self, at_most: usize) -> Vec<String> {
        sessions(&self.folder, at_most)
    }

    /// An error with what the journal has besides, for its hint.
    pub fn told_of(&self, error: StoreError) -> StoreError {
        error.with_journal(|| self.sessions(AT_MOST).len() as u64)
    }

    /// The database is taken as it is: journal and mark are moved aside, and begin anew. Nothing
    /// is deleted. The caller has made sure that nobody works in the store.
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
        let mark = Mark::open(&self.state_dir, data_dir)?;
        mark.move_aside(now_ms)
            .map_err(|e| io_error("move the mark aside", e))
    }
}

impl Check<'_> {
    /// How journal and mark stand to this database.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn standing(&self, data_dir: &Path, place: &JournalPlace) -> Result<Standing, StoreError> {
        let mut standing = Standing {
            put_back: all_untold(self.conn)?,
            ..Standing::default()
        };
        for session in sessions_with_gap(self.conn)? {
            standing.gaps.extend(gap_of(self.conn, &session)?);
        }
        if Mark::path(&place.state_dir, data_dir).exists()
            && let Ok(mark) = Mark::open(&place.state_dir, data_dir)
        {
            let beyond = mark.said.highest - highest(self.conn)?;
            let beyond = u64::try_from(beyond).unwrap_or(0);
            standing.beyond = beyond.saturating_sub(entries_in_gaps(self.conn)?);
            let store: String = self
                .conn
                .query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| {
                    row.get(0)
                })
                .doing("look at the mark")?;
            // The next start lifts it where all is back.
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
}

impl Check<'_> {
    /// Those of their own, of all sessions.
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
