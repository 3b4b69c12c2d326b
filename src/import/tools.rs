//! Calls of other agents in the names of rewake, for tools that both have.

use serde_json::{Map, Value, json};

use super::{Agent, shown};
use crate::core::entry::{Usage, token_count};
use crate::core::text::clip;

/// Tools that other agents have too.
const SHARED: [&str; 6] = ["bash", "read", "edit", "write", "grep", "glob"];
/// Maximum length of a tool's name. Providers accept no longer one.
const MAX_NAME: usize = 64;
/// Maximum length of the name of a model, characters.
const MAX_MODEL: usize = 200;
/// Maximum length of arguments, bytes. Longer ones are cut.
const MAX_ARGUMENTS: usize = 1024 * 1024;

/// Names of arguments in rewake, and in other agents.
const ARGUMENTS: [(&str, &[&str]); 9] = [
    ("command", &["command", "cmd"]),
    (
        "path",
        &["path", "file_path", "filePath", "absolute_path", "dir_path"],
    ),
    ("content", &["content", "contents"]),
    ("pattern", &["pattern", "query"]),
    ("glob", &["glob", "include"]),
    ("offset", &["offset"]),
    ("limit", &["limit"]),
    ("old", &["old_string", "oldString", "oldText", "old"]),
    ("new", &["new_string", "newString", "newText", "new"]),
];

/// Arguments of each shared tool.
fn arguments_of(tool: &str) -> &'static [&'static str] {
    match tool {
        "bash" => &["command"],
        "read" => &["path", "offset", "limit"],
        "write" => &["path", "content"],
        "edit" => &["path"],
        "grep" => &["pattern", "path", "glob"],
        _ => &["pattern", "path"],
    }
}

/// A call as an entry has it.
pub(super) struct CallText {
    pub name: String,
    pub arguments: String,
    /// The arguments were longer than [`MAX_ARGUMENTS`].
    pub is_cut: bool,
}

/// Returns a call in the names of rewake. One of a tool that only the other agent has keeps its
/// name and arguments.
pub(super) fn translated(name: &str, arguments: &str) -> CallText {
    if arguments.len() > MAX_ARGUMENTS {
        let beginning = clip(arguments, MAX_ARGUMENTS);
        return CallText {
            name: safe_name(name),
            arguments: json!({ "cut": beginning }).to_string(),
            is_cut: true,
        };
    }
    let tool = shared_tool(name);
    let given: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
    let own = tool.and_then(|tool| Some((tool, renamed(tool, given.as_ref()?)?)));
    match own {
        Some((tool, arguments)) => CallText {
            name: tool.to_string(),
            arguments: arguments.to_string(),
            is_cut: false,
        },
        None => CallText {
            name: safe_name(name),
            // Providers accept only an object.
            arguments: match given {
                Some(_) => arguments.to_string(),
                None => json!({ "input": arguments }).to_string(),
            },
            is_cut: false,
        },
    }
}

/// Returns the tool of rewake that has this name in another agent.
fn shared_tool(name: &str) -> Option<&'static str> {
    let bare = name.replace('_', "").to_lowercase();
    const NAMES: [(&str, &[&str]); 6] = [
        (
            "bash",
            &[
                "bash",
                "shell",
                "execcommand",
                "runshellcommand",
                "localshell",
            ],
        ),
        ("read", &["read", "readfile"]),
        ("edit", &["edit", "replace", "multiedit"]),
        ("write", &["write", "writefile"]),
        ("grep", &["grep", "searchfilecontent", "grepsearch"]),
        ("glob", &["glob"]),
    ];
    let known = NAMES
        .iter()
        .find(|(_, names)| names.contains(&bare.as_str()));
    known.map(|(own, _)| *own)
}

