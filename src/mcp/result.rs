//! The result of a tool call.

use serde_json::Value;

use super::clean;
use super::task::Task;

/// Maximum size of the text of a result.
const TEXT_MAX_BYTES: usize = 8 * 1024 * 1024;
const PARTS_MAX: usize = 256;
const NAME_MAX_BYTES: usize = 2048;

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPart {
    Text(String),
    /// As base64.
    Image {
        mime: String,
        data: String,
    },
    /// A link to content that was not fetched.
    Link {
        uri: String,
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallResult {
    pub parts: Vec<ResultPart>,
    /// The tool reports a failure.
    pub is_error: bool,
}

/// An answer to `tools/call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    Done(CallResult),
    /// The server works on the call and has to be polled.
    Task(Task),
    /// The result has a form that is not supported.
    NotSupported(&'static str),
}

pub fn read(result: &Value) -> Called {
    if !result.is_object() {
        return Called::NotSupported(
            "its result is not an object; the call may have happened all the same",
        );
    }
    match result["resultType"].as_str() {
        Some("input_required") => return Called::NotSupported("it asks for input"),
        Some("task") => {
            return match Task::read(result) {
                Some(task) => Called::Task(task),
                None => Called::NotSupported("it answers with a task that has no id"),
            };
        }
        _ if result["task"].is_object() => {
            return Called::NotSupported("it answers with a task of 2025-11-25");
        }
        _ => {}
    }
    let mut parts = Vec::new();
    let mut left = TEXT_MAX_BYTES;
    let content = result["content"].as_array();
    for block in content.into_iter().flatten().take(PARTS_MAX) {
        let part = part(block, left);
        if let ResultPart::Text(text) = &part {
            left = left.saturating_sub(text.len());
        }
        parts.push(part);
    }
    let structured = &result["structuredContent"];
    let has_text = parts.iter().any(|part| matches!(part, ResultPart::Text(_)));
    if !has_text && !structured.is_null() {
        parts.push(ResultPart::Text(clean(&structured.to_string(), left)));
    }
    Called::Done(CallResult {
        parts,
        is_error: result["isError"] == true,
    })
}

pub(super) fn part(block: &Value, left: usize) -> ResultPart {
    let text = |field: &Value| clean(field.as_str().unwrap_or_default(), left);
    let short = |field: &Value| {
        clean(field.as_str().unwrap_or_default(), NAME_MAX_BYTES).replace('\n', " ")
    };
    match block["type"].as_str().unwrap_or_default() {
        "text" => ResultPart::Text(text(&block["text"])),
        "image" => ResultPart::Image {
            mime: short(&block["mimeType"]),
            data: block["data"].as_str().unwrap_or_default().to_string(),
        },
        "resource_link" => ResultPart::Link {
            uri: short(&block["uri"]),
            name: short(&block["name"]),
        },
        "resource" if block["resource"]["text"].is_string() => {
            ResultPart::Text(text(&block["resource"]["text"]))
        }
        "resource" => ResultPart::Link {
            uri: short(&block["resource"]["uri"]),
            name: "bytes that are not shown".to_string(),
        },
        other => ResultPart::Text(format!(
            "(content of the kind {:?} is not shown)",
            clean(other, 40)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn done(result: &Value) -> CallResult {
        match read(result) {
            Called::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_content_has_its_part() {
        let result = done(&json!({ "isError": true, "content": [
            { "type": "text", "text": "a\u{1b}[2J" },
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource_link", "uri": "file:///x", "name": "x" },
            { "type": "resource", "resource": { "uri": "u", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "u", "blob": "AAAA" } },
            { "type": "hologram" },
            7,
        ] }));
        assert!(result.is_error);
        assert_eq!(result.parts[0], ResultPart::Text("a[2J".into()));
        assert_eq!(result.parts[3], ResultPart::Text("inside".into()));
        assert_eq!(result.parts.len(), 7);
    }

    #[test]
    fn structured_content_is_shown_when_text_is_missing() {
        let structured = json!({ "structuredContent": { "a": 1 }, "content": [] });
        assert_eq!(
            done(&structured).parts,
            [ResultPart::Text("{\"a\":1}".into())]
        );
        let both = json!({ "structuredContent": 1, "content": [{ "type": "text", "text": "t" }] });
        assert_eq!(done(&both).parts, [ResultPart::Text("t".into())]);
    }

    #[test]
    fn nothing_is_made_up_of_an_empty_answer() {
        for empty in [json!({}), json!({ "content": "x" })] {
            assert_eq!(done(&empty), CallResult::default());
        }
        for none in [json!(null), json!([]), json!("x")] {
            assert!(matches!(read(&none), Called::NotSupported(_)), "{none}");
        }
        let asks = json!({ "resultType": "input_required", "inputRequests": {} });
        assert!(matches!(read(&asks), Called::NotSupported(_)));
    }
}
