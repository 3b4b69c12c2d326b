//! A session is paused and its questions are answered from outside.

use serde_json::json;

use crate::scenes::resume::*;
use support::{Answer, Says};

#[test]
fn a_question_of_one_process_is_answered_from_another() {
    let scene = writes();
    let first = scene.waiting();
    let asked = scene.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0]["tool"], "write");
    assert_eq!(asked[0]["arguments"]["content"], "written\n");
    assert_eq!(asked[0]["live"], true);
    let words = scene.steers(&["approvals"]).expect(0).stdout;
    assert_has(&words, &["changes a file", "+ written", "rewake allow"]);
    assert_eq!(scene.home.read("f"), "");

    let call = asked[0]["call"].as_str().expect("a call");
    let id = asked[0]["session"].as_str().expect("an id");
    scene.steers(&["allow", id, call]).expect(0);
    first.wait(LIMIT).expect(0);
    assert_eq!(scene.home.read("f"), "written\n");
    let decided = scene.entries("decided");
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0]["origin"], "cli");
    assert!(scene.asked().is_empty());
    // A verdict that comes too late says so, and nothing waits for it.
    let late = scene.steers(&["allow", id, call]).expect(2);
    assert_has(
        &late.stderr,
        &["does not ask about call", "hint: rewake approvals"],
    );
    let late = scene.steers(&["deny", "@here", "no"]).expect(2);
    assert_has(&late.stderr, &["asks nothing"]);
    scene.server.assert_no_violations();
}

#[test]
fn a_kill_between_the_verdict_and_the_act_does_it_once() {
    let scene = Scene::new(|seen| match seen.turn {
        0 => Answer::call(
            "bash",
            json!({"command": "echo x >> effects", "access": "workspace"}),
        ),
        _ => Says::text(FINAL_WORDS).into(),
    });
    let mut first = scene.waiting();
    scene.steers(&["allow", "@here"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "decided"));
    first.kill();
    drop(first.wait(LIMIT));
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
    assert_eq!(scene.entries("decided").len(), 1);
    assert_eq!(scene.entries("finished").len(), 1);
}

/// A command that runs ends, no other starts, and neither a kill nor a restart lifts the pause.
#[test]
fn a_pause_survives_a_restart() {
    let scene = Scene::with_command(&waits_for_go());
    let mut first = scene.start_command();
    scene.steers(&["pause", "@here"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "paused"));
    assert!(first.kill());
    drop(first.wait(LIMIT));
    scene.go();
    assert_eq!(scene.server.requests().len(), 1);
    let run = scene.go_on().expect(75);
    assert_has(&run.stderr, &["paused; continue with rewake unblock"]);
    assert_eq!(scene.server.requests().len(), 1);

    scene.steers(&["unblock", "@here"]).expect(0);
    scene.go_on().expect(0);
    assert_eq!(scene.entries("lifted")[0]["origin"], "cli");
    assert_eq!(scene.effects(), 1);
    // One in which nobody works is paused at once.
    let paused = scene.steers(&["pause", "@here"]).expect(0);
    assert_has(&paused.stderr, &["is paused"]);
    scene.live(&["-p", "-c", "more"]).wait(LIMIT).expect(75);
}
