//! The names and arguments of tools as hooks read them. Tools with a counterpart in Claude Code
//! have its names, so that guards written for it work here.
//!
//! Source of the names: the tool and hook references of Claude Code.

use serde_json::{Map, Value, json};

use super::TASK;
use crate::core::permission::Permission;
use crate::core::tool::ToolCall;

/// The arguments of a tool: rewake's name and Claude's name of each.
type Names = &'static [(&'static str, &'static str)];

/// rewake's tool, Claude's tool, and the arguments that differ or that both have.
const TOOLS: [(&str, &str, Names); 9] = [
    (
        "bash",
        "Bash",
        &[
            ("command", "command"),
            ("timeout_ms", "timeout"),
            ("background", "run_in_background"),
        ],
    ),
    (
        "read",
        "Read",
        &[
            ("path", "file_path"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    ),
    (
        "write",
        "Write",
        &[("path", "file_path"), ("content", "content")],
    ),
    ("edit", "Edit", &[("path", "file_path")]),
    ("glob", "Glob", &[("pattern", "pattern"), ("path", "path")]),
    (
        "grep",
        "Grep",
        &[
            ("pattern", "pattern"),
            ("path", "path"),
            ("glob", "glob"),
            ("ignore_case", "-i"),
            ("context", "-C"),
            ("limit", "head_limit"),
        ],
    ),
    ("web_fetch", "WebFetch", &[("url", "url")]),
    ("web_search", "WebSearch", &[("query", "query")]),
    (
        TASK,
        "Task",
        &[("prompt", "prompt"), ("agent", "subagent_type")],
    ),
];

/// rewake's and Claude's names of the parts of an edit.
const EDIT: [(&str, &str); 3] = [
    ("old", "old_string"),
    ("new", "new_string"),
    ("all", "replace_all"),
];

fn tool_of(name: &str) -> Option<(&'static str, Names)> {
    let mut tools = TOOLS.iter();
    let (_, claudes, names) = tools.find(|(own, ..)| *own == name)?;
    Some((claudes, names))
}

/// Returns the name of a call's tool for hooks.
pub fn name_for_hooks(call: &ToolCall) -> &str {
    match tool_of(call.full_name()) {
        Some((claudes, _)) => claudes,
        None => call.full_name(),
    }
}

/// Returns the arguments of a call for hooks. A path is made absolute with `full`, as in Claude
/// Code.
pub fn input_for_hooks(call: &ToolCall, full: impl Fn(&str) -> String) -> Value {
    let Ok(described) = &call.described else {
        return Value::Null;
    };
    if matches!(described.permission, Permission::Foreign { .. }) {
        return match call.name == call.full_name() {
            true => (*described.arguments).clone(),
            false => described.arguments["arguments"].clone(),
        };
    }
    let Some((_, names)) = tool_of(&call.name) else {
        return (*described.arguments).clone();
    };
    let mut input = Map::new();
    for (own, claudes) in names {
        if let Some(value) = described.arguments.get(*own) {
            let value = match (value.as_str(), *claudes) {
                (Some(path), "file_path") => Value::String(full(path)),
                _ => value.clone(),
            };
            input.insert((*claudes).to_string(), value);
        }
    }
    if call.name == "edit" {
        let edits = described.arguments["edits"].as_array();
        let edits: Vec<Value> = edits.into_iter().flatten().map(claudes_edit).collect();
        if let [Value::Object(first), rest @ ..] = &edits[..] {
            input.extend(first.clone());
            if !rest.is_empty() {
                input.insert("edits".to_string(), Value::Array(edits));
            }
        }
    }
    Value::Object(input)
}

fn claudes_edit(edit: &Value) -> Value {
    let parts = EDIT.iter().filter_map(|(own, claudes)| {
        let value = edit.get(*own)?;
        Some(((*claudes).to_string(), value.clone()))
    });
    Value::Object(parts.collect())
}

fn own_edit(edit: &Value) -> Value {
    let parts = EDIT.iter().filter_map(|(own, claudes)| {
        let value = edit.get(*claudes)?;
        Some(((*own).to_string(), value.clone()))
    });
    Value::Object(parts.collect())
}

/// Returns rewake's tool and arguments for a call that is named as hooks read it.
pub fn call_of_hook(name: &str, input: &Value) -> (String, String) {
    let mut tools = TOOLS.iter();
    let known = tools.find(|(own, claudes, _)| *claudes == name || *own == name);
    match (known, input) {
        (Some((own, _, names)), Value::Object(input)) => {
            let arguments = own_arguments(own, names, input, Map::new());
            ((*own).to_string(), Value::Object(arguments).to_string())
        }
        _ => (name.to_string(), input.to_string()),
    }
}

/// Returns the arguments of a tool under its own names. Those of `before` that Claude Code does not
/// have stay.
fn own_arguments(
    tool: &str,
    names: Names,
    input: &Map<String, Value>,
    before: Map<String, Value>,
) -> Map<String, Value> {
    let is_known = |own: &str| names.iter().any(|(known, _)| *known == own);
    let mut arguments: Map<String, Value> = before
        .into_iter()
        .filter(|(own, _)| !is_known(own) && (tool != "edit" || own != "edits"))
        .collect();
    for (own, claudes) in names {
        if let Some(value) = input.get(*claudes) {
            arguments.insert((*own).to_string(), value.clone());
        }
    }
    if tool == "edit" {
        let edits = match input.get("edits").and_then(Value::as_array) {
            Some(edits) => edits.iter().map(own_edit).collect(),
            None => vec![own_edit(&json!(input))],
        };
        arguments.insert("edits".to_string(), Value::Array(edits));
    }
    arguments
}

/// Returns the arguments of a call after a hook changed them, as JSON under the tool's own names.
/// Arguments that Claude Code does not have stay.
///
/// # Errors
/// The input is not an object.
pub fn arguments_from_hook(call: &ToolCall, input: &Value) -> Result<String, String> {
    let (Value::Object(input), Ok(described)) = (input, &call.described) else {
        return Err("`updatedInput` is not an object".to_string());
    };
    let before = described.arguments.as_object().cloned().unwrap_or_default();
    if matches!(described.permission, Permission::Foreign { .. }) {
        let mut arguments = before;
        match call.name == call.full_name() {
            true => arguments = input.clone(),
            false => drop(arguments.insert("arguments".into(), Value::Object(input.clone()))),
        }
        return Ok(Value::Object(arguments).to_string());
    }
    let Some((_, names)) = tool_of(&call.name) else {
        return Ok(Value::Object(input.clone()).to_string());
    };
    let arguments = own_arguments(&call.name, names, input, before);
    Ok(Value::Object(arguments).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::CallId;
    use crate::tools::call;

    #[test]
    fn every_tool_is_known_to_matchers() {
        let names = crate::tools::TOOLS
            .iter()
            .map(|tool| match tool_of(tool.name) {
                Some((claudes, _)) => claudes,
                None => tool.name,
            });
        let mut names: Vec<&str> = names.collect();
        let mut known = crate::workspace::hooks::TOOLS.map(|(name, _)| name);
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
        // rewake's own name means the tool as well.
        for (own, claudes, _) in TOOLS {
            let mut tools = crate::workspace::hooks::TOOLS.iter();
            assert!(tools.any(|(name, others)| *name == claudes && others[0] == own));
        }
    }

    fn of(name: &str, arguments: Value) -> ToolCall {
        call(CallId { reply: 1, index: 0 }, name, &arguments.to_string())
    }

    #[test]
    fn tools_have_claudes_names_and_keep_their_own_arguments() {
        let full = |path: &str| format!("/w/{path}");
        let bash = of(
            "bash",
            json!({"command": "ls", "access": "read", "timeout_ms": 5}),
        );
        assert_eq!(name_for_hooks(&bash), "Bash");
        assert_eq!(
            input_for_hooks(&bash, full),
            json!({"command": "ls", "timeout": 5})
        );
        let changed = arguments_from_hook(&bash, &json!({"command": "ls -a"})).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&changed).unwrap(),
            json!({"command": "ls -a", "access": "read"})
        );
        let write = of("write", json!({"path": "a", "content": "x"}));
        assert_eq!(
            input_for_hooks(&write, full),
            json!({"file_path": "/w/a", "content": "x"})
        );
        let served = of(
            "mcp_call",
            json!({"tool": "mcp__s__t", "arguments": {"n": 1}}),
        );
        assert_eq!(name_for_hooks(&served), "mcp__s__t");
        assert_eq!(input_for_hooks(&served, full), json!({"n": 1}));
        // It cannot name another tool.
        let changed = arguments_from_hook(&served, &json!({"tool": "mcp__s__u", "n": 2})).unwrap();
        let changed = of("mcp_call", serde_json::from_str(&changed).unwrap());
        assert_eq!(changed.full_name(), "mcp__s__t");
    }

    #[test]
    fn an_edit_is_the_same_after_both_ways() {
        let edits = [
            json!({"path": "a", "edits": [{"old": "1", "new": "2"}]}),
            json!({"path": "a", "edits": [{"old": "1", "new": "2", "all": true}, {"old": "3", "new": ""}]}),
        ];
        for arguments in edits {
            let edit = of("edit", arguments.clone());
            let input = input_for_hooks(&edit, str::to_string);
            assert_eq!(input["old_string"], "1");
            let back = arguments_from_hook(&edit, &input).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), arguments);
        }
    }
}
