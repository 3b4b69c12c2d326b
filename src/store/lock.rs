//! OS locks of the store and of sessions, which the kernel releases when a process ends.
//!
//! The PIDs in the files are only for display; only the lock counts.
//! Invariant: the lock file of the store or of a session is never removed, or two processes could
//! each hold a lock of that name.
//!
//! The lock of a workspace: one process at a time restores its files, and no effect starts
//! meanwhile.
//!
//! It is an OS lock on an empty file, so it ends with the process that has it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io, thread};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::StoreError;
use super::database::{private_file, private_folder};
use super::error::io as io_error;
use super::ids::{new_id, short_id};
use super::machine::{LATELY, Machine, now_ms};
use crate::journal::folder::is_session_id;

const STORE_LOCK: &str = "store.lock";
const SESSIONS: &str = "locks";
const PROCESSES: &str = "processes";

/// Time that a migration waits for other processes to close the store. They rarely do.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time that opening waits for a migration by another process, which takes a moment.
const MIGRATION: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum time between the creation of a session's ID and of its lock file.
const AT_ONCE: Duration = Duration::from_millis(5);
/// Maximum number of IDs that a new session tries. If all are taken, the clock stands still.
const NEW_TRIES: u32 = 100;
/// Word in a lock's file: the session is in the database.
const RECORDED: &str = "recorded";
/// Word in a lock's file: the last holder stopped because nothing could be recorded.
const UNRECORDED: &str = "unrecorded";
/// Prefix of the holder's machine in a lock's file.
const MACHINE: &str = "machine=";
/// Maximum length of a lock's file, in bytes.
const MAX_TEXT: u64 = 192;
/// Longer than a check of a session's lock takes.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum time that a child of a killed process shares its lock. A process that was killed between
/// fork and exec leaves the lock to the child until that calls exec, which takes long on a busy
/// machine.
const LEFT_TO_A_CHILD: Duration = Duration::from_secs(2);

/// The lock of a session. One process at a time has it.
#[derive(Debug)]
pub struct SessionLock {
    file: File,
    /// A locked file whose name is in `file`. It proves that the PID is that of the holder: see
    /// [`SessionLock::holder`].
    presence: Option<NamedTempFile>,
    is_recorded: bool,
    was_unrecorded: bool,
    is_unrecorded: bool,
}

/// Opens the file of a session's lock, and creates it if it is missing.
fn lock_file(data_dir: &Path, session: &str) -> Result<(PathBuf, File), StoreError> {
    // The ID becomes a file name, so it must be valid.
    let id = Uuid::try_parse(session).map_err(|_| StoreError::no_session(session))?;
    let folder = data_dir.join(SESSIONS);
    private_folder(&folder)?;
    let path = folder.join(format!("{id}.lock"));
    let file = private_file(&path)?;
    Ok((path, file))
}

