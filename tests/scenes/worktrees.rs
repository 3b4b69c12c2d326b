//! A repository with worktrees.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rewake::store::{Store, WorktreeNote};

use crate::scenes::{bash, step};
use crate::support::{Home, Run};

pub fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
    let done = command.args(args).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_string()
}

/// A repository with one commit, which has `a` and `sub/x`.
pub fn repository(home: &Home) -> PathBuf {
    let root = home.workspace().canonicalize().unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("a"), "1\n").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/x"), "x\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "x"]);
    root
}

pub fn notes(home: &Home) -> Vec<WorktreeNote> {
    WorktreeNote::all(&home.rewake_home())
}

pub fn folder(home: &Home, name: &str) -> PathBuf {
    let note = WorktreeNote::read(
        &home.rewake_home(),
        &home.workspace().canonicalize().unwrap(),
        name,
    );
    note.expect("a worktree").folder(&home.rewake_home())
}

pub fn worktrees(root: &Path) -> usize {
    git(root, &["worktree", "list"]).lines().count()
}

pub fn newest(home: &Home) -> String {
    let store = Store::open(&home.rewake_home()).unwrap();
    store.history().newest(None).unwrap().expect("a session").id
}

/// The model runs these commands, one an answer, then says "done".
pub fn commands(lines: &[&str]) -> Vec<String> {
    let mut steps: Vec<String> = lines.iter().map(|line| step("", &[bash(line)])).collect();
    steps.push(step("done", &[]));
    steps
}

pub fn go(home: &Home, more: &[&str]) -> Run {
    let args = ["-p", "go", "--yolo"];
    home.run(args.iter().chain(more))
}
