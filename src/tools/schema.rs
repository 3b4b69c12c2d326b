//! The words of the schemas. They are written by hand, since every byte of them is in every
//! request.

use serde_json::{Value, json};

pub fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

pub fn string() -> Value {
    json!({"type": "string"})
}

pub fn integer() -> Value {
    json!({"type": "integer"})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

pub fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}
