//! Protected files that cannot be held: what they were before a command, and what became of
//! them. A change goes to quarantine, and what was there before comes back.
//!
//! Where mounts hold what exists, only names that do not exist yet, and links, are watched.
//! Everything here is bounded: of a file too large to keep, a change is told and not undone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::appeared::appeared;
use super::profile::Profile;

const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_ALL_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILES: usize = 2_000;
const MAX_DEPTH: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Link(PathBuf),
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    /// Too large, or of another kind: known by when it was last changed.
    Other {
        inode: u64,
        changed: (i64, i64),
        bytes: u64,
    },
    Folder,
}

/// What was there before the command.
#[derive(Debug)]
pub struct Watched {
    roots: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
    profile: Profile,
    since: SystemTime,
}

/// A protected path that a command changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    /// Where what the command left is now. None: nothing was left, or it could not be moved.
    pub moved_to: Option<PathBuf>,
    /// Whether what was there before is there again.
    pub restored: bool,
}

impl Watched {
    /// Looks at what is protected and not held by mounts, before the command starts.
    pub fn look(profile: &Profile) -> Watched {
        let held = |path: &PathBuf| {
            let found = std::fs::symlink_metadata(path);
            profile.is_held() && found.is_ok_and(|found| !found.is_symlink())
        };
        let roots = profile.protected.iter().filter(|path| !held(path)).cloned();
        let roots: Vec<PathBuf> = roots.collect();
        let before = states(&roots);
        Watched {
            roots,
            before,
            profile: profile.clone(),
            since: SystemTime::now(),
        }
    }

    /// What differs now. Told only: nothing is undone, and `restored` is false.
    pub fn differences(&self) -> Vec<Change> {
        let after = states(&self.roots);
        let names = self.before.keys().chain(after.keys());
        let differ = names.filter(|path| self.before.get(*path) != after.get(*path));
        let mut paths: Vec<PathBuf> = differ.cloned().collect();
        paths.extend(appeared(&self.profile, self.since));
        paths.sort();
        // A folder stands for what lies below it.
        paths.dedup_by(|path, before| path.starts_with(before));
        let told = paths.into_iter().map(|path| Change {
            path,
            moved_to: None,
            restored: false,
        });
        told.collect()
    }

    /// What differs now, put right as far as it can be.
    pub fn compare(&self) -> Vec<Change> {
        let mut changes = self.compare_known();
        for path in appeared(&self.profile, self.since) {
            // It may have gone with the folder around it.
            if path.symlink_metadata().is_ok() {
                let moved_to = self.set_aside(&path);
                changes.push(Change {
                    restored: moved_to.is_some(),
                    moved_to,
                    path,
                });
            }
        }
        changes
    }

    fn compare_known(&self) -> Vec<Change> {
        let after = states(&self.roots);
        let mut changes = Vec::new();
        let mut names: Vec<&PathBuf> = self.before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        let mut gone: Option<&Path> = None;
        for path in names {
            let (before, now) = (self.before.get(path), after.get(path));
            let went_with_its_folder = gone.is_some_and(|folder| path.starts_with(folder));
            if before == now || (went_with_its_folder && before.is_none()) {
                continue;
            }
            let moved_to = now.and_then(|_| self.set_aside(path));
            if moved_to.is_some() && before.is_none() {
                gone = Some(path);
            }
            let restored = before.is_none_or(|state| restore(path, state).is_ok());
            changes.push(Change {
                path: path.clone(),
                moved_to,
                restored,
            });
        }
        changes
    }

    /// Into quarantine; where that is another file system, beside itself under a name that
    /// nothing obeys.
    fn set_aside(&self, path: &Path) -> Option<PathBuf> {
        if !has_real_folder(path) {
            return None;
        }
        let name = path.to_string_lossy().replace('/', "%");
        let _ = std::fs::create_dir_all(&self.profile.quarantine);
        let beside = path.file_name()?.to_string_lossy();
        let places = [
            self.profile.quarantine.join(name),
            path.with_file_name(format!("{beside}.rewake-quarantine")),
        ];
        places.iter().find_map(|place| move_to(path, place))
    }
}