impl SessionLock {
    /// Takes the lock. Fails with `Held` when another process has the session.
    pub fn take(data_dir: &Path, session: &str) -> Result<SessionLock, StoreError> {
        let (path, file) = lock_file(data_dir, session)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let waited = since.elapsed();
                    if waited >= LOOK && (waited >= LEFT_TO_A_CHILD || !has_dead_signer(&file)) {
                        return Err(held(session, &file));
                    }
                    sleep(PAUSE);
                }
                Err(TryLockError::Error(e)) => return Err(io_error("lock the session", e)),
            }
        }
        let signature = signature(&file);
        if let Some(error) = other_machine_error(session, &signature, &file, &path) {
            return Err(error);
        }
        let Signature {
            is_recorded,
            was_unrecorded,
            ..
        } = signature;
        let mut lock = SessionLock {
            file,
            // On a full disk the lock has no name: then nobody can ask this process to leave.
            presence: announce(data_dir).ok(),
            is_recorded,
            was_unrecorded,
            is_unrecorded: false,
        };
        let _ = lock.sign();
        Ok(lock)
    }

    /// Locks the session until the returned file is dropped, and leaves the signature of the last
    /// holder in it. Returns `None` if another process has the session, on this machine or on
    /// another.
    pub(super) fn lock_unsigned(data_dir: &Path, session: &str) -> Option<File> {
        let (path, file) = lock_file(data_dir, session).ok()?;
        file.try_lock().ok()?;
        let is_elsewhere = other_machine_error(session, &signature(&file), &file, &path).is_some();
        (!is_elsewhere).then_some(file)
    }

    /// Creates the ID of a new session and takes its lock. No other session of this store was made
    /// in the same millisecond, so the part of the ID that people type names one session.
    ///
    /// # Errors
    /// As [`SessionLock::take`].
    pub fn take_new(data_dir: &Path) -> Result<(String, SessionLock), StoreError> {
        let mut tries = 0;
        loop {
            let id = new_id();
            let lock = SessionLock::take(data_dir, &id)?;
            tries += 1;
            // If two processes create a session at the same time, at least one of them sees the
            // other's lock.
            if tries == NEW_TRIES || !SessionLock::shares_short_id(data_dir, &id) {
                return Ok((id, lock));
            }
        }
    }

    /// Returns whether another session has the same short ID.
    fn shares_short_id(data_dir: &Path, id: &str) -> bool {
        let own = format!("{id}.lock");
        let files = fs::read_dir(data_dir.join(SESSIONS)).into_iter().flatten();
        let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.any(|name| name != own && name.starts_with(short_id(id)))
    }

    /// Returns whether the last holder stopped because nothing could be recorded, as on a full
    /// disk. This file says so if the log cannot. Writing the word needs no new block on the disk.
    pub fn was_unrecorded(&self) -> bool {
        self.was_unrecorded
    }

    /// Notes in the file that this process stops because nothing could be recorded. The next holder
    /// reads it.
    pub fn mark_unrecorded_stop(&mut self) {
        self.is_unrecorded = true;
    }

    /// Notes in the lock's file that the session is in the database. The note stays when the lock
    /// is released: a database without the session has lost it.
    pub fn recorded(&mut self) {
        if !self.is_recorded {
            self.is_recorded = true;
            // Without the word a loss is not noticed; nothing else depends on it.
            let _ = self.sign();
        }
    }

    /// Sets the time of the lock's file to now. After a kill it says when the process was last
    /// alive. A failure has no other effect.
    pub fn show_life(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// Returns when the session was last held, by a process that may be dead: UTC, milliseconds
    /// since 1970. `None`: it never was.
    pub fn last_held_ms(data_dir: &Path, session: &str) -> Option<i64> {
        let id = Uuid::try_parse(session).ok()?;
        let file = fs::metadata(data_dir.join(SESSIONS).join(format!("{id}.lock"))).ok()?;
        let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()
    }

    /// Writes `<pid> <time in ms> <file of the process> machine=<machine> recorded`, each part only
    /// if it applies.
    fn sign(&mut self) -> io::Result<()> {
        let mut words = Vec::new();
        if let Some(presence) = &self.presence {
            let now_ms = now_ms();
            let presence = presence.path().file_name().unwrap_or_default().display();
            words.push(format!("{} {now_ms} {presence}", std::process::id()));
            words.extend(Machine::this().map(|this| format!("{MACHINE}{}", this.word())));
        }
        self.write(words)
    }

    fn write(&mut self, mut words: Vec<String>) -> io::Result<()> {
        if self.is_recorded {
            words.push(RECORDED.to_string());
        }
        if self.is_unrecorded {
            words.push(UNRECORDED.to_string());
        }
        // The old text is overwritten: on a full disk a file that was emptied may not grow again.
        let text = format!("{}\n", words.join(" "));
        let before = self.file.metadata()?.len().min(MAX_TEXT) as usize;
        self.file.rewind()?;
        // One write, so that no reader sees a part of it.
        self.file.write_all(format!("{text:<before$}").as_bytes())?;
        self.file.set_len(text.len() as u64)
    }

    /// Returns whether a session may have been created in this folder after this time: UTC,
    /// milliseconds since 1970. It reads only the time of the folder with the locks, so it is
    /// sometimes wrongly true.
    pub fn may_be_newer(data_dir: &Path, newest_ms: Option<i64>) -> bool {
        let Ok(changed) = fs::metadata(data_dir.join(SESSIONS)).and_then(|m| m.modified()) else {
            return false;
        };
        // The lock of a session is created just before the session.
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        let made = newest_ms.and_then(|ms| u64::try_from(ms).ok());
        made.is_none_or(|made| changed > Duration::from_millis(made) + AT_ONCE)
    }

    /// Returns when the session was last opened or left: UTC, milliseconds since 1970. `None`: it
    /// has no lock file.
    pub fn used_at_ms(data_dir: &Path, session: &str) -> Option<i64> {
        let file = data_dir.join(SESSIONS).join(format!("{session}.lock"));
        let used = fs::symlink_metadata(file).ok()?.modified().ok()?;
        let since = used.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()
    }

    /// Returns at most `at_most` sessions that have a lock file here.
    pub fn sessions(data_dir: &Path, at_most: usize) -> Vec<String> {
        let files = fs::read_dir(data_dir.join(SESSIONS)).into_iter().flatten();
        let name = |file: io::Result<fs::DirEntry>| {
            let name = file.ok()?.file_name().into_string().ok()?;
            let id = name.strip_suffix(".lock")?;
            is_session_id(id).then(|| id.to_string())
        };
        files.take(at_most).filter_map(name).collect()
    }

    /// Returns whether the session was in the database when it was last held: see
    /// [`SessionLock::recorded`].
    pub fn was_recorded(data_dir: &Path, session: &str) -> bool {
        Uuid::try_parse(session).is_ok_and(|id| {
            File::open(data_dir.join(SESSIONS).join(format!("{id}.lock")))
                .is_ok_and(|file| signature(&file).is_recorded)
        })
    }

    /// Returns the process that has the session. It does not touch the lock, so no process that
    /// wants the session is kept from it.
    ///
    /// A process that got the PID of a dead holder is never returned. The lock's file names a file
    /// of the holder, which is locked while the holder lives.
    pub fn holder(data_dir: &Path, session: &str) -> Option<u32> {
        let id = Uuid::try_parse(session).ok()?;
        let file = File::open(data_dir.join(SESSIONS).join(format!("{id}.lock"))).ok()?;
        let name = signature(&file).presence?;
        let presence = data_dir.join(PROCESSES).join(&name);
        let lives = File::open(presence)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
        let pid = name.split('-').next()?.parse().ok();
        pid.filter(|_| lives)
    }

    /// Returns whether another process has the session. Nothing is created, signed or kept locked.
    pub fn is_held(data_dir: &Path, session: &str) -> bool {
        let Ok(id) = Uuid::try_parse(session) else {
            return false;
        };
        let path = data_dir.join(SESSIONS).join(format!("{id}.lock"));
        // This takes a shared lock for an instant, which `take` waits out.
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Returns whether a process works in the session. A process that only compares the journal
    /// with the database has the lock, too, but does not sign it. This waits for its end, at most
    /// [`LEFT_TO_A_CHILD`]. Messages and orders ask this: that process would not take them.
    pub fn is_worked_in(data_dir: &Path, session: &str) -> bool {
        let since = Instant::now();
        while SessionLock::is_held(data_dir, session) {
            // A process that could not sign works in it, too.
            if SessionLock::holder(data_dir, session).is_some() || since.elapsed() > LEFT_TO_A_CHILD
            {
                return true;
            }
            sleep(PAUSE);
        }
        false
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // This comes before the lock is released. A text that stays after a kill is that of a dead
        // process.
        let _ = match self.is_recorded {
            true => self.write(Vec::new()),
            false => self.file.set_len(0),
        };
    }
}

fn held(session: &str, file: &File) -> StoreError {
    let signature = signature(file);
    StoreError::Held {
        session: session.to_string(),
        pid: signature.pid,
        since_ms: signature.since_ms,
    }
}

/// Returns whether the process that signed the lock has ended.
fn has_dead_signer(file: &File) -> bool {
    let pid = signature(file).pid;
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Returns an error if the last holder was on another machine, was seen recently and did not
/// release the lock.
fn other_machine_error(
    session: &str,
    signature: &Signature,
    file: &File,
    path: &Path,
) -> Option<StoreError> {
    let machine = signature.machine.as_ref().filter(|m| m.is_another())?;
    let seen = file.metadata().and_then(|found| found.modified()).ok()?;
    // A time in the future comes from another machine's clock.
    let age = seen.elapsed().unwrap_or_default();
    (age < LATELY).then(|| StoreError::Elsewhere {
        session: session.to_string(),
        machine: machine.name.clone(),
        pid: signature.pid,
        age_ms: i64::try_from(age.as_millis()).unwrap_or(0),
        lock: Some(path.to_path_buf()),
    })
}

struct Signature {
    pid: Option<u32>,
    since_ms: Option<i64>,
    /// The name of a file.
    presence: Option<String>,
    machine: Option<Machine>,
    is_recorded: bool,
    was_unrecorded: bool,
}

fn signature(mut file: &File) -> Signature {
    let _ = file.rewind();
    let mut text = String::new();
    // If the owner is writing it right now, no process is named.
    let _ = file.take(MAX_TEXT).read_to_string(&mut text);
    let has = |wanted: &str| text.split_whitespace().any(|word| word == wanted);
    let words = text.split_whitespace();
    let machine = words.clone().find_map(|word| word.strip_prefix(MACHINE));
    let is_named = |word: &&str| !word.starts_with(MACHINE);
    let mut words = words
        .filter(|word| ![RECORDED, UNRECORDED].contains(word))
        .filter(is_named);
    Signature {
        is_recorded: has(RECORDED),
        was_unrecorded: has(UNRECORDED),
        machine: machine.and_then(Machine::read),
        pid: words.next().and_then(|w| w.parse().ok()),
        since_ms: words.next().and_then(|w| w.parse().ok()),
        presence: words
            .next()
            .filter(|w| !w.contains('/'))
            .map(str::to_string),
    }
}

/// The shared lock that every open store has.
pub(crate) struct StoreLock {
    file: File,
    _presence: NamedTempFile,
}

/// The exclusive lock of the store.
pub(crate) struct AloneLock {
    file: File,
}

impl StoreLock {
    pub(super) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join(STORE_LOCK)
    }

    pub(crate) fn shared(data_dir: &Path) -> Result<StoreLock, StoreError> {
        let file = private_file(&StoreLock::path(data_dir))?;
        share(file, data_dir)
    }

    /// Takes the exclusive lock, and waits a moment for other processes to close the store. Returns
    /// `None` when `is_needless` returns true before that.
    pub(crate) fn exclusive(
        self,
        data_dir: &Path,
        is_needless: impl Fn() -> Result<bool, StoreError>,
    ) -> Result<Option<AloneLock>, StoreError> {
        let StoreLock { file, _presence } = self;
        drop(_presence);
        file.unlock()
            .map_err(|e| io_error("unlock the session store", e))?;
        let end = Instant::now() + PATIENCE;
        while !lock_now(file.try_lock())? {
            if is_needless()? {
                return Ok(None);
            }
            wait_until(end, data_dir)?;
        }
        Ok(Some(AloneLock { file }))
    }

    /// Takes the exclusive lock if no other process has the store open at this instant. Otherwise
    /// the lock stays shared.
    pub(super) fn try_exclusive_once(
        self,
        data_dir: &Path,
    ) -> Result<(Option<AloneLock>, Option<StoreLock>), StoreError> {
        let StoreLock { file, _presence } = self;
        drop(_presence);
        file.unlock()
            .map_err(|e| io_error("unlock the session store", e))?;
        match lock_now(file.try_lock())? {
            true => Ok((Some(AloneLock { file }), None)),
            false => Ok((None, Some(share(file, data_dir)?))),
        }
    }
}

impl AloneLock {
    pub(super) fn share(self, data_dir: &Path) -> Result<StoreLock, StoreError> {
        // Converting a lock in place differs between systems.
        self.file
            .unlock()
            .map_err(|e| io_error("unlock the session store", e))?;
        share(self.file, data_dir)
    }
}

fn share(file: File, data_dir: &Path) -> Result<StoreLock, StoreError> {
    let end = Instant::now() + MIGRATION;
    while !lock_now(file.try_lock_shared())? {
        wait_until(end, data_dir)?;
    }
    let presence = announce(data_dir)?;
    Ok(StoreLock {
        file,
        _presence: presence,
    })
}

/// Returns false when another process has the lock.
fn lock_now(tried: Result<(), TryLockError>) -> Result<bool, StoreError> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(io_error("lock the session store", e)),
    }
}

