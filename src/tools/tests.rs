//! Tests of the list of tools: each tool is complete, and the core gets correct descriptions of its
//! calls.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::tool::Entry;
use super::*;
use crate::core::permission::{MEMORY, MEMORY_TOOLS, PathUse, Permission, is_offered};
use crate::core::tool::Class;

/// Returns arguments that have every property of the schema.
fn example(schema: &Value) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    match schema["type"].as_str().unwrap() {
        "string" => json!("x"),
        "integer" => json!(1),
        "boolean" => json!(true),
        "array" => json!([example(&schema["items"])]),
        "object" => {
            // The arguments of a server's tool have no properties here.
            let none = serde_json::Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            properties
                .iter()
                .map(|(k, v)| (k.clone(), example(v)))
                .collect()
        }
        other => panic!("{other}"),
    }
}

pub(super) fn arguments(tool: &Entry) -> Value {
    let mut example = example(&tool.spec().schema);
    if let Some(tool) = example.get_mut("tool") {
        *tool = json!("mcp__far__poke");
    }
    if let Some(url) = example.get_mut("url") {
        *url = json!("https://a.test/");
    }
    example
}

/// Returns the tools whose properties all belong to one action. Another test is for `memory`.
fn with_one_action() -> impl Iterator<Item = &'static Entry> {
    TOOLS.iter().filter(|tool| tool.name != MEMORY)
}

fn described(name: &str, arguments: Value) -> Described {
    describe(name, &arguments.to_string()).unwrap()
}

fn without_arguments(described: Described) -> Described {
    Described {
        arguments: Arc::default(),
        ..described
    }
}

/// Returns the names of a folder's files without their ending.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let names = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(ending).map(str::to_string)
    });
    names.collect()
}

#[test]
fn every_tool_has_its_file_and_its_text_and_every_text_its_tool() {
    let listed: BTreeSet<String> = TOOLS.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(listed.len(), TOOLS.len(), "two tools have one name");
    assert_eq!(names("assets/tools", ".md"), listed);
    let files = names("src/tools", ".rs");
    assert_eq!(files.intersection(&listed).count(), listed.len());
    for tool in &TOOLS {
        let path = format!("assets/tools/{}.md", tool.name);
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(tool.spec().description, text.trim_end(), "{}", tool.name);
        assert!(!text.trim().is_empty(), "{} has no text", tool.name);
    }
}

#[test]
fn every_call_of_a_tool_is_described_shown_and_can_be_run_as_described() {
    for tool in &TOOLS {
        let id = CallId { reply: 0, index: 0 };
        let call = call(id, tool.name, &arguments(tool).to_string());
        let described = call.described.as_ref().unwrap();
        assert!(!described.subject.is_empty(), "{}", tool.name);
        let work = work(&call).map(|work| work.class());
        assert_eq!(work, Ok(described.class), "{}", tool.name);
        assert!((tool.shown)(&arguments(tool)).is_ok(), "{}", tool.name);
    }
}

#[test]
fn every_property_of_a_schema_is_understood_and_none_is_missing() {
    for tool in with_one_action() {
        let understood = (tool.understood)(&arguments(tool));
        assert_eq!(understood, Ok(arguments(tool)), "{}", tool.name);
    }
}

#[test]
fn only_what_is_required_is_required() {
    for tool in with_one_action() {
        let whole = arguments(tool);
        for name in whole.as_object().unwrap().keys() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(name);
            let schema = tool.spec().schema;
            let is_required = schema["required"]
                .as_array()
                .unwrap()
                .contains(&json!(name));
            let described = (tool.describe)(without);
            assert_eq!(described.is_err(), is_required, "{} {name}", tool.name);
        }
    }
}

