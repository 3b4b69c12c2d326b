//! What of a workspace is protected: a bounded look below it, before and after each command.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::folders::{Folders, entries};
use crate::core::policy::{is_protected, may_be_protected};
use crate::core::rule::Bases;

/// How far it is looked below a workspace for what is protected.
const MAX_FOUND: usize = 4_000;
pub(super) const MAX_FOLDERS_LOOKED_AT: usize = 2_000;
pub(super) const MAX_DEPTH: usize = 16;

/// Folders that tools fill by themselves.
const PASSED_OVER: [&str; 6] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
];

/// What a bounded look below a workspace finds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The git folders of repositories, submodules and worktrees.
    pub git: Vec<PathBuf>,
    /// What the policy protects, at any depth.
    pub protected: Vec<PathBuf>,
    /// There are more folders than are looked at.
    pub cut_short: bool,
    /// There is more than can be held.
    pub too_many: bool,
}

/// The folders of a workspace as the last look found them.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<(Bases, Folders, Found)>>);

impl Remembered {
    pub(super) fn look_below(&self, workspace: &Path, home: Option<&Path>) -> Found {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bases = bases(workspace, home);
        let (_, folders, last) = match held.take() {
            Some(same) if same.0 == bases => held.insert(same),
            _ => {
                let folders = protected_folders(bases.clone());
                held.insert((bases, folders, Found::default()))
            }
        };
        folders.begin();
        let mut found = look_below(workspace, folders);
        folders.end();
        if found.cut_short {
            // What was known stays known, however many folders were made since.
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

fn look_below(workspace: &Path, remembered: &mut Folders) -> Found {
    let mut found = Found::default();
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

/// The git folders of submodules and linked worktrees, which lie in the one of the repository. A
/// name may have slashes, and a submodule may have submodules. Where they lie behind a link, the link.
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
            // Also a link: git takes one that leads nowhere yet.
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
