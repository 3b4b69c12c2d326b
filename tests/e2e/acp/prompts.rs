//! Prompts: their updates, questions about calls, stops, and the rows that they leave.

use base64::Engine;
use serde_json::json;

use crate::acp::editor::{Editor, selected};
use crate::acp::{entries, gated, running, scripted, step, until, write, writes};
use crate::scenes::calling;

#[test]
fn a_prompt_is_answered_after_its_call() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    let asked = editor.allow();
    let call = &asked["params"]["toolCall"];
    assert_eq!(call["kind"], "edit");
    assert_eq!(call["content"][1]["newText"], "written\n");
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    assert_eq!(home.read("f"), "written\n");
    assert_eq!(editor.text("agent_message_chunk"), "I write it.done");
    assert_eq!(editor.text("user_message_chunk"), "");
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["completed"]);
    assert!(!editor.updates("usage_update").is_empty());
    let titled = editor.updates("session_info_update");
    assert_eq!(titled[0]["title"], "write it");
    editor.finish();
    let said = entries(&home, &id, "said");
    assert_eq!(said[0]["text"], "write it");
    assert_eq!(said[0]["origin"], "acp");
    assert_eq!(entries(&home, &id, "decided")[0]["origin"], "acp");
}

#[test]
fn a_rejected_call_does_not_run() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    editor.choose("reject");
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    assert!(!home.path("f").exists());
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["failed"]);
    editor.finish();
}

#[test]
fn an_allowed_rule_is_not_asked_again_in_its_session() {
    let home = scripted(&[
        step("", &[write("f")]),
        step("", &[write("f")]),
        step("done", &[]),
    ]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it twice");
    let asked = editor.choose("always");
    let options = asked["params"]["options"].as_array().unwrap();
    let kinds: Vec<_> = options.iter().map(|option| &option["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    let asked = editor.seen.iter();
    let asked = asked.filter(|line| line["method"] == "session/request_permission");
    assert_eq!(asked.count(), 1);
    editor.finish();
}

/// An unknown option is asked again; then the first answer counts, and a second one nothing.
#[test]
fn a_question_has_one_answer() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    let first = editor.choose("perhaps");
    let again = editor.asked();
    assert_ne!(first["id"], again["id"]);
    editor.respond(&first["id"], selected("allow"));
    editor.respond(&again["id"], selected("reject"));
    editor.respond(&again["id"], selected("allow"));
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    assert!(!home.path("f").exists());
    editor.finish();
    assert_eq!(entries(&home, &id, "decided").len(), 1);
}

#[test]
fn a_question_that_is_answered_elsewhere_is_withdrawn() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    let asked = editor.asked();
    home.run(["allow", &id]).expect(0);
    let withdrawn = editor.wait(|line| line["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    editor.respond(&asked["id"], selected("reject"));
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    assert_eq!(home.read("f"), "written\n");
    editor.finish();
    let decided = entries(&home, &id, "decided");
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0]["origin"], "cli");
}

#[test]
fn a_cancelled_prompt_ends_its_command() {
    let home = scripted(&[step("", &[gated()]), step("not reached", &[])]);
    let (mut editor, id) = running(&home);
    editor.notify("session/cancel", json!({ "sessionId": id }));
    let result = editor.wait(|line| line["result"]["stopReason"].is_string());
    assert_eq!(result["result"]["stopReason"], "cancelled");
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["failed"]);
    // The session can be used afterwards.
    assert_eq!(editor.say(&id, "again"), "end_turn");
    editor.finish();
    assert_eq!(home.read("effects"), "start\n");
    assert_eq!(entries(&home, &id, "stopped")[0]["origin"], "acp");
}

#[test]
fn cancelling_the_request_cancels_the_prompt() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    let asked = editor.asked();
    editor.notify("$/cancel_request", json!({ "requestId": prompt }));
    assert_eq!(editor.stop_reason(&prompt), "cancelled");
    let withdrawn = |line: &&serde_json::Value| line["method"] == "$/cancel_request";
    let withdrawn = editor.seen.iter().find(withdrawn).expect("withdrawn");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    editor.finish();
}

/// The client answers `cancelled` when its user closes the question.
#[test]
fn a_cancelled_question_cancels_the_prompt() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "write it");
    let asked = editor.asked();
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    editor.respond(&asked["id"], cancelled);
    assert_eq!(editor.stop_reason(&prompt), "cancelled");
    editor.finish();
}

#[test]
fn a_second_prompt_waits_for_its_turn() {
    let home = scripted(&[
        step("", &[gated()]),
        step("both are answered", &[]),
        step("over", &[]),
    ]);
    let (mut editor, id) = running(&home);
    let second = editor.prompt(&id, "and this");
    let third = editor.prompt(&id, "not this");
    editor.notify("$/cancel_request", json!({ "requestId": third }));
    assert_eq!(editor.stop_reason(&third), "cancelled");
    std::fs::write(home.path("gate"), "").unwrap();
    assert_eq!(editor.stop_reason(&second), "end_turn");
    let answers = editor.seen.iter();
    let answers = answers.filter(|line| line["result"]["stopReason"] == "end_turn");
    assert_eq!(answers.count(), 2);
    editor.finish();
    let said = entries(&home, &id, "said");
    let said: Vec<_> = said.iter().map(|said| &said["text"]).collect();
    assert_eq!(said, ["run it", "and this"]);
}

#[test]
fn words_of_another_process_are_shown() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "first"), "end_turn");
    home.run(["send", &id, "from elsewhere"]).expect(0);
    editor.update("user_message_chunk", |update| {
        update["content"]["text"] == "from elsewhere"
    });
    editor.update("agent_message_chunk", |update| {
        update["content"]["text"] == "two"
    });
    editor.finish();
}

