//! An editor that speaks with `rewake acp`, and sessions that it has.

pub mod editor;
pub mod schema;

pub use editor::Editor;
use serde_json::{Value, json};

use super::{scripted, step, until};
use crate::Home;

pub fn write(path: &str) -> (&'static str, Value) {
    super::write(path, "written\n")
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
