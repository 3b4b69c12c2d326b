//! Notes about git worktrees that rewake makes, in the folder of the project's worktrees. A note
//! exists from before git is called until the worktree is removed permanently. So whatever a kill
//! leaves has a name, a branch and the session that it was for.
//!
//! Invariant: a note is replaced whole, by a rename: it has either the old content or the new one.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::database::private_folder;
use super::error::io as io_error;
use crate::config::{project_note, replace_file, worktrees_folder, worktrees_of};

const WHAT: &str = "note a worktree";

/// Folder of the notes, beside the worktrees of a project. No worktree has such a name.
const NOTES: &str = ".notes";
/// Folder of files that are locked by the processes that work in a worktree.
const IN_USE: &str = ".in-use";
/// Folder of worktrees that are being removed: nothing in them needs to be kept.
const GONE: &str = ".gone";

/// Maximum size of a note, in bytes: it has a few paths.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_NOTES: usize = 1_000;

/// The progress of making or removing a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeStage {
    /// Git may not have been called yet. Nobody worked in it.
    Begun,
    /// It exists, unless somebody removed it.
    Made,
    /// All of it was committed and merged, so it is being removed.
    Removing,
    /// It is removed, with its branch. It is made again when it is needed.
    Removed,
}

/// A git worktree that rewake makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeNote {
    /// The root of the project.
    pub project: PathBuf,
    pub name: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The full hash of the commit at which it started, or at which its branch was when it was
    /// removed.
    pub commit: String,
    /// The branch from which it started. `None`: no branch was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The session of the subagent that it is for. `None`: a person named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub stage: WorktreeStage,
    /// Whether it is being made again, so that git may have an incomplete worktree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remaking: bool,
}

impl WorktreeNote {
    /// Returns the folder of the worktree.
    pub fn folder(&self, data_dir: &Path) -> PathBuf {
        worktrees_of(data_dir, &self.project).join(&self.name)
    }

    /// Returns the file that the processes in the worktree lock.
    pub fn in_use(&self, data_dir: &Path) -> PathBuf {
        let folder = worktrees_of(data_dir, &self.project);
        folder.join(IN_USE).join(&self.name)
    }

    /// Returns the path to which a removed worktree is moved first.
    pub fn gone(&self, data_dir: &Path) -> PathBuf {
        let folder = worktrees_of(data_dir, &self.project);
        folder.join(GONE).join(&self.name)
    }

    /// Writes the note. It is durable when this returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, data_dir: &Path) -> Result<(), StoreError> {
        let folder = worktrees_of(data_dir, &self.project);
        private_folder(&worktrees_folder(data_dir))?;
        private_folder(&folder)?;
        let notes = folder.join(NOTES);
        private_folder(&notes)?;
        let failed = |error| io_error(WHAT, error);
        let project = project_note(&folder);
        if !project.exists() {
            let bytes = self.project.as_os_str().as_encoded_bytes();
            replace_file(&folder, &project, bytes).map_err(failed)?;
        }
        let text = serde_json::to_vec(self).map_err(|e| failed(e.into()))?;
        replace_file(&notes, &notes.join(&self.name), &text).map_err(failed)
    }

    /// Returns the note of this project and name.
    pub fn read(data_dir: &Path, project: &Path, name: &str) -> Option<WorktreeNote> {
        let file = worktrees_of(data_dir, project).join(NOTES).join(name);
        note_in(&file).filter(|note| note.project == project && note.name == name)
    }

    /// Returns the note of the worktree with this folder.
    pub fn of_folder(data_dir: &Path, worktree: &Path) -> Option<WorktreeNote> {
        let file = worktree.parent()?.join(NOTES).join(worktree.file_name()?);
        note_in(&file).filter(|note| note.folder(data_dir) == worktree)
    }

    /// Returns all notes.
    pub fn all(data_dir: &Path) -> Vec<WorktreeNote> {
        let folders = fs::read_dir(worktrees_folder(data_dir));
        let projects = folders.into_iter().flatten().flatten();
        let notes = projects.flat_map(|project| {
            let notes = fs::read_dir(project.path().join(NOTES));
            notes.into_iter().flatten().flatten()
        });
        // A kill may leave a temporary file that was to replace a note.
        let is_note = |file: &fs::DirEntry| !file.file_name().as_encoded_bytes().starts_with(b".");
        let notes = notes.filter(is_note).take(MAX_NOTES);
        let read = notes.filter_map(|file| note_in(&file.path()));
        let mut all: Vec<WorktreeNote> = read.collect();
        all.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
        all
    }

    /// Removes the note: nothing is left to be done, and nobody will use the worktree again.
    pub fn remove(&self, data_dir: &Path) {
        let folder = worktrees_of(data_dir, &self.project);
        // A note that stays is read again, and found to be done.
        let _ = fs::remove_file(folder.join(NOTES).join(&self.name));
        let _ = fs::remove_file(self.in_use(data_dir));
        for empty in [NOTES, IN_USE, GONE] {
            let _ = fs::remove_dir(folder.join(empty));
        }
    }
}

fn note_in(file: &Path) -> Option<WorktreeNote> {
    let is_small = fs::metadata(file).is_ok_and(|found| found.len() <= MAX_BYTES);
    let text = is_small.then(|| fs::read(file).ok()).flatten()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_by_its_project_and_by_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().canonicalize().unwrap();
        let mut note = WorktreeNote {
            project: data.join("project"),
            name: "fix".into(),
            branch: "rewake/fix".into(),
            commit: "0".repeat(40),
            base: Some("main".into()),
            session: None,
            stage: WorktreeStage::Begun,
            remaking: false,
        };
        assert_eq!(WorktreeNote::all(&data), []);
        for stage in [WorktreeStage::Begun, WorktreeStage::Made] {
            note.stage = stage;
            note.write(&data).unwrap();
            assert_eq!(WorktreeNote::all(&data), [note.clone()]);
        }
        let of = |name| WorktreeNote::read(&data, &note.project, name);
        assert_eq!(of("fix"), Some(note.clone()));
        assert_eq!(of("other"), None);
        let folder = note.folder(&data);
        assert_eq!(WorktreeNote::of_folder(&data, &folder), Some(note.clone()));
        note.remove(&data);
        assert_eq!(WorktreeNote::all(&data), []);
    }
}
