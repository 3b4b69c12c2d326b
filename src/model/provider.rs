//! A provider: address, protocol and key.
//!
//! Invariant: a key is never printed. What may hold one goes through [`Provider::redact`].

use super::wire::Protocol;
use crate::config::Quirks;

/// A key. `Debug` and `Display` do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(key.into())
    }

    /// Returns the key. Use it for the header of a request only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Minimum length of a secret. Shorter values are placeholders for local servers (`none`,
/// `ollama`).
const MIN_SECRET_BYTES: usize = 8;

#[derive(Clone)]
pub struct Provider {
    /// Name as in `provider/model`.
    pub name: String,
    pub protocol: Protocol,
    /// Address without the path of the protocol: `https://api.anthropic.com`,
    /// `http://localhost:8080/v1`. `{model}` stands for the model's name.
    pub base_url: String,
    pub key: Option<Secret>,
    /// Name of the variable for the key, for hints.
    pub key_env: String,
    /// Headers of every request. They take precedence over the protocol's own.
    pub headers: Vec<(String, String)>,
    pub idle_timeout_ms: u64,
    pub progress_timeout_ms: u64,
    pub answer_timeout_ms: u64,
    /// Thinking budget in tokens, for models that support one. Newer models decide themselves.
    pub thinking_budget: Option<u64>,
    pub quirks: Quirks,
}

impl Provider {
    /// Returns the text without the key and without the values of the headers, which often are
    /// keys.
    pub fn redact(&self, text: &str) -> String {
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        let key = self.key.iter().map(Secret::expose);
        key.chain(values)
            .filter(|secret| secret.len() >= MIN_SECRET_BYTES)
            .fold(text.to_string(), |text, secret| text.replace(secret, "…"))
    }
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ANSWER_TIMEOUT_MS, IDLE_TIMEOUT_MS, PROGRESS_TIMEOUT_MS};

    #[test]
    fn a_key_is_never_printed() {
        let provider = Provider {
            name: "p".into(),
            protocol: Protocol::OpenaiChat,
            base_url: "http://user:sk-12345678@h".into(),
            key: Some(Secret::new("sk-12345678")),
            key_env: "P_KEY".into(),
            headers: vec![("x-gateway".into(), "gw-87654321".into())],
            idle_timeout_ms: IDLE_TIMEOUT_MS,
            progress_timeout_ms: PROGRESS_TIMEOUT_MS,
            answer_timeout_ms: ANSWER_TIMEOUT_MS,
            thinking_budget: None,
            quirks: Quirks::NONE,
        };
        for printed in [
            format!("{provider:?}"),
            format!("{:?} {}", provider.key, Secret::new("sk-12345678")),
            provider.redact("bad key sk-12345678, gateway gw-87654321"),
        ] {
            assert!(!printed.contains("12345678"), "{printed}");
            assert!(!printed.contains("87654321"), "{printed}");
        }
    }

    #[test]
    fn a_key_that_is_too_short_is_not_redacted() {
        let provider = Provider {
            name: "p".into(),
            protocol: Protocol::OpenaiChat,
            base_url: String::new(),
            key: Some(Secret::new("e")),
            key_env: String::new(),
            headers: vec![],
            idle_timeout_ms: 1,
            progress_timeout_ms: PROGRESS_TIMEOUT_MS,
            answer_timeout_ms: ANSWER_TIMEOUT_MS,
            thinking_budget: None,
            quirks: Quirks::NONE,
        };
        assert_eq!(provider.redact("server is down"), "server is down");
    }
}
