//! The end of a worktree that rewake made. It is removed with its branch if nothing in it would be
//! lost. Otherwise it stays, and its contents are reported.
//!
//! Nothing would be lost if no file differs from its commit or is untracked, and if all commits of
//! its branch are in the branch or commit that it started from. This result is noted before
//! anything is removed. After a kill in between, the next check removes the worktree, or it is made
//! again for the session that continues in it.
//!
//! A branch is removed only if another branch, a tag or `HEAD` contains its commits by then, and if
//! it is not checked out elsewhere.
//!
//! Invariant: nothing is removed in place: the folder is renamed first, so no half-removed one is
//! ever found under its own name.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::git_worktree::GitWorktree;
use super::worktrees::Worktrees;
use super::{git_worktree, worktree_use};
use crate::config::{worktree_at, worktrees_of};
use crate::core::text::{count, one_line};
use crate::store::{SessionFilter, SessionLock, Store, StoreError, WorktreeNote, WorktreeStage};
use crate::workspace::is_plain;

/// Time to wait for another process that makes a worktree of the same project.
const LOCKED: Duration = Duration::from_secs(150);

/// Maximum number of sessions of one worktree that are checked.
const MAX_SESSIONS: u32 = 1_000;

/// The result of ending a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedWorktree {
    /// It was removed with its branch.
    Removed {
        /// Number of files and folders that git ignores and that were removed with it.
        ignored: u64,
    },
    /// It was not removed.
    Kept(KeptWorktree),
}

/// The result of checking a worktree that no process uses.
enum WorktreeCheck {
    Gone {
        ignored: u64,
    },
    /// It contains files or commits that are nowhere else.
    Holds {
        files: u64,
        commits: u64,
    },
}

/// Returns a note in parentheses about the ignored files that were removed with a worktree. Empty
/// if there were none.
pub fn removed_ignored_note(ignored: u64) -> String {
    match ignored {
        0 => String::new(),
        _ => format!(
            " ({} that git ignores went with it)",
            count(ignored, "file or folder")
        ),
    }
}

/// A worktree that stays, and its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWorktree {
    pub folder: PathBuf,
    pub branch: String,
    /// Number of uncommitted files.
    pub files: u64,
    /// Number of commits that are not merged.
    pub commits: u64,
    /// Why it stays, if its contents are not the reason.
    pub why: Option<String>,
}

impl fmt::Display for KeptWorktree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, branch {}: ", self.folder.display(), self.branch)?;
        if let Some(why) = &self.why {
            return f.write_str(why);
        }
        match (self.commits, self.files) {
            (0, files) => write!(f, "{} not committed", count(files, "file")),
            (commits, 0) => write!(f, "{} not merged", count(commits, "commit")),
            (commits, files) => write!(
                f,
                "{} not merged, {} not committed",
                count(commits, "commit"),
                count(files, "file")
            ),
        }
    }
}

/// A worktree of rewake in a list for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeRow {
    pub folder: PathBuf,
    pub branch: String,
    /// Whether no session uses it any more.
    pub is_left: bool,
}

impl Worktrees {
    /// Ends a worktree that no process uses. `forget`: no session will return to it, so its note is
    /// removed too.
    pub(super) fn end(&self, note: &WorktreeNote, forget: bool) -> EndedWorktree {
        let data_dir = &self.data_dir;
        let folder = note.folder(data_dir);
        let kept = |files, commits, why: Option<String>| {
            EndedWorktree::Kept(KeptWorktree {
                folder: folder.clone(),
                branch: note.branch.clone(),
                files,
                commits,
                why,
            })
        };
        match self.remove_if_empty(note, &folder, forget) {
            Ok(WorktreeCheck::Gone { ignored }) => EndedWorktree::Removed { ignored },
            Ok(WorktreeCheck::Holds { files, commits }) => kept(files, commits, None),
            Err(why) => kept(0, 0, Some(one_line(&why, 300))),
        }
    }

