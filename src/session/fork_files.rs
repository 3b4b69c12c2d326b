//! A fork with separate files: a new folder, or a worktree of the repository, gets the files as
//! they were at the entry where the fork starts.
//!
//! The new folder is noted first. Then all files are written into it under temporary names. The
//! fork is recorded only when they are on the disk, together with the files to place (`Restoring`).
//! A kill before that leaves no fork, and the next start removes the temporary files. After a later
//! kill, the fork's next start places the rest.
//!
//! Invariant: nothing is put into a folder that is not empty, and nothing is removed but the
//! temporary files and empty folders.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::opening::NewCopy;
use super::{AppContext, Parting, SessionError, git_worktree, now_ms};
use crate::core::entry::{Entry, Record};
use crate::core::rewind::is_never_written;
use crate::core::tree::Tree;
use crate::store::{
    Batch, ForkNote, NewPlace, NewTree, SessionInfo, SessionLock, Store, root_in_bundle,
};
use crate::workspace::files::{CutShort, Order, Point, forget_staged, restore};
use folder::{ForkFolders, beside, is_empty_worktree, is_repository, make_like, text};
use laid_out::{ForkFiles, empty, files_at, not_placed, restored};

mod folder;
mod laid_out;
mod not_forked;

pub use not_forked::NotForked;

/// The place for the separate files of a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkFolder {
    /// This folder, which is new or empty.
    Folder(PathBuf),
    /// A new worktree of the repository. `None`: beside the repository, named after the fork's ID.
    Worktree(Option<PathBuf>),
}

/// A fork with separate files.
#[derive(Debug)]
pub struct ForkedInto {
    pub id: String,
    /// Root of its files.
    pub root: PathBuf,
    /// Notes for a person.
    pub notes: Vec<String>,
}

impl AppContext {
    /// Returns the folders of forks that are noted in this data folder.
    pub(super) fn fork_folders(&self) -> ForkFolders {
        ForkFolders {
            env: self.env.clone(),
            data_dir: self.paths.data_dir.clone(),
            own: self.own_folders(),
        }
    }

    /// Makes a fork with separate files.
    ///
    /// # Errors
    /// [`NotForked`]; nothing of it remains.
    pub fn fork_into(
        &self,
        store: &mut Store,
        origin: &SessionInfo,
        parting: Parting,
        wanted: &ForkFolder,
    ) -> Result<ForkedInto, NotForked> {
        let folders = self.fork_folders();
        folders.settle(store);
        let files = files_at(store, &origin.id, parting)?;
        let copy = NewCopy::begin(&self.paths.data_dir).map_err(SessionError::from)?;
        let (root, is_new) = match wanted {
            ForkFolder::Folder(folder) => folders.fresh(folder, &files.root)?,
            ForkFolder::Worktree(folder) => {
                is_repository(&files.root)?;
                let beside = || beside(&files.root, &copy.id);
                let fresh = folders.fresh(&folder.clone().unwrap_or_else(beside), &files.root)?;
                folders.no_worktree_of_the_user(&files.root, &fresh.0)?;
                fresh
            }
        };
        let root_there = root_in_bundle(&files.root);
        let below = below(origin, root_there.as_deref().unwrap_or(&files.root));
        let target = files.target(&root).map_err(NotForked::from)?;
        let note = ForkNote {
            folder: root.join(&below),
            is_new,
            target: target.name(),
            repository: matches!(wanted, ForkFolder::Worktree(_)).then(|| files.root.clone()),
            root,
        };
        note.write(&self.paths.data_dir, &copy.id)?;
        let id = copy.id.clone();
        let made = self.made(store, origin, copy, &files, &note, target);
        let is_settled = match store.history().knows(&id) {
            Ok(false) => {
                folders.take_away(&note);
                true
            }
            // If the store cannot be read, the note stays, and the next start settles it.
            is_known => is_known.is_ok(),
        };
        if is_settled {
            ForkNote::remove(&self.paths.data_dir, &id);
        }
        let notes = made?;
        Ok(ForkedInto {
            id,
            root: note.root,
            notes,
        })
    }

