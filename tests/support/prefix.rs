//! What the model reads of a request, and how much of it is the request before: what a
//! provider's cache can give back.

use serde_json::Value;

/// A request against the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub bytes: usize,
    /// So many bytes at its beginning are those of the request before.
    pub same: usize,
    /// All bytes of that one.
    pub former: usize,
}

impl Asked {
    /// As the scripted server counts: bytes / 4.
    pub fn tokens(&self) -> u64 {
        self.bytes as u64 / 4
    }
}

/// The requests of one model, in order.
#[derive(Debug, Default)]
pub struct Row {
    former: String,
    pub asked: Vec<Asked>,
}

impl Row {
    pub fn see(&mut self, body: &Value) {
        let prompt = prompt(body);
        let both = self.former.bytes().zip(prompt.bytes());
        self.asked.push(Asked {
            bytes: prompt.len(),
            same: both.take_while(|(a, b)| a == b).count(),
            former: self.former.len(),
        });
        self.former = prompt;
    }
}

/// What the model reads, in the order in which all servers put it together whatever the order
/// in the JSON: tools, system prompt, messages. Cache marks are not read.
pub fn prompt(body: &Value) -> String {
    let mut text = String::new();
    for part in ["tools", "system", "instructions", "systemInstruction"] {
        push_without_marks(&mut text, &body[part]);
    }
    for list in ["messages", "input", "contents"] {
        for message in body[list].as_array().into_iter().flatten() {
            push_without_marks(&mut text, message);
        }
    }
    text
}

fn push_without_marks(text: &mut String, value: &Value) {
    let mut value = value.clone();
    without_marks(&mut value);
    text.push_str(&value.to_string());
}

fn without_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(without_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        _ => {}
    }
}
