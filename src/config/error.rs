//! What is wrong with the config, and what a person can do about it.

use std::fmt;

use super::Origin;

/// Message: what was tried, on what. Hint: what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
    hint: Option<String>,
}

impl ConfigError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> ConfigError {
        ConfigError {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what a person can do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> ConfigError {
        self.hint = Some(hint.into());
        self
    }

    /// Says where the value that is wrong was given.
    pub fn at(mut self, origin: &Origin) -> ConfigError {
        self.message = format!("{origin}: {}", self.message);
        self
    }

    /// What a person can do about it. `None`: there is nothing to add to the message.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Something the user should know that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub text: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}\nhint: {hint}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The name in `known` that `word` was most likely meant to be.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Long input is no typing error, and comparing it costs its square.
    if word.len() > 64 {
        return None;
    }
    similar::get_close_matches(word, known, 1, 0.6).pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["model", "summary_model", "max_turns"];
        assert_eq!(nearest("modle", &known), Some("model"));
        assert_eq!(nearest("max_turn", &known), Some("max_turns"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest(&"model".repeat(100), &known), None);
    }
}
