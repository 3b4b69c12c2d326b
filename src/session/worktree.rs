//! Git worktrees that rewake makes for sessions: `-w NAME`, and a task with `worktree`.
//!
//! The order: the note is durable, then git makes the worktree, then the note says that it is made,
//! then the session is recorded. After a kill, the note and `git worktree list` together tell the
//! state, so completing a half-made worktree is the same as making it: [`Worktrees::there`].
//!
//! Invariant: no worktree is made in a place that is taken, and no branch is created again that
//! existed once, unless all of it was merged.

use std::fs;
use std::path::{Path, PathBuf};

use super::changes::{PATIENCE, changes};
use super::git_settings::filters_left_out;
use super::worktree_end::EndedWorktree;
use super::worktrees::Worktrees;
use super::{AppContext, NoWorktree, SessionError, git_worktree, worktree_use};
use crate::config::{self, Warning, project_root, worktree_at};
use crate::core::text::{count, one_line};
use crate::core::visible::visible;
use crate::sandbox::Repository;
use crate::store::{SessionFilter, Store, StoreError, WorktreeNote, WorktreeStage};
use crate::workspace::{here, is_plain};

/// Prefix of the branches of worktrees.
const BRANCHES: &str = "rewake";
const MAX_NAME_BYTES: usize = 64;

/// The state in which a worktree was found.
enum WorktreeState {
    There,
    /// It was missing and was made again.
    MadeAgain,
}

impl AppContext {
    /// Returns this context for the worktree of this name, and makes the worktree. `resumes`: it
    /// exists already, and its newest session is to be resumed.
    ///
    /// # Errors
    /// [`SessionError::Worktree`], or an error of the folder or its config.
    pub fn in_worktree(&self, name: &str, resumes: bool) -> Result<AppContext, SessionError> {
        check_name(name)?;
        let project = project_root(&self.paths, &self.here.root)?;
        let worktrees = self.worktrees();
        let mut said = Vec::new();
        let (note, is_new) =
            worktrees.enter_named(&project, name, resumes, &|| self.open_store())?;
        let note = if is_new {
            let note = worktrees.make_noted(note)?;
            said.extend(worktrees.missing_file_notes());
            note
        } else {
            said.extend(worktrees.make_there(note.clone(), name)?);
            note
        };
        let folder = worktrees.below(&note.folder(&self.paths.data_dir));
        said.insert(
            0,
            format!(
                "worktree {name}: {}, branch {}",
                folder.display(),
                note.branch
            ),
        );
        let mut its = self.at(&folder)?;
        let warning = |text| Warning { text, hint: None };
        let said = said.into_iter().map(warning);
        its.loaded.warnings = said.chain(its.loaded.warnings).collect();
        Ok(its)
    }

    /// Returns this context for a folder of another workspace.
    pub(super) fn at(&self, folder: &Path) -> Result<AppContext, SessionError> {
        let here = here(folder).map_err(|why| SessionError::Folder {
            session: folder.display().to_string(),
            why,
        })?;
        let loaded = config::load(&self.env, &self.paths, &here.root, &self.flags)?;
        Ok(AppContext {
            here,
            ..self.with(loaded)
        })
    }
}

impl Worktrees {
    /// Marks the worktree of this name as used by this process. `true`: it was noted now. Of two
    /// starts with the same name, only one succeeds.
    fn enter_named(
        &self,
        project: &Path,
        name: &str,
        resumes: bool,
        open_store: &dyn Fn() -> Result<Store, StoreError>,
    ) -> Result<(WorktreeNote, bool), SessionError> {
        let data_dir = &self.data_dir;
        let lock = self.lock(project);
        let failed = |why: String| NoWorktree::new(format!("no worktree {name}: {why}"), None);
        let _lock = lock.map_err(failed)?;
        let found = match WorktreeNote::read(data_dir, project, name) {
            Some(note) => {
                self.may_be_taken(&note, resumes, open_store)?;
                (note, false)
            }
            None if resumes => {
                return Err(NoWorktree::new(
                    format!("there is no worktree {name} of {}", project.display()),
                    Some(format!("without -c one is made: rewake -w {name}")),
                )
                .into());
            }
            None => (self.begin(project, name, None)?, true),
        };
        enter(&found.0, data_dir)?;
        Ok(found)
    }

