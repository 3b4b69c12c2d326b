//! The body of a request: JSON, with a size limit.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Maximum size of a body. Images in base64 make a message larger than its text.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Number of bytes of a too long body that are read and discarded: a client that is still sending
/// would not see the answer.
const MAX_DRAINED_BYTES: usize = 128 * 1024 * 1024;

/// Reads the JSON of a body.
pub(super) async fn json<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let is_json = kind(&parts.headers) == Some("application/json");
    let bytes = read(&parts.headers, body).await?;
    if !is_json {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is not said to be JSON",
        )
        .hint("send `Content-Type: application/json`"));
    }
    parse(&bytes)
}

/// Same as `json`, for an optional body.
pub(super) async fn json_if_any<T: DeserializeOwned + Default>(
    request: Request,
) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let is_json = kind(&parts.headers) == Some("application/json");
    let bytes = read(&parts.headers, body).await?;
    match (bytes.is_empty(), is_json) {
        (true, _) => Ok(T::default()),
        (false, true) => parse(&bytes),
        (false, false) => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is not said to be JSON",
        )
        .hint("send `Content-Type: application/json`, or no body")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would accept a list for the fields of an object, in their order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad("the body is not a JSON object")
            .hint("/openapi.json says what it has to be"));
    }
    serde_json::from_slice(bytes).map_err(|e| {
        Problem::bad(format!("the body makes no sense: {e}"))
            .hint("/openapi.json says what it has to be")
    })
}

/// Returns the content type without parameters such as `; charset=utf-8`.
fn kind(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or(kind).trim())
}

/// Reads a complete body, up to a limit.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    let too_long = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {MAX_BYTES} bytes"),
        )
        .hint("put it into a file in the session's folder, and name the file in the message")
    };
    let said = headers.get(header::CONTENT_LENGTH);
    let said = said.and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|bytes| bytes > MAX_BYTES) {
        // A client that waits for permission to send gets the answer at once.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_long());
    }
    if said.is_some() {
        let bytes = to_bytes(body, MAX_BYTES).await;
        return bytes.map(Into::into).map_err(|_| cut());
    }
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| cut())?;
        if bytes.len() + piece.len() > MAX_BYTES {
            return Err(too_long());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn cut() -> Problem {
    Problem::bad("the body is not whole").hint("send it again")
}

async fn drain(body: Body) {
    let mut left = MAX_DRAINED_BYTES;
    let mut stream = body.into_data_stream();
    while let Some(Ok(piece)) = stream.next().await {
        match left.checked_sub(piece.len()) {
            Some(less) => left = less,
            None => return,
        }
    }
}