    /// Returns a line about the work in the worktree of this start that its project does not have, and
    /// how to get it there. `None`: there is none.
    pub fn work_note(&self) -> Option<String> {
        let (env, data_dir) = (&self.env, &self.data_dir);
        let mut note = WorktreeNote::of_folder(data_dir, &worktree_at(data_dir, &self.here.root)?)?;
        let folder = note.folder(data_dir);
        let shown = folder.display();
        // The branch of the worktree may be another one by now.
        note.branch = git_worktree::branch_of(env, &folder).unwrap_or(note.branch);
        let tip = git_worktree::tip(env, &note.project, &note.branch)?;
        let commits = self.commits_of(&note, &tip).unwrap_or(0);
        let merge = format!("git merge {}", note.branch);
        let is_plain = is_plain(&folder.to_string_lossy());
        let files = is_plain.and_then(|()| git_worktree::changed(env, &note.project, &folder));
        let files = match files {
            Ok(0) if commits == 0 => return None,
            Ok(0) => {
                let commits = count(commits, "commit");
                return Some(format!("worktree {}: {merge} merges {commits}", note.name));
            }
            Ok(files) => count(files, "file"),
            Err(_) => "perhaps files are".to_string(),
        };
        Some(format!(
            "worktree {}: {files} not committed; git -C {shown} add -A && git -C {shown} commit, then {merge}",
            note.name
        ))
    }

    /// Locks the worktrees of a project, since only one process at a time may make and remove them.
    /// A git that outlives its process still holds the lock.
    ///
    /// # Errors
    /// Why it cannot be locked.
    pub(super) fn lock(&self, project: &Path) -> Result<File, String> {
        let file = worktrees_of(&self.data_dir, project).join(".lock");
        let held = "another process makes or removes one, and does not end";
        worktree_use::exclusive_within(&file, LOCKED, held)
    }

    fn remove_if_empty(
        &self,
        note: &WorktreeNote,
        folder: &Path,
        forget: bool,
    ) -> Result<WorktreeCheck, String> {
        let (env, data_dir) = (&self.env, &self.data_dir);
        let project = &note.project;
        let gone = || Ok(WorktreeCheck::Gone { ignored: 0 });
        if note.stage == WorktreeStage::Removed && !forget {
            return gone();
        }
        let _lock = self.lock(project)?;
        let _alone = worktree_use::exclusive(&note.in_use(data_dir))?;
        // Another process may have changed the note meanwhile.
        let Some(note) = WorktreeNote::read(data_dir, project, &note.name) else {
            return gone();
        };
        if note.stage == WorktreeStage::Removed {
            if forget {
                note.remove(data_dir);
            }
            return gone();
        }
        let listed = git_worktree::listed(env, project)?;
        let known = listed.iter().find(|listed| listed.folder == folder);
        let aside = note.gone(data_dir);
        let is_away = folder.symlink_metadata().is_err();
        if is_away && known.is_some() && aside.join(".git").symlink_metadata().is_ok() {
            // An earlier removal was interrupted after the rename, before git forgot the worktree.
            let failed = |e: std::io::Error| format!("it cannot be looked at: {e}");
            fs::rename(&aside, folder).map_err(failed)?;
        }
        self.remove_if_lossless(note, folder, &listed, forget)
    }

    /// Checks the contents of a worktree, and removes it if nothing would be lost.
    fn remove_if_lossless(
        &self,
        mut note: WorktreeNote,
        folder: &Path,
        listed: &[GitWorktree],
        forget: bool,
    ) -> Result<WorktreeCheck, String> {
        let (env, data_dir) = (&self.env, &self.data_dir);
        let project = note.project.clone();
        let mut others = listed.iter().filter(|listed| listed.folder != folder);
        let has_it = |other: &&GitWorktree| other.branch.as_deref() == Some(note.branch.as_str());
        let elsewhere = others.find(has_it);
        let known = listed.iter().find(|listed| listed.folder == folder);
        let (mut files, mut ignored) = (0, 0);
        let is_half = known.is_some_and(|known| known.is_half(&note));
        if folder.symlink_metadata().is_ok() && !is_half {
            let known = known.ok_or("git does not know it")?;
            if let Some(why) = &known.locked {
                return Err(format!("it is locked: {why}"));
            }
            if known.branch.as_deref() != Some(note.branch.as_str()) {
                return Err("another branch is checked out in it".to_string());
            }
            if let Some(what) = git_worktree::unfinished(folder) {
                return Err(format!("{what} is not finished in it"));
            }
            is_plain(&folder.to_string_lossy())?;
            if has_submodules(folder) || git_worktree::has_filled_submodule(env, &project, folder)?
            {
                return Err("it has submodules".to_string());
            }
            files = git_worktree::changed(env, &project, folder)?;
            ignored = git_worktree::ignored(env, &project, folder)?;
        }
        // The branch is removed later only if it is still at this commit.
        let tip = git_worktree::tip(env, &project, &note.branch);
        let commits = match &tip {
            Some(tip) => self.commits_of(&note, tip)?,
            None => 0,
        };
        if files > 0 || commits > 0 {
            if note.stage == WorktreeStage::Removing {
                note.stage = WorktreeStage::Made;
                note.write(data_dir).map_err(|e| e.to_string())?;
            }
            return Ok(WorktreeCheck::Holds { files, commits });
        }
        if let Some(other) = elsewhere {
            let other = other.folder.display();
            return Err(format!("its branch is checked out in {other}"));
        }
        self.remove_checked(note, folder, (known, tip), forget, ignored)
    }

