//! Command lines that run without being asked about where there is no sandbox: what may not, in
//! folders and repositories made to trick them, and the everyday ones that must.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::cli::{bash, play, results, scripted, step, streamed};
use support::{Home, git};

/// As many calls of one answer are run.
const CALLS: usize = 32;

/// The kind and the text of the result of each line.
#[track_caller]
fn ran(home: &Home, lines: &[String], args: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for chunk in lines.chunks(CALLS) {
        let calls: Vec<_> = chunk.iter().map(|line| bash(line)).collect();
        play(home, &[step("", &calls), step("done", &[])]);
        let alone = ["-p", "x", "--set", "sandbox.enabled=false"];
        let args: Vec<&str> = alone.iter().chain(args).copied().collect();
        let run = streamed(home, &args).expect(0);
        let results = results(&run);
        assert_eq!(results.len(), chunk.len());
        all.extend(results);
    }
    all
}

/// Each of these lines is denied, for there is nobody to be asked.
#[track_caller]
fn denied(home: &Home, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
    for mode in ["default", "plan"] {
        let tool_results = ran(home, &lines, &["--permission-mode", mode]);
        for (line, (kind, text)) in lines.iter().zip(tool_results) {
            assert_eq!(kind, "denied", "{mode}: {line}: {text}");
        }
    }
}

#[track_caller]
fn allowed(home: &Home, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
    for mode in ["default", "plan"] {
        let tool_results = ran(home, &lines, &["--permission-mode", mode]);
        for (line, (kind, text)) in lines.iter().zip(tool_results) {
            assert_ne!(kind, "denied", "{mode}: {line}: {text}");
        }
    }
}

/// A repository with a change that is not committed.
fn repository() -> Home {
    let home = scripted(&[]);
    home.git(&["init", "-q"]);
    fs::create_dir(home.path("src")).unwrap();
    fs::write(home.path("src/a.rs"), "fn a() {}\n").unwrap();
    fs::write(home.path("README.md"), "x\n").unwrap();
    home.git(&["add", "."]);
    home.git(&["commit", "-qm", "one"]);
    fs::write(home.path("README.md"), "y\n").unwrap();
    home
}

