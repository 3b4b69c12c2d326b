//! A server asks a person in the middle of a call: the question and its answer survive a kill, and
//! are given from another process. The server is the test binary itself.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cli::resume::scene::*;
use crate::scenes::until;
use support::{Answer, Live, Protocol, Run, Says, spoken};

const SERVER: &str = spoken::ITSELF;

/// In the way of 2025-11-25, and in that of 2026-07-28.
const WAYS: [(&str, &str); 2] = [("asks_old", "old"), ("asks", "new")];

/// A session whose model calls this tool once, and then says what it was told.
fn calls(tool: &'static str, mode: &str, arguments: &Value, more: &str) -> Scene {
    let arguments = arguments.clone();
    let scene = Scene::new(move |seen| match seen.turn {
        0 => Answer::call("mcp_find", json!({ "query": "" })),
        1 => {
            let tool = format!("mcp__far__{tool}");
            let call = json!({ "tool": tool, "arguments": arguments });
            Answer::call("mcp_call", call)
        }
        _ => Says::text(FINAL_WORDS).into(),
    });
    configure(&scene, tool, mode, more);
    scene
}

fn configure(scene: &Scene, tool: &str, mode: &str, more: &str) {
    let home = scene.home.rewake_home();
    let program = home.join("server");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    let tools =
        json!([{ "name": tool, "description": "Asks", "inputSchema": { "type": "object" } }]);
    std::fs::write(home.join("tools.json"), tools.to_string()).unwrap();
    let table = format!(
        "[permissions]\nallow = [\"mcp__far\"]\n[mcp_servers.far]\ncommand = {}\nargs = {}\n\
         idle_timeout_sec = 1\n{more}\n[mcp_servers.far.env]\n{} = \"{mode}\"\n{} = {}\n",
        json!(program),
        json!(spoken::arguments(SERVER)),
        spoken::ASKED,
        spoken::TOOLS,
        json!(home.join("tools.json")),
    );
    scene.home.configure(&scene.server, Protocol::Chat, &table);
}

fn effect() -> Value {
    json!({ "file": "effects", "text": "one" })
}

impl Scene {
    fn answers(&self, args: &[&str]) -> Run {
        self.home.run([&["answer", "@here"], args].concat())
    }

    fn asks_now(&self) -> Vec<Value> {
        let run = self.home.run(["approvals", "--json"]).expect(0);
        serde_json::from_str(&run.stdout).expect("a list")
    }

    /// Somebody is waited for, in the middle of the call.
    fn asked_by_server(&self) -> Live {
        let live = self.live(&["-p", "do it", "--on-approval", "wait"]);
        live.wait_for(LIMIT, |line| is_entry(line, "asked"));
        live
    }

    fn was_asked_and_answered_once(&self) {
        assert_eq!(self.entries("asked").len(), 1);
        assert_eq!(self.entries("answered").len(), 1);
        assert_eq!(self.entries("finished").len(), 2);
        assert!(self.asks_now().is_empty());
    }
}

fn kill(mut live: Live) {
    assert!(live.kill());
    drop(live.wait(LIMIT));
}

#[test]
fn a_question_of_a_server_is_answered_from_another_process() {
    for (tool, mode) in WAYS {
        let scene = calls(tool, mode, &effect(), "tool_timeout_sec = 1.5");
        let live = scene.asked_by_server();
        let asked_at = std::time::Instant::now();
        let asked = scene.asks_now();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0]["form"]["server"], "far");
        assert_eq!(asked[0]["form"]["wanted"]["fields"][0]["name"], "name");
        let words = scene.home.run(["approvals"]).expect(0).stdout;
        assert_has(
            &words,
            &["the server far asks", "who are you?", "name: text"],
        );
        // A verdict is none of its business, and what does not fit is not sent.
        let refused = scene.home.run(["allow", "@here"]).expect(2);
        assert_has(
            &refused.stderr,
            &["far asks for something", "rewake answer"],
        );
        for (args, why) in [
            (&["--value", "age=7"][..], "no field \"age\""),
            (&["--value", "name"][..], "no NAME=VALUE"),
            (&[][..], "there is no answer"),
            (&["--accept", "--asked", "1"][..], "asks something else"),
        ] {
            let refused = scene.answers(args).expect(2);
            assert_has(&refused.stderr, &[why, "hint: "]);
        }
        assert!(scene.entries("answered").is_empty());
        // A person may take longer than the tool may.
        until(|| asked_at.elapsed() > std::time::Duration::from_secs(2));
        scene.answers(&["--value", "name=ada"]).expect(0);
        live.wait(LIMIT).expect(0);
        assert_has(&scene.last_result(), &["ada", "accept"]);
        scene.was_asked_and_answered_once();
        let answered = scene.entries("answered");
        assert_eq!(answered[0]["origin"], "cli");
        assert_eq!(scene.effects(), 1);
        let late = scene.answers(&["--decline"]).expect(2);
        assert_has(&late.stderr, &["asks nothing"]);
        scene.server.assert_no_violations();
    }
}

/// The agent is killed while a person thinks. The server is kept though it would linger for a
/// second only.
#[test]
fn a_question_of_a_server_outlives_the_agent() {
    for (tool, mode) in WAYS {
        let scene = calls(tool, mode, &effect(), "");
        kill(scene.asked_by_server());
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert_eq!(scene.asks_now()[0]["live"], false);
        let kept = scene.answers(&["--value", "name=ada"]).expect(0);
        assert_has(&kept.stderr, &["is not running"]);
        scene.go_on().expect(0);
        assert_has(&scene.last_result(), &["ada"]);
        assert_eq!(scene.effects(), 1);
        scene.was_asked_and_answered_once();
    }
}

