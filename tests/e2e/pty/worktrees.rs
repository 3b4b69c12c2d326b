//! A screen that is open in a worktree, and others that would remove or take it.

use std::path::PathBuf;
use std::process::Command;

use crate::pty::{scripted, step};
use crate::support::{ENTER, Home, Terminal};

fn git(home: &Home, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
    let done = command.args(args).current_dir(home.workspace()).output();
    assert!(done.unwrap().status.success(), "{args:?}");
}

fn worktree(home: &Home) -> PathBuf {
    let projects = std::fs::read_dir(home.rewake_home().join("worktrees")).unwrap();
    let mut projects = projects.flatten();
    projects.next().expect("a project").path().join("fix")
}

/// Nothing was said yet, so no list of sessions has it.
#[test]
fn a_worktree_in_which_a_screen_is_open_stays_and_is_nobody_elses() {
    let home = scripted(&[step("First answer.", &[])]);
    git(&home, &["init", "-q", "-b", "main"]);
    git(&home, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let mut terminal = Terminal::start(&home, &["-w", "fix"]);
    terminal.sees("Describe a task");
    let folder = worktree(&home);
    // The rest of it waits until the store is nobody's.
    let gc = home.run(["gc", "--yes"]);
    assert!(!gc.stdout.contains("removed    1 worktree"), "{gc:?}");
    assert!(folder.join(".git").exists());
    let second = home.run(["-p", "-w", "fix", "hello"]);
    assert_eq!(second.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains("there is a worktree fix already"));
    terminal.types("hello");
    terminal.types(ENTER);
    terminal.sees("First answer.");
    terminal.types("/quit");
    terminal.types(ENTER);
    terminal.ends();
    let gc = home.run(["gc", "--yes"]).expect(0);
    assert!(gc.stdout.contains("removed    1 worktree"), "{gc:?}");
    assert!(!folder.exists());
}
