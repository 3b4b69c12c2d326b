//! What git is asked about worktrees, and the two cases in which something below `.git` is written by
//! rewake: a worktree for a fork with files of its own, and one for a session (`-w`, `task`). It is
//! the user's own git, with hooks and fsmonitor off.
//!
//! For a fork no file is checked out, so no filter of the repository runs. The index is that of the
//! commit, so `git status` in the new folder tells what differs from it. For a session git checks the
//! files out as it always does.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::changes::looking_git;
use crate::config::Env;
use crate::store::{WorktreeNote, WorktreeStage};

/// No repository needs longer for what is asked here.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// Of what git says when it fails.
const MAX_SAID: u64 = 2_000;

/// Of a list of worktrees.
const MAX_LISTED: u64 = 16 << 20;

/// Of a list of the files in an index.
const MAX_INDEX: u64 = 128 << 20;

/// What git keeps in a worktree's own folder while something is not finished there.
const UNFINISHED: [(&str, &str); 6] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// Makes the worktree, with no files in it but `.git`. Gives the commit that it is at.
///
/// # Errors
/// What git says.
pub(super) fn add(env: &Env, repository: &Path, folder: &Path) -> Result<String, String> {
    let mut command = git(env, repository)?;
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

/// A worktree as git lists it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub folder: PathBuf,
    /// Without `refs/heads/`. `None`: no branch is checked out.
    pub branch: Option<String>,
    /// Why it is locked.
    pub locked: Option<String>,
}

/// How git says that it is still making one, or was cut short at it.
const MAKING: &str = "initializing";

impl Listed {
    /// Git was cut short while it made this one, so nobody worked in it. A person may lock one with
    /// the same word.
    pub(super) fn is_half(&self, note: &WorktreeNote) -> bool {
        let is_being_made = note.stage == WorktreeStage::Begun || note.remaking;
        is_being_made && self.locked.as_deref() == Some(MAKING)
    }
}

