//! A session works in a git worktree.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::scenes::worktrees::*;
use crate::scenes::{LIMIT, bash, newest, play, refused, scripted, step};

#[test]
fn a_session_works_in_a_separate_worktree() {
    let home = scripted(&commands(&["echo 2 > a; echo n > new; pwd; ls"]));
    let root = repository(&home);
    fs::write(root.join("mine"), "not committed\n").unwrap();
    let ran = home.rewake_home().join("ran");
    let hook = root.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let run = go(&home, &["-w", "fix"]).expect(0);
    let folder = folder(&home, "fix");
    for words in [
        &format!("worktree fix: {}, branch rewake/fix", folder.display()),
        "what is not committed here is not in it: 1 file",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    assert!(!ran.exists(), "a hook ran");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1\n");
    assert!(!root.join("new").exists());
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "2\n");
    assert!(folder.join("new").exists() && !folder.join("mine").exists());
    assert_eq!(git(&folder, &["branch", "--show-current"]), "rewake/fix");
    assert_eq!(notes(&home)[0].base.as_deref(), Some("main"));
    // Another session in it only by what resumes the first.
    let words = ["there is a worktree fix already", "hint: rewake -w fix -c"];
    refused(go(&home, &["-w", "fix"]), 2, &words);
    let first = newest(&home);
    play(
        &home,
        &[
            step("", &[bash("x")]),
            step("again", &[]),
            step("again", &[]),
        ],
    );
    go(&home, &["-w", "fix", "-c"]).expect(0);
    assert_eq!(newest(&home), first);
    // From a folder of the project it begins in the same of the worktree.
    play(&home, &commands(&["echo y > here"]));
    let mut command = home.rewake(["-p", "go", "--yolo", "--worktree", "sub"]);
    command.current_dir(root.join("sub"));
    support::run(command, LIMIT).expect(0);
    assert!(self::folder(&home, "sub").join("sub/here").exists());
    assert_eq!(worktrees(&root), 3);
}
