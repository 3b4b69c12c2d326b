//! `--input-format stream-json`: lines on stdin control a run, and each is acknowledged.

use std::io::{PipeWriter, Write, pipe};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{LIMIT, bash, calling, refused, scripted, step};
#[cfg(feature = "serve")]
use crate::cli::{acp::Editor, entries, serve::Serve};
use support::{Home, Live, Run};

/// For a line that comes at once.
const QUICK: Duration = Duration::from_secs(60);

/// A run with its stdin.
struct Talk {
    live: Live,
    input: PipeWriter,
}

impl Talk {
    fn start(home: &Home, args: &[&str]) -> Talk {
        let (reader, input) = pipe().unwrap();
        let mut command = home.rewake(["-p", "--input-format", "stream-json"]);
        command.args(args).stdin(reader);
        let live = Live::spawn(command);
        Talk { live, input }
    }

    fn write(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Waits for a line of this type, and returns it.
    fn until(&self, kind: &str) -> Value {
        self.until_nth(kind, 1)
    }

    fn until_nth(&self, kind: &str, n: usize) -> Value {
        let parsed = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let line = self
            .live
            .wait_for_nth(QUICK, n, |line| parsed(line)["type"] == kind);
        parsed(&line)
    }

    /// Closes stdin and waits for the end.
    fn end(self) -> Run {
        drop(self.input);
        self.live.wait(LIMIT)
    }
}

fn of_type(run: &Run, kind: &str) -> Vec<Value> {
    let events = run.events().into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

#[test]
fn words_are_said_and_acknowledged_in_order() {
    let home = scripted(&[step("one", &[]), step("two", &[]), step("three", &[])]);
    let mut talk = Talk::start(&home, &["first"]);
    talk.until("waiting");
    talk.write(&json!({ "type": "say", "id": "a", "text": "second" }));
    assert_eq!(talk.until("taken")["id"], "a");
    talk.until_nth("waiting", 2);
    // The same ID again changes nothing.
    talk.write(&json!({ "type": "say", "id": "a", "text": "second" }));
    talk.until_nth("taken", 2);
    let claude = json!({ "type": "user", "message": { "role": "user", "content": "third" } });
    talk.write(&claude);
    assert_eq!(talk.until_nth("taken", 3)["line"], 3);
    let run = talk.end().expect(0);
    let said: Vec<Value> = of_type(&run, "entry.said");
    let texts: Vec<&Value> = said.iter().map(|entry| &entry["text"]).collect();
    assert_eq!(texts, ["first", "second", "third"]);
    assert_eq!(said[1]["origin"], "stdin:a");
    let result = run.events().pop().unwrap();
    assert_eq!(
        (&result["type"], &result["result"]),
        (&json!("result"), &json!("three"))
    );
}

#[test]
fn questions_are_answered_and_late_answers_refused() {
    let home = scripted(&[
        step("", &[bash("touch one")]),
        step("", &[bash("touch two")]),
        step("done", &[]),
    ]);
    let mut talk = Talk::start(
        &home,
        &[
            "work",
            "--permission-mode",
            "default",
            "--set",
            "sandbox.enabled=false",
        ],
    );
    let asked = talk.until("entry.asked");
    talk.write(&json!({ "type": "allow", "id": "v1", "call": asked["call"] }));
    talk.until_nth("entry.asked", 2);
    talk.write(&json!({ "type": "allow", "id": "late", "call": asked["call"] }));
    let refused = talk.until("refused");
    assert_eq!(refused["id"], "late");
    talk.write(&json!({ "type": "deny", "id": "v2", "reason": "not this" }));
    talk.until("waiting");
    let run = talk.end().expect(0);
    assert!(
        home.path("one").exists() && !home.path("two").exists(),
        "{run:?}"
    );
    let decided = of_type(&run, "entry.decided");
    let origins: Vec<&Value> = decided.iter().map(|entry| &entry["origin"]).collect();
    assert_eq!(origins, ["stdin:v1", "stdin:v2"]);
}

#[test]
fn the_end_of_the_input_with_an_open_question_exits_with_75() {
    let home = calling(&[bash("touch one")]);
    let args = ["work", "--set", "sandbox.enabled=false"];
    let talk = Talk::start(&home, &args);
    talk.until("entry.asked");
    let run = talk.end().expect(75);
    assert!(
        run.stderr.contains("a question waits for an answer"),
        "{run:?}"
    );
    let open = home.run(["approvals"]).expect(0).stdout;
    assert!(open.contains("touch one"), "{open}");
}

/// A line is sent, the run is killed, and all lines are sent again.
#[test]
fn a_line_takes_effect_once_also_after_a_kill() {
    let home = scripted(&[
        step(
            "",
            &[bash(
                "echo x >> ran; while [ ! -e go ]; do sleep 0.02; done",
            )],
        ),
        step("done", &[]),
        step("again", &[]),
    ]);
    let lines = [
        json!({ "type": "set", "id": "s", "mode": "acceptEdits", "turns": 50 }),
        json!({ "type": "say", "id": "a", "text": "work" }),
    ];
    let mut first = Talk::start(&home, &[]);
    lines.iter().for_each(|line| first.write(line));
    first.until_nth("taken", 2);
    let started = first.until("entry.started");
    let id = first.until("session.opened")["session"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(started["call"].is_string() || started["call"].is_object());
    assert!(first.live.kill());
    first.end();
    std::fs::write(home.path("go"), "").unwrap();
    let mut second = Talk::start(&home, &["-r", &id]);
    lines.iter().for_each(|line| second.write(line));
    second.until_nth("taken", 2);
    let run = second.end().expect(0);
    let log = home.run(["export", &id, "--json"]).expect(0).stdout;
    let log: Value = serde_json::from_str(&log).unwrap();
    let of = |kind: &str| {
        let records = log["records"].as_array().unwrap().iter();
        records
            .filter(|record| record["entry"]["kind"] == kind || record["entry"]["type"] == kind)
            .count()
    };
    assert_eq!(home.read("ran"), "x\n", "{run:?}");
    assert_eq!((of("said"), of("chose")), (1, 2), "{log}");
}

#[test]
fn bad_lines_are_refused_and_the_run_goes_on() {
    let home = scripted(&[step("fine", &[]), step("fine", &[])]);
    let mut talk = Talk::start(&home, &["hi"]);
    talk.until("waiting");
    let bad = [
        ("not json", "not JSON"),
        ("[1]", "not a JSON object"),
        (r#"{"type":"dance"}"#, "unknown variant"),
        (r#"{"type":"say","txt":"x"}"#, "unknown field"),
        (r#"{"type":"say","text":" "}"#, "empty"),
        (r#"{"type":"set"}"#, "nothing to set"),
        (r#"{"type":"set","turns":0}"#, "from 1 to 1000000"),
        (r#"{"type":"allow"}"#, ""),
        (r#"{"type":"allow","call":"x"}"#, ""),
        (r#"{"type":"say","id":{},"text":"x"}"#, "`id`"),
    ];
    for (n, (line, why)) in bad.iter().enumerate() {
        writeln!(talk.input, "{line}").unwrap();
        let refused = talk.until_nth("refused", n + 1);
        assert!(
            refused["why"].as_str().unwrap().contains(why),
            "{line}: {refused}"
        );
        assert_eq!(refused["line"], n + 1);
    }
    let long = format!(
        "{{\"type\":\"say\",\"text\":\"{}\"}}\n",
        "x".repeat(11 << 20)
    );
    talk.input.write_all(long.as_bytes()).unwrap();
    let refused = talk.until_nth("refused", bad.len() + 1);
    assert!(
        refused["why"].as_str().unwrap().contains("10 MiB"),
        "{refused}"
    );
    talk.write(&json!({ "type": "say", "text": "still here?" }));
    talk.until("taken");
    talk.until_nth("waiting", 2);
    talk.write(&json!({ "type": "stop" }));
    talk.until_nth("taken", 2);
    talk.end().expect(0);
}

/// Nothing of a refused change applies.
#[cfg(feature = "serve")]
#[test]
fn settings_are_refused_with_the_same_words_from_every_sender() {
    let home = scripted(&[step("fine", &[])]);
    let mut talk = Talk::start(&home, &["hi"]);
    talk.until("waiting");
    let server = Serve::start(&home, &[]);
    let listed = server.get("/agent/history").json();
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let path = format!("/sessions/{id}");
    let turns = "turns is a number from 1 to 1000000";
    let limits = "rewake set ID --no-limits removes the limits";
    let table = [
        (json!({ "turns": 0 }), "--turns 0", turns, limits),
        (
            json!({ "turns": 1_000_001 }),
            "--turns 1000001",
            turns,
            limits,
        ),
        (
            json!({ "mode": "plan", "usd": -1.5 }),
            "--mode plan --usd=-1.5",
            "a limit of $-1.5 makes no sense",
            limits,
        ),
        (
            json!({ "effort": "low", "temperature": 2.5 }),
            "--effort low --temperature 2.5",
            "the temperature 2.5 makes no sense",
            "a temperature is a number from 0 to 2",
        ),
        (
            json!({}),
            "",
            "there is nothing to set",
            "give a model, a mode, an effort, a temperature or a limit",
        ),
    ];
    for (n, (settings, flags, why, hint)) in table.iter().enumerate() {
        let args = ["set", id].into_iter().chain(flags.split_whitespace());
        refused(home.run(args), 2, &[why, hint]);
        let problem = server.send("PATCH", &path, settings).expect(400).json();
        assert_eq!(problem, json!({ "error": why, "hint": hint }));
        let mut line = settings.clone();
        line["type"] = json!("set");
        talk.write(&line);
        let refused = talk.until_nth("refused", n + 1);
        assert_eq!(refused["why"], format!("{why}; {hint}"));
    }
    talk.write(&json!({ "type": "set", "mode": "plan", "tokens": 0 }));
    let refused = talk.until_nth("refused", table.len() + 1);
    let why = format!("tokens is a number above 0; {limits}");
    assert_eq!(refused["why"], why);

    // Names that do not exist.
    talk.write(&json!({ "type": "set", "effort": "much" }));
    let refused = talk.until_nth("refused", table.len() + 2);
    let (why, hint) = refused["why"].as_str().unwrap().split_once("; ").unwrap();
    let effort = json!({ "effort": "much" });
    server.send("PATCH", &path, &effort).refused(400, why);
    let mut editor = Editor::start(&home);
    let session = editor.new_session(&home);
    let effort = json!({ "sessionId": session, "configId": "effort", "value": "much" });
    let error = editor.call("session/set_config_option", effort);
    let error = error.unwrap_err();
    assert_eq!(
        (&error["message"], &error["data"]["hint"]),
        (&json!(why), &json!(hint))
    );
    editor.finish();

    talk.end().expect(0);
    assert_eq!(entries(&home, id, "chose"), [Value::Null; 0]);
}

#[test]
fn the_input_needs_a_run_without_a_screen() {
    let home = scripted(&[]);
    refused(home.run(["--input-format", "stream-json"]), 2, &["--print"]);
    let both = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "text",
    ];
    refused(home.run(both), 2, &["cannot be used with"]);
}

/// A time limit ends a run whose stdin stays open, and leaves the work resumable.
#[test]
fn a_time_limit_ends_a_run_with_an_open_input() {
    let home = scripted(&[step("", &[bash("while [ ! -e go ]; do sleep 0.02; done")])]);
    let args = [
        "work",
        "--timeout",
        "1s",
        "--permission-mode",
        "acceptEdits",
    ];
    let talk = Talk::start(&home, &args);
    let Talk { live, input } = talk;
    let run = live.wait(LIMIT).expect(75);
    drop(input);
    assert!(run.stderr.contains("time limit of --timeout"), "{run:?}");
}
