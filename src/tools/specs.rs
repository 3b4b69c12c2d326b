//! The tools as a model sees them. The words are in `assets/tools/NAME.md`; the schemas are
//! written by hand, since every byte of them is in every request.

use serde_json::{Value, json};

use crate::core::entry::ToolSpec;

/// In a fixed order: the bytes of a request must not change without need.
pub fn specs() -> Vec<ToolSpec> {
    vec![
        spec("read", include_str!("../../assets/tools/read.md"), read()),
        spec(
            "write",
            include_str!("../../assets/tools/write.md"),
            write(),
        ),
        spec("edit", include_str!("../../assets/tools/edit.md"), edit()),
        spec("bash", include_str!("../../assets/tools/bash.md"), bash()),
        spec(
            "bash_stop",
            include_str!("../../assets/tools/bash_stop.md"),
            bash_stop(),
        ),
        spec("grep", include_str!("../../assets/tools/grep.md"), grep()),
        spec("glob", include_str!("../../assets/tools/glob.md"), glob()),
        spec("plan", include_str!("../../assets/tools/plan.md"), plan()),
        spec(
            "save_skill",
            include_str!("../../assets/tools/save_skill.md"),
            save_skill(),
        ),
        spec(
            "memory_search",
            include_str!("../../assets/tools/memory_search.md"),
            memory_search(),
        ),
        spec(
            "memory_page",
            include_str!("../../assets/tools/memory_page.md"),
            memory_page(),
        ),
        spec(
            "memory_insert",
            include_str!("../../assets/tools/memory_insert.md"),
            memory_insert(),
        ),
        spec(
            "review_history",
            include_str!("../../assets/tools/review_history.md"),
            review_history(),
        ),
    ]
}

fn spec(name: &str, description: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_string(),
        description: description.trim_end().to_string(),
        schema,
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn read() -> Value {
    let properties = json!({"path": string(), "offset": integer(), "limit": integer()});
    object(properties, &["path"])
}

fn write() -> Value {
    object(
        json!({"path": string(), "content": string()}),
        &["path", "content"],
    )
}

fn edit() -> Value {
    let one = json!({"old": string(), "new": string(), "all": boolean()});
    let edits = array(object(one, &["old", "new"]));
    object(
        json!({"path": string(), "edits": edits}),
        &["path", "edits"],
    )
}

fn bash() -> Value {
    let properties = json!({"command": string(), "timeout_ms": integer(), "background": boolean()});
    object(properties, &["command"])
}

fn bash_stop() -> Value {
    object(json!({"id": string()}), &["id"])
}

fn grep() -> Value {
    let properties = json!({
        "pattern": string(), "path": string(), "glob": string(), "ignore_case": boolean(),
        "context": integer(), "files_only": boolean(), "limit": integer(),
    });
    object(properties, &["pattern"])
}

fn glob() -> Value {
    object(json!({"pattern": string(), "path": string()}), &["pattern"])
}

fn plan() -> Value {
    let state = json!({"type": "string", "enum": ["done", "current", "left"]});
    let step = object(
        json!({"text": string(), "state": state}),
        &["text", "state"],
    );
    let properties = json!({"steps": array(step), "goals": array(string())});
    object(properties, &["steps"])
}

fn save_skill() -> Value {
    object(
        json!({"name": string(), "description": string(), "body": string()}),
        &["name", "description", "body"],
    )
}

fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

fn memory_search() -> Value {
    let kinds = [
        "said",
        "answered",
        "printed",
        "noted",
        "episodic",
        "semantic",
        "procedural",
    ];
    let properties = json!({
        "query": string(), "scope": one_of(&["session", "workspace", "all"]),
        "kinds": array(one_of(&kinds)), "limit": integer(),
    });
    object(properties, &["query"])
}

fn memory_page() -> Value {
    let properties = json!({
        "address": string(), "session": string(), "offset": integer(), "limit": integer(),
    });
    object(properties, &["address"])
}

fn memory_insert() -> Value {
    let kind = one_of(&["semantic", "procedural", "episodic"]);
    let properties = json!({"text": string(), "kind": kind, "topic": string()});
    object(properties, &["text", "kind"])
}

fn review_history() -> Value {
    object(json!({"session": string(), "limit": integer()}), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tool::Input;

    /// Arguments that have every property of the schema.
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
                let properties = schema["properties"].as_object().unwrap();
                properties
                    .iter()
                    .map(|(k, v)| (k.clone(), example(v)))
                    .collect()
            }
            other => panic!("{other}"),
        }
    }

    /// The arguments as they were understood.
    fn understood(input: &Input) -> Value {
        let value = match input {
            Input::Read(a) => serde_json::to_value(a),
            Input::Write(a) => serde_json::to_value(a),
            Input::Edit(a) => serde_json::to_value(a),
            Input::Bash(a) => serde_json::to_value(a),
            Input::BashStop(a) => serde_json::to_value(a),
            Input::Grep(a) => serde_json::to_value(a),
            Input::Glob(a) => serde_json::to_value(a),
            Input::Plan(a) => serde_json::to_value(a),
            Input::SaveSkill(a) => serde_json::to_value(a),
            Input::MemorySearch(a) => serde_json::to_value(a),
            Input::MemoryPage(a) => serde_json::to_value(a),
            Input::MemoryInsert(a) => serde_json::to_value(a),
            Input::ReviewHistory(a) => serde_json::to_value(a),
            Input::Foreign { .. } => panic!("foreign"),
        };
        value.unwrap()
    }

    #[test]
    fn every_property_of_a_schema_is_understood_and_none_is_missing() {
        for spec in specs() {
            let arguments = example(&spec.schema);
            let input = Input::parse(&spec.name, &arguments.to_string()).unwrap();
            assert_eq!(understood(&input), arguments, "{}", spec.name);
        }
    }

    #[test]
    fn only_what_is_required_is_required() {
        for spec in specs() {
            let whole = example(&spec.schema);
            for name in whole.as_object().unwrap().keys() {
                let mut without = whole.clone();
                without.as_object_mut().unwrap().remove(name);
                let required = spec.schema["required"].as_array().unwrap();
                let parsed = Input::parse(&spec.name, &without.to_string());
                let is_required = required.contains(&json!(name));
                assert_eq!(parsed.is_err(), is_required, "{} {name}", spec.name);
            }
        }
    }

    #[test]
    fn system_prompt_and_tools_stay_small() {
        let system = include_str!("../../assets/prompts/system.md");
        let tools = serde_json::to_string(&specs()).unwrap();
        // 2,500 tokens of 4 bytes, with 250 bytes for what the system prompt says of the place.
        let bytes = system.len() + tools.len() + 250;
        assert!(bytes <= 10_000, "{} + {}", system.len(), tools.len());
    }
}
