//! `--json-schema`: what is on stdout fits the schema, or nothing is, and the reason is said.

use serde_json::{Value, json};

use crate::cli::{bash, play, refused, scripted, step, streamed};
use crate::scenes::structured::*;
use support::{Answer, Home, Protocol, Server};

fn shown(home: &Home) -> String {
    let listed = home.run(["history"]).expect(0).stdout;
    let id = listed.split_whitespace().next().unwrap().to_string();
    home.run(["export", "--json", &id]).expect(0).stdout
}

fn entries(home: &Home, kind: &str) -> usize {
    let exported: Value = serde_json::from_str(&shown(home)).unwrap();
    let records = exported["records"].as_array().unwrap();
    let of_kind = |record: &&Value| record["entry"]["kind"] == kind;
    records.iter().filter(of_kind).count()
}

#[test]
fn the_schema_may_be_a_file() {
    let home = says(&[r#"{"n": 1}"#]);
    std::fs::write(home.path("s.json"), SCHEMA).unwrap();
    let run = home
        .run(["-p", "count", "--json-schema", "s.json"])
        .expect(0);
    assert_eq!(run.stdout, "{\"n\": 1}\n");
}

#[test]
fn schema_errors_are_sent_to_the_model() {
    let fence = "Sure!\n```json\n{\"n\": 2}\n```";
    let home = scripted(&[
        step("look", &[bash("true")]),
        step(r#"{"n": "one"}"#, &[]),
        format!(
            "[[step]]\nwhen = \"at /n: .*integer\"\ntext = {}\n",
            json!(fence)
        ),
        "[[step]]\nwhen = \"text before the JSON\"\ntext = '{\"n\": 3'\nstop = \"max_tokens\"\n"
            .into(),
        "[[step]]\nwhen = \"output limit\"\ntext = '{\"n\": 4}'\n".into(),
    ]);
    let run = home
        .run(["-p", "count", "--json-schema", SCHEMA, "--yolo"])
        .expect(0);
    assert_eq!(run.stdout, "{\"n\": 4}\n");
    assert!(run.stderr.contains("(3 of 3)"), "{}", run.stderr);
    assert!(shown(&home).contains("want integer"), "{}", shown(&home));
}

#[test]
fn after_three_repairs_path_and_reason_are_on_stderr() {
    let home = says(&[r#"{"n": "a"}"#; 9]);
    let run = asks(&home).expect(1);
    assert_eq!(run.stdout, "");
    for words in ["at /n: ", "integer", "3 times", "hint: "] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    // Nothing is owed to it any more: the same is said again, and no model is asked.
    let again = home.run(["-p", "-c"]).expect(1);
    assert_eq!(again.stdout, "");
    assert!(again.stderr.contains("at /n: "), "{}", again.stderr);
    assert_eq!(entries(&home, "replied"), 4);
    // Another word gives it three more, and the schema still holds.
    play(
        &home,
        &[vec![step("no", &[]); 4], vec![step("{\"n\": 5}", &[])]].concat(),
    );
    let more = home.run(["-p", "-c", "a number, please"]).expect(0);
    assert_eq!(more.stdout, "{\"n\": 5}\n");
}

#[test]
fn resume_keeps_the_answer_count_and_still_requires_the_json() {
    let home = says(&[r#"{"n": "a"}"#; 9]);
    home.run(["-p", "count", "--json-schema", SCHEMA, "--max-turns", "2"])
        .expect(75);
    let run = home.run(["-p", "-c"]).expect(1);
    assert!(run.stderr.contains("at /n: "), "{}", run.stderr);
    assert_eq!(entries(&home, "replied"), 4);
    assert_eq!(entries(&home, "checked"), 4);
}

#[test]
fn once_an_answer_fits_the_next_message_is_free() {
    let home = says(&[r#"{"n": 1}"#, "in words"]);
    asks(&home).expect(0);
    // The process before may have died before it printed.
    assert_eq!(home.run(["-p", "-c"]).expect(0).stdout, "{\"n\": 1}\n");
    assert_eq!(
        home.run(["-p", "-c", "and now?"]).expect(0).stdout,
        "in words\n"
    );
}

#[test]
fn json_has_it_as_a_value_and_stream_json_too() {
    let args = ["-p", "count", "--json-schema", SCHEMA];
    let home = says(&["no", r#"{"n": 1}"#]);
    let json = ["--output-format", "json"];
    let run = home.run(args.iter().chain(&json)).expect(0);
    let result = &run.events()[0];
    assert_eq!(result["structured"], json!({ "n": 1 }), "{result}");
    assert_eq!(result["result"], "{\"n\": 1}");

    let run = streamed(&says(&["no", r#"{"n": 1}"#]), &args).expect(0);
    let events = run.events();
    let checked: Vec<&Value> = events
        .iter()
        .filter(|e| e["type"] == "entry.checked")
        .collect();
    assert_eq!(checked.len(), 2);
    assert_eq!(checked[0]["unfit"]["path"], "");
    assert_eq!(events.last().unwrap()["structured"], json!({ "n": 1 }));

    let home = says(&["no"; 9]);
    let run = home.run(args.iter().chain(&json)).expect(1);
    let result = &run.events()[0];
    assert_eq!(
        (&result["structured"], &result["exit_code"]),
        (&Value::Null, &json!(1))
    );
    let plain = says(&["no"])
        .run(["-p", "x", "--output-format", "json"])
        .expect(0);
    assert!(plain.events()[0].get("structured").is_none());
}

#[test]
fn an_answer_without_words_and_a_refusal_are_clear_errors() {
    let run = asks(&says(&[""; 9])).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("no words"), "{}", run.stderr);

    let refusal = "[[step]]\ntext = \"I will not.\"\nstop = \"refusal\"\n".to_string();
    let home = scripted(&[refusal]);
    let run = asks(&home).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("refused to answer"), "{}", run.stderr);
    assert_eq!(entries(&home, "replied"), 1);
}

#[test]
fn a_schema_that_cannot_be_used_begins_nothing() {
    let home = says(&["never"]);
    std::fs::write(
        home.path("big.json"),
        format!("{{\"title\": {:?}}}", "x".repeat(70_000)),
    )
    .unwrap();
    std::fs::write(home.path("text.json"), "type: object").unwrap();
    std::fs::create_dir(home.path("dir.json")).unwrap();
    let patterns = r#"{"pattern": "((a{100}){100}){100}"}"#;
    for (given, words) in [
        ("none.json", "none.json"),
        ("big.json", "big.json"),
        ("dir.json", "dir.json"),
        ("text.json", "is not JSON"),
        ("{", "is not JSON"),
        (r#"{"type": "strnig"}"#, "cannot be used"),
        (
            r#"{"$ref": "file:///etc/passwd"}"#,
            "nothing is read from elsewhere",
        ),
        (
            r#"{"$ref": "http://127.0.0.1:9/x"}"#,
            "nothing is read from elsewhere",
        ),
        (patterns, "too large"),
    ] {
        let run = home.run(["-p", "x", "--json-schema", given]);
        refused(run, 2, &[words]);
    }
    let long = format!("{{\"title\": {:?}}}", "x".repeat(70_000));
    refused(
        home.run(["-p", "x", "--json-schema", &long]),
        2,
        &["larger than"],
    );
    assert_eq!(home.run(["history"]).expect(0).stdout, "");
}

#[test]
fn the_screen_takes_no_schema() {
    let run = says(&["never"])
        .run(["--json-schema", SCHEMA, "x"])
        .expect(2);
    assert!(run.stderr.contains("--print"), "{}", run.stderr);
}

/// A server without a field for it gets a tool, whose arguments are the answer.
#[test]
fn a_server_without_the_field_gets_a_tool() {
    for protocol in [Protocol::Chat, Protocol::Anthropic, Protocol::Gemini] {
        let server = Server::start(|seen| {
            assert!(seen.tools.iter().any(|tool| tool == "structured_answer"));
            match seen.turn {
                0 => Answer::call("structured_answer", json!({ "n": "one" })),
                _ => {
                    assert!(seen.user.contains("at /n"), "{}", seen.user);
                    Answer::call("structured_answer", json!({ "n": 1 }))
                }
            }
        });
        let home = Home::with(&server, protocol);
        let run = asks(&home).expect(0);
        let json: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(json, json!({ "n": 1 }), "{protocol:?}");
    }
}

/// One that refuses the field it should have is asked again with the tool, at once.
#[test]
fn a_server_that_refuses_the_field_gets_the_tool() {
    let server = Server::start(|seen| match seen.json.pointer("/text/format") {
        Some(_) => Answer::error(400, "Unsupported parameter: 'text.format' is not supported"),
        None => Answer::call("structured_answer", json!({ "n": 1 })),
    });
    let home = Home::with(&server, Protocol::Responses);
    let run = asks(&home).expect(0);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json, json!({ "n": 1 }));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_server_with_the_field_gets_the_schema_as_it_is() {
    let server = Server::start(|seen| {
        let format = seen.json.pointer("/text/format").unwrap();
        assert_eq!(format["type"], "json_schema");
        assert_eq!(
            format["schema"],
            serde_json::from_str::<Value>(SCHEMA).unwrap()
        );
        assert!(!seen.tools.iter().any(|tool| tool == "structured_answer"));
        Answer::text("{\"n\": 7}")
    });
    let home = Home::with(&server, Protocol::Responses);
    assert_eq!(asks(&home).expect(0).stdout, "{\"n\": 7}\n");
}