#[test]
fn arguments_are_read_as_models_write_them() {
    let read = |arguments: &str| describe("read", arguments).map(without_arguments);
    for arguments in [
        r#"{"path":"a"}"#,
        r#"{"path":"a","offset":"3","limit":2.0}"#,
        r#"{"path":"a","offset":null,"x":1}"#,
    ] {
        assert_eq!(read(arguments), read(r#"{"path":"a"}"#));
        assert!(read(arguments).is_ok());
    }
    let error = |name: &str, arguments: &str| describe(name, arguments).unwrap_err();
    assert_eq!(
        error("read", r#"{"path":"a","offset":-1}"#),
        "the arguments of read: `offset` must be a whole number, 0 or more"
    );
    assert!(error("read", r#"{"path":"a""#).starts_with("the arguments of read are not JSON: "));
    assert_eq!(
        error("read", "[]"),
        "the arguments of read are not a JSON object"
    );
    assert_eq!(
        error("read", " "),
        "the arguments of read: `path` is missing"
    );
    assert_eq!(error("launch", "{}"), "there is no tool named \"launch\"");
    assert_eq!(
        error("edit", r#"{"path":"a","edits":[]}"#),
        "the arguments of edit: `edits` is empty"
    );
    assert_eq!(
        error("read", r#"{"pth":"a"}"#),
        "the arguments of read: `path` is missing\nhint: there is no `pth`; the arguments are `limit`, `offset`, `path`"
    );
    let skill = r#"{"name":"../x","description":"d","body":"b"}"#;
    assert!(error("save_skill", skill).starts_with("the arguments of save_skill: `name`"));
}

#[test]
fn a_call_under_other_names_is_the_same_call() {
    let same = |name: &str, given: Value, right: Value| {
        assert_eq!(
            described(name, given.clone()),
            described(name, right.clone())
        );
        // The object as a string.
        let wrapped = Value::String(given.to_string()).to_string();
        assert_eq!(describe(name, &wrapped), Ok(described(name, right)));
    };
    same("read", json!({"file_path": "a"}), json!({"path": "a"}));
    same("bash", json!({"cmd": "ls"}), json!({"command": "ls"}));
    same(
        "write",
        json!({"file_path": "a", "content": "x"}),
        json!({"path": "a", "content": "x"}),
    );
    let flat = json!({"file_path": "a", "old_string": "x", "new_string": "y"});
    let right = json!({"path": "a", "edits": [{"old": "x", "new": "y"}]});
    same("edit", flat, right);
    let twice = described("read", json!({"path": "a", "file_path": "b"}));
    assert_eq!(twice.subject, "a");
    assert!(
        twice
            .objection
            .unwrap()
            .starts_with("the arguments of read: `path` and `file_path`")
    );
    let near = described("bash", json!({"command": "ls", "timeout": 5}));
    assert!(
        near.objection
            .unwrap()
            .contains("`timeout_ms` is near to it")
    );
}

/// The permissions and effect classes of all tools: a change of this table changes what the agent
/// may do.
#[test]
fn calls_need_these_permissions_and_are_of_these_classes() {
    use crate::core::permission::{
        LookBack::{History, Memory},
        Reach::{All, Session, Workspace},
    };
    use Class::{Asked, Checked, Idempotent, Served, Supervised};
    let back = |tool, reach| Permission::LookBack { tool, reach };
    let path = |path_use, path: &str| Permission::Path {
        path_use,
        path: path.into(),
    };
    let write = json!({"path": "a", "content": "x"});
    let edit = json!({"path": "a", "edits": [{"old": "a", "new": "b"}]});
    let skill = json!({"name": "a", "description": "d", "body": "b"});
    let memory = json!({"text": "t", "kind": "semantic"});
    let glob = Permission::Glob {
        pattern: "*.rs".into(),
        path: Some("src".into()),
    };
    let skill_path = Permission::WriteInWorkspace {
        path: ".rewake/skills/a/SKILL.md".into(),
    };
    let line = Permission::Command {
        line: "ls".into(),
        access: None,
        background: true,
    };
    let far = Permission::Foreign {
        name: "mcp__far__poke".into(),
    };
    let page = |host: &str, url: &str, usual_port| Permission::Fetch {
        host: host.into(),
        url: url.into(),
        usual_port,
    };
    #[rustfmt::skip]
    let rows = [
        ("web_fetch", json!({"url": "HTTPS://A.test./x#y"}), Idempotent, page("a.test", "https://a.test/x", true)),
        ("web_fetch", json!({"url": "http://[::1]:8080"}), Idempotent, page("[::1]", "http://[::1]:8080/", false)),
        ("web_search", json!({"query": " a "}), Idempotent, Permission::Search { query: "a".into() }),
        ("read", json!({"path": "a"}), Idempotent, path(PathUse::Read, "a")),
        ("grep", json!({"pattern": "x"}), Idempotent, path(PathUse::Grep, ".")),
        ("grep", json!({"pattern": "x", "path": "b"}), Idempotent, path(PathUse::Grep, "b")),
        ("glob", json!({"pattern": "*.rs", "path": "src"}), Idempotent, glob),
        ("write", write, Checked, path(PathUse::Write, "a")),
        ("edit", edit, Checked, path(PathUse::Edit, "a")),
        ("save_skill", skill, Checked, skill_path),
        ("bash", json!({"command": "ls", "background": true}), Supervised, line),
        ("bash_stop", json!({"id": "b1"}), Idempotent, Permission::None),
        ("ask_user", json!({"questions": [{"question": "?"}]}), Asked, Permission::None),
        ("bash_wait", json!({"ids": ["b1"]}), Idempotent, Permission::Wait),
        ("task", json!({"prompt": "a"}), Supervised, Permission::Task),
        ("plan", json!({"steps": []}), Idempotent, Permission::None),
        ("memory_search", json!({"query": "q"}), Idempotent, back(Memory, Session)),
        ("memory_search", json!({"query": "q", "scope": "workspace"}), Idempotent, back(Memory, Workspace)),
        ("memory_search", json!({"query": "q", "scope": "all"}), Idempotent, back(Memory, All)),
        ("memory_page", json!({"address": "entry 1"}), Idempotent, back(Memory, Session)),
        ("memory_page", json!({"address": "0197a1b2:1"}), Idempotent, back(Memory, Workspace)),
        ("memory_page", json!({"address": "entry 1", "session": "0197"}), Idempotent, back(Memory, Workspace)),
        ("memory_page", json!({"address": "0197a1b2:1", "scope": "all"}), Idempotent, back(Memory, All)),
        ("memory_insert", memory, Idempotent, back(Memory, Session)),
        ("review_history", json!({}), Idempotent, back(History, Workspace)),
        ("review_history", json!({"session": "0197", "scope": "all"}), Idempotent, back(History, All)),
        ("memory", json!({"action": "history"}), Idempotent, back(History, Workspace)),
        ("mcp_find", json!({"query": "poke"}), Idempotent, Permission::None),
        ("mcp_call", json!({"tool": "mcp__far__poke", "arguments": {"x": 1}}), Served, far.clone()),
        ("mcp", json!({"find": "poke"}), Idempotent, Permission::None),
        ("mcp", json!({"tool": "mcp__far__poke"}), Served, far.clone()),
        ("mcp__far__poke", json!({"x": 1}), Served, far),
    ];
    for tool in &TOOLS {
        let is_there = rows.iter().any(|(name, ..)| *name == tool.name);
        assert!(is_there, "{} has no row here", tool.name);
    }
    for (name, arguments, class, permission) in rows {
        let described = described(name, arguments);
        assert_eq!((described.class, described.permission), (class, permission));
    }
}

#[test]
fn system_prompt_and_tools_stay_small() {
    let system = include_str!("../../assets/prompts/system.md");
    let tools = serde_json::to_string(&specs()).unwrap();
    // 2,500 tokens of 4 bytes, with 250 bytes for the system prompt's lines on the workspace.
    let bytes = system.len() + tools.len() + 250;
    assert!(bytes <= 10_000, "{} + {}", system.len(), tools.len());
}

#[test]
fn in_a_small_window_every_tool_is_there_in_a_line_with_all_that_it_requires() {
    let (short, long) = (short_specs_apart(), specs());
    assert_eq!(short.len(), long.len());
    for (short, long) in short.iter().zip(&long) {
        assert_eq!(short.name, long.name);
        assert!(!short.description.is_empty() && !short.description.contains('\n'));
        assert!(short.description.len() <= 150, "{}", short.name);
        assert_eq!(short.schema["required"], long.schema["required"]);
        let tool = TOOLS.iter().find(|tool| tool.name == short.name).unwrap();
        for name in tool.left_out {
            assert!(long.schema["properties"].get(name).is_some(), "{name}");
        }
        let properties = short.schema["properties"].as_object().unwrap();
        for name in long.schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(name.as_str().unwrap()));
        }
    }
    let of = |name: &str| short.iter().find(|s| s.name == name).unwrap();
    assert_eq!(of("grep").schema["properties"].get("context"), None);
    // A command line needs the first, and rules of the user are stored with the second.
    for (tool, word) in [
        ("bash", "`cd`"),
        ("bash", "`timeout_ms`"),
        ("plan", "`goals`"),
    ] {
        assert!(of(tool).description.contains(word), "{tool} {word}");
    }
    assert!(of("bash").schema["properties"].get("timeout_ms").is_some());
    assert!(of("plan").schema["properties"].get("goals").is_some());
}

#[test]
fn in_a_small_window_one_tool_is_for_memory_history_and_skills() {
    let names: Vec<String> = short_specs().into_iter().map(|s| s.name).collect();
    let want = [
        "read",
        "write",
        "edit",
        "bash",
        "bash_stop",
        "bash_wait",
        "grep",
        "glob",
        "plan",
        "memory",
    ];
    assert_eq!(names, want);
    let offered = |name| is_offered(name, names.iter().map(String::as_str));
    for (action, tool, arguments) in [
        (
            "search",
            "memory_search",
            json!({"query": "q", "scope": "all"}),
        ),
        (
            "page",
            "memory_page",
            json!({"address": "entry 1", "offset": "5"}),
        ),
        ("insert", "memory_insert", json!({"text": "a fact"})),
        ("history", "review_history", json!({"session": "0197"})),
        (
            "skill",
            "save_skill",
            json!({"name": "a", "description": "d", "body": "b"}),
        ),
    ] {
        // A text for the model may name the tool.
        assert!(offered(tool) && MEMORY_TOOLS.contains(&tool), "{tool}");
        let id = CallId { reply: 0, index: 0 };
        let direct = call(id, tool, &arguments.to_string());
        for word in [action, tool] {
            let mut through = arguments.clone();
            through["action"] = word.into();
            let through = call(id, "memory", &through.to_string());
            let [one, other] = [&through, &direct].map(|call| call.described.clone());
            assert_eq!(one.map(without_arguments), other.map(without_arguments));
            assert_eq!(shown(&through), shown(&direct));
            assert_eq!(
                work(&through).unwrap().class(),
                work(&direct).unwrap().class()
            );
        }
    }
    assert!(!offered("task") && !offered("mcp_find"));
    // Each property is one of a tool, and what a tool requires is among them.
    let properties = |name: &str| find(name).unwrap().spec().schema["properties"].clone();
    let known = properties("memory");
    for name in known
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| *name != "action")
    {
        let is_of = |tool: &&str| properties(tool).get(name).is_some();
        assert!(MEMORY_TOOLS.iter().any(is_of), "{name}");
    }
    for tool in MEMORY_TOOLS {
        let schema = find(tool).unwrap().spec().schema;
        for name in schema["required"].as_array().unwrap() {
            assert!(known.get(name.as_str().unwrap()).is_some(), "{tool} {name}");
        }
    }
    let objection = describe("memory", r#"{"action":"forget"}"#).unwrap_err();
    assert!(objection.contains("search"), "{objection}");
    let objection = describe("memory", r#"{"action":"page"}"#).unwrap_err();
    assert!(objection.contains("address"), "{objection}");
}

#[test]
fn system_prompt_and_tools_take_less_than_a_third_of_the_smallest_window() {
    let system = include_str!("../../assets/prompts/system_short.md");
    let tools = serde_json::to_string(&short_specs()).unwrap();
    // 1,275 tokens of 4 bytes, with 250 bytes for the system prompt's lines on the workspace.
    let bytes = system.len() + tools.len() + 250;
    assert!(bytes <= 5_100, "{} + {}", system.len(), tools.len());
}

#[test]
fn tools_of_servers_are_listed_only_where_there_are_servers() {
    let names = |specs: Vec<ToolSpec>| specs.into_iter().map(|s| s.name).collect::<Vec<_>>();
    for specs in [specs(), short_specs(), short_specs_apart()] {
        assert!(names(specs).iter().all(|name| !name.starts_with("mcp")));
    }
    assert_eq!(names(server_specs()), ["mcp_find", "mcp_call"]);
    assert_eq!(names(short_server_specs()), ["mcp"]);
    // So no tool of a server has the name of a built-in tool.
    for tool in &TOOLS {
        assert!(!foreign::is_foreign(tool.name), "{}", tool.name);
    }
}

/// A call has the same permission, effect and display through each of the tools.
#[test]
fn a_call_of_a_server_is_the_same_through_each_of_the_tools() {
    let inner = json!({"path": "a", "n": 1});
    let id = CallId { reply: 0, index: 0 };
    let direct = call(id, "mcp__files__read", &inner.to_string());
    let as_text = json!({"tool": "mcp__files__read", "arguments": inner.to_string()});
    for (name, arguments) in [
        (
            "mcp_call",
            json!({"tool": "mcp__files__read", "arguments": inner}),
        ),
        ("mcp_call", as_text),
        (
            "mcp",
            json!({"tool": "mcp__files__read", "arguments": inner, "find": "x"}),
        ),
    ] {
        let through = call(id, name, &arguments.to_string());
        let [one, other] = [&through, &direct].map(|call| call.described.clone());
        assert_eq!(
            one.map(without_arguments),
            other.map(without_arguments),
            "{arguments}"
        );
        assert_eq!(through.shown_name(), "files · read");
        assert_eq!(through.full_name(), direct.full_name());
        assert_eq!(shown(&through), shown(&direct));
        match (work(&through), work(&direct)) {
            (Ok(Work::Served(one)), Ok(Work::Served(other))) => assert_eq!(one, other),
            _ => panic!("not a call of a server"),
        }
    }
    assert_eq!(direct.subject(), inner.to_string());
    let Ok(Work::Served(order)) = work(&call(id, "mcp_call", r#"{"tool":"mcp__a__b"}"#)) else {
        panic!("not a call of a server");
    };
    assert_eq!(order.arguments, json!({}));
}

#[test]
fn a_name_of_100_000_letters_is_cut_where_a_person_reads_it() {
    let long = "n".repeat(100_000);
    let served = format!("mcp__files__{long}");
    let through = json!({ "tool": served, "arguments": {} }).to_string();
    for (name, arguments) in [
        (long.as_str(), "{}"),
        (served.as_str(), "{}"),
        ("mcp_call", through.as_str()),
    ] {
        let call = call(CallId { reply: 0, index: 0 }, name, arguments);
        let shown = call.shown_name();
        assert!(shown.len() <= 110 && shown.ends_with('…'), "{shown}");
    }
}

#[test]
fn a_call_of_a_server_without_a_full_name_or_an_object_is_refused() {
    let error = |name: &str, arguments: Value| describe(name, &arguments.to_string()).unwrap_err();
    for name in ["mcp_call", "mcp"] {
        for tool in ["bash", "files__read", "mcp_call", ""] {
            let why = error(name, json!({"tool": tool, "arguments": {}}));
            assert!(
                why.contains("full name") || why.contains("neither"),
                "{why}"
            );
        }
        for arguments in [json!([1]), json!(7), json!("words"), json!(true)] {
            let why = error(name, json!({"tool": "mcp__a__b", "arguments": arguments}));
            assert_eq!(
                why,
                format!("the arguments of {name}: `arguments` has to be an object")
            );
        }
    }
    assert_eq!(
        error("mcp__a__b", json!([1])),
        "the arguments of mcp__a__b are not a JSON object"
    );
    assert_eq!(
        error("mcp", json!({})),
        "the arguments of mcp: it has neither `find` nor `tool`"
    );
}
