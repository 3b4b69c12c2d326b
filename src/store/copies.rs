//! The copies of a store apart from its database: the journal and the high-water mark.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::Transaction;

use super::high_water_mark::HighWaterMark;
use super::ids::new_run_id;
use super::{StoreError, cached};
use crate::journal::folder::JournalPlace;
use crate::journal::writer::Journal;

/// Prefix of the names of rows in `meta`: the ID of a session follows. The value is the ID of the
/// note, new for each note.
pub(super) const APPENDED: &str = "appended:";

/// The copies that survive the loss of the database.
pub(super) struct Copies {
    pub journal: Journal,
    /// `None` where it could not be opened.
    pub mark: Option<HighWaterMark>,
    /// The ID of the store.
    pub store: String,
    /// The session whose journal lacks entries that its database has.
    pub(super) behind: Option<String>,
    /// Sessions whose journal may lack the last entries.
    pub lag: Lag,
    pub(super) trouble: Option<Fault>,
}

/// The reason why the journal could not be written.
pub(super) struct Fault {
    pub(super) why: String,
    /// Whether the user has seen it: one report is enough until the journal could be written again.
    pub(super) is_told: bool,
}

impl Copies {
    pub(super) fn new(
        data_dir: &Path,
        place: &JournalPlace,
        store: String,
        mark: Result<HighWaterMark, StoreError>,
    ) -> Copies {
        let mut copies = Copies {
            journal: Journal::new(place),
            mark: None,
            store,
            behind: None,
            lag: Lag::new(data_dir),
            trouble: None,
        };
        match mark {
            Ok(mark) => copies.mark = Some(mark),
            Err(error) => copies.fails(&error),
        }
        copies
    }

    pub(super) fn fails(&mut self, error: &StoreError) {
        tracing::warn!(%error, "the journal is not written");
        self.note_journal_failure(error.to_string());
    }

    pub(super) fn note_journal_failure(&mut self, why: String) {
        self.trouble.get_or_insert(Fault {
            why,
            is_told: false,
        });
    }

    /// Notes that writing works again: a later failure is a new fault. A fault that was not
    /// reported yet is left to be reported.
    pub(super) fn works(&mut self) {
        self.trouble.take_if(|fault| fault.is_told);
    }
}

/// The sessions that this process appends to, and those whose journals it compared.
pub(super) struct Lag {
    pub(super) noted: HashSet<String>,
    /// Session IDs, each with the ID of the note that was read under the session's lock.
    pub(super) compared: Vec<(String, String)>,
    pub(super) data_dir: PathBuf,
    pub(super) older: Older,
}

/// The progress of the search for sessions without a journal.
#[derive(Default)]
pub(super) struct Older {
    /// The last row that was looked at. `None`: the search has not started.
    pub(super) upto: Option<i64>,
    pub(super) seen: HashSet<String>,
    /// Whether a journal could not be written: the next start looks again.
    pub(super) has_failed: bool,
    pub(super) is_complete: bool,
}

impl Lag {
    pub(super) fn new(data_dir: &Path) -> Lag {
        Lag {
            noted: HashSet::new(),
            compared: Vec::new(),
            data_dir: data_dir.to_path_buf(),
            older: Older::default(),
        }
    }

    /// Records a note that this process appends to the session.
    pub(super) fn note(&self, tx: &Transaction<'_>, session: &str) -> rusqlite::Result<()> {
        if self.noted.contains(session) {
            return Ok(());
        }
        cached::set_meta(tx, &format!("{APPENDED}{session}"), new_run_id())?;
        for (session, by) in &self.compared {
            let sql = "DELETE FROM meta WHERE name = ?1 AND value = ?2";
            cached::execute(tx, sql, [&format!("{APPENDED}{session}"), by])?;
        }
        Ok(())
    }

    /// Marks the session as noted, after the transaction was committed.
    pub(super) fn is_noted(&mut self, session: &str) {
        if self.noted.insert(session.to_string()) {
            self.compared.clear();
        }
    }
}
