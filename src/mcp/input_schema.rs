//! The schema of a server's tool in the form that every provider takes. They refuse the whole request for
//! one array without `items`, a schema without a type, or a choice at its top.
//!
//! Invariant: each argument stays known to the model.

use serde_json::{Map, Value, json};

use crate::core::text::clip;

/// Keys whose value is a map of schemas, a list of them, or one.
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
#[rustfmt::skip]
const SINGLE: [&str; 9] = [
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties",
];

/// Maximum length of the words about forms at the top.
const WORDS_MAX_BYTES: usize = 8 * 1024;

/// Keys that providers refuse at the top, with the words for the model.
const AT_TOP: [(&str, &str); 3] = [
    ("anyOf", "The arguments fit at least one of"),
    ("oneOf", "The arguments fit exactly one of"),
    ("allOf", "The arguments fit all of"),
];

/// Returns a schema in this form. What is no schema of an object stays as it is.
pub(super) fn normalized(schema: &Value) -> Value {
    let mut normalized = schema.clone();
    if let Value::Object(fields) = &mut normalized {
        let kind = fields.get("type");
        let has_object = |kinds: &Vec<Value>| kinds.iter().any(|kind| kind == "object");
        if kind.is_none_or(|kind| kind.as_array().is_some_and(has_object)) {
            fields.insert("type".to_string(), "object".into());
        }
        for (key, words) in AT_TOP {
            if let Some(forms) = fields.remove(key) {
                flatten(fields, schema, &forms, words);
            }
        }
    }
    complete(&mut normalized);
    normalized
}

/// Adds the properties of the forms at the top, and describes the forms in words.
fn flatten(fields: &mut Map<String, Value>, schema: &Value, forms: &Value, words: &str) {
    let resolve = |form: &'_ Value| {
        let target = form["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
        let target = target.and_then(|pointer| schema.pointer(pointer));
        target.unwrap_or(form).clone()
    };
    let forms: Vec<Value> = forms
        .as_array()
        .into_iter()
        .flatten()
        .map(resolve)
        .collect();
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        let of_forms = forms
            .iter()
            .filter_map(|form| form["properties"].as_object());
        for (name, property) in of_forms.flatten() {
            properties.entry(name).or_insert_with(|| property.clone());
        }
    }
    let said = fields.get("description").and_then(Value::as_str);
    let said = said.map_or(String::new(), |said| format!("{said}\n"));
    let described = format!("{said}{words}: {}", Value::Array(forms));
    let described = clip(&described, WORDS_MAX_BYTES);
    fields.insert("description".to_string(), described.into());
}

/// Adds what is missing in each schema. Parsed JSON is at most 128 levels deep, which bounds the recursion.
fn complete(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    let is_array = fields.get("type").is_some_and(|kind| {
        kind == "array"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&"array".into()))
    });
    if is_array && !fields.contains_key("items") && !fields.contains_key("prefixItems") {
        fields.insert("items".to_string(), json!({}));
    }
    for (key, value) in fields {
        match (key.as_str(), value) {
            (key, Value::Object(schemas)) if MAPS.contains(&key) => {
                schemas.values_mut().for_each(complete);
            }
            (key, Value::Array(schemas)) if LISTS.contains(&key) || key == "items" => {
                schemas.iter_mut().for_each(complete);
            }
            (key, value) if SINGLE.contains(&key) => complete(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_items_and_the_top_is_an_object() {
        for (schema, want) in [
            (
                json!({"type": "object", "properties": {
                    "a": {"type": "array"}, "b": {"type": ["array", "null"]}, "type": {"type": "string"},
                    "c": {"type": "array", "items": {"type": "array"}},
                    "d": {"anyOf": [{"type": "string"}, {"type": "array"}]},
                    "e": {"type": "array", "prefixItems": [{"type": "array"}]},
                    "f": {"default": {"type": "array"}},
                }}),
                json!({"type": "object", "properties": {
                    "a": {"type": "array", "items": {}}, "b": {"type": ["array", "null"], "items": {}},
                    "type": {"type": "string"},
                    "c": {"type": "array", "items": {"type": "array", "items": {}}},
                    "d": {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]},
                    "e": {"type": "array", "prefixItems": [{"type": "array", "items": {}}]},
                    "f": {"default": {"type": "array"}},
                }}),
            ),
            (
                json!({"properties": {"a": {}}, "required": ["a"]}),
                json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
            ),
            (
                json!({"type": ["object", "null"]}),
                json!({"type": "object"}),
            ),
            (json!({}), json!({"type": "object"})),
            (json!({"type": "string"}), json!({"type": "string"})),
            (json!(null), json!(null)),
        ] {
            assert_eq!(normalized(&schema), want);
        }
    }

    #[test]
    fn a_choice_at_the_top_becomes_properties_and_words() {
        let schema = json!({
            "anyOf": [{"$ref": "#/$defs/n"}, {"properties": {"id": {"type": "array"}}, "required": ["id"]}, true],
            "$defs": {"n": {"properties": {"name": {"type": "string"}}}},
            "description": "Lists files.",
        });
        let got = normalized(&schema);
        assert_eq!(got["type"], "object");
        assert_eq!(
            got["properties"],
            json!({"name": {"type": "string"}, "id": {"type": "array", "items": {}}})
        );
        let words = got["description"].as_str().unwrap();
        assert!(
            words.starts_with("Lists files.\nThe arguments fit at least one of: [{"),
            "{words}"
        );
        assert!(words.contains(r#""required":["id"]"#) && got.get("anyOf").is_none());
    }
}
