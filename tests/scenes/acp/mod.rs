//! An editor that speaks with `rewake acp`, and sessions that it has.

pub mod editor;
pub mod schema;

pub use editor::Editor;
use rewake::command::{RunState, Runs};
use rewake::headless::entry_line;
use rewake::store::Store;
use serde_json::{Value, json};

use super::{scripted, step};
use crate::support::Home;

pub fn write(path: &str) -> (&'static str, Value) {
    ("write", json!({ "path": path, "content": "written\n" }))
}

/// A command that records each of its starts, waits for the file `gate`, and says that it ended.
pub fn gated() -> (&'static str, Value) {
    let line = "echo start >> effects; until [ -e gate ]; do sleep 0.02; done; \
                echo the-result; echo end >> effects";
    ("bash", json!({ "command": line, "access": "workspace" }))
}

/// A model that writes the file `f`, which asks, and then says that it is done.
pub fn writes() -> Home {
    scripted(&[step("I write it.", &[write("f")]), step("done", &[])])
}

/// A session in which the gated command runs, allowed by the editor.
pub fn running(home: &Home) -> (Editor, String) {
    let mut editor = Editor::start(home);
    let id = editor.new_session(home);
    editor.prompt(&id, "run it");
    editor.allow();
    editor.update("tool_call_update", |update| {
        update["status"] == "in_progress"
    });
    until(|| home.read("effects").contains("start"));
    (editor, id)
}

/// Waits for something that no line announces.
#[track_caller]
pub fn until(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + editor::LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The entries of a session of one kind.
pub fn entries(home: &Home, id: &str, kind: &str) -> Vec<Value> {
    let store = Store::open(&home.rewake_home()).unwrap();
    let (_, records) = store.load(id).unwrap();
    let entries = records.iter().map(entry_line);
    let kind = format!("entry.{kind}");
    entries
        .filter(|entry| entry["type"] == kind.as_str())
        .collect()
}

/// Whether a command runs under its keeper.
pub fn runs(home: &Home) -> bool {
    let runs = Runs::new(
        home.rewake_home().join("runs"),
        env!("CARGO_BIN_EXE_rewake"),
    );
    let list = runs.list();
    list.iter()
        .any(|run| matches!(run.state, RunState::Running { .. }))
}

/// Waits until the keeper of the session's command has recorded its end.
pub fn until_command_ended(home: &crate::support::Home) {
    until(|| home.read("effects").contains("end"));
    until(|| !runs(home));
}
