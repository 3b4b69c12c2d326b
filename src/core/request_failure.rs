//! The message of a failed model request: the failure, the reason, and at the end the address.

/// The parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestFailure<'a> {
    pub provider: &'a str,
    /// `HTTP 400: …` with the server's words, or another reason.
    pub reason: &'a str,
}

/// Returns `request to NAME failed: REASON (ADDRESS)`.
pub(crate) fn message(provider: &str, reason: &str, address: &str) -> String {
    format!("request to {provider} failed: {reason} ({address})")
}

impl<'a> RequestFailure<'a> {
    /// Parses a message, also one of an older version, `asking NAME at ADDRESS: REASON`. `None`: it
    /// is another message.
    pub fn parse(message: &'a str) -> Option<RequestFailure<'a>> {
        if let Some(rest) = message.strip_prefix("asking ") {
            let (provider, rest) = rest.split_once(" at ")?;
            let (_, reason) = rest.split_once(": ")?;
            return Some(RequestFailure { provider, reason });
        }
        let rest = message.strip_prefix("request to ")?;
        let (provider, reason) = rest.split_once(" failed: ")?;
        let reason = match reason.rfind(" (http") {
            Some(end) => &reason[..end],
            None => reason,
        };
        Some(RequestFailure { provider, reason })
    }

    /// The server's own words, without the status before them. `None`: it gave none.
    pub fn server_words(&self) -> Option<&'a str> {
        match self.reason.strip_prefix("HTTP ") {
            Some(status) => status.split_once(": ").map(|(_, words)| words),
            None => Some(self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_this_version_and_of_an_older_one_is_taken_apart() {
        let url = "http://127.0.0.1:8080/v1/messages";
        let new = |reason: &str| message("mock", reason, url);
        let tried = new("HTTP 529: see http://h (later)") + " (tried 3 times)";
        let old = format!("asking mock at {url}: HTTP 401: no such key: x");
        let table = [
            (new("HTTP 401: no such key: x"), Some("no such key: x")),
            (old, Some("no such key: x")),
            (tried, Some("see http://h (later)")),
            (new("HTTP 500"), None),
            (new("connection refused"), Some("connection refused")),
        ];
        for (message, words) in table {
            let parsed = RequestFailure::parse(&message).unwrap();
            assert_eq!(parsed.provider, "mock");
            assert_eq!(parsed.server_words(), words, "{message}");
        }
        assert_eq!(RequestFailure::parse("the answer is empty"), None);
    }
}
