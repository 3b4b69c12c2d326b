//! What `rewake gc --yes` must not take away with a worktree.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cli::worktrees::{branches, commands, folder, git, go, newest, notes, repository};
use crate::cli::{LIMIT, play, refused, scripted};
use support::{Home, Live, Protocol, Says, Server};

/// What somebody does before and after a session in the worktree that is to be kept.
struct Case {
    name: &'static str,
    before: fn(&Path),
    /// The project and the worktree.
    after: fn(&Path, &Path),
    /// Why it stays.
    says: &'static str,
}

const NOTHING: fn(&Path) = |_| {};

const CASES: [Case; 12] = [
    Case {
        name: "moved",
        before: NOTHING,
        after: |root, folder| {
            let to = root.with_file_name("moved");
            git(root, &["worktree", "move", text(folder), text(&to)]);
            fs::write(to.join("new"), "x").unwrap();
        },
        says: "its branch is checked out in ",
    },
    Case {
        name: "elsewhere",
        before: NOTHING,
        after: |root, folder| {
            git(root, &["worktree", "remove", text(folder)]);
            git(root, &["checkout", "-q", "rewake/elsewhere"]);
        },
        says: "its branch is checked out in ",
    },
    Case {
        name: "symbolic",
        before: NOTHING,
        after: |root, folder| {
            git(root, &["worktree", "remove", text(folder)]);
            let own = "refs/heads/rewake/symbolic";
            git(root, &["symbolic-ref", own, "refs/heads/main"]);
        },
        says: "rewake/symbolic is another name of a branch",
    },
    Case {
        name: "detached",
        before: |root| {
            git(root, &["checkout", "-q", "--detach"]);
            git(root, &["commit", "-q", "--allow-empty", "-m", "alone"]);
        },
        after: |root, _| {
            git(root, &["checkout", "-q", "main"]);
        },
        says: "1 commit not merged",
    },
    Case {
        name: "orphaned",
        before: |root| {
            git(root, &["checkout", "-q", "-b", "feature"]);
            git(root, &["commit", "-q", "--allow-empty", "-m", "alone"]);
        },
        after: |root, _| {
            git(root, &["checkout", "-q", "main"]);
            git(root, &["branch", "-q", "-D", "feature"]);
        },
        says: "1 commit not merged",
    },
    Case {
        name: "cloned",
        before: |root| {
            git(root, &["clone", "-q", ".", "lib"]);
            git(root, &["add", "lib"]);
            git(root, &["commit", "-q", "-m", "lib"]);
        },
        after: |root, folder| {
            let lib = root.join("lib");
            git(folder, &["clone", "-q", text(&lib), "lib"]);
            let inner = folder.join("lib");
            git(&inner, &["checkout", "-q", "-b", "wip"]);
            git(&inner, &["commit", "-q", "--allow-empty", "-m", "wip"]);
            git(&inner, &["checkout", "-q", "main"]);
            assert_eq!(git(folder, &["status", "--porcelain"]), "");
        },
        says: "it has submodules",
    },
    Case {
        name: "unchanged",
        before: NOTHING,
        after: |_, folder| hide(folder, "--assume-unchanged"),
        says: "1 file not committed",
    },
    Case {
        name: "skipped",
        before: NOTHING,
        after: |_, folder| hide(folder, "--skip-worktree"),
        says: "1 file not committed",
    },
    Case {
        name: "locked",
        before: NOTHING,
        after: |root, folder| {
            let lock = ["worktree", "lock", "--reason", "initializing"];
            git(root, &[&lock[..], &[text(folder)]].concat());
            fs::write(folder.join("new"), "x").unwrap();
        },
        says: "it is locked: initializing",
    },
    Case {
        name: "merging",
        before: NOTHING,
        after: |_, folder| {
            git(folder, &["checkout", "-q", "-b", "side"]);
            git(folder, &["commit", "-q", "--allow-empty", "-m", "side"]);
            git(folder, &["checkout", "-q", "rewake/merging"]);
            let merge = [
                "merge",
                "-q",
                "--no-ff",
                "--no-commit",
                "-s",
                "ours",
                "side",
            ];
            git(folder, &merge);
            assert_eq!(git(folder, &["status", "--porcelain"]), "");
        },
        says: "a merge is not finished in it",
    },
    Case {
        name: "bisecting",
        before: NOTHING,
        after: |_, folder| {
            git(folder, &["bisect", "start"]);
        },
        says: "a bisect is not finished in it",
    },
    Case {
        name: "reset",
        before: NOTHING,
        after: |root, folder| {
            // It was removed at a commit that main had then.
            git(folder, &["commit", "-q", "--allow-empty", "-m", "merged"]);
            git(root, &["merge", "-q", "rewake/reset"]);
        },
        says: "",
    },
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn hide(folder: &Path, how: &str) {
    git(folder, &["update-index", how, "a"]);
    fs::write(folder.join("a"), "changed\n").unwrap();
    assert_eq!(git(folder, &["status", "--porcelain"]), "");
}

#[test]
fn gc_keeps_worktrees_with_work_that_exists_nowhere_else() {
    for case in CASES {
        let name = case.name;
        let home = scripted(&commands(&["true"]));
        let root = repository(&home);
        (case.before)(&root);
        go(&home, &["-w", name]).expect(0);
        let folder = folder(&home, name);
        (case.after)(&root, &folder);
        let branch = format!("rewake/{name}");
        let tip = git(&root, &["rev-parse", &branch]);
        let was_there = folder.exists();
        let ran = home.run(["gc", "--yes"]).expect(0);
        if case.says.is_empty() {
            // Made again, it is at a commit that main has no more.
            assert!(!branches(&root).contains(&branch), "{name}");
            git(&root, &["reset", "-q", "--hard", "HEAD~1"]);
            play(&home, &commands(&["true"]));
            go(&home, &["-w", name, "-c"]).expect(0);
            let kept = home.run(["gc", "--yes"]).expect(0);
            assert_eq!(git(&root, &["rev-parse", &branch]), tip, "{kept:?}");
            continue;
        }
        assert_eq!(folder.exists(), was_there, "{name}: {ran:?}");
        assert_eq!(git(&root, &["rev-parse", &branch]), tip, "{name}: {ran:?}");
        assert!(
            !ran.stdout.contains("removed    1 worktree"),
            "{name}: {ran:?}"
        );
        assert!(git(&root, &["rev-parse", "main"]).len() >= 40);
        let doubt = notes(&home);
        assert_eq!(doubt.len(), 1, "{name}");
        // A session is left in it, so gc says nothing; the purge of that says why it stays.
        let id = newest(&home);
        let purged = home.run(["purge", &id, "--yes"]).expect(0);
        assert!(
            purged.stderr.contains(case.says),
            "{name}: {}",
            purged.stderr
        );
        assert_eq!(git(&root, &["rev-parse", &branch]), tip, "{name}");
    }
}

#[test]
fn gc_reports_ignored_files_removed_with_a_worktree() {
    let home = scripted(&commands(&["mkdir out; echo x > out/report"]));
    let root = repository(&home);
    fs::write(root.join(".gitignore"), "out/\n").unwrap();
    git(&root, &["add", ".gitignore"]);
    git(&root, &["commit", "-q", "-m", "ignore"]);
    go(&home, &["-w", "fix"]).expect(0);
    let removed = home.run(["gc", "--yes"]).expect(0).stdout;
    let words = "nothing was to be kept (1 file or folder that git ignores went with it)";
    assert!(removed.contains(words), "{removed}");
}

/// Of two starts with one name, one works in it.
#[test]
fn a_worktree_begins_with_one_session() {
    for _ in 0..3 {
        let home = Home::new();
        let server = Server::start(|_| {
            std::thread::sleep(Duration::from_millis(300));
            Says::text("done").into()
        });
        home.configure(&server, Protocol::Anthropic, "");
        repository(&home);
        let starts = [0, 1].map(|_| Live::spawn(home.rewake(["-p", "go", "-w", "fix"])));
        let ran = starts.map(|start| start.wait(LIMIT));
        let mut codes = ran.each_ref().map(|run| run.code());
        codes.sort();
        assert_eq!(codes, [Some(0), Some(2)], "{ran:?}");
        let second = ran.into_iter().find(|run| run.code() == Some(2)).unwrap();
        refused(second, 2, &["there is a worktree fix already"]);
    }
}
