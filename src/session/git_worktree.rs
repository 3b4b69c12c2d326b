//! A worktree of the user's repository for a fork with files of its own: the one case in which
//! something below `.git` is written, by the user's own git and only when it is asked for.
//!
//! No file is checked out, so no filter of the repository runs, and hooks are off. The index is that
//! of the commit, so `git status` in the new folder tells what differs from it.

use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::changes::looking_git;
use crate::config::Env;

/// No repository needs longer for what is asked here.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// Of what git says when it fails.
const MAX_SAID: u64 = 2_000;

/// Of a list of worktrees.
const MAX_LISTED: u64 = 16 << 20;

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

/// The folders of all worktrees that the repository knows, also of those that are away.
///
/// # Errors
/// What git says.
pub(super) fn list(env: &Env, repository: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = run_for(
        git(env, repository)?.args(["worktree", "list", "--porcelain", "-z"]),
        MAX_LISTED,
    )?;
    let folders = listed.split(|byte| *byte == 0);
    let folders = folders.filter_map(|line| line.strip_prefix(b"worktree "));
    Ok(folders
        .map(|folder| PathBuf::from(OsStr::from_bytes(folder)))
        .collect())
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
    let failed = |e: std::io::Error| format!("git cannot be run: {e}");
    let [mut out, mut said] =
        [tempfile::tempfile(), tempfile::tempfile()].map(|f| f.map_err(failed));
    let (out, said) = (
        out.as_mut().map_err(|e| e.clone())?,
        said.as_mut().map_err(|e| e.clone())?,
    );
    let mut child = command
        .stdin(Stdio::null())
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
