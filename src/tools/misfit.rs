//! Errors for arguments that do not match the schema of a tool, in words of the schema. The model
//! reads them instead of an error of the JSON parser.

use serde_json::Value;

use super::whole::WholeNumber;

/// Describes the first place where arguments do not match their schema: "`steps[0]` must be an
/// object {text, status}". Returns `None` if they match.
pub(super) fn misfit(schema: &Value, given: &Value) -> Option<String> {
    misfit_at(schema, given, "")
}

fn misfit_at(schema: &Value, given: &Value, at: &str) -> Option<String> {
    match (schema["type"].as_str()?, given) {
        ("object", Value::Object(given)) => properties(schema).into_iter().find_map(|name| {
            let at = match at {
                "" => name.to_string(),
                at => format!("{at}.{name}"),
            };
            match given.get(name) {
                Some(given) => misfit_at(&schema["properties"][name], given, &at),
                None => is_required(schema, name).then(|| format!("`{at}` is missing")),
            }
        }),
        ("array", Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(n, item)| misfit_at(&schema["items"], item, &format!("{at}[{n}]")))
        }
        ("string", Value::String(_)) if is_one_of(schema, given) => None,
        ("boolean", Value::Bool(_)) => None,
        ("integer", given) if serde_json::from_value::<WholeNumber>(given.clone()).is_ok() => None,
        _ => Some(format!("`{at}` must be {}", kind(schema))),
    }
}

fn is_one_of(schema: &Value, given: &Value) -> bool {
    schema["enum"]
        .as_array()
        .is_none_or(|all| all.contains(given))
}

fn is_required(schema: &Value, name: &str) -> bool {
    let mut required = schema["required"].as_array().into_iter().flatten();
    required.any(|required| required == name)
}

/// Returns the names of an object's properties, required ones first.
fn properties(schema: &Value) -> Vec<&str> {
    let required = schema["required"].as_array().into_iter().flatten();
    let all = schema["properties"].as_object().into_iter().flatten();
    let others = all.map(|(name, _)| name.as_str());
    required
        .filter_map(Value::as_str)
        .chain(others.filter(|name| !is_required(schema, name)))
        .collect()
}

/// Describes a value of this schema in words.
fn kind(schema: &Value) -> String {
    let fields = |schema: &Value| match properties(schema) {
        names if names.is_empty() => String::new(),
        names => format!(" {{{}}}", names.join(", ")),
    };
    let one_of = schema["enum"].as_array().into_iter().flatten();
    let one_of: Vec<&str> = one_of.filter_map(Value::as_str).collect();
    match schema["type"].as_str().unwrap_or_default() {
        "object" => format!("an object{}", fields(schema)),
        "array" => match schema["items"]["type"].as_str() {
            Some("object") => format!("a list of objects{}", fields(&schema["items"])),
            _ => "a list of strings".to_string(),
        },
        "integer" => "a whole number, 0 or more".to_string(),
        "boolean" => "true or false".to_string(),
        _ if !one_of.is_empty() => format!("one of {}", one_of.join(", ")),
        _ => "a string".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::arguments;
    use super::super::{TOOLS, describe};
    use super::*;

    #[test]
    fn arguments_that_do_not_fit_are_told_without_terms_of_rust() {
        let error =
            |name: &str, arguments: Value| describe(name, &arguments.to_string()).unwrap_err();
        for (name, arguments, why) in [
            (
                "plan",
                json!({"steps": ["look"]}),
                "`steps[0]` must be an object {text, status}",
            ),
            (
                "plan",
                json!({"steps": [{"text": "a"}]}),
                "`steps[0].status` is missing",
            ),
            (
                "plan",
                json!({"steps": [{"text": "a", "state": "done"}, {"text": "b", "status": "soon"}]}),
                "`steps[1].status` must be one of pending, in_progress, completed",
            ),
            (
                "plan",
                json!({"steps": 7}),
                "`steps` must be a list of objects {text, status}",
            ),
            (
                "bash",
                json!({"command": ["ls"]}),
                "`command` must be a string",
            ),
            (
                "bash",
                json!({"command": "ls", "access": "root"}),
                "`access` must be one of read, workspace, network, full",
            ),
            (
                "bash",
                json!({"command": "ls", "background": 2}),
                "`background` must be true or false",
            ),
            (
                "edit",
                json!({"path": "a", "edits": [{"old": "x"}]}),
                "`edits[0].new` is missing",
            ),
        ] {
            assert_eq!(
                error(name, arguments),
                format!("the arguments of {name}: {why}")
            );
        }
    }

    #[test]
    fn no_argument_of_a_wrong_type_is_answered_in_terms_of_rust() {
        let wrong = [
            json!(null),
            json!(7),
            json!(-1.5),
            json!(true),
            json!("x"),
            json!([]),
            json!([7]),
            json!([null]),
            json!(["x"]),
            json!({}),
            json!({"a": 1}),
            json!([{}]),
            json!([[]]),
        ];
        for tool in &TOOLS {
            let whole = arguments(tool);
            for name in whole.as_object().unwrap().keys() {
                for value in &wrong {
                    let mut arguments = whole.clone();
                    arguments[name] = value.clone();
                    let Err(why) = describe(tool.name, &arguments.to_string()) else {
                        continue;
                    };
                    for term in [
                        "invalid type",
                        "expected",
                        "missing field",
                        "variant",
                        "struct",
                        "sequence",
                    ] {
                        assert!(!why.contains(term), "{} {name} {value}: {why}", tool.name);
                    }
                    assert!(
                        why.contains(&format!("`{name}")),
                        "{} {value}: {why}",
                        tool.name
                    );
                }
            }
        }
    }
}