fn wait_until(end: Instant, data_dir: &Path) -> Result<(), StoreError> {
    if Instant::now() < end {
        sleep(PAUSE);
        return Ok(());
    }
    let mut pids = present(data_dir);
    // The error does not ask users to close the process that they just started.
    if pids.len() > 1 {
        pids.retain(|pid| *pid != std::process::id());
    }
    Err(StoreError::Locked { pids })
}

/// Creates a file that is named after this process's PID, and locked while the process lives.
fn announce(data_dir: &Path) -> Result<NamedTempFile, StoreError> {
    let folder = data_dir.join(PROCESSES);
    private_folder(&folder)?;
    // This also removes the files of killed processes.
    present(data_dir);
    let fail = |e| io_error(format!("write in {}", folder.display()), e);
    let file = tempfile::Builder::new()
        .prefix(&format!("{}-", std::process::id()))
        .tempfile_in(&folder)
        .map_err(fail)?;
    file.as_file().lock().map_err(fail)?;
    Ok(file)
}

/// Returns the PIDs that have the store open. Removes the files of dead processes.
fn present(data_dir: &Path) -> Vec<u32> {
    let files = fs::read_dir(data_dir.join(PROCESSES)).into_iter().flatten();
    let mut pids: Vec<u32> = files
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let pid = name.split('-').next()?.parse().ok()?;
            let file = File::open(entry.path()).ok()?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => Some(pid),
                Ok(()) => {
                    let _ = fs::remove_file(entry.path());
                    None
                }
                Err(TryLockError::Error(_)) => None,
            }
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Maximum time to wait for the lock. No restore takes longer.
const WORKSPACE_PATIENCE: Duration = Duration::from_secs(120);
const WORKSPACE_PAUSE: Duration = Duration::from_millis(20);

