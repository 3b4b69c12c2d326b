//! Sessions that are opened again: after a kill, while a command runs, with an open question; the
//! list of sessions, and closing one.

use rewake::command::{RunState, Runs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::acp::editor::Editor;
use crate::acp::{entries, gated, running, runs, scripted, step, until, write, writes};
use crate::scenes::acp::*;
use crate::scenes::calling;
use support::{Answer, Home, Protocol, Says, Seen, Server};

fn params(home: &support::Home, id: &str) -> Value {
    json!({ "sessionId": id, "cwd": home.workspace(), "mcpServers": [] })
}

/// Has the engine record two choices. Between them it begins its own step, if it has one.
fn take_two_steps(editor: &mut Editor, home: &Home, id: &str) {
    for (number, mode) in ["plan", "default"].into_iter().enumerate() {
        let mode = json!({ "sessionId": id, "modeId": mode });
        editor.call("session/set_mode", mode).expect("set");
        until(|| entries(home, id, "chose").len() == number + 1);
    }
}

/// Kills the process of the subagent, and its keeper.
fn kill_subagent(home: &Home) {
    let runs = Runs::new(
        home.rewake_home().join("runs"),
        env!("CARGO_BIN_EXE_rewake"),
    );
    let mut runs = runs.list().into_iter();
    let child = runs.find(|run| run.spec.child.is_some()).unwrap();
    let RunState::Running { keeper, group } = child.state else {
        panic!("the subagent does not run");
    };
    for pid in [keeper, group].into_iter().flatten() {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
}

#[test]
fn a_command_that_still_runs_is_followed() {
    let home = scripted(&[step("", &[gated()]), step("I saw it.", &[])]);
    let (editor, id) = running(&home);
    editor.kill();
    let notices = json!({ "session": { "notices": {} } });
    let mut editor = Editor::with(&home, &[], notices);
    editor.load(&home, &id).expect("loaded");
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["in_progress"]);
    assert!(
        editor.updates("notice")[0]["title"]
            .as_str()
            .unwrap()
            .contains("killed")
    );
    // Its last update comes before the answer to the next prompt.
    let prompt = editor.prompt(&id, "and then?");
    std::fs::write(home.path("gate"), "").unwrap();
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["completed"]);
    assert_eq!(editor.text("agent_message_chunk"), "I saw it.");
    editor.finish();
    assert_eq!(home.read("effects"), "start\nend\n");
}

/// Nothing is asked of the model, whatever the session was in the middle of.
#[test]
fn a_followed_command_ends_without_a_prompt() {
    let home = scripted(&[step("", &[gated()]), step("the second answer", &[])]);
    let (editor, id) = running(&home);
    editor.kill();
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    std::fs::write(home.path("gate"), "").unwrap();
    editor.update("tool_call_update", |update| update["status"] == "completed");
    take_two_steps(&mut editor, &home, &id);
    assert_eq!(editor.say(&id, "and now?"), "end_turn");
    editor.finish();
    // An answer before the prompt would be a third one.
    assert_eq!(entries(&home, &id, "replied").len(), 2);
}

#[test]
fn resume_shows_nothing_of_the_past() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "first"), "end_turn");
    editor.finish();
    let mut editor = Editor::start(&home);
    editor
        .call("session/resume", params(&home, &id))
        .expect("resumed");
    assert_eq!(editor.text("user_message_chunk"), "");
    assert_eq!(editor.say(&id, "second"), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "two");
    editor.finish();
}

#[test]
fn an_open_question_is_asked_again() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.prompt(&id, "write it");
    editor.asked();
    editor.kill();
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    editor.allow();
    // An answer is enough to continue.
    editor.update("agent_message_chunk", |update| {
        update["content"]["text"] == "done"
    });
    assert_eq!(home.read("f"), "written\n");
    editor.finish();
    assert_eq!(entries(&home, &id, "asked").len(), 1);
}

#[test]
fn a_question_after_a_load_is_answered_elsewhere() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.prompt(&id, "write it");
    editor.asked();
    editor.kill();
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    let asked = editor.asked();
    home.run(["deny", &id]).expect(0);
    let withdrawn = editor.wait(|line| line["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    editor.update("agent_message_chunk", |update| {
        update["content"]["text"] == "done"
    });
    assert!(!home.path("f").exists());
    editor.finish();
}

#[test]
fn a_session_in_use_names_its_process() {
    let home = scripted(&[step("one", &[])]);
    let mut first = Editor::start(&home);
    let id = first.new_session(&home);
    assert_eq!(first.say(&id, "first"), "end_turn");
    let mut second = Editor::start(&home);
    let error = second.load(&home, &id).unwrap_err();
    assert_eq!(error["code"], -32603);
    assert_eq!(
        error["data"],
        json!({ "reason": "in_use", "pid": first.child.id() })
    );
    // The same process says so too.
    let error = first.load(&home, &id).unwrap_err();
    assert_eq!(error["data"]["reason"], "in_use");
    first.finish();
    second.load(&home, &id).expect("loaded");
    second.finish();
}

