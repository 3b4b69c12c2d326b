//! The git folders of a repository, to which a command may write besides the workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folders::entries;
use super::places::PROTECTED_GIT;
use crate::config::read_text;
use crate::workspace::{git_settings_of_user, is_repository_of, obeyed_by_git};

/// Maximum size of a file that names a folder.
const MAX_LINE: u64 = 4096;

/// Names of files, in the git folder of another worktree and in the shared one, that a command in a
/// worktree may not write to.
const OF_OTHERS: [&str; 5] = [
    "HEAD",
    "index",
    "locked",
    "info/exclude",
    "info/sparse-checkout",
];

/// The git folders of a repository, as `git rev-parse` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The folder with `HEAD` and the index.
    pub git_dir: PathBuf,
    /// The shared folder; it differs from `git_dir` only in a linked worktree.
    pub common_dir: PathBuf,
}

impl Repository {
    /// Reads `.git` of a workspace, which may be a file that names the folder.
    pub fn of(workspace: &Path) -> Option<Repository> {
        let dot_git = workspace.join(".git");
        let git_dir = match std::fs::symlink_metadata(&dot_git).ok()? {
            found if found.is_dir() => dot_git,
            found if found.is_file() => {
                let text = read_text(&dot_git, MAX_LINE).ok()?;
                workspace.join(text.strip_prefix("gitdir:")?.trim())
            }
            _ => return None,
        };
        let git_dir = git_dir.canonicalize().ok()?;
        let common_dir = match read_text(&git_dir.join("commondir"), MAX_LINE) {
            Ok(text) => git_dir.join(text.trim()).canonicalize().ok()?,
            Err(_) => git_dir.clone(),
        };
        let is_real = common_dir.join("objects").is_dir() && git_dir.join("HEAD").is_file();
        // A worktree's git folder is in the repository that it names. Otherwise a `.git` file could
        // name any folder as writable for commands.
        let belongs = git_dir.starts_with(&common_dir) || git_dir == common_dir;
        let is_own = is_repository_of(workspace, &git_dir);
        (is_real && belongs && is_own).then_some(Repository {
            git_dir,
            common_dir,
        })
    }

    /// Returns the files to which the settings and links of the repository lead git.
    pub fn obeyed(&self, workspace: &Path, home: Option<&Path>) -> BTreeSet<PathBuf> {
        let of_user = home.map(git_settings_of_user).unwrap_or_default();
        let folders = BTreeSet::from([&self.git_dir, &self.common_dir]);
        let folders = folders.into_iter();
        let obeyed = |git| obeyed_by_git(git, workspace, &PROTECTED_GIT, &of_user, home);
        folders.flat_map(|git: &PathBuf| obeyed(git)).collect()
    }

    /// Returns, for a linked worktree, the paths that say where other worktrees are, what is staged
    /// there, and which files they include.
    pub(super) fn of_others(&self) -> Vec<PathBuf> {
        if self.git_dir == self.common_dir {
            return Vec::new();
        }
        let worktrees = entries(&self.common_dir.join("worktrees"));
        let others = worktrees.into_iter().map(|(path, _)| path);
        let others = others.filter(|path| *path != self.git_dir);
        let all = others.chain([self.common_dir.clone()]);
        all.flat_map(|folder| OF_OTHERS.iter().map(move |name| folder.join(name)))
            .collect()
    }
}
