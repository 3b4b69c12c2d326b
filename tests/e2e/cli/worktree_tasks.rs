//! Tasks with `worktree`: sub-agents in git worktrees of their own, at the same time, killed, kept and
//! removed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rewake::store::{WorktreeNote, WorktreeStage};
use serde_json::{Value, json};

use crate::cli::children::{ANSWER, LIMIT, OVER, Scene, is_child};
use crate::cli::worktrees::{branches, git, notes, repository};
use support::{Answer, Says, Seen};

const COMMIT: &str = "git add -A; git -c user.name=a -c user.email=b commit -qm child";

fn task(prompt: &str) -> Value {
    json!({"prompt": prompt, "worktree": true})
}

/// The parent gives this task, the child runs this command and answers.
fn with_worktree(command: &'static str) -> (Scene, PathBuf) {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", task("do it")),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Answer::call("bash", json!({"command": command})),
        (true, _) => Says::text(ANSWER).into(),
    });
    let root = repository(&scene.home);
    (scene, root)
}

#[test]
fn two_work_at_once_and_the_parents_files_are_untouched() {
    let scene = Scene::new(move |seen: &Seen| match (is_child(seen), seen.turn) {
        (false, 0) => Says::default()
            .and_call("task", task("one"))
            .and_call("task", task("two"))
            .into(),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => {
            let edit = format!("echo {} > a; sleep 0.3; {COMMIT}", seen.user);
            Answer::call("bash", json!({"command": edit}))
        }
        (true, _) => Says::text(ANSWER).into(),
    });
    let root = repository(&scene.home);
    scene.start().wait(LIMIT).expect(0);
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1\n");
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    let all = notes(&scene.home);
    assert_eq!(all.len(), 2);
    let mut said: Vec<String> = all
        .iter()
        .map(|note| git(&root, &["show", &format!("{}:a", note.branch)]))
        .collect();
    said.sort();
    assert_eq!(said, ["one", "two"]);
    let heard = scene.heard.lock().unwrap();
    let last = heard.iter().rev().find(|seen| !is_child(seen)).unwrap();
    for ((_, result), note) in last.results.iter().zip(&all) {
        let folder = note.folder(&scene.home.rewake_home());
        for words in [
            "[its worktree is kept: ",
            &folder.parent().unwrap().display().to_string(),
            "1 commit not merged; git merge rewake/task-",
        ] {
            assert!(result.contains(words), "{words}: {result}");
        }
    }
    let child = heard.iter().find(|seen| is_child(seen)).unwrap();
    assert!(
        child
            .json
            .to_string()
            .contains("a separate git worktree, on branch rewake/task-")
    );
}

#[test]
fn an_unchanged_task_worktree_is_removed_and_remade_on_resume() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.results.len()) {
        (false, 0) => Answer::call("task", task("look")),
        (false, 1) if seen.user.contains("once more") => {
            let id = crate::cli::children::task_in(seen.last_result()).unwrap();
            Answer::call("task", json!({"prompt": "now write", "resume": id}))
        }
        (true, 0) => Answer::call("bash", json!({"command": "cat a"})),
        (true, 1) if seen.user.contains("now write") => {
            Answer::call("bash", json!({"command": "echo 2 > a"}))
        }
        (true, _) => Says::text(ANSWER).into(),
        (false, _) => Says::text(OVER).into(),
    });
    let root = repository(&scene.home);
    scene.start().wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(
        result.contains("had nothing to keep and is removed"),
        "{result}"
    );
    assert_eq!(branches(&root), ["main"]);
    assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 1);
    scene
        .live(&["-p", "-c", "once more", "--yolo"])
        .wait(LIMIT)
        .expect(0);
    let result = scene.result();
    assert!(result.contains(": 1 file not committed]"), "{result}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1\n");
    // The purge of the parent says what it leaves of its task.
    let parent = scene.parent().id;
    let purged = scene.home.run(["purge", &parent, "--yes"]).expect(0);
    assert!(
        purged.stderr.contains("its worktree stays: "),
        "{}",
        purged.stderr
    );
}

/// Nobody is there to see what a filter runs when the files are laid out again.
#[test]
fn a_resumed_task_worktree_runs_no_repository_filters() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.results.len()) {
        (false, 0) => Answer::call("task", task("look")),
        (false, 1) if seen.user.contains("once more") => {
            let id = crate::cli::children::task_in(seen.last_result()).unwrap();
            Answer::call("task", json!({"prompt": "look again", "resume": id}))
        }
        (true, _) => Says::text(ANSWER).into(),
        (false, _) => Says::text(OVER).into(),
    });
    let root = repository(&scene.home);
    fs::write(root.join(".gitattributes"), "* filter=f\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "attributes"]);
    scene.start().wait(LIMIT).expect(0);
    assert_eq!(branches(&root), ["main"]);
    let ran = scene.home.path("ran");
    let smudge = format!("touch {}; cat", ran.display());
    git(&root, &["config", "filter.f.smudge", &smudge]);
    scene
        .live(&["-p", "-c", "once more", "--yolo"])
        .wait(LIMIT)
        .expect(0);
    let result = scene.result();
    assert!(result.contains("`git` obeys"), "{result}");
    assert!(!ran.exists());
}

