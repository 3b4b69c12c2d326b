//! Background commands of a run without a screen: the model waits for them, or is reminded of them
//! before the run ends without them.

use std::io::pipe;

use rewake::command::{RunInfo, RunState, Runs};
use serde_json::{Value, json};

use crate::cli::children::{LIMIT, OVER, Scene, WAITS};
use crate::scenes::until;
use support::{Answer, Live, Run, Says, Seen};

/// It runs until the test says so.
fn build() -> String {
    format!("{WAITS}; echo built")
}

/// Part of the note about its end.
const BUILT: &str = "built\\n```";
const REMINDER: &str = "still runs. This run ends with your answer";
const FIRST: &str = "it is being built";

fn starts(command: &str) -> Answer {
    Answer::call("bash", json!({"command": command, "background": true}))
}

fn waits() -> Answer {
    Answer::call("bash_wait", json!({}))
}

fn asks(scene: &Scene) -> usize {
    scene.heard.lock().unwrap().len()
}

/// So many answers of the model are recorded.
fn has_answered(scene: &Scene, answers: usize) -> bool {
    let replied = || scene.entries(&scene.parent().id, "replied").len();
    asks(scene) == answers && replied() == answers
}

fn last(scene: &Scene) -> Seen {
    let heard = scene.heard.lock().unwrap();
    heard.last().expect("a request").clone()
}

fn notes(scene: &Scene, about: &str) -> Vec<Value> {
    let noted = scene.entries(&scene.parent().id, "noted").into_iter();
    noted.filter(|n| n["about"]["about"] == about).collect()
}

fn running(scene: &Scene) -> usize {
    let root = scene.home.rewake_home().join("runs");
    let runs = Runs::new(root, env!("CARGO_BIN_EXE_rewake"));
    let is_at_work = |info: &RunInfo| !matches!(info.state, RunState::Ended(_));
    runs.list().iter().filter(|info| is_at_work(info)).count()
}

#[track_caller]
fn is_told_of_the_build(scene: &Scene, run: Run) {
    let run = run.expect(0);
    assert!(run.stdout.contains(OVER), "{}", run.stdout);
    let asked = last(scene).json.to_string();
    assert!(asked.contains("bg_2_0 ended"), "{asked}");
    assert!(asked.contains(BUILT), "{asked}");
    // The output is in the log once.
    assert_eq!(asked.matches("ended: exit code 0").count(), 1, "{asked}");
    assert_eq!(notes(scene, "background_ended").len(), 1);
    assert_eq!(running(scene), 0);
}

#[test]
fn a_run_waits_for_a_command_with_bash_wait() {
    let scene = Scene::new(|seen| match seen.turn {
        0 => starts(&build()),
        1 => waits(),
        _ => Says::text(OVER).into(),
    });
    let live = scene.start();
    until(|| has_answered(&scene, 2));
    scene.go();
    let run = live.wait(LIMIT);
    let told = last(&scene).results[0].1.clone();
    assert!(told.contains("started in the background as bg_"), "{told}");
    assert!(told.contains("this run ends with your answer"), "{told}");
    is_told_of_the_build(&scene, run);
    assert_eq!(notes(&scene, "still_running").len(), 0);
}

#[test]
fn a_run_that_would_leave_a_command_reminds_the_model_once() {
    let scene = Scene::new(|seen| match seen.turn {
        0 => starts(&build()),
        1 => Says::text(FIRST).into(),
        2 if seen.json.to_string().contains(REMINDER) => waits(),
        _ => Says::text(OVER).into(),
    });
    let live = scene.start();
    until(|| has_answered(&scene, 3));
    scene.go();
    let run = live.wait(LIMIT);
    is_told_of_the_build(&scene, run);
    let notes = notes(&scene, "still_running");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0]["about"]["ids"], json!(["bg_2_0"]));
}

/// A model that leaves the command running, although it is reminded.
fn leaves() -> Scene {
    Scene::new(|seen| match seen.turn {
        0 => starts(WAITS),
        1 => Says::text(FIRST).into(),
        _ => Says::text(OVER).into(),
    })
}

