//! The model asks the person: the question and its answer survive a kill, and are given from another
//! process.

use serde_json::{Value, json};

use crate::cli::resume::scene::*;
use support::{Answer, Live, Says};

/// A session whose model asks once, and then repeats the answer.
fn asks() -> Scene {
    Scene::new(|seen| match seen.turn {
        0 => Answer::call("ask_user", question()),
        _ => Says::text(FINAL_WORDS).into(),
    })
}

fn question() -> Value {
    json!({"questions": [{"question": "Which database?", "header": "Database", "options": [
        {"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]}]})
}

fn asked(scene: &Scene) -> Live {
    let live = scene.live(&["-p", "do it", "--on-approval", "wait"]);
    live.wait_for(LIMIT, |line| is_entry(line, "asked"));
    live
}

fn answer(scene: &Scene, args: &[&str]) -> support::Run {
    scene.home.run([&["answer", "@here"], args].concat())
}

#[test]
fn a_question_of_the_model_is_answered_from_another_process() {
    let scene = asks();
    let live = asked(&scene);
    let words = scene.home.run(["approvals"]).expect(0).stdout;
    assert_has(
        &words,
        &["the agent asks", "Which database?", "SQLite", "q1_other"],
    );
    for (args, why) in [
        (&["--value", "q7=x"][..], "no field \"q7\""),
        (&["--value", "q1=MySQL"][..], "one of"),
        (&["--accept"][..], "answers no question"),
        (&["--value", "q1_other= "][..], "answers no question"),
    ] {
        let refused = answer(&scene, args).expect(2);
        assert_has(&refused.stderr, &[why]);
    }
    assert!(scene.entries("answered").is_empty());
    answer(
        &scene,
        &["--value", "q1=SQLite", "--value", "q1_other=for now"],
    )
    .expect(0);
    live.wait(LIMIT).expect(0);
    assert_has(
        &scene.last_result(),
        &["Database: SQLite; in their own words: for now"],
    );
    assert_eq!(scene.entries("asked").len(), 1);
    assert_eq!(scene.entries("answered").len(), 1);
    let late = answer(&scene, &["--value", "q1=PostgreSQL"]).expect(2);
    assert_has(&late.stderr, &["asks nothing"]);
    scene.server.assert_no_violations();
}

/// A start that asks nobody does not offer the tool. A model that uses it all the same gets an error
/// at once.
#[test]
fn where_nobody_can_be_asked_the_tool_is_not_there() {
    let scene = asks();
    scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    assert_has(&scene.last_result(), &["no tool named \"ask_user\""]);
    assert!(scene.entries("asked").is_empty());
    let listed = |scene: &Scene| {
        let body = scene.server.requests()[0].body.clone().unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        body["tools"].to_string().contains("ask_user")
    };
    assert!(!listed(&scene));
    let scene = asks();
    let live = asked(&scene);
    assert!(listed(&scene));
    answer(&scene, &["--decline"]).expect(0);
    live.wait(LIMIT).expect(0);
    assert_has(&scene.last_result(), &["the user did not answer"]);
}

/// The agent is killed while the person thinks, and again after the answer was sent.
#[test]
fn a_question_survives_kills_and_is_asked_once() {
    let wanted = std::env::var("REWAKE_KILLS").ok();
    let wanted: u32 = wanted.map_or(6, |kills| kills.parse().unwrap());
    for kill in 0..wanted {
        let scene = asks();
        let mut live = asked(&scene);
        assert!(live.kill());
        drop(live.wait(LIMIT));
        let again = ["-p", "-c", "--on-approval", "wait"];
        if kill % 2 == 0 {
            // The answer is given while nobody listens.
            answer(&scene, &["--value", "q1=SQLite"]).expect(0);
        } else {
            let mut live = scene.live(&again);
            live.wait_for(LIMIT, |line| is_entry(line, "woke"));
            answer(&scene, &["--value", "q1=SQLite"]).expect(0);
            std::thread::sleep(std::time::Duration::from_millis(u64::from(kill * 7 % 60)));
            live.kill();
            drop(live.wait(LIMIT));
        }
        scene.home.run(again);
        assert_has(&scene.last_result(), &["Database: SQLite"]);
        assert_eq!(scene.entries("asked").len(), 1, "kill {kill}");
        assert_eq!(scene.entries("answered").len(), 1, "kill {kill}");
        assert_eq!(scene.entries("finished").len(), 1, "kill {kill}");
    }
}
