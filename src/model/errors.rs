//! What a provider's error means: the class decides whether the request is sent again,
//! shortened, or shown to the user.
//!
//! The wordings of all providers are known in one place, because routers and compatible
//! servers pass on the words of whoever is behind them.
//!
//! Invariant: the message carries the server's own words, clipped and without control
//! characters, and nothing of the request.

use serde_json::Value;

use crate::core::entry::{Failure, FailureClass};

/// As much of a server's words as a person reads, in characters.
const MAX_WORDS: usize = 500;

/// An answer with another status than success. The message is the server's own, if it has one.
pub fn classify(status: u16, body: &str) -> Failure {
    let said = Said::in_body(body);
    let message = said.message.clone();
    failure(status, &said, message)
}

/// An error inside a stream that began well.
pub fn in_stream(error: &Value) -> Failure {
    let said = Said::in_value(error);
    let message = match said.message.as_str() {
        "" => "the provider broke off its answer with an error".to_string(),
        words => format!("the provider broke off its answer: {words}"),
    };
    failure(said.status(), &said, message)
}

/// A stream that ended before the protocol's own end.
pub fn cut() -> Failure {
    Failure {
        class: FailureClass::Network,
        message: "the stream was cut before the answer ended".to_string(),
        hint: None,
    }
}

/// An answer that makes no sense in its protocol.
pub fn nonsense(what: impl Into<String>) -> Failure {
    Failure {
        class: FailureClass::Protocol,
        message: what.into(),
        hint: None,
    }
}

/// A server's words on one line: no control characters, at most 500 characters.
pub fn clip(words: &str) -> String {
    let mut out = String::new();
    let mut room = MAX_WORDS;
    for word in words
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|w| !w.is_empty())
    {
        if !out.is_empty() {
            out.push(' ');
            room = room.saturating_sub(1);
        }
        let taken: String = word.chars().take(room).collect();
        room -= taken.chars().count();
        out.push_str(&taken);
        if taken.len() < word.len() || room == 0 {
            out.push('…');
            break;
        }
    }
    out
}

/// What a server says of an error, whatever shape it gives it.
#[derive(Default)]
struct Said {
    message: String,
    /// `code`, `type`, `status` and reasons, in lower case.
    codes: Vec<String>,
}

impl Said {
    fn in_body(body: &str) -> Said {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Said::in_value(&value),
            Err(_) => Said {
                message: clip(body),
                codes: Vec::new(),
            },
        }
    }

    /// `{"error": {...}}`, `{"error": "..."}`, `[{"error": ...}]`, `{"message": ...}`,
    /// `{"detail": ...}`, or the error itself.
    fn in_value(value: &Value) -> Said {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|e| !e.is_null()).unwrap_or(value);
        let mut said = Said {
            message: words(error),
            codes: ["code", "type", "status"]
                .iter()
                .filter_map(|key| code(error.get(key)?))
                .collect(),
        };
        let details = error.get("details").and_then(Value::as_array);
        let reasons = details.into_iter().flatten().take(16);
        said.codes
            .extend(reasons.filter_map(|d| code(d.get("reason")?)));
        said
    }

    fn is(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|c| codes.contains(&c.as_str()))
    }

    /// The HTTP status that the codes of an error in a stream stand for.
    fn status(&self) -> u16 {
        if let Some(status) = self.codes.iter().find_map(|c| c.parse().ok()) {
            return status;
        }
        if self.is(&[
            "rate_limit_exceeded",
            "rate_limit_error",
            "resource_exhausted",
            "too_many_requests",
        ]) {
            429
        } else if self.is(&[
            "authentication_error",
            "invalid_api_key",
            "permission_error",
            "permission_denied",
            "unauthenticated",
        ]) {
            401
        } else if self.is(&["not_found_error", "not_found", "model_not_found"]) {
            404
        } else if self.is(&[
            "invalid_request_error",
            "invalid_prompt",
            "invalid_argument",
            "bad_request",
            "failed_precondition",
        ]) {
            400
        } else {
            503
        }
    }
}