/// All worktrees that the repository knows, also those that are away.
///
/// # Errors
/// What git says.
pub(super) fn listed(env: &Env, repository: &Path) -> Result<Vec<Listed>, String> {
    let text = run_for(
        git(env, repository)?.args(["worktree", "list", "--porcelain", "-z"]),
        MAX_LISTED,
    )?;
    let mut found: Vec<Listed> = Vec::new();
    for line in text.split(|byte| *byte == 0) {
        if let Some(folder) = line.strip_prefix(b"worktree ") {
            found.push(Listed {
                folder: PathBuf::from(OsStr::from_bytes(folder)),
                ..Listed::default()
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

/// Makes a worktree with its files. `begin`: its branch is made first, at this commit. `lock` is held
/// until git has ended, also when this process dies before.
///
/// # Errors
/// What git says.
pub(super) fn add_branch(
    env: &Env,
    repository: &Path,
    folder: &Path,
    branch: &str,
    begin: Option<&str>,
    lock: &File,
) -> Result<(), String> {
    let mut command = git(env, repository)?;
    command.args(["worktree", "add", "--quiet", "--no-guess-remote"]);
    match begin {
        Some(commit) => command
            .args(["--no-track", "-b", branch, "--"])
            .arg(folder)
            .arg(commit),
        None => command.arg("--").arg(folder).arg(branch),
    };
    run_holding(&mut command, MAX_SAID, Some(lock)).map(drop)
}

/// The whole hash of the commit that a name stands for. `None`: there is none.
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

/// The commit of a branch.
pub(super) fn tip(env: &Env, repository: &Path, branch: &str) -> Option<String> {
    commit_of(env, repository, &format!("refs/heads/{branch}"))
}

/// The branch that is checked out.
pub(super) fn branch_of(env: &Env, folder: &Path) -> Option<String> {
    let args = ["symbolic-ref", "--quiet", "--short", "HEAD"];
    let branch = run(git(env, folder).ok()?.args(args)).ok()?;
    Some(branch.trim().to_string()).filter(|branch| !branch.is_empty())
}

/// The repository has no files of its own.
pub(super) fn is_bare(env: &Env, folder: &Path) -> bool {
    let Ok(mut command) = git(env, folder) else {
        return false;
    };
    run(command.args(["rev-parse", "--is-bare-repository"])).is_ok_and(|said| said.trim() == "true")
}

/// How many commits lead to one and not to any of the others.
///
/// # Errors
/// What git says.
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

/// How many commits of a branch no other branch, tag or `HEAD` of the repository holds.
///
/// # Errors
/// What git says.
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

/// The branch is but another name of one.
pub(super) fn is_symbolic(env: &Env, repository: &Path, branch: &str) -> bool {
    let name = format!("refs/heads/{branch}");
    git(env, repository).is_ok_and(|mut git| run(git.args(["symbolic-ref", "-q", &name])).is_ok())
}

/// How many files of a worktree differ from its commit, or are new to git. What is ignored does not
/// count; what git was told not to look at does. `git` is taken from outside of `repository`.
///
/// # Errors
/// What git says, and a worktree with more files than can be looked at.
pub(super) fn changed(env: &Env, repository: &Path, folder: &Path) -> Result<u64, String> {
    let lines = status(env, repository, folder, None)?;
    if !lines.is_empty() || !hides_changes(env, repository, folder)? {
        return Ok(lines.len() as u64);
    }
    // An index of its own, in which nothing is marked.
    let beside = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let index = beside.path().join("index");
    let mut read = git(env, repository)?;
    read.arg("-C").arg(folder).env("GIT_INDEX_FILE", &index);
    run(read.args(["read-tree", "HEAD"]))?;
    let lines = status(env, repository, folder, Some(&index))?;
    // What is not there is lost to nobody: a sparse checkout lacks files.
    Ok(lines.iter().filter(|line| !line.starts_with(b" D")).count() as u64)
}

/// The lines of `git status`.
fn status(
    env: &Env,
    repository: &Path,
    folder: &Path,
    index: Option<&Path>,
) -> Result<Vec<Vec<u8>>, String> {
    let mut command = git(env, repository)?;
    command.arg("-C").arg(folder);
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

/// A file that is there is marked in the index, so that git does not see that it was changed
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

/// A folder in which another repository belongs has something in it.
///
/// # Errors
/// What git says, and a worktree with more files than can be looked at.
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

/// What `git ls-files` says of all files.
fn index(env: &Env, repository: &Path, folder: &Path, how: &str) -> Result<Vec<u8>, String> {
    let mut command = git(env, repository)?;
    command.arg("-C").arg(folder).args(["ls-files", "-z", how]);
    let text = run_for(&mut command, MAX_INDEX)?;
    match (text.len() as u64) < MAX_INDEX {
        true => Ok(text),
        false => Err("it has more files than can be looked at".to_string()),
    }
}

/// How many files and folders of a worktree are ignored.
///
/// # Errors
/// What git says.
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

/// What is not finished in a worktree, by its file `.git`.
pub(super) fn unfinished(folder: &Path) -> Option<&'static str> {
    let own = own_folder(folder)?;
    let mut all = UNFINISHED.iter();
    let found = all.find(|(name, _)| own.join(name).symlink_metadata().is_ok());
    found.map(|(_, what)| *what)
}

/// The folder of its own that git keeps for a worktree.
pub(super) fn own_folder(folder: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(folder.join(".git")).ok()?;
    Some(folder.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Removes a branch if it is still at this commit.
///
/// # Errors
/// What git says.
pub(super) fn remove_branch(
    env: &Env,
    repository: &Path,
    branch: &str,
    at: &str,
) -> Result<(), String> {
    let name = format!("refs/heads/{branch}");
    run(git(env, repository)?.args(["update-ref", "--no-deref", "-d", &name, at])).map(drop)
}

/// Takes it back, whatever it holds.
///
/// # Errors
/// What git says.
pub(super) fn remove(env: &Env, repository: &Path, folder: &Path) -> Result<(), String> {
    // Twice: also one whose making was cut short, which git keeps locked.
    let force = ["worktree", "remove", "--force", "--force", "--"];
    run(git(env, repository)?.args(force).arg(folder)).map(drop)
}

fn git(env: &Env, folder: &Path) -> Result<Command, String> {
    let mut command = looking_git(env, folder).ok_or("there is no git in PATH")?;
    // Nothing is fetched, and nobody is asked.
    command.env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_TERMINAL_PROMPT", "0");
    Ok(command)
}

/// What it prints.
fn run(command: &mut Command) -> Result<String, String> {
    run_for(command, MAX_SAID).map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// So many bytes of what it prints.
fn run_for(command: &mut Command, at_most: u64) -> Result<Vec<u8>, String> {
    run_holding(command, at_most, None)
}

/// The same. The file is its input: who locked it holds the lock until git has ended.
fn run_holding(
    command: &mut Command,
    at_most: u64,
    lock: Option<&File>,
) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("git cannot be run: {e}");
    let [mut out, mut said] =
        [tempfile::tempfile(), tempfile::tempfile()].map(|f| f.map_err(failed));
    let (out, said) = (
        out.as_mut().map_err(|e| e.clone())?,
        said.as_mut().map_err(|e| e.clone())?,
    );
    let input = match lock {
        Some(lock) => Stdio::from(lock.try_clone().map_err(failed)?),
        None => Stdio::null(),
    };
    let mut child = command
        .stdin(input)
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(said.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    let ended: ExitStatus = loop {
        match child.try_wait().map_err(failed)? {
            Some(ended) => break ended,
            None if Instant::now() < until => std::thread::sleep(PAUSE),
            None => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("git did not end in {} s", PATIENCE.as_secs()));
            }
        }
    };
    let (from, at_most) = match ended.success() {
        true => (out, at_most),
        false => (said, MAX_SAID),
    };
    let mut text = Vec::new();
    from.rewind()
        .and_then(|()| from.take(at_most).read_to_end(&mut text))
        .map_err(failed)?;
    match ended.success() {
        true => Ok(text),
        false => {
            let text = String::from_utf8_lossy(&text);
            let last = text.lines().rfind(|line| !line.trim().is_empty());
            let last = last.unwrap_or("it says nothing").trim();
            Err(format!("git: {}", last.trim_start_matches("fatal: ")))
        }
    }
}
