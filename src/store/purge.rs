//! Purging: removing a session permanently. A tombstone comes first: code that looks for lost
//! sessions skips those with a tombstone. If a kill interrupts a purge, the next start finishes it.
//!
//! The order:
//! 1. The tombstone is written.
//! 2. The rows are overwritten and removed, in one transaction.
//! 3. The write-ahead log is emptied.
//! 4. The journal is removed.
//! 5. Contents of files that no tree names any more are removed.
//! 6. The tombstone notes that the purge is done.
//!
//! The tombstone stays for ever: if an older copy of the database is restored, the session is
//! purged again.
//!
//! Entries that forks share with the session stay, and then belong to the forks. The sessions of
//! its subagents are purged with it: their tombstones come before any row is removed.

mod rows;

pub use rows::Removed;
use rows::WHAT;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::chain::read_head;
use super::database::private_folder;
use super::error::{Doing, io as io_error};
use super::gc::{in_use, tidy_packs};
use super::high_water_mark::HighWaterMark;
use super::journal_writer::highest;
use super::row::{count, int};
use super::{JournalPlace, Store, StoreError, cached, database, now_ms};
use crate::journal::folder::{is_session_id, sessions};
use crate::journal::read::begin;

const FOLDER: &str = "purged";
/// States of a tombstone: while something may be left of its session, and afterwards.
const BEGUN: &str = "begun";
const DONE: &str = "done";

/// Name in `meta`: the number of the row ids that no entry has any more.
const UNUSED: &str = "unused_ids";

/// A callback at each step, in which a test simulates a kill.
pub(super) type PurgeStep<'s> = dyn FnMut(&'static str) -> Result<(), StoreError> + 's;

/// The tombstones of a data folder.
#[derive(Debug, Default)]
pub(crate) struct Purged {
    ids: Vec<String>,
    /// Number of row ids that no entry has any more: the highest one in the tombstones.
    pub unused: u64,
}

impl Purged {
    pub(crate) fn has(&self, session: &str) -> bool {
        self.ids.iter().any(|id| id == session)
    }
}

/// Returns whether the session was purged here.
pub fn is_purged(data_dir: &Path, session: &str) -> bool {
    let of = |state: &str| data_dir.join(FOLDER).join(format!("{session}.{state}"));
    of(DONE).exists() || of(BEGUN).exists()
}

pub(crate) fn purged(data_dir: &Path) -> Purged {
    let mut purged = Purged::default();
    for (session, path) in tombstones(data_dir) {
        // An unreadable tombstone counts too.
        let text = fs::read_to_string(path).unwrap_or_default();
        let unused = text.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        purged.unused = purged.unused.max(unused.unwrap_or(0));
        purged.ids.push(session);
    }
    purged
}

fn tombstones(data_dir: &Path) -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(data_dir.join(FOLDER)).into_iter().flatten();
    let one = |file: io::Result<fs::DirEntry>| {
        let path = file.ok()?.path();
        let session = path.file_stem()?.to_str()?.to_string();
        is_session_id(&session).then_some((session, path))
    };
    files.filter_map(one).collect()
}

