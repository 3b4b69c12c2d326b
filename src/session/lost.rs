//! Sessions that were recorded in a data folder and that its database does not know: the
//! database was lost, emptied, or replaced by an older copy.
//!
//! What is believed, and why:
//! - **A session's lock that says `recorded`.** The word is written after the transaction that
//!   made the session was synced, and the lock lies beside the database. What is in the trash is
//!   still known, and what was purged has a tombstone. A lock without the word
//!   proves nothing: it is made before the session is, by a start that may fail then, and
//!   older versions never write the word.
//! - **A run folder.** A command is prepared only for a session that is recorded, and its folder
//!   names it.
//!
//! - **A line of a log** that says that a session of this data folder was opened: the logs lie
//!   in another folder, so they are left when all of the data folder is gone. One folder of
//!   logs may serve several data folders, so each line names its own; a line of an older version
//!   names none, and is not believed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{ago, now_ms, short_id};
use crate::command::Runs;
use crate::store::{SessionLock, Store, StoreError, is_purged, made_at_ms};

/// At a start, which must not wait, so many names of locks are looked at, and so many locks and
/// runs are read: some milliseconds each.
const AT_START: usize = 5_000;
const READ_AT_START: usize = 500;

/// Of the logs, at a start that finds no session at all, the newest so many bytes are read.
const LOG_BYTES_AT_START: u64 = 4 << 20;
const LOG_BYTES_AT_MOST: u64 = 256 << 20;

/// Names that are looked at when a person asks.
const AT_MOST: usize = 1_000_000;

/// So many are named.
const NAMED: usize = 3;

/// So many have a row of their own.
const ROWS: usize = 200;

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
    pub fn newer(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
        store: &Store,
    ) -> Result<Option<Lost>, StoreError> {
        let newest = store.last_made()?;
        if newest.is_none() {
            let mut ids = logged(state_dir, data_dir, LOG_BYTES_AT_START);
            ids.extend(recorded_if(data_dir, READ_AT_START, |_| true));
            ids.extend(runs.sessions(READ_AT_START));
            return Lost::of(data_dir, ids, store);
        }
        if !SessionLock::may_be_newer(data_dir, newest.as_deref()) {
            return Ok(None);
        }
        let is_newer = |id: &String| newest.as_ref().is_none_or(|newest| id > newest);
        let mut ids = recorded_if(data_dir, READ_AT_START, is_newer);
        let of_runs = runs.sessions(READ_AT_START).into_iter();
        ids.extend(of_runs.filter(is_newer));
        Lost::of(data_dir, ids, store)
    }

    /// All of them. `journals`: sessions that the journal has.
    pub fn all(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
        journals: &[String],
        store: &Store,
    ) -> Result<Option<Lost>, StoreError> {
        // Asked first: reading a lock's file takes longer.
        let mut ids = Vec::new();
        for id in SessionLock::sessions(data_dir, AT_MOST) {
            if !store.knows(&id)? && SessionLock::was_recorded(data_dir, &id) {
                ids.push(id);
            }
        }
        ids.extend(runs.sessions(AT_MOST));
        ids.extend_from_slice(journals);
        ids.extend(logged(state_dir, data_dir, LOG_BYTES_AT_MOST));
        Lost::of(data_dir, ids, store)
    }

    /// Where there is no database at all: its file is made before the first lock.
    pub fn without_database(data_dir: &Path, state_dir: &Path, runs: &Runs) -> Option<Lost> {
        let mut ids = SessionLock::sessions(data_dir, AT_MOST);
        ids.extend(runs.sessions(AT_MOST));
        ids.extend(logged(state_dir, data_dir, LOG_BYTES_AT_MOST));
        ids.retain(|id| !is_purged(data_dir, id));
        Lost::sorted(ids)
    }

    fn of(data_dir: &Path, ids: Vec<String>, store: &Store) -> Result<Option<Lost>, StoreError> {
        let mut unknown = Vec::new();
        for id in ids {
            // Asked once more: another process may have made it since.
            if !store.knows(&id)? && !is_purged(data_dir, &id) {
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

    /// One for each of them, the newest first: since when, and what still knows it.
    pub fn rows(&self, data_dir: &Path, runs: &Runs, journals: &[String]) -> Vec<String> {
        let of_runs = runs.sessions(AT_MOST);
        let row = |id: &String| {
            let known = [
                (SessionLock::was_recorded(data_dir, id), "its lock"),
                (of_runs.contains(id), "a run folder"),
                (journals.contains(id), "the journal"),
            ];
            let mut known: Vec<&str> = known
                .iter()
                .filter_map(|(is, what)| is.then_some(*what))
                .collect();
            if known.is_empty() {
                known.push("a log");
            }
            format!(
                "session {id}, started {}: {} has it",
                at(id),
                known.join(", ")
            )
        };
        let mut rows: Vec<String> = self.ids.iter().take(ROWS).map(row).collect();
        if let Some(more @ 1..) = self.ids.len().checked_sub(ROWS) {
            rows.push(format!("{more} more"));
        }
        rows
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

/// The newest sessions of which this holds and whose lock says that they were recorded.
fn recorded_if(data_dir: &Path, at_most: usize, is: impl Fn(&String) -> bool) -> Vec<String> {
    let mut ids = SessionLock::sessions(data_dir, AT_START);
    ids.retain(is);
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.truncate(at_most);
    ids.retain(|id| SessionLock::was_recorded(data_dir, id));
    ids
}

/// The sessions of this data folder that the logs say were opened: the newest logs first, until
/// so many bytes were read. What cannot be read says nothing.
fn logged(state_dir: &Path, data_dir: &Path, mut bytes: u64) -> Vec<String> {
    let entries = std::fs::read_dir(state_dir.join("log"));
    let names = entries.into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    // The names sort as their days do.
    logs.sort_unstable_by(|a, b| b.cmp(a));
    let data = format!(" data={data_dir:?}");
    let mut ids = Vec::new();
    for log in logs {
        let is_file = log.symlink_metadata().is_ok_and(|m| m.is_file());
        let Some(file) = is_file.then(|| File::open(&log).ok()).flatten() else {
            continue;
        };
        let mut lines = BufReader::new(file.take(bytes));
        let mut line = Vec::new();
        while let Ok(read @ 1..) = lines.read_until(b'\n', &mut line) {
            bytes = bytes.saturating_sub(read as u64);
            ids.extend(opened(&String::from_utf8_lossy(&line), &data));
            line.clear();
        }
    }
    ids
}

/// The session of a line such as `… opened session="01a1…" entries=3 data="/home/…"`.
fn opened(line: &str, data: &str) -> Option<String> {
    let line = line.trim_end().strip_suffix(data)?;
    let (_, fields) = line.split_once(" opened session=\"")?;
    let (id, _) = fields.split_once('"')?;
    Some(id.to_string())
}

fn begun(id: &str) -> String {
    format!("{}, started {}", short_id(id), at(id))
}

fn at(id: &str) -> String {
    let age_ms = (now_ms() - made_at_ms(id).unwrap_or(0)).max(0);
    format!("{} ago", ago(age_ms))
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
            "1 session that was recorded here is not in the database: {}, started 0 s ago; it was",
            short_id(&ids[0])
        );
        assert!(line.starts_with(&said), "{line}");
        let line = Lost::sorted(ids.clone()).unwrap().line();
        let start = format!(
            "5 sessions that were recorded here are not in the database: {}, started",
            short_id(&ids[4])
        );
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains("; 2 more; it was lost"), "{line}");
        assert_eq!(Lost::sorted(vec!["notes".into()]), None);
    }
}
