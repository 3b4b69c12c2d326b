//! git as tests use it: the same on every machine, whatever its user has configured.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, and returns what it prints.
#[track_caller]
pub fn git(folder: &Path, args: &[&str]) -> String {
    let settings = [
        "user.name=a",
        "user.email=a@b",
        "protocol.file.allow=always",
    ];
    let run = Command::new("git")
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "git {args:?}: {said}");
    String::from_utf8_lossy(&run.stdout).trim().to_string()
}
