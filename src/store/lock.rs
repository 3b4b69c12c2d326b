//! Who has the store and who has a session: OS locks, freed by the kernel at death.
//!
//! Pids in the files are only for display; the lock is the truth.
//! Invariant: the lock file of the store or of a session is never removed, or two
//! processes could each hold a lock of that name.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::StoreError;
use super::clock::now_ms;
use super::error::io as io_error;
use super::files::{private_file, private_folder};
use super::ids::{new_id, short_id};
use super::machine::{LATELY, Machine};
use crate::journal::folder::made_at_ms;

const STORE_LOCK: &str = "store.lock";
const SESSIONS: &str = "locks";
const PROCESSES: &str = "processes";

/// How long a migration waits for others that have the store open, who rarely go.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long opening waits for a migration by another process, which is soon done.
const MIGRATION: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// In this time the lock of a new session is made after its id.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How many ids a new session tries. All of them taken means a clock that stands still.
const NEW_TRIES: u32 = 100;
/// The word in a lock's file that says that its session is in the database.
const RECORDED: &str = "recorded";
/// The word that the process which held it last left because nothing could be recorded.
const UNRECORDED: &str = "unrecorded";
/// Before the name of the machine of who holds it.
const MACHINE: &str = "machine=";
/// Of a lock's file.
const MAX_TEXT: u64 = 192;
/// Longer than a look at a session's lock takes.
const LOOK: Duration = Duration::from_millis(50);
/// A process that was killed while it started another one leaves the lock to that until it has become
/// another program, which takes long on a busy machine.
const LEFT_TO_A_CHILD: Duration = Duration::from_secs(2);

/// One process per session.
#[derive(Debug)]
pub struct SessionLock {
    file: File,
    /// What makes the name in `file` more than a number: see [`SessionLock::holder`].
    presence: Option<NamedTempFile>,
    is_recorded: bool,
    was_unrecorded: bool,
    is_unrecorded: bool,
}

/// Opens the file of a session's lock, and makes it if it is missing.
fn lock_file(data_dir: &Path, session: &str) -> Result<(PathBuf, File), StoreError> {
    // The id becomes a file name, so it must be one of ours.
    let id = Uuid::try_parse(session).map_err(|_| StoreError::no_session(session))?;
    let folder = data_dir.join(SESSIONS);
    private_folder(&folder)?;
    let path = folder.join(format!("{id}.lock"));
    let file = private_file(&path)?;
    Ok((path, file))
}

