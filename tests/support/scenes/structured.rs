//! Answers in a JSON Schema.

use crate::scenes::{scripted, step};
use crate::{Home, Run};

pub const SCHEMA: &str =
    r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;

pub fn says(texts: &[&str]) -> Home {
    let steps: Vec<String> = texts.iter().map(|text| step(text, &[])).collect();
    scripted(&steps)
}

pub fn asks(home: &Home) -> Run {
    home.run(["-p", "count", "--json-schema", SCHEMA])
}
