//! What is said in plain words where a protocol has no field for it.

use crate::core::request::Request;

/// Both system texts as one.
pub(super) fn system(request: &Request) -> String {
    [request.system.trim_end(), request.instructions.trim_end()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// The result of a call, for a protocol that does not know failed ones.
pub(super) fn result(text: &str, is_error: bool) -> String {
    match (text.is_empty(), is_error) {
        (true, true) => "error".to_string(),
        (true, false) => "(no output)".to_string(),
        (false, true) => format!("error: {text}"),
        (false, false) => text.to_string(),
    }
}

/// Stands before an image that cannot stand inside the result it belongs to.
pub(super) fn image_label(name: &str, id: &str) -> String {
    format!("Image in the result of {name} ({id}):")
}
