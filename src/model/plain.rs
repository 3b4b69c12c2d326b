//! Plain-text replacements for content that a protocol has no field for.

use crate::core::request::Request;

/// Returns both system texts as one.
pub(super) fn system(request: &Request) -> String {
    [request.system.trim_end(), request.instructions.trim_end()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Returns the text of a result, for a protocol without failed results.
pub(super) fn result(text: &str, is_error: bool) -> String {
    match (text.is_empty(), is_error) {
        (true, true) => "error".to_string(),
        (true, false) => "(no output)".to_string(),
        (false, true) => format!("error: {text}"),
        (false, false) => text.to_string(),
    }
}

/// Returns the label before an image that cannot be inside its result.
pub(super) fn image_label(name: &str, id: &str) -> String {
    format!("Image in the result of {name} ({id}):")
}