#[test]
fn all_parts_of_a_prompt_arrive() {
    let home = scripted(&[step("seen", &[])]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let png = include_bytes!("../server/dot.png");
    let png = base64::engine::general_purpose::STANDARD.encode(png);
    let prompt = json!([
        { "type": "text", "text": "look at " },
        { "type": "resource_link", "name": "a.rs", "uri": "file:///x/a.rs" },
        { "type": "text", "text": " and " },
        { "type": "resource", "resource": { "uri": "file:///x/b.rs", "text": "fn b() {}" } },
        { "type": "image", "data": png, "mimeType": "image/png" },
    ]);
    let params = json!({ "sessionId": id, "prompt": prompt });
    let result = editor
        .call("session/prompt", params)
        .expect("a stop reason");
    assert_eq!(result["stopReason"], "end_turn");
    editor.finish();
    let said = entries(&home, &id, "said").remove(0);
    let text = said["text"].as_str().unwrap();
    assert!(
        text.starts_with("look at [@a.rs](/x/a.rs) and @/x/b.rs"),
        "{text}"
    );
    assert!(
        text.contains("<resource uri=\"/x/b.rs\">\nfn b() {}\n</resource>"),
        "{text}"
    );
    assert_eq!(said["images"][0]["media_type"], "image/png");
}

#[test]
fn a_custom_command_is_offered_and_expanded() {
    let home = scripted(&[step("ok", &[])]);
    let folder = home.rewake_home().join("commands");
    std::fs::create_dir_all(&folder).unwrap();
    let file = "---\ndescription: Checks it\n---\nCheck $ARGUMENTS well.\n";
    std::fs::write(folder.join("check.md"), file).unwrap();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let offered = editor.update("available_commands_update", |_| true);
    let offered = offered["availableCommands"].as_array().unwrap();
    let names: Vec<_> = offered.iter().map(|command| &command["name"]).collect();
    assert_eq!(names, ["continue", "init", "check"]);
    assert_eq!(editor.say(&id, "/check this"), "end_turn");
    let unknown = editor.prompt(&id, "/nothing");
    assert_eq!(editor.answer(&unknown).unwrap_err()["code"], -32602);
    editor.finish();
    let said = entries(&home, &id, "said");
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["text"], "Check this well.");
}

#[test]
fn a_plan_is_shown() {
    let plan = json!({ "steps": [
        { "text": "look", "status": "completed" },
        { "text": "act", "status": "in_progress" },
    ] });
    let home = calling(&[("plan", plan)]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "plan it"), "end_turn");
    let plans = editor.updates("plan");
    let entries = plans[0]["entries"].as_array().unwrap();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| (entry["content"].as_str(), entry["status"].as_str()))
        .collect();
    let expected = [
        (Some("look"), Some("completed")),
        (Some("act"), Some("in_progress")),
    ];
    assert_eq!(entries, expected);
    editor.finish();
}

/// A model that thinks and streams in pieces is shown once.
#[test]
fn a_streamed_answer_is_shown_once() {
    let step = "[[step]]\nthinking = \"why not\"\ntext = \"in small pieces\"\nchunk_chars = 2\n";
    let home = scripted(&[step.to_string()]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "say it"), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "in small pieces");
    assert_eq!(editor.text("agent_thought_chunk"), "why not");
    editor.finish();
}

#[test]
fn a_failed_request_is_an_error_and_can_be_continued() {
    let failing = "[[step]]\ntext = \"never\"\nfail = { class = \"auth\", tries = 100 }\n";
    let home = scripted(&[failing.to_string()]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "try");
    let error = editor.answer(&prompt).unwrap_err();
    assert_eq!(error["code"], -32000, "{error}");
    crate::acp::play(&home, &[step("now", &[])]);
    editor.finish();
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    assert_eq!(editor.say(&id, "/continue"), "end_turn");
    assert!(editor.text("agent_message_chunk").ends_with("now"));
    editor.finish();
}

#[test]
fn the_limit_of_turns_is_a_stop_reason() {
    let home = scripted(&[
        step("", &[("plan", json!({ "steps": [] }))]),
        step("late", &[]),
    ]);
    home.write_config(&format!("max_turns = 1\n{}", crate::acp::SCRIPTED));
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "go"), "max_turn_requests");
    editor.finish();
}

/// A prompt is on the disk before anything follows from it.
#[test]
fn a_prompt_survives_a_kill() {
    let home = calling(&[gated()]);
    let (mut editor, id) = running(&home);
    editor.prompt(&id, "while it runs");
    until(|| {
        home.run(["show", &id, "--json"]).stdout.contains("run it") && queued(&home, &id) == 1
    });
    editor.kill();
    std::fs::write(home.path("gate"), "").unwrap();
    until(|| home.read("effects").contains("end"));
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    assert_eq!(editor.say(&id, "go"), "end_turn");
    editor.finish();
    let said = entries(&home, &id, "said");
    let said: Vec<_> = said.iter().map(|said| &said["text"]).collect();
    assert_eq!(said, ["run it", "while it runs", "go"]);
    assert_eq!(home.read("effects"), "start\nend\n");
}

fn queued(home: &support::Home, id: &str) -> usize {
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    store.inbox().queued(id).unwrap().len()
}

#[test]
fn a_prompt_to_a_retired_model_is_answered_with_the_way_out() {
    let home = scripted(&["[[step]]\nfail = { class = \"no_model\" }\n".to_string()]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let prompt = editor.prompt(&id, "hello");
    let error = editor.answer(&prompt).unwrap_err();
    assert!(error["message"].is_string(), "{error}");
    editor.finish();
    assert_eq!(
        entries(&home, &id, "failed")[0]["error"]["class"],
        "no_model"
    );
}
