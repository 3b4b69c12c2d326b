//! What a command may do without approval, by mode.

use std::fs;

use crate::scenes::access::*;
use crate::scenes::{bash, scripted};
use support::git;

#[test]
fn in_default_mode_any_line_reads_and_none_writes_or_leaves() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    fs::create_dir(home.path("src")).unwrap();
    fs::write(home.path("src/a.rs"), "fn a() {}\n").unwrap();
    fs::create_dir(home.user().join(".ssh")).unwrap();
    fs::write(home.user().join(".ssh/id"), "SECRET\n").unwrap();
    fs::write(home.user().join("notes"), "SECRET\n").unwrap();
    let outside = home.user();
    for args in [&[][..], &PLAN[..]] {
        let ran = ran(
            &home,
            &[
                bash("cat src/*.rs; for f in src/*; do sed -n 1p \"$f\"; done"),
                bash("touch x"),
                bash(&format!("cat '{}/.ssh/id' '{0}/notes'", outside.display())),
                bash(
                    "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))' || exec 3<>/dev/tcp/127.0.0.1/9",
                ),
                bash("echo kept > \"$TMPDIR/a\" && cat \"$TMPDIR/a\""),
                bash("sleep 60 & echo $!"),
                with("touch x", "root"),
            ],
            args,
        );
        assert_eq!(ran[0], ("done".into(), "fn a() {}\nfn a() {}\n".into()));
        has(
            &ran[1].1,
            &["looks like the sandbox", "access workspace would do"],
        );
        assert!(!ran[2].1.contains("SECRET"), "{}", ran[2].1);
        has(&ran[3].1, &["exit code"]);
        assert_eq!(ran[4].1, "kept\n");
        has(&ran[5].1, &["1 process that it left running ended with it"]);
        assert_eq!(ran[6].0, "error");
        has(
            &ran[6].1,
            &["must be one of read, workspace, network, full"],
        );
    }
    assert!(!home.path("x").exists());
}

#[test]
fn in_accept_edits_the_workspace_is_written_and_what_is_protected_is_not() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    git(&home.workspace(), &["init", "-q"]);
    let config = fs::read_to_string(home.path(".git/config")).unwrap();
    let ran = ran(
        &home,
        &[
            bash("touch x && git add x && git -c user.name=a -c user.email=a@b commit -qm x"),
            bash("echo evil > .git/hooks/pre-commit"),
            with("git config core.fsmonitor ./evil", "workspace"),
            bash(&format!("touch {}/x", home.user().display())),
            bash("exec 3<>/dev/tcp/192.0.2.1/80"),
            with("true", "full"),
        ],
        &ACCEPT,
    );
    assert_eq!(ran[0].0, "done", "{ran:?}");
    assert!(!ran[0].1.contains("exit code"), "{}", ran[0].1);
    for (_, text) in &ran[1..5] {
        has(text, &["exit code"]);
    }
    assert_eq!(ran[5].0, "denied");
    assert!(home.path("x").exists() && !home.user().join("x").exists());
    assert!(!home.path(".git/hooks/pre-commit").exists());
    assert_eq!(
        fs::read_to_string(home.path(".git/config")).unwrap(),
        config
    );
}
