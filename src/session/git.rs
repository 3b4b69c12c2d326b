//! Running git: the user's own, with hooks and fsmonitor off, and without any question.
//!
//! Invariant: a command ends at its time limit, and its output is limited.

use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::changes::looking_git;
use crate::config::Env;

/// Time limit of a git command. No repository should need longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// The variables that tie git to one repository, as `git rev-parse --local-env-vars` lists them, and
/// two more of hooks.
#[rustfmt::skip]
const OF_REPOSITORY: [&str; 15] = [
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_GRAFT_FILE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_SHALLOW_FILE", "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH",
];

/// Settings of git in the environment, which the user may have made for all repositories.
const SETTINGS: [&str; 3] = ["GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"];

/// Returns the variables that commands in another repository than the one of this start must not
/// have: git sets them for its hooks.
pub(super) fn variables_of_repository(env: &Env) -> Vec<String> {
    let is_in_hook = OF_REPOSITORY.iter().any(|name| env.var_os(name).is_some());
    let settings = SETTINGS.iter().filter(|_| is_in_hook);
    let all = OF_REPOSITORY.iter().chain(settings);
    all.map(|name| (*name).to_string()).collect()
}

/// Maximum size of an error message of git.
pub(super) const MAX_SAID: u64 = 2_000;

/// Returns a git command in a folder.
///
/// # Errors
/// PATH has no git outside of the folder.
pub(super) fn git(env: &Env, folder: &Path) -> Result<Command, String> {
    let mut command = looking_git(env, folder).ok_or("there is no git in PATH")?;
    // Git must not fetch anything or prompt for input.
    command.env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_TERMINAL_PROMPT", "0");
    Ok(command)
}

/// Runs a command and returns its output.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    run_for(command, MAX_SAID).map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// Runs a command and returns at most `at_most` bytes of its output.
pub(super) fn run_for(command: &mut Command, at_most: u64) -> Result<Vec<u8>, String> {
    run_with(command, at_most, Stdio::null(), PATIENCE)
}

/// Returns bytes as the input of a command.
///
/// # Errors
/// A temporary file cannot be written.
pub(super) fn input(bytes: &[u8]) -> Result<Stdio, String> {
    let written = tempfile::tempfile().and_then(|mut file| {
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    });
    let file = written.map_err(|e| format!("git cannot be run: {e}"))?;
    Ok(Stdio::from(file))
}

/// Runs a command with an input and a time limit, and returns at most `at_most` bytes of its output.
///
/// # Errors
/// The error of git.
pub(super) fn run_with(
    command: &mut Command,
    at_most: u64,
    input: Stdio,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("git cannot be run: {e}");
    let [mut out, mut said] =
        [tempfile::tempfile(), tempfile::tempfile()].map(|f| f.map_err(failed));
    let (out, said) = (
        out.as_mut().map_err(|e| e.clone())?,
        said.as_mut().map_err(|e| e.clone())?,
    );
    let mut child = command
        .stdin(input)
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(said.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let until = Instant::now() + patience;
    let ended: ExitStatus = loop {
        match child.try_wait().map_err(failed)? {
            Some(ended) => break ended,
            None if Instant::now() < until => std::thread::sleep(PAUSE),
            None => {
                // It may have ended already.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("git did not end in {} s", patience.as_secs()));
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
    if ended.success() {
        Ok(text)
    } else {
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("it says nothing").trim();
        Err(format!("git: {}", last.trim_start_matches("fatal: ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variables_that_git_calls_local_are_known() {
        let mut listed = Command::new("git");
        let listed = listed
            .args(["rev-parse", "--local-env-vars"])
            .output()
            .unwrap();
        let in_hook = Env::new([("GIT_INDEX_FILE", ".git/index")], "/");
        let known = variables_of_repository(&in_hook);
        for name in String::from_utf8(listed.stdout).unwrap().lines() {
            assert!(known.iter().any(|known| known == name), "{name}");
        }
        // Settings of the user for all repositories.
        let known = variables_of_repository(&Env::new([("GIT_CONFIG_COUNT", "1")], "/"));
        assert!(!known.contains(&"GIT_CONFIG_COUNT".to_string()));
    }
}
