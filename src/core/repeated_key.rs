//! JSON objects that have a key twice. Readers differ in which of the values counts.

use serde_json::Value;

/// Returns whether a text is JSON in which an object has a key twice: it has more pairs than what is read
/// from it.
pub fn has_key_twice(json: &str) -> bool {
    let read = serde_json::from_str(json);
    let json = json.replace(r"\\", "").replace("\\\"", "");
    let signs_in = |text: &str| text.matches(':').count();
    // Every second part is in a string.
    let signs: usize = json.split('"').step_by(2).map(signs_in).sum();
    read.is_ok_and(|read| signs != pairs(&read))
}

fn pairs(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(pairs).sum(),
        Value::Object(object) => object.len() + object.values().map(pairs).sum::<usize>(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
