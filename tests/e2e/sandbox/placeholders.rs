//! Names that git obeys and that a repository does not have: a command cannot create them, git
//! works as if they did not exist, and nothing of it stays.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rewake::command::{How, RunState, Running};
use rewake::core::access::Access;
use rewake::sandbox::{KeptPlaceholders, Profile, remove_left_placeholders};
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::kept::{Place, after, place, until};

/// Names of a repository that a command could create.
const NAMES: [&str; 7] = [
    "commondir",
    "config.worktree",
    "hooks/post-index-change",
    "info/attributes",
    "objects/info/alternates",
    "remotes/origin",
    "branches/origin",
];

fn sh(folder: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(folder);
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "a");
        command.env(format!("GIT_{name}_EMAIL"), "a@b");
    }
    let output = command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with a linked worktree, a submodule's git folder and a nested repository.
fn repository() -> Option<Place> {
    let place = place("");
    if !place.profile(Access::Workspace).is_held() {
        support::skip("a kernel with mount namespaces");
        return None;
    }
    std::fs::remove_file(place.path("ws/.env")).unwrap();
    let makes = "git config user.name a; git config user.email a@b; git config extensions.worktreeConfig true
        git add plain; git commit -qm one; git worktree add -q wt; git init -q --template= nested; git -C nested -c user.name=a -c user.email=b commit -q --allow-empty -m x
        git init -q --template= lib; mkdir .git/modules; mv lib/.git .git/modules/lib";
    sh(&place.path("ws"), makes);
    Some(place)
}

