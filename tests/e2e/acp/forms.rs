//! Questions of servers (MCP): as forms in the editor if it has them, and elsewhere if not. The
//! server is the test binary itself, and the editor names it.

use serde_json::{Value, json};

use crate::acp::editor::Editor;
use crate::acp::{SERVER, entries, scripted, step};
use crate::scenes::calling;
use support::{Home, spoken};

/// Two tools of a server are called, each twice, and none is allowed.
#[test]
fn all_tools_of_a_server_are_allowed_in_a_session() {
    let (home, server) = asking();
    let tools = json!(["append", "echo"].map(|name| {
        json!({ "name": name, "description": "Does it", "inputSchema": { "type": "object" } })
    }));
    std::fs::write(home.rewake_home().join("tools.json"), tools.to_string()).unwrap();
    let call = |tool: &str| {
        (
            "mcp_call",
            json!({ "tool": tool, "arguments": { "text": "one" } }),
        )
    };
    let script = [
        step("", &[("mcp_find", json!({ "query": "" }))]),
        step("", &[call("mcp__far__echo")]),
        step("", &[call("mcp__far__append")]),
        step("done", &[]),
    ];
    crate::acp::play(&home, &script);
    home.write_config(crate::acp::SCRIPTED);
    let mut editor = Editor::with(&home, &[], json!({}));
    let id = open(&mut editor, &home, &server);
    let prompt = editor.prompt(&id, "call both");
    let asked = editor.choose("always_server");
    let options = asked["params"]["options"].as_array().unwrap();
    let names: Vec<_> = options.iter().map(|option| &option["name"]).collect();
    assert_eq!(names[2], "Allow all tools of this server in this session");
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    let questions = editor.seen.iter();
    let questions = questions.filter(|line| line["method"] == "session/request_permission");
    assert_eq!(questions.count(), 1);
    editor.finish();
}

fn asking() -> (Home, Value) {
    let call = json!({ "tool": "mcp__far__asks_old",
        "arguments": { "file": "effects", "text": "one" } });
    let find = ("mcp_find", json!({ "query": "" }));
    let home = scripted(&[
        step("", &[find]),
        step("", &[("mcp_call", call)]),
        step("done", &[]),
    ]);
    let config = format!(
        "{}\n[permissions]\nallow = [\"mcp__far\"]\n",
        crate::acp::SCRIPTED
    );
    home.write_config(&config);
    let tools = json!([{ "name": "asks_old", "description": "Asks",
        "inputSchema": { "type": "object" } }]);
    let file = home.rewake_home().join("tools.json");
    std::fs::write(&file, tools.to_string()).unwrap();
    let env = json!([{ "name": spoken::ASKED, "value": "old" },
        { "name": spoken::TOOLS, "value": file }]);
    let server = json!({ "name": "far", "command": std::env::current_exe().unwrap(),
        "args": spoken::arguments(SERVER), "env": env });
    (home, server)
}

fn open(editor: &mut Editor, home: &Home, server: &Value) -> String {
    let params = json!({ "cwd": home.workspace(), "mcpServers": [server] });
    let opened = editor.call("session/new", params).expect("a session");
    opened["sessionId"].as_str().unwrap().to_string()
}

#[test]
fn the_editor_shows_the_form_of_a_server() {
    let (home, server) = asking();
    let forms = json!({ "elicitation": { "form": {} } });
    let mut editor = Editor::with(&home, &[], forms);
    let id = open(&mut editor, &home, &server);
    let prompt = editor.prompt(&id, "ask me");
    let asked = editor.wait(|line| line["method"] == "elicitation/create");
    let schema = &asked["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["name"]["type"], "string");
    assert!(
        asked["params"]["message"]
            .as_str()
            .unwrap()
            .contains("who are you?")
    );
    // An answer that does not fit is asked again.
    let wrong = json!({ "action": "accept", "content": { "age": 7 } });
    editor.respond(&asked["id"], wrong);
    let again = editor.wait(|line| line["method"] == "elicitation/create");
    let right = json!({ "action": "accept", "content": { "name": "ada" } });
    editor.respond(&again["id"], right);
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
    let answered = entries(&home, &id, "answered");
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0]["origin"], "acp");
    let finished = entries(&home, &id, "finished");
    assert!(finished[1].to_string().contains("ada"), "{finished:?}");
}

