//! Protected files that mounts cannot protect: their state before a command, and their changes. A
//! change is moved to quarantine, and the previous state is restored.
//!
//! If mounts protect existing files, only names that do not exist yet, and links, are watched.
//! Everything here is bounded: a change of a file that is too large to store is reported and not
//! undone.
//!
//! Invariant: both ends of a move, and the folder of a new file, are open folders that no link led
//! to. So a process that replaces a folder with a link meanwhile causes no change elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FileType, Mode};

use super::appeared::{appeared, is_changed_since, made_since, made_within};
use super::paths::is_below_any;
use super::placeholders::{is_nothing, may_be_one};
use super::profile::Profile;
use super::repository::Repository;
use super::states::{State, states};
use super::writable::{FolderEntry, WritableRoots};
use crate::workspace::handle::Folder;
use crate::workspace::unwritten_files;

/// The state of protected files before the command.
#[derive(Debug)]
pub struct Watched {
    /// The protected paths that are compared.
    paths: Vec<PathBuf>,
    /// Those that mounts protect.
    held: Vec<PathBuf>,
    roots: WritableRoots,
    quarantine: Option<Quarantine>,
    before: BTreeMap<PathBuf, State>,
    profile: Profile,
    /// The protected paths that existed.
    existed: BTreeSet<PathBuf>,
    since: SystemTime,
}

/// A protected path that a command changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedChange {
    pub path: PathBuf,
    /// The path to which the command's file was moved. `None`: there was no file, or it could not
    /// be moved.
    pub moved_to: Option<PathBuf>,
    /// Whether the previous state is restored.
    pub restored: bool,
}

impl Watched {
    /// Records the state of protected files that mounts do not protect, before the command starts.
    pub fn look(profile: &Profile) -> Watched {
        let roots = WritableRoots::open(&profile.write);
        let held = |path: &PathBuf| {
            let spot = profile.is_held().then(|| roots.spot(path).ok()).flatten();
            // If another rewake removes its placeholder, this command's mount goes with it.
            spot.is_some_and(|spot| spot.stat().is_ok() && !spot.is_link() && !may_be_one(path))
        };
        let (held, paths): (Vec<_>, Vec<_>) = profile.protected.iter().cloned().partition(held);
        let paths = paths.into_iter();
        // `appeared` judges a new repository as a whole.
        let git = profile.scans().map(|scan| scan.workspace.join(".git"));
        let git = git.filter(|git| git.symlink_metadata().is_err());
        let git: Vec<PathBuf> = git.collect();
        let paths: Vec<PathBuf> = paths.filter(|path| !is_below_any(path, &git)).collect();
        let exists = |path: &&Path| path.symlink_metadata().is_ok();
        let git = profile.scans().flat_map(|scan| &scan.git);
        let known = profile.protected.iter().chain(git).map(PathBuf::as_path);
        // A further folder may hold the workspace, whose own path may have a protected name.
        let own = profile
            .looked
            .iter()
            .flat_map(|scan| scan.workspace.ancestors());
        let existed = known.chain(own).filter(exists).map(PathBuf::from).collect();
        let mut watched = Watched {
            paths,
            held,
            roots,
            quarantine: Quarantine::open(&profile.quarantine),
            before: BTreeMap::new(),
            profile: profile.clone(),
            existed,
            since: SystemTime::now(),
        };
        watched.before = watched.states_now();
        watched
    }

    /// Returns the states of the compared paths now, without what git reads as nothing: it may be a
    /// placeholder of another command.
    fn states_now(&self) -> BTreeMap<PathBuf, State> {
        let mut states = states(&self.roots, &self.paths);
        states.retain(|path, state| !self.profile.is_held() || !is_nothing(path, state));
        states
    }

    /// Returns the changes without undoing them; `restored` is false.
    pub fn differences(&self) -> Vec<WatchedChange> {
        let after = self.states_now();
        let names = self.before.keys().chain(after.keys());
        let differ = names.filter(|path| self.before.get(*path) != after.get(*path));
        let mut paths: Vec<PathBuf> = differ.cloned().collect();
        paths.extend(appeared(&self.profile, &self.existed, self.since));
        paths.sort();
        // A folder represents everything below it.
        paths.dedup_by(|path, before| path.starts_with(before));
        let told = paths.into_iter().map(|path| WatchedChange {
            path,
            moved_to: None,
            restored: false,
        });
        told.collect()
    }

