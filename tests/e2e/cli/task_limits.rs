//! What bounds sub-agents, and what the model is told at each bound.

use rewake::core::entry::{Entry, SaveReason};
use rewake::store::{Batch, now_ms};
use serde_json::{Value, json};

use crate::cli::children::{ANSWER, DO_IT, LIMIT, OVER, Scene, WAITS, in_background, is_child};
use crate::scenes::until;
use support::{Answer, Says, Seen, Tokens};

/// A sub-agent that runs a command with each answer, and comes to no end.
fn goes_on(seen: &Seen, tokens: u64) -> Answer {
    let mut says = Says::call("bash", json!({"command": format!("echo {}", seen.turn)}));
    says.tokens = Some(Tokens {
        input: tokens,
        output: 1,
        ..Tokens::default()
    });
    says.into()
}

/// What the parent was told of a task that goes on for ever under this config.
fn told_under(config: &str) -> String {
    let scene = Scene::with_config(config, move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", json!({"prompt": DO_IT})),
        (false, _) => Says::text(OVER).into(),
        (true, 0..20) => goes_on(seen, 1_000),
        (true, _) => Says::text(ANSWER).into(),
    });
    scene.start().wait(LIMIT).expect(0);
    assert!(scene.runs_of_children().is_empty());
    scene.result()
}

#[test]
fn a_task_stops_at_its_answer_limit() {
    let result = told_under("[agents]\nmax_turns = 3\n");
    let wanted = "the limit of answers is reached: the model gave 3; task with resume ";
    assert!(result.contains(wanted), "{result}");
    assert!(result.contains("3 answers"), "{result}");
}

#[test]
fn a_task_stops_at_its_token_limit() {
    let result = told_under("[agents]\nmax_tokens = 2500\n");
    let wanted = "the limit of tokens is reached: 3003 of 2500; task with resume ";
    assert!(result.contains(wanted), "{result}");
}

/// So many more each time that it is continued.
#[test]
fn a_continued_task_gets_fresh_limits() {
    let config = "[agents]\nmax_turns = 3\nmax_tokens = 100000\n";
    let scene = Scene::with_config(config, move |seen| {
        match (is_child(seen), seen.results.len()) {
            (false, 0) => Answer::call("task", json!({"prompt": DO_IT})),
            (false, 1) => {
                let id = crate::cli::children::task_in(seen.last_result()).unwrap();
                Answer::call("task", json!({"prompt": "go on", "resume": id}))
            }
            (false, _) => Says::text(OVER).into(),
            (true, 0..5) => goes_on(seen, 1_000),
            (true, _) => Says::text(ANSWER).into(),
        }
    });
    scene.start().wait(LIMIT).expect(0);
    assert!(scene.result().contains(ANSWER), "{}", scene.result());
    assert_eq!(scene.children().len(), 1);
}

#[test]
fn a_task_costs_no_more_than_what_is_left_of_its_parents_limit() {
    // A dollar a token.
    let price = "[models.\"local/test-model\"]\ninput_price = 1000000\noutput_price = 0\n";
    let scene = Scene::with_config(price, move |seen| match (is_child(seen), seen.turn) {
        (false, 1) => {
            let mut says = Says::call("task", json!({"prompt": DO_IT}));
            says.tokens = Some(Tokens {
                input: 500,
                ..Tokens::default()
            });
            says.into()
        }
        (false, _) => {
            let mut says = Says::text(OVER);
            says.tokens = Some(Tokens {
                input: 500,
                ..Tokens::default()
            });
            says.into()
        }
        (true, _) => goes_on(seen, 1_000),
    });
    scene.live(&["-p", "hello", "--yolo"]).wait(LIMIT).expect(0);
    scene.home.run(["set", "@here", "--usd", "3500"]).expect(0);
    scene.live(&["-p", "-c", "do it", "--yolo"]).wait(LIMIT);
    let finished = scene.entries(&scene.parent().id, "finished");
    let why = finished[0]["outcome"]["why"].as_str().unwrap_or_default();
    let wanted = "the limit of cost is reached: $3000.00 of $2500.00; task with resume ";
    assert!(why.contains(wanted), "{finished:?}");
}