#[test]
fn a_task_worktree_is_refused_where_none_can_be_made() {
    let ask = |mode: &str, prepare: fn(&Scene)| {
        let (scene, _) = with_worktree("echo never");
        prepare(&scene);
        let args = ["-p", "do it", "--permission-mode", mode];
        scene.live(&args).wait(LIMIT).expect(0);
        assert_eq!(scene.children().len(), 0);
        assert_eq!(notes(&scene.home), []);
        scene.result()
    };
    let result = ask("plan", |_| {});
    assert!(result.contains("leave out `worktree`"), "{result}");
    let result = ask("bypassPermissions", |scene| {
        fs::remove_dir_all(scene.home.path(".git")).unwrap();
    });
    assert!(result.contains("is not a git repository"), "{result}");
    // Nobody was asked: git is not to run what the repository names.
    let result = ask("bypassPermissions", |scene| {
        git(
            &scene.home.workspace(),
            &["config", "filter.f.smudge", "touch ran"],
        );
    });
    assert!(result.contains("`git` obeys"), "{result}");
}

#[test]
fn a_deny_rule_of_the_project_holds_for_its_task_in_a_worktree() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", task("read it")),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Says::call("read", json!({"path": "sub/x"}))
            .and_call(
                "bash",
                json!({"command": "echo 1 > effect", "access": "workspace"}),
            )
            .into(),
        (true, _) => {
            let all: Vec<&str> = seen.results.iter().map(|(_, r)| r.as_str()).collect();
            Says::text(all.join("\n")).into()
        }
    });
    let root = repository(&scene.home);
    let config = root.join(".rewake/config.toml");
    fs::create_dir(config.parent().unwrap()).unwrap();
    fs::write(&config, "[permissions]\nallow = [\"Bash\"]\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "config"]);
    let rule = format!("Read({}/sub/**)", root.display());
    fs::write(&config, format!("[permissions]\ndeny = [{rule:?}]\n")).unwrap();
    scene.home.run(["trust", "--yes"]).expect(0);
    // The parent's mode, too: nothing is written unasked.
    let args = ["-p", "do it", "--permission-mode", "default"];
    scene.live(&args).wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(
        result.contains("denied") && result.contains("sub/**"),
        "{result}"
    );
    assert!(result.contains("nobody is there to be asked"), "{result}");
    assert!(
        result.contains("had nothing to keep and is removed"),
        "{result}"
    );
}

/// Parent, child, or both, at instants that differ from try to try.
#[test]
fn a_kill_at_any_instant_leaves_a_single_task_worktree() {
    for at in 0..9_u64 {
        let (scene, root) = with_worktree(
            "echo once >> effect; sleep 0.2; git add -A; \
             git -c user.name=a -c user.email=b commit -qm child",
        );
        let mut first = scene.start();
        std::thread::sleep(Duration::from_millis(40 + (at * 137) % 700));
        let who = ["parent", "child", "both"][(at % 3) as usize];
        if who != "parent" {
            scene.kill_child(at % 2 == 0);
        }
        let kills_parent = who != "child" && first.kill();
        first.wait(LIMIT);
        if scene.store().history().newest(None).unwrap().is_none() {
            continue;
        }
        if kills_parent {
            scene.go_on();
        }
        let result = scene.result();
        assert!(result.contains(ANSWER), "{at}: {result}");
        assert_eq!(scene.children().len(), 1, "{at}");
        let all = notes(&scene.home);
        assert_eq!(all.len(), 1, "{at}: {all:?}");
        assert_eq!(all[0].stage, WorktreeStage::Made);
        let effect = git(&root, &["show", &format!("{}:effect", all[0].branch)]);
        assert_eq!(effect, "once", "{at}");
        assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 2, "{at}");
        assert!(result.contains("[its worktree is kept: "), "{at}: {result}");
    }
}

/// What is left of a task whose process died before its session was recorded.
#[test]
fn a_worktree_whose_task_never_was_is_taken_away_by_the_next() {
    for is_added in [false, true] {
        let (scene, root) = with_worktree("echo 2 > a");
        let note = WorktreeNote {
            project: root.clone(),
            name: "task-left".into(),
            branch: "rewake/task-left".into(),
            commit: git(&root, &["rev-parse", "HEAD"]),
            base: Some("main".into()),
            session: Some("0197a1b2-c3d4-7000-8000-000000000000".into()),
            stage: WorktreeStage::Begun,
            remaking: false,
        };
        let data = scene.home.rewake_home();
        note.write(&data).unwrap();
        if is_added {
            let folder = note.folder(&data);
            git(
                &root,
                &[
                    "worktree",
                    "add",
                    "-q",
                    "-b",
                    &note.branch,
                    folder.to_str().unwrap(),
                ],
            );
        }
        scene.start().wait(LIMIT).expect(0);
        let all = notes(&scene.home);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_ne!(all[0].name, "task-left");
        assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 2);
        assert!(!branches(&root).contains(&note.branch));
    }
}
