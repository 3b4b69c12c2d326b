//! Sessions that were recorded in a data folder and are missing in its database: the database was
//! lost, emptied, or replaced by an older copy.
//!
//! The evidence that counts, and why:
//! - **A session's lock that says `recorded`.** The word is written after the transaction that
//!   created the session was synced, and the lock is beside the database. A session in the trash is
//!   still known, and a purged one has a tombstone. A lock without the word proves nothing. A start
//!   makes it before it creates the session and may fail in between, and older versions never write
//!   the word.
//! - **A run folder.** A command is prepared only for a session that is recorded, and its folder
//!   names it.
//! - **A line of a log** that says that a session of this data folder was opened. The logs are in
//!   another folder, so they remain when the whole data folder is gone. One folder of logs may
//!   serve several data folders, so each line names its own. A line of an older version names
//!   none and does not count.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{ago, now_ms, short_id};
use crate::command::Runs;
use crate::store::{SessionLock, Store, StoreError, is_purged, made_at_ms};

/// Maximum number of lock names that a start lists, and of locks and runs that it reads. A start
/// must not wait, and this takes some milliseconds each.
const AT_START: usize = 5_000;
const READ_AT_START: usize = 500;

/// Number of bytes that a start reads from the newest logs if it finds no session at all. The
/// second one is for a check that a person requested.
const LOG_BYTES_AT_START: u64 = 4 << 20;
const LOG_BYTES_AT_MOST: u64 = 256 << 20;

/// Maximum number of names for a check that a person requested.
const AT_MOST: usize = 1_000_000;

/// Maximum number of sessions that a warning names.
const NAMED: usize = 3;

/// Maximum number of rows in a report.
const ROWS: usize = 200;

/// The lost sessions. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSessions {
    /// IDs, the newest first.
    ids: Vec<String>,
}

impl MissingSessions {
    /// Returns the lost sessions that are newer than all in the database, for a start. Those are
    /// the ones that a lost, emptied or older database lacks. In most cases, listing one folder
    /// shows that there are none. After a new session was created, only [`MissingSessions::all`] finds the
    /// lost ones.
    pub fn newer(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
        store: &Store,
    ) -> Result<Option<MissingSessions>, StoreError> {
        let newest = store.history().newest_session_id()?;
        if newest.is_none() {
            let mut ids = logged(state_dir, data_dir, LOG_BYTES_AT_START);
            ids.extend(recorded_if(data_dir, READ_AT_START, |_| true));
            ids.extend(runs.sessions(READ_AT_START));
            return MissingSessions::of(data_dir, ids, store);
        }
        if !SessionLock::may_be_newer(data_dir, newest.as_deref()) {
            return Ok(None);
        }
        let is_newer = |id: &String| newest.as_ref().is_none_or(|newest| id > newest);
        let mut ids = recorded_if(data_dir, READ_AT_START, is_newer);
        let of_runs = runs.sessions(READ_AT_START).into_iter();
        ids.extend(of_runs.filter(is_newer));
        MissingSessions::of(data_dir, ids, store)
    }

    /// Returns all lost sessions. `journals`: the sessions with a journal.
    pub fn all(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
        journals: &[String],
        store: &Store,
    ) -> Result<Option<MissingSessions>, StoreError> {
        // The database is checked first, since reading a lock's file takes longer.
        let mut ids = Vec::new();
        for id in SessionLock::sessions(data_dir, AT_MOST) {
            if !store.history().knows(&id)? && SessionLock::was_recorded(data_dir, &id) {
                ids.push(id);
            }
        }
        ids.extend(runs.sessions(AT_MOST));
        ids.extend_from_slice(journals);
        ids.extend(logged(state_dir, data_dir, LOG_BYTES_AT_MOST));
        MissingSessions::of(data_dir, ids, store)
    }

    /// Returns the lost sessions of a folder without a database. Its file would be made before the
    /// first lock.
    pub fn without_database(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
    ) -> Option<MissingSessions> {
        let mut ids = SessionLock::sessions(data_dir, AT_MOST);
        ids.extend(runs.sessions(AT_MOST));
        ids.extend(logged(state_dir, data_dir, LOG_BYTES_AT_MOST));
        ids.retain(|id| !is_purged(data_dir, id));
        MissingSessions::sorted(ids)
    }

    fn of(
        data_dir: &Path,
        ids: Vec<String>,
        store: &Store,
    ) -> Result<Option<MissingSessions>, StoreError> {
        let mut unknown = Vec::new();
        for id in ids {
            // Checked again: another process may have created it meanwhile.
            if !store.history().knows(&id)? && !is_purged(data_dir, &id) {
                unknown.push(id);
            }
        }
        Ok(MissingSessions::sorted(unknown))
    }

    fn sorted(mut ids: Vec<String>) -> Option<MissingSessions> {
        // The ID starts with the time, so this sorts by time.
        ids.retain(|id| made_at_ms(id).is_some());
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        (!ids.is_empty()).then_some(MissingSessions { ids })
    }

    /// Returns a warning such as `2 sessions that were recorded here are not in the database:
    /// 01a1…, started 3 min ago, …`.
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

    /// Returns a row for each session, the newest first: its start, and the evidence for it.
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

    /// Returns a hint to repair the loss. rewake never removes what remains of lost sessions.
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

/// Returns the newest sessions that fulfil `is` and whose locks say that they were recorded.
fn recorded_if(data_dir: &Path, at_most: usize, is: impl Fn(&String) -> bool) -> Vec<String> {
    let mut ids = SessionLock::sessions(data_dir, AT_START);
    ids.retain(is);
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.truncate(at_most);
    ids.retain(|id| SessionLock::was_recorded(data_dir, id));
    ids
}

/// Returns the sessions of this data folder that the logs name as opened. Reads the newest logs
/// first, at most `bytes` in all. Unreadable logs are skipped.
fn logged(state_dir: &Path, data_dir: &Path, mut bytes: u64) -> Vec<String> {
    let entries = std::fs::read_dir(state_dir.join("log"));
    let names = entries.into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    // The names start with the day, so this sorts by day.
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

/// Returns the session of a line such as `… opened session="01a1…" entries=3 data="/home/…"`.
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
    fn missing_sessions_are_counted_and_the_newest_are_named() {
        let ids: Vec<String> = (0..5).map(|_| new_id()).collect();
        let one = MissingSessions::sorted(vec![ids[0].clone(), ids[0].clone(), "notes".into()]);
        let line = one.unwrap().line();
        let said = format!(
            "1 session that was recorded here is not in the database: {}, started 0 s ago; it was",
            short_id(&ids[0])
        );
        assert!(line.starts_with(&said), "{line}");
        let line = MissingSessions::sorted(ids.clone()).unwrap().line();
        let start = format!(
            "5 sessions that were recorded here are not in the database: {}, started",
            short_id(&ids[4])
        );
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains("; 2 more; it was lost"), "{line}");
        assert_eq!(MissingSessions::sorted(vec!["notes".into()]), None);
    }
}