/// However often it is started.
#[test]
fn the_minute_limit_of_a_task_spans_restarts() {
    let scene = Scene::with_task(json!({"prompt": DO_IT}), WAITS);
    let mut first = scene.start();
    until(|| scene.effects() == 1);
    assert!(first.kill());
    first.wait(LIMIT);
    assert!(scene.kill_child(true));
    // As if it had worked for an hour.
    let child = scene.children()[0].id.clone();
    let mut store = scene.store();
    let mut head = store.load(&child).unwrap().0;
    let saved = Entry::Saved {
        reason: SaveReason::Timer,
        tree: None,
        why: None,
        clock: None,
    };
    let batch = Batch {
        at_ms: now_ms() + 3_600_000,
        entries: vec![saved],
        unfinished: true,
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
    drop(store);
    scene.go();
    scene.go_on().expect(0);
    let result = scene.result();
    assert!(
        result.contains("its limit of 60 minutes is over; task with resume "),
        "{result}"
    );
    assert_eq!(
        scene.entries(&child, "woke").len(),
        0,
        "it was started again"
    );
}

#[test]
fn at_most_four_are_at_work_at_once() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => {
            let five = (0..4).fold(Says::call("task", in_background()), |says, _| {
                says.and_call("task", in_background())
            });
            five.into()
        }
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Answer::call("bash", json!({"command": WAITS})),
        (true, _) => Says::text(ANSWER).into(),
    });
    let live = scene.start();
    let results = || {
        let heard = scene.heard.lock().unwrap();
        let last = heard.iter().rev().find(|seen| !is_child(seen))?;
        (last.results.len() == 5).then(|| last.results.clone())
    };
    until(|| results().is_some());
    let results = results().unwrap();
    let begun = results
        .iter()
        .filter(|(_, r)| r.contains("at work in the background"));
    assert_eq!(begun.count(), 4, "{results:?}");
    let wanted = "4 tasks are at work, and no more at once; wait until one ends";
    assert!(results[4].1.contains(wanted), "{results:?}");
    assert_eq!(scene.children().len(), 4);
    scene.go();
    // It waits for them.
    live.wait(LIMIT).expect(0);
    assert!(scene.children().iter().all(|c| !c.unfinished));
}

/// The first of eight tasks waits for the last one, which starts when others have ended.
#[test]
fn a_task_starts_as_soon_as_there_is_room_for_it() {
    let task = |n: usize| json!({"prompt": format!("part {n}.")});
    let scene = Scene::new(move |seen| {
        let asked = seen.json.to_string();
        match (is_child(seen), seen.turn) {
            (false, 0) => {
                let first = Says::call("task", task(0));
                let all = (1..8).fold(first, |says, n| says.and_call("task", task(n)));
                all.into()
            }
            (false, _) => Says::text(OVER).into(),
            (true, 0) if asked.contains("part 0.") => {
                Answer::call("bash", json!({"command": WAITS}))
            }
            (true, 0) if asked.contains("part 7.") => {
                Answer::call("bash", json!({"command": "echo > go"}))
            }
            (true, _) => Says::text(ANSWER).into(),
        }
    });
    scene.start().wait(LIMIT).expect(0);
    let heard = scene.heard.lock().unwrap();
    let last = heard.iter().rev().find(|seen| !is_child(seen)).unwrap();
    assert_eq!(last.results.len(), 8);
    let answered = |(_, result): &&(String, String)| result.contains(ANSWER);
    assert_eq!(last.results.iter().filter(answered).count(), 8);
    drop(heard);
    let log = scene.log(&scene.parent().id);
    let place = |kind: &str, index: u64| {
        let is_it = |e: &Value| e["type"] == format!("entry.{kind}") && e["call"]["index"] == index;
        log.iter().position(is_it).unwrap()
    };
    assert!(place("started", 7) < place("finished", 0));
}

