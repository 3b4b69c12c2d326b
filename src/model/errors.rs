//! The meaning of a provider's error. Its class decides whether the request is sent again,
//! shortened, or shown to the user.
//!
//! The wordings of all providers are in one place, because routers and compatible servers pass on
//! the messages of other providers.
//!
//! Invariant: the message carries the server's own words, clipped and without control
//! characters, and nothing of the request.

use reqwest::StatusCode;
use serde_json::Value;

use super::{no_model, too_long};
use crate::core::entry::{Failure, FailureClass};
use crate::core::half_character::read_lenient;
use crate::core::request_failure::{UNANSWERED, UNREACHED};
use crate::net::client::{causes, proxy_of, reason};

/// Maximum length of a server's message, in characters.
const MAX_WORDS: usize = 500;

/// Classifies an answer whose status is not success. The message is the server's own, if it has
/// one. `model` is the name in the request, or empty.
pub(crate) fn classify(status: u16, body: &str, model: &str) -> Failure {
    let said = ErrorContent::in_body(body);
    let message = clip(&said.words);
    failure(status, &said, message, model)
}

/// Classifies an error inside a stream that began successfully.
pub(crate) fn in_stream(error: &Value) -> Failure {
    let said = ErrorContent::in_value(error);
    let message = match clip(&said.words).as_str() {
        "" => "the provider broke off its answer with an error".to_string(),
        words => format!("the provider broke off its answer: {words}"),
    };
    // Without a code the words decide.
    let is_plain = said.codes.is_empty() && no_model::is_refused(400, &[], None, &said.words, "");
    let status = if is_plain { 400 } else { said.status() };
    failure(status, &said, message, "")
}

/// Returns the failure of a stream, which may name the model of the request as one that is gone.
pub(crate) fn of_model(mut failure: Failure, model: &str) -> Failure {
    let is_busy = failure.class == FailureClass::Overloaded;
    if is_busy && no_model::is_refused(500, &[], None, &failure.message, model) {
        failure.class = FailureClass::NoModel;
        failure.hint = Some(NO_MODEL.to_string());
    }
    failure
}

/// Returns the failure for a stream that ended too early.
pub(crate) fn cut() -> Failure {
    network("the stream was cut before the answer ended")
}

/// Returns the failure for a request or an answer that did not arrive.
pub(crate) fn network(message: &str) -> Failure {
    Failure::new(FailureClass::Network, message.to_string())
}

const PROXY_PASSWORD: &str =
    "put the name and the password into the variable of the proxy: http://NAME:PASSWORD@HOST:PORT";

/// Beginning of the library's error if the name of a server is not resolved.
const UNRESOLVED: &str = "dns error";

/// Beginning of the library's error if a proxy refuses a tunnel. The status is missing, except 407.
const NO_TUNNEL: &str = "tunnel error: unsuccessful";

/// Returns whether no server is there: it refuses the connection, does not answer, or has no address
/// or route.
pub(crate) fn is_of_absent_server(error: &reqwest::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let is_absent = |cause: &(dyn std::error::Error + 'static)| {
        let kind = cause.downcast_ref::<std::io::Error>().map(|e| e.kind());
        matches!(
            kind,
            Some(ConnectionRefused | HostUnreachable | NetworkUnreachable)
        ) || cause.to_string().starts_with(UNRESOLVED)
    };
    error.is_connect() && (error.is_timeout() || causes(error).any(is_absent))
}

const CHECK_PROXY: &str =
    "the proxy cannot reach this address: check the proxy, or add the host to NO_PROXY";

/// Words of errors of connections, and the hint for each. Those with `true` do not pass by themselves.
const NOT_CONNECTED: [(&str, bool, &str); 5] = [
    (
        "unknownissuer",
        true,
        "trust its authority: set ca_file in [providers.NAME], or SSL_CERT_FILE, to a file in PEM form",
    ),
    (
        "certificate",
        true,
        "check the address, the certificate of the server and the clock of this machine; ca_file in [providers.NAME] trusts an authority",
    ),
    ("proxy auth", true, PROXY_PASSWORD),
    ("tunnel", false, CHECK_PROXY),
    ("through the proxy", false, CHECK_PROXY),
];

