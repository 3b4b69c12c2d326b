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
//! Invariant: a record is written before the placeholders of it are made. A path without a record
//! belongs to the user and stays, also if it is empty.
//!
//! Deliberately absent: placeholders in repositories that a command creates, and in bare ones among
//! the files of the workspace, where git would add them to a commit. Those are compared afterwards.
//! `info/grafts` has none: git runs nothing because of it, and prints a hint if it exists.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, flock};
use rustix::io::Errno;
use uuid::Uuid;

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

/// The placeholders on which one command relies. Dropping it removes those that no other command
/// relies on.
#[derive(Debug, Default)]
pub struct Placeholders(Option<Record>);

#[derive(Debug)]
struct Record {
    folder: PathBuf,
    path: PathBuf,
    /// Locked as long as the keeper lives.
    _file: File,
    names: BTreeSet<PathBuf>,
}

impl Placeholders {
    /// Makes the missing ones for a command. What cannot be made is compared afterwards.
    pub(super) fn make(profile: &Profile) -> Placeholders {
        if !profile.is_held() {
            return Placeholders::default();
        }
        let folders = profile.scans().flat_map(|scan| &scan.git);
        let folders = folders.filter(|folder| is_git_folder(folder));
        // The bound keeps the repositories with the shortest paths, which are used most.
        let mut folders: Vec<&PathBuf> = folders.collect();
        folders.sort_by_key(|folder| (folder.as_os_str().len(), *folder));
        folders.dedup();
        folders.truncate(MAX_FOLDERS);
        let wanted = folders.into_iter().flat_map(|folder| names_of(folder));
        let wanted: Vec<Placeholder> = wanted.collect();
        let made = if wanted.is_empty() {
            Ok(None)
        } else {
            Record::make(&records_of(profile), wanted)
        };
        Placeholders(made.unwrap_or_else(|error| {
            tracing::warn!(%error, "missing names of git folders are not held");
            None
        }))
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        let Some(record) = self.0.take() else { return };
        let Ok(_lock) = lock(&record.folder) else {
            // The next command removes them.
            return;
        };
        let _ = std::fs::remove_file(&record.path);
        remove_unused(&record.folder, record.names);
    }
}

impl Record {
    /// Returns `None` if no name is missing.
    fn make(folder: &Path, wanted: Vec<Placeholder>) -> io::Result<Option<Record>> {
        std::fs::create_dir_all(folder)?;
        let _lock = lock(folder)?;
        remove_unused(folder, BTreeSet::new());
        let known = living_and_dead(folder).0;
        let is_own = |path: &Path| known.contains(path) || path.symlink_metadata().is_err();
        let wanted = wanted.into_iter().filter(|(path, _)| is_own(path));
        let wanted: Vec<Placeholder> = wanted.collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let id = Uuid::new_v4().to_string();
        let path = folder.join(&id);
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let names = wanted.iter().map(|(path, _)| path);
        let names = names.flat_map(|path| [path.clone(), unfinished(path, &id)]);
        let names: BTreeSet<PathBuf> = names.collect();
        file.write_all(&serde_json::to_vec(&names)?)?;
        for (path, content) in &wanted {
            // Where this user may not write, neither may the command.
            let _ = make(path, *content, &unfinished(path, &id));
        }
        Ok(Some(Record {
            folder: folder.to_path_buf(),
            path,
            _file: file,
            names,
        }))
    }
}

/// Removes the placeholders of killed keepers. `data_dir` is rewake's folder for data.
pub fn remove_left_placeholders(data_dir: &Path) {
    let folder = data_dir.join(FOLDER);
    // Most of the time there is nothing to lock.
    if !records(&folder).is_empty()
        && let Ok(_lock) = lock(&folder)
    {
        remove_unused(&folder, BTreeSet::new());
    }
}

/// Waits for the lock of the folder with the records. It is held until the file is closed.
fn lock(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false);
    let file = file.open(folder.join(LOCK))?;
    let until = Instant::now() + LOCKED_WITHIN;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            locked => return locked.map(|()| file).map_err(io::Error::from),
        }
    }
}

fn records(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let records = entries.filter(|entry| entry.file_name() != LOCK);
    records
        .map(|entry| entry.path())
        .take(MAX_RECORDS)
        .collect()
}

/// Returns the names in the records of living keepers, and the records of dead ones with theirs.
/// Call it with the lock: a record is locked soon after it is created.
fn living_and_dead(folder: &Path) -> (BTreeSet<PathBuf>, Vec<(PathBuf, BTreeSet<PathBuf>)>) {
    let (mut living, mut dead) = (BTreeSet::new(), Vec::new());
    for path in records(folder) {
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let is_dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let mut json = Vec::new();
        let read = file.take(MAX_RECORD_BYTES).read_to_end(&mut json);
        let names = read.ok().and_then(|_| serde_json::from_slice(&json).ok());
        let names: BTreeSet<PathBuf> = names.unwrap_or_default();
        if is_dead {
            dead.push((path, names));
        } else {
            living.extend(names);
        }
    }
    (living, dead)
}

/// Removes these placeholders and those of dead keepers, as far as no living keeper relies on them.
/// Call it with the lock.
fn remove_unused(folder: &Path, mut names: BTreeSet<PathBuf>) {
    let (living, dead) = living_and_dead(folder);
    names.extend(dead.iter().flat_map(|(_, names)| names.iter().cloned()));
    // The names in a folder before the folder.
    for path in names.iter().rev().filter(|path| !living.contains(*path)) {
        let _ = remove(path);
    }
    for (record, _) in dead {
        let _ = std::fs::remove_file(record);
    }
}

/// Returns the name of a placeholder until it has its content. A command cannot guess it.
fn unfinished(path: &Path, id: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
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

/// Removes a placeholder, unless it has a content by now.
fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = Folder::open(parent)?;
    let kind = FileType::from_raw_mode(parent.stat(name)?.st_mode);
    let is_unchanged = || {
        let mut bytes = Vec::new();
        let file = parent.file(Path::new(name));
        let read = file.and_then(|file| file.take(MAX_CONTENT).read_to_end(&mut bytes));
        read.is_ok() && (bytes.is_empty() || bytes == ITSELF.as_bytes())
    };
    if kind.is_dir() {
        ignoring_mode(&parent, || parent.remove_folder(name))
    } else if kind.is_file() && is_unchanged() {
        ignoring_mode(&parent, || parent.remove(name))
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

fn records_of(profile: &Profile) -> PathBuf {
    profile.quarantine.with_file_name(FOLDER)
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
    let mut all = IN_REPOSITORY.iter().chain(&IN_WORKTREE);
    all.any(|(name, content)| {
        path.ends_with(name)
            && match (state, content) {
                (State::Folder, None) => true,
                (State::File { bytes, .. }, Some(content)) => bytes == content.as_bytes(),
                _ => false,
            }
    })
}