#[test]
fn at_most_sixteen_are_given_for_one_message() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.results.len()) {
        (true, _) => Says::text(ANSWER).into(),
        (false, n) if n < 17 => Answer::call("task", json!({"prompt": format!("part {n}")})),
        (false, _) => Says::text(OVER).into(),
    });
    scene.start().wait(LIMIT).expect(0);
    let result = scene.result();
    let wanted = "at most 16 tasks are given for one message of the user; do the rest yourself";
    assert!(result.contains(wanted), "{result}");
    assert_eq!(scene.children().len(), 16);
}

#[test]
fn a_task_gives_no_tasks() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) | (true, 0) => Answer::call("task", json!({"prompt": DO_IT})),
        (false, _) => Says::text(OVER).into(),
        (true, _) => Says::text(seen.last_result().to_string()).into(),
    });
    scene.start().wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(
        result.contains("there is no tool named \"task\""),
        "{result}"
    );
    assert_eq!(scene.children().len(), 1);
}

#[test]
fn rules_that_deny_the_parent_also_deny_its_tasks() {
    let rules = "[permissions]\ndeny = [\"Bash(touch:*)\"]\n";
    let scene = Scene::with_config(rules, move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", json!({"prompt": DO_IT})),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Answer::call("bash", json!({"command": "touch forbidden"})),
        (true, _) => Says::text(seen.last_result().to_string()).into(),
    });
    // Nothing is asked in this mode, and what is denied stays so.
    scene.start().wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(result.contains("Bash(touch:*)"), "{result}");
    assert!(!scene.home.path("forbidden").exists());
}

/// Rules of the command line too.
#[test]
fn command_line_deny_rules_also_apply_to_tasks() {
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", json!({"prompt": DO_IT})),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Answer::call("bash", json!({"command": "touch forbidden"})),
        (true, _) => Says::text(seen.last_result().to_string()).into(),
    });
    let args = [
        "-p",
        "do it",
        "--yolo",
        "--set",
        "permissions.deny=[\"Bash(touch:*)\"]",
    ];
    scene.live(&args).wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(result.contains("Bash(touch:*)"), "{result}");
    assert!(!scene.home.path("forbidden").exists());
}

#[test]
fn disabled_agents_leave_no_task_tool() {
    let config = "[agents]\nenabled = false\n";
    let scene = Scene::with_config(config, move |seen| match seen.turn {
        0 => Answer::call("task", json!({"prompt": DO_IT})),
        _ => Says::text(OVER).into(),
    });
    scene.start().wait(LIMIT).expect(0);
    let result = scene.result();
    assert!(
        result.contains("there is no tool named \"task\""),
        "{result}"
    );
    assert_eq!(scene.children().len(), 0);
    let heard = scene.heard.lock().unwrap();
    let names = |seen: &Seen| -> Vec<Value> {
        let tools = seen.json["tools"].as_array().cloned().unwrap_or_default();
        tools
            .iter()
            .map(|tool| tool["function"]["name"].clone())
            .collect()
    };
    assert!(
        heard
            .iter()
            .all(|seen| !names(seen).contains(&json!("task")))
    );
    assert!(names(&heard[0]).contains(&json!("bash")));
}

/// A run counts the denied calls of its subagents, and only those since it began.
#[test]
fn denials_in_a_task_are_counted_by_the_run() {
    let outside = json!({"command": "echo x", "access": "full"});
    let scene = Scene::new(move |seen| match (is_child(seen), seen.turn) {
        (false, 0) => Answer::call("task", json!({"prompt": DO_IT})),
        (false, _) => Says::text(OVER).into(),
        (true, 0) => Answer::call("bash", outside.clone()),
        (true, _) => Says::text(ANSWER).into(),
    });
    let run = |args: &[&str]| {
        let live = scene.live(args).wait(LIMIT);
        (live.code(), live.events().pop().expect("a result"))
    };
    let (code, result) = run(&["-p", "do it", "--fail-on-denied"]);
    assert_eq!(result["denied"], 1, "{result}");
    assert_eq!(code, Some(1), "{result}");
    assert_eq!(result["why"], "1 call was denied");
    let (code, result) = run(&["-p", "-c", "more", "--fail-on-denied"]);
    assert_eq!((code, &result["denied"]), (Some(0), &json!(0)), "{result}");
}