/// It is asked again of who takes the call up, under the same key.
#[test]
fn the_next_process_asks_the_same_question() {
    for (tool, mode) in WAYS {
        let scene = calls(tool, mode, &effect(), "");
        kill(scene.asked_by_server());
        // A start without a person answers nothing for them.
        let run = scene.go_on().expect(75);
        assert_has(
            &run.stderr,
            &[
                "a question waits for an answer: far asks: who are you?",
                "rewake answer",
            ],
        );
        let live = scene.live(&["-p", "-c", "--on-approval", "wait"]);
        until(|| scene.asks_now().first().is_some_and(|q| q["live"] == true));
        scene.answers(&["--decline"]).expect(0);
        live.wait(LIMIT).expect(0);
        assert_has(&scene.last_result(), &["decline"]);
        scene.was_asked_and_answered_once();
    }
}

/// Killed behind the answer's record: before the server has it, or behind that.
#[test]
fn a_kill_between_the_answer_and_the_result_asks_nobody_again() {
    for (tool, mode) in WAYS {
        let scene = calls(tool, mode, &effect(), "");
        let live = scene.asked_by_server();
        scene.answers(&["--value", "name=ada"]).expect(0);
        live.wait_for(LIMIT, |line| is_entry(line, "answered"));
        let mut live = live;
        live.kill();
        drop(live.wait(LIMIT));
        scene.go_on().expect(0);
        assert_has(&scene.last_result(), &["ada"]);
        assert_eq!(scene.effects(), 1);
        scene.was_asked_and_answered_once();
    }
}

#[test]
fn where_nobody_is_there_a_question_is_declined_and_that_is_recorded() {
    for (tool, mode) in WAYS {
        let scene = calls(tool, mode, &json!({}), "");
        let run = scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
        assert_has(
            &run.stderr,
            &["far asks: who are you?", "declined", "--on-approval wait"],
        );
        assert_has(&scene.last_result(), &["decline"]);
        assert_eq!(scene.entries("answered")[0]["by"], "start");
        scene.was_asked_and_answered_once();
    }
}

/// As in CI: it ends with 75, and the question stays open.
#[test]
fn a_question_of_a_server_stays_open_when_nobody_answers_in_time() {
    let scene = calls("asks", "new", &effect(), "");
    let run = scene
        .live(&["-p", "do it", "--on-approval", "wait=1s"])
        .wait(LIMIT);
    let run = run.expect(75);
    assert_has(
        &run.stderr,
        &["a question waits for an answer", "rewake answer"],
    );
    assert_eq!(scene.effects(), 0);
    let values = scene.home.path("values.json");
    std::fs::write(&values, "{\"name\": \"ada\"}").unwrap();
    let mut answer = scene.home.rewake(["answer", "@here", "--json"]);
    answer.stdin(std::fs::File::open(&values).unwrap());
    support::run(answer, LIMIT).expect(0);
    scene.go_on().expect(0);
    assert_has(&scene.last_result(), &["ada"]);
    scene.was_asked_and_answered_once();
}

/// A server that floods: what is too much at once, or for one call, is declined unasked.
#[test]
fn a_flood_of_questions_is_bounded() {
    let scene = calls("asks_many", "old", &json!({ "count": 300 }), "");
    let run = scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    assert!(
        run.stderr.matches("who are you?").count() <= 32,
        "{}",
        run.stderr
    );
    assert_has(&scene.last_result(), &["0 accepted, 300 declined"]);
    let asked = scene.entries("asked").len();
    assert!((1..=32).contains(&asked), "{asked}");
    assert_eq!(scene.entries("answered").len(), asked);
}

#[test]
fn a_server_question_after_its_call_is_ignored() {
    let scene = calls("asks_late", "old", &json!({}), "");
    let live = scene.live(&["-p", "do it", "--on-approval", "wait=5s"]);
    live.wait(LIMIT).expect(0);
    assert!(scene.entries("asked").is_empty());
}

/// The question of a sub-agent's server waits where a person finds it; a parent without a person
/// declines it.
#[test]
fn a_question_in_a_sub_agent_is_answered() {
    for (waits, result) in [(true, "ada"), (false, "decline")] {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&heard);
        let scene = Scene::new(move |seen| {
            let is_child = seen.json.to_string().contains("You are a subagent");
            let call = json!({ "tool": "mcp__far__asks_old", "arguments": effect() });
            match (is_child, seen.turn) {
                (false, 0) => Answer::call("task", json!({ "prompt": "ask it" })),
                (true, 0) => Answer::call("mcp_find", json!({ "query": "" })),
                (true, 1) => Answer::call("mcp_call", call),
                (true, _) => {
                    hears.lock().unwrap().push(seen.last_result().to_string());
                    Says::text("asked").into()
                }
                (false, _) => Says::text(FINAL_WORDS).into(),
            }
        });
        configure(&scene, "asks_old", "old", "");
        let live = match waits {
            true => scene.live(&["-p", "do it", "--on-approval", "wait"]),
            false => scene.live(&["-p", "do it"]),
        };
        if waits {
            until(|| !scene.asks_now().is_empty());
            let asked = scene.asks_now();
            let child = asked[0]["session"].as_str().unwrap();
            let answer = ["answer", child, "--value", "name=ada"];
            scene.home.run(answer).expect(0);
        }
        let run = live.wait(LIMIT).expect(0);
        assert_eq!(scene.effects(), 1, "{}", run.stderr);
        let heard = heard.lock().unwrap().join("\n");
        assert_has(&heard, &[result]);
    }
}