/// Returns the arguments under the names of rewake. `None`: the tool needs one that is not given.
fn renamed(tool: &str, given: &Map<String, Value>) -> Option<Value> {
    let mut own = Map::new();
    for name in arguments_of(tool) {
        if let Some(value) = argument(given, name) {
            own.insert((*name).to_string(), value.clone());
        }
    }
    match tool {
        "bash" => {
            let command = shell_line(own.get("command")?)?;
            own.insert("command".to_string(), command.into());
        }
        "edit" => {
            let edits = match given.get("edits").and_then(Value::as_array) {
                Some(edits) => edits.iter().map(|e| edit(e.as_object()?)).collect(),
                None => edit(given).map(|edit| vec![edit]),
            };
            own.insert("edits".to_string(), Value::Array(edits?));
        }
        _ => {}
    }
    let needed = arguments_of(tool).first()?;
    own.contains_key(*needed).then_some(Value::Object(own))
}

fn edit(given: &Map<String, Value>) -> Option<Value> {
    let (old, new) = (argument(given, "old")?, argument(given, "new")?);
    let all = ["replace_all", "replaceAll"].map(|name| given.get(name));
    Some(match all.contains(&Some(&Value::Bool(true))) {
        true => json!({ "old": old, "new": new, "all": true }),
        false => json!({ "old": old, "new": new }),
    })
}

fn argument<'a>(given: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let (_, names) = ARGUMENTS.iter().find(|(own, _)| *own == name)?;
    names.iter().find_map(|name| given.get(*name))
}

/// Returns the line of a shell command. Codex gives a list of words, mostly `bash -lc LINE`.
fn shell_line(command: &Value) -> Option<String> {
    let words = match command {
        Value::String(line) => return Some(line.clone()),
        Value::Array(words) => words,
        _ => return None,
    };
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words.as_slice() {
        [_, flag, line] if flag.starts_with('-') && flag.ends_with('c') => Some(line.to_string()),
        words => Some(words.join(" ")),
    }
}

/// Returns the name with the characters that providers accept.
fn safe_name(name: &str) -> String {
    let name: String = name
        .chars()
        .take(MAX_NAME)
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || c == '-' => c,
            _ => '_',
        })
        .collect();
    match name.is_empty() {
        true => "unnamed".to_string(),
        false => name,
    }
}

/// Returns a list of the tools in `names` that rewake does not have.
pub fn foreign_tools<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut foreign: Vec<&str> = names
        .into_iter()
        .filter(|name| !SHARED.contains(name))
        .collect();
    foreign.sort_unstable();
    foreign.dedup();
    foreign
}

/// Returns the tokens that an agent counted, from any of the shapes in which agents write them.
pub(super) fn usage(value: &Value) -> Usage {
    let first = |names: &[&str]| {
        let known = names.iter().find_map(|name| value.pointer(name));
        known.map_or(0, token_count)
    };
    let cached = first(&[
        "/cache_read_input_tokens",
        "/cached_input_tokens",
        "/cachedContentTokenCount",
        "/cacheRead",
        "/cache/read",
        "/cached",
    ]);
    let input = first(&["/input_tokens", "/promptTokenCount", "/input"]);
    // Codex, gemini-cli and qwen-code count cached tokens as input too.
    let includes_cached = [
        "/cached_input_tokens",
        "/cachedContentTokenCount",
        "/cached",
    ];
    let is_sum = includes_cached
        .iter()
        .any(|name| value.pointer(name).is_some());
    Usage {
        input: if is_sum {
            input.saturating_sub(cached)
        } else {
            input
        },
        cached,
        cache_written: first(&[
            "/cache_creation_input_tokens",
            "/cache_write_input_tokens",
            "/cacheWrite",
            "/cache/write",
        ]),
        output: first(&["/output_tokens", "/candidatesTokenCount", "/output"]),
        billed_nanos: None,
    }
}

/// Returns the name of a model as lists show it: `claude/opus`.
pub(super) fn model_name(agent: Agent, model: &str) -> String {
    match model {
        "" => agent.name().to_string(),
        model => format!("{agent}/{}", shown(model, MAX_MODEL)),
    }
}
