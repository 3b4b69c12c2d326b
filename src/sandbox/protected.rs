//! The protected files of a workspace, found by a bounded scan before and after each command.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::folders::{Folders, entries};
use crate::core::policy::{is_protected, may_be_protected};
use crate::core::rule::Bases;

/// Maximum number of protected paths that a scan finds.
const MAX_FOUND: usize = 4_000;
pub(super) const MAX_FOLDERS_LOOKED_AT: usize = 2_000;
pub(super) const MAX_DEPTH: usize = 16;

/// Folders that tools fill by themselves, which a scan skips.
const PASSED_OVER: [&str; 6] = [
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
    /// Whether there are more protected paths than the limit.
    pub too_many: bool,
}

/// The folders of a workspace as the last scan found them.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<(Bases, Folders, ProtectedPaths)>>);

impl Remembered {
    pub(super) fn look_below(&self, workspace: &Path, home: Option<&Path>) -> ProtectedPaths {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bases = bases(workspace, home);
        let (_, folders, last) = match held.take() {
            Some(same) if same.0 == bases => held.insert(same),
            _ => {
                let folders = protected_folders(bases.clone());
                held.insert((bases, folders, ProtectedPaths::default()))
            }
        };
        folders.begin();
        let mut found = look_below(workspace, folders);
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

fn bases(workspace: &Path, home: Option<&Path>) -> Bases {
    Bases {
        folders: vec![text(workspace)],
        roots: vec![text(workspace)],
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

pub(super) fn is_passed_over(name: &OsStr) -> bool {
    PASSED_OVER.iter().any(|passed| name == *passed)
}

fn is_git(path: &Path, is_folder: bool) -> bool {
    is_folder && path.file_name().is_some_and(|name| name == ".git")
}

fn look_below(workspace: &Path, remembered: &mut Folders) -> ProtectedPaths {
    let mut found = ProtectedPaths::default();
    let mut looked_at = 0;
    let mut folders = VecDeque::from([(workspace.to_path_buf(), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        looked_at += 1;
        if looked_at > MAX_FOLDERS_LOOKED_AT {
            found.cut_short = true;
            break;
        }
        if found.git.len() + found.protected.len() > MAX_FOUND {
            found.too_many = true;
            break;
        }
        let listing = remembered.list(&folder);
        for marked in &listing.marked {
            let path = folder.join(&marked.name);
            match is_git(&path, marked.is_folder) {
                true => {
                    found.git.extend(modules_of(&path));
                    found.git.push(path);
                }
                false => found.protected.push(path),
            }
        }
        for name in &listing.folders {
            if !is_passed_over(name) && depth < MAX_DEPTH {
                folders.push_back((folder.join(name), depth + 1));
            }
        }
    }
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
