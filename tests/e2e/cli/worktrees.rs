//! `rewake -w NAME`: a session in a git worktree of its own, killed at each step, resumed, and ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rewake::store::{WorktreeNote, WorktreeStage};

use crate::cli::{LIMIT, bash, calling, play, refused, scripted, step};
pub use crate::scenes::newest;
pub use crate::scenes::worktrees::*;
use support::{Home, run};

pub fn branches(root: &Path) -> Vec<String> {
    let text = git(root, &["branch", "--format=%(refname:short)"]);
    text.lines().map(str::to_string).collect()
}

/// A program of the repository would leave this file.
fn mark(home: &Home) -> PathBuf {
    home.rewake_home().join("ran")
}

fn append(file: &Path, text: &str) {
    let before = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, before + text).unwrap();
}

#[test]
fn no_program_of_the_repository_runs_for_a_worktree() {
    let filter = |key: &str| format!("[filter \"x\"]\n\t{key} = MARK\n\trequired = true\n");
    let cases = [
        (filter("smudge"), true),
        (filter("process"), true),
        // A command could change the file between two looks at it.
        ("[include]\n\tpath = ../inc\n".to_string(), false),
        (
            "[includeIf \"gitdir:**\"]\n\tpath = ../inc\n".to_string(),
            false,
        ),
        (
            "[includeIf \"onbranch:rewake/**\"]\n\tpath = ../inc\n".to_string(),
            false,
        ),
        ("[filter \"a=b\"]\n\tsmudge = MARK\n".to_string(), false),
        (
            "[filter \"mine\"]\n\tsmudge = MARK\n\tclean = MARK\n".to_string(),
            true,
        ),
        (
            "[core]\n\tfsmonitor = MARK\n\thooksPath = ../hooks\n".to_string(),
            true,
        ),
        (
            "[extensions]\n\tworktreeConfig = true\n[core]\n\trepositoryformatversion = 1\n"
                .to_string(),
            true,
        ),
    ];
    for (number, (settings, is_made)) in cases.into_iter().enumerate() {
        let home = scripted(&commands(&[]));
        let root = repository(&home);
        let attributes = "a filter=x\nsub/x filter=mine\nb filter=a=b\n";
        fs::write(root.join(".gitattributes"), attributes).unwrap();
        fs::write(root.join("b"), "b\n").unwrap();
        git(&root, &["add", "."]);
        git(&root, &["commit", "-q", "-m", "attributes"]);
        // The user's own filter.
        let own = home.user().join(".gitconfig");
        append(&own, "[filter \"mine\"]\n\tsmudge = sed s/x/mine/\n");
        let program = format!("\"touch {}; cat\"", mark(&home).display());
        fs::write(root.join("inc"), filter("smudge").replace("MARK", &program)).unwrap();
        let config = root.join(".git/config");
        append(&config, &settings.replace("MARK", &program));
        if settings.contains("worktreeConfig") {
            let worktree = root.join(".git/config.worktree");
            append(&worktree, &filter("smudge").replace("MARK", &program));
        }
        fs::create_dir(root.join("hooks")).unwrap();
        let hook = root.join("hooks/post-checkout");
        fs::write(
            &hook,
            format!("#!/bin/sh\ntouch {}\n", mark(&home).display()),
        )
        .unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        let run = go(&home, &["-w", "fix"]);
        assert!(!mark(&home).exists(), "{number}: {settings}");
        if !is_made {
            refused(run, 2, &["cannot create worktree fix", "hint: "]);
            continue;
        }
        let run = run.expect(0);
        let folder = folder(&home, "fix");
        assert_eq!(
            fs::read_to_string(folder.join("a")).unwrap(),
            "1\n",
            "{number}"
        );
        let of_user = fs::read_to_string(folder.join("sub/x")).unwrap();
        assert_eq!(of_user, "mine\n", "{number}: {}", run.stderr);
        let names_filter = run.stderr.contains("filters of the repository did not run");
        assert_eq!(
            names_filter,
            !settings.contains("fsmonitor"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn an_impossible_worktree_is_refused_with_a_hint() {
    let home = scripted(&commands(&["echo never > effect"]));
    let root = home.workspace();
    let is_refused = |name: &str, words: &[&str]| {
        refused(go(&home, &["-w", name]), 2, &[words, &["hint: "]].concat());
        assert_eq!(notes(&home).len(), 0, "{name}");
        assert!(!root.join("effect").exists());
    };
    is_refused("fix", &["is not a git repository", "git init"]);
    for name in ["-x", "a/b", "../x", "a b", ".a", "x.lock", &"a".repeat(65)] {
        is_refused(name, &["is not a name for a worktree"]);
    }
    git(&root, &["init", "-q", "--bare"]);
    is_refused("fix", &["is a bare repository", "git clone"]);
    for entry in fs::read_dir(&root).unwrap().flatten() {
        let path = entry.path();
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    git(&root, &["init", "-q", "-b", "main"]);
    is_refused("fix", &["has no commit"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&root, &["branch", "rewake/fix"]);
    is_refused("fix", &["has a branch rewake/fix"]);
    git(&root, &["branch", "-m", "rewake/fix", "other"]);
    git(&root, &["branch", "rewake"]);
    is_refused("fix", &["has a branch rewake\n"]);
    git(&root, &["branch", "-d", "rewake"]);
    refused(
        go(&home, &["-w", "fix", "-c"]),
        2,
        &["there is no worktree fix"],
    );
    // Something lies where it would be.
    go(&home, &["-w", "one"]).expect(0);
    let beside = folder(&home, "one").with_file_name("two");
    fs::create_dir(&beside).unwrap();
    refused(go(&home, &["-w", "two"]), 2, &["which is taken", "hint: "]);
    assert_eq!(notes(&home).len(), 1);
    // Submodules are said.
    fs::write(root.join(".gitmodules"), "").unwrap();
    let run = go(&home, &["-w", "three"]).expect(0);
    assert!(
        run.stderr.contains("submodules are not in it"),
        "{}",
        run.stderr
    );
    let run = home.run(["-w", "x", "-r", "0197"]);
    assert_eq!(run.code(), Some(2), "{}", run.stderr);
}

/// The variables with which git starts a hook.
#[test]
fn a_worktree_does_not_get_the_repository_of_the_hook_that_started_it() {
    let line = "echo 2 > a; git add a && git -c user.name=a -c user.email=b commit -qm two; \
                git show HEAD:a > seen; env | grep -E '^GIT_(DIR|INDEX|WORK|PREFIX)|core.bare' >> seen; true";
    let home = scripted(&commands(&[line]));
    let root = repository(&home);
    let mut command = home.rewake(["-p", "go", "--yolo", "-w", "fix"]);
    command.env("GIT_INDEX_FILE", ".git/index");
    command.env("GIT_DIR", root.join(".git"));
    command.env("GIT_WORK_TREE", &root);
    command.env("GIT_PREFIX", "");
    command.env("GIT_CONFIG_PARAMETERS", "'core.bare'='true'");
    let done = run(command, LIMIT).expect(0);
    let folder = folder(&home, "fix");
    assert_eq!(fs::read_to_string(folder.join("seen")).unwrap(), "2\n");
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    assert_eq!(git(&root, &["log", "--format=%s", "rewake/fix"]), "two\nx");
    // The end says how the work gets into the project.
    let shown = folder.display();
    let words = format!(
        "worktree fix: 1 file not committed; git -C {shown} add -A && git -C {shown} commit, then git merge \
         rewake/fix"
    );
    assert!(done.stderr.contains(&words), "{}", done.stderr);
    fs::remove_file(folder.join("seen")).unwrap();
    play(&home, &commands(&["true"]));
    let done = home
        .run(["-p", "go", "--yolo", "-w", "fix", "-c"])
        .expect(0);
    let merges = "worktree fix: git merge rewake/fix merges 1 commit\n";
    assert!(done.stderr.contains(merges), "{}", done.stderr);
    git(&root, &["merge", "-q", "rewake/fix"]);
    let done = home
        .run(["-p", "go", "--yolo", "-w", "fix", "-c"])
        .expect(0);
    assert!(!done.stderr.contains("git merge"), "{}", done.stderr);
}

/// git takes the folder of a submodule from its settings, and with separate settings for each
/// worktree it does so in all of them.
#[test]
fn a_worktree_of_a_submodule_has_its_own_files_or_is_refused() {
    let line = "echo 2 > l; git -c user.name=a -c user.email=b commit -qam two";
    let home = scripted(&commands(&[line]));
    let root = repository(&home);
    let lib = root.with_file_name("lib");
    fs::create_dir(&lib).unwrap();
    git(&lib, &["init", "-q", "-b", "main"]);
    fs::write(lib.join("l"), "1\n").unwrap();
    git(&lib, &["add", "."]);
    git(&lib, &["commit", "-q", "-m", "one"]);
    let url = lib.to_str().unwrap();
    git(&root, &["submodule", "--quiet", "add", url, "deps/lib"]);
    let sub = root.join("deps/lib");
    let start = |name: &str| {
        let mut command = home.rewake(["-p", "go", "--yolo", "-w", name]);
        command.current_dir(&sub);
        run(command, LIMIT)
    };
    let done = start("fix").expect(0);
    let merges = "git merge rewake/fix merges 1 commit";
    assert!(done.stderr.contains(merges), "{}", done.stderr);
    assert_eq!(git(&sub, &["show", "rewake/fix:l"]), "2");
    assert_eq!(fs::read_to_string(sub.join("l")).unwrap(), "1\n");
    git(&sub, &["config", "extensions.worktreeConfig", "true"]);
    let words = [
        "with extensions.worktreeConfig",
        "hint: for core.worktree: git config --worktree",
    ];
    refused(start("two"), 2, &words);
    refused(start("two"), 2, &words);
    assert_eq!(branches(&sub), ["main", "rewake/fix"]);
    assert_eq!(notes(&home).len(), 1);
    assert_eq!(git(&sub, &["status", "--porcelain"]), "");
    // As the hint says.
    let top = git(&sub, &["config", "core.worktree"]);
    git(&sub, &["config", "--worktree", "core.worktree", &top]);
    git(&sub, &["config", "--local", "--unset", "core.worktree"]);
    start("two").expect(0);
    assert_eq!(git(&sub, &["show", "rewake/two:l"]), "2");
    home.run(["gc", "--yes"]).expect(0);
}

#[test]
fn a_worktree_of_a_bare_repository_is_made_in_one_of_its_worktrees() {
    let home = scripted(&commands(&[
        "echo 2 > a; git -c user.name=a -c user.email=b commit -qam two",
    ]));
    let root = repository(&home);
    let all = root.with_file_name("all");
    let url = root.to_str().unwrap();
    git(
        &root,
        &[
            "clone",
            "-q",
            "--bare",
            url,
            all.join(".bare").to_str().unwrap(),
        ],
    );
    fs::write(all.join(".git"), "gitdir: ./.bare\n").unwrap();
    git(&all, &["worktree", "add", "-q", "tree", "main"]);
    let start = |folder: &Path| {
        let mut command = home.rewake(["-p", "go", "--yolo", "-w", "fix"]);
        command.current_dir(folder);
        run(command, LIMIT)
    };
    refused(
        start(&all),
        2,
        &["is a bare repository", "git worktree list"],
    );
    refused(
        start(&all.join(".bare")),
        2,
        &["is a bare repository", "git worktree list"],
    );
    start(&all.join("tree")).expect(0);
    assert_eq!(git(&all.join("tree"), &["show", "rewake/fix:a"]), "2");
    // A folder that names the repository of another one gets no worktree of it.
    let other = root.with_file_name("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(".git"), format!("gitdir: {url}/.git\n")).unwrap();
    refused(
        start(&other),
        2,
        &["has a git folder that does not name it"],
    );
    assert_eq!(branches(&root), ["main"]);
}

#[test]
fn a_worktree_that_is_gone_is_made_again_while_its_branch_is_there() {
    let home = scripted(&commands(&[
        "echo 2 > a; git add a; git -c user.name=a -c user.email=b commit -qm two; echo n > new",
    ]));
    let root = repository(&home);
    go(&home, &["-w", "fix"]).expect(0);
    let (id, folder) = (newest(&home), folder(&home, "fix"));
    fs::remove_dir_all(&folder).unwrap();
    let run = home.run(["-p", "-r", &id]).expect(0);
    assert!(
        run.stderr
            .contains("the worktree fix was gone; it was made again"),
        "{}",
        run.stderr
    );
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "2\n");
    assert_eq!(worktrees(&root), 2);
    // Also where git was told that it is gone.
    git(
        &root,
        &["worktree", "remove", "--force", folder.to_str().unwrap()],
    );
    home.run(["-p", "-w", "fix", "-c"]).expect(0);
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "2\n");
    // What lies there is not replaced.
    fs::remove_file(folder.join(".git")).unwrap();
    let words = ["its file .git is gone", "hint: move it away"];
    refused(home.run(["-p", "-r", &id]), 2, &words);
    fs::remove_dir_all(&folder).unwrap();
    // Without its branch it is said what makes one.
    git(&root, &["worktree", "prune"]);
    git(&root, &["branch", "-q", "-D", "rewake/fix"]);
    let run = refused(
        home.run(["-p", "-r", &id]),
        2,
        &["so is its branch rewake/fix"],
    );
    let hint = run
        .stderr
        .lines()
        .find_map(|l| l.strip_prefix("hint: git branch "));
    let words: Vec<&str> = hint.expect("a hint").split_whitespace().take(2).collect();
    git(&root, &["branch", words[0], words[1]]);
    home.run(["-p", "-r", &id]).expect(0);
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n");
}

/// What a kill leaves: of the repository, the note and the folder of a worktree.
type Leaves = fn(&Path, &WorktreeNote, &Path);

/// What a kill leaves at each step, made by hand. Started again it comes to the same end.
#[test]
fn whatever_a_kill_leaves_the_next_start_comes_to_the_same_end() {
    let home = scripted(&commands(&["echo once >> effect"]));
    let root = repository(&home);
    let data = home.rewake_home();
    let commit = git(&root, &["rev-parse", "HEAD"]);
    let lefts: [(&str, Leaves); 5] = [
        ("noted", |_, _, _| {}),
        ("branch", |root, note, _| {
            git(root, &["branch", &note.branch]);
        }),
        ("half", |root, note, folder| {
            let folder = folder.to_str().unwrap();
            git(
                root,
                &[
                    "worktree",
                    "add",
                    "-q",
                    "--no-checkout",
                    "-b",
                    &note.branch,
                    folder,
                ],
            );
            git(
                root,
                &["worktree", "lock", "--reason", "initializing", folder],
            );
        }),
        ("added", |root, note, folder| {
            let folder = folder.to_str().unwrap();
            git(root, &["worktree", "add", "-q", "-b", &note.branch, folder]);
        }),
        ("made", |root, note, folder| {
            let text = folder.to_str().unwrap();
            git(root, &["worktree", "add", "-q", "-b", &note.branch, text]);
            let made = WorktreeNote {
                stage: WorktreeStage::Made,
                ..note.clone()
            };
            let data = folder.ancestors().nth(3).unwrap();
            made.write(data).unwrap();
        }),
    ];
    for (name, leave) in lefts {
        let note = WorktreeNote {
            project: root.clone(),
            name: name.into(),
            branch: format!("rewake/{name}"),
            commit: commit.clone(),
            base: Some("main".into()),
            session: None,
            stage: WorktreeStage::Begun,
            remaking: false,
        };
        note.write(&data).unwrap();
        let folder = note.folder(&data);
        leave(&root, &note, &folder);
        go(&home, &["-w", name]).expect(0);
        assert_eq!(
            fs::read_to_string(folder.join("effect")).unwrap(),
            "once\n",
            "{name}"
        );
        assert_eq!(
            fs::read_to_string(folder.join("a")).unwrap(),
            "1\n",
            "{name}"
        );
        assert_eq!(
            git(&folder, &["status", "--porcelain"]),
            "?? effect",
            "{name}"
        );
        let now = notes(&home).into_iter().find(|n| n.name == name).unwrap();
        assert_eq!(now.stage, WorktreeStage::Made, "{name}");
    }
    assert_eq!(worktrees(&root), 1 + lefts.len());
    assert_eq!(branches(&root).len(), 1 + lefts.len());
}

#[test]
fn gc_removes_an_unchanged_worktree_and_resume_recreates_it() {
    let home = scripted(&commands(&["true"]));
    let root = repository(&home);
    go(&home, &["-w", "clean"]).expect(0);
    let (id, clean) = (newest(&home), folder(&home, "clean"));
    play(&home, &commands(&["echo 2 > a"]));
    go(&home, &["-w", "dirty"]).expect(0);
    let (dirty_id, dirty) = (newest(&home), folder(&home, "dirty"));
    let commit = "echo 3 > a; git add a; git -c user.name=a -c user.email=b commit -qm three";
    play(&home, &commands(&[commit]));
    go(&home, &["-w", "ahead"]).expect(0);
    let ahead = folder(&home, "ahead");
    let looked = home.run(["gc"]).expect(0).stdout;
    assert!(
        looked.contains("worktrees  3, 0 of them without a session"),
        "{looked}"
    );
    assert!(clean.exists());
    let removed = home.run(["gc", "--yes"]).expect(0).stdout;
    assert!(removed.contains("removed    1 worktree"), "{removed}");
    assert!(!clean.exists() && dirty.exists() && ahead.exists());
    assert_eq!(branches(&root), ["main", "rewake/ahead", "rewake/dirty"]);
    // Its session goes on in it.
    home.run(["-p", "-r", &id]).expect(0);
    assert_eq!(fs::read_to_string(clean.join("a")).unwrap(), "1\n");
    // What is merged is not lost.
    git(&root, &["merge", "-q", "rewake/ahead"]);
    home.run(["gc", "--yes"]).expect(0);
    assert!(!ahead.exists() && !clean.exists());
    // A purge says what it leaves; doctor and gc name it then.
    let purged = home.run(["purge", &dirty_id, "--yes"]).expect(0);
    let words = format!(
        "its worktree stays: {}, branch rewake/dirty: 1 file not",
        dirty.display()
    );
    assert!(purged.stderr.contains(&words), "{}", purged.stderr);
    let doctor = home.run(["doctor"]).stdout;
    let words = format!(
        "{}, branch rewake/dirty: no session works in it",
        dirty.display()
    );
    assert!(doctor.contains(&words), "{doctor}");
    let kept = home.run(["gc", "--yes"]).expect(0).stderr;
    assert!(kept.contains("a worktree stays: "), "{kept}");
    git(&dirty, &["checkout", "-q", "a"]);
    home.run(["gc", "--yes"]).expect(0);
    assert!(!dirty.exists());
    let purged = home.run(["purge", &id, "--yes"]).expect(0);
    assert!(
        purged.stdout.contains("removed    its worktree"),
        "{}",
        purged.stdout
    );
    assert_eq!(branches(&root), ["main"]);
}

/// A removal that was noted and cut short, at each of its steps.
#[test]
fn a_removal_that_was_cut_short_is_finished() {
    let home = scripted(&commands(&["true"]));
    let root = repository(&home);
    let cuts: [(&str, Leaves); 4] = [
        ("noted", |_, _, _| {}),
        ("renamed", |_, note, folder| {
            let data = folder.ancestors().nth(3).unwrap();
            let gone = note.gone(data);
            fs::create_dir_all(gone.parent().unwrap()).unwrap();
            fs::rename(folder, gone).unwrap();
        }),
        ("unlisted", |root, _, folder| {
            git(root, &["worktree", "remove", folder.to_str().unwrap()]);
        }),
        ("branchless", |root, note, folder| {
            git(root, &["worktree", "remove", folder.to_str().unwrap()]);
            git(root, &["branch", "-q", "-d", &note.branch]);
        }),
    ];
    for (name, cut) in cuts {
        for resumes in [true, false] {
            let name = format!("{name}{resumes}");
            go(&home, &["-w", &name]).expect(0);
            let id = newest(&home);
            let mut note = notes(&home).into_iter().find(|n| n.name == name).unwrap();
            let folder = note.folder(&home.rewake_home());
            note.stage = WorktreeStage::Removing;
            note.write(&home.rewake_home()).unwrap();
            cut(&root, &note, &folder);
            if resumes {
                home.run(["-p", "-r", &id]).expect(0);
                assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{name}");
                assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n");
            }
            home.run(["gc", "--yes"]).expect(0);
            assert!(!folder.exists(), "{name}");
            assert_eq!(branches(&root), ["main"], "{name}");
            assert_eq!(worktrees(&root), 1, "{name}");
        }
    }
}

#[test]
fn trusted_project_settings_apply_in_its_worktrees() {
    let home = calling(&[
        ("read", serde_json::json!({"path": "secret/key"})),
        ("read", serde_json::json!({"path": "hidden"})),
        ("read", serde_json::json!({"path": "a"})),
        ("write", serde_json::json!({"path": "new", "content": "n"})),
        bash("echo allowed > by-rule"),
    ]);
    let root = repository(&home);
    let config = root.join(".rewake/config.toml");
    fs::create_dir(config.parent().unwrap()).unwrap();
    fs::create_dir(root.join("secret")).unwrap();
    fs::write(root.join("secret/key"), "SECRET\n").unwrap();
    fs::write(root.join("hidden"), "HIDDEN\n").unwrap();
    // What the worktree gets of it allows all.
    fs::write(&config, "[permissions]\nallow = [\"Full\", \"Bash\"]\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "config"]);
    let whole = format!("Read({}/hidden)", root.display());
    let says = format!("[permissions]\ndeny = [\"Read(secret/**)\", {whole:?}]\n");
    fs::write(&config, says).unwrap();
    home.run(["trust", "--yes"]).expect(0);
    let args = ["-p", "go", "-w", "fix", "--permission-mode", "acceptEdits"];
    let mut command = home.rewake(args.iter().chain(&["--output-format", "stream-json"]));
    // So that nothing runs but what a rule allows.
    command.env("REWAKE_TEST_KERNEL", "nothing");
    let run = support::run(command, LIMIT);
    let finished: Vec<String> = run
        .events()
        .iter()
        .filter(|e| e["type"] == "entry.finished")
        .map(|e| e["outcome"].to_string())
        .collect();
    let folder = folder(&home, "fix");
    assert_eq!(finished.len(), 5, "{}\n{}", run.stdout, run.stderr);
    assert!(
        finished[0].contains("denied") && !finished[0].contains("SECRET"),
        "{finished:?}"
    );
    assert!(
        finished[1].contains("denied") && !finished[1].contains("HIDDEN"),
        "{finished:?}"
    );
    assert!(finished[2].contains("done"), "{finished:?}");
    // It is no folder of rewake's own.
    assert!(folder.join("new").exists(), "{finished:?}");
    let mut command = home.rewake(["permissions"]);
    command.current_dir(&folder);
    let rules = support::run(command, LIMIT).expect(0).stdout;
    assert!(
        rules.contains("secret/**") && !rules.contains("Full"),
        "{rules}"
    );
    // What rewake keeps beside it is.
    play(
        &home,
        &[
            step(
                "",
                &[(
                    "write",
                    serde_json::json!({"path": "../.notes/fix", "content": "n"}),
                )],
            ),
            step("done", &[]),
        ],
    );
    let run = home.run([
        "-p",
        "more",
        "-w",
        "two",
        "--permission-mode",
        "acceptEdits",
    ]);
    assert!(
        run.stderr.contains("own settings") || run.code() == Some(0),
        "{}",
        run.stderr
    );
    assert!(
        WorktreeNote::all(&home.rewake_home())
            .iter()
            .any(|n| n.name == "fix")
    );
}
