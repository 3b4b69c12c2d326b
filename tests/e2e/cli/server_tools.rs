//! Tools of servers as the model of a session gets them: what it is told, how it finds and calls
//! them, and that nothing that a server does changes what was sent.

use std::time::Duration;

use rewake::command::server::Servers;
use serde_json::{Value, json};

use crate::cli::served::until;
use support::{
    Answer, Home, Options, PrefixRow, Protocol, Run, Says, Seen, Server, prompt, run, spoken,
};

const SERVER: &str = spoken::ITSELF;

/// A home with a server `far`, whose tools are those of the file `tools.json`.
struct Far {
    home: Home,
    model: Server,
}

impl Far {
    fn new(protocol: Protocol, tools: &Value, script: fn(&Seen) -> Answer) -> Far {
        let options = Options {
            keep_bodies: true,
            ..Options::default()
        };
        let far = Far {
            home: Home::new(),
            model: Server::start_with(options, script),
        };
        far.lists(tools);
        far.configure(protocol, "");
        far
    }

    fn configure(&self, protocol: Protocol, more: &str) {
        let _ = std::os::unix::fs::symlink(std::env::current_exe().unwrap(), self.program());
        let table = format!(
            "[mcp_servers.far]\ncommand = {}\nargs = {}\nidle_timeout_sec = 2\n{more}\n\
             [mcp_servers.far.env]\n{} = \"old\"\n{} = {}\n",
            json!(self.program()),
            json!(spoken::arguments(SERVER)),
            spoken::ASKED,
            spoken::TOOLS,
            json!(self.home.rewake_home().join("tools.json")),
        );
        self.home.configure(&self.model, protocol, &table);
    }

    /// Adds the server `hang`, which never says what it is.
    fn configure_hang(&self, startup_timeout_sec: u64) {
        let hang = format!(
            "[mcp_servers.hang]\ncommand = {}\nargs = {}\n\
             startup_timeout_sec = {startup_timeout_sec}\n\
             [mcp_servers.hang.env]\n{} = \"silent\"\n",
            json!(self.program()),
            json!(spoken::arguments(SERVER)),
            spoken::ASKED,
        );
        let config = self.home.rewake_home().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}\n{hang}")).unwrap();
    }

    fn program(&self) -> std::path::PathBuf {
        self.home.rewake_home().join("server")
    }

    /// From here on it has these tools.
    fn lists(&self, tools: &Value) {
        std::fs::write(
            self.home.rewake_home().join("tools.json"),
            tools.to_string(),
        )
        .unwrap();
    }

    fn servers(&self) -> Servers {
        let root = self.home.rewake_home().join("servers");
        Servers::new(root, env!("CARGO_BIN_EXE_rewake"), None)
    }

    fn runs(&self, args: &[&str]) -> Run {
        self.home.run(args).expect(0)
    }

    /// The prompts of all requests, as a model reads them.
    fn prompts(&self) -> Vec<String> {
        let bodies = self.bodies();
        bodies.iter().map(prompt).collect()
    }

    fn bodies(&self) -> Vec<Value> {
        let requests = self.model.requests().into_iter();
        let bodies = requests.filter_map(|logged| logged.body);
        bodies
            .map(|body| serde_json::from_slice(&body).unwrap())
            .collect()
    }

    /// Each request has the one before as its beginning.
    #[track_caller]
    fn kept_its_prefix(&self) {
        self.model.assert_no_violations();
        let mut row = PrefixRow::default();
        for body in self.bodies() {
            row.see(&body);
        }
        for asked in &row.asked {
            assert_eq!(asked.same, asked.former, "{:?}", row.asked);
        }
    }
}

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description,
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } } })
}

fn append() -> Value {
    tool("append", "Appends a line to a file")
}

fn done() -> Answer {
    Answer::text("done")
}

fn find(query: &str) -> Answer {
    Answer::call("mcp_find", json!({ "query": query }))
}

fn through_mcp_call(tool: &str, arguments: Value) -> Answer {
    Answer::call("mcp_call", json!({ "tool": tool, "arguments": arguments }))
}

/// The effect goes into the file `effects` of the workspace.
fn appends(text: &str) -> Value {
    json!({ "file": "effects", "text": text })
}

