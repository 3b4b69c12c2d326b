//! Forks with files of their own: what is in the new folder, what stays, and what refuses.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{LIMIT, SCRIPTED, bash, calling, newest, play, scripted, step};
use support::{Home, Run, git, run};

/// All that lies below a folder: its content, or where a link leads.
fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap().display().to_string();
                found.insert(name, target);
            } else if kind.is_dir() && name == ".git" {
            } else if kind.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(name, String::from_utf8_lossy(&content).into_owned());
            }
        }
    }
    found
}

fn map(items: &[(&str, &str)]) -> BTreeMap<String, String> {
    let text = |(name, content): &(&str, &str)| (name.to_string(), content.to_string());
    items.iter().map(text).collect()
}

fn records(home: &Home, id: &str) -> Vec<Value> {
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    export["records"].as_array().unwrap().clone()
}

/// The entries that name a tree.
fn known(home: &Home, id: &str) -> Vec<String> {
    let records = records(home, id);
    let known = records.iter().filter(|r| r["entry"]["tree"].is_string());
    known.map(|r| r["seq"].to_string()).collect()
}

fn sessions(home: &Home) -> usize {
    home.run(["history"]).expect(0).stdout.lines().count()
}

/// A session that changed files in two turns: its id, and the entries at which the files are known.
fn scene() -> (Home, String, Vec<String>) {
    let home = scripted(&[
        step(
            "",
            &[bash(
                "echo 2 > a; mkdir -p src; echo new > src/b; chmod 755 src/b; ln -s a link",
            )],
        ),
        step(
            "",
            &[
                bash("echo 3 > a; rm link"),
                ("write", json!({ "path": "kept.log", "content": "log\n" })),
            ],
        ),
        step("done", &[]),
    ]);
    fs::write(home.path("a"), "1\n").unwrap();
    fs::write(home.path(".gitignore"), "*.log\nignored\n").unwrap();
    fs::write(home.path("ignored"), "not kept\n").unwrap();
    fs::write(home.path(".env"), "SECRET=1\n").unwrap();
    home.run(["-p", "go", "--yolo"]).expect(0);
    let id = newest(&home);
    let known = known(&home, &id);
    assert!(known.len() >= 3, "{known:?}");
    (home, id, known)
}

/// Whatever was answered by now, this command is called, and then it is done.
fn plays_on(home: &Home, command: &str) {
    let call = || step("", &[bash(command)]);
    play(home, &[call(), call(), call(), call(), step("done", &[])]);
}

const GITIGNORE: (&str, &str) = (".gitignore", "*.log\nignored\n");

fn aside(home: &Home, name: &str) -> PathBuf {
    home.workspace().with_file_name(name)
}

fn fork(home: &Home, args: &[&str], code: i32) -> Run {
    let mut all = vec!["fork"];
    all.extend(args);
    home.run(all).expect(code)
}

/// Nothing was made: no session, no folder, nothing that waits.
#[track_caller]
fn refused(home: &Home, args: &[&str], said: &str) {
    let before = sessions(home);
    let all = |home: &Home| files(home.workspace().parent().unwrap()).into_keys();
    let is_data = |name: &String| name.starts_with("rewake/");
    let there: Vec<String> = all(home).filter(|name| !is_data(name)).collect();
    let refused = fork(home, args, 2);
    assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    assert!(refused.stdout.is_empty(), "{}", refused.stdout);
    assert_eq!(sessions(home), before);
    let now: Vec<String> = all(home).filter(|name| !is_data(name)).collect();
    assert_eq!(now, there);
    assert_eq!(notes(home), 0);
}

