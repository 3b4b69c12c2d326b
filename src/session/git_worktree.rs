//! Git commands about worktrees. In two cases they write below `.git`: a worktree for a fork with
//! separate files, and one for a session (`-w`, `task`). They run the user's own git, which runs no
//! program that the repository names ([`super::git_settings`]).
//!
//! For a fork no file is checked out. The index is that of the commit, so `git status` in the new
//! folder shows the differences from it. For a session git checks the files out, with the filters
//! of the user's own settings.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::git::{MAX_SAID, PATIENCE, git, run, run_for, run_with};
use super::git_settings::git_without_programs;
use crate::config::Env;
use crate::store::{WorktreeNote, WorktreeStage};

/// Maximum size of a list of worktrees.
const MAX_LISTED: u64 = 16 << 20;

/// Maximum size of a list of the files in an index.
const MAX_INDEX: u64 = 128 << 20;

/// Files in git's folder of a worktree that exist during an unfinished operation, and its name.
const UNFINISHED: [(&str, &str); 6] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// Makes a worktree without files except `.git`. Returns its commit.
///
/// # Errors
/// The error of git.
pub(super) fn add(env: &Env, repository: &Path, folder: &Path) -> Result<String, String> {
    let mut command = git_without_programs(env, repository, repository)?;
    command.args([
        "worktree",
        "add",
        "--quiet",
        "--detach",
        "--no-checkout",
        "--",
    ]);
    run(command.arg(folder).arg("HEAD"))?;
    run(git(env, folder)?.args(["read-tree", "HEAD"]))?;
    let commit = run(git(env, folder)?.args(["rev-parse", "--short", "HEAD"]))?;
    Ok(commit.trim().to_string())
}

/// A worktree in git's list.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct GitWorktree {
    pub folder: PathBuf,
    /// Its branch without `refs/heads/`. `None`: no branch is checked out.
    pub branch: Option<String>,
    /// The reason for its lock.
    pub locked: Option<String>,
}

/// The reason of the lock that git holds while it makes a worktree, also after a kill.
const MAKING: &str = "initializing";

impl GitWorktree {
    /// Returns whether git was interrupted while it made this worktree, so nobody worked in it. The
    /// note is checked too, since a person may lock a worktree with the same word.
    pub(super) fn is_half(&self, note: &WorktreeNote) -> bool {
        let is_being_made = note.stage == WorktreeStage::Begun || note.remaking;
        is_being_made && self.locked.as_deref() == Some(MAKING)
    }
}

/// Returns all worktrees that the repository knows, also those whose folders are missing.
///
/// # Errors
/// The error of git.
pub(super) fn listed(env: &Env, repository: &Path) -> Result<Vec<GitWorktree>, String> {
    let text = run_for(
        git(env, repository)?.args(["worktree", "list", "--porcelain", "-z"]),
        MAX_LISTED,
    )?;
    let mut found: Vec<GitWorktree> = Vec::new();
    for line in text.split(|byte| *byte == 0) {
        if let Some(folder) = line.strip_prefix(b"worktree ") {
            found.push(GitWorktree {
                folder: PathBuf::from(OsStr::from_bytes(folder)),
                ..GitWorktree::default()
            });
        }
        let line = String::from_utf8_lossy(line);
        if let Some(last) = found.last_mut() {
            let branch = line.strip_prefix("branch refs/heads/");
            last.branch = branch.map(str::to_string).or(last.branch.take());
            if let Some(why) = line.strip_prefix("locked") {
                last.locked = Some(why.trim().to_string());
            }
        }
    }
    Ok(found)
}

/// Makes a worktree with its files. With `begin`, its branch is created first, at this commit.
/// `lock` is held until git has ended, even if this process dies before.
///
/// # Errors
/// The error of git.
pub(super) fn add_branch(
    env: &Env,
    repository: &Path,
    folder: &Path,
    branch: &str,
    begin: Option<&str>,
    lock: &File,
) -> Result<(), String> {
    let mut command = git_without_programs(env, repository, repository)?;
    command.args(["worktree", "add", "--quiet", "--no-guess-remote"]);
    match begin {
        Some(commit) => command
            .args(["--no-track", "-b", branch, "--"])
            .arg(folder)
            .arg(commit),
        None => command.arg("--").arg(folder).arg(branch),
    };
    // Git holds the lock of the file, which is its input, until it ends.
    let held = lock
        .try_clone()
        .map_err(|e| format!("git cannot be run: {e}"))?;
    run_with(&mut command, MAX_SAID, Stdio::from(held), PATIENCE).map(drop)
}

/// Returns the full hash of the commit that a name refers to. `None`: there is none.
pub(super) fn commit_of(env: &Env, repository: &Path, name: &str) -> Option<String> {
    let name = format!("{name}^{{commit}}");
    let args = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &name,
    ];
    let hash = run(git(env, repository).ok()?.args(args)).ok()?;
    Some(hash.trim().to_string()).filter(|hash| !hash.is_empty())
}

