//! The protected files of a writable folder, found by a bounded scan before and after each command.
//!
//! Folders that tools fill by themselves are searched only for repositories, near their top.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::folders::{Folders, entries};
use crate::core::policy::{is_protected, may_be_protected};
use crate::core::rule::Bases;

/// Maximum number of protected paths that a scan finds.
const MAX_FOUND: usize = 4_000;
const MAX_FOLDERS_LOOKED_AT: usize = 2_000;
pub(super) const MAX_DEPTH: usize = 16;

/// The same limits for the folders of [`FILLED`].
const MAX_FILLED_LOOKED_AT: usize = 1_000;
const MAX_FILLED_DEPTH: usize = 2;

/// Folders that tools fill by themselves.
const FILLED: [&str; 6] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
];

/// The result of a bounded scan of a workspace.
#[derive(Debug, Default)]
pub(super) struct ProtectedPaths {
    /// The git folders of repositories, submodules and worktrees.
    pub git: Vec<PathBuf>,
    /// Paths that the policy protects, at any depth.
    pub protected: Vec<PathBuf>,
    /// Whether there are more folders than the scan visited.
    pub cut_short: bool,
    /// The same for the folders that tools fill.
    pub filled_cut_short: bool,
    /// Whether there are more protected paths than the limit.
    pub too_many: bool,
}

/// The writable folders of a session as their last scans found them.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Vec<(Bases, Folders, ProtectedPaths)>>);

impl Remembered {
    pub(super) fn look_below(&self, root: &Path, home: Option<&Path>) -> ProtectedPaths {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bases = bases(root, home);
        let at = held.iter().position(|known| known.0 == bases);
        let at = at.unwrap_or_else(|| {
            let folders = protected_folders(bases.clone());
            held.push((bases, folders, ProtectedPaths::default()));
            held.len() - 1
        });
        let (_, folders, last) = &mut held[at];
        folders.begin();
        let mut found = look_below(root, folders);
        folders.end();
        if found.cut_short {
            // Known paths stay known, for any number of new folders.
            keep(&mut found.git, &last.git);
            keep(&mut found.protected, &last.protected);
        }
        last.git.clone_from(&found.git);
        last.protected.clone_from(&found.protected);
        found
    }
}

fn keep(found: &mut Vec<PathBuf>, known: &[PathBuf]) {
    let seen: BTreeSet<PathBuf> = found.iter().cloned().collect();
    let more = known.iter().filter(|path| !seen.contains(*path));
    found.extend(more.filter(|path| path.symlink_metadata().is_ok()).cloned());
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn bases(root: &Path, home: Option<&Path>) -> Bases {
    Bases {
        folders: vec![text(root)],
        roots: vec![text(root)],
        homes: home.map(text).into_iter().collect(),
        ..Bases::default()
    }
}

fn protected_folders(bases: Bases) -> Folders {
    Folders::new(move |path, is_folder| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        is_git(path, is_folder) || (may_be_protected(&name) && is_protected(&text(path), &bases))
    })
}

/// A folder that a scan visits.
pub(super) struct ScanFolder {
    pub path: PathBuf,
    /// The number of folders between it and the top of the scan, or a folder that tools fill.
    pub depth: usize,
    /// Whether it is a folder that tools fill, or in one.
    pub is_filled: bool,
}

/// The folders that a scan has yet to visit, the nearest first. Those that tools fill come last and
/// have a separate limit, so that no other folder is skipped because of them.
pub(super) struct ScanQueue([Lane; 2]);

struct Lane {
    waiting: VecDeque<ScanFolder>,
    left: usize,
    cut_short: bool,
}

impl Lane {
    fn new(waiting: Vec<ScanFolder>, left: usize) -> Lane {
        Lane {
            waiting: waiting.into(),
            left,
            cut_short: false,
        }
    }

    fn pop(&mut self) -> Option<ScanFolder> {
        let folder = self.waiting.pop_front()?;
        self.cut_short = self.left == 0;
        self.left = self.left.checked_sub(1)?;
        Some(folder)
    }
}

impl ScanQueue {
    pub(super) fn new(root: &Path) -> ScanQueue {
        let root = ScanFolder {
            path: root.to_path_buf(),
            depth: 0,
            is_filled: false,
        };
        ScanQueue([
            Lane::new(vec![root], MAX_FOLDERS_LOOKED_AT),
            Lane::new(Vec::new(), MAX_FILLED_LOOKED_AT),
        ])
    }

    pub(super) fn pop(&mut self) -> Option<ScanFolder> {
        self.0.iter_mut().find_map(Lane::pop)
    }

    /// Adds a folder in one that was visited.
    pub(super) fn add(&mut self, above: &ScanFolder, name: &OsStr) {
        let begins = !above.is_filled && FILLED.iter().any(|filled| name == *filled);
        let is_filled = above.is_filled || begins;
        let most = [MAX_DEPTH, MAX_FILLED_DEPTH][usize::from(above.is_filled)];
        if begins || above.depth < most {
            self.0[usize::from(is_filled)]
                .waiting
                .push_back(ScanFolder {
                    path: above.path.join(name),
                    depth: if begins { 0 } else { above.depth + 1 },
                    is_filled,
                });
        }
    }
}

fn is_git(path: &Path, is_folder: bool) -> bool {
    is_folder && path.file_name().is_some_and(|name| name == ".git")
}

fn look_below(root: &Path, remembered: &mut Folders) -> ProtectedPaths {
    let mut found = ProtectedPaths::default();
    let mut queue = ScanQueue::new(root);
    while let Some(folder) = queue.pop() {
        if found.git.len() + found.protected.len() > MAX_FOUND {
            found.too_many = true;
            break;
        }
        let listing = remembered.list(&folder.path);
        for marked in &listing.marked {
            let path = folder.path.join(&marked.name);
            if is_git(&path, marked.is_folder) {
                found.git.extend(modules_of(&path));
                found.git.push(path);
            } else if !folder.is_filled || folder.depth == 0 {
                found.protected.push(path);
            }
        }
        for name in &listing.folders {
            queue.add(&folder, name);
        }
    }
    [found.cut_short, found.filled_cut_short] = queue.0.map(|lane| lane.cut_short);
    found
}

/// Returns the git folders of submodules and linked worktrees, which are in the one of the
/// repository. A name may have slashes, and a submodule may have submodules. If a link leads to
/// them, returns the link.
pub(super) fn modules_of(git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let inner = ["modules", "worktrees"].map(|name| git.join(name));
    let (links, inner): (Vec<_>, Vec<_>) =
        inner.into_iter().partition(|folder| folder.is_symlink());
    found.extend(links);
    let mut folders: Vec<(PathBuf, usize)> = inner.into_iter().map(|folder| (folder, 0)).collect();
    while let Some((folder, depth)) = folders.pop() {
        for (path, is_folder) in entries(&folder) {
            if found.len() >= MAX_FOUND {
                return found;
            }
            // Also a link: git accepts one whose target does not exist yet.
            let next = if path.join("HEAD").symlink_metadata().is_ok() || path.is_symlink() {
                found.push(path.clone());
                path.join("modules")
            } else {
                path
            };
            if is_folder && depth < MAX_DEPTH {
                folders.push((next, depth + 1));
            }
        }
    }
    found
}
