//! Placeholders: files and folders for names of a git folder that git obeys and that do not exist,
//! so that a mount can hold them while a command runs. Git reads each of them as nothing.
//!
//! Without them a command could create such a file, and the `git status` of an editor outside of
//! the sandbox would obey it before the keeper compares.
//!
//! Each keeper that relies on placeholders has a record of their paths, which it locks as long as
//! it lives. The last one to rely on a placeholder removes it. The records of killed keepers
//! are found by the next command and by the next start.
//!
//! A keeper with another folder for data has its records there. So each also has a shared lock on
//! the git folders, and nobody removes a placeholder of a folder that another one has locked: its
//! mounts would go with the file.
//!
//! A session has those of its ended commands stay until its turn ends ([`KeptPlaceholders`]), and the
//! next command takes them over: a file system may need milliseconds to make as many files again.
//!
//! Invariant: a record is written before the placeholders of it are made. A path without a record
//! belongs to the user and stays, also if it is empty.
//!
//! Deliberately absent: placeholders in repositories that a command creates, and in bare ones among
//! the files of the workspace, where git would add them to a commit. Those are compared afterwards.
//! `info/grafts` has none: git runs nothing because of it, and prints a hint if it exists.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::path_bytes;
use super::profile::Profile;
use super::states::State;
use crate::config::read_text;
use crate::workspace::handle::{self, Folder};

