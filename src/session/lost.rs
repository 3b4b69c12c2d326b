//! Sessions that were recorded in a data folder and that its database does not know: the
//! database was lost, emptied, or replaced by an older copy.
//!
//! What is believed, and why:
//! - **A session's lock that says `recorded`.** The word is written after the transaction that
//!   made the session was synced, and the lock lies beside the database. Nothing removes a
//!   session from the database: what is in the trash is still known. A lock without the word
//!   proves nothing: it is made before the session is, by a start that may fail then, and
//!   older versions never write the word.
//! - **A run folder.** A command is prepared only for a session that is recorded, and its folder
//!   names it.
//!
//! Not believed are the logs: they lie in another folder, which may have served several
//! databases, and they are removed with time. They are only named.

use std::path::Path;

use super::{ago, now_ms, short_id};
use crate::command::Runs;
use crate::store::{SessionLock, Store, StoreError, made_at_ms};

/// At a start, which must not wait, so many names of locks are looked at, and so many locks and
/// runs are read: some milliseconds each.
const AT_START: usize = 5_000;
const READ_AT_START: usize = 500;

/// Names that are looked at when a person asks.
const AT_MOST: usize = 1_000_000;

/// So many are named.
const NAMED: usize = 3;

/// Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The newest first.
    ids: Vec<String>,
}

impl Lost {
    /// For a start: only sessions that are newer than all that the database knows, which is
    /// what a lost, emptied or older one lacks. Most often one look at one folder says that
    /// there are none. Once a new session was made, only [`Lost::all`] finds them.
    pub fn newer(data_dir: &Path, runs: &Runs, store: &Store) -> Result<Option<Lost>, StoreError> {
        let newest = store.last_made()?;
        if !SessionLock::may_be_newer(data_dir, newest.as_deref()) {
            return Ok(None);
        }
        let is_newer = |id: &String| newest.as_ref().is_none_or(|newest| id > newest);
        let mut ids = SessionLock::sessions(data_dir, AT_START);
        ids.retain(is_newer);
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.truncate(READ_AT_START);
        ids.retain(|id| SessionLock::was_recorded(data_dir, id));
        let of_runs = runs.sessions(READ_AT_START).into_iter();
        ids.extend(of_runs.filter(is_newer));
        Lost::of(ids, store)
    }

    /// All of them.
    pub fn all(data_dir: &Path, runs: &Runs, store: &Store) -> Result<Option<Lost>, StoreError> {
        // Asked first: reading a lock's file takes longer.
        let mut ids = Vec::new();
        for id in SessionLock::sessions(data_dir, AT_MOST) {
            if !store.knows(&id)? && SessionLock::was_recorded(data_dir, &id) {
                ids.push(id);
            }
        }
        ids.extend(runs.sessions(AT_MOST));
        Lost::of(ids, store)
    }

    /// Where there is no database at all: its file is made before the first lock.
    pub fn without_database(data_dir: &Path, runs: &Runs) -> Option<Lost> {
        let mut ids = SessionLock::sessions(data_dir, AT_MOST);
        ids.extend(runs.sessions(AT_MOST));
        Lost::sorted(ids)
    }

    fn of(ids: Vec<String>, store: &Store) -> Result<Option<Lost>, StoreError> {
        let mut unknown = Vec::new();
        for id in ids {
            // Asked once more: another process may have made it since.
            if !store.knows(&id)? {
                unknown.push(id);
            }
        }
        Ok(Lost::sorted(unknown))
    }

    fn sorted(mut ids: Vec<String>) -> Option<Lost> {
        // The id begins with the time.
        ids.retain(|id| made_at_ms(id).is_some());
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        (!ids.is_empty()).then_some(Lost { ids })
    }

    /// `2 sessions that were recorded here are not in the database: 01a1…, begun 3 min ago, …`
    pub fn line(&self) -> String {
        let mut named: Vec<String> = self.ids.iter().take(NAMED).map(|id| begun(id)).collect();
        if let Some(more @ 1..) = self.ids.len().checked_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        let sessions = match self.ids.len() {
            1 => "1 session that was recorded here is".to_string(),
            READ_AT_START => {
                format!("{READ_AT_START} sessions or more that were recorded here are")
            }
            n => format!("{n} sessions that were recorded here are"),
        };
        format!(
            "{sessions} not in the database: {}; it was lost, emptied, or replaced by an older copy",
            named.join("; ")
        )
    }

    /// Nothing that a loss leaves is ever removed by rewake.
    pub fn hint(data_dir: &Path, state_dir: &Path) -> String {
        format!(
            "if there is a newer rewake.db, put it back, with what begins with that name, before \
             you go on; nothing is deleted: what is left of them is in {}, {} and {}",
            data_dir.join("runs").display(),
            data_dir.join("locks").display(),
            state_dir.join("log").display()
        )
    }
}

fn begun(id: &str) -> String {
    let age_ms = (now_ms() - made_at_ms(id).unwrap_or(0)).max(0);
    format!("{}, begun {} ago", short_id(id), ago(age_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::new_id;

    #[test]
    fn it_says_how_many_and_names_the_newest() {
        let ids: Vec<String> = (0..5).map(|_| new_id()).collect();
        let one = Lost::sorted(vec![ids[0].clone(), ids[0].clone(), "notes".into()]);
        let line = one.unwrap().line();
        let said = format!(
            "1 session that was recorded here is not in the database: {}, begun 0 s ago; it was",
            short_id(&ids[0])
        );
        assert!(line.starts_with(&said), "{line}");
        let line = Lost::sorted(ids.clone()).unwrap().line();
        let start = format!(
            "5 sessions that were recorded here are not in the database: {}, begun",
            short_id(&ids[4])
        );
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains("; 2 more; it was lost"), "{line}");
        assert_eq!(Lost::sorted(vec!["notes".into()]), None);
    }
}
