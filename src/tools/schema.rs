//! The words of the schemas. They are written by hand, since every byte of them is in every
//! request.

use serde_json::{Value, json};

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

pub(super) fn string() -> Value {
    json!({"type": "string"})
}

pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

pub(super) fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub(super) fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(super) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}