/// Returns the commit of a branch.
pub(super) fn tip(env: &Env, repository: &Path, branch: &str) -> Option<String> {
    commit_of(env, repository, &format!("refs/heads/{branch}"))
}

/// Returns the branch that is checked out.
pub(super) fn branch_of(env: &Env, folder: &Path) -> Option<String> {
    let args = ["symbolic-ref", "--quiet", "--short", "HEAD"];
    let branch = run(git(env, folder).ok()?.args(args)).ok()?;
    Some(branch.trim().to_string()).filter(|branch| !branch.is_empty())
}

/// Returns whether the repository is bare.
pub(super) fn is_bare(env: &Env, folder: &Path) -> bool {
    let Ok(mut command) = git(env, folder) else {
        return false;
    };
    run(command.args(["rev-parse", "--is-bare-repository"])).is_ok_and(|said| said.trim() == "true")
}

/// Returns the folder whose files git takes for those of a worktree.
///
/// # Errors
/// The error of git, or of the folder.
pub(super) fn top_of(env: &Env, repository: &Path, folder: &Path) -> Result<PathBuf, String> {
    let mut command = git(env, repository)?;
    command.arg("-C").arg(folder);
    let top = run_for(command.args(["rev-parse", "--show-toplevel"]), MAX_LISTED)?;
    let top = Path::new(OsStr::from_bytes(top.strip_suffix(b"\n").unwrap_or(&top)));
    top.canonicalize().map_err(|e| e.to_string())
}

/// Returns whether git says that the files of a worktree are elsewhere, or that it has none.
pub(super) fn has_other_top(env: &Env, repository: &Path, folder: &Path) -> bool {
    match top_of(env, repository, folder) {
        Ok(top) => folder.canonicalize().is_ok_and(|folder| folder != top),
        Err(why) => why.contains("must be run in a work tree"),
    }
}

/// Returns the number of commits that are reachable from `of` and not from any of `without`.
///
/// # Errors
/// The error of git.
pub(super) fn commits(
    env: &Env,
    repository: &Path,
    of: &str,
    without: &[String],
) -> Result<u64, String> {
    let mut command = git(env, repository)?;
    command.args(["rev-list", "--count", of]);
    let count = run(command.args(without.iter().map(|name| format!("^{name}"))))?;
    count
        .trim()
        .parse()
        .map_err(|_| "git gives no number".to_string())
}

/// Returns the number of commits of a branch that no other branch, tag or `HEAD` contains.
///
/// # Errors
/// The error of git.
pub(super) fn only_in(
    env: &Env,
    repository: &Path,
    branch: &str,
    tip: &str,
) -> Result<u64, String> {
    let head = commit_of(env, repository, "HEAD");
    let mut command = git(env, repository)?;
    command
        .args(["rev-list", "--count", tip, "--not"])
        .args(head);
    command.arg(format!("--exclude={branch}"));
    let count = run(command.args(["--branches", "--tags", "--remotes"]))?;
    let count = count.trim().parse();
    count.map_err(|_| "git gives no number".to_string())
}

/// Returns whether the branch is only another name of one (a symbolic ref).
pub(super) fn is_symbolic(env: &Env, repository: &Path, branch: &str) -> bool {
    let name = format!("refs/heads/{branch}");
    git(env, repository).is_ok_and(|mut git| run(git.args(["symbolic-ref", "-q", &name])).is_ok())
}

/// Returns the number of files in a worktree that differ from its commit or are untracked. Ignored
/// files do not count. Files that git was told not to check (`--assume-unchanged`) do. `git` is
/// taken from outside of `repository`.
///
/// # Errors
/// The error of git, or the worktree has too many files to check.
pub(super) fn changed(env: &Env, repository: &Path, folder: &Path) -> Result<u64, String> {
    let lines = status(env, repository, folder, None)?;
    if !lines.is_empty() || !hides_changes(env, repository, folder)? {
        return Ok(lines.len() as u64);
    }
    // Uses a temporary index, in which no file is marked.
    let beside = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let index = beside.path().join("index");
    let mut read = git(env, repository)?;
    read.arg("-C").arg(folder).env("GIT_INDEX_FILE", &index);
    run(read.args(["read-tree", "HEAD"]))?;
    let lines = status(env, repository, folder, Some(&index))?;
    // A missing file cannot be lost: a sparse checkout lacks files.
    Ok(lines.iter().filter(|line| !line.starts_with(b" D")).count() as u64)
}

/// Returns the lines of `git status`.
fn status(
    env: &Env,
    repository: &Path,
    folder: &Path,
    index: Option<&Path>,
) -> Result<Vec<Vec<u8>>, String> {
    let mut command = git_without_programs(env, repository, folder)?;
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
        command.args([
            "-c",
            "core.ignoreStat=false",
            "-c",
            "core.sparseCheckout=false",
        ]);
    }
    command.args(["status", "--porcelain=v1", "-z", "--no-renames"]);
    command.args(["--untracked-files=all", "--ignore-submodules=none"]);
    let text = run_for(&mut command, MAX_LISTED)?;
    Ok(parts(&text).map(<[u8]>::to_vec).collect())
}