/// Returns the failure for a request that was not sent. A proxy that refused a tunnel is asked for its
/// status.
pub(crate) async fn not_sent(error: reqwest::Error) -> Failure {
    let is_connect = error.is_connect();
    let way = if is_connect { UNREACHED } else { UNANSWERED };
    let url = error.url().cloned().filter(|_| is_connect);
    let mut failure = network(&format!("{way}: {}", reason(error)));
    let proxy = url.as_ref();
    if let Some(proxy) = proxy.and_then(|url| proxy_of(url, |name| std::env::var(name).ok())) {
        let is_refused = failure.message.contains(NO_TUNNEL);
        let status = match url.as_ref().filter(|_| is_refused) {
            Some(url) => proxy.tunnel_status(url).await,
            None => None,
        };
        if let Some(status) = status {
            failure.message = format!("{way}: no tunnel: HTTP {status}");
        }
        failure.message += &format!(" (through the proxy {proxy})");
        if status.is_some_and(is_lasting_refusal) {
            failure.class = FailureClass::Configuration;
            failure.hint = Some(format!(
                "the proxy does not let this address through: set another in {}, or add the host to NO_PROXY",
                proxy.variable
            ));
            return failure;
        }
    }
    let words = failure.message.to_lowercase();
    let mut hints = NOT_CONNECTED.iter().filter(|_| is_connect);
    if let Some((_, is_lasting, hint)) = hints.find(|(word, _, _)| words.contains(word)) {
        failure.hint = Some((*hint).to_string());
        if *is_lasting {
            failure.class = FailureClass::Configuration;
        }
    }
    failure
}

/// Returns whether a proxy would refuse another tunnel with this status too.
fn is_lasting_refusal(status: StatusCode) -> bool {
    let is_passing = matches!(status.as_u16(), 408 | 425 | 429);
    (status.is_client_error() || status.is_redirection()) && !is_passing
}

/// Returns the failure for an answer that violates its protocol.
pub(crate) fn nonsense(what: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Protocol, what.into())
}

