//! Conversion of a server's answer to the result for the model. All of it is data: bounded, and
//! without control characters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::core::entry::{Image, Outcome};
use crate::core::image;
use crate::mcp::connection::{self, McpError};
use crate::mcp::message;
use crate::mcp::result::{self, CallResult, Called, ResultPart};
use crate::store::blob_ref;
use crate::tools::{self, ToolResult};

pub(super) const IN_DOUBT: &str = "it may or may not have happened; look before you repeat it";

/// Maximum number of images of one result that are shown; further ones are only named.
const IMAGES_MAX: usize = 8;

/// Converts the answer to a call, read from a journal.
pub(super) fn of_line(line: &[u8], inline_max_bytes: usize) -> ToolResult {
    match message::read_answer(line) {
        None => garbled(),
        Some(Err(error)) => failed(&connection::refused("tools/call", error)),
        Some(Ok(answer)) => match result::read(&answer) {
            Called::Done(result) => of_result(result, inline_max_bytes),
            other => ToolResult::error(format!("the server gave no result: {other:?}")),
        },
    }
}

pub(super) fn garbled() -> ToolResult {
    ToolResult::error("the server sent an invalid answer; the call may have happened all the same")
}

/// Returns the result for a running server that gave no answer.
pub(super) fn failed(error: &McpError) -> ToolResult {
    match error {
        McpError::Rpc { error, .. } => refused(error.code, &error.message),
        McpError::Garbled(_) => garbled(),
        McpError::Refused(why) => ToolResult::error(format!("not sent: {why}")),
        McpError::Journal(_) => ToolResult::interrupted(format!("{error}; {IN_DOUBT}")),
        error if error.is_in_doubt() => ToolResult::interrupted(format!("{error}; {IN_DOUBT}")),
        error => ToolResult::error(error.to_string()),
    }
}

/// Returns the result for a server that refused the call, or failed with an internal error.
pub(super) fn refused(code: i64, message: &str) -> ToolResult {
    ToolResult::error(format!(
        "the server answered with an error: {message} ({code})"
    ))
}

/// Converts a result. A text over `inline_max_bytes` is cut, and the whole is stored as a blob.
pub(super) fn of_result(result: CallResult, inline_max_bytes: usize) -> ToolResult {
    let mut lines = Vec::new();
    let mut images = Vec::new();
    let mut blobs = Vec::new();
    for part in result.parts {
        match part {
            ResultPart::Text(text) => lines.push(text),
            ResultPart::Link { uri, name } => lines.push(format!("[link: {name} {uri}]")),
            ResultPart::Image { mime, data } => match shown(&data, images.len()) {
                Ok((line, image, bytes)) => {
                    lines.push(line);
                    images.push(image);
                    blobs.push(bytes);
                }
                Err(why) => lines.push(format!("[an image, {mime}, is not shown: it {why}]")),
            },
        }
    }
    let (mut output, whole) = tools::truncate_output(lines.join("\n"), inline_max_bytes);
    output.images = images;
    blobs.extend(whole);
    let outcome = match result.is_error {
        true => Outcome::Error { output },
        false => Outcome::Done { output },
    };
    ToolResult {
        blobs,
        ..ToolResult::of(outcome)
    }
}

/// Returns the line that names an image, the image, and its bytes.
pub(super) fn shown(data: &str, before: usize) -> Result<(String, Image, Vec<u8>), String> {
    if before >= IMAGES_MAX {
        return Err(format!("comes after the {IMAGES_MAX} that are"));
    }
    let bytes = STANDARD.decode(data.trim());
    let bytes = bytes.map_err(|_| "is not written in base64".to_string())?;
    let known = image::check(&bytes)?;
    let line = format!(
        "[image {}: {}, {} x {} px, {} bytes]",
        before + 1,
        known.media_type,
        known.width,
        known.height,
        bytes.len()
    );
    let image = Image {
        media_type: known.media_type.to_string(),
        blob: blob_ref(&bytes),
    };
    Ok((line, image, bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::refusal::Refusal;

    #[test]
    fn bridge_errors_are_distinguished_from_server_errors() {
        let told = |error: serde_json::Value| {
            let line = json!({ "jsonrpc": "2.0", "id": "c", "error": error });
            of_line(line.to_string().as_bytes(), 1_000).outcome
        };
        let broken = told(Refusal::in_doubt("the connection broke").to_error());
        assert!(
            matches!(&broken, Outcome::Interrupted { why, .. }
                if why.contains("the connection broke") && why.contains("may or may not")),
            "{broken:?}"
        );
        let refused = told(Refusal::not_done("there is no such host").to_error());
        assert_eq!(refused, Outcome::error("not sent: there is no such host"));
        let own = told(json!({ "code": -32602, "message": "no such tool" }));
        assert!(matches!(own, Outcome::Error { .. }), "{own:?}");
    }
}