    /// Returns the held files that git could not write. It may have ended with success, and a commit
    /// of everything would then undo their last change.
    pub fn unwritten(&self) -> Vec<PathBuf> {
        let roots = self.profile.scans().map(|scan| &scan.workspace);
        let found = roots.filter_map(|root| {
            let git = Repository::of(root)?;
            let is_new = made_since(&git.git_dir.join("index"), self.since, false);
            let files = is_new.then(|| unwritten_files(&git.git_dir, &git.common_dir));
            Some(files?.into_iter().map(|file| root.join(file)))
        });
        let mut found: Vec<PathBuf> = found.flatten().collect();
        found.retain(|path| is_below_any(path, &self.held));
        found
    }

    /// Undoes the changes as far as possible, and returns them.
    pub fn compare(&self) -> Vec<WatchedChange> {
        self.compare_except(&[]).0
    }

    /// Does the same and looks again, for the next comparison. What was made or changed in one of
    /// these times is of somebody else, and stays.
    pub fn compare_again(&mut self, of_others: &[(SystemTime, SystemTime)]) -> Vec<WatchedChange> {
        let (changes, made) = self.compare_except(of_others);
        // The files of a repository change with each commit.
        let is_git = |path: &Path| {
            path.ends_with(".git") || path.ends_with("HEAD") || path.join("HEAD").exists()
        };
        let compared = made.iter().filter(|path| !is_git(path));
        self.paths.extend(compared.cloned());
        self.existed.extend(made);
        self.before = self.states_now();
        self.since = SystemTime::now();
        changes
    }

    /// Returns the changes, and the new paths that stay.
    fn compare_except(
        &self,
        of_others: &[(SystemTime, SystemTime)],
    ) -> (Vec<WatchedChange>, Vec<PathBuf>) {
        let mut changes = self.compare_known(of_others);
        let mut staying = Vec::new();
        for path in appeared(&self.profile, &self.existed, self.since) {
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            // It may have been moved with its folder.
            if !self.roots.has(&path) {
                continue;
            }
            if made_within(&path, of_others, is_folder) {
                staying.push(path);
                continue;
            }
            let moved_to = self.set_aside(&path);
            changes.push(WatchedChange {
                restored: moved_to.is_some(),
                moved_to,
                path,
            });
        }
        (changes, staying)
    }

    fn compare_known(&self, of_others: &[(SystemTime, SystemTime)]) -> Vec<WatchedChange> {
        let after = self.states_now();
        let mut changes = Vec::new();
        let mut names: Vec<&PathBuf> = self.before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        let mut gone: Option<&Path> = None;
        for path in names {
            let (before, now) = (self.before.get(path), after.get(path));
            let went_with_its_folder = gone.is_some_and(|folder| path.starts_with(folder));
            let is_of_other = match (now, path.parent()) {
                (Some(State::Folder), _) => made_within(path, of_others, true),
                // A removal changes the parent.
                (None, Some(parent)) => made_within(parent, of_others, false),
                _ => made_within(path, of_others, false),
            };
            if before == now || is_of_other || (went_with_its_folder && before.is_none()) {
                continue;
            }
            let moved_to = now.and_then(|_| self.set_aside(path));
            if moved_to.is_some() && before.is_none() {
                gone = Some(path);
            }
            let restored = match before {
                None => !self.roots.has(path),
                Some(state) => self.restore(path, state).is_ok(),
            };
            changes.push(WatchedChange {
                path: path.clone(),
                moved_to,
                restored,
            });
        }
        changes
    }

    /// Moves a file to quarantine. If that is on another file system, renames it in its folder to a
    /// name that no tool obeys. If a new link leads to the file, moves the link.
    fn set_aside(&self, path: &Path) -> Option<PathBuf> {
        match self.roots.spot(path) {
            Ok(spot) => self.move_aside(path, &spot),
            Err(_) => {
                let (link, spot) = self.roots.topmost_link(path)?;
                is_changed_since(&spot.stat().ok()?, self.since)
                    .then(|| self.move_aside(&link, &spot))
                    .flatten()
            }
        }
    }

