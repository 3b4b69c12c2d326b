//! The copies of a store besides its database: the journal and the high-water mark.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::Transaction;

use super::StoreError;
use super::ids::new_run_id;
use super::mark::Mark;
use crate::journal::folder::JournalPlace;
use crate::journal::writer::Journal;

/// Before the ID of a session, in `meta`. The value is an ID of the note, new for each one.
pub(super) const APPENDED: &str = "appended:";

/// What keeps a store from being lost with its database.
pub(super) struct Copies {
    pub journal: Journal,
    /// `None` where it could not be opened.
    pub mark: Option<Mark>,
    /// The id of the store.
    pub store: String,
    /// The session whose journal is behind its database.
    pub(super) behind: Option<String>,
    /// Sessions whose journal may lack what was recorded last.
    pub lag: Lag,
    pub(super) trouble: Option<Fault>,
}

/// Why the journal could not be written.
pub(super) struct Fault {
    pub(super) why: String,
    /// It was said: once is enough until it was written again.
    pub(super) is_told: bool,
}

impl Copies {
    pub(super) fn new(
        data_dir: &Path,
        place: &JournalPlace,
        store: String,
        mark: Result<Mark, StoreError>,
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
        self.is_in_trouble(error.to_string());
    }

    pub(super) fn is_in_trouble(&mut self, why: String) {
        self.trouble.get_or_insert(Fault {
            why,
            is_told: false,
        });
    }

    /// What comes after it is another fault, unless this one was not said yet.
    pub(super) fn works(&mut self) {
        self.trouble.take_if(|fault| fault.is_told);
    }
}

/// The sessions that a process appends to, and those that it compared.
pub(super) struct Lag {
    pub(super) noted: HashSet<String>,
    /// Each with the ID of the note that was read under its lock.
    pub(super) compared: Vec<(String, String)>,
    pub(super) data_dir: PathBuf,
    pub(super) older: Older,
}

/// The search for sessions without a journal.
#[derive(Default)]
pub(super) struct Older {
    /// The last row that was looked at. `None`: the search has not begun.
    pub(super) upto: Option<i64>,
    pub(super) seen: HashSet<String>,
    /// A journal could not be written: the next start looks again.
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

    /// Notes that this process appends to the session.
    pub(super) fn note(&self, tx: &Transaction<'_>, session: &str) -> rusqlite::Result<()> {
        if self.noted.contains(session) {
            return Ok(());
        }
        tx.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?
            .execute([&format!("{APPENDED}{session}"), &new_run_id()])?;
        for (session, by) in &self.compared {
            tx.prepare_cached("DELETE FROM meta WHERE name = ?1 AND value = ?2")?
                .execute([&format!("{APPENDED}{session}"), by])?;
        }
        Ok(())
    }

    /// The transaction that noted the session is committed.
    pub(super) fn is_noted(&mut self, session: &str) {
        if self.noted.insert(session.to_string()) {
            self.compared.clear();
        }
    }
}
