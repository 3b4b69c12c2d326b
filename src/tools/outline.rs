//! Rendering of JSON as text for a model: `name: value` lines, lists with dashes, texts unescaped.
//! Escaped text costs more tokens, and models copy it wrong.

use serde_json::Value;

/// Returns the fields of an object, or the value. `null` and empty lists are left out.
pub(super) fn outline(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out.trim_end_matches('\n').to_string()
}

fn write(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !is_nothing(value)) {
                indent(out, depth);
                out.push_str(name);
                out.push(':');
                field(out, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(out, depth);
                out.push('-');
                field(out, item, depth);
            }
        }
        value => {
            for line in scalar(value).split('\n') {
                indent(out, depth);
                out.push_str(line);
                out.push('\n');
            }
        }
    }
}

/// Writes the value that follows a name or a dash: on the same line if it is one line.
fn field(out: &mut String, value: &Value, depth: usize) {
    let text = scalar(value);
    let is_line = !value.is_object() && !value.is_array() && !text.contains('\n');
    if is_line {
        out.push(' ');
        out.push_str(&text);
        out.push('\n');
    } else {
        out.push('\n');
        write(out, value, depth + 1);
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_told_as_text() {
        let call = json!({
            "path": "a.py", "limit": 3, "none": null, "edits": [{"new": "x\n  \"y\"\n", "old": "z"}],
        });
        assert_eq!(
            outline(&call),
            "edits:\n  -\n    new:\n      x\n        \"y\"\n      \n    old: z\nlimit: 3\npath: a.py"
        );
        assert_eq!(outline(&json!({})), "");
        assert_eq!(outline(&json!("a\nb")), "a\nb");
    }
}
