//! Editors that die, and editors that do not read: the agent leaves, and nothing is lost.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::acp::editor::Editor;
use crate::acp::{entries, gated, running, scripted, step, until, write, writes};

/// The promise is one second. The limit of the test leaves room for a busy machine.
const SOON: Duration = Duration::from_secs(5);

fn leaves_soon(editor: &mut Editor) {
    let since = Instant::now();
    editor.ended();
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

#[test]
fn a_command_continues_when_the_editor_is_gone() {
    let home = scripted(&[step("", &[gated()]), step("I saw it.", &[])]);
    let (mut editor, id) = running(&home);
    editor.hang_up();
    leaves_soon(&mut editor);
    std::fs::write(home.path("gate"), "").unwrap();
    until(|| home.read("effects").contains("end"));
    home.run(["-p", "-r", &id]).expect(0);
    assert_eq!(home.read("effects"), "start\nend\n");
    let finished = entries(&home, &id, "finished");
    assert!(finished[0].to_string().contains("the-result"));
}

#[test]
fn signals_end_the_agent_in_order() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = scripted(&[step("", &[gated()]), step("I saw it.", &[])]);
        let (mut editor, id) = running(&home);
        let pid = Pid::from_child(&editor.child);
        kill_process(pid, signal).unwrap();
        let since = Instant::now();
        assert_eq!(editor.ended().code(), Some(code));
        assert!(since.elapsed() < SOON);
        let saved = entries(&home, &id, "saved");
        assert!(
            saved.iter().any(|saved| saved["reason"] == "signal"),
            "{saved:?}"
        );
        std::fs::write(home.path("gate"), "").unwrap();
        until(|| home.read("effects").contains("end"));
    }
}

#[test]
fn a_question_waits_for_another_process_when_the_editor_is_gone() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.prompt(&id, "write it");
    editor.asked();
    editor.hang_up();
    leaves_soon(&mut editor);
    assert!(
        home.run(["approvals"])
            .expect(0)
            .stdout
            .contains("it changes `f`")
    );
    home.run(["allow", &id]).expect(0);
    home.run(["-p", "-r", &id]).expect(0);
    assert_eq!(home.read("f"), "written\n");
}

/// Stdin is closed before `initialize`, after it, in a new session, after a prompt, and while a
/// session is loaded.
#[test]
fn stdin_may_be_closed_in_any_state() {
    let home = writes();
    let mut editor = Editor::silent(&home, &[]);
    editor.hang_up();
    leaves_soon(&mut editor);
    let mut editor = Editor::silent(&home, &[]);
    editor.write(b"{\"jsonrpc\":");
    editor.hang_up();
    leaves_soon(&mut editor);
    let mut editor = Editor::start(&home);
    editor.hang_up();
    leaves_soon(&mut editor);
    let mut editor = Editor::start(&home);
    let open = json!({ "cwd": home.workspace(), "mcpServers": [] });
    editor.request("session/new", open);
    editor.hang_up();
    leaves_soon(&mut editor);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.prompt(&id, "write it");
    editor.hang_up();
    leaves_soon(&mut editor);
    let mut editor = Editor::start(&home);
    let load = json!({ "sessionId": id, "cwd": home.workspace(), "mcpServers": [] });
    editor.request("session/load", load.clone());
    editor.hang_up();
    leaves_soon(&mut editor);
    // Nothing is locked, and the prompt is there.
    let mut editor = Editor::start(&home);
    editor.call("session/load", load).expect("loaded");
    editor.finish();
}

/// The engine does not wait for an editor that does not read.
#[test]
fn work_continues_while_the_editor_does_not_read() {
    let words = "many words ".repeat(60_000);
    let home = scripted(&[
        step(&words, &[write("f")]),
        step(&words, &[write("g")]),
        step("done", &[]),
    ]);
    let config = format!(
        "permission_mode = \"acceptEdits\"\n{}",
        crate::acp::SCRIPTED
    );
    home.write_config(&config);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    editor.reads(false);
    let prompt = editor.prompt(&id, "write");
    until(|| home.path("g").exists());
    editor.reads(true);
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    let text = editor.text("agent_message_chunk");
    assert_eq!(text, format!("{words}{words}done"));
    editor.finish();
}

/// An editor that never reads is disconnected; its command continues, and the session is free.
#[test]
fn an_editor_that_never_reads_is_disconnected() {
    let home = scripted(&[step("", &[gated()]), step("I saw it.", &[])]);
    let (mut editor, id) = running(&home);
    editor.reads(false);
    // Each answer repeats the id of its request.
    let request = json!({ "jsonrpc": "2.0", "id": "x".repeat(1000), "method": "nothing" });
    let request = request.to_string();
    let mut stdin = editor.take_stdin();
    let mut sent = 0;
    while sent < 120_000 && writeln!(stdin, "{request}").is_ok() {
        sent += 1;
    }
    assert!(
        (30_000..120_000).contains(&sent),
        "{sent} requests were read"
    );
    let status = editor.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    std::fs::write(home.path("gate"), "").unwrap();
    until(|| home.read("effects").contains("end"));
    home.run(["-p", "-r", &id]).expect(0);
    assert_eq!(home.read("effects"), "start\nend\n");
}
