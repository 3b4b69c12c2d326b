//! JSON-RPC 2.0, as MCP uses it over stdio: one object per line.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::core::half_character::read_lenient;

/// JSON-RPC error code: unknown method.
pub const METHOD_NOT_FOUND: i64 = -32_601;

const MESSAGE_MAX_BYTES: usize = 2048;

/// An error in the answer of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    #[serde(default)]
    pub code: i64,
    #[serde(default)]
    pub message: String,
    pub data: Option<Value>,
}

/// A message of a server that is not an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// A request, which needs an answer.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// Not a message: a banner, or text for stderr.
    Noise,
}

/// Returns the line of a request.
pub fn request(id: &str, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

pub fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// Returns the line that answers a request of the server.
pub fn answer(id: &Value, result: Result<Value, RpcError>) -> Vec<u8> {
    line(&match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(e) => json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": { "code": e.code, "message": e.message },
        }),
    })
}

fn line(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

/// Reads an answer. Returns `None` if the line is not JSON, or has neither a result nor an error.
pub fn read_answer(line: &[u8]) -> Option<Result<Value, RpcError>> {
    let mut message = value(line)?;
    let answer = message.as_object_mut()?;
    if let Some(error) = answer.remove("error").filter(|e| !e.is_null()) {
        let mut error = serde_json::from_value(error).unwrap_or(RpcError {
            code: 0,
            message: "an error that cannot be read".to_string(),
            data: None,
        });
        error.message = super::clean(&error.message, MESSAGE_MAX_BYTES);
        return Some(Err(error));
    }
    answer.remove("result").map(Ok)
}

/// Reads any other line.
pub fn read_other(line: &[u8]) -> ServerMessage {
    let Some(mut message) = value(line) else {
        return ServerMessage::Noise;
    };
    let params = message["params"].take();
    let id = message.get_mut("id").map(Value::take);
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        return ServerMessage::Noise;
    };
    let method = method.to_string();
    match id {
        Some(id) if id.is_string() || id.is_number() => {
            ServerMessage::Request { id, method, params }
        }
        Some(_) => ServerMessage::Noise,
        None => ServerMessage::Notification { method, params },
    }
}

/// Reads a JSON object. Bytes that are not UTF-8 are replaced.
fn value(line: &[u8]) -> Option<Value> {
    let value = read_lenient(line).ok()?;
    value.is_object().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_results_or_errors_and_nothing_else() {
        assert_eq!(
            read_answer(br#"{"id":"a","result":{}}"#),
            Some(Ok(json!({})))
        );
        assert_eq!(
            read_answer(b"{\"id\":\"a\",\"result\":\"\xff\"}"),
            Some(Ok(json!("\u{fffd}")))
        );
        let error = read_answer(br#"{"id":"a","error":{"code":-1,"message":"no\u001b[0m"}}"#);
        let error = error.unwrap().unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-1, "no[0m"));
        assert!(read_answer(br#"{"id":"a","error":"no"}"#).unwrap().is_err());
        for line in ["", "[]", "{\"id\":\"a\"}", "ready", "{\"id\":\"a\",\"resul"] {
            assert_eq!(read_answer(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_banner_is_noise() {
        for line in [
            "Server ready",
            "",
            "[1]",
            "{}",
            r#"{"id":null,"method":"x"}"#,
        ] {
            assert_eq!(read_other(line.as_bytes()), ServerMessage::Noise, "{line}");
        }
        let ping = read_other(br#"{"id":3,"method":"ping"}"#);
        assert!(matches!(ping, ServerMessage::Request { id, .. } if id == 3));
    }
}
