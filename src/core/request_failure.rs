//! The message of a failed model request: the reason, the provider, and at the end the address.

/// The parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFailure<'a> {
    pub provider: &'a str,
    /// The server's words with `(HTTP 400)` after them, or another reason. In messages of older
    /// versions the status is first: `HTTP 400: …`.
    pub reason: &'a str,
}

/// Beginnings of the reasons of a request that had no answer: no connection, and none afterwards.
pub const UNREACHED: &str = "cannot reach";
pub const UNANSWERED: &str = "no answer from";

/// Returns `REASON from NAME at ADDRESS`. The status of a `reason` such as `HTTP 400: WORDS` follows
/// the words, and `cannot reach: WHY` becomes `cannot reach NAME at ADDRESS: WHY`.
pub fn message(provider: &str, reason: &str, address: &str) -> String {
    match reason.split_once(": ") {
        Some((status, words)) if is_status(status) && !words.trim().is_empty() => {
            format!("{words} ({status}) from {provider} at {address}")
        }
        Some((way @ (UNREACHED | UNANSWERED), why)) => {
            format!("{way} {provider} at {address}: {why}")
        }
        _ => format!("{reason} from {provider} at {address}"),
    }
}

/// Returns whether this is `HTTP` and a status.
fn is_status(text: &str) -> bool {
    let status = text.strip_prefix("HTTP ");
    status.is_some_and(|s| s.len() == 3 && s.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the last status that a message names: 400 of `… (HTTP 400) from …`.
pub(crate) fn status(message: &str) -> Option<u16> {
    let digits = message
        .rfind("HTTP ")
        .and_then(|at| message.get(at + 5..at + 8));
    digits.and_then(|status| status.parse().ok())
}

impl<'a> RequestFailure<'a> {
    /// Parses a message, also one of an older version: `asking NAME at ADDRESS: REASON`, or
    /// `request to NAME failed: REASON (ADDRESS)`. `None`: it is another message.
    pub fn parse(message: &'a str) -> Option<RequestFailure<'a>> {
        let mut ways = ["asking", UNREACHED, UNANSWERED].into_iter();
        if let Some(rest) = ways.find_map(|way| message.strip_prefix(way)?.strip_prefix(' ')) {
            let (provider, rest) = rest.split_once(" at ")?;
            let (_, reason) = rest.split_once(": ")?;
            return Some(RequestFailure { provider, reason });
        }
        let rest = message.strip_prefix("request to ");
        if let Some((provider, reason)) = rest.and_then(|rest| rest.split_once(" failed: ")) {
            let reason = match reason.rfind(" (http") {
                Some(end) => &reason[..end],
                None => reason,
            };
            return Some(RequestFailure { provider, reason });
        }
        let (rest, _) = message.rsplit_once(" at http")?;
        let (reason, provider) = rest.rsplit_once(" from ")?;
        Some(RequestFailure { provider, reason })
    }

    /// Returns the server's own words, without the status. `None`: it gave none.
    pub fn server_words(&self) -> Option<&'a str> {
        if let Some(status) = self.reason.strip_prefix("HTTP ") {
            return status.split_once(": ").map(|(_, words)| words);
        }
        let rest = self.reason.strip_suffix(')');
        let parts = rest.and_then(|rest| rest.rsplit_once(" ("));
        Some(match parts {
            Some((words, status)) if is_status(status) => words,
            _ => self.reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_its_reason() {
        let url = "http://127.0.0.1:8080/v1/messages";
        for (reason, begins) in [
            (
                "HTTP 401: invalid API key",
                "invalid API key (HTTP 401) from mock at http",
            ),
            ("HTTP 500", "HTTP 500 from mock at http"),
            (
                "cannot reach: connection refused",
                "cannot reach mock at http://127.0.0.1:8080/v1/messages: connection refused",
            ),
            (
                "no answer from: the connection was closed",
                "no answer from mock at http",
            ),
            ("the stream was cut", "the stream was cut from mock at http"),
        ] {
            let message = message("mock", reason, url);
            assert!(message.starts_with(begins), "{message}");
        }
    }

    #[test]
    fn a_message_of_this_version_and_of_older_ones_is_taken_apart() {
        let url = "http://127.0.0.1:8080/v1/messages";
        let new = |reason: &str| message("mock", reason, url);
        let tried = new("HTTP 529: see http://h (later)") + " (tried 3 times)";
        let from = new("HTTP 529: nothing from x at http://h");
        let second = format!("request to mock failed: HTTP 401: no such key: x ({url})");
        let first = format!("asking mock at {url}: HTTP 401: no such key: x");
        let table = [
            (new("HTTP 401: no such key: x"), Some("no such key: x")),
            (second, Some("no such key: x")),
            (first, Some("no such key: x")),
            (tried, Some("see http://h (later)")),
            (from, Some("nothing from x at http://h")),
            (new("HTTP 500"), None),
            (new("connection refused"), Some("connection refused")),
            (
                new("cannot reach: connection refused (through the proxy p of X)"),
                Some("connection refused (through the proxy p of X)"),
            ),
            (new("no answer from: it was closed"), Some("it was closed")),
        ];
        for (message, words) in table {
            let parsed = RequestFailure::parse(&message).unwrap();
            assert_eq!(parsed.provider, "mock");
            assert_eq!(parsed.server_words(), words, "{message}");
        }
        assert_eq!(RequestFailure::parse("the answer is empty"), None);
    }
}
