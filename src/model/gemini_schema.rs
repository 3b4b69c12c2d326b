//! Conversion of JSON Schema to the OpenAPI subset that Gemini accepts for parameters.
//! <https://ai.google.dev/api/caching#Schema>
//!
//! One unknown key makes Gemini refuse the whole request, so only supported keys are sent. The
//! schema only guides the model: each tool checks its arguments.

use serde_json::{Map, Value, json};

/// Maximum depth. Deeper schemas and cyclic references become an object of any shape.
const MAX_DEPTH: usize = 16;
/// Maximum number of nodes. References may expand without end, so the rest is left out.
const MAX_NODES: usize = 2000;

/// Keys that are copied unchanged.
#[rustfmt::skip]
const PLAIN: [&str; 12] = [
    "title", "description", "default", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minimum",
    "maximum", "pattern", "example",
];

/// Returns the parameters, or `None` for a function without any: Gemini refuses an object without
/// properties.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let mut cleaner = Cleaner {
        root: schema,
        nodes: 0,
    };
    let cleaned = cleaner.clean(schema, 0);
    cleaned.get("properties").is_some().then_some(cleaned)
}

struct Cleaner<'a> {
    root: &'a Value,
    nodes: usize,
}

impl Cleaner<'_> {
    fn clean(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        let schema = self.resolve(schema);
        let Some(from) = schema
            .as_object()
            .filter(|_| depth < MAX_DEPTH && self.nodes < MAX_NODES)
        else {
            return any_object(None, depth);
        };
        let mut out = Map::new();
        for key in PLAIN {
            if let Some(value) = from.get(key) {
                out.insert(key.into(), value.clone());
            }
        }
        // An object keeps its properties, and additional alternatives are left out.
        let alternatives = ["anyOf", "oneOf", "allOf"];
        let of = alternatives
            .iter()
            .find_map(|key| from.get(*key)?.as_array());
        match of.filter(|_| !from.contains_key("properties")) {
            Some(of) => self.any_of(of, depth, &mut out),
            None => self.typed(from, depth, &mut out),
        }
        let is_bare =
            out.get("type").is_some_and(|kind| kind == "object") && !out.contains_key("properties");
        if is_bare {
            return any_object(out.get("description"), depth);
        }
        Value::Object(out)
    }

    /// Follows `$ref` inside the document.
    fn resolve(&self, schema: &Value) -> Value {
        let mut schema = schema;
        for _ in 0..MAX_DEPTH {
            let target = schema.get("$ref").and_then(Value::as_str);
            match target.and_then(|t| self.root.pointer(t.strip_prefix('#')?)) {
                Some(found) => schema = found,
                None => break,
            }
        }
        schema.clone()
    }

    /// Converts alternatives. A single one replaces the list, and null becomes a flag.
    fn any_of(&mut self, of: &[Value], depth: usize, out: &mut Map<String, Value>) {
        let is_null = |s: &&Value| s.get("type").is_some_and(|t| t == "null");
        if of.iter().any(|s| is_null(&s)) {
            out.insert("nullable".into(), true.into());
        }
        let kept: Vec<Value> = of
            .iter()
            .filter(|s| !is_null(s))
            .map(|s| self.clean(s, depth + 1))
            .collect();
        match <[Value; 1]>::try_from(kept) {
            Ok([Value::Object(only)]) => {
                for (key, value) in only {
                    out.entry(key).or_insert(value);
                }
            }
            Ok(_) => {}
            Err(kept) if kept.is_empty() => {
                out.insert("type".into(), "string".into());
            }
            Err(kept) => {
                out.insert("anyOf".into(), kept.into());
            }
        }
    }

    fn typed(&mut self, from: &Map<String, Value>, depth: usize, out: &mut Map<String, Value>) {
        let named: Vec<&str> = match from.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if named.len() > 1 && named.contains(&"null") {
            out.insert("nullable".into(), true.into());
        }
        let kind = named.iter().find(|kind| **kind != "null").copied();
        let kind = kind.unwrap_or_else(|| guess(from));
        out.insert("type".into(), kind.into());
        match kind {
            "object" => self.object(from, depth, out),
            "array" => {
                let items = match from.get("items") {
                    Some(items) if items.is_object() => self.clean(items, depth + 1),
                    _ => json!({ "type": "string" }),
                };
                out.insert("items".into(), items);
            }
            _ => scalar(kind, from, out),
        }
    }

    fn object(&mut self, from: &Map<String, Value>, depth: usize, out: &mut Map<String, Value>) {
        let Some(properties) = from.get("properties").and_then(Value::as_object) else {
            return;
        };
        let cleaned: Map<String, Value> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), self.clean(schema, depth + 1)))
            .collect();
        let required = from.get("required").and_then(Value::as_array);
        let required: Vec<Value> = required
            .into_iter()
            .flatten()
            .filter(|name| name.as_str().is_some_and(|n| cleaned.contains_key(n)))
            .cloned()
            .collect();
        if !required.is_empty() {
            out.insert("required".into(), required.into());
        }
        if !cleaned.is_empty() {
            out.insert("properties".into(), cleaned.into());
        }
    }
}