/// A name in a git folder with the content of its placeholder; `None` is a folder.
type Name = (&'static str, Option<&'static str>);
type Placeholder = (PathBuf, Option<&'static str>);

/// The content of `commondir` that names its own folder.
const ITSELF: &str = ".\n";

/// The names of a repository. A folder comes before the names in it.
const IN_REPOSITORY: [Name; 10] = [
    ("commondir", Some(ITSELF)),
    ("config", Some("")),
    ("config.worktree", Some("")),
    ("hooks", None),
    ("info", None),
    ("info/attributes", Some("")),
    ("objects/info", None),
    ("objects/info/alternates", Some("")),
    ("remotes", None),
    ("branches", None),
];

/// The names of the folder of a linked worktree. Git reads the others in the shared folder.
const IN_WORKTREE: [Name; 2] = [("config.worktree", Some("")), ("gitdir", Some(""))];

/// Maximum number of git folders with placeholders.
const MAX_FOLDERS: usize = 500;

/// Maximum number of git folders that are locked, so that descriptors are left.
const MAX_LOCKED: usize = 100;

/// Maximum depth of a name in its git folder.
const MAX_DEPTH: usize = 3;

/// Maximum number and size of records.
const MAX_RECORDS: usize = 1_000;
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;

/// Longest wait for another keeper that makes or removes placeholders.
const LOCKED_WITHIN: Duration = Duration::from_secs(2);

const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// Maximum size of a placeholder that is read.
const MAX_CONTENT: u64 = 16;

/// The folder with the records, in rewake's folder for data.
const FOLDER: &str = "placeholders";

/// The lock of the folder with the records.
const LOCK: &str = "lock";

/// The file that each session locks, shared with others, while the placeholders of its commands stay.
const KEPT: &str = "kept";

/// The placeholders on which one command relies. Dropping it removes those that no other command
/// relies on.
#[derive(Debug, Default)]
pub struct Placeholders {
    /// The folder with the records.
    records: Option<PathBuf>,
    /// The record, which is locked as long as the keeper lives.
    record: Option<File>,
    /// The git folders, locked for this command.
    git: Vec<File>,
}

impl Placeholders {
    /// Makes the missing ones for a command. What cannot be made is compared afterwards.
    pub(super) fn make(profile: &Profile) -> Placeholders {
        if !profile.is_held() {
            return Placeholders::default();
        }
        let folders = profile.scans().flat_map(|scan| &scan.git);
        let folders = folders.filter(|folder| is_git_folder(folder));
        // The bound keeps the workspace's own repository, however many a command makes, and then
        // those with the shortest paths, which are used most.
        let own = profile.looked.as_ref().map(|l| l.workspace.join(".git"));
        let is_own = |folder: &Path| own.as_ref().is_some_and(|own| folder.starts_with(own));
        let mut folders: Vec<&PathBuf> = folders.collect();
        folders.sort_by_key(|folder| (!is_own(folder), folder.as_os_str().len(), *folder));
        folders.dedup();
        folders.truncate(MAX_FOLDERS);
        let records = profile.quarantine.with_file_name(FOLDER);
        let until = Instant::now() + LOCKED_WITHIN;
        let locked = folders.iter().take(MAX_LOCKED).filter_map(|folder| {
            let folder = open_to_lock(folder).ok()?;
            wait_for_lock(&folder, FlockOperation::NonBlockingLockShared, until).ok()?;
            Some(folder)
        });
        let git: Vec<File> = locked.collect();
        let wanted = folders.into_iter().flat_map(|folder| names_of(folder));
        let included = profile.scans().flat_map(|scan| scan.included.clone());
        let wanted = wanted.chain(included.map(|path| (path, Some(""))));
        let wanted: Vec<Placeholder> = wanted.collect();
        let made = if wanted.is_empty() {
            remove_left(&records);
            Ok(None)
        } else {
            make_recorded(&records, wanted)
        };
        let record = made.unwrap_or_else(|error| {
            tracing::warn!(%error, "missing names of git folders are not held");
            None
        });
        Placeholders {
            records: Some(records),
            record,
            git,
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        self.git.clear();
        drop(self.record.take());
        if let Some(records) = &self.records
            && !is_kept(records)
        {
            // Without the lock, the next command removes them.
            remove_left(records);
        }
    }
}

/// Has the placeholders of ended commands stay, for the commands that follow.
#[derive(Debug)]
pub struct KeptPlaceholders {
    /// The folder with the records.
    records: PathBuf,
    /// The locked file while they stay.
    lock: Mutex<Option<File>>,
}

impl KeptPlaceholders {
    /// None stay yet. `data_dir` is rewake's folder for data.
    pub fn new(data_dir: &Path) -> KeptPlaceholders {
        KeptPlaceholders {
            records: data_dir.join(FOLDER),
            lock: Mutex::default(),
        }
    }

    /// Has them stay until they are released, or this process ends. If that fails, each command
    /// removes its own.
    pub fn keep(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            *lock = lock_kept(&self.records).ok();
        }
    }

    /// Removes those that no command relies on, unless another session has them stay.
    pub fn release(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = lock.take() {
            drop(lock);
            remove_left(&self.records);
        }
    }
}

impl Drop for KeptPlaceholders {
    fn drop(&mut self) {
        self.release();
    }
}

fn lock_kept(folder: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let file = open_or_make(&folder.join(KEPT))?;
    flock(&file, FlockOperation::NonBlockingLockShared)?;
    Ok(file)
}

/// Returns whether a session has the placeholders stay.
fn is_kept(folder: &Path) -> bool {
    let locked = File::open(folder.join(KEPT))
        .map(|file| flock(&file, FlockOperation::NonBlockingLockExclusive));
    matches!(locked, Ok(Err(Errno::WOULDBLOCK)))
}

/// The path of a record whose keeper is gone, and the names in it.
type DeadRecord = (PathBuf, BTreeSet<PathBuf>);

/// A record.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Names(#[serde(with = "path_bytes")] BTreeSet<PathBuf>);

/// Makes the missing placeholders, takes over those of ended commands, and returns their locked
/// record. Returns `None` if no name is missing.
fn make_recorded(folder: &Path, wanted: Vec<Placeholder>) -> io::Result<Option<File>> {
    std::fs::create_dir_all(folder)?;
    let _lock = lock(folder)?;
    let (mut living, dead) = living_and_dead(folder);
    let is_dead = |path: &PathBuf| dead.iter().any(|(_, names)| names.contains(path));
    let is_known = |path: &PathBuf| living.contains(path) || is_dead(path);
    let is_own = |path: &PathBuf| is_known(path) || path.symlink_metadata().is_err();
    let wanted = wanted.into_iter().filter(|(path, _)| is_own(path));
    let wanted: Vec<Placeholder> = wanted.collect();
    if wanted.is_empty() {
        remove_unused(folder, &living, dead);
        return Ok(None);
    }
    let id = Uuid::new_v4().to_string();
    let path = folder.join(&id);
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let names = wanted.iter().map(|(path, _)| path);
    let names = names.flat_map(|path| [path.clone(), unfinished(path, &id)]);
    let names: BTreeSet<PathBuf> = names.collect();
    file.write_all(&serde_json::to_vec(&Names(names))?)?;
    for (path, content) in &wanted {
        if path.symlink_metadata().is_err() {
            // Where this user may not write, neither may the command.
            let _ = make(path, *content, &unfinished(path, &id));
        }
    }
    living.extend(wanted.into_iter().map(|(path, _)| path));
    remove_unused(folder, &living, dead);
    Ok(Some(file))
}

/// Removes the placeholders of killed keepers. `data_dir` is rewake's folder for data.
pub fn remove_left_placeholders(data_dir: &Path) {
    remove_left(&data_dir.join(FOLDER));
}

fn remove_left(folder: &Path) {
    // Most of the time there is nothing to lock.
    if !records(folder).is_empty()
        && let Ok(_lock) = lock(folder)
    {
        let (living, dead) = living_and_dead(folder);
        remove_unused(folder, &living, dead);
    }
}

/// Waits for the lock of the folder with the records. It is held until the file is closed.
fn lock(folder: &Path) -> io::Result<File> {
    let file = open_or_make(&folder.join(LOCK))?;
    let until = Instant::now() + LOCKED_WITHIN;
    wait_for_lock(&file, FlockOperation::NonBlockingLockExclusive, until)?;
    Ok(file)
}

fn open_or_make(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).open(path)
}