/// A program that leaves a trace.
fn canary(home: &Home, path: &str) -> String {
    let trace = home.path("canary");
    let text = format!("#!/bin/sh\necho \"$0\" >> '{}'\ncat\n", trace.display());
    fs::write(home.path(path), text).unwrap();
    fs::set_permissions(home.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    home.path(path).to_str().unwrap().to_string()
}

#[test]
fn everyday_lines_need_nobody() {
    let home = repository();
    fs::write(home.path("b.rs"), "x\n").unwrap();
    allowed(
        &home,
        &[
            "ls",
            "ls -la",
            "ls *.rs",
            "ls src/*.rs",
            "cat README.md",
            "cat *.md",
            "cat src/*.rs",
            "cat -n b.rs | head -5",
            "head -5 b.rs",
            "head -n 3 src/*.rs",
            "tail -n 20 b.rs",
            "wc -l b.rs",
            "wc -l src/*.rs",
            "wc -l ./*.rs",
            "grep -rn x src",
            "grep -n x src/*.rs",
            "grep -rn --include='*.rs' x .",
            "find . -name '*.rs'",
            "find src -type f -name '*.rs' | sort",
            "find . -maxdepth 1 -type d",
            "pwd",
            "echo done",
            "printf '%s\\n' x",
            "test -f b.rs && echo yes",
            "[ -d src ] || echo no",
            "sort b.rs | uniq -c | sort -rn",
            "uniq b.rs",
            "cut -d: -f1 b.rs",
            "diff README.md b.rs",
            "diff -u README.md b.rs",
            "du -sh .",
            "stat b.rs",
            "file b.rs",
            "sha256sum b.rs",
            "date",
            "date +%F",
            "which cat",
            "git status",
            "git status --short",
            "git log --oneline -5",
            "git diff",
            "git diff HEAD -- src/a.rs",
            "git diff --stat",
            "git show HEAD",
            "git show HEAD:README.md",
            "git branch",
            "git branch -a",
            "git blame README.md",
            "git rev-parse HEAD",
            "git ls-files",
            "git remote -v",
            "git stash list",
            "git describe --always --dirty",
            "git tag",
            "git diff src/*.rs",
            "cd src && git status",
            "cd src && ls *.rs",
            "git --version",
        ],
    );
}

#[test]
fn a_glob_becomes_no_option() {
    let home = scripted(&[]);
    for name in [
        "-exec",
        "-delete",
        "--files0-from=list",
        "-v",
        "a=list",
        "-o",
        "-out",
    ] {
        fs::write(home.path(name), "x\n").unwrap();
    }
    fs::write(home.path("list"), "/etc/hostname\0").unwrap();
    denied(
        &home,
        &[
            "find . -maxdepth 0 -exe? sh -c 'touch canary' \\;",
            "find . -maxdepth 0 -[e]xec touch canary \\;",
            "find . -name list -delet?",
            "wc *=list",
            "wc *",
            "test ?v 'a[$(touch canary)]'",
            "printf * 'a[$(touch canary)]'",
            "printf ?v 'a[$(touch canary)]' x",
            "sort * list",
        ],
    );
    // A rule does not make the words of another rule go away.
    let rules = [
        "--set",
        "permissions.allow=[\"Bash(find:*)\"]",
        "--set",
        "permissions.deny=[\"Bash(touch:*)\"]",
    ];
    let line = "find . -maxdepth 0 -exe? touch canary \\;".to_string();
    assert_eq!(ran(&home, &[line], &rules)[0].0, "denied");
    assert!(!home.path("canary").exists() && home.path("list").exists());
}

#[test]
fn arguments_with_a_leading_dash_are_checked_as_files() {
    let home = repository();
    fs::write(home.user().join("secret"), "private\n").unwrap();
    fs::write(home.path("-in"), "x\n").unwrap();
    fs::write(home.path("cfg"), "x\n").unwrap();
    fs::write(home.path(".env"), "private\n").unwrap();
    symlink(home.user().join("secret"), home.path("-k")).unwrap();
    symlink(".git/config", home.path("-c")).unwrap();
    symlink(".env", home.path("-e")).unwrap();
    let before = home.read(".git/config");
    denied(
        &home,
        &[
            "uniq -- -in -out",
            "uniq -- cfg -c",
            "uniq cfg +1",
            "cat -- -k",
            "head -- -k",
            "grep x -- -k",
            "sort -- -k",
        ],
    );
    let rule = ["--set", "permissions.deny=[\"Read(.env)\"]"];
    let lines = ["cat -- -e".to_string(), "cat *nv ./.e*".to_string()];
    for (kind, text) in ran(&home, &lines, &rule) {
        assert_eq!(kind, "denied", "{text}");
    }
    assert!(!home.path("-out").exists());
    assert_eq!(home.read(".git/config"), before);
}

#[test]
fn a_diff_of_folders_is_asked_about() {
    let home = scripted(&[]);
    fs::write(home.user().join("secret"), "private\n").unwrap();
    for folder in ["one", "two"] {
        fs::create_dir(home.path(folder)).unwrap();
    }
    symlink(home.user().join("secret"), home.path("one/link")).unwrap();
    fs::write(home.path("two/link"), "").unwrap();
    denied(
        &home,
        &[
            "diff one two",
            "diff -N one two",
            "diff -P one two",
            "diff --from-file=one two",
            "diff one/../one two/link",
            "diff o* two",
        ],
    );
}

#[test]
fn a_count_is_not_stored() {
    let home = scripted(&[]);
    fs::create_dir(home.path("2")).unwrap();
    canary(&home, "2/ls");
    denied(
        &home,
        &["printf 'xx%n' PATH; ls", "printf '%s%n' xx PATH; ls"],
    );
    assert!(!home.path("canary").exists());
}

/// What makes git run the canary, and a line that does it.
type Trap = (&'static str, fn(&Home, &str), &'static str);

const TRAPS: [Trap; 14] = [
    (
        "fsmonitor",
        |h, c| drop(h.git(&["config", "core.fsmonitor", c])),
        "git status",
    ),
    (
        "fsmonitor of diff",
        |h, c| drop(h.git(&["config", "core.fsmonitor", c])),
        "git diff",
    ),
    (
        "external",
        |h, c| drop(h.git(&["config", "diff.external", c])),
        "git diff",
    ),
    (
        "textconv",
        |h, c| driver(h, "diff.q.textconv", c),
        "git diff",
    ),
    (
        "textconv of log",
        |h, c| driver(h, "diff.q.textconv", c),
        "git log -p",
    ),
    (
        "textconv of blame",
        |h, c| driver(h, "diff.q.textconv", c),
        "git blame README.md",
    ),
    ("command", |h, c| driver(h, "diff.q.command", c), "git diff"),
    ("clean", |h, c| driver(h, "filter.q.clean", c), "git diff"),
    (
        "process",
        |h, c| driver(h, "filter.q.process", c),
        "git diff",
    ),
    (
        "included",
        |h, c| {
            h.git(&["config", "include.path", "../more"]);
            fs::write(h.path("more"), format!("[core]\nfsmonitor = {c}\n")).unwrap();
        },
        "git status",
    ),
    (
        "hook",
        |h, c| {
            fs::create_dir_all(h.path(".git/hooks")).unwrap();
            fs::copy(c, h.path(".git/hooks/post-index-change")).unwrap();
            // Written again as it was: git then looks at it and writes the index.
            fs::write(h.path("src/a.rs"), "fn a() {}\n").unwrap();
        },
        "git status",
    ),
    (
        "bare",
        |h, c| {
            h.git(&["init", "-q", "--bare", "inner"]);
            let inner = h.path("inner");
            git(&inner, &["config", "core.bare", "false"]);
            git(
                &inner,
                &["config", "core.worktree", inner.to_str().unwrap()],
            );
            git(&inner, &["config", "core.fsmonitor", c]);
        },
        "cd inner && git status",
    ),
    (
        "submodule of the history",
        gone_submodule,
        "git show --submodule=diff",
    ),
    (
        "submodule",
        |h, c| {
            let inner = h.path("part");
            fs::create_dir(&inner).unwrap();
            git(&inner, &["init", "-q"]);
            fs::write(inner.join("f"), "x").unwrap();
            git(&inner, &["add", "."]);
            git(&inner, &["commit", "-qm", "one"]);
            h.git(&["add", "part"]);
            git(&inner, &["config", "core.fsmonitor", c]);
        },
        "git status",
    ),
];

/// A submodule that is only in the history: no index names it.
fn gone_submodule(home: &Home, canary: &str) {
    let inner = home.path("part");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    for text in ["one", "two"] {
        fs::write(inner.join("f"), text).unwrap();
        git(&inner, &["add", "."]);
        git(&inner, &["commit", "-qm", text]);
        home.git(&["add", "part"]);
        home.git(&["commit", "-qm", text]);
    }
    home.git(&["rm", "-q", "--cached", "part"]);
    git(&inner, &["config", "diff.external", canary]);
}

fn driver(home: &Home, name: &str, canary: &str) {
    home.git(&["config", name, canary]);
    fs::write(home.path(".gitattributes"), "* diff=q filter=q\n").unwrap();
}

#[test]
fn the_settings_of_a_repository_run_nothing() {
    for (name, set, line) in TRAPS {
        let home = repository();
        let trap = canary(&home, "run-me");
        set(&home, &trap);
        let _ = fs::remove_file(home.path("canary"));
        denied(&home, &[line]);
        assert!(!home.path("canary").exists(), "{name}");
        // Else this shows nothing.
        ran(&home, &[line.to_string()], &["--yolo"]);
        assert!(
            home.path("canary").exists(),
            "{name}: the trap does not work"
        );
    }
}

#[test]
fn another_repository_is_not_shown() {
    let home = repository();
    let private = home.user().join("private");
    fs::create_dir(&private).unwrap();
    git(&private, &["init", "-q"]);
    fs::write(private.join("f"), "secret\n").unwrap();
    git(&private, &["add", "."]);
    git(&private, &["commit", "-qm", "secret"]);
    let common = format!("{}\n", private.join(".git").display());
    fs::write(home.path(".git/commondir"), common).unwrap();
    denied(&home, &["git show HEAD:f", "git log --oneline"]);
    fs::remove_file(home.path(".git/commondir")).unwrap();
    fs::create_dir_all(home.path(".git/info")).unwrap();
    let _ = fs::remove_file(home.path(".git/info/attributes"));
    symlink(private.join("f"), home.path(".git/info/attributes")).unwrap();
    denied(&home, &["git status"]);
}
