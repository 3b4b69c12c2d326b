//! Headers that repeat parts of a message, for proxies that do not read the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Returns the protocol version that a message contains itself, as in the newer era.
pub fn own_version(message: &Value) -> Option<&str> {
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
}

/// Returns the headers of a message of the newer era.
pub fn of_stateless(message: &Value, version: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(version) = HeaderValue::from_str(version) {
        headers.insert(PROTOCOL_VERSION, version);
    }
    let method = message["method"].as_str().unwrap_or_default();
    headers.insert(METHOD, encoded(method));
    let params = &message["params"];
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
        _ => None,
    };
    if let Some(name) = name {
        headers.insert(NAME, encoded(name));
    }
    headers
}

/// Encodes `text` in Base64 if a header cannot contain it.
pub fn encoded(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let as_it_is = is_plain.then(|| HeaderValue::from_str(text).ok()).flatten();
    as_it_is.unwrap_or_else(|| {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
        HeaderValue::from_str(&encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of the specification.
    #[test]
    fn values_that_do_not_fit_a_header_are_encoded() {
        for (text, want) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encoded(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_message_of_the_newer_era_says_what_it_is() {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        let named = |method: &str, params: Value| {
            let mut message = json!({ "method": method, "params": params });
            message["params"]["_meta"] = meta.clone();
            let version = own_version(&message).unwrap().to_string();
            let headers = of_stateless(&message, &version);
            assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
            assert_eq!(headers["mcp-method"], method);
            headers
                .get(NAME)
                .map(|name| name.to_str().unwrap().to_string())
        };
        assert_eq!(
            named("tools/call", json!({ "name": "ä" })).as_deref(),
            Some("=?base64?w6Q=?=")
        );
        assert_eq!(
            named("resources/read", json!({ "uri": "file:///x" })).as_deref(),
            Some("file:///x")
        );
        assert_eq!(
            named("tasks/get", json!({ "taskId": "t" })).as_deref(),
            Some("t")
        );
        assert_eq!(named("tools/list", json!({ "name": "x" })), None);
        assert_eq!(own_version(&json!({ "params": {} })), None);
    }
}