/// Under that name and the time, so that there is always a free one: nothing is replaced.
fn move_to(path: &Path, place: &Path) -> Option<PathBuf> {
    const TRIES: u64 = 100;
    let name = place.file_name()?.to_string_lossy().into_owned();
    let at_ms = u64::try_from(crate::store::now_ms()).unwrap_or_default();
    for number in at_ms..at_ms.saturating_add(TRIES) {
        let to = place.with_file_name(format!("{name}.{number}"));
        match renameat_with(CWD, path, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Some(to),
            Err(Errno::EXIST) => {}
            // The file system cannot do that.
            Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => {
                return std::fs::rename(path, &to).ok().map(|()| to);
            }
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(_) => return None,
        }
    }
    None
}

/// No link among the folders that lead there: acting would be acting elsewhere.
fn has_real_folder(path: &Path) -> bool {
    let Some(parent) = path.parent() else {
        return false;
    };
    parent.canonicalize().is_ok_and(|real| real == parent)
}

fn restore(path: &Path, state: &State) -> io::Result<()> {
    if !has_real_folder(path) {
        // The folder went as well, or is a link now; the folders of protected files are made.
        let parent = path.parent().ok_or(io::ErrorKind::NotFound)?;
        if parent.symlink_metadata().is_ok() {
            return Err(io::Error::other("its folder is a link"));
        }
        std::fs::create_dir_all(parent)?;
    }
    match state {
        State::Folder => match std::fs::create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        },
        State::Link(to) => symlink(to, path),
        State::File { bytes, mode } => {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(*mode)
                .open(path)?;
            file.write_all(bytes)?;
            file.set_permissions(std::fs::Permissions::from_mode(*mode))
        }
        State::Other { .. } => Err(io::Error::other("it was too large to keep")),
    }
}

fn states(roots: &[PathBuf]) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut bytes_left = MAX_ALL_BYTES;
    for root in roots {
        add(root, 0, &mut bytes_left, &mut found);
    }
    found
}

fn add(path: &Path, depth: usize, left: &mut u64, found: &mut BTreeMap<PathBuf, State>) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return;
    };
    if found.len() >= MAX_FILES {
        return;
    }
    let state = if metadata.is_dir() {
        State::Folder
    } else if metadata.is_symlink() {
        State::Link(std::fs::read_link(path).unwrap_or_default())
    } else {
        match whole(path, &metadata, *left) {
            Some(bytes) => {
                *left = left.saturating_sub(bytes.len() as u64);
                State::File {
                    bytes,
                    mode: metadata.mode() & 0o7777,
                }
            }
            None => State::Other {
                inode: metadata.ino(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                bytes: metadata.len(),
            },
        }
    };
    let is_folder = state == State::Folder;
    found.insert(path.to_path_buf(), state);
    if is_folder && depth < MAX_DEPTH {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            add(&entry.path(), depth + 1, left, found);
        }
    }
}

fn whole(path: &Path, metadata: &std::fs::Metadata, left: u64) -> Option<Vec<u8>> {
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES.min(left) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes)
}

/// What lies below a folder takes up, counted up to `most`. Links are not followed.
pub fn bytes_below(folder: &Path, most: u64) -> u64 {
    const MAX_ENTRIES: usize = 100_000;
    let mut total: u64 = 0;
    let mut entries_left = MAX_ENTRIES;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            match metadata.is_dir() {
                true => folders.push(entry.path()),
                // Blocks of 512 bytes: a sparse file takes up what it has.
                false => total = total.saturating_add(metadata.blocks().saturating_mul(512)),
            }
            entries_left = entries_left.saturating_sub(1);
            if total > most || entries_left == 0 {
                return total;
            }
        }
    }
    total
}