#[test]
fn a_server_that_is_not_known_is_learnt_and_used_in_the_same_session() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => find("append a line"),
        1 => {
            let found = seen.last_result();
            assert!(
                found.contains("mcp__far__append: Appends a line to a file"),
                "{found}"
            );
            assert!(found.contains("\n  arguments: {"), "{found}");
            through_mcp_call("mcp__far__append", appends("one"))
        }
        2 => {
            assert!(
                seen.last_result().contains("done"),
                "{}",
                seen.last_result()
            );
            // By its own name, which is not in the list.
            Answer::call("mcp__far__append", appends("two"))
        }
        _ => done(),
    });
    far.runs(&["-p", "go", "--yolo"]);
    assert_eq!(far.home.read("effects"), "one\ntwo\n");
    far.kept_its_prefix();
    let first = far.prompts().remove(0);
    assert!(first.contains("- far: tools not known yet"));
    assert!(first.contains("\"mcp_find\"") && first.contains("\"mcp_call\""));
    assert!(!first.contains("mcp__far__append"));
}

#[test]
fn the_next_session_has_the_tools_at_once_and_waits_for_no_server() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| {
        match (seen.turn, seen.user.as_str()) {
            (0, "learn") => find("append"),
            (0, "use") => {
                assert!(
                    seen.tools.contains(&"mcp__far__append".to_string()),
                    "{:?}",
                    seen.tools
                );
                Answer::call("mcp__far__append", appends("direct"))
            }
            _ => done(),
        }
    });
    far.runs(&["-p", "learn", "--yolo"]);
    far.runs(&["-p", "use", "--yolo"]);
    assert_eq!(far.home.read("effects"), "direct\n");
    far.model.assert_no_violations();
    assert!(
        far.prompts()[2].contains("- far: 1 tool, \\\"spoken 1\\\""),
        "{}",
        far.prompts()[2]
    );
    // It cannot be started any more, and is listed as it was.
    std::fs::remove_file(far.program()).unwrap();
    far.runs(&["-p", "use", "--yolo"]);
    assert_eq!(far.home.read("effects"), "direct\n");
}

#[test]
fn a_server_that_dies_or_has_another_list_changes_no_byte_of_what_was_sent() {
    let far = Far::new(
        Protocol::Anthropic,
        &json!([
            append(),
            tool("die", "Ends it"),
            tool("ask_back", "Says that the list changed")
        ]),
        |seen| match (seen.turn, seen.user.as_str()) {
            (0, "learn") => find("append"),
            (0, _) => Answer::call("mcp__far__die", json!({})),
            (1, "use") => {
                let home = seen.last_result();
                assert!(home.contains("may or may not have happened"), "{home}");
                // The list is another one from the next start on.
                Answer::call(
                    "bash",
                    json!({ "command": "cp other.json \"$TOOLS_FILE\"", "access": "full" }),
                )
            }
            (2, "use") => through_mcp_call("mcp__far__ask_back", json!({})),
            (3, "use") => through_mcp_call("mcp__far__ask_back", json!({})),
            (4, "use") => find("brand new"),
            (5, "use") => {
                assert!(
                    seen.last_result().contains("mcp__far__brand_new"),
                    "{}",
                    seen.last_result()
                );
                done()
            }
            _ => done(),
        },
    );
    far.runs(&["-p", "learn", "--yolo"]);
    let other = json!([
        append(),
        tool("ask_back", "x"),
        tool("brand_new", "Is brand new")
    ]);
    std::fs::write(far.home.path("other.json"), other.to_string()).unwrap();
    let mut command = far.home.rewake(["-p", "use", "--yolo"]);
    command.env("TOOLS_FILE", far.home.rewake_home().join("tools.json"));
    run(command, Duration::from_secs(180)).expect(0);
    far.model.assert_no_violations();
    let mut row = PrefixRow::default();
    let bodies = far.bodies();
    for body in &bodies[2..] {
        row.see(body);
    }
    assert_eq!(row.asked.len(), 6);
    for asked in &row.asked {
        assert_eq!(asked.same, asked.former, "{:?}", row.asked);
    }
    // What follows has the new list.
    let tools = |prompt: &str| prompt.contains("\"mcp__far__brand_new\"");
    assert!(far.prompts()[2..].iter().all(|prompt| !tools(prompt)));
    far.runs(&["-p", "learn", "--yolo"]);
    assert!(tools(&far.prompts()[8]));
}

