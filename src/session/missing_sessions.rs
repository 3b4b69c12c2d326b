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
use crate::store::{SessionLock, Store, StoreError, is_purged, is_session_id};

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
    /// The one that was used last comes first.
    sessions: Vec<MissingSession>,
}

/// A lost session, and when its lock was last used: UTC, milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MissingSession {
    used_ms: Option<i64>,
    id: String,
}

impl MissingSessions {
    /// Returns the lost sessions, for a start, if the newest session is not in the database: it was
    /// lost, emptied, or is an older copy. In most cases, the time of one folder shows that there
    /// are none. After a new session was created, only [`MissingSessions::all`] finds the
    /// lost ones.
    pub fn newer(
        data_dir: &Path,
        state_dir: &Path,
        runs: &Runs,
        store: &Store,
    ) -> Result<Option<MissingSessions>, StoreError> {
        let newest = store.history().newest_created_ms()?;
        if newest.is_none() {
            let mut ids = logged(state_dir, data_dir, LOG_BYTES_AT_START);
            ids.extend(recorded_if(data_dir, |_| true));
            ids.extend(runs.sessions(READ_AT_START));
            return MissingSessions::of(data_dir, ids, store);
        }
        if !SessionLock::may_be_newer(data_dir, newest) {
            return Ok(None);
        }
        let is_unknown = |id: &String| !store.history().knows(id).unwrap_or(true);
        let mut ids = recorded_if(data_dir, is_unknown);
        ids.extend(runs.sessions(READ_AT_START));
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
        MissingSessions::sorted(data_dir, ids)
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
        Ok(MissingSessions::sorted(data_dir, unknown))
    }

    fn sorted(data_dir: &Path, mut ids: Vec<String>) -> Option<MissingSessions> {
        ids.retain(|id| is_session_id(id));
        ids.sort_unstable();
        ids.dedup();
        let used = |id: String| MissingSession {
            used_ms: SessionLock::used_at_ms(data_dir, &id),
            id,
        };
        let mut sessions: Vec<MissingSession> = ids.into_iter().map(used).collect();
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        (!sessions.is_empty()).then_some(MissingSessions { sessions })
    }

    /// Returns a warning such as `2 sessions that were recorded here are not in the database:
    /// 01a1…, used 3 min ago; …`.
    pub fn line(&self) -> String {
        let named = self.sessions.iter().take(NAMED);
        let mut named: Vec<String> = named.map(|s| s.named(short_id(&s.id))).collect();
        if let Some(more @ 1..) = self.sessions.len().checked_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        let sessions = match self.sessions.len() {
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

    /// Returns a row for each session: its last use, and the evidence for it.
    pub fn rows(&self, data_dir: &Path, runs: &Runs, journals: &[String]) -> Vec<String> {
        let of_runs = runs.sessions(AT_MOST);
        let row = |session: &MissingSession| {
            let id = &session.id;
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
            format!("session {}: {} has it", session.named(id), known.join(", "))
        };
        let mut rows: Vec<String> = self.sessions.iter().take(ROWS).map(row).collect();
        if let Some(more @ 1..) = self.sessions.len().checked_sub(ROWS) {
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

impl MissingSession {
    /// Returns the session for a person: `name, used 3 min ago`.
    fn named(&self, name: &str) -> String {
        match self.used_ms {
            Some(used_ms) => format!("{name}, used {} ago", ago((now_ms() - used_ms).max(0))),
            None => name.to_string(),
        }
    }
}

/// Returns sessions that fulfil `is` and whose locks say that they were recorded.
fn recorded_if(data_dir: &Path, is: impl Fn(&String) -> bool) -> Vec<String> {
    let mut ids = SessionLock::sessions(data_dir, AT_START);
    ids.retain(is);
    ids.truncate(READ_AT_START);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::new_id;

    #[test]
    fn missing_sessions_are_counted_and_the_last_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids: Vec<String> = (0..4).map(|_| new_id()).collect();
        // A user chose this one.
        ids.push("9a0c2f0e-7d10-4c55-9d0e-0d6f6f3f0a77".to_string());
        for id in &ids[..1] {
            drop(SessionLock::take(dir.path(), id).unwrap());
        }
        let sorted = |ids: Vec<String>| MissingSessions::sorted(dir.path(), ids);
        let one = sorted(vec![ids[0].clone(), ids[0].clone(), "notes".into()]);
        let line = one.unwrap().line();
        let said = format!(
            "1 session that was recorded here is not in the database: {}, used 0 s ago; it was",
            short_id(&ids[0])
        );
        assert!(line.starts_with(&said), "{line}");
        let line = sorted(ids.clone()).unwrap().line();
        let start = format!(
            "5 sessions that were recorded here are not in the database: {}, used 0 s ago; {};",
            short_id(&ids[0]),
            short_id(&ids[4])
        );
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains("; 2 more; it was lost"), "{line}");
        assert_eq!(sorted(vec!["notes".into()]), None);
    }
}