#[test]
fn a_form_is_declined() {
    let (home, server) = asking();
    let forms = json!({ "elicitation": { "form": {} } });
    let mut editor = Editor::with(&home, &[], forms);
    let id = open(&mut editor, &home, &server);
    let prompt = editor.prompt(&id, "ask me");
    let asked = editor.wait(|line| line["method"] == "elicitation/create");
    editor.respond(&asked["id"], json!({ "action": "decline" }));
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
    assert_eq!(entries(&home, &id, "answered").len(), 1);
}

#[test]
fn a_form_is_answered_elsewhere() {
    for capabilities in [json!({}), json!({ "elicitation": { "form": {} } })] {
        let (home, server) = asking();
        let is_shown = capabilities != json!({});
        let mut editor = Editor::with(&home, &[], capabilities);
        let id = open(&mut editor, &home, &server);
        let prompt = editor.prompt(&id, "ask me");
        let asked = match is_shown {
            true => Some(editor.wait(|line| line["method"] == "elicitation/create")),
            false => None,
        };
        crate::acp::until(|| {
            home.run(["approvals"])
                .expect(0)
                .stdout
                .contains("who are you?")
        });
        home.run(["answer", &id, "--value", "name=ada"]).expect(0);
        if let Some(asked) = asked {
            let withdrawn = editor.wait(|line| line["method"] == "$/cancel_request");
            assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        }
        assert_eq!(editor.stop_reason(&prompt), "end_turn");
        editor.finish();
    }
}

/// Values of the client's servers are in no file.
#[test]
fn secrets_of_servers_stay_in_memory() {
    let (home, mut server) = asking();
    let secret = json!({ "name": "TOKEN", "value": "sesame-open-1234" });
    server["env"].as_array_mut().unwrap().push(secret);
    let mut editor = Editor::start(&home);
    let id = open(&mut editor, &home, &server);
    let prompt = editor.prompt(&id, "ask me");
    crate::acp::until(|| {
        home.run(["approvals"])
            .expect(0)
            .stdout
            .contains("who are you?")
    });
    let found = std::process::Command::new("grep")
        .args(["-rl", "sesame-open-1234"])
        .arg(home.rewake_home())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    home.run(["answer", &id, "--decline"]).expect(0);
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
}

/// The model asks by the same form, from a session whose editor has forms.
#[test]
fn the_editor_shows_the_question_of_the_model() {
    let question = json!({"questions": [{"question": "Which database?", "header": "Database",
        "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]}]});
    let home = calling(&[("ask_user", question)]);
    let forms = json!({ "elicitation": { "form": {} } });
    let mut editor = Editor::with(&home, &[], forms);
    let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let opened = editor.call("session/new", params).expect("a session");
    let id = opened["sessionId"].as_str().unwrap().to_string();
    let prompt = editor.prompt(&id, "choose");
    let asked = editor.wait(|line| line["method"] == "elicitation/create");
    let shown = asked["params"].to_string();
    assert!(shown.contains("Which database?") && shown.contains("PostgreSQL"));
    let answer = json!({ "action": "accept", "content": { "q1": "SQLite" } });
    editor.respond(&asked["id"], answer);
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
    assert_eq!(entries(&home, &id, "answered").len(), 1);
    let finished = entries(&home, &id, "finished");
    assert!(finished[0].to_string().contains("Database: SQLite"));
}

/// An editor may send its form without a value. Nobody answered then.
#[test]
fn a_form_of_the_model_that_comes_back_empty_is_declined() {
    let question = json!({"questions": [{"question": "Which database?", "header": "Database",
        "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]}]});
    let home = calling(&[("ask_user", question)]);
    let forms = json!({ "elicitation": { "form": {} } });
    let mut editor = Editor::with(&home, &[], forms);
    let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let opened = editor.call("session/new", params).expect("a session");
    let id = opened["sessionId"].as_str().unwrap().to_string();
    let prompt = editor.prompt(&id, "choose");
    let asked = editor.wait(|line| line["method"] == "elicitation/create");
    editor.respond(&asked["id"], json!({ "action": "accept", "content": {} }));
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
    let answered = entries(&home, &id, "answered");
    assert_eq!(answered.len(), 1);
    assert!(answered[0].to_string().contains("decline"), "{answered:?}");
}