#[test]
fn sessions_are_listed_in_pages() {
    let home = scripted(&[step("one", &[])]);
    let mut editor = Editor::start(&home);
    for n in 0..53 {
        let id = editor.new_session(&home);
        assert_eq!(editor.say(&id, &format!("prompt {n}")), "end_turn");
        editor
            .call("session/close", json!({ "sessionId": id }))
            .unwrap();
    }
    let page = editor
        .call("session/list", json!({ "cwd": home.workspace() }))
        .unwrap();
    let sessions = page["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 50);
    assert_eq!(sessions[0]["title"], "prompt 52");
    assert_eq!(sessions[0]["cwd"], json!(home.workspace()));
    let next = json!({ "cwd": home.workspace(), "cursor": page["nextCursor"] });
    let page = editor.call("session/list", next).unwrap();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 3);
    assert_eq!(page.get("nextCursor"), None);
    let elsewhere = editor
        .call("session/list", json!({ "cwd": "/nowhere" }))
        .unwrap();
    assert_eq!(elsewhere["sessions"], json!([]));
    let wrong = editor
        .call("session/list", json!({ "cursor": "x" }))
        .unwrap_err();
    assert_eq!(wrong["code"], -32602);
    editor.finish();
}

/// It would continue in a fork, and its client knows only the ID that it asked for.
#[test]
fn a_copy_of_another_agents_session_is_not_loaded() {
    let home = scripted(&[step("one", &[])]);
    let work = home.workspace().display().to_string();
    let line = json!({ "type": "user", "uuid": "1", "sessionId": "s", "cwd": work,
        "timestamp": "2026-01-02T03:04:05Z", "message": { "content": "words" } });
    std::fs::write(home.path("claude.jsonl"), format!("{line}\n")).unwrap();
    let copy = home.run(["import", "claude.jsonl"]).expect(0).stdout;
    let mut editor = Editor::start(&home);
    let page = editor
        .call("session/list", json!({ "cwd": home.workspace() }))
        .unwrap();
    assert_eq!(page["sessions"], json!([]));
    let refused = editor.load(&home, copy.trim()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("a copy of a session of claude"), "{text}");
    editor.finish();
}

#[test]
fn closing_a_session_ends_its_work() {
    let home = scripted(&[step("", &[gated()]), step("not reached", &[])]);
    let (mut editor, id) = running(&home);
    let close = editor.request("session/close", json!({ "sessionId": id }));
    let result = editor.wait(|line| line["result"]["stopReason"].is_string());
    assert_eq!(result["result"]["stopReason"], "cancelled");
    assert_eq!(editor.answer(&close), Ok(json!({})));
    let unknown = editor.prompt(&id, "still there?");
    assert_eq!(editor.answer(&unknown).unwrap_err()["code"], -32002);
    until(|| !runs(&home));
    assert_eq!(home.read("effects"), "start\n");
    // It can be opened again.
    editor.load(&home, &id).expect("loaded");
    editor.finish();
}

#[test]
fn several_sessions_work_at_the_same_time() {
    let home = calling(&[write("f")]);
    let mut editor = Editor::start(&home);
    let (one, two) = (editor.new_session(&home), editor.new_session(&home));
    assert_ne!(one, two);
    let first = editor.prompt(&one, "a");
    let asked = editor.asked();
    assert_eq!(asked["params"]["sessionId"], one.as_str());
    let second = editor.prompt(&two, "b");
    let other = editor.asked();
    assert_eq!(other["params"]["sessionId"], two.as_str());
    editor.respond(&other["id"], crate::acp::editor::selected("reject"));
    assert_eq!(editor.stop_reason(&second), "end_turn");
    editor.respond(&asked["id"], crate::acp::editor::selected("allow"));
    assert_eq!(editor.stop_reason(&first), "end_turn");
    assert_eq!(home.read("f"), "written\n");
    editor.finish();
}

/// A new process of a subagent would ask a model.
#[test]
fn a_killed_subagent_is_started_again_by_a_prompt_only() {
    let server = Server::start(|seen: &Seen| {
        let is_child = seen.json.to_string().contains("You are a subagent");
        match (is_child, seen.turn) {
            (false, 0) => Answer::call("task", json!({ "prompt": "look around" })),
            (false, _) => Says::text("So it was.").into(),
            (true, 0) => {
                let (name, arguments) = gated();
                Answer::call(name, arguments)
            }
            (true, _) => Says::text("I looked.").into(),
        }
    });
    let home = Home::with(&server, Protocol::Chat);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.prompt(&id, "run it");
    editor.allow();
    until(|| home.read("effects").contains("start"));
    editor.kill();
    kill_subagent(&home);
    std::fs::write(home.path("gate"), "").unwrap();
    until_command_ended(&home);
    let asked = server.requests().len();
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    take_two_steps(&mut editor, &home, &id);
    assert_eq!(server.requests().len(), asked);
    assert_eq!(editor.say(&id, "/continue"), "end_turn");
    assert!(editor.text("agent_message_chunk").ends_with("So it was."));
    editor.finish();
    assert_eq!(home.read("effects"), "start\nend\n");
}