    fn move_aside(&self, path: &Path, spot: &FolderEntry) -> Option<PathBuf> {
        let into_quarantine = || {
            let quarantine = self.quarantine.as_ref()?;
            let folder = quarantine.make().ok()?;
            let name = path.to_string_lossy().replace('/', "%");
            Some(self.profile.quarantine.join(move_to(spot, &folder, &name)?))
        };
        let beside = || {
            let name = spot.name.to_string_lossy();
            let name = format!("{name}.rewake-quarantine");
            Some(path.with_file_name(move_to(spot, &spot.folder, &name)?))
        };
        into_quarantine().or_else(beside)
    }

    fn restore(&self, path: &Path, state: &State) -> io::Result<()> {
        // Creates the folders of protected files again if they were moved.
        let FolderEntry { folder, name } = self.roots.make_spot(path)?;
        match state {
            State::Folder => match folder.make_folder(&name) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    folder.below(Path::new(&name)).map(drop)
                }
                made => made,
            },
            State::Link(to) => folder.make_link(to.as_os_str(), &name),
            State::File { bytes, mode } => {
                let mut file = folder.new_file(&name, Mode::from_raw_mode(0o600))?;
                file.write_all(bytes)?;
                file.set_permissions(Permissions::from_mode(*mode))
            }
            State::Other { .. } => Err(io::Error::other("it was too large to keep")),
        }
    }
}

/// The folder for changes of protected files. The existing part of its path is opened before the
/// command starts.
#[derive(Debug)]
struct Quarantine {
    folder: Folder,
    /// The rest of the path, which is created when it is needed.
    missing: PathBuf,
}

impl Quarantine {
    fn open(path: &Path) -> Option<Quarantine> {
        path.ancestors().find_map(|above| {
            let real = above.canonicalize().ok()?;
            Some(Quarantine {
                folder: Folder::open(&real).ok()?,
                missing: path.strip_prefix(above).ok()?.to_path_buf(),
            })
        })
    }

    fn make(&self) -> io::Result<Folder> {
        self.folder.make_below(&self.missing)
    }
}

/// Moves a file to a name with the time, which is always free: nothing is replaced. Returns the new
/// name.
fn move_to(from: &FolderEntry, folder: &Folder, name: &str) -> Option<String> {
    const TRIES: u64 = 100;
    let at_ms = u64::try_from(crate::store::now_ms()).unwrap_or_default();
    for number in at_ms..at_ms.saturating_add(TRIES) {
        let to = format!("{name}.{number}");
        match from.folder.move_new(&from.name, folder, OsStr::new(&to)) {
            Ok(()) => return Some(to),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) if e.kind() == ErrorKind::PermissionDenied && number == at_ms => from.open_up(),
            Err(_) => return None,
        }
    }
    None
}

/// Returns the disk usage of everything below a folder, counted up to `most`. Links are not
/// followed.
pub fn bytes_below(folder: &Path, most: u64) -> u64 {
    const MAX_ENTRIES: usize = 100_000;
    // Blocks of 512 bytes, so that the holes of a sparse file do not count.
    const BLOCK: u64 = 512;
    let Ok(top) = Folder::open(folder) else {
        return 0;
    };
    let mut total: u64 = 0;
    let mut entries_left = MAX_ENTRIES;
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        // A folder that is gone, or is a link now, uses no space.
        let Ok(folder) = top.below(&below) else {
            continue;
        };
        for (name, _) in folder.list().unwrap_or_default() {
            let Ok(stat) = folder.stat(&name) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                folders.push(below.join(&name));
            } else {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
                total = total.saturating_add(blocks.saturating_mul(BLOCK));
            }
            entries_left = entries_left.saturating_sub(1);
            if total > most || entries_left == 0 {
                return total;
            }
        }
    }
    total
}

#[cfg(test)]
mod tests;
