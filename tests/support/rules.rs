//! What the checks of the four protocols share.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// A request refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub status: u16,
    pub message: String,
    /// OpenAI: the field that is wrong.
    pub param: Option<&'static str>,
    /// OpenAI: the name of the error.
    pub code: Option<&'static str>,
}

impl Fault {
    pub fn new(status: u16, message: impl Into<String>) -> Fault {
        Fault {
            status,
            message: message.into(),
            param: None,
            code: None,
        }
    }
}

/// `return Err(400)` unless it holds.
macro_rules! demand {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::rules::Fault::new(400, format!($($why)+)));
        }
    };
}

/// A request understood: what scripts decide on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub model: String,
    /// Answers of the model in the request.
    pub turn: usize,
    pub system: String,
    /// The last text of the user that is no result.
    pub user: String,
    /// Call id and text of every result, in order. Gemini may send none: then `name`.
    pub results: Vec<(String, String)>,
    /// Names of the declared tools.
    pub tools: Vec<String>,
}

/// What the server has given and a later request must agree with.
#[derive(Debug, Default)]
pub struct Memory {
    /// Names of tools that the script called though they were not declared.
    pub invented: HashSet<String>,
    /// Anthropic: the signature of the thinking before these calls, by [`fingerprint`].
    pub thought: HashMap<String, String>,
}

/// One answer's calls, told from every other answer's of the session.
pub fn fingerprint(turn: usize, calls: &[(String, Value)]) -> String {
    let mut text = turn.to_string();
    for (name, input) in calls {
        text.push_str(&format!("\n{name} {input}"));
    }
    text
}

pub fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub fn list_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The first key that is not one of `known`.
pub fn unknown_field<'a>(value: &'a Value, known: &[&str]) -> Option<&'a str> {
    let keys = value.as_object()?.keys();
    keys.map(String::as_str).find(|key| !known.contains(key))
}

pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Name, uniqueness and an object for a schema: the same in every protocol.
pub fn check_tool(seen: &mut Vec<String>, name: &str, schema: Option<&Value>) -> Result<(), Fault> {
    demand!(
        is_name(name),
        "tools.{}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$': {name:?}",
        seen.len()
    );
    demand!(
        !seen.iter().any(|n| n == name),
        "tools: Tool names must be unique: {name}"
    );
    demand!(
        schema.is_none_or(|s| text_of(s, "type") == "object"),
        "tools.{}: Invalid schema for function '{name}': schema must be of 'type: \"object\"'",
        seen.len()
    );
    let choices = ["oneOf", "anyOf", "allOf", "enum", "not"];
    let choice = choices
        .iter()
        .find(|key| schema.is_some_and(|s| s.get(**key).is_some()));
    demand!(
        choice.is_none(),
        "tools.{}: Invalid schema for function '{name}': it has {choice:?} at the top level",
        seen.len()
    );
    let properties = schema.and_then(|s| s["properties"].as_object());
    for (property, schema) in properties.into_iter().flatten() {
        let is_fit = (1..=64).contains(&property.len())
            && property
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
            && (schema.is_object() || schema.is_boolean());
        demand!(
            is_fit,
            "tools.{}: Invalid schema for function '{name}': property {property:?}",
            seen.len()
        );
    }
    seen.push(name.to_string());
    Ok(())
}

/// What OpenAI demands of a function besides.
pub fn check_properties(name: &str, schema: Option<&Value>) -> Result<(), Fault> {
    demand!(
        schema.is_none_or(|s| s["properties"].is_object()),
        "Invalid schema for function '{name}': In context=(), object schema missing properties"
    );
    Ok(())
}

/// A call in the history: its name is valid, and the tool is declared or was invented by
/// the model itself.
pub fn check_called(name: &str, tools: &[String], memory: &Memory) -> Result<(), Fault> {
    demand!(
        is_name(name),
        "the name of a called tool should match '^[a-zA-Z0-9_-]{{1,64}}$': {name:?}"
    );
    demand!(
        tools.iter().any(|t| t == name) || memory.invented.contains(name),
        "tool {name:?} is called in the history but not declared"
    );
    Ok(())
}

/// The calls of one answer that wait for their results, and every id seen so far.
#[derive(Default)]
pub struct Calls {
    ids: HashSet<String>,
    open: Vec<String>,
    answered: HashSet<String>,
}

impl Calls {
    pub fn ask(&mut self, id: &str) -> Result<(), Fault> {
        demand!(!id.is_empty(), "the id of a call is empty");
        demand!(
            self.ids.insert(id.to_string()),
            "call ids must be unique: {id}"
        );
        self.open.push(id.to_string());
        Ok(())
    }

    /// `Err` says whether the id was answered before or never asked.
    pub fn answer(&mut self, id: &str) -> Result<(), Misplaced> {
        match self.open.iter().position(|open| open == id) {
            Some(at) => {
                self.open.remove(at);
                self.answered.insert(id.to_string());
                Ok(())
            }
            None if self.answered.contains(id) => Err(Misplaced::Twice),
            None => Err(Misplaced::Orphan),
        }
    }

    pub fn open(&self) -> &[String] {
        &self.open
    }
}

pub enum Misplaced {
    Twice,
    Orphan,
}

/// A data URL of an image, or what is wrong with it.
pub fn check_image_url(url: &str) -> Result<(), Fault> {
    let Some((kind, data)) = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
    else {
        demand!(
            false,
            "Invalid 'image_url': expected a base64-encoded data URL"
        );
        return Ok(());
    };
    check_image(kind, data)
}

pub fn check_image(media_type: &str, data: &str) -> Result<(), Fault> {
    use base64::Engine;
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    demand!(
        known.contains(&media_type),
        "media_type: Input should be one of {known:?}: {media_type:?}"
    );
    let bytes = base64::engine::general_purpose::STANDARD.decode(data);
    demand!(
        bytes.is_ok_and(|b| !b.is_empty()),
        "Invalid base64-encoded image data"
    );
    Ok(())
}