/// All paths below a folder with the contents of files.
fn listing(git: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut found = BTreeSet::new();
    let mut folders = vec![git.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            found.insert((path.clone(), std::fs::read(&path).unwrap_or_default()));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Starts a command that runs until [`finish`].
async fn start(place: &Place, command: &str, name: &str) -> Running {
    let waits = format!("{command}; touch {name}; while ! test -e {name}.go; do sleep 0.01; done");
    start_with(place, place.profile(Access::Workspace), &waits, name).await
}

/// Starts a command that makes a file of this name.
async fn start_with(place: &Place, profile: Profile, command: &str, name: &str) -> Running {
    let spec = place.spec(profile, command, false);
    let runs = place.runs();
    let run = runs.prepare(&spec).unwrap();
    let running = runs.start(&run).unwrap();
    until(|| place.path("ws").join(name).exists());
    running
}

async fn finish(place: &Place, mut running: Running, name: &str) {
    std::fs::write(place.path("ws").join(format!("{name}.go")), "").unwrap();
    let ended = place.runs().wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Exited(0));
    assert_eq!(after(&ended).changed, Vec::<String>::new());
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

/// Git folders with the names that git obeys in them.
const FOLDERS: [(&str, &[&str]); 4] = [
    (".git", &NAMES),
    (".git/modules/lib", &NAMES),
    ("nested/.git", &NAMES),
    (".git/worktrees/wt", &["config.worktree", "commondir"]),
];

fn paths() -> Vec<String> {
    let all = FOLDERS.iter();
    let all = all.flat_map(|(folder, names)| names.iter().map(move |n| format!("{folder}/{n}")));
    all.collect()
}

/// A script that tries to write to each of the names.
fn attack() -> String {
    let paths = paths().join(" ");
    format!(
        "for f in {paths}; do d=$(dirname $f); mkdir -p $d; echo evil > $f; echo evil > x; \
         mv -f x $f; ln -sf ../../plain $f; mv $d $d.x && mkdir $d && echo evil > $f; \
         rm -f x; done 2> /dev/null; true"
    )
}

fn is_evil(place: &Place, path: &str) -> bool {
    let path = place.path("ws").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    path.is_symlink() || text.contains("evil")
}

#[test]
fn missing_names_that_git_obeys_cannot_be_created() {
    let Some(place) = repository() else { return };
    let ws = place.path("ws");
    let before = listing(&ws.join(".git"));
    run(async {
        let running = start(&place, &attack(), "ready").await;
        // Git outside of the sandbox, as an editor runs it meanwhile.
        let status = sh(&ws, "git -C wt status --short; git status --short");
        assert!(status.contains("?? ready"), "{status}");
        let evil: Vec<String> = paths();
        let evil: Vec<&String> = evil.iter().filter(|path| is_evil(&place, path)).collect();
        assert!(evil.is_empty(), "{evil:?}");
        finish(&place, running, "ready").await;
    });
    let after = listing(&ws.join(".git"));
    let changed = before.symmetric_difference(&after);
    let is_index = |path: &Path| path.file_name().is_some_and(|name| name == "index");
    let changed = changed.filter(|(path, _)| !is_index(path));
    let changed: Vec<&PathBuf> = changed.map(|(path, _)| path).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn git_works_beside_placeholders_and_they_are_gone_afterwards() {
    let Some(place) = repository() else { return };
    let ws = place.path("ws");
    sh(&ws, "git config --unset extensions.worktreeConfig");
    let lines = "echo 1 > a && git add a && git commit -qm two && echo 2 > a && git stash -q && \
                 git stash pop -q && git commit -qam three && git rebase -q HEAD~1 && \
                 git worktree add -q second && git -C second commit -q --allow-empty -m x && \
                 git merge -q second && git branch -q other && git checkout -q other && git gc -q && \
                 git fsck && git -C nested status && git log --oneline";
    let (ended, text) = place.run(place.profile(Access::Workspace), lines);
    assert_eq!(ended.how, How::Exited(0), "{text}");
    assert_eq!(after(&ended).changed, Vec::<String>::new(), "{text}");
    assert!(!text.contains("hint:"), "{text}");
    let mut made = paths().into_iter().filter(|path| ws.join(path).exists());
    assert_eq!(made.next().as_deref(), Some(".git/worktrees/wt/commondir"));
    assert_eq!(made.next(), None);
    assert_eq!(
        sh(&ws, "git show --stat --format=%s HEAD~1").lines().next(),
        Some("three")
    );
}

/// The first to end leaves the placeholders to the other.
#[test]
fn placeholders_stay_as_long_as_a_command_relies_on_them() {
    let Some(place) = repository() else { return };
    let path = place.path("ws/.git/commondir");
    run(async {
        let first = start(&place, "true", "first").await;
        let mut second = start(&place, "true", "second").await;
        finish(&place, first, "first").await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), ".\n");
        let third = start(&place, "true", "third").await;
        std::fs::write(place.path("ws/second.go"), "").unwrap();
        place.runs().wait(&mut second).await.unwrap();
        finish(&place, third, "third").await;
    });
    assert!(!path.exists());
    let quarantined = place.path("quarantine").exists();
    assert!(!quarantined, "a placeholder was taken for a change");
}

/// The next command takes them over as they are. What somebody wrote into one stays.
#[test]
fn placeholders_that_a_session_keeps_go_when_it_rests() {
    let Some(place) = repository() else { return };
    let git = place.path("ws/.git");
    let path = git.join("commondir");
    let before = listing(&git);
    let kept = KeptPlaceholders::new(&place.path(""));
    let (mut files, mut all_records) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2 {
        kept.keep();
        let (ended, text) = place.run(place.profile(Access::Workspace), "cat .git/commondir");
        assert_eq!(ended.how, How::Exited(0), "{text}");
        assert_eq!(after(&ended).changed, Vec::<String>::new(), "{text}");
        files.insert(std::fs::metadata(&path).unwrap().ino());
        let records = std::fs::read_dir(place.path("placeholders")).unwrap();
        all_records.extend(records.flatten().map(|record| record.file_name()));
    }
    assert_eq!(files.len(), 1, "it was made again");
    assert_eq!(all_records.len(), 4, "the next command takes them over");
    let records = std::fs::read_dir(place.path("placeholders")).unwrap();
    assert_eq!(
        records.count(),
        3,
        "a lock, what is kept, and the last record"
    );
    let other = KeptPlaceholders::new(&place.path(""));
    other.keep();
    kept.release();
    assert!(path.exists(), "another session keeps it");
    let written = git.join("info/attributes");
    std::fs::write(&written, "* text\n").unwrap();
    drop(other);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "* text\n");
    std::fs::remove_file(&written).unwrap();
    let _ = std::fs::remove_dir(git.join("info"));
    assert_eq!(listing(&git), before);
}