fn parts(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
}

/// Returns whether an existing file is marked in the index so that git does not see its changes
/// (`--assume-unchanged`, `--skip-worktree`).
fn hides_changes(env: &Env, repository: &Path, folder: &Path) -> Result<bool, String> {
    let files = index(env, repository, folder, "-v")?;
    Ok(parts(&files).any(|line| {
        let (mark, name) = line.split_at(line.len().min(2));
        let is_marked = mark
            .first()
            .is_some_and(|m| m.is_ascii_lowercase() || *m == b'S');
        is_marked
            && folder
                .join(OsStr::from_bytes(name))
                .symlink_metadata()
                .is_ok()
    }))
}

/// Returns whether the folder of a submodule is not empty.
///
/// # Errors
/// The error of git, or the worktree has too many files to check.
pub(super) fn has_filled_submodule(
    env: &Env,
    repository: &Path,
    folder: &Path,
) -> Result<bool, String> {
    let files = index(env, repository, folder, "--stage")?;
    Ok(parts(&files).any(|line| {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
            return false;
        };
        let place = folder.join(OsStr::from_bytes(&line[tab + 1..]));
        let names = || std::fs::read_dir(place).is_ok_and(|mut names| names.next().is_some());
        line.starts_with(b"160000 ") && names()
    }))
}

/// Returns the output of `git ls-files` for all files.
fn index(env: &Env, repository: &Path, folder: &Path, how: &str) -> Result<Vec<u8>, String> {
    let mut command = git(env, repository)?;
    command.arg("-C").arg(folder).args(["ls-files", "-z", how]);
    let text = run_for(&mut command, MAX_INDEX)?;
    match (text.len() as u64) < MAX_INDEX {
        true => Ok(text),
        false => Err("it has more files than can be looked at".to_string()),
    }
}

/// Returns the number of ignored files and folders in a worktree.
///
/// # Errors
/// The error of git.
pub(super) fn ignored(env: &Env, repository: &Path, folder: &Path) -> Result<u64, String> {
    let mut command = git(env, repository)?;
    command
        .arg("-C")
        .arg(folder)
        .args(["ls-files", "-z", "--others", "--ignored"]);
    command.args(["--exclude-standard", "--directory", "--no-empty-directory"]);
    let text = run_for(&mut command, MAX_LISTED)?;
    Ok(parts(&text).count() as u64)
}

/// Returns the name of an unfinished operation in a worktree, which its `.git` file leads to.
pub(super) fn unfinished(folder: &Path) -> Option<&'static str> {
    let own = own_folder(folder)?;
    let mut all = UNFINISHED.iter();
    let found = all.find(|(name, _)| own.join(name).symlink_metadata().is_ok());
    found.map(|(_, what)| *what)
}

/// Returns the folder that git has for this worktree inside of the repository.
pub(super) fn own_folder(folder: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(folder.join(".git")).ok()?;
    Some(folder.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Removes a branch if it is still at this commit.
///
/// # Errors
/// The error of git.
pub(super) fn remove_branch(
    env: &Env,
    repository: &Path,
    branch: &str,
    at: &str,
) -> Result<(), String> {
    let name = format!("refs/heads/{branch}");
    let mut git = git_without_programs(env, repository, repository)?;
    run(git.args(["update-ref", "--no-deref", "-d", &name, at])).map(drop)
}

/// Removes a worktree, whatever is in it.
///
/// # Errors
/// The error of git.
pub(super) fn remove(env: &Env, repository: &Path, folder: &Path) -> Result<(), String> {
    // `--force` twice also removes a locked one: git leaves a lock if it was interrupted.
    let force = ["worktree", "remove", "--force", "--force", "--"];
    let mut git = git_without_programs(env, repository, repository)?;
    run(git.args(force).arg(folder)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_top_is_what_git_says_and_not_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let (top, tree) = (dir.path().join("top"), dir.path().join("tree"));
        std::fs::create_dir(&top).unwrap();
        support::git(&top, &["init", "-q"]);
        support::git(&top, &["commit", "-q", "--allow-empty", "-m", "one"]);
        support::git(&top, &["worktree", "add", "-q", "../tree"]);
        let env = Env::new([("PATH", std::env::var_os("PATH").unwrap())], "/");
        let is_other = |folder: &Path| has_other_top(&env, &top, folder);
        assert!(!is_other(&tree));
        assert!(!is_other(&dir.path().join("none")));
        support::git(&top, &["config", "core.repositoryformatversion", "1"]);
        support::git(&top, &["config", "extensions.worktreeConfig", "true"]);
        support::git(
            &top,
            &["config", "core.worktree", dir.path().to_str().unwrap()],
        );
        assert!(is_other(&tree));
        support::git(&top, &["config", "--unset", "core.worktree"]);
        support::git(&top, &["config", "core.bare", "true"]);
        assert!(is_other(&tree));
    }
}