/// Returns an object of any shape. Below the top, Gemini refuses an object without properties, so
/// it becomes a string.
fn any_object(description: Option<&Value>, depth: usize) -> Value {
    const AS_TEXT: &str = "an object, as JSON";
    if depth == 0 {
        return json!({ "type": "object" });
    }
    let description = match description.and_then(Value::as_str) {
        Some(text) => format!("{text} ({AS_TEXT})"),
        None => AS_TEXT.to_string(),
    };
    json!({ "type": "string", "description": description })
}

/// Returns a guess of a missing type.
fn guess(from: &Map<String, Value>) -> &'static str {
    match (from.contains_key("properties"), from.contains_key("items")) {
        (true, _) => "object",
        (_, true) => "array",
        _ => "string",
    }
}

/// Converts a scalar. Gemini supports enumerations only for strings, and few formats.
fn scalar(kind: &str, from: &Map<String, Value>, out: &mut Map<String, Value>) {
    let formats: &[&str] = match kind {
        "string" => &["enum", "date-time"],
        "integer" => &["int32", "int64"],
        "number" => &["float", "double"],
        _ => &[],
    };
    if let Some(format) = from
        .get("format")
        .filter(|f| f.as_str().is_some_and(|f| formats.contains(&f)))
    {
        out.insert("format".into(), format.clone());
    }
    if kind != "string" {
        return;
    }
    let values = match (from.get("enum"), from.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(only)) => vec![only.clone()],
        _ => return,
    };
    let fit = |v: &Value| v.as_str().is_some_and(|v| !v.is_empty());
    if !values.is_empty() && values.iter().all(fit) {
        out.insert("enum".into(), values.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_parts_that_gemini_refuses_are_left_out() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object", "additionalProperties": false,
            "properties": {
                "path": { "type": "string", "format": "uri", "description": "where" },
                "limit": { "type": ["integer", "null"], "format": "uint64", "exclusiveMinimum": 0 },
                "mode": { "const": "fast" },
                "level": { "type": "integer", "enum": [1, 2] },
                "either": { "oneOf": [{ "type": "string" }, { "type": "array" }] },
                "maybe": { "anyOf": [{ "$ref": "#/$defs/Step" }, { "type": "null" }], "title": "Maybe" },
                "any": {},
                "properties": { "type": "boolean" },
            },
            "required": ["path", "gone"],
            "$defs": { "Step": { "type": "object", "properties": { "text": { "type": "string" } } } },
        });
        assert_eq!(
            parameters(&schema),
            Some(json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "where" },
                    "limit": { "type": "integer", "nullable": true },
                    "mode": { "type": "string", "enum": ["fast"] },
                    "level": { "type": "integer" },
                    "either": { "anyOf": [
                        { "type": "string" },
                        { "type": "array", "items": { "type": "string" } },
                    ] },
                    "maybe": {
                        "type": "object", "nullable": true, "title": "Maybe",
                        "properties": { "text": { "type": "string" } },
                    },
                    "any": { "type": "string" },
                    "properties": { "type": "boolean" },
                },
                "required": ["path"],
            }))
        );
    }

    /// Seen with servers whose tools take any object: "should be non-empty for OBJECT type".
    #[test]
    fn an_object_of_any_shape_inside_is_text() {
        let schema = json!({ "type": "object", "properties": {
            "query": { "type": "object", "description": "what to look for" },
            "list": { "type": "array", "items": { "type": "object", "properties": {} } },
            "either": { "anyOf": [{ "type": "object" }, { "type": "null" }] },
        } });
        let text = |description: &str| json!({ "type": "string", "description": description });
        let mut either = text("an object, as JSON");
        either["nullable"] = json!(true);
        assert_eq!(
            parameters(&schema),
            Some(json!({ "type": "object", "properties": {
                "query": text("what to look for (an object, as JSON)"),
                "list": { "type": "array", "items": text("an object, as JSON") },
                "either": either,
            } }))
        );
    }

    #[test]
    fn a_function_without_parameters_has_none() {
        assert_eq!(
            parameters(&json!({ "type": "object", "properties": {} })),
            None
        );
        assert_eq!(parameters(&Value::Null), None);
    }

    #[test]
    fn references_in_a_circle_end() {
        let circle = json!({
            "type": "object",
            "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" }, "c": { "$ref": "#/x" } },
            "x": { "$ref": "#/x" },
        });
        let text = parameters(&circle)
            .map(|v| v.to_string())
            .unwrap_or_default();
        assert!(text.len() < 1_000_000, "{}", text.len());
    }
}