fn wait_for_lock(file: &impl AsFd, how: FlockOperation, until: Instant) -> io::Result<()> {
    loop {
        match flock(file, how) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            locked => return locked.map_err(io::Error::from),
        }
    }
}

fn records(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_record = |name: &OsStr| name != LOCK && name != KEPT;
    let records = entries.filter(|entry| is_record(&entry.file_name()));
    records
        .map(|entry| entry.path())
        .take(MAX_RECORDS)
        .collect()
}

/// Returns the names in the records of living keepers, and the records of dead ones with theirs.
/// Call it with the lock: a record is locked soon after it is created.
fn living_and_dead(folder: &Path) -> (BTreeSet<PathBuf>, Vec<DeadRecord>) {
    let (mut living, mut dead) = (BTreeSet::new(), Vec::new());
    for path in records(folder) {
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let is_dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let mut json = Vec::new();
        let read = file.take(MAX_RECORD_BYTES).read_to_end(&mut json);
        let names = read.ok().and_then(|_| serde_json::from_slice(&json).ok());
        let Names(names) = names.unwrap_or_default();
        if is_dead {
            dead.push((path, names));
        } else {
            living.extend(names);
        }
    }
    (living, dead)
}

/// Removes the placeholders of dead keepers, as far as no living keeper relies on them and no session
/// has them stay. The record of those that stay, also for a keeper with another folder for data,
/// stays with them. Call it with the lock.
fn remove_unused(folder: &Path, living: &BTreeSet<PathBuf>, dead: Vec<DeadRecord>) {
    let is_kept = is_kept(folder);
    for (record, names) in dead {
        let id = record.file_name().unwrap_or_default().to_string_lossy();
        let mut is_used = false;
        // The names in a folder before the folder.
        let left = names.iter().rev().filter(|path| !living.contains(*path));
        for path in left.filter(|path| path.symlink_metadata().is_ok()) {
            if is_kept {
                is_used = true;
                break;
            }
            match lock_git_folders(path) {
                Ok(_locks) => drop(remove(path, &unfinished(path, &id))),
                Err(_) => is_used = true,
            }
        }
        if !is_used {
            let _ = std::fs::remove_file(record);
        }
    }
}

/// Locks the git folder of a placeholder. A command can make a folder in it look like another one,
/// so each that may be meant is locked.
fn lock_git_folders(path: &Path) -> io::Result<Vec<File>> {
    let folders = path.ancestors().skip(1).take(MAX_DEPTH);
    let folders = folders.filter(|folder| is_git_folder(folder));
    let mut locks = Vec::new();
    for folder in folders.filter_map(|folder| open_to_lock(folder).ok()) {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(Errno::WOULDBLOCK.into()),
            // A file system may have no locks.
            _ => locks.push(folder),
        }
    }
    Ok(locks)
}

fn open_to_lock(folder: &Path) -> io::Result<File> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    Folder::open(parent)?.file(Path::new(name))
}

/// Returns the name of a placeholder until it has its content, and from its removal on. A command
/// cannot guess it.
fn unfinished(path: &Path, id: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(id) {
        return path.to_path_buf();
    }
    path.with_file_name(format!("{name}.{id}"))
}

