//! The schema of a server's tool in the form that every provider takes. They refuse the whole request for
//! one array without `items`, a schema without a type, or a choice at its top.
//!
//! Invariant: the model sees every property of the top level and of its alternatives.

use std::collections::BTreeMap;

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

/// Maximum length of the words about alternatives at the top.
const WORDS_MAX_BYTES: usize = 8 * 1024;

/// Keys that providers refuse at the top, the key that joins the schemas of a property, and the words for
/// the model.
const AT_TOP: [(&str, &str, &str); 3] = [
    ("anyOf", "anyOf", "The arguments fit at least one of:"),
    ("oneOf", "anyOf", "The arguments fit exactly one of:"),
    ("allOf", "allOf", "The arguments fit all of:"),
];

/// Returns a schema in this alternative, or `None` if it is not that of an object.
pub(super) fn normalized(schema: &Value) -> Option<Value> {
    let mut fields = schema.as_object()?.clone();
    let has_object = |kinds: &Vec<Value>| kinds.iter().any(|kind| kind == "object");
    let is_object = |kind: &Value| kind == "object" || kind.as_array().is_some_and(has_object);
    if !fields.get("type").is_none_or(is_object) {
        return None;
    }
    fields.insert("type".to_string(), "object".into());
    for (key, joined_by, words) in AT_TOP {
        if let Some(Value::Array(alternatives)) = fields.remove(key) {
            let alternatives: Vec<&Value> = alternatives
                .iter()
                .map(|alternative| resolve(alternative, schema))
                .collect();
            flatten(&mut fields, &alternatives, joined_by);
            describe(&mut fields, &alternatives, words);
        }
    }
    let mut normalized = Value::Object(fields);
    complete(&mut normalized);
    Some(normalized)
}

/// Follows a reference inside of the schema.
fn resolve<'a>(form: &'a Value, schema: &'a Value) -> &'a Value {
    let target = form["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
    let target = target.and_then(|pointer| schema.pointer(pointer));
    target.unwrap_or(form)
}

/// Adds the properties of the alternatives. One that the alternatives define differently has all of their schemas.
fn flatten(fields: &mut Map<String, Value>, alternatives: &[&Value], joined_by: &str) {
    let mut found: BTreeMap<&String, Vec<&Value>> = BTreeMap::new();
    let of_alternatives = alternatives
        .iter()
        .filter_map(|alternative| alternative["properties"].as_object());
    for (name, property) in of_alternatives.flatten() {
        let known = found.entry(name).or_default();
        if !known.contains(&property) {
            known.push(property);
        }
    }
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (name, schemas) in found {
            let property = || match schemas[..] {
                [only] => only.clone(),
                _ => json!({ joined_by: schemas }),
            };
            properties.entry(name).or_insert_with(property);
        }
    }
}

/// Adds the alternatives to the description.
fn describe(fields: &mut Map<String, Value>, alternatives: &[&Value], words: &str) {
    let said = fields.get("description").and_then(Value::as_str);
    let mut text = said.map_or(String::new(), |said| format!("{said}\n"));
    text.push_str(words);
    for alternative in alternatives {
        if text.len() > WORDS_MAX_BYTES {
            break;
        }
        text.push_str(&format!("\n{alternative}"));
    }
    let text = clip(&text, WORDS_MAX_BYTES);
    fields.insert("description".to_string(), text.into());
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
        ] {
            assert_eq!(normalized(&schema), Some(want));
        }
        for schema in [
            json!({"type": "string"}),
            json!({"type": ["string"]}),
            json!(null),
        ] {
            assert_eq!(normalized(&schema), None);
        }
    }

    #[test]
    fn a_choice_at_the_top_becomes_properties_and_words() {
        let schema = json!({
            "anyOf": [{"$ref": "#/$defs/n"}, {"properties": {"id": {"type": "array"}}, "required": ["id"]}, true],
            "$defs": {"n": {"properties": {"name": {"type": "string"}}}},
            "description": "Lists files.",
        });
        let got = normalized(&schema).unwrap();
        assert_eq!(got["type"], "object");
        assert_eq!(
            got["properties"],
            json!({"name": {"type": "string"}, "id": {"type": "array", "items": {}}})
        );
        let words = got["description"].as_str().unwrap();
        assert!(
            words.starts_with("Lists files.\nThe arguments fit at least one of:\n{"),
            "{words}"
        );
        assert!(words.contains(r#""required":["id"]"#) && got.get("anyOf").is_none());
    }

    #[test]
    fn a_property_that_the_forms_define_differently_has_all_schemas() {
        let schema = json!({"oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {}}},
            {"properties": {"kind": {"const": "b"}, "x": {}}},
        ]});
        let got = normalized(&schema).unwrap();
        let kind = json!({"anyOf": [{"const": "a"}, {"const": "b"}]});
        assert_eq!(got["properties"], json!({"kind": kind, "x": {}}));
    }

    #[test]
    fn many_references_to_all_of_it_take_little() {
        let forms = vec![json!({"$ref": "#"}); 4_000];
        let got = normalized(&json!({"anyOf": forms})).unwrap();
        assert!(got.to_string().len() < 2 * WORDS_MAX_BYTES);
    }
}
