//! `rewake acp` as an editor meets it: the real binary with a scripted model, killed, flooded and
//! given nonsense. Every line that it prints is checked against the schema of the protocol.

mod bad_input;
mod editor;
mod ends;
mod forms;
mod loads;
mod prompts;
mod schema;
mod settings;

use crate::support::{Home, spoken};
use editor::Editor;
use rewake::command::{RunState, Runs};
use rewake::headless::entry_line;
use rewake::store::Store;
use serde_json::{Value, json};

const SCRIPTED: &str =
    "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n";

/// The server of the tests about forms: see [`spoken`].
const SERVER: &str = "acp::as_a_server";

#[test]
fn as_a_server() {
    spoken::serve_if_asked();
}

/// An answer of the scripted model: words, and calls.
fn step(text: &str, calls: &[(&str, Value)]) -> String {
    let call = |(name, arguments): &(&str, Value)| {
        let arguments = json!(arguments.to_string());
        format!("{{ name = {}, arguments = {arguments} }}", json!(name))
    };
    let calls: Vec<String> = calls.iter().map(call).collect();
    format!(
        "[[step]]\ntext = {}\ncalls = [{}]\n",
        json!(text),
        calls.join(", ")
    )
}

/// A home whose model plays these answers.
fn scripted(steps: &[String]) -> Home {
    let home = Home::new();
    play(&home, steps);
    home.write_config(SCRIPTED);
    home
}

fn play(home: &Home, steps: &[String]) {
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
}

fn write(path: &str) -> (&'static str, Value) {
    ("write", json!({ "path": path, "content": "written\n" }))
}

/// A command that records each of its starts, waits for the file `gate`, and says that it ended.
fn gated() -> (&'static str, Value) {
    let line = "echo start >> effects; until [ -e gate ]; do sleep 0.02; done; \
                echo the-result; echo end >> effects";
    ("bash", json!({ "command": line, "access": "workspace" }))
}

/// A model that writes the file `f`, which asks, and then says that it is done.
fn writes() -> Home {
    scripted(&[step("I write it.", &[write("f")]), step("done", &[])])
}

/// A session in which the gated command runs, allowed by the editor.
fn running(home: &Home) -> (Editor, String) {
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
fn until(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + editor::LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The entries of a session of one kind.
fn entries(home: &Home, id: &str, kind: &str) -> Vec<Value> {
    let store = Store::open(&home.rewake_home()).unwrap();
    let (_, records) = store.load(id).unwrap();
    let entries = records.iter().map(entry_line);
    let kind = format!("entry.{kind}");
    entries
        .filter(|entry| entry["type"] == kind.as_str())
        .collect()
}

/// Whether a command runs under its keeper.
fn runs(home: &Home) -> bool {
    let runs = Runs::new(
        home.rewake_home().join("runs"),
        env!("CARGO_BIN_EXE_rewake"),
    );
    let list = runs.list();
    list.iter()
        .any(|run| matches!(run.state, RunState::Running { .. }))
}