/// Forks that are being made.
fn notes(home: &Home) -> usize {
    let folder = home.rewake_home().join("files/forks");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_fork_gets_the_files_of_its_entry_in_a_separate_folder() {
    let (home, id, known) = scene();
    let there = files(&home.workspace());
    let first = fork(&home, &[&id, "--at", &known[0], "--files", "../first"], 0);
    assert!(
        first.stderr.contains("its files are in"),
        "{}",
        first.stderr
    );
    assert!(
        first.stderr.contains("content is not stored: .env"),
        "{}",
        first.stderr
    );
    assert_eq!(
        files(&aside(&home, "first")),
        map(&[GITIGNORE, ("a", "1\n")])
    );
    let second = aside(&home, "second");
    fs::create_dir(&second).unwrap();
    let at = fork(
        &home,
        &[&id, "--at", &known[1], "--files", second.to_str().unwrap()],
        0,
    );
    let wanted = map(&[GITIGNORE, ("a", "2\n"), ("src/b", "new\n"), ("link", "a")]);
    assert_eq!(files(&second), wanted);
    let mode = second
        .join("src/b")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    // At its end, with what a tool wrote where it is ignored.
    fork(&home, &[&id, "--files", "../last"], 0);
    let wanted = map(&[
        GITIGNORE,
        ("a", "3\n"),
        ("src/b", "new\n"),
        ("kept.log", "log\n"),
    ]);
    assert_eq!(files(&aside(&home, "last")), wanted);
    assert_eq!(files(&home.workspace()), there);
    assert_eq!(notes(&home), 0);
    // It works there, and tells the model so.
    plays_on(&home, "echo forked > a");
    let copy = at.stdout.trim();
    let went = home.run(["-p", "-r", copy, "go on", "--yolo"]).expect(0);
    assert_eq!(went.stdout.trim(), "done");
    assert_eq!(fs::read_to_string(second.join("a")).unwrap(), "forked\n");
    assert_eq!(home.read("a"), "3\n");
    let shown = home.run(["show", copy]).expect(0).stdout;
    let real = second.canonicalize().unwrap();
    for text in [
        format!("folder    {}", real.display()),
        format!("it has files of its own in {}", real.display()),
        "put into the new folder".to_string(),
    ] {
        assert!(shown.contains(&text), "{text}: {shown}");
    }
    let rendered = records(&home, copy);
    let layers = rendered
        .iter()
        .rev()
        .find(|r| r["entry"]["kind"] == "rendered");
    let layers = layers
        .expect("the layers are those of the new folder")
        .to_string();
    assert!(layers.contains(real.to_str().unwrap()), "{layers}");
}

#[test]
fn a_fork_goes_back_in_its_own_folder_and_never_in_the_other() {
    let (home, id, known) = scene();
    let copy = fork(&home, &[&id, "--at", &known[1], "--files", "../copy"], 0);
    let (copy, folder) = (copy.stdout.trim().to_string(), aside(&home, "copy"));
    let begin = self::known(&home, &copy).pop().unwrap();
    let as_forked = files(&folder);
    // There is no rewind in it, and none of the other session is taken back.
    let redo = home.run(["rewind", &copy, "--redo", "--yes"]).expect(2);
    assert!(
        redo.stderr.contains("no rewind to take back"),
        "{}",
        redo.stderr
    );
    plays_on(&home, "rm -rf *");
    home.run(["-p", "-r", &copy, "go on", "--yolo"]).expect(0);
    assert!(!folder.join("a").exists());
    let there = files(&home.workspace());
    home.run(["rewind", &copy, &begin, "--files", "--yes"])
        .expect(0);
    assert_eq!(files(&folder), as_forked);
    let earlier = home
        .run(["rewind", &copy, &known[0], "--files", "--yes"])
        .expect(2);
    assert!(
        earlier.stderr.contains("of another folder"),
        "{}",
        earlier.stderr
    );
    assert_eq!(files(&folder), as_forked);
    assert_eq!(files(&home.workspace()), there);
}

#[test]
fn a_folder_that_does_not_fit_is_refused_and_nothing_is_made() {
    let (home, id, known) = scene();
    fs::write(aside(&home, "full"), "a file").unwrap();
    let some = aside(&home, "some");
    fs::create_dir(&some).unwrap();
    fs::write(some.join("x"), "").unwrap();
    symlink(&some, aside(&home, "link")).unwrap();
    symlink("nowhere", aside(&home, "dangling")).unwrap();
    let repository = aside(&home, "repository");
    fs::create_dir_all(repository.join(".git")).unwrap();
    fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let own = home.rewake_home().join("copy");
    for (folder, said) in [
        ("../full", "it is not a folder"),
        ("../some", "it is not empty"),
        ("../link", "it is a symbolic link"),
        ("../dangling", "it is a symbolic link"),
        ("../no/where", "there is no folder"),
        ("copy", "whose files the fork is a copy of"),
        (".", "it is not empty"),
        ("../repository/copy", "it lies in the repository"),
        (own.to_str().unwrap(), "which is rewake's own"),
    ] {
        refused(&home, &[&id, "--files", folder], said);
    }
    refused(&home, &[&id, "--at", "999", "--files", "../copy"], "999");
    refused(&home, &[&id, "--worktree"], "it is not a git repository");
    // What is not stored any more.
    let database = home.rewake_home().join("rewake.db");
    let conn = rusqlite::Connection::open(database).unwrap();
    conn.execute("DELETE FROM contents", []).unwrap();
    let lost = fork(&home, &[&id, "--at", &known[0], "--files", "../copy"], 75);
    assert!(
        lost.stderr.contains("is not stored any more"),
        "{}",
        lost.stderr
    );
    assert!(!aside(&home, "copy").exists());
    assert_eq!(notes(&home), 0);
}

/// No user may make a folder there, nor root.
#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let (home, id, _) = scene();
    refused(&home, &[&id, "--files", "/proc/copy"], "it cannot be made");
}