/// The server says that its list changed while nothing is asked of it. Turn by turn the model does
/// this until the new tool is there.
fn until_it_is_there(seen: &Seen, again: Answer) -> Answer {
    let last = seen.last_result();
    match seen.turn {
        0 => find("append"),
        1 => {
            let tools = json!([append(), tool("brand_new", "Is brand new")]);
            through_mcp_call("mcp__far__change_later", json!({ "tools": tools }))
        }
        _ if last.contains("mcp__far__brand_new: Is brand new") || last.starts_with("done") => {
            Answer::text("it is there")
        }
        200.. => Answer::text("it never came"),
        _ if last.contains("waited") => again,
        turn => {
            let command = format!("sleep 0.1; echo waited {turn}");
            Answer::call("bash", json!({ "command": command }))
        }
    }
}

fn comes(script: fn(&Seen) -> Answer) {
    let tools = json!([append(), tool("change_later", "Changes the list")]);
    let far = Far::new(Protocol::Chat, &tools, script);
    let run = far.runs(&["-p", "go", "--yolo"]);
    assert!(run.stdout.contains("it is there"), "{}", run.stdout);
    far.kept_its_prefix();
}

#[test]
fn a_tool_that_came_later_is_found() {
    comes(|seen| until_it_is_there(seen, find(&format!("brand new {}", seen.turn))));
}

#[test]
fn a_tool_that_came_later_is_called_by_its_name() {
    comes(|seen| {
        let arguments = json!({ "text": seen.turn.to_string() });
        until_it_is_there(seen, through_mcp_call("mcp__far__brand_new", arguments))
    });
}

/// It says without end that its list changed.
#[test]
fn a_server_that_floods_is_searched_and_called_and_ends_with_the_session() {
    let tools = json!([append(), tool("flood", "Floods"), tool("pid", "Its id")]);
    let far = Far::new(Protocol::Chat, &tools, |seen| match seen.turn {
        0 => find("append"),
        1 => through_mcp_call("mcp__far__flood", json!({})),
        2..40 if seen.turn % 2 == 0 => find(&format!("append {}", seen.turn)),
        2..40 => {
            let found = seen.last_result();
            assert!(found.contains("mcp__far__append"), "{found}");
            through_mcp_call("mcp__far__append", appends(&seen.turn.to_string()))
        }
        _ => done(),
    });
    far.runs(&["-p", "go", "--yolo"]);
    far.kept_its_prefix();
    assert_eq!(far.home.read("effects").lines().count(), 19);
    let servers = far.home.rewake_home().join("servers");
    let mut journals = std::fs::read_dir(&servers).unwrap();
    assert!(journals.all(|run| {
        let files = std::fs::read_dir(run.unwrap().path()).into_iter().flatten();
        let bytes: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        bytes < 100 * 1024 * 1024
    }));
}

/// It starts slower than a search waits for it.
#[test]
fn the_first_call_of_a_server_waits_for_its_tools() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => through_mcp_call("mcp__far__append", appends("one")),
        1 => Answer::call("mcp__far__append", appends("two")),
        _ => done(),
    });
    let config = far.home.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let program = json!(far.program()).to_string();
    let slowly = json!("sleep 3; exec \"$0\" \"$@\"");
    let text = text
        .replace(&format!("command = {program}"), "command = \"sh\"")
        .replace(
            "args = [",
            &format!("args = [\"-c\", {slowly}, {program}, "),
        );
    std::fs::write(&config, text).unwrap();
    far.runs(&["-p", "go", "--yolo"]);
    assert_eq!(far.home.read("effects"), "one\ntwo\n");
    far.kept_its_prefix();
}

#[test]
fn a_first_call_waits_no_longer_than_the_start_of_its_server_may_take() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => through_mcp_call("mcp__hang__do", json!({})),
        1 | 2 => {
            let refused = seen.last_result();
            let why = "did not answer initialize within 1 s";
            assert!(refused.contains(why), "{refused}");
            through_mcp_call("mcp__hang__do", json!({ "n": seen.turn }))
        }
        _ => done(),
    });
    far.configure_hang(1);
    far.runs(&["-p", "go", "--yolo"]);
}

/// The server `hang` never says what it is.
#[test]
fn a_server_that_hangs_at_its_start_does_not_keep_a_search_for_others_waiting() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => find("append a line"),
        1 => {
            let found = seen.last_result();
            assert!(
                found.contains("mcp__far__append: Appends a line to a file"),
                "{found}"
            );
            assert!(
                found.contains("server hang: it is still starting; search again later"),
                "{found}"
            );
            done()
        }
        _ => done(),
    });
    far.configure_hang(3600);
    far.runs(&["-p", "go", "--yolo"]);
    far.kept_its_prefix();
    // Its start is not over, and it ends with the session all the same.
    let servers = far.servers();
    until(|| servers.list().iter().all(|info| !info.is_kept));
}

