//! Errors and warnings of the config, with hints for the user.

use std::fmt;

use super::Origin;

/// An error of the config. The message names the failed action, the hint the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
    hint: Option<String>,
}

impl ConfigError {
    /// Creates an error without a hint.
    pub fn new(message: impl Into<String>) -> ConfigError {
        ConfigError {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds advice for the user.
    pub fn with_hint(mut self, hint: impl Into<String>) -> ConfigError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the origin of the wrong value.
    pub fn at(mut self, origin: &Origin) -> ConfigError {
        self.message = format!("{origin}: {}", self.message);
        self
    }

    /// Returns a hint for the user, or `None` if the message says it all.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A problem that the user should know and that does not stop the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub text: String,
    /// Advice for the user.
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

/// Returns the name in `known` that is most similar to `word`.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Long input is not a typing error, and comparing it takes quadratic time.
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