fn words(error: &Value) -> String {
    let message = ["message", "msg", "detail"]
        .iter()
        .find_map(|key| error.get(key).filter(|v| !v.is_null()))
        .unwrap_or(error);
    let message = match message {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // A router says "provider returned error" and keeps the provider's words beside it.
    match error.pointer("/metadata/raw").and_then(Value::as_str) {
        Some(raw) => clip(&format!("{message}: {raw}")),
        None => clip(&message),
    }
}

fn code(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_lowercase()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn failure(status: u16, said: &Said, message: String) -> Failure {
    let (class, hint) = class(status, said);
    Failure {
        class,
        message,
        hint: hint.map(str::to_string),
    }
}

const BILLING: &str = "check the plan and the billing of the account";
const NAME: &str = "check the model's name behind `provider/`, and base_url";

fn class(status: u16, said: &Said) -> (FailureClass, Option<&'static str>) {
    let text = said.message.to_lowercase();
    // Waiting does not help: the account has nothing left.
    if status == 402 || said.is(&["insufficient_quota"]) {
        return (FailureClass::Auth, Some(BILLING));
    }
    let refused_key =
        said.is(&["api_key_invalid", "invalid_api_key"]) || text.contains("api key not valid");
    match status {
        // Which key that is, the caller knows.
        401 | 403 => (FailureClass::Auth, None),
        _ if refused_key => (FailureClass::Auth, None),
        413 => (FailureClass::TooLong, None),
        // More than the rate allows in one request: it never fits, however long we wait.
        429 if text.contains("request too large") => (FailureClass::TooLong, None),
        429 => (FailureClass::RateLimit, None),
        _ if too_long(said, &text) => (FailureClass::TooLong, None),
        408 | 409 | 425 | 500.. => (FailureClass::Overloaded, None),
        404 => (FailureClass::BadRequest, Some(NAME)),
        _ if said.is(&["model_not_found"]) => (FailureClass::BadRequest, Some(NAME)),
        _ => (FailureClass::BadRequest, None),
    }
}

/// `text` is in lower case.
fn too_long(said: &Said, text: &str) -> bool {
    const CODES: [&str; 3] = [
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
    ];
    const SURE: [&str; 8] = [
        "prompt is too long",
        "input is too long",
        "input token count",
        "prompt token count",
        "too many tokens",
        "reduce the length of",
        "string too long",
        "`inputs` tokens +",
    ];
    const LIMIT: [&str; 8] = [
        "context length",
        "context window",
        "context size",
        "context limit",
        "prompt length",
        "model length",
        "max_model_len",
        "token limit",
    ];
    const BROKEN: [&str; 9] = [
        "exceed",
        "too long",
        "too large",
        "larger than",
        "longer than",
        "greater than",
        "maximum",
        "overflow",
        "not enough",
    ];
    let has = |list: &[&str]| list.iter().any(|words| text.contains(words));
    said.is(&CODES) || has(&SURE) || (has(&LIMIT) && has(&BROKEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureClass::*;

    fn class_of(status: u16, body: &str) -> FailureClass {
        classify(status, body).class
    }

    #[test]
    fn every_providers_words_for_too_long_are_known() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model.","code":null}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","type":"BadRequestError","code":400}"#,
            ),
            (
                400,
                r#"{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096."}}"#,
            ),
            (
                400,
                r#"{"error":"the input length exceeds the context length"}"#,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}","provider_name":"X"}}}"#,
            ),
            (
                400,
                "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            ),
            (413, "<html>413 Request Entity Too Large</html>"),
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ),
        ] {
            assert_eq!(class_of(status, body), TooLong, "{status} {body}");
        }
    }

    #[test]
    fn statuses_and_codes_have_their_class() {
        for (status, body, want) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                Auth,
            ),
            (403, "", Auth),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#, Auth),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#,
                Auth,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
                Auth,
            ),
            (
                429,
                r#"{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}"#,
                RateLimit,
            ),
            (429, "too many tokens, wait before trying again", RateLimit),
            (500, "{}", Overloaded),
            (529, "", Overloaded),
            (408, "", Overloaded),
            (
                404,
                r#"{"error":"model \"x\" not found, try pulling it first"}"#,
                BadRequest,
            ),
            (
                400,
                r#"{"error":{"message":"max_tokens is too large: 32000. This model supports at most 16384 completion tokens"}}"#,
                BadRequest,
            ),
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                BadRequest,
            ),
        ] {
            assert_eq!(class_of(status, body), want, "{status} {body}");
        }
        assert_eq!(classify(404, "").hint.as_deref(), Some(NAME));
        assert_eq!(classify(402, "").hint.as_deref(), Some(BILLING));
    }

    #[test]
    fn an_error_in_a_stream_is_known_by_its_code() {
        let class = |text: &str| in_stream(&serde_json::from_str(text).unwrap()).class;
        assert_eq!(
            class(r#"{"code":"rate_limit_exceeded","message":"slow down"}"#),
            RateLimit
        );
        assert_eq!(class(r#"{"code":502,"message":"upstream"}"#), Overloaded);
        assert_eq!(
            class(r#"{"code":"context_length_exceeded","message":"x"}"#),
            TooLong
        );
        assert_eq!(
            class(r#"{"code":"invalid_prompt","message":"x"}"#),
            BadRequest
        );
        assert_eq!(class(r#"{"code":"server_error"}"#), Overloaded);
        assert_eq!(class("null"), Overloaded);
        assert_eq!(class(r#""the model crashed""#), Overloaded);
    }

    #[test]
    fn the_servers_words_are_kept_on_one_short_line() {
        let failure = classify(400, r#"{"error":{"message":"bad\u001b[31m\nthing"}}"#);
        assert_eq!(failure.message, "bad [31m thing");
        assert_eq!(clip(&"ä".repeat(9000)).chars().count(), MAX_WORDS + 1);
        assert_eq!(clip(&"ab ".repeat(9000)).chars().count(), MAX_WORDS + 1);
        assert_eq!(classify(502, "").message, "");
    }
}