#[test]
fn a_worktree_gets_the_files_and_nothing_of_the_repository_runs() {
    let home = calling(&[bash("cd ..; echo 2 > a; echo n > new; rm gone")]);
    let root = home.workspace();
    git(&root, &["init", "-q"]);
    for name in ["a", "gone"] {
        fs::write(root.join(name), "1\n").unwrap();
    }
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/x"), "x\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "x"]);
    // Whatever git checks out would go through this.
    let ran = home.rewake_home().join("ran");
    fs::write(root.join(".gitattributes"), "* filter=f\n").unwrap();
    let touch = format!("touch {}; cat", ran.display());
    git(&root, &["config", "filter.f.smudge", &touch]);
    let hook = root.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.rewake(["-p", "go", "--yolo"]);
    command.current_dir(root.join("sub"));
    run(command, LIMIT).expect(0);
    let id = newest(&home);
    let known = known(&home, &id);
    let head = git(&root, &["rev-parse", "HEAD"]);
    refused(
        &home,
        &[&id, "--worktree", "here"],
        "whose files the fork is a copy of",
    );
    let made = fork(
        &home,
        &[&id, "--at", known.last().unwrap(), "--worktree"],
        0,
    );
    let copy = made.stdout.trim().to_string();
    assert!(
        made.stderr.contains("on no branch: git switch -c NAME"),
        "{}",
        made.stderr
    );
    let folder = root.with_file_name(format!("work-{}", &copy[..13]));
    let mut there = files(&folder);
    there
        .remove(".git")
        .expect("the file that names the repository");
    let mut wanted = files(&root);
    wanted.retain(|name, _| !name.starts_with(".git/"));
    assert_eq!(there, wanted);
    assert!(!ran.exists(), "something of the repository ran");
    assert_eq!(git(&folder, &["rev-parse", "HEAD"]), head);
    let status = git(
        &folder,
        &[
            "-c",
            "filter.f.smudge=cat",
            "-c",
            "filter.f.clean=cat",
            "status",
            "--porcelain",
        ],
    );
    assert_eq!(
        status,
        git(
            &root,
            &[
                "-c",
                "filter.f.smudge=cat",
                "-c",
                "filter.f.clean=cat",
                "status",
                "--porcelain"
            ]
        )
    );
    // In a new folder that is named, and not twice in one.
    // What others may not read does not lie open in the copy.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    let named = fork(&home, &[&id, "--worktree", "../named"], 0);
    let mode = fs::metadata(aside(&home, "named")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    assert!(aside(&home, "named/sub/x").exists(), "{}", named.stderr);
    refused(&home, &[&id, "--worktree", "../named"], "it is not empty");
    // One whose folder is away stays a worktree.
    fs::rename(aside(&home, "named"), aside(&home, "moved")).unwrap();
    refused(&home, &[&id, "--worktree", "../named"], "is one already");
    fs::rename(aside(&home, "moved"), aside(&home, "named")).unwrap();
    assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 3);
    // The one that is to be made fails: nothing of it stays.
    git(&root, &["update-ref", "-d", "HEAD"]);
    refused(
        &home,
        &[&id, "--worktree", "../none"],
        "cannot create a worktree",
    );
    assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 3);
}