/// Writes the tombstone: the purge was started, or it is done. It is durable when this returns.
fn write_tombstone(
    data_dir: &Path,
    session: &str,
    state: &str,
    unused: u64,
) -> Result<(), StoreError> {
    let folder = data_dir.join(FOLDER);
    private_folder(&folder)?;
    let write = || {
        let name = |state: &str| folder.join(format!("{session}.{state}"));
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(format!("{} {unused}\n", now_ms()).as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(name(state))?;
        if state == DONE {
            remove(fs::remove_file(name(BEGUN)))?;
        }
        File::open(&folder)?.sync_all()
    };
    write().map_err(|e| io_error(WHAT, e))
}

fn remove(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the number of row ids that purged entries had and that are not used again.
pub(super) fn unused(conn: &Connection) -> Result<u64, StoreError> {
    cached::meta(conn, UNUSED)
        .optional()
        .doing(WHAT)
        .map(|unused| unused.map_or(0, count))
}

/// Reserves the row ids of purged entries in an empty database, so that the mark still counts
/// right. Foreign keys are not checked until [`release_reserved_ids`].
pub(super) fn reserve_purged_ids(conn: &Connection, unused: u64) -> Result<(), StoreError> {
    if unused == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO entries (id, session, seq, at_ms, kind, checksum, body, tip)
             VALUES (?1, 0, 0, 0, 'noted', x'', '', x'')";
    conn.execute(sql, [int(unused)]).doing(WHAT)?;
    cached::set_meta(conn, UNUSED, int(unused)).doing(WHAT)
}

/// Removes the row with which [`reserve_purged_ids`] reserved the ids.
pub(super) fn release_reserved_ids(conn: &Connection, unused: u64) -> Result<(), StoreError> {
    let sql = "DELETE FROM entries WHERE id = ?1 AND session = 0";
    conn.execute(sql, [int(unused)]).doing(WHAT).map(drop)
}

impl Store {
    /// Removes a session permanently, with those of its subagents. The caller has the locks of all
    /// of them, and no command of them runs.
    ///
    /// # Errors
    /// `InUse` when another process has the store open: nothing was removed. After a later failure
    /// the next start removes the rest.
    pub fn purge(
        mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
    ) -> Result<Removed, StoreError> {
        read_head(&self.conn, session)?;
        let lock = self.lock.take();
        let alone = lock.map(|lock| lock.exclusive(data_dir, || Ok(false)));
        let alone = alone.transpose().map_err(|e| in_use(e, WHAT))?;
        write_tombstone(data_dir, session, BEGUN, unused(&self.conn)?)?;
        let removed = self.finish_purge(data_dir, place, session, &mut |_| Ok(()));
        // The connection is closed before other processes can open the store.
        drop(self);
        drop(alone);
        removed
    }

    /// Removes the rest of sessions whose purge was started, and sessions that an older copy of the
    /// database brought back. If another process has the store open, a later start does it.
    pub(super) fn finish_purges(
        &mut self,
        data_dir: &Path,
        place: &JournalPlace,
    ) -> Result<(), StoreError> {
        let mut left = Vec::new();
        for (session, path) in tombstones(data_dir) {
            let is_done = path.extension().is_some_and(|state| state == DONE);
            if !is_done || self.history().knows(&session)? {
                left.push(session);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let Some(lock) = self.lock.take() else {
            return Ok(());
        };
        let (alone, shared) = lock.try_exclusive_once(data_dir)?;
        self.lock = shared;
        let Some(alone) = alone else {
            tracing::warn!("what is left of purged sessions waits for other processes to go");
            return Ok(());
        };
        let mut done = Ok(());
        for session in left {
            done = self
                .finish_purge(data_dir, Some(place), &session, &mut |_| Ok(()))
                .map(drop);
            if done.is_err() {
                break;
            }
        }
        self.lock = Some(alone.share(data_dir)?);
        done
    }

    /// Removes everything of a session. The caller has the store alone, and there is a tombstone.
    fn finish_purge(
        &mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
        step: &mut PurgeStep<'_>,
    ) -> Result<Removed, StoreError> {
        step("tombstone")?;
        let children = self
            .history()
            .children(session)?
            .into_iter()
            .map(|info| info.id);
        let children: Vec<String> = children.collect();
        for child in &children {
            write_tombstone(data_dir, child, BEGUN, unused(&self.conn)?)?;
        }
        step("tombstones of tasks")?;
        let mut removed = Removed {
            tasks: children.len() as u64,
            ..Removed::default()
        };
        let all: Vec<&str> = children.iter().map(String::as_str).collect();
        let all = [&all[..], &[session]].concat();
        for one in &all {
            let rows = self.remove_rows(data_dir, place, one)?;
            removed.entries += rows.entries;
            removed.blobs += rows.blobs;
            removed.kept += rows.kept;
        }
        step("rows")?;
        self.conn
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .doing(WHAT)?;
        step("log emptied")?;
        if let Some(place) = place {
            for one in &all {
                remove_journals(&place.folder, one).map_err(|e| io_error(WHAT, e))?;
            }
            step("journal")?;
            for one in &all {
                for fork in forks_of(&place.folder, one) {
                    self.rewrite_journal(place, &fork)?;
                }
            }
        }
        step("journals of forks")?;
        tidy_packs(&mut self.conn, data_dir)?;
        step("contents of files")?;
        for one in &all {
            write_tombstone(data_dir, one, DONE, unused(&self.conn)?)?;
        }
        removed.copies = copies_with(data_dir, &all);
        Ok(removed)
    }

    fn remove_rows(
        &mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
    ) -> Result<Removed, StoreError> {
        // These have no effect inside the transaction. Without an index, each removed row would be
        // searched for in all other rows.
        let set = |conn: &Connection, on: bool| -> rusqlite::Result<()> {
            conn.pragma_update(None, "foreign_keys", !on)?;
            conn.pragma_update_and_check(None, "secure_delete", on, |_| Ok(()))
        };
        set(&self.conn, true).doing(WHAT)?;
        let removed = self.remove_in_transaction(data_dir, place, session);
        set(&self.conn, false).doing(WHAT)?;
        removed
    }

    fn remove_in_transaction(
        &mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
    ) -> Result<Removed, StoreError> {
        let tx = self.write(WHAT)?;
        let head = match read_head(&tx, session) {
            Ok(head) => head,
            // A kill came after the rows were removed.
            Err(StoreError::NotFound { .. }) => return Ok(Removed::default()),
            Err(error) => return Err(error),
        };
        let before = highest(&tx)?;
        let removed = rows::remove(&tx, &head)?;
        let left: i64 = tx
            .query_row("SELECT count(*) FROM entries", [], |row| row.get(0))
            .doing(WHAT)?;
        let last = highest(&tx)?;
        cached::set_meta(&tx, UNUSED, (last - left).max(0)).doing(WHAT)?;
        if let Some(place) = place {
            lower_mark(place, data_dir, before, last)?;
        }
        tx.commit().doing(WHAT)?;
        if let Some(copies) = &mut self.copies
            && let Some(mark) = &mut copies.mark
        {
            mark.said.highest = mark.said.highest.min(last);
        }
        Ok(removed)
    }

    fn rewrite_journal(&mut self, place: &JournalPlace, fork: &str) -> Result<(), StoreError> {
        if let Some(copies) = &mut self.copies {
            copies.journal.forget(fork);
        }
        let aside = place.folder.join(format!("{fork}.old-{}", now_ms()));
        let moved = fs::rename(place.folder.join(fork), &aside);
        remove(moved.and_then(|()| fs::remove_dir_all(&aside))).map_err(|e| io_error(WHAT, e))?;
        self.write_journal_of(fork);
        Ok(())
    }
}

/// Lowers the mark before the rows are removed: the newest entries may be among them, and must not
/// count as missing. A mark above the last row of the database stays, since those entries are
/// missing in any case.
fn lower_mark(
    place: &JournalPlace,
    data_dir: &Path,
    before: i64,
    last: i64,
) -> Result<(), StoreError> {
    let mut mark = HighWaterMark::open(&place.state_dir, data_dir)?;
    if mark.said.highest > before {
        return Ok(());
    }
    mark.lower(last).map_err(|e| io_error("lower the mark", e))
}

/// Returns the sessions whose journals name this one as their origin.
fn forks_of(journal: &Path, session: &str) -> Vec<String> {
    let is_fork = |fork: &String| {
        let header = begin(&journal.join(fork)).ok().flatten();
        header
            .and_then(|header| header.forked)
            .is_some_and(|from| from.session == session)
    };
    sessions(journal, usize::MAX)
        .into_iter()
        .filter(is_fork)
        .collect()
}

/// Removes the journal of a session and its parts that were moved aside, also in whole journals
/// that were moved aside.
fn remove_journals(folder: &Path, session: &str) -> io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if let Some(parent) = folder.parent() {
        let begins = format!("{name}.old-");
        for file in fs::read_dir(parent).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with(&begins) {
                folders.push(file.path());
            }
        }
    }
    let begins = format!("{session}.old-");
    for folder in folders {
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            if *name == *session || name.starts_with(&begins) {
                remove(fs::remove_dir_all(file.path()))?;
            }
        }
    }
    Ok(())
}

/// Returns copies of the database that contain the ID of one of the sessions. They are not open as
/// databases, so they can be read as files.
fn copies_with(data_dir: &Path, sessions: &[&str]) -> Vec<PathBuf> {
    let copies = database::copies(data_dir).into_iter();
    let has = |path: &PathBuf, id: &&str| has_content(path, id.as_bytes()).unwrap_or(true);
    copies
        .filter(|path| sessions.iter().any(|id| has(path, id)))
        .collect()
}

fn has_content(path: &Path, wanted: &[u8]) -> io::Result<bool> {
    use std::io::Read;
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(false);
        }
        bytes.extend_from_slice(&piece[..read]);
        if bytes.windows(wanted.len()).any(|at| at == wanted) {
            return Ok(true);
        }
        // The ID may cross the boundary of two pieces.
        bytes.drain(..bytes.len().saturating_sub(wanted.len()));
    }
}

#[cfg(test)]
mod tests;
