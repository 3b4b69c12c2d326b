//! Conversion of a server's tool schema to a form that every provider accepts. A schema that a
//! provider refuses would make each request of the session fail.
//!
//! OpenAI requires an object with `properties` at the top, and no choice between schemas. Anthropic
//! requires JSON Schema 2020-12 and allows some characters in property names. Gemini accepts even
//! less, and its codec converts the schema further.

use serde_json::{Map, Value, json};

use crate::model::schema::check_schema;

/// Keys that are copied from the top of a schema. Only the server checks the others.
const KEPT: [&str; 4] = [
    "description",
    "additionalProperties",
    "$defs",
    "definitions",
];

const NAME_MAX: usize = 64;

/// Returns the schema, and whether it contains all properties.
pub(super) fn for_requests(schema: &Value) -> (Value, bool) {
    let none = Map::new();
    let given = schema["properties"].as_object().unwrap_or(&none);
    let fitting = given.iter().filter(|(name, property)| {
        is_name(name) && (property.is_object() || property.is_boolean())
    });
    let named: Map<String, Value> = fitting
        .map(|(name, property)| (name.clone(), property.clone()))
        .collect();
    let whole = with(schema, named.clone());
    if check_schema(&whole).is_ok() {
        return (whole, named.len() == given.len());
    }
    let is_sound = |(name, property): &(String, Value)| {
        let one = Map::from_iter([(name.clone(), property.clone())]);
        check_schema(&with(schema, one)).is_ok()
    };
    let sound: Map<String, Value> = named.into_iter().filter(is_sound).collect();
    let partial = with(schema, sound);
    match check_schema(&partial) {
        Ok(()) => (partial, false),
        Err(_) => (json!({ "type": "object", "properties": {} }), false),
    }
}

fn with(schema: &Value, properties: Map<String, Value>) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required: Vec<Value> = required
        .filter(|name| {
            name.as_str()
                .is_some_and(|name| properties.contains_key(name))
        })
        .cloned()
        .collect();
    required.dedup();
    let mut whole = Map::new();
    whole.insert("type".into(), "object".into());
    whole.insert("properties".into(), properties.into());
    if !required.is_empty() {
        whole.insert("required".into(), required.into());
    }
    for key in KEPT {
        if let Some(value) = schema.get(key) {
            whole.insert(key.into(), value.clone());
        }
    }
    Value::Object(whole)
}

fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_schema_stays_as_it_is() {
        let plain = json!({
            "type": "object", "required": ["path"], "additionalProperties": false,
            "properties": { "path": { "$ref": "#/$defs/path" }, "n": { "type": ["integer", "null"] } },
            "$defs": { "path": { "type": "string" } },
        });
        assert_eq!(for_requests(&plain), (plain.clone(), true));
        let empty = json!({ "type": "object", "properties": {} });
        assert_eq!(for_requests(&json!({ "type": "object" })), (empty, true));
    }

    #[test]
    fn schema_parts_that_a_provider_refuses_are_left_out() {
        let (schema, is_whole) = for_requests(&json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "x",
            "type": "object", "required": ["a", "b c", "tuple"],
            "properties": {
                "a": { "type": "string" }, "b c": { "type": "string" }, "c": "string",
                "tuple": { "type": "array", "items": [{ "type": "string" }] },
                "wrong": { "type": "strnig" },
            },
            "oneOf": [{ "required": ["a"] }], "anyOf": [], "allOf": [], "not": {}, "enum": [1],
        }));
        assert!(!is_whole);
        assert_eq!(
            schema,
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } })
        );
    }

    #[test]
    fn a_schema_that_is_none_is_empty() {
        for schema in [
            json!({ "type": "object", "properties": 7 }),
            json!({ "type": "object", "$defs": 7, "properties": { "a": {} } }),
            json!(null),
        ] {
            let (made, _) = for_requests(&schema);
            assert_eq!(
                made,
                json!({ "type": "object", "properties": {} }),
                "{schema}"
            );
        }
    }
}
