//! A repository with worktrees.

use std::fs;
use std::path::{Path, PathBuf};

pub use crate::git;
use crate::scenes::{bash, step};
use crate::{Home, Run};

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

pub fn worktrees(root: &Path) -> usize {
    git(root, &["worktree", "list"]).lines().count()
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