/// Makes a placeholder that everybody may read who may read the git folder. An empty `commondir`
/// would make git fail, so no file gets its name before its content.
fn make(path: &Path, content: Option<&str>, unfinished: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = Folder::open(parent)?;
    ignoring_mode(&parent, || match content {
        None => {
            parent.make_folder(name)?;
            handle::set_mode(parent.below(Path::new(name))?, 0o755)
        }
        Some(content) => {
            let first = unfinished.file_name().unwrap_or_default();
            let mut file = parent.new_file(first, Mode::from_raw_mode(0o644))?;
            handle::set_mode(&file, 0o644)?;
            file.write_all(content.as_bytes())?;
            parent.rename_new(first, name)
        }
    })
}

/// Removes a placeholder, unless it has a content by now. A file is looked at under its unfinished
/// name, so that nobody writes into it between the look and the removal.
fn remove(path: &Path, unfinished: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let aside = unfinished.file_name().unwrap_or_default();
    let parent = Folder::open(parent)?;
    let kind = FileType::from_raw_mode(parent.stat(name)?.st_mode);
    let is_unchanged = |name: &OsStr| {
        let mut bytes = Vec::new();
        let file = parent.file(Path::new(name));
        let read = file.and_then(|file| file.take(MAX_CONTENT).read_to_end(&mut bytes));
        read.is_ok() && (bytes.is_empty() || bytes == ITSELF.as_bytes())
    };
    if kind.is_dir() {
        ignoring_mode(&parent, || parent.remove_folder(name))
    } else if kind.is_file() && is_unchanged(name) {
        ignoring_mode(&parent, || {
            if name != aside {
                parent.rename_new(name, aside)?;
            }
            if is_unchanged(aside) {
                parent.remove(aside)
            } else {
                parent.rename_new(aside, name)
            }
        })
    } else {
        Ok(())
    }
}

/// Does something in a folder even if a command removed the rights that this needs.
fn ignoring_mode(folder: &Folder, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match act() {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            let before = handle::mode(folder)?;
            handle::set_mode(folder, before | 0o700)?;
            let done = act();
            handle::set_mode(folder, before)?;
            done
        }
        done => done,
    }
}

fn is_git_folder(folder: &Path) -> bool {
    folder.join("HEAD").symlink_metadata().is_ok()
}

fn names_of(folder: &Path) -> Vec<Placeholder> {
    // The folder of a linked worktree names the shared one.
    let common = read_text(&folder.join("commondir"), MAX_CONTENT);
    let is_whole = match common {
        Ok(text) => text == ITSELF,
        Err(_) => folder.join("commondir").symlink_metadata().is_err(),
    };
    let names: &[Name] = if is_whole {
        &IN_REPOSITORY
    } else {
        &IN_WORKTREE
    };
    let all = names.iter();
    all.map(|(name, content)| (folder.join(name), *content))
        .collect()
}

/// Returns whether git reads the state of this path as nothing.
pub(super) fn is_nothing(path: &Path, state: &State) -> bool {
    contents_of(path)
        .into_iter()
        .any(|content| match (state, content) {
            (State::Folder, None) => true,
            (State::File { bytes, .. }, Some(content)) => bytes == content.as_bytes(),
            _ => false,
        })
}

/// Returns whether an existing path may be a placeholder.
pub(super) fn may_be_one(path: &Path) -> bool {
    contents_of(path)
        .into_iter()
        .any(|content| match (path.symlink_metadata(), content) {
            (Ok(found), Some(content)) => found.is_file() && found.len() == content.len() as u64,
            (Ok(found), None) => {
                found.is_dir() && path.read_dir().is_ok_and(|mut all| all.next().is_none())
            }
            _ => false,
        })
}

/// Returns the contents of placeholders with the name of this path.
fn contents_of(path: &Path) -> Vec<Option<&'static str>> {
    let all = IN_REPOSITORY.iter().chain(&IN_WORKTREE);
    let all = all.filter(|(name, _)| path.ends_with(name));
    let mut all: Vec<_> = all.map(|(_, content)| *content).collect();
    // A file that the settings include.
    let mut above = path.ancestors().skip(1).take(MAX_DEPTH);
    if all.is_empty() && above.any(is_git_folder) {
        all.push(Some(""));
    }
    all
}
