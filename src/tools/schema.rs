//! Helpers for the schemas of tools, and the mapping of a model's arguments to their names. Schemas
//! are written by hand, since every byte of them is in every request.

use serde_json::{Value, json};

use crate::core::text::{nearest, one_line};

type Object = serde_json::Map<String, Value>;

/// Maximum number of names in an error.
const MAX_NAMED: usize = 10;

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

pub(super) fn string() -> Value {
    json!({"type": "string"})
}

pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

pub(super) fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub(super) fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(super) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

/// The arguments of a call, under the names in the schema of its tool.
#[derive(Debug, PartialEq)]
pub(super) struct NormalizedArguments {
    pub arguments: Value,
    /// Why the call is refused although its arguments can be parsed, in words for the model.
    pub objection: Option<String>,
}

/// Other names that models use for an argument, in lowercase without `_`. None of them is an
/// argument's real name.
const ALIASES: [(&str, &[&str]); 12] = [
    (
        "path",
        &["filepath", "file", "filename", "directory", "folder", "dir"],
    ),
    ("command", &["cmd"]),
    ("content", &["contents", "filetext"]),
    ("old", &["oldstring", "oldstr", "oldtext"]),
    ("new", &["newstring", "newstr", "newtext"]),
    ("all", &["replaceall"]),
    ("pattern", &["regex", "query"]),
    ("glob", &["include"]),
    ("background", &["runinbackground"]),
    ("steps", &["todos", "plan"]),
    ("text", &["content", "step"]),
    ("status", &["state"]),
];

/// Other words that models use for a value of an enum, in the same form. `done`, `current` and
/// `left` are from older versions.
const WORDS: [(&str, &[&str]); 3] = [
    ("pending", &["left", "todo"]),
    ("in_progress", &["current"]),
    ("completed", &["done", "complete"]),
];

/// Puts the arguments of a model under the names of the schema. The rules and the tool both get
/// this result, so a wrong name cannot bypass a rule.
///
/// Arguments that match the schema stay as they are. An argument that is given twice, or whose name
/// is only similar to a known one, leads to an objection.
pub(super) fn named(schema: &Value, given: Value) -> NormalizedArguments {
    let mut objection = None;
    let arguments = value(schema, given, &mut objection);
    NormalizedArguments {
        arguments,
        objection,
    }
}

fn value(schema: &Value, given: Value, objection: &mut Option<String>) -> Value {
    let of = schema["type"].as_str().unwrap_or_default();
    let given = match (of, given) {
        ("array" | "object", Value::String(text)) => json_text(of, text),
        ("string", Value::String(text)) => Value::String(word_of(schema, text)),
        ("boolean", Value::String(text)) => match text.trim() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        },
        (_, given) => given,
    };
    match (of, given) {
        ("object", Value::Object(given)) => Value::Object(object_of(schema, given, objection)),
        ("array", Value::Array(items)) => {
            let items = items.into_iter();
            items
                .map(|item| value(&schema["items"], item, objection))
                .collect()
        }
        // A single object where a list of them is expected.
        ("array", one @ Value::Object(_)) if schema["items"]["type"] == "object" => {
            Value::Array(vec![value(&schema["items"], one, objection)])
        }
        (_, given) => given,
    }
}

/// Returns the value of the enum that this word means.
fn word_of(schema: &Value, text: String) -> String {
    let known = schema["enum"].as_array().into_iter().flatten();
    let known: Vec<&str> = known.filter_map(Value::as_str).collect();
    if known.is_empty() || known.contains(&text.as_str()) {
        return text;
    }
    let given = bare(text.trim());
    let other = WORDS.iter().find(|(_, all)| all.contains(&given.as_str()));
    let other = other.map(|(word, _)| *word);
    let is_it = |word: &&&str| bare(word) == given || other == Some(**word);
    known
        .iter()
        .find(is_it)
        .map_or(text, |word| word.to_string())
}

fn bare(name: &str) -> String {
    name.replace(['_', '-'], "").to_lowercase()
}

/// Parses a list or an object that the model wrote as JSON in a string.
fn json_text(of: &str, text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(found @ (Value::Array(_) | Value::Object(_))) if found.is_object() || of == "array" => {
            found
        }
        _ => Value::String(text),
    }
}

