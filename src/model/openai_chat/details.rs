//! `reasoning_details`: data beside the thinking that OpenRouter and other gateways send, and
//! expect back unchanged in the next request. It contains signatures and encrypted reasoning.
//! Without it, Gemini 3 behind a gateway refuses the request.
//! <https://openrouter.ai/docs/use-cases/reasoning-tokens>
//!
//! A detail arrives complete or in pieces. Pieces of a text or a summary are joined, all other
//! fields stay unchanged.

use serde_json::{Map, Value};

/// Maximum number of details: more than any real answer has.
const MAX_DETAILS: usize = 4096;

/// Name of the field of a message, in answers and in requests.
pub(super) const FIELD: &str = "reasoning_details";

/// Fields whose pieces are joined.
const STREAMED: [&str; 2] = ["text", "summary"];

#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Adds the details of a message or pieces of them. Returns the number of stored bytes, or
    /// `None` if there are too many details.
    pub(super) fn feed(&mut self, message: &Value) -> Option<usize> {
        let given = message.get(FIELD).and_then(Value::as_array);
        let mut bytes = 0;
        let pieces = given.into_iter().flatten().filter_map(Value::as_object);
        // A detail without a type cannot be sent back.
        for piece in pieces.filter(|piece| piece.contains_key("type")) {
            bytes += piece.values().map(size).sum::<usize>();
            if let Some(open) = self.0.last_mut().filter(|open| goes_on(open, piece)) {
                join(open, piece);
            } else if self.0.len() < MAX_DETAILS {
                self.0.push(piece.clone());
            } else {
                return None;
            }
        }
        Some(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_value(self) -> Value {
        self.0.into_iter().map(Value::Object).collect()
    }
}

/// Returns whether `piece` continues the text or summary `open`. It does until the detail is
/// signed or another detail begins.
fn goes_on(open: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let is_streamed = |detail: &Map<String, Value>| {
        let kind = detail.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| ["reasoning.text", "reasoning.summary"].contains(&kind))
    };
    let is_signed = open.get("signature").is_some_and(|s| !is_blank(s));
    let same = |key: &str| open.get(key) == piece.get(key);
    let may_be_same = |key: &str| {
        let [a, b] = [open, piece].map(|detail| detail.get(key).filter(|v| !v.is_null()));
        a.is_none() || b.is_none() || a == b
    };
    is_streamed(piece) && !is_signed && same("type") && same("index") && may_be_same("id")
}

fn join(open: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (key, value) in piece {
        match (open.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if STREAMED.contains(&&**key) => {
                text.push_str(more);
            }
            (Some(known), value) if !is_blank(known) || is_blank(value) => {}
            (_, value) => {
                open.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => value.to_string().len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