#[test]
fn an_answer_after_the_reminder_leaves_the_command_running() {
    let scene = leaves();
    let run = scene.start().wait(LIMIT).expect(0);
    assert!(run.stderr.contains("1 background command is still running"));
    assert_eq!((asks(&scene), running(&scene)), (3, 1));
    // Another message does not bring the reminder again.
    let more = scene.live(&["-p", "and now?", "-c", "--yolo"]);
    more.wait(LIMIT).expect(0);
    assert_eq!(asks(&scene), 4);
    assert_eq!(notes(&scene, "still_running").len(), 1);
    scene.go();
    until(|| running(&scene) == 0);
}

#[test]
fn a_run_leaves_or_stops_commands_as_its_flag_says() {
    for (flag, left) in [("leave", 1), ("stop", 0)] {
        let scene = leaves();
        let run = scene.live(&["-p", "do it", "--yolo", "--background", flag]);
        let run = run.wait(LIMIT).expect(0);
        assert!(run.stdout.contains(FIRST), "{}", run.stdout);
        assert_eq!((asks(&scene), running(&scene)), (2, left), "{flag}");
        assert_eq!(notes(&scene, "still_running").len(), 0);
        assert_eq!(notes(&scene, "background_ended").len(), 1 - left);
        let told = last(&scene).results[0].1.clone();
        assert_eq!(
            told.contains("which stops the command"),
            left == 0,
            "{told}"
        );
        scene.go();
        until(|| running(&scene) == 0);
    }
}

#[test]
fn output_that_a_wait_has_seen_does_not_end_the_next_one() {
    let wait_ms = |ms: u64| Answer::call("bash_wait", json!({"until": "ready", "timeout_ms": ms}));
    let scene = Scene::new(move |seen| match seen.turn {
        0 => starts(&format!("echo ready; {WAITS}")),
        1 => wait_ms(60_000),
        2 => wait_ms(600),
        _ => Says::text(OVER).into(),
    });
    let run = scene.live(&["-p", "do it", "--yolo", "--background", "leave"]);
    run.wait(LIMIT).expect(0);
    let results = scene.entries(&scene.parent().id, "finished");
    let text = |at: usize| results[at]["outcome"].to_string();
    assert!(text(1).contains("bg_2_0 printed: ready"), "{}", text(1));
    // A wait that times out shows the newest lines.
    for words in [
        "timeout: nothing ended in 0.6 s",
        "newest output of bg_2_0",
        "ready",
    ] {
        assert!(text(2).contains(words), "{}", text(2));
    }
    scene.go();
    until(|| running(&scene) == 0);
}

#[test]
fn a_wait_that_was_killed_waits_again() {
    let scene = Scene::new(|seen| match seen.turn {
        0 => starts(&build()),
        1 => waits(),
        _ => Says::text(OVER).into(),
    });
    // More kills than the starts in a row without progress that make a crash loop.
    let mut live = scene.start();
    for start in 1..=5 {
        let answers = || scene.entries(&scene.parent().id, "replied").len();
        let is_waiting = || scene.effects() == 1 && answers() == 2;
        until(is_waiting);
        let woke = || start == 1 || scene.entries(&scene.parent().id, "woke").len() == start - 1;
        until(woke);
        let is_killed = live.kill();
        let run = live.wait(LIMIT);
        assert!(is_killed, "start {start}: {}", run.stderr);
        live = scene.live(&["-p", "-c", "--yolo"]);
    }
    scene.go();
    let run = live.wait(LIMIT);
    is_told_of_the_build(&scene, run);
    assert_eq!(asks(&scene), 3);
}

/// While stdin is open the run does not end, so the end of a command asks the model.
#[test]
fn the_end_of_a_command_asks_the_model_of_a_run_with_open_input() {
    let scene = leaves();
    let (reader, input) = pipe().unwrap();
    let mut command = scene.home.rewake(["-p", "do it", "--yolo"]);
    command
        .args(["--input-format", "stream-json"])
        .stdin(reader);
    let live = Live::spawn(command);
    let is_waiting = |line: &str| line.replace(' ', "").contains(r#""type":"waiting""#);
    live.wait_for(LIMIT, is_waiting);
    until(|| scene.effects() == 1);
    assert_eq!(asks(&scene), 2);
    scene.go();
    live.wait_for_nth(LIMIT, 2, is_waiting);
    drop(input);
    live.wait(LIMIT).expect(0);
    assert_eq!(asks(&scene), 3);
    let ends = notes(&scene, "background_ended");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["about"]["asks_model"], true);
}
