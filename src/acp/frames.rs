//! Frames of the client: JSON-RPC 2.0 messages on stdin, one per line.
//!
//! A frame that cannot be used becomes an error for the client, and the connection stays. A frame
//! is never parsed into a tree: its parameters stay text until its method is known.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::wire::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use crate::core::half_character::without_halves;
use crate::report::{InputLine, next_line};

/// Maximum size of a frame in each direction.
pub(super) const FRAME_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum depth of a frame.
const MAX_DEPTH: usize = 100;

/// Maximum number of frames that wait to be handled.
const WAITING_MAX: usize = 4;

/// Time to leave in order after the end of stdin. Then the process ends in any case.
pub(super) const LEAVING: Duration = Duration::from_millis(950);

/// A message of the client.
#[derive(Debug)]
pub(super) enum Frame {
    Request {
        id: Value,
        method: String,
        params: Box<RawValue>,
    },
    Notification {
        method: String,
        params: Box<RawValue>,
    },
    /// The answer to a request of the agent. `None`: the client refused it.
    Response {
        id: Value,
        result: Option<Box<RawValue>>,
    },
    /// A frame that cannot be used.
    Wrong { id: Value, error: RpcError },
}

/// Returns the frames of stdin until it is closed.
pub(super) fn read() -> mpsc::Receiver<Frame> {
    let (sender, frames) = mpsc::channel(WAITING_MAX);
    // The thread ends with the process, because a read of stdin cannot be cancelled.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        while let Ok(Some(line)) = next_line(&mut stdin, FRAME_MAX_BYTES) {
            let frame = match line {
                InputLine::Whole(line) => parse(&line),
                InputLine::TooLong => {
                    let why = format!("the frame has more than {FRAME_MAX_BYTES} bytes");
                    Some(wrong(Value::Null, RpcError::new(INVALID_REQUEST, why)))
                }
            };
            if let Some(frame) = frame
                && sender.blocking_send(frame).is_err()
            {
                return;
            }
        }
        drop(sender);
        // The other threads may wait for a disk or for another process.
        std::thread::sleep(LEAVING);
        std::process::exit(0);
    });
    frames
}

/// A JSON-RPC message. Which fields it has says what it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Distinguishes a field that is `null` from a missing one.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Returns the message of a line. `None`: the line is blank.
fn parse(line: &[u8]) -> Option<Frame> {
    let failed = |code, why: &str| Some(wrong(Value::Null, RpcError::new(code, why)));
    let Ok(text) = std::str::from_utf8(line) else {
        return failed(PARSE_ERROR, "the frame is not UTF-8");
    };
    let text = &*without_halves(text.trim());
    if text.is_empty() {
        return None;
    }
    if is_too_deep(text) {
        return failed(PARSE_ERROR, "the frame is nested too deeply");
    }
    if text.starts_with('[') {
        return failed(INVALID_REQUEST, "batches are not supported");
    }
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        // A message with the wrong fields is JSON all the same.
        Err(error) if error.is_data() => {
            return failed(INVALID_REQUEST, &format!("not a JSON-RPC message: {error}"));
        }
        Err(error) => return failed(PARSE_ERROR, &format!("the frame is not JSON: {error}")),
    };
    let params = envelope.params.unwrap_or(RawValue::NULL).to_owned();
    Some(match envelope {
        Envelope { id: Some(id), .. } if !is_id(&id) => {
            let why = "the id of a message is a whole number or a string";
            wrong(Value::Null, RpcError::new(INVALID_REQUEST, why))
        }
        Envelope {
            id: Some(id),
            method: Some(method),
            ..
        } => Frame::Request {
            id,
            method: method.into_owned(),
            params,
        },
        Envelope {
            method: Some(method),
            ..
        } => Frame::Notification {
            method: method.into_owned(),
            params,
        },
        Envelope {
            id: Some(id),
            result: Some(result),
            error: None,
            ..
        } => Frame::Response {
            id,
            result: Some(result.to_owned()),
        },
        Envelope {
            id: Some(id),
            error: Some(_),
            ..
        } => Frame::Response { id, result: None },
        Envelope { id, .. } => {
            let why = "the message has no method and no result";
            wrong(id.unwrap_or_default(), RpcError::new(INVALID_REQUEST, why))
        }
    })
}

fn is_id(id: &Value) -> bool {
    id.is_null() || id.is_i64() || id.as_str().is_some_and(|text| text.len() <= 1024)
}

fn wrong(id: Value, error: RpcError) -> Frame {
    Frame::Wrong { id, error }
}

/// Returns whether brackets outside of strings are nested too deeply.
fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &[u8]) -> Option<i64> {
        match parse(line) {
            Some(Frame::Wrong { error, .. }) => Some(error.code),
            _ => None,
        }
    }

    #[test]
    fn frames_that_cannot_be_used_get_an_error() {
        for (line, expected) in [
            (&b"{\"jsonrpc\":"[..], PARSE_ERROR),
            (b"\xff\xfe", PARSE_ERROR),
            (b"nothing", PARSE_ERROR),
            (b"[]", INVALID_REQUEST),
            (b"{\"id\":1}", INVALID_REQUEST),
            (b"{\"id\":1.5,\"method\":\"a\"}", INVALID_REQUEST),
            (b"{\"id\":1,\"method\":7}", INVALID_REQUEST),
            (b"7", INVALID_REQUEST),
        ] {
            assert_eq!(code(line), Some(expected), "{line:?}");
        }
        let deep = format!("{{\"id\":1,\"params\":{}", "[".repeat(10_000));
        assert_eq!(code(deep.as_bytes()), Some(PARSE_ERROR));
        assert!(parse(b" \r\n").is_none());
    }

    #[test]
    fn the_fields_of_a_message_say_what_it_is() {
        let is = |line: &str| match parse(line.as_bytes()) {
            Some(Frame::Request { .. }) => "request",
            Some(Frame::Notification { .. }) => "notification",
            Some(Frame::Response { result, .. }) if result.is_some() => "result",
            Some(Frame::Response { .. }) => "refused",
            _ => "wrong",
        };
        assert_eq!(is("{\"id\":null,\"method\":\"a\"}"), "request");
        assert_eq!(is("{\"method\":\"a\",\"params\":{}}"), "notification");
        assert_eq!(is("{\"id\":\"a\",\"result\":null}"), "result");
        assert_eq!(is("{\"id\":1,\"error\":{}}"), "refused");
    }
}