/// The records of the other rewake are in its folder for data.
fn profile_of_another_rewake(place: &Place) -> Profile {
    let mut profile = place.profile(Access::Workspace);
    profile.quarantine = place.path("another/quarantine");
    profile
}

#[test]
fn placeholders_stay_for_a_command_of_another_rewake() {
    let Some(place) = repository() else { return };
    let path = place.path("ws/.git/commondir");
    run(async {
        let first = start(&place, "true", "first").await;
        let tries = format!(
            "touch ready; while ! test -e go; do sleep 0.01; done; {}",
            attack()
        );
        let profile = profile_of_another_rewake(&place);
        let mut second = start_with(&place, profile, &tries, "ready").await;
        finish(&place, first, "first").await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), ".\n");
        std::fs::write(place.path("ws/go"), "").unwrap();
        let ended = place.runs().wait(&mut second).await.unwrap();
        assert_eq!(after(&ended).changed, Vec::<String>::new());
        let evil: Vec<String> = paths();
        let evil: Vec<&String> = evil.iter().filter(|path| is_evil(&place, path)).collect();
        assert!(evil.is_empty(), "{evil:?}");
    });
    // The locks of the second end with its keeper, a moment later.
    until(|| {
        remove_left_placeholders(&place.path(""));
        !path.exists()
    });
}

/// Somebody removes the placeholders, also those of another rewake, so that nothing holds a name.
#[test]
fn a_name_that_is_not_held_any_more_is_compared() {
    let Some(place) = repository() else { return };
    let path = place.path("ws/.git/commondir");
    run(async {
        let first = start(&place, "true", "first").await;
        let writes = "touch ready; while ! test -e go; do sleep 0.01; done; \
                      while ! echo ../evil > .git/commondir; do sleep 0.01; done 2> /dev/null";
        let profile = profile_of_another_rewake(&place);
        let mut second = start_with(&place, profile, writes, "ready").await;
        std::fs::remove_file(&path).unwrap();
        std::fs::write(place.path("ws/go"), "").unwrap();
        let ended = place.runs().wait(&mut second).await.unwrap();
        let changed = &after(&ended).changed;
        assert!(
            changed.iter().any(|path| path.contains("/.git/commondir ")),
            "{changed:?}"
        );
        finish(&place, first, "first").await;
    });
    assert!(!path.exists());
}

/// With a sparse checkout, git gives each worktree a file that it obeys. A worktree may be made by the
/// command, or by somebody who works in it while the command runs.
#[test]
fn new_worktrees_of_a_sparse_checkout_stay() {
    let Some(place) = repository() else { return };
    let ws = place.path("ws");
    sh(
        &ws,
        "git sparse-checkout set --cone . && echo '#!/bin/sh' > .git/hooks/pre-commit || true",
    );
    run(async {
        let running = start(&place, "git worktree add -q ./made", "ready").await;
        sh(
            &ws,
            "git worktree add -q ../beside; echo x > ../beside/new; git -C ../beside add new",
        );
        finish(&place, running, "ready").await;
    });
    for folder in ["made", "../beside"] {
        sh(&ws, &format!("git -C {folder} status --short"));
    }
    assert_eq!(sh(&ws, "git -C ../beside status --short"), "A  new\n");
}

/// The profile of a command is stored as text.
#[test]
fn names_that_are_not_utf8_are_held() {
    let Some(place) = repository() else { return };
    let folder = place.path("ws").join(OsStr::from_bytes(b"f\xfcr"));
    std::fs::create_dir(&folder).unwrap();
    sh(
        &folder,
        "git init -q --template= .; git -c user.name=a -c user.email=b commit -q --allow-empty -m x",
    );
    let tries =
        "exec 2> /dev/null; echo evil > f*r/.git/config; echo evil > f*r/.git/commondir; true";
    let (ended, text) = place.run(place.profile(Access::Workspace), tries);
    assert_eq!(ended.how, How::Exited(0), "{text}");
    assert!(!folder.join(".git/commondir").exists());
    let config = std::fs::read_to_string(folder.join(".git/config")).unwrap();
    assert!(!config.contains("evil"), "{config}");
}