    /// Writes all files under temporary names, records the fork, and moves the files to their
    /// places.
    fn made(
        &self,
        store: &mut Store,
        origin: &SessionInfo,
        copy: NewCopy,
        files: &ForkFiles,
        note: &ForkNote,
        target: NewTree,
    ) -> Result<Vec<String>, NotForked> {
        let mut notes = files.notes();
        if let Some(repository) = &note.repository {
            let added = git_worktree::add(&self.env, repository, &note.root);
            let commit = added.map_err(|why| NotForked::Worktree {
                repository: repository.clone(),
                why,
            })?;
            notes.push(format!(
                "it is a worktree of {} at commit {commit}, on no branch: git switch -c NAME makes one",
                repository.display()
            ));
        }
        let not_made = |folder: &Path, e: &io::Error| NotForked::Folder {
            folder: folder.to_path_buf(),
            why: format!("it cannot be made: {e}"),
            hint: None,
        };
        if note.is_new {
            // Others must not be able to read in the new folder what they cannot read in the old
            // one.
            make_like(&files.root, &note.root).map_err(|e| not_made(&note.root, &e))?;
        }
        fs::create_dir_all(&note.folder).map_err(|e| not_made(&note.folder, &e))?;
        let (before, empty) = empty(&note.root)?;
        let restoring = Entry::Restoring {
            before,
            target: target.name(),
            to: Some(files.at),
            whole: true,
            new_folder: true,
            kept: Vec::new(),
            more_kept: 0,
        };
        let place = NewPlace {
            workspace: text(&note.root),
            folder: text(&note.folder),
        };
        let kept_contents = Store::open(&self.paths.data_dir)?;
        let mut recorded = None;
        let (mut begun, now) = (Some((copy, target)), now_ms());
        let done = restore(&mut Order {
            root: &note.root,
            before: &Tree::default(),
            target: &files.tree,
            id: &note.target,
            content: &mut |hash| match kept_contents.snapshots().content(hash) {
                Ok(Some(content)) => Ok(Some(content)),
                Ok(None) => Err("what a file was is not stored any more (rewake gc)".to_string()),
                Err(error) => Err(error.to_string()),
            },
            at: &mut |point| {
                if point != Point::AfterStage {
                    return Ok(());
                }
                let Some((copy, target)) = begun.take() else {
                    return Err(CutShort);
                };
                let parting = Parting::Behind(files.at);
                let also = (vec![restoring.clone()], vec![empty.clone(), target]);
                let copied = self.copy(
                    store,
                    copy,
                    &origin.id,
                    parting,
                    Some(place.clone()),
                    now,
                    |_| also,
                );
                let is_ok = copied.is_ok();
                recorded = Some(copied);
                is_ok.then_some(()).ok_or(CutShort)
            },
        });
        let not_laid_out = |why: String| NotForked::NotLaidOut {
            folder: note.root.clone(),
            why,
        };
        let done = done.unwrap_or_default();
        if let Some(why) = &done.why {
            return Err(not_laid_out(why.clone()));
        }
        let copied = match (recorded, begun) {
            (Some(copied), _) => copied?,
            // Without any file, the stage is skipped.
            (None, Some((copy, target))) => {
                let also = (vec![restoring], vec![empty, target]);
                self.copy(
                    store,
                    copy,
                    &origin.id,
                    Parting::Behind(files.at),
                    Some(place),
                    now,
                    |_| also,
                )?
            }
            (None, None) => return Err(not_laid_out("it was cut short".to_string())),
        };
        notes.extend(copied.warning.clone());
        notes.extend(not_placed(&done));
        let restored = restored(&done, &note.target);
        let mut state = copied.state;
        let record = Record {
            seq: state.next_seq(),
            at_ms: now_ms(),
            entry: restored.clone(),
        };
        state.fold(&record).map_err(|why| SessionError::Illegal {
            session: origin.id.clone(),
            why,
        })?;
        let batch = Batch {
            at_ms: record.at_ms,
            entries: vec![restored],
            unfinished: state.unfinished(),
            ..Batch::default()
        };
        let mut head = copied.head;
        // If this cannot be recorded, the fork's next start finds all files in place.
        if let Err(error) = store.append(&mut head, &batch) {
            tracing::warn!(%error, "that the files of a fork are in place is not recorded");
        }
        Ok(notes)
    }
}

impl ForkFolders {
    /// Refuses a folder that the repository knows as a worktree. One that was moved or is on a
    /// missing disk is still listed. No worktree can be made there, and none may be removed.
    fn no_worktree_of_the_user(&self, repository: &Path, root: &Path) -> Result<(), NotForked> {
        let listed = git_worktree::listed(&self.env, repository);
        let refused = |why| NotForked::Worktree {
            repository: repository.to_path_buf(),
            why,
        };
        match listed
            .map_err(refused)?
            .iter()
            .any(|known| known.folder == root)
        {
            false => Ok(()),
            true => Err(refused(format!(
                "{} is one already, by `git worktree list`",
                root.display()
            ))),
        }
    }

    /// Cleans up forks whose creation was killed. A fork that is not recorded is removed. A
    /// recorded one is completed by its next start.
    pub(super) fn settle(&self, store: &Store) {
        for (id, note) in ForkNote::all(&self.data_dir) {
            // The process that makes the fork holds its lock.
            let Ok(_lock) = SessionLock::take(&self.data_dir, &id) else {
                continue;
            };
            match (store.history().knows(&id), note) {
                (Err(_), _) => continue,
                (Ok(false), Some(note)) => self.take_away(&note),
                (Ok(_), _) => {}
            }
            ForkNote::remove(&self.data_dir, &id);
        }
    }

    /// Removes the temporary files and folders of a fork that was not recorded. None of its files
    /// is in place yet.
    fn take_away(&self, note: &ForkNote) {
        forget_staged(&note.root, &note.target);
        let folders = note.folder.ancestors();
        let below =
            folders.take_while(|folder| *folder != note.root && folder.starts_with(&note.root));
        for folder in below {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(folder);
        }
        if let Some(repository) = &note.repository
            && is_empty_worktree(&note.root)
        {
            if let Err(why) = git_worktree::remove(&self.env, repository, &note.root) {
                tracing::warn!(why, folder = ?note.root, "a worktree stays");
            }
            if !note.is_new {
                let _ = fs::create_dir(&note.root);
            }
        }
        if note.is_new {
            let _ = fs::remove_dir(&note.root);
        }
    }
}

/// Returns the session's folder below its root, if it is there.
fn below(origin: &SessionInfo, root: &Path) -> PathBuf {
    let folder = Path::new(&origin.folder).canonicalize();
    let folder = folder.unwrap_or_else(|_| PathBuf::from(&origin.folder));
    let below = folder.strip_prefix(root).map(Path::to_path_buf);
    below
        .ok()
        .filter(|below| !is_never_written(below.as_os_str().as_bytes()))
        .unwrap_or_default()
}
