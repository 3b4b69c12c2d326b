//! A screen that is open in a worktree, and others that would remove or take it.

use std::path::PathBuf;

use crate::pty::{scripted, step};
use support::{ENTER, Home, Terminal};

fn worktree(home: &Home) -> PathBuf {
    let projects = std::fs::read_dir(home.rewake_home().join("worktrees")).unwrap();
    let mut projects = projects.flatten();
    projects.next().expect("a project").path().join("fix")
}

/// Nothing was said yet, so no list of sessions has it.
#[test]
fn a_worktree_in_which_a_screen_is_open_stays_and_is_nobody_elses() {
    let home = scripted(&[step("First answer.", &[])]);
    home.git(&["init", "-q", "-b", "main"]);
    home.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
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