fn object_of(schema: &Value, given: Object, objection: &mut Option<String>) -> Object {
    let Some(properties) = schema["properties"].as_object() else {
        return given;
    };
    let (mut found, others): (Object, Object) = given
        .into_iter()
        .partition(|(name, _)| properties.contains_key(name));
    let inner = properties
        .iter()
        .find(|(_, property)| property["items"]["properties"].is_object());
    let mut of_inner = Object::new();
    for (name, given) in others {
        if given.is_null() {
            continue;
        }
        if let Some(right) = right_name(&name, properties) {
            let is_there = found.get(right).is_some_and(|value| !value.is_null());
            if is_there {
                object_to(
                    objection,
                    format!("`{right}` and `{name}` name the same argument: give `{right}` alone"),
                )
            } else {
                found.insert(right.to_string(), given);
            }
        } else if let Some((list, property)) = inner
            && let Some(item) = property["items"]["properties"].as_object()
            && (item.contains_key(&name) || right_name(&name, item).is_some())
        {
            if found.contains_key(list) {
                object_to(objection, format!("`{name}` belongs into `{list}`"));
            } else {
                of_inner.insert(name, given);
            }
        } else {
            let near = nearest(&name, properties.keys().map(String::as_str));
            if let Some(near) = near.filter(|near| !found.contains_key(*near)) {
                object_to(
                    objection,
                    format!("there is no `{name}`; `{near}` is near to it"),
                );
            }
            found.insert(name, given);
        }
    }
    if let Some((list, _)) = inner
        && !of_inner.is_empty()
    {
        found.insert(list.clone(), Value::Array(vec![Value::Object(of_inner)]));
    }
    // Models write null for omitted arguments.
    let said = found.into_iter().filter(|(_, given)| !given.is_null());
    let known = said.map(|(name, given)| {
        let of = properties.get(&name).unwrap_or(&Value::Null);
        let given = value(of, given, objection);
        (name, given)
    });
    known.collect()
}

/// Sets the objection, unless there already is one.
fn object_to(objection: &mut Option<String>, why: String) {
    objection.get_or_insert(why);
}

/// Returns the name in the schema that this name means.
fn right_name<'a>(name: &str, properties: &'a Object) -> Option<&'a str> {
    let given = bare(name);
    let alias_of = ALIASES
        .iter()
        .find(|(_, others)| others.contains(&given.as_str()))
        .map(|(right, _)| *right);
    properties
        .keys()
        .map(String::as_str)
        .find(|right| bare(right) == given || alias_of == Some(right))
}

/// Returns a hint for an error: the names that the tool does not have, and those that it has.
pub(super) fn hint(schema: &Value, given: &Value) -> String {
    let (Some(properties), Some(given)) = (schema["properties"].as_object(), given.as_object())
    else {
        return String::new();
    };
    let list = |names: Vec<&String>| {
        let names = names.into_iter().take(MAX_NAMED);
        let names: Vec<String> = names.map(|n| format!("`{}`", one_line(n, 40))).collect();
        names.join(", ")
    };
    let unknown: Vec<&String> = given
        .keys()
        .filter(|n| !properties.contains_key(*n))
        .collect();
    match unknown.is_empty() {
        true => String::new(),
        false => format!(
            "\nhint: there is no {}; the arguments are {}",
            list(unknown),
            list(properties.keys().collect())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit() -> Value {
        let one = json!({"old": string(), "new": string(), "all": boolean()});
        let edits = array(object(one, &["old", "new"]));
        object(
            json!({"path": string(), "edits": edits}),
            &["path", "edits"],
        )
    }

    fn read() -> Value {
        let properties = json!({"path": string(), "offset": integer(), "limit": integer()});
        object(properties, &["path"])
    }

    #[test]
    fn other_names_are_put_right() {
        let want = json!({"path": "a", "edits": [{"old": "x", "new": "y", "all": true}]});
        for given in [
            want.clone(),
            json!({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "replace_all": true}]}),
            json!({"filePath": "a", "old_string": "x", "new_string": "y", "replaceAll": true}),
            json!({"path": "a", "edits": {"oldText": "x", "newText": "y", "all": "true"}}),
            json!({"path": "a", "edits": "[{\"old\":\"x\",\"new\":\"y\",\"all\":true}]"}),
            json!({"path": null, "file": "a", "edits": [{"old": "x", "new": "y", "all": true}]}),
        ] {
            let named = named(&edit(), given.clone());
            assert_eq!(named.arguments, want, "{given}");
            assert_eq!(named.objection, None, "{given}");
        }
    }

    #[test]
    fn duplicate_or_misspelled_arguments_cause_a_note_but_are_read() {
        for (given, why) in [
            (
                json!({"path": "a", "file_path": "b"}),
                "`path` and `file_path` name the same",
            ),
            (
                json!({"file": "a", "file_path": "b"}),
                "name the same argument",
            ),
            (json!({"path": "a", "file_path": "a"}), "give `path` alone"),
            (
                json!({"path": "a", "limt": 1}),
                "there is no `limt`; `limit` is near to it",
            ),
        ] {
            let named = named(&read(), given.clone());
            assert_eq!(named.arguments["path"], "a", "{given}");
            let objection = named.objection.unwrap();
            assert!(objection.contains(why), "{given}: {objection}");
        }
        let both = json!({"path": "a", "edits": [], "old_string": "x"});
        let objection = named(&edit(), both).objection;
        assert_eq!(
            objection.as_deref(),
            Some("`old_string` belongs into `edits`")
        );
        for given in [
            json!({"path": "a", "x": 1}),
            json!({"path": "a", "file_path": null}),
            json!({"path": "a", "description": "why"}),
        ] {
            assert_eq!(named(&read(), given).objection, None);
        }
    }
}
