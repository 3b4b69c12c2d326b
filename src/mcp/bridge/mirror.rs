//! Arguments of a tool that its server also expects in headers (`x-mcp-header` in the schema).
//! They are learnt from lists of tools and sent with each call.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

use super::headers::encoded;
use crate::core::half_character::read_lenient;
use crate::core::text::one_line;

const MARK: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";

/// Maximum depth of a schema.
const DEPTH_MAX: usize = 32;
const MIRRORS_MAX: usize = 64;

/// Maximum length of a tool's name in a note.
const NAME_CHARS: usize = 100;

/// Maximum integer: larger numbers are not exact in all languages.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// An argument and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    path: Vec<String>,
    header: HeaderName,
}

/// The parameters of a server's tools that are sent in headers, by tool.
#[derive(Debug, Default)]
pub struct Mirrors(Mutex<HashMap<String, Vec<Mirror>>>);

impl Mirrors {
    /// Reads an answer to `tools/list`. Tools whose header annotations are invalid may not be
    /// used. If there are any, returns the answer without them, and the reasons.
    pub fn learn(&self, answer: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
        let has_mark = answer
            .windows(MARK.len())
            .any(|part| part == MARK.as_bytes());
        let mut message = read_lenient(answer).ok().filter(|_| has_mark)?;
        let mut wrong = Vec::new();
        let tools = message["result"]["tools"].as_array_mut()?;
        tools.retain(|tool| {
            let name = tool["name"].as_str().unwrap_or_default();
            let mut found = Vec::new();
            match marked(&tool["inputSchema"], Some(&mut Vec::new()), 0, &mut found) {
                Ok(()) => {
                    self.known().insert(name.to_string(), found);
                    true
                }
                Err(why) => {
                    let name = one_line(name, NAME_CHARS);
                    wrong.push(format!("the tool {name} is left out: {why}"));
                    false
                }
            }
        });
        (!wrong.is_empty()).then(|| (message.to_string().into_bytes(), wrong))
    }

    /// Returns the headers of a call.
    pub fn of_call(&self, params: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let name = params["name"].as_str().unwrap_or_default();
        for mirror in self.known().get(name).into_iter().flatten() {
            let parts = mirror.path.iter();
            let value = parts.fold(&params["arguments"], |value, part| &value[part.as_str()]);
            if let Some(text) = text_of(value) {
                headers.insert(mirror.header.clone(), encoded(&text));
            }
        }
        headers
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Vec<Mirror>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Number(number) => {
            let whole = number.as_i64().or_else(|| {
                let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
                format!("{float}").parse().ok()
            });
            whole
                .filter(|whole| whole.abs() <= INTEGER_MAX)
                .map(|whole| whole.to_string())
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Finds the annotations in a schema. `path` contains the property names from the top. `None`: the
/// place is not reachable by `properties` alone, so annotations are not allowed there.
fn marked(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    depth: usize,
    found: &mut Vec<Mirror>,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    if let Some(items) = schema.as_array() {
        return items
            .iter()
            .try_for_each(|item| marked(item, None, depth + 1, found));
    }
    let Some(fields) = schema.as_object() else {
        return Ok(());
    };
    for (key, value) in fields {
        match (key.as_str(), &mut path) {
            (MARK, path) if value.is_string() || path.is_some() => {
                let at = path.as_ref().filter(|path| !path.is_empty());
                let at = at.ok_or("a mark is where none may be")?;
                found.push(mirror(schema, value, at)?);
                let names: BTreeSet<&str> = found.iter().map(|m| m.header.as_str()).collect();
                if names.len() < found.len() || found.len() > MIRRORS_MAX {
                    return Err("two marks are the same, or there are too many".to_string());
                }
            }
            ("properties", Some(path)) => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    path.push(name.clone());
                    marked(schema, Some(path), depth + 1, found)?;
                    path.pop();
                }
            }
            _ => marked(value, None, depth + 1, found)?,
        }
    }
    Ok(())
}

fn mirror(schema: &Value, mark: &Value, path: &[String]) -> Result<Mirror, String> {
    let name = mark.as_str().filter(|name| !name.is_empty());
    let header = name.and_then(|name| HeaderName::try_from(format!("{PREFIX}{name}")).ok());
    let header = header.ok_or("a mark is not a header name")?;
    match schema["type"].as_str() {
        Some("string" | "integer" | "boolean") => Ok(Mirror {
            path: path.to_vec(),
            header,
        }),
        _ => Err(
            "a mark is on something other than a text, a whole number or a truth value".to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(tools: Value) -> Vec<u8> {
        json!({ "id": "a", "result": { "tools": tools } })
            .to_string()
            .into_bytes()
    }

    fn tool(name: &str, properties: Value) -> Value {
        json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
    }

    #[test]
    fn marked_arguments_are_sent_in_headers() {
        let mirrors = Mirrors::default();
        let properties = json!({
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": {
                "n": { "type": "integer", "x-mcp-header": "N" } } },
            "sure": { "type": "boolean", "x-mcp-header": "Sure" },
            "x-mcp-header": { "type": "string" },
        });
        assert_eq!(mirrors.learn(&listed(json!([tool("t", properties)]))), None);
        let headers =
            |arguments: Value| mirrors.of_call(&json!({ "name": "t", "arguments": arguments }));
        let all = headers(json!({ "region": "ü", "deep": { "n": 42.0 }, "sure": false, "q": 1 }));
        assert_eq!(all["mcp-param-region"], "=?base64?w7w=?=");
        assert_eq!(all["mcp-param-n"], "42");
        assert_eq!(all["mcp-param-sure"], "false");
        assert_eq!(all.len(), 3);
        assert!(headers(json!({ "region": null, "deep": 3, "sure": [] })).is_empty());
        assert!(headers(json!({ "deep": { "n": 1e300 } })).is_empty());
    }

    #[test]
    fn a_tool_with_a_wrong_mark_is_left_out_and_the_others_stay() {
        let mirrors = Mirrors::default();
        let mark = |mark: &str| json!({ "type": "string", "x-mcp-header": mark });
        let wrong = [
            json!({ "a": mark("") }),
            json!({ "a": mark("a b") }),
            json!({ "a": mark("x"), "b": mark("X") }),
            json!({ "a": { "type": "number", "x-mcp-header": "x" } }),
            json!({ "a": { "type": "string", "x-mcp-header": 7 } }),
            json!({ "a": { "type": "array", "items": mark("x") } }),
            json!({ "a": { "anyOf": [mark("x")] } }),
        ];
        let mut tools = vec![tool("good", json!({ "a": mark("x") }))];
        tools.extend(
            wrong
                .iter()
                .map(|properties| tool("bad", properties.clone())),
        );
        let (kept, why) = mirrors.learn(&listed(Value::Array(tools))).unwrap();
        let kept: Value = serde_json::from_slice(&kept).unwrap();
        assert_eq!(kept["result"]["tools"].as_array().unwrap().len(), 1);
        assert_eq!(why.len(), wrong.len());
        let long = tool(&"n".repeat(100_000), wrong[0].clone());
        let (_, why) = mirrors.learn(&listed(json!([long]))).unwrap();
        assert!(why[0].len() < 200, "{} bytes", why[0].len());
    }
}