    /// If this process was started in a worktree of rewake, marks it as used, so that nobody
    /// removes it.
    ///
    /// # Errors
    /// Another process is removing it.
    pub fn mark_own_worktree_used(&self) -> Result<(), SessionError> {
        let data_dir = &self.data_dir;
        let worktree = worktree_at(data_dir, &self.here.root);
        match worktree.and_then(|worktree| WorktreeNote::of_folder(data_dir, &worktree)) {
            Some(note) => Ok(enter(&note, data_dir)?),
            None => Ok(()),
        }
    }

    /// Checks whether a start may use an existing worktree. A start that was killed before its
    /// session was recorded may be repeated.
    fn may_be_taken(
        &self,
        note: &WorktreeNote,
        resumes: bool,
        open_store: &dyn Fn() -> Result<Store, StoreError>,
    ) -> Result<(), SessionError> {
        let name = &note.name;
        if let Some(session) = &note.session {
            return Err(NoWorktree::new(
                format!("the worktree {name} is that of a task, session {session}"),
                Some("choose another name".to_string()),
            )
            .into());
        }
        let folder = note.folder(&self.data_dir);
        let is_used = || worktree_use::is_used(&note.in_use(&self.data_dir));
        if !resumes && (is_used() || has_sessions(&open_store()?, &folder)?) {
            return Err(NoWorktree::new(
                format!("there is a worktree {name} already: {}", folder.display()),
                Some(format!(
                    "rewake -w {name} -c resumes its newest session; another name makes another one"
                )),
            )
            .into());
        }
        Ok(())
    }

    fn make_there(&self, note: WorktreeNote, name: &str) -> Result<Option<String>, NoWorktree> {
        let folder = note.folder(&self.data_dir);
        let found = self.complete_worktree(note)?;
        Ok(matches!(found, WorktreeState::MadeAgain).then(|| recreated_note(name, &folder)))
    }

    /// Makes sure that the worktree of a session's folder exists. If it was missing, makes it again
    /// and returns a notice. Does nothing for another folder.
    ///
    /// # Errors
    /// It cannot be made again.
    pub(super) fn there(&self, folder: &Path) -> Result<Option<String>, NoWorktree> {
        let data_dir = &self.data_dir;
        let Some(worktree) = worktree_at(data_dir, folder) else {
            return Ok(None);
        };
        let note = WorktreeNote::of_folder(data_dir, &worktree);
        match note {
            Some(note) => {
                let name = note.name.clone();
                let lock = self.lock(&note.project);
                let lock = lock.map_err(|why| note_failed(&note, &why))?;
                enter(&note, data_dir)?;
                drop(lock);
                self.make_there(note, &name)
            }
            None if worktree.is_dir() => Ok(None),
            None => Err(NoWorktree::new(
                format!(
                    "the worktree {} is gone, and rewake knows nothing of it",
                    worktree.display()
                ),
                Some("git worktree add makes a folder of that name again".to_string()),
            )),
        }
    }

