//! Kills while a worktree is made or removed: at random instants, and at each call of git that changes
//! something, by a `git` in PATH that kills who called it. Started again it comes to the same end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rewake::store::WorktreeStage;
use serde_json::json;

use crate::cli::children::{ANSWER, OVER, Scene, is_child};
use crate::cli::mirror::write_program;
use crate::cli::worktrees::{
    branches, commands, folder, git, go, newest, notes, repository, worktrees,
};
use crate::cli::{LIMIT, scripted};
use support::{Answer, Home, Live, Says, run};

/// The real binary, killed at instants that differ from try to try, then started again.
#[test]
fn a_start_that_is_killed_is_done_again() {
    let home = scripted(&commands(&["echo once >> effect; sleep 0.2"]));
    let root = repository(&home);
    for n in 0..200 {
        fs::write(root.join(format!("file{n}")), "x\n".repeat(200)).unwrap();
    }
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "many"]);
    let mut kills = 0;
    for at in 0..8_u64 {
        let name = format!("try{at}");
        let mut live = Live::spawn(home.rewake(["-p", "go", "--yolo", "-w", &name]));
        std::thread::sleep(Duration::from_millis(5 + at * 37));
        kills += u32::from(live.kill());
        live.wait(LIMIT);
        let again = go(&home, &["-w", &name]);
        if again.code() != Some(0) {
            // Its session was recorded: it is resumed.
            assert!(again.stderr.contains("already"), "{}", again.stderr);
            home.run(["-p", "-w", &name, "-c", "--yolo"]).expect(0);
        }
        let folder = folder(&home, &name);
        let effect = fs::read_to_string(folder.join("effect")).unwrap_or_default();
        assert!(
            effect.is_empty() || effect == "once\n",
            "{name}: {effect:?}"
        );
        assert_eq!(git(&folder, &["ls-files", "-d"]), "", "{name}");
    }
    assert!(kills > 0, "every kill came too late");
    assert_eq!(worktrees(&root), 1 + 8);
    assert_eq!(branches(&root).len(), 1 + 8);
    assert_eq!(notes(&home).len(), 8);
}

/// A `git` that counts its calls that change something. At the one with this number it kills who called
/// it, before or after the change.
struct Killer {
    bin: PathBuf,
}

impl Killer {
    fn new(home: &Home) -> Killer {
        let bin = home.user().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join("git"))
            .find(|git| git.is_file())
            .expect("a git");
        let (real, data) = (real.display(), home.rewake_home());
        let script = format!(
            r#"#!/bin/sh
cd_=$(dirname "$0")
case " $* " in
    *" worktree add "*|*" worktree remove "*|*" update-ref "*) ;;
    *) exec {real} "$@" ;;
