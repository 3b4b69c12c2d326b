//! Validation of JSON against a JSON Schema, both of them untrusted.
//!
//! Invariant: no `$ref` leads out of the schema: nothing is read from a file or a server for it. A
//! schema has bounds (size, number of patterns, size of a compiled pattern), and so has an answer.

use std::time::Duration;

use boon::{Compiler, ErrorKind, Schemas, UrlLoader, ValidationError};
use regex::RegexBuilder;
use serde_json::Value;

use crate::core::entry::Unfit;

/// Maximum size of a schema, which is sent with every request.
pub const MAX_BYTES: u64 = 64 * 1024;
const MAX_PATTERNS: usize = 100;
/// Memory that one compiled pattern may need.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Time limit of a check. A schema of a few lines can require more comparisons than any machine
/// can make.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Base address for the references of a schema that has none.
const ADDRESS: &str = "schema:///";

/// Maximum number of reasons that are reported for one answer.
const MAX_REASONS: usize = 5;
const REASON_CHARS: usize = 300;

struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, _: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("a schema has to be whole: nothing is read from elsewhere for it".into())
    }
}

/// Checks that the schema can be used.
///
/// # Errors
/// Returns the reason as a text for the user.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("a schema is an object: {\"type\": \"object\", …}".into());
    }
    let mut patterns = Vec::new();
    find_patterns(schema, &mut patterns);
    if patterns.len() > MAX_PATTERNS {
        return Err(format!("it has more than {MAX_PATTERNS} patterns"));
    }
    for pattern in patterns {
        let built = RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN_BYTES)
            .build();
        if let Err(regex::Error::CompiledTooBig(_)) = built {
            return Err(format!("the pattern {pattern:?} is too large"));
        }
    }
    compiled(schema).map(|_| ())
}

fn find_patterns<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => found.push(pattern),
                    ("patternProperties", Value::Object(of)) => {
                        found.extend(of.keys().map(String::as_str));
                    }
                    _ => {}
                }
                find_patterns(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find_patterns(item, found)),
        _ => {}
    }
}

fn compiled(schema: &Value) -> Result<(Schemas, boon::SchemaIndex), String> {
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(NoLoader));
    let mut schemas = Schemas::new();
    let said = |error: boon::CompileError| {
        let why = format!("{error:#}").replace(ADDRESS, "");
        short(why.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let added = compiler.add_resource(ADDRESS, schema.clone());
    added.map_err(said)?;
    let index = compiler.compile(ADDRESS, &mut schemas).map_err(said)?;
    Ok((schemas, index))
}

/// Checks that this JSON matches the schema.
///
/// # Errors
/// Returns the first mismatches and their place.
pub fn check(schema: &Value, json: &str) -> Result<(), Unfit> {
    let at_the_top = |why: String| Unfit {
        path: String::new(),
        why,
    };
    if json.len() > MAX_ANSWER_BYTES {
        return Err(at_the_top(format!(
            "the answer is larger than {MAX_ANSWER_BYTES} bytes"
        )));
    }
    let value: Value = serde_json::from_str(json)
        .map_err(|error| at_the_top(format!("the answer is not JSON: {error}")))?;
    let (schemas, index) =
        compiled(schema).map_err(|why| at_the_top(format!("the schema cannot be used: {why}")))?;
    schemas
        .validate(&value, index)
        .map_err(|error| unfit(&error))
}

/// Same as [`check`], on a separate thread and with a time limit.
///
/// # Errors
/// Same as [`check`]. The flag says whether another answer may match.
pub async fn check_in_time(schema: Value, json: String) -> Result<(), (Unfit, bool)> {
    let (done, checked) = tokio::sync::oneshot::channel();
    let begun = std::thread::Builder::new()
        .name("schema".into())
        .spawn(move || drop(done.send(check(&schema, &json))));
    let why = match begun {
        Err(error) => format!("the answer cannot be checked: {error}"),
        Ok(_) => match tokio::time::timeout(MAX_TIME, checked).await {
            Ok(Ok(found)) => return found.map_err(|unfit| (unfit, true)),
            Ok(Err(_)) => "the answer cannot be checked: the check broke off".into(),
            Err(_) => format!(
                "comparing the answer with the schema took more than {} s: the schema refers to itself too often",
                MAX_TIME.as_secs()
            ),
        },
    };
    let path = String::new();
    Err((Unfit { path, why }, false))
}

fn unfit(error: &ValidationError) -> Unfit {
    let mut found = Vec::new();
    leaves(error, &mut found);
    let mut reasons = found
        .into_iter()
        .map(|error| (error.instance_location.to_string(), reason(&error.kind)));
    let (path, mut why) = reasons.next().unwrap_or_default();
    for (at, other) in reasons {
        why.push_str(&format!("; at {at}: {other}"));
    }
    Unfit { path, why }
}

fn leaves<'a, 's, 'v>(
    error: &'a ValidationError<'s, 'v>,
    found: &mut Vec<&'a ValidationError<'s, 'v>>,
) {
    if found.len() == MAX_REASONS {
        return;
    }
    if error.causes.is_empty() {
        found.push(error);
    } else {
        error.causes.iter().for_each(|cause| leaves(cause, found));
    }
}