/// An empty file of the user is no placeholder.
#[test]
fn placeholders_of_a_killed_keeper_are_removed_and_no_file_of_the_user() {
    for sweep in [false, true] {
        let Some(place) = repository() else { return };
        let own = place.path("ws/.git/info/attributes");
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, "").unwrap();
        let before = listing(&place.path("ws/.git"));
        run(async {
            let mut running = start(&place, "true", "ready").await;
            assert!(place.path("ws/.git/commondir").exists());
            let RunState::Running {
                keeper: Some(keeper),
                ..
            } = place.runs().list()[0].state
            else {
                panic!("it does not run");
            };
            let keeper = Pid::from_raw(i32::try_from(keeper).unwrap()).unwrap();
            kill_process(keeper, Signal::KILL).unwrap();
            if sweep {
                let is_left = || {
                    remove_left_placeholders(&place.path(""));
                    place.path("ws/.git/commondir").exists()
                };
                until(|| !is_left());
            } else {
                let ended = place.runs().wait(&mut running).await.unwrap();
                assert_eq!(ended.how, How::Lost { group: None });
            }
        });
        assert_eq!(listing(&place.path("ws/.git")), before);
    }
}

/// An earlier command took the right to write from the folder.
#[test]
fn a_mode_of_a_git_folder_keeps_no_name_from_being_held() {
    let Some(place) = repository() else { return };
    let git = place.path("ws/.git");
    place.run(place.profile(Access::Workspace), "chmod 555 .git");
    run(async {
        let tries = "chmod 755 .git; echo evil > .git/commondir; chmod 555 .git; true";
        let running = start(&place, tries, "ready").await;
        assert!(!is_evil(&place, ".git/commondir"));
        finish(&place, running, "ready").await;
    });
    assert!(!git.join("commondir").exists());
    sh(&git, "chmod 755 .");
}

/// Where settings and links lead git: the files, the files that could be made there, and what they
/// include.
#[test]
fn what_git_is_led_to_is_held_or_does_not_stay() {
    let Some(place) = repository() else { return };
    let ws = place.path("ws");
    let makes = "git config core.hooksPath tools/hk; mkdir -p tools/hk; echo > tools/hk/README
        git config include.path more; git config filter.x.clean 'sh ./clean.sh %f'; echo cat > clean.sh
        mkdir -p scripts .git/hooks; echo : > scripts/one; ln -sf ../../scripts/one .git/hooks/pre-push
        git config --file outer core.abbrev 8; git config --add include.path ../outer";
    sh(&ws, makes);
    let attack = [
        "tools/hk/pre-commit",
        ".git/more",
        "clean.sh",
        "scripts/one",
        "outer",
    ];
    let before: Vec<_> = attack
        .iter()
        .map(|path| std::fs::read(ws.join(path)).ok())
        .collect();
    let line = attack.map(|path| format!("echo evil > {path}")).join("; ");
    let line = format!("{line}; git config core.abbrev; git status --short; true");
    let (ended, text) = place.run(place.profile(Access::Workspace), &line);
    assert_eq!(ended.how, How::Exited(0), "{text}");
    let after: Vec<_> = attack
        .iter()
        .map(|path| std::fs::read(ws.join(path)).ok())
        .collect();
    assert_eq!(after, before, "{text}");
    assert!(
        text.contains("\n8\n"),
        "the settings are still read: {text}"
    );
    let (_, text) = place.run(
        place.profile(Access::Workspace),
        "echo x > tools/other && echo x > scripts/two",
    );
    assert!(
        ws.join("tools/other").exists() && ws.join("scripts/two").exists(),
        "{text}"
    );
}