/// A summary takes the place of messages alone. What stands before them is rendered again only where
/// the context begins again from a note.
#[test]
fn a_compaction_changes_no_byte_before_the_messages() {
    let far = Far::new(Protocol::Anthropic, &json!([append()]), |seen| {
        match seen.turn {
            0 if seen.model == "test-model" => find("append"),
            _ => Answer::text("so it was. ".repeat(20)),
        }
    });
    far.runs(&["-p", "one", "--yolo"]);
    far.runs(&["-p", "-c", "two", "--yolo"]);
    let store = rewake::store::Store::open(&far.home.rewake_home()).unwrap();
    let session = store.history().newest(None).unwrap().expect("a session").id;
    drop(store);
    far.runs(&["compact", &session]);
    far.runs(&["-p", "-c", "three", "--yolo"]);
    let bodies = far.bodies();
    let of_session: Vec<&Value> = bodies
        .iter()
        .filter(|b| b["model"] == "test-model")
        .collect();
    let tools = |body: &Value| body["tools"].to_string();
    let (first, last) = (of_session[0], of_session[of_session.len() - 1]);
    assert!(
        last["messages"].to_string().contains("summar"),
        "it was summarised"
    );
    assert!(tools(first).contains("mcp_find") && tools(first) == tools(last));
    assert_eq!(first["system"][0]["text"], last["system"][0]["text"]);
}

#[test]
fn without_servers_the_request_is_the_same_byte_for_byte() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |_| done());
    far.home.configure(&far.model, Protocol::Chat, "");
    far.runs(&["-p", "go"]);
    far.configure(Protocol::Chat, "enabled = false");
    far.runs(&["-p", "go"]);
    let prompts = far.prompts();
    let without_last = |text: &str| text.split("<last-session").next().unwrap().len();
    assert!(!prompts[0].contains("mcp"));
    let same = prompts[0]
        .bytes()
        .zip(prompts[1].bytes())
        .take_while(|(a, b)| a == b)
        .count();
    assert!(same + 200 >= without_last(&prompts[0]), "{same}");
    assert!(!prompts[1].contains("mcp"));
}

#[test]
fn tools_that_are_switched_off_are_not_told_and_not_called() {
    let far = Far::new(
        Protocol::Chat,
        &json!([append(), tool("delete", "Deletes a line of a file")]),
        |seen| match seen.turn {
            0 => find("line of a file"),
            1 => {
                let found = seen.last_result();
                assert!(
                    found.contains("mcp__far__append") && !found.contains("delete"),
                    "{found}"
                );
                through_mcp_call("mcp__far__delete", json!({}))
            }
            2 => {
                let refused = seen.last_result();
                assert!(refused.contains("switched off in the config"), "{refused}");
                through_mcp_call("mcp__far__apend", json!({}))
            }
            3 => {
                let refused = seen.last_result();
                assert!(
                    refused.contains("near to it: mcp__far__append"),
                    "{refused}"
                );
                done()
            }
            _ => done(),
        },
    );
    far.configure(Protocol::Chat, "disabled_tools = [\"delete\"]");
    // Nobody is there to be asked, and nobody would be.
    let run = far.runs(&["-p", "go"]);
    far.model.assert_no_violations();
    assert!(!run.stderr.contains("denied"), "{}", run.stderr);
}

#[test]
fn tool_search_reports_a_server_that_cannot_be_reached() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => find("append"),
        1 => {
            let found = seen.last_result();
            assert!(
                found.contains("server far: ") && found.contains("no licence found"),
                "{found}"
            );
            done()
        }
        _ => done(),
    });
    let config = far.home.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let exits = format!("{} = \"exits\"", spoken::ASKED);
    let text = text.replace(&format!("{} = \"old\"", spoken::ASKED), &exits);
    std::fs::write(&config, text).unwrap();
    far.runs(&["-p", "go"]);
    far.model.assert_no_violations();
}

/// Schemas as servers have them, and that one provider or another refuses.
fn nasty() -> Value {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "required": ["text", "any"],
        "properties": {
            "text": { "type": ["string", "null"], "format": "uri", "minLength": 1 },
            "any": { "type": "object", "description": "anything" },
            "list": { "type": "array", "items": { "type": "object", "additionalProperties": true } },
            "a b": { "type": "string" },
            "tuple": { "type": "array", "items": [{ "type": "string" }] },
            "either": { "oneOf": [{ "$ref": "#/$defs/x" }, { "const": 3 }] },
        },
        "$defs": { "x": { "type": "object", "properties": { "self": { "$ref": "#/$defs/x" } } } },
        "anyOf": [{ "required": ["text"] }], "not": { "required": ["z"] },
    });
    json!([
        { "name": "nasty", "description": "Is nasty", "inputSchema": schema },
        { "name": "bare", "inputSchema": { "type": "object" } },
        { "name": "a.b/c d", "inputSchema": { "type": "object" } },
    ])
}

