//! Purging: a session is removed for good. A tombstone comes first, which everybody who looks for
//! what was lost obeys; what a kill left of the rest is done by the next start.
//!
//! The order: the tombstone; the rows, in one transaction that overwrites them; the write-ahead
//! log is emptied; the journal; contents of files that nobody names any more; the tombstone says
//! that it is done. The tombstone stays for ever: an older copy of the database that is put back
//! is purged again.
//!
//! What a fork shares with the session stays, and belongs to the fork then. The sessions of its
//! sub-agents go with it: their tombstones come before any row goes.

mod rows;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::error::{Doing, io as io_error};
use super::files::private_folder;
use super::follow::highest;
use super::gc::{in_use, tidy_packs};
use super::head::read_head;
use super::mark::Mark;
use super::row::{count, int};
use super::{JournalPlace, Store, StoreError, database, now_ms};
use crate::journal::folder::{made_at_ms, sessions};
use crate::journal::read::begin;

pub(super) const WHAT: &str = "purge the session";

const FOLDER: &str = "purged";
/// Of a tombstone while something may be left of its session, and behind that.
const BEGUN: &str = "begun";
const DONE: &str = "done";

/// Row ids that no entry has any more, in `meta`.
const UNUSED: &str = "unused_ids";

/// What a test stops at, to be killed there.
pub(super) type Step<'s> = dyn FnMut(&'static str) -> Result<(), StoreError> + 's;

/// The tombstones of a data folder.
#[derive(Debug, Default)]
pub(super) struct Purged {
    ids: Vec<String>,
    /// Row ids that no entry has any more, as the last of them says.
    pub unused: u64,
}

impl Purged {
    pub(super) fn has(&self, session: &str) -> bool {
        self.ids.iter().any(|id| id == session)
    }
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub entries: u64,
    pub blobs: u64,
    /// Entries that forks go on from: they are theirs now.
    pub kept: u64,
    /// Sessions of its sub-agents. They are counted in the rest too.
    pub tasks: u64,
    /// Copies of the database that still have the session: nothing changes them.
    pub copies: Vec<PathBuf>,
}

/// Whether the session was purged here.
pub fn is_purged(data_dir: &Path, session: &str) -> bool {
    let of = |state: &str| data_dir.join(FOLDER).join(format!("{session}.{state}"));
    of(DONE).exists() || of(BEGUN).exists()
}

pub(super) fn purged(data_dir: &Path) -> Purged {
    let mut purged = Purged::default();
    for (session, path) in tombstones(data_dir) {
        // One that cannot be read is one all the same.
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
        made_at_ms(&session).map(|_| (session, path))
    };
    files.filter_map(one).collect()
}

/// Durable when it returns: the purging is begun, or it is done.
fn bury(data_dir: &Path, session: &str, state: &str, unused: u64) -> Result<(), StoreError> {
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

/// Row ids that purging took away and that are not used again.
pub(super) fn unused(conn: &Connection) -> Result<u64, StoreError> {
    conn.query_row("SELECT value FROM meta WHERE name = ?1", [UNUSED], |row| {
        row.get(0)
    })
    .optional()
    .doing(WHAT)
    .map(|unused| unused.map_or(0, count))
}

/// Row ids that purging took away are left out in a database that is empty yet, so that the mark
/// still counts right. Foreign keys are not looked at until [`end_behind`].
pub(super) fn begin_behind(conn: &Connection, unused: u64) -> Result<(), StoreError> {
    if unused == 0 {
        return Ok(());
    }
    let begin = || -> rusqlite::Result<()> {
        conn.execute(
            "INSERT INTO entries (id, session, seq, at_ms, kind, checksum, body)
             VALUES (?1, 0, 0, 0, 'noted', x'', '')",
            [int(unused)],
        )?;
        conn.execute(
            "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
            rusqlite::params![UNUSED, int(unused)],
        )?;
        Ok(())
    };
    begin().doing(WHAT)
}

/// What began it goes.
pub(super) fn end_behind(conn: &Connection, unused: u64) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM entries WHERE id = ?1 AND session = 0",
        [int(unused)],
    )
    .doing(WHAT)
    .map(drop)
}