    /// Checks that a worktree can be made, and notes it. Makes nothing else. `session`: the
    /// subagent that it is for.
    pub(super) fn begin(
        &self,
        project: &Path,
        name: &str,
        session: Option<&str>,
    ) -> Result<WorktreeNote, NoWorktree> {
        let (env, root) = (&self.env, &self.here.root);
        let data_dir = &self.data_dir;
        let refused = |why: &str, hint: String| {
            Err(NoWorktree::new(
                format!("cannot create worktree {name}: {} {why}", root.display()),
                Some(hint),
            ))
        };
        if git_worktree::is_bare(env, root) {
            let hint = "work in a worktree of it (git worktree list), or in a clone: git clone";
            return refused("is a bare repository", hint.into());
        }
        if !self.here.is_git {
            let hint = "git init, then a first commit";
            return refused("is not a git repository", hint.into());
        }
        if Repository::named_by(root).is_some_and(|named| !named.is_of(root)) {
            let hint = "if it is yours: git worktree repair, or git config core.worktree \"$PWD\"";
            return refused("has a git folder that does not name it", hint.into());
        }
        let Some(commit) = git_worktree::commit_of(env, root, "HEAD") else {
            let hint = "commit something first: a worktree begins at a commit";
            return refused("has no commit", hint.into());
        };
        let branch = format!("{BRANCHES}/{name}");
        for taken in [BRANCHES, &branch] {
            if git_worktree::tip(env, root, taken).is_some() {
                let hint = format!("choose another name, or rename it: git branch -m {taken} NEW");
                return refused(&format!("has a branch {taken}"), hint);
            }
        }
        let note = WorktreeNote {
            project: project.to_path_buf(),
            name: name.to_string(),
            branch,
            commit,
            base: git_worktree::branch_of(env, root),
            session: session.map(str::to_string),
            stage: WorktreeStage::Begun,
            remaking: false,
        };
        let folder = note.folder(data_dir);
        let listed = git_worktree::listed(env, root).map_err(|why| note_failed(&note, &why))?;
        if folder.symlink_metadata().is_ok() || listed.iter().any(|l| l.folder == folder) {
            let hint = "choose another name; git worktree list shows those that git knows";
            return refused(
                &format!("cannot use {}, which is taken", folder.display()),
                hint.into(),
            );
        }
        note.write(data_dir)?;
        Ok(note)
    }

    /// Makes a worktree that was noted now. If git refuses, nothing of it remains.
    pub(super) fn make_noted(&self, note: WorktreeNote) -> Result<WorktreeNote, NoWorktree> {
        let made = self.complete_worktree(note.clone());
        if made.is_err() {
            worktree_use::leave(&note.in_use(&self.data_dir));
            self.end(&note, true);
        }
        made.map(|_| WorktreeNote {
            stage: WorktreeStage::Made,
            ..note
        })
    }