/// Returns a server's message on one line, without control characters, at most 500 characters.
pub(crate) fn clip(words: &str) -> String {
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

/// The content of an error, independent of the shape that the server gives it.
#[derive(Default)]
struct ErrorContent {
    /// The complete text. The part that identifies the error may be far from the beginning.
    words: String,
    /// `code`, `type`, `status` and reasons, in lower case.
    codes: Vec<String>,
    /// The part of the request that is refused.
    parameter: Option<String>,
    /// The used-up quota is a daily one (Google).
    per_day: bool,
}

impl ErrorContent {
    fn in_body(body: &str) -> ErrorContent {
        match read_lenient(body.as_bytes()) {
            Ok(value) => ErrorContent::in_value(&value),
            Err(_) => ErrorContent {
                words: body.to_string(),
                ..ErrorContent::default()
            },
        }
    }

    /// `{"error": {...}}`, `{"error": "..."}`, `[{"error": ...}]`, `{"errors": [...]}`,
    /// `{"message": ...}`, `{"detail": ...}`, or the error itself.
    fn in_value(value: &Value) -> ErrorContent {
        let value = value.get(0).unwrap_or(value);
        // `{"error": "Not Found", "message": "words"}`, `{"error": {}, "message": "words"}`
        let is_text = |key: &&str| value.get(key).is_some_and(Value::is_string);
        let is_beside = WORDS.iter().any(is_text);
        let is_full = |e: &Value| e.as_object().is_some_and(|e| !e.is_empty());
        let is_error = |e: &&Value| is_full(e) || !(e.is_null() || is_beside);
        let error = value.get("error").filter(is_error);
        let error = error.or_else(|| value.pointer("/errors/0"));
        let error = error.unwrap_or(value);
        // In `{"error": "words"}`, the code is outside of the error.
        let coded = if error.is_object() { error } else { value };
        // `{"detail": [{"loc": ["body", "model"], ...}]}`
        let of_place = || code(value.pointer("/detail/0/loc/1")?);
        let mut said = ErrorContent {
            words: words(error),
            codes: CODES
                .iter()
                .filter_map(|key| code(coded.get(key)?))
                .collect(),
            parameter: coded.get("param").and_then(code).or_else(of_place),
            per_day: false,
        };
        let details = error.get("details").and_then(Value::as_array);
        let reasons = details.into_iter().flatten().take(16);
        said.per_day = details.into_iter().flatten().any(is_per_day);
        let reasons = reasons.filter_map(|detail| detail.get("reason"));
        let beside = value.get("error").filter(|_| is_beside);
        let more = [beside, error.pointer("/innererror/code")].into_iter();
        said.codes
            .extend(more.flatten().chain(reasons).filter_map(code));
        said
    }

    fn is(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|c| codes.contains(&c.as_str()))
    }

    /// Returns the HTTP status that corresponds to the codes of an error in a stream.
    fn status(&self) -> u16 {
        if let Some(status) = self.codes.iter().find_map(|c| c.parse().ok()) {
            return status;
        }
        if self.is(&RATE_CODES) {
            429
        } else if self.is(&["request_too_large"]) {
            413
        } else if self.is(&["billing_error"]) {
            402
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

/// Codes of rate limits.
const RATE_CODES: [&str; 4] = [
    "rate_limit_exceeded",
    "rate_limit_error",
    "resource_exhausted",
    "too_many_requests",
];

/// Keys of the codes and of the message of an error.
#[rustfmt::skip]
const CODES: [&str; 6] = ["code", "type", "status", "reason", "error_code", "error_type"];
#[rustfmt::skip]
const WORDS: [&str; 5] = ["message", "msg", "detail", "error_description", "error_message"];

/// Returns only the message of an error. Some servers also send back parts of the request.
pub(crate) fn words(error: &Value) -> String {
    let message = WORDS
        .iter()
        .find_map(|key| error.get(key).filter(|v| !v.is_null()))
        .unwrap_or(error);
    let message = match message {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(faults) => messages(faults).unwrap_or_else(|| message.to_string()),
        other => other.to_string(),
    };
    // A gateway puts the sentence where the name of the parameter belongs.
    let sentence = error.get("param").and_then(Value::as_str);
    if let Some(sentence) = sentence.filter(|text| text.contains(' ') && !message.contains(*text)) {
        return format!("{message}: {sentence}");
    }
    // A router says "provider returned error" and puts the provider's message beside it.
    match error.pointer("/metadata/raw").and_then(Value::as_str) {
        Some(raw) => format!("{message}: {raw}"),
        None => message,
    }
}

/// Returns the messages of a list of validation errors: `[{"loc": [...], "msg": "...", "input":
/// ...}]`.
fn messages(faults: &[Value]) -> Option<String> {
    let messages = faults.iter().map(|fault| fault.get("msg")?.as_str());
    Some(messages.collect::<Option<Vec<_>>>()?.join("; "))
}

/// `{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", …}]}`
fn is_per_day(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array);
    let id = |violation: &Value| violation.get("quotaId")?.as_str().map(str::to_string);
    violations
        .into_iter()
        .flatten()
        .filter_map(id)
        .any(|id| id.contains("PerDay"))
}

fn code(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_lowercase()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn failure(status: u16, said: &ErrorContent, message: String, model: &str) -> Failure {
    let (class, hint) = class(status, said, model);
    let message = match message.strip_prefix("model: ") {
        // Anthropic says only the name.
        Some(name) if class == FailureClass::NoModel => {
            format!("the provider has no model {name}: it is retired, or the name is wrong")
        }
        _ => message,
    };
    Failure {
        class,
        message,
        hint: hint.map(str::to_string),
    }
}

pub(crate) const BILLING: &str = "check the plan and the billing of the account";
const NAME: &str = "check the model's name after `provider/`, and base_url";
pub(crate) const OTHER_MODEL: &str =
    "choose another model: -m PROVIDER/MODEL, or /model on the screen";
const NO_MODEL: &str = "choose another model: -m PROVIDER/MODEL, or /model on the screen; fallback_model in the config names models that then answer by themselves";
const TOMORROW: &str =
    "the quota of the day is used up: wait until tomorrow, or choose another model or plan";
const TOOLS: &str = "choose a model that can call tools";

/// Codes of used-up credit. Waiting for some minutes does not help.
const USED_UP_CODES: [&str; 5] = [
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
    "insufficient_balance",
];
const USED_UP: [&str; 11] = [
    "credit balance",
    "insufficient balance",
    "insufficient_quota",
    "billing_hard_limit",
    "out of credits",
    "used all available credits",
    "spending limit",
    "monthly limit",
    "monthly quota",
    "reached your specified api usage limits",
    "calls / month",
];

/// Texts of errors that the same request always gets, whatever the status, each with a hint.
const NEVER: [(&str, &str); 6] = [
    (
        "--jinja",
        "start llama-server with --jinja: without it, it knows no tools",
    ),
    (
        "--enable-auto-tool-choice",
        "start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME",
    ),
    ("does not support tools", TOOLS),
    ("support tool use", TOOLS),
    ("tool calling is not supported", TOOLS),
    ("does not support function calling", TOOLS),
];

fn class(status: u16, said: &ErrorContent, model: &str) -> (FailureClass, Option<&'static str>) {
    let text = said.words.to_lowercase();
    let says = |list: &[&str]| list.iter().any(|words| text.contains(words));
    // Waiting does not help: the account has no credit left.
    if status == 402 || said.is(&USED_UP_CODES) || says(&USED_UP) || is_monthly(&text) {
        return (FailureClass::UsedUp, Some(BILLING));
    }
    if said.per_day {
        return (FailureClass::UsedUp, Some(TOMORROW));
    }
    let wrong_key = ["api key not valid", "incorrect api key", "invalid api key"];
    let refused_key = said.is(&["api_key_invalid", "invalid_api_key"]) || says(&wrong_key);
    let never = NEVER.iter().find(|(words, _)| text.contains(words));
    let parameter = said.parameter.as_deref();
    let has_no_model = || {
        let (codes, words) = (&said.codes, &said.words);
        no_model::is_refused(status, codes, parameter, words, model)
    };
    match status {
        _ if never.is_none() && !refused_key && has_no_model() => {
            (FailureClass::NoModel, Some(NO_MODEL))
        }
        407 => (FailureClass::Configuration, Some(PROXY_PASSWORD)),
        // The caller adds the name of the key.
        401 | 403 => (FailureClass::Auth, None),
        _ if refused_key => (FailureClass::Auth, None),
        _ if never.is_some() => (FailureClass::BadRequest, never.map(|(_, hint)| *hint)),
        _ if too_long::is_too_long(status, &said.codes, &said.words) => {
            (FailureClass::TooLong, None)
        }
        429 => (FailureClass::RateLimit, None),
        // A gateway may replace the status by another one.
        _ if said.is(&["rate_limit_error"]) => (FailureClass::RateLimit, None),
        _ if said.is(&["overloaded_error"]) => (FailureClass::Overloaded, None),
        _ if said.is(&["authentication_error", "permission_error"]) => (FailureClass::Auth, None),
        408 | 409 | 425 | 500.. => (FailureClass::Overloaded, None),
        404 => (FailureClass::BadRequest, Some(NAME)),
        _ => (FailureClass::BadRequest, None),
    }
}

/// Returns whether the text describes a monthly limit.
fn is_monthly(text: &str) -> bool {
    let of_month = ["month", "billing period", "billing cycle"];
    let limit = ["limit", "quota", "credits", "allowance"];
    let over = ["exceeded", "reached", "used up", "used all", "exhausted"];
    let says = |list: &[&str]| list.iter().any(|words| text.contains(words));
    says(&of_month) && says(&limit) && says(&over)
}

#[cfg(test)]
mod tests;