fn reason(kind: &ErrorKind) -> String {
    short(kind.to_string().replace(ADDRESS, ""))
}

fn short(text: String) -> String {
    match text.char_indices().nth(REASON_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn person() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" } },
            },
            "required": ["name"],
            "additionalProperties": false,
            "$defs": { "tag": { "type": "string", "pattern": "^[a-z]+$" } },
        })
    }

    #[test]
    fn a_value_that_does_not_fit_the_schema_is_named_with_its_path() {
        check_schema(&person()).unwrap();
        for fits in [r#"{"name": "a"}"#, r#"{"name": "a", "tags": ["x", "y"]}"#] {
            assert_eq!(check(&person(), fits), Ok(()), "{fits}");
        }
        for (json, path, why) in [
            ("{}", "", "name"),
            ("[]", "", "object"),
            (r#"{"name": 3}"#, "/name", "string"),
            (r#"{"name": ""}"#, "/name", "length"),
            (
                r#"{"name": "a", "tags": ["x", "Y"]}"#,
                "/tags/1",
                "^[a-z]+$",
            ),
            (r#"{"name": "a", "age": 3}"#, "", "age"),
            ("{", "", "not JSON"),
        ] {
            let found = check(&person(), json).unwrap_err();
            assert_eq!(found.path, path, "{json}: {found}");
            assert!(found.why.contains(why), "{json}: {found}");
        }
    }

    #[test]
    fn the_error_about_an_answer_has_a_bounded_length() {
        let schema =
            json!({ "type": "object", "additionalProperties": { "enum": ["x".repeat(9_999)] } });
        let many: serde_json::Map<_, _> = (0..500).map(|n| (format!("k{n}"), 1.into())).collect();
        let found = check(&schema, &Value::from(many).to_string()).unwrap_err();
        assert!(
            found.why.len() < MAX_REASONS * (REASON_CHARS + 50),
            "{}",
            found.why.len()
        );
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        let found = check(&json!({}), &deep).unwrap_err();
        assert!(found.why.contains("recursion limit"), "{found}");
        let long = format!("\"{}\"", "x".repeat(MAX_ANSWER_BYTES));
        assert!(check(&json!({}), &long).unwrap_err().why.contains("larger"));
    }

    #[test]
    fn a_schema_reads_nothing_from_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.json");
        std::fs::write(&file, "{}").unwrap();
        for reference in [
            format!("file://{}", file.display().to_string().replace(' ', "%20")),
            file.display().to_string().replace(' ', "%20"),
            "http://127.0.0.1:1/s.json".into(),
            "other.json".into(),
        ] {
            let refused = check_schema(&json!({ "$ref": reference })).unwrap_err();
            assert!(
                refused.contains("nothing is read from elsewhere"),
                "{reference}: {refused}"
            );
        }
        let drafts =
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" });
        check_schema(&drafts).unwrap();
    }

    #[test]
    fn a_schema_that_cannot_be_used_says_why() {
        for (schema, why) in [
            (json!(true), "is an object"),
            (json!({ "type": "strnig" }), "type"),
            (json!({ "$ref": "#/$defs/none" }), "none"),
            (json!({ "pattern": "(" }), "("),
            (json!({ "pattern": "((a{100}){100}){100}" }), "too large"),
            (
                json!({ "patternProperties": { "((a{100}){100}){100}": {} } }),
                "too large",
            ),
        ] {
            let refused = check_schema(&schema).unwrap_err();
            assert!(refused.contains(why), "{schema}: {refused}");
            assert!(!refused.contains(ADDRESS), "{refused}");
        }
        let many: Vec<Value> = (0..101).map(|_| json!({ "pattern": "a" })).collect();
        assert!(
            check_schema(&json!({ "anyOf": many }))
                .unwrap_err()
                .contains("patterns")
        );
    }
}