    /// Returns the number of commits of its branch that are nowhere else.
    fn commits_of(&self, note: &WorktreeNote, tip: &str) -> Result<u64, String> {
        let (env, project) = (&self.env, &note.project);
        if git_worktree::is_symbolic(env, project, &note.branch) {
            return Err(format!("{} is another name of a branch", note.branch));
        }
        let mut merged = vec![note.commit.clone()];
        let base = note.base.as_ref();
        merged.extend(base.and_then(|base| git_worktree::tip(env, project, base)));
        match git_worktree::commits(env, project, tip, &merged)? {
            0 => git_worktree::only_in(env, project, &note.branch, tip),
            commits => Ok(commits),
        }
    }

    /// Removes a worktree. The caller has checked that nothing would be lost.
    fn remove_checked(
        &self,
        mut note: WorktreeNote,
        folder: &Path,
        (known, tip): (Option<&GitWorktree>, Option<String>),
        forget: bool,
        ignored: u64,
    ) -> Result<WorktreeCheck, String> {
        let (env, data_dir) = (&self.env, &self.data_dir);
        let project = note.project.clone();
        let is_half = known.is_some_and(|known| known.is_half(&note));
        note.commit = tip.clone().unwrap_or(note.commit);
        note.stage = WorktreeStage::Removing;
        note.write(data_dir).map_err(|e| e.to_string())?;
        let aside = note.gone(data_dir);
        let failed = |e: std::io::Error| format!("it cannot be removed: {e}");
        if aside.symlink_metadata().is_ok() {
            fs::remove_dir_all(&aside).map_err(failed)?;
        }
        if folder.symlink_metadata().is_ok() && !is_half {
            let beside = aside.parent().unwrap_or(&aside);
            fs::create_dir_all(beside).map_err(failed)?;
            fs::rename(folder, &aside).map_err(failed)?;
            // This second check finds changes that others made until the rename.
            let back = || fs::rename(&aside, folder).map_err(failed);
            match git_worktree::changed(env, &project, &aside) {
                Ok(0) => {}
                Ok(files) => {
                    back()?;
                    note.stage = WorktreeStage::Made;
                    note.write(data_dir).map_err(|e| e.to_string())?;
                    return Ok(WorktreeCheck::Holds { files, commits: 0 });
                }
                Err(why) => {
                    back()?;
                    return Err(why);
                }
            }
        }
        if known.is_some() {
            git_worktree::remove(env, &project, folder)?;
        }
        if let Some(tip) = &tip {
            git_worktree::remove_branch(env, &project, &note.branch, tip)?;
        }
        if aside.symlink_metadata().is_ok()
            && let Err(error) = fs::remove_dir_all(&aside)
        {
            tracing::warn!(%error, "what is left of a worktree stays");
            return Ok(WorktreeCheck::Gone { ignored });
        }
        if forget {
            note.remove(data_dir)
        } else {
            note.stage = WorktreeStage::Removed;
            note.write(data_dir).map_err(|e| e.to_string())?;
        }
        Ok(WorktreeCheck::Gone { ignored })
    }

    /// Ends the worktree of a subagent that has ended. `None`: it has none.
    pub(super) fn end_of_task(&self, session: &str, is_used: bool) -> Option<String> {
        let data_dir = &self.data_dir;
        let all = WorktreeNote::all(data_dir).into_iter();
        let mut its = all.filter(|note| note.session.as_deref() == Some(session));
        let note = its.next()?;
        let lock = SessionLock::take(data_dir, session);
        if is_used || lock.is_err() {
            return Some(format!(
                "[its worktree is still in use: {}, branch {}]",
                note.folder(data_dir).display(),
                note.branch
            ));
        }
        Some(match self.end(&note, false) {
            EndedWorktree::Removed { ignored } => format!(
                "[its worktree had nothing to keep and is removed{}]",
                removed_ignored_note(ignored)
            ),
            EndedWorktree::Kept(kept) if kept.commits > 0 => {
                format!(
                    "[its worktree is kept: {kept}; git merge {} merges it]",
                    kept.branch
                )
            }
            EndedWorktree::Kept(kept) => format!("[its worktree is kept: {kept}]"),
        })
    }