fn a_schema_arrives_as_one_that_is_valid(protocol: Protocol) {
    let far = Far::new(protocol, &nasty(), |seen| {
        match (seen.turn, seen.user.as_str()) {
            (0, "learn") => find("nasty"),
            (0, _) => Answer::from(
                Says::call("mcp__far__nasty", json!({ "text": "x" }))
                    .and_call("mcp__far__bare", json!({})),
            ),
            _ => done(),
        }
    });
    far.runs(&["-p", "learn", "--yolo"]);
    far.runs(&["-p", "use", "--yolo"]);
    far.model.assert_no_violations();
    let prompt = &far.prompts()[2];
    for name in [
        "\"mcp__far__nasty\"",
        "\"mcp__far__bare\"",
        "\"mcp__far__a_b_c_d_",
    ] {
        assert!(prompt.contains(name), "{name}");
    }
    far.kept_its_prefix_from(2);
}

impl Far {
    #[track_caller]
    fn kept_its_prefix_from(&self, first: usize) {
        let mut row = PrefixRow::default();
        for body in &self.bodies()[first..] {
            row.see(body);
        }
        for asked in &row.asked {
            assert_eq!(asked.same, asked.former, "{:?}", row.asked);
        }
    }
}

#[test]
fn a_schema_arrives_as_one_that_is_valid_over_anthropic() {
    a_schema_arrives_as_one_that_is_valid(Protocol::Anthropic);
}

#[test]
fn a_schema_arrives_as_one_that_is_valid_over_chat() {
    a_schema_arrives_as_one_that_is_valid(Protocol::Chat);
}

#[test]
fn a_schema_arrives_as_one_that_is_valid_over_responses() {
    a_schema_arrives_as_one_that_is_valid(Protocol::Responses);
}

#[test]
fn a_schema_arrives_as_one_that_is_valid_over_gemini() {
    a_schema_arrives_as_one_that_is_valid(Protocol::Gemini);
}

/// In words for a person: the server, the tool, and what it was given.
#[test]
fn a_call_is_shown_by_server_and_tool() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => find("append"),
        1 => through_mcp_call("mcp__far__append", appends("one")),
        _ => done(),
    });
    let run = far.runs(&["-p", "go", "--yolo"]);
    assert!(run.stderr.contains("  far · append done"), "{}", run.stderr);
    let store = rewake::store::Store::open(&far.home.rewake_home()).unwrap();
    let session = store.history().newest(None).unwrap().expect("a session").id;
    drop(store);
    let shown = far.runs(&["show", &session]).stdout;
    assert!(
        shown.contains("[far · append {\"file\":\"effects\",\"text\":\"one\"}]"),
        "{shown}"
    );
    let exported = far.runs(&["export", &session]).stdout;
    assert!(exported.contains("- calls `far · append {"), "{exported}");
    assert!(
        exported.contains("\n```json\n{\n  \"file\": \"effects\","),
        "{exported}"
    );
}

/// What `rewake mcp tools` learns, the next session has.
#[test]
fn a_server_that_was_tried_is_known_to_the_next_session() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |_| done());
    far.runs(&["mcp", "tools", "far"]);
    far.runs(&["-p", "go"]);
    let first = far.prompts().remove(0);
    assert!(first.contains("\"mcp__far__append\"") && !first.contains("not known yet"));
}

/// A repository's servers that nobody trusted are in no prompt and in no search.
#[test]
fn a_server_that_is_not_trusted_is_not_told() {
    let far = Far::new(Protocol::Chat, &json!([append()]), |seen| match seen.turn {
        0 => find("evil"),
        1 => {
            assert!(
                !seen.last_result().contains("evil"),
                "{}",
                seen.last_result()
            );
            done()
        }
        _ => done(),
    });
    let evil = json!({ "mcpServers": { "evil": { "command": "touch", "args": ["started"] } } });
    std::fs::write(far.home.path(".mcp.json"), evil.to_string()).unwrap();
    far.runs(&["-p", "go"]);
    assert!(!far.prompts()[0].contains("evil"));
    assert!(!far.home.path("started").exists());
}