esac
# What is to be done is noted before.
case " $* " in
    *" worktree add "*) grep -qsE '"stage":"(begun|made|removed)"' {data}/worktrees/*/.notes/* || echo "$*" >> "$cd_/unnoted" ;;
    *) grep -qs '"stage":"removing"' {data}/worktrees/*/.notes/* || echo "$*" >> "$cd_/unnoted" ;;
esac
n=$(cat "$cd_/count" 2>/dev/null || echo 0)
n=$((n+1))
echo $n > "$cd_/count"
at=$(cat "$cd_/at" 2>/dev/null || echo none)
if [ "$at" = "before $n" ]; then rm "$cd_/at"; kill -9 $PPID; exit 1; fi
{real} "$@"
code=$?
if [ "$at" = "after $n" ]; then rm "$cd_/at"; kill -9 $PPID; fi
exit $code
"#,
            data = data.display()
        );
        let file = bin.join("git");
        write_program(&file, script);
        Killer { bin }
    }

    /// At the next run, at this call.
    fn arm(&self, at: &str) {
        let _ = fs::remove_file(self.bin.join("count"));
        fs::write(self.bin.join("at"), at).unwrap();
    }

    fn has_killed(&self) -> bool {
        !self.bin.join("at").exists()
    }

    fn before_others(&self, mut command: Command) -> Command {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.bin.display()));
        command
    }

    #[track_caller]
    fn all_was_noted(&self) {
        let unnoted = fs::read_to_string(self.bin.join("unnoted")).unwrap_or_default();
        assert_eq!(unnoted, "", "git was asked before it was noted");
    }
}

const STEPS: [&str; 6] = [
    "before 1", "after 1", "before 2", "after 2", "before 3", "after 3",
];

fn is_tidy(root: &Path, left: usize, why: &str) {
    assert_eq!(worktrees(root), 1 + left, "{why}");
    assert_eq!(branches(root).len(), 1 + left, "{why}");
}

#[test]
fn a_start_that_dies_at_a_call_of_git_comes_to_the_same_end() {
    let home = scripted(&commands(&["echo once >> effect"]));
    let root = repository(&home);
    let killer = Killer::new(&home);
    let mut killed = 0;
    for at in &STEPS[..2] {
        let name = at.replace(' ', "");
        killer.arm(at);
        let start = ["-p", "go", "--yolo", "-w", &name];
        run(killer.before_others(home.rewake(start)), LIMIT);
        killed += usize::from(killer.has_killed());
        go(&home, &["-w", &name]).expect(0);
        let folder = folder(&home, &name);
        assert_eq!(
            fs::read_to_string(folder.join("effect")).unwrap(),
            "once\n",
            "{at}"
        );
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n", "{at}");
        is_tidy(&root, killed, at);
    }
    assert_eq!(killed, 2);
    killer.all_was_noted();
}

#[test]
fn a_removal_that_dies_at_a_call_of_git_comes_to_the_same_end() {
    let home = scripted(&commands(&["true"]));
    let root = repository(&home);
    let killer = Killer::new(&home);
    let mut killed = 0;
    for at in STEPS {
        for resumes in [false, true] {
            let name = format!("{}{resumes}", at.replace(' ', ""));
            go(&home, &["-w", &name]).expect(0);
            let (id, folder) = (newest(&home), folder(&home, &name));
            killer.arm(at);
            run(killer.before_others(home.rewake(["gc", "--yes"])), LIMIT);
            killed += usize::from(killer.has_killed());
            if resumes {
                home.run(["-p", "-r", &id]).expect(0);
                assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{at}");
            }
            home.run(["gc", "--yes"]).expect(0);
            is_tidy(&root, 0, at);
            assert!(!folder.exists());
            let ours = notes(&home)
                .into_iter()
                .find(|note| note.name == name)
                .unwrap();
            assert_eq!(ours.stage, WorktreeStage::Removed, "{at}");
        }
    }
    // Its worktree, then its branch.
    assert_eq!(killed, 8);
    killer.all_was_noted();
}

#[test]
fn a_task_whose_parent_dies_at_a_call_of_git_has_one_worktree_or_none() {
    let mut killed = 0;
    for at in STEPS {
        for command in ["true", "echo once >> effect"] {
            let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
                (false, 0) => Answer::call("task", json!({"prompt": "do it", "worktree": true})),
                (false, _) => Says::text(OVER).into(),
                (true, 0) => Answer::call("bash", json!({"command": command})),
                (true, _) => Says::text(ANSWER).into(),
            });
            let root = repository(&scene.home);
            let killer = Killer::new(&scene.home);
            killer.arm(at);
            let start = scene.home.rewake(["-p", "do it", "--yolo"]);
            run(killer.before_others(start), LIMIT);
            if killer.has_killed() {
                killed += 1;
                scene.go_on().expect(0);
            }
            let result = scene.result();
            assert!(result.contains(ANSWER), "{at}: {result}");
            assert_eq!(scene.children().len(), 1, "{at}");
            let (left, said) = match command {
                "true" => (0, "had nothing to keep and is removed"),
                _ => (1, ": 1 file not committed]"),
            };
            assert!(result.contains(said), "{at}: {result}");
            is_tidy(&root, left, at);
            assert_eq!(notes(&scene.home).len(), 1, "{at}");
            killer.all_was_noted();
        }
    }
    // One is made, and of those that are removed the worktree and the branch are.
    assert_eq!(killed, 2 * 2 + 4);
}