    /// Removes the worktrees of subagents whose creation was killed before their session was
    /// recorded.
    pub(super) fn settle(&self, store: &Store) {
        let data_dir = &self.data_dir;
        for note in WorktreeNote::all(data_dir) {
            let Some(session) = &note.session else {
                continue;
            };
            if !matches!(store.history().knows(session), Ok(false)) {
                continue;
            }
            // The process that makes it holds the lock of the session.
            if let Ok(_lock) = SessionLock::take(data_dir, session) {
                self.end(&note, true);
            }
        }
    }

    /// Ends the unused worktrees: no session is left in them, or none has pending work. Those
    /// without contents are removed. Returns the results for the removed ones, and for those
    /// without a session.
    pub fn end_unused(&self, store: &Store) -> Result<Vec<EndedWorktree>, StoreError> {
        let data_dir = &self.data_dir;
        let mut ended = Vec::new();
        for note in WorktreeNote::all(data_dir) {
            let is_left = is_left(data_dir, store, &note)?;
            let folder = note.folder(data_dir);
            let is_away = note.stage == WorktreeStage::Removed;
            if (is_away && !is_left) || self.is_worked_in(store, &note, &folder)? {
                continue;
            }
            match self.end(&note, is_left) {
                EndedWorktree::Kept(_) if !is_left => {}
                // Only its note remained.
                EndedWorktree::Removed { .. } if is_away => {}
                end => ended.push(end),
            }
        }
        Ok(ended)
    }

    /// Ends the worktrees without a session after a purge. A later `rewake gc` ends the rest.
    pub(super) fn end_of_purged(
        &self,
        folders: &[PathBuf],
        open_store: impl Fn() -> Option<Store>,
    ) -> Vec<EndedWorktree> {
        let data_dir = &self.data_dir;
        let worktrees = folders.iter().filter_map(|f| worktree_at(data_dir, f));
        let worktrees: BTreeSet<PathBuf> = worktrees.collect();
        if worktrees.is_empty() {
            return Vec::new();
        }
        let Some(store) = open_store() else {
            return Vec::new();
        };
        let notes = worktrees
            .iter()
            .filter_map(|worktree| WorktreeNote::of_folder(data_dir, worktree));
        let left = notes.filter(|note| {
            let folder = note.folder(data_dir);
            matches!(store.history().count_in(&folder.to_string_lossy()), Ok(0))
        });
        left.map(|note| self.end(&note, true)).collect()
    }

    /// Returns whether a worktree has a session with pending work, or one that a process uses.
    fn is_worked_in(
        &self,
        store: &Store,
        note: &WorktreeNote,
        folder: &Path,
    ) -> Result<bool, StoreError> {
        let root = folder.to_string_lossy();
        let filter = SessionFilter {
            children: true,
            ..SessionFilter::of(&root)
        };
        let sessions = store.history().sessions(filter, MAX_SESSIONS)?;
        let is_held = |id: &str| SessionLock::is_held(&self.data_dir, id);
        let is_used = sessions
            .iter()
            .any(|info| info.unfinished || is_held(&info.id));
        Ok(is_used || note.session.as_deref().is_some_and(is_held))
    }
}

/// Returns the worktrees that rewake made and that are not removed.
pub fn worktree_rows(data_dir: &Path, store: &Store) -> Result<Vec<WorktreeRow>, StoreError> {
    let mut rows = Vec::new();
    for note in WorktreeNote::all(data_dir) {
        let folder = note.folder(data_dir);
        let is_left = is_left(data_dir, store, &note)?;
        if note.stage != WorktreeStage::Removed {
            rows.push(WorktreeRow {
                folder,
                branch: note.branch,
                is_left,
            });
        }
    }
    Ok(rows)
}

/// Returns whether no session uses the worktree. Sessions in the trash count as users.
fn is_left(data_dir: &Path, store: &Store, note: &WorktreeNote) -> Result<bool, StoreError> {
    let folder = note.folder(data_dir);
    Ok(store.history().count_in(&folder.to_string_lossy())? == 0)
}

/// Returns whether git's folder of a worktree contains submodules, which would be removed with it.
fn has_submodules(worktree: &Path) -> bool {
    let own = git_worktree::own_folder(worktree);
    own.is_none_or(|own| own.join("modules").exists())
}