impl Store {
    /// Removes a session for good, with those of its sub-agents. The caller has the locks of all of
    /// them, and no command of them runs.
    ///
    /// # Errors
    /// `InUse` when another process has the store open: nothing was removed. What fails behind
    /// that is done by the next start.
    pub fn purge(
        mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
    ) -> Result<Removed, StoreError> {
        read_head(&self.conn, session)?;
        let alone = match self.lock.take() {
            Some(lock) => {
                let alone = lock.alone(data_dir, || Ok(false));
                Some(alone.map_err(|error| in_use(error, WHAT))?)
            }
            None => None,
        };
        bury(data_dir, session, BEGUN, unused(&self.conn)?)?;
        let removed = self.finish_purge(data_dir, place, session, &mut |_| Ok(()));
        // The connection is closed while nobody else can open the store.
        drop(self);
        drop(alone);
        removed
    }

    /// What is left of sessions whose purging was begun, and what an older copy of the database
    /// brought back of others. Where another process has the store open, a later start does it.
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
        let (alone, shared) = lock.alone_now(data_dir)?;
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

    /// The caller has the store alone, and there is a tombstone.
    fn finish_purge(
        &mut self,
        data_dir: &Path,
        place: Option<&JournalPlace>,
        session: &str,
        step: &mut Step<'_>,
    ) -> Result<Removed, StoreError> {
        step("tombstone")?;
        let children = self
            .history()
            .children(session)?
            .into_iter()
            .map(|info| info.id);
        let children: Vec<String> = children.collect();
        for child in &children {
            bury(data_dir, child, BEGUN, unused(&self.conn)?)?;
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
                    self.write_journal_anew(place, &fork)?;
                }
            }
        }
        step("journals of forks")?;
        tidy_packs(&mut self.conn, data_dir)?;
        step("contents of files")?;
        for one in &all {
            bury(data_dir, one, DONE, unused(&self.conn)?)?;
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
        // Not in the transaction: it would change nothing there. Without an index each removed
        // row would be looked for in all others.
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
            // A kill came behind the rows.
            Err(StoreError::NotFound { .. }) => return Ok(Removed::default()),
            Err(error) => return Err(error),
        };
        let before = highest(&tx)?;
        let removed = rows::remove(&tx, &head)?;
        let left: i64 = tx
            .query_row("SELECT count(*) FROM entries", [], |row| row.get(0))
            .doing(WHAT)?;
        let last = highest(&tx)?;
        tx.execute(
            "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
            rusqlite::params![UNUSED, (last - left).max(0)],
        )
        .doing(WHAT)?;
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

    fn write_journal_anew(&mut self, place: &JournalPlace, fork: &str) -> Result<(), StoreError> {
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

/// Before the rows are gone: the newest may be among them, and are not missed then. A mark that
/// tells of more than the database had stays: that is missing all the same.
fn lower_mark(
    place: &JournalPlace,
    data_dir: &Path,
    before: i64,
    last: i64,
) -> Result<(), StoreError> {
    let mut mark = Mark::open(&place.state_dir, data_dir)?;
    if mark.said.highest > before {
        return Ok(());
    }
    mark.lower(last).map_err(|e| io_error("lower the mark", e))
}

/// The sessions whose journals say that they go on from this one.
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

/// The journal of a session, and what was moved aside of it, also in journals that were moved
/// aside as a whole.
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

/// Copies of the database in which the id of one of the sessions stands. They are no open database,
/// so they can be read as files.
fn copies_with(data_dir: &Path, sessions: &[&str]) -> Vec<PathBuf> {
    let copies = database::copies(data_dir).into_iter();
    let has = |path: &PathBuf, id: &&str| holds(path, id.as_bytes()).unwrap_or(true);
    copies
        .filter(|path| sessions.iter().any(|id| has(path, id)))
        .collect()
}

fn holds(path: &Path, wanted: &[u8]) -> io::Result<bool> {
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
        // It may lie across the end of a piece.
        bytes.drain(..bytes.len().saturating_sub(wanted.len()));
    }
}

#[cfg(test)]
mod tests;