/// A file system of its own, as root can mount one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: PathBuf, kilobytes: u64) -> Option<Mounted> {
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "none"]);
        let done = mount.arg(&folder).output();
        let is_mounted = done.is_ok_and(|done| done.status.success());
        is_mounted.then_some(Mounted(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_leaves_no_partial_fork() {
    let (home, id, _) = scene();
    let Some(mounted) = Mounted::new(aside(&home, "small"), 64) else {
        eprintln!("not tested: no file system can be mounted here");
        return;
    };
    // So much is taken by others: from all of it to none.
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    let before = sessions(&home);
    let mut made = 0;
    for pages in [16, 15, 14, 13, 12, 0] {
        let taken = mounted.0.join("taken");
        let _ = fs::remove_file(&taken);
        if pages > 0 {
            let _ = fs::write(&taken, vec![b'x'; pages * 4_096]);
        }
        let copy = format!("{}/copy", mounted.0.display());
        let fork = home.run(["fork", &id, "--files", &copy]);
        match fork.code() {
            Some(75) => {
                assert!(fork.stderr.contains("No space left"), "{}", fork.stderr);
                assert_eq!(names(&mounted.0), 1, "{}", fork.stderr);
                assert_eq!(sessions(&home), before);
            }
            // Not even a folder can be made.
            Some(2) => assert!(fork.stderr.contains("No space left"), "{}", fork.stderr),
            Some(0) => {
                made += 1;
                assert_eq!(fs::read_to_string(format!("{copy}/a")).unwrap(), "3\n");
                break;
            }
            other => panic!("{other:?}: {}", fork.stderr),
        }
        assert_eq!(notes(&home), 0);
    }
    assert_eq!(made, 1);
    // The root of another file system does as well.
    let Some(empty) = Mounted::new(aside(&home, "empty"), 512) else {
        return;
    };
    fork(&home, &[&id, "--files", empty.0.to_str().unwrap()], 0);
    assert!(empty.0.join("src/b").exists());
}

/// Where nobody looked at the files, there are none to copy.
#[test]
fn a_fork_with_files_is_refused_without_snapshots() {
    let (home, id, _) = scene();
    home.write_config(&format!("{SCRIPTED}[files]\nsnapshots = \"off\"\n"));
    play(&home, &[step("", &[bash("echo 4 > a")]), step("done", &[])]);
    home.run(["-p", "go", "--yolo"]).expect(0);
    let listed = home.run(["history"]).expect(0).stdout;
    let newest = listed.split_whitespace().next().unwrap();
    assert_ne!(newest, id);
    refused(
        &home,
        &[newest, "--files", "../copy"],
        "this session has no snapshot",
    );
    let hint = fork(&home, &[newest, "--files", "../copy"], 2).stderr;
    assert!(
        hint.contains("without --files the fork shares the files"),
        "{hint}"
    );
}