/// The lock, which is held until this is dropped.
#[derive(Debug)]
pub struct WorkspaceLock {
    _file: File,
}

impl WorkspaceLock {
    /// Takes the lock exclusively. Waits until no other process has it.
    ///
    /// # Errors
    /// `Io` when the lock cannot be taken.
    pub fn exclusive(data_dir: &Path, root: &Path) -> Result<WorkspaceLock, StoreError> {
        take(data_dir, root, File::try_lock)
    }

    /// Takes the lock shared. Waits until no process has it exclusively.
    ///
    /// # Errors
    /// As [`WorkspaceLock::exclusive`].
    pub fn shared(data_dir: &Path, root: &Path) -> Result<WorkspaceLock, StoreError> {
        take(data_dir, root, File::try_lock_shared)
    }
}

fn take(
    data_dir: &Path,
    root: &Path,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<WorkspaceLock, StoreError> {
    let folder = data_dir.join("files").join("locks");
    private_folder(&folder)?;
    let hash = blake3::hash(root.as_os_str().as_bytes()).to_hex();
    let file = private_file(&folder.join(&hash[..32]))?;
    let end = Instant::now() + WORKSPACE_PATIENCE;
    let failed = |error| io_error(format!("lock the workspace {}", root.display()), error);
    loop {
        match lock(&file) {
            Ok(()) => return Ok(WorkspaceLock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(WORKSPACE_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(failed(std::io::Error::other(
                    "another session sets its files back",
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a session skips milliseconds in which another process made sessions.
    #[test]
    fn a_new_session_has_its_millisecond_for_itself() {
        let home = tempfile::tempdir().unwrap();
        let locks = home.path().join(SESSIONS);
        fs::create_dir(&locks).unwrap();
        let now = u64::try_from(now_ms()).unwrap();
        let taken: Vec<String> = (now..now + 40)
            .map(|ms| uuid::Builder::from_unix_timestamp_millis(ms, &[7; 10]).into_uuid())
            .map(|id| id.to_string())
            .collect();
        for id in &taken {
            fs::write(locks.join(format!("{id}.lock")), "").unwrap();
        }
        let (id, lock) = SessionLock::take_new(home.path()).unwrap();
        assert!(taken.iter().all(|taken| short_id(taken) != short_id(&id)));
        drop(lock);
    }

    /// A process that only compares a journal takes no message, so it does not work in the session.
    #[test]
    fn a_look_at_a_journal_is_waited_out() {
        let home = tempfile::tempdir().unwrap();
        let (id, lock) = SessionLock::take_new(home.path()).unwrap();
        assert!(SessionLock::is_worked_in(home.path(), &id));
        drop(lock);
        assert!(!SessionLock::is_worked_in(home.path(), &id));
        // A look that never ends is taken for a process that could not sign.
        let look = SessionLock::lock_unsigned(home.path(), &id).unwrap();
        let since = Instant::now();
        assert!(SessionLock::is_worked_in(home.path(), &id));
        assert!(since.elapsed() >= LEFT_TO_A_CHILD);
        let (asks, asked) = std::sync::mpsc::channel();
        let other = thread::spawn({
            let (folder, id) = (home.path().to_path_buf(), id.clone());
            move || {
                asks.send(SessionLock::is_held(&folder, &id)).unwrap();
                SessionLock::is_worked_in(&folder, &id)
            }
        });
        assert!(asked.recv().unwrap());
        drop(look);
        assert!(!other.join().unwrap());
    }
}
