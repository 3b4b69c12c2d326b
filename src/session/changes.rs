//! Uncommitted changes of a repository, for the model. Git lists them, and runs nothing that the
//! repository names.
//!
//! Git runs only where [`is_plain`] has checked that `git status` runs no program and does not
//! leave the repository. Settings that would still run one are off, the index is not written, and
//! the time is limited. If git cannot run, the model gets no list.
//!
//! Invariant: git is never one that the repository brings: it is taken from the absolute folders of
//! PATH outside of the workspace.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::Env;
use crate::sandbox::child;
use crate::workspace::{StartFolder, is_plain};

/// Maximum time that a start waits for git.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum size of a list. Only this part of a longer list is counted.
const MAX_BYTES: usize = 256 * 1024;

/// Maximum number of names in the result.
const MAX_NAMES: usize = 8;

/// The variables of the user's environment that lead to their settings of git.
const PASSED: [&str; 2] = ["HOME", "XDG_CONFIG_HOME"];

/// Options with which git neither runs a program nor writes anything.
const LOOKS: [&str; 8] = [
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
];

const STATUS: [&str; 6] = [
    "status",
    "--porcelain=v1",
    "-z",
    "--no-renames",
    "--ignore-submodules=all",
    "--untracked-files=normal",
];

/// Files and folders that differ from the last commit or are untracked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionChanges {
    pub count: usize,
    /// Whether there are more than `count`.
    pub is_cut: bool,
    /// The first names, as git prints them.
    pub names: Vec<String>,
}

/// Returns the uncommitted changes. `None`: git cannot list them, or not in time.
pub(super) fn changes(here: &StartFolder, env: &Env, patience: Duration) -> Option<SessionChanges> {
    if !here.is_git {
        return None;
    }
    let mut command = looking_git(env, &here.root)?;
    command.args(STATUS);
    let root = here.root.to_string_lossy().into_owned();
    let until = Instant::now() + patience;
    let (done, came) = mpsc::sync_channel(1);
    // `is_plain` is slow for a huge repository, too. The thread is not waited for.
    let asking = std::thread::Builder::new().name("changes".to_string());
    asking
        .spawn(move || {
            let printed = is_plain(&root).ok().and_then(|()| printed(command, until));
            // The receiver may have given up.
            let _ = done.send(printed);
        })
        .ok()?;
    let printed = came.recv_timeout(patience).ok()??;
    Some(read(&printed))
}

/// Returns a read-only git command in the root of a workspace, which [`is_plain`] must allow.
/// `None`: PATH has no git outside of the workspace.
pub fn looking_git(env: &Env, root: &Path) -> Option<Command> {
    let path = outside_path(env, root)?;
    let is_file = |git: &PathBuf| {
        git.canonicalize()
            .is_ok_and(|git| git.is_file() && !git.starts_with(root))
    };
    let git = path.iter().map(|folder| folder.join("git")).find(is_file)?;
    let mut command = child(git);
    command.args(LOOKS).current_dir(root).env_clear();
    command.env("PATH", std::env::join_paths(path).ok()?);
    for name in PASSED {
        command.envs(env.var_os(name).map(|value| (name, value)));
    }
    Some(command)
}

/// Returns the folders of PATH that are outside of the workspace. Programs that git starts, such as
/// git-lfs, are searched there too.
fn outside_path(env: &Env, root: &Path) -> Option<Vec<PathBuf>> {
    let folders = std::env::split_paths(env.var_os("PATH")?).filter(|folder| folder.is_absolute());
    let is_outside = |folder: &PathBuf| {
        let real = folder.canonicalize();
        real.is_ok_and(|real| !real.starts_with(root))
    };
    Some(folders.filter(is_outside).collect())
}

/// Runs a command and returns its output. `None`: it failed or took too long. Output over the limit
/// is cut.
fn printed(mut command: Command, until: Instant) -> Option<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let printed = child.stdout.take().and_then(|out| read_until(out, until));
    match printed {
        Some(bytes) if bytes.len() <= MAX_BYTES => child.wait().ok()?.success().then_some(bytes),
        too_much_or_too_late => {
            end(&mut child);
            too_much_or_too_late
        }
    }
}

fn end(child: &mut Child) {
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}

fn read_until(mut from: ChildStdout, until: Instant) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    while bytes.len() <= MAX_BYTES {
        let left = until.checked_duration_since(Instant::now())?;
        let left = Timespec::try_from(left).ok()?;
        let out = from.as_fd();
        match poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&left)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        match from.read(&mut buffer).ok()? {
            0 => return Some(bytes),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
    Some(bytes)
}

/// Parses the output of `-z`: two letters, a blank, the name, a zero byte.
fn read(printed: &[u8]) -> SessionChanges {
    let lines = printed.split(|byte| *byte == 0);
    let mut names = lines
        .filter_map(|line| line.get(3..))
        .filter(|name| !name.is_empty());
    let first = names.by_ref().take(MAX_NAMES);
    let kept: Vec<String> = first
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    SessionChanges {
        count: kept.len() + names.count(),
        is_cut: printed.len() > MAX_BYTES,
        names: kept,
    }
}

#[cfg(test)]
mod tests;
