//! Clones of the repositories of tasks. Their addresses come from a database, so only those that the
//! config of this machine names are used, over the network, without hooks, prompts and submodules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::git::run_with;
use super::repo_address::RepoAddress;
use crate::config::Env;
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::sandbox::child;

/// Time limit of a clone.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Maximum length of an address or an error in a message, characters.
const SHOWN: usize = 200;
const MAX_SAID: u64 = 4_000;
/// Maximum size of the list of refs of a repository.
const MAX_REFS: u64 = 64 << 20;

/// Protocols that git may use.
const PROTOCOLS: &str = "https:http:ssh:git";
#[rustfmt::skip]
const OPTIONS: [&str; 14] = [
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.protectHFS=true", "-c",
    "core.protectNTFS=true", "-c", "core.symlinks=true", "-c", "transfer.fsckObjects=true", "-c",
    "submodule.recurse=false",
];

/// Checks the address of a repository. `repos`: those of the config, see
/// [`RepoAddress::is_named_by`].
///
/// # Errors
/// Why it is not used, for a person.
pub fn check_repo(repo: &str, repos: &[String]) -> Result<(), String> {
    let shown = one_line(&visible(repo), SHOWN);
    let Some(address) = RepoAddress::read(repo) else {
        return Err(format!(
            "{shown:?} is not a plain address of a repository in the network (https, ssh, git)"
        ));
    };
    match repos.iter().any(|pattern| address.is_named_by(pattern)) {
        true => Ok(()),
        false => Err(format!("fleet.repos does not name {shown}")),
    }
}

/// Returns the commit of a branch or a tag. `None`: of the default branch.
///
/// # Errors
/// There is none, or the repository cannot be reached.
pub fn commit_of(env: &Env, repo: &str, reference: Option<&str>) -> Result<String, String> {
    if let Some(commit) = reference.filter(|text| is_commit(text)) {
        return Ok(commit.to_string());
    }
    let name = reference.unwrap_or("HEAD");
    if name.starts_with('-') || name.chars().any(char::is_control) {
        return Err(format!(
            "{:?} is not a name of a ref",
            one_line(&visible(name), SHOWN)
        ));
    }
    let mut command = git(env, Path::new("/"))?;
    command.args(["ls-remote", "--quiet", "--", repo]);
    let wanted = [
        name.to_string(),
        format!("refs/heads/{name}"),
        // The commit of an annotated tag.
        format!("refs/tags/{name}^{{}}"),
        format!("refs/tags/{name}"),
    ];
    let listed = run(&mut command, MAX_REFS)?;
    let refs: Vec<(&str, &str)> = listed.lines().filter_map(|l| l.split_once('\t')).collect();
    let found = wanted
        .iter()
        .find_map(|name| refs.iter().find(|(_, of)| of == name));
    match found {
        Some((commit, _)) if is_commit(commit) => Ok((*commit).to_string()),
        _ => Err(format!(
            "{} has no ref {:?}",
            one_line(&visible(repo), SHOWN),
            one_line(&visible(name), SHOWN)
        )),
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Makes a clone with this commit checked out, on a branch if it is given. What is there already is
/// removed.
///
/// # Errors
/// The error of git.
pub fn clone(
    env: &Env,
    repo: &str,
    commit: &str,
    branch: Option<&str>,
    folder: &Path,
) -> Result<(), String> {
    if !is_commit(commit) {
        return Err("the task names no commit".to_string());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let part = folder.with_extension("part");
    for old in [&part, &folder.to_path_buf()] {
        match std::fs::remove_dir_all(old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    let parent = folder.parent().unwrap_or(folder);
    let mut command = git(env, parent)?;
    command.args([
        "clone",
        "--quiet",
        "--no-checkout",
        "--no-recurse-submodules",
        "--",
    ]);
    run(command.arg(repo).arg(&part), MAX_SAID)?;
    let of_commit = format!("{commit}^{{commit}}");
    let has = |part: &Path| -> Result<bool, String> {
        let mut command = git(env, part)?;
        Ok(run(command.args(["cat-file", "-e", &of_commit]), MAX_SAID).is_ok())
    };
    if !has(&part)? {
        // Its branch was moved since.
        let mut command = git(env, &part)?;
        run(
            command.args([
                "fetch",
                "--quiet",
                "--no-recurse-submodules",
                "origin",
                commit,
            ]),
            MAX_SAID,
        )?;
    }
    let mut command = git(env, &part)?;
    command.args(["checkout", "--quiet"]);
    match branch {
        Some(branch) => command.args(["-B", branch]),
        None => command.arg("--detach"),
    };
    run(command.args([commit, "--"]), MAX_SAID)?;
    std::fs::rename(&part, folder).map_err(failed)
}

/// Returns git, with the variables of this process except those that are about git.
fn git(env: &Env, folder: &Path) -> Result<Command, String> {
    let path = env.var_os("PATH").unwrap_or_default();
    let program: PathBuf = std::env::split_paths(&path)
        // A program of the clone is not run.
        .filter(|dir| dir.is_absolute() && (folder.parent().is_none() || !dir.starts_with(folder)))
        .map(|dir| dir.join("git"))
        .find(|git| git.is_file())
        .ok_or("there is no git in PATH")?;
    let mut command = child(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") && name != "GIT_SSL_CAINFO" {
            command.env_remove(name);
        }
    }
    command
        .args(OPTIONS)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "true")
        .env("SSH_ASKPASS", "true")
        .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
        .env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
        .env("GIT_LFS_SKIP_SMUDGE", "1");
    Ok(command)
}

/// Runs git and returns what it printed.
fn run(command: &mut Command, at_most: u64) -> Result<String, String> {
    let ran = run_with(command, at_most, Stdio::null(), PATIENCE);
    ran.map(|text| String::from_utf8_lossy(&text).into_owned())
        .map_err(|why| one_line(&visible(&why), SHOWN))
}