    /// Makes the missing parts of a worktree, whatever a kill or a person left of it.
    fn complete_worktree(&self, mut note: WorktreeNote) -> Result<WorktreeState, NoWorktree> {
        let (env, data_dir) = (&self.env, &self.data_dir);
        let in_use = note.in_use(data_dir);
        let mut lock = None;
        if note.stage == WorktreeStage::Removing {
            let is_ours = worktree_use::leave(&in_use);
            if let EndedWorktree::Kept(_) = self.end(&note, false) {
                note.stage = WorktreeStage::Made;
            }
            if is_ours {
                let held = self.lock(&note.project);
                lock = Some(held.map_err(|why| note_failed(&note, &why))?);
                enter(&note, data_dir)?;
            }
        }
        let failed = |why: String| note_failed(&note, &why);
        let lock = match lock {
            Some(lock) => lock,
            None => self.lock(&note.project).map_err(failed)?,
        };
        let folder = note.folder(data_dir);
        let listed = git_worktree::listed(env, &note.project).map_err(failed)?;
        let known = listed.iter().find(|listed| listed.folder == folder);
        let is_half = known.is_some_and(|known| known.is_half(&note));
        let has_git = folder.join(".git").symlink_metadata().is_ok();
        if known.is_some() && has_git && !is_half {
            self.check_top(&note, &folder)?;
            self.is_made(note)?;
            return Ok(WorktreeState::There);
        }
        if !is_half && !is_free(&folder) {
            return Err(NoWorktree::new(
                format!(
                    "cannot work in the worktree {}: {}",
                    folder.display(),
                    match has_git {
                        true => "git does not know it any more",
                        false => "its file .git is gone",
                    }
                ),
                Some(match has_git {
                    true => format!(
                        "git -C {} worktree repair {}; or move it away, and it is made again",
                        note.project.display(),
                        folder.display()
                    ),
                    false => "move it away, and it is made again from its branch".to_string(),
                }),
            ));
        }
        if let Some(known) = known {
            if let (Some(why), false) = (&known.locked, is_half) {
                return Err(NoWorktree::new(
                    format!(
                        "the worktree {} is away, and it is locked: {}",
                        folder.display(),
                        one_line(why, 200)
                    ),
                    Some(format!("git worktree unlock {}", folder.display())),
                ));
            }
            git_worktree::remove(env, &note.project, &folder).map_err(failed)?;
        }
        let has_branch = git_worktree::tip(env, &note.project, &note.branch).is_some();
        let was_made = note.stage == WorktreeStage::Made;
        let begin = match (has_branch, was_made) {
            (true, _) => None,
            (false, false) => Some(note.commit.as_str()),
            (false, true) => {
                return Err(NoWorktree::new(
                    format!(
                        "the worktree {} is gone, and so is its branch {}",
                        folder.display(),
                        note.branch
                    ),
                    Some(format!(
                        "git branch {} {} makes the branch where it began; then the worktree is made again",
                        note.branch, note.commit
                    )),
                ));
            }
        };
        if note.session.is_some() {
            // Nobody would see which programs a filter of the repository runs.
            is_plain(&note.project.to_string_lossy()).map_err(failed)?;
        }
        if note.stage != WorktreeStage::Begun {
            note.remaking = true;
            note.write(data_dir)?;
        }
        let failed = |why: String| note_failed(&note, &why);
        git_worktree::add_branch(env, &note.project, &folder, &note.branch, begin, &lock)
            .map_err(failed)?;
        if let Err(misplaced) = self.check_top(&note, &folder) {
            // If git failed for another reason, the worktree stays.
            if git_worktree::has_other_top(env, &note.project, &folder) {
                git_worktree::remove(env, &note.project, &folder).map_err(failed)?;
            }
            return Err(misplaced);
        }
        drop(lock);
        self.is_made(note)?;
        Ok(match was_made {
            true => WorktreeState::MadeAgain,
            false => WorktreeState::There,
        })
    }

    /// Checks that git works on the files of a worktree, not on those that a setting of its repository
    /// names for all worktrees.
    fn check_top(&self, note: &WorktreeNote, folder: &Path) -> Result<(), NoWorktree> {
        let top = git_worktree::top_of(&self.env, &note.project, folder);
        if top.is_ok() && top.ok() == folder.canonicalize().ok() {
            return Ok(());
        }
        let hint = "for core.worktree: git config --worktree core.worktree \"$(git config core.worktree)\", \
                    then git config --local --unset core.worktree";
        Err(NoWorktree::new(
            format!(
                "there can be no worktree {} of {}: with extensions.worktreeConfig, its core.worktree or \
                 core.bare applies to all worktrees, so git does not find the files of this one",
                note.name,
                note.project.display()
            ),
            Some(hint.to_string()),
        ))
    }

    fn is_made(&self, mut note: WorktreeNote) -> Result<(), NoWorktree> {
        if note.stage != WorktreeStage::Made || note.remaking {
            note.stage = WorktreeStage::Made;
            note.remaking = false;
            note.write(&self.data_dir)?;
        }
        Ok(())
    }

    /// Returns the folder in a worktree that corresponds to the folder of this start, if it exists.
    pub(super) fn below(&self, worktree: &Path) -> PathBuf {
        let folder = self.here.folder.canonicalize();
        let folder = folder.unwrap_or_else(|_| self.here.folder.clone());
        let below = folder
            .strip_prefix(&self.here.root)
            .unwrap_or(Path::new(""));
        let there = worktree.join(below);
        let is_inside = there
            .canonicalize()
            .is_ok_and(|real| real.starts_with(worktree));
        match is_inside && there.is_dir() {
            true => there.components().collect(),
            false => worktree.to_path_buf(),
        }
    }