impl SessionLock {
    /// Fails with `Held` when another process has the session.
    pub fn take(data_dir: &Path, session: &str) -> Result<SessionLock, StoreError> {
        let (path, file) = lock_file(data_dir, session)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let waited = since.elapsed();
                    if waited >= LOOK && (waited >= LEFT_TO_A_CHILD || !is_of_the_dead(&file)) {
                        return Err(held(session, &file));
                    }
                    sleep(PAUSE);
                }
                Err(TryLockError::Error(e)) => return Err(io_error("lock the session", e)),
            }
        }
        let signature = signature(&file);
        if let Some(error) = elsewhere(session, &signature, &file, &path) {
            return Err(error);
        }
        let Signature {
            is_recorded,
            was_unrecorded,
            ..
        } = signature;
        let mut lock = SessionLock {
            file,
            // On a full disk it is held without a name: then nobody can ask us to leave.
            presence: announce(data_dir).ok(),
            is_recorded,
            was_unrecorded,
            is_unrecorded: false,
        };
        let _ = lock.sign();
        Ok(lock)
    }

    /// Locks the session until the file is dropped, and leaves the signature of the last holder in
    /// it. `None`: another process has the session, on this machine or on another.
    pub(super) fn hold_unsigned(data_dir: &Path, session: &str) -> Option<File> {
        let (path, file) = lock_file(data_dir, session).ok()?;
        file.try_lock().ok()?;
        let is_elsewhere = elsewhere(session, &signature(&file), &file, &path).is_some();
        (!is_elsewhere).then_some(file)
    }

    /// Makes the id of a new session and takes its lock. No other session of this store was made in
    /// the same millisecond, so what people type of an id names one session.
    ///
    /// # Errors
    /// As [`SessionLock::take`].
    pub fn take_new(data_dir: &Path) -> Result<(String, SessionLock), StoreError> {
        let mut tries = 0;
        loop {
            let id = new_id();
            let lock = SessionLock::take(data_dir, &id)?;
            tries += 1;
            // Of two processes that make one at the same time, one at least sees the lock of the other.
            if tries == NEW_TRIES || !SessionLock::has_twin(data_dir, &id) {
                return Ok((id, lock));
            }
        }
    }

    /// Whether another session has the same short id.
    fn has_twin(data_dir: &Path, id: &str) -> bool {
        let own = format!("{id}.lock");
        let files = fs::read_dir(data_dir.join(SESSIONS)).into_iter().flatten();
        let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.any(|name| name != own && name.starts_with(short_id(id)))
    }

    /// Whoever held it before left because nothing could be recorded, as on a full disk: where
    /// the log cannot say it, this file does. No block of it is freed and none is added.
    pub fn was_unrecorded(&self) -> bool {
        self.was_unrecorded
    }

    /// The next one who takes it is told of it.
    pub fn leave_unrecorded(&mut self) {
        self.is_unrecorded = true;
    }

    /// To be called when the session is in the database. From then on the lock's file says so,
    /// also when nobody holds it: a database without the session has lost it.
    pub fn recorded(&mut self) {
        if !self.is_recorded {
            self.is_recorded = true;
            // Without it a loss is not noticed; nothing else depends on it.
            let _ = self.sign();
        }
    }

    /// Whoever finds the session after a kill learns from this when it was alive last: the time
    /// of the lock's file is set. That it fails harms nothing else.
    pub fn show_life(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// When the session was held last, by a process that may be dead: UTC, milliseconds since
    /// 1970. `None`: it never was.
    pub fn held_ms(data_dir: &Path, session: &str) -> Option<i64> {
        let id = Uuid::try_parse(session).ok()?;
        let file = fs::metadata(data_dir.join(SESSIONS).join(format!("{id}.lock"))).ok()?;
        let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()
    }

    /// `<pid> <time in ms> <file of the process> machine=<machine> recorded`: each part only where
    /// it is so.
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
        // Over what stands there: on a full disk there may be no room for a file that was emptied.
        let text = format!("{}\n", words.join(" "));
        let before = self.file.metadata()?.len().min(MAX_TEXT) as usize;
        self.file.rewind()?;
        // At once, so that nobody reads a part of it.
        self.file.write_all(format!("{text:<before$}").as_bytes())?;
        self.file.set_len(text.len() as u64)
    }

    /// Whether a session was made in this folder after the one with this id: then there is a
    /// lock of it. One look at the folder of the locks; now and then it says yes for nothing.
    pub fn may_be_newer(data_dir: &Path, newest: Option<&str>) -> bool {
        let Ok(changed) = fs::metadata(data_dir.join(SESSIONS)).and_then(|m| m.modified()) else {
            return false;
        };
        // The lock of a session is made when its id is, which begins with the time.
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        let made = newest
            .and_then(made_at_ms)
            .and_then(|ms| u64::try_from(ms).ok());
        made.is_none_or(|made| changed > Duration::from_millis(made) + AT_ONCE)
    }

    /// The sessions that have a lock here, of at most so many.
    pub fn sessions(data_dir: &Path, at_most: usize) -> Vec<String> {
        let files = fs::read_dir(data_dir.join(SESSIONS)).into_iter().flatten();
        let name = |file: io::Result<fs::DirEntry>| {
            let name = file.ok()?.file_name().into_string().ok()?;
            let id = name.strip_suffix(".lock")?;
            Uuid::try_parse(id).is_ok().then(|| id.to_string())
        };
        files.take(at_most).filter_map(name).collect()
    }

    /// Whether the session was in the database when it was last held: see
    /// [`SessionLock::recorded`].
    pub fn was_recorded(data_dir: &Path, session: &str) -> bool {
        Uuid::try_parse(session).is_ok_and(|id| {
            File::open(data_dir.join(SESSIONS).join(format!("{id}.lock")))
                .is_ok_and(|file| signature(&file).is_recorded)
        })
    }

    /// The process that has the session. The lock is not touched to find that out, so nobody
    /// who wants the session is kept from it.
    ///
    /// Never another process that came to bear the pid of a dead one: what is named in the
    /// lock's file is a file of the holder's own, which is locked while it lives.
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

    /// Whether another process has the session. Nothing is made, signed or kept.
    pub fn is_held(data_dir: &Path, session: &str) -> bool {
        let Ok(id) = Uuid::try_parse(session) else {
            return false;
        };
        let path = data_dir.join(SESSIONS).join(format!("{id}.lock"));
        // The lock that this is for an instant is what `take` waits out.
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // While it is still locked. A name that stays after a kill is that of a dead process.
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

/// Whether the process that signed the lock is gone.
fn is_of_the_dead(file: &File) -> bool {
    let pid = signature(file).pid;
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Whoever signed the lock did not leave, was seen lately, and was on another machine.
fn elsewhere(session: &str, signature: &Signature, file: &File, path: &Path) -> Option<StoreError> {
    let machine = signature.machine.as_ref().filter(|m| m.is_another())?;
    let seen = file.metadata().and_then(|found| found.modified()).ok()?;
    // One that lies ahead is of another clock.
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
    /// A file name.
    presence: Option<String>,
    machine: Option<Machine>,
    is_recorded: bool,
    was_unrecorded: bool,
}

fn signature(mut file: &File) -> Signature {
    let _ = file.rewind();
    let mut text = String::new();
    // The owner may be writing it right now; then nobody is named.
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

/// The lock every open store holds, shared.
pub(super) struct StoreLock {
    file: File,
    _presence: NamedTempFile,
}

/// The store lock held alone.
pub(super) struct AloneLock {
    file: File,
}

impl StoreLock {
    pub(super) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join(STORE_LOCK)
    }

    pub(super) fn shared(data_dir: &Path) -> Result<StoreLock, StoreError> {
        let file = private_file(&StoreLock::path(data_dir))?;
        share(file, data_dir)
    }

    /// Waits a moment for the others to go. `None` when `is_needless` says so before that.
    pub(super) fn alone(
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
}

impl StoreLock {
    /// The lock alone, if nobody else has the store open at this instant; else it stays shared.
    pub(super) fn alone_now(
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
        // Changing a lock in place is not the same on all systems.
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

/// False when another process is in the way.
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
    // Nobody is told to close what they just began.
    if pids.len() > 1 {
        pids.retain(|pid| *pid != std::process::id());
    }
    Err(StoreError::Locked { pids })
}

/// A file named after our pid and locked while we live.
fn announce(data_dir: &Path) -> Result<NamedTempFile, StoreError> {
    let folder = data_dir.join(PROCESSES);
    private_folder(&folder)?;
    // Also removes what killed processes left.
    present(data_dir);
    let fail = |e| io_error(format!("write in {}", folder.display()), e);
    let file = tempfile::Builder::new()
        .prefix(&format!("{}-", std::process::id()))
        .tempfile_in(&folder)
        .map_err(fail)?;
    file.as_file().lock().map_err(fail)?;
    Ok(file)
}

/// The pids that have the store open. Files of the dead are removed.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process made sessions in each of these milliseconds.
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
}