    /// Returns lines about the files here that a new worktree does not contain.
    fn missing_file_notes(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let changes = changes(&self.here, &self.env, PATIENCE).filter(|changes| changes.count > 0);
        if let Some(changes) = changes {
            let over = if changes.is_cut { "over " } else { "" };
            lacks.push(format!(
                "what is not committed here is not in it: {over}{}",
                count(changes.count as u64, "file")
            ));
        }
        if self.here.root.join(".gitmodules").is_file() {
            lacks.push("submodules are not in it: git submodule update --init there".to_string());
        }
        let filters = filters_left_out(&self.env, &self.here.root).unwrap_or_default();
        if !filters.is_empty() {
            let names: Vec<String> = filters.into_iter().collect();
            lacks.push(format!(
                "filters of the repository did not run, so their files are as they were committed: {}",
                one_line(&visible(&names.join(", ")), 200)
            ));
        }
        lacks
    }
}

/// Returns whether a workspace has sessions.
fn has_sessions(store: &Store, root: &Path) -> Result<bool, StoreError> {
    let root = root.to_string_lossy();
    let filter = SessionFilter {
        children: true,
        ..SessionFilter::of(&root)
    };
    Ok(!store.history().sessions(filter, 1)?.is_empty())
}

/// Marks a worktree as used by this process.
fn enter(note: &WorktreeNote, data_dir: &Path) -> Result<(), NoWorktree> {
    let entered = worktree_use::enter(&note.in_use(data_dir));
    entered.map_err(|e| note_failed(note, &format!("it cannot be locked: {e}")))
}

fn note_failed(note: &WorktreeNote, why: &str) -> NoWorktree {
    NoWorktree::new(
        format!(
            "cannot create worktree {} of {}: {why}",
            note.name,
            note.project.display()
        ),
        Some("git worktree list shows those that git knows".to_string()),
    )
}

fn recreated_note(name: &str, folder: &Path) -> String {
    format!(
        "the worktree {name} was gone; it was made again in {}, as its branch has it: what was not \
         committed is not in it (rewake rewind may know it)",
        folder.display()
    )
}

/// Returns whether a folder is missing or empty.
fn is_free(folder: &Path) -> bool {
    match folder.symlink_metadata() {
        Ok(found) if found.is_dir() => {
            fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none())
        }
        Ok(_) => false,
        Err(_) => true,
    }
}

/// Checks that a name is valid for a folder, a branch and a command line.
fn check_name(name: &str) -> Result<(), NoWorktree> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let why = match name {
        "" => Some("it is empty".to_string()),
        _ if name.len() > MAX_NAME_BYTES => {
            Some(format!("it has more than {MAX_NAME_BYTES} characters"))
        }
        _ if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
            Some("it does not begin with a letter or a digit".to_string())
        }
        _ if !name.chars().all(is_plain) => {
            Some("it has other characters than letters, digits, - _ and .".to_string())
        }
        _ if name.contains("..") || name.ends_with('.') || name.ends_with(".lock") => {
            Some("git takes no branch of that name".to_string())
        }
        _ => None,
    };
    match why {
        None => Ok(()),
        Some(why) => Err(NoWorktree::new(
            format!(
                "{:?} is not a name for a worktree: {why}",
                one_line(name, 80)
            ),
            Some("a name as fix-login: its branch is rewake/fix-login".to_string()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_folder_and_of_a_branch() {
        for name in ["a", "fix-login", "v1.2_x", "0"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(65);
        for name in [
            "", "-x", ".x", "a/b", "a..b", "a.lock", "a.", "a b", "ä", "a\nb", &long,
        ] {
            let error = check_name(name).unwrap_err();
            assert!(error.hint().is_some(), "{name}");
        }
    }
}
