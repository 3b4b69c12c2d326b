//! Tokens and their cost.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Tokens of one answer. `input` excludes tokens that were read from or written to a cache; the
/// whole prompt is `input + cached + cache_written`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt that were neither read from a cache nor written to one.
    #[serde(default, deserialize_with = "tokens")]
    pub input: u64,
    /// Tokens of the prompt that were read from the provider's cache.
    #[serde(default, deserialize_with = "tokens")]
    pub cached: u64,
    /// Tokens of the prompt that were written to the provider's cache.
    #[serde(default, deserialize_with = "tokens")]
    pub cache_written: u64,
    /// Tokens of the answer, thinking included.
    #[serde(default, deserialize_with = "tokens")]
    pub output: u64,
    /// Cost that the provider itself reports, in 10⁻⁹ US dollars. `None`: it reports none, and the
    /// tokens have to be priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed_nanos: Option<u64>,
}

/// Largest plausible count of tokens. The windows of models are far smaller.
pub const MAX_TOKENS: u64 = 1_000_000_000;

/// Reads a count of tokens from a server. An implausible value (negative, not a number, over
/// [`MAX_TOKENS`]) counts as 0, and nothing is learnt from it.
pub fn token_count(given: &Value) -> u64 {
    let Value::Number(number) = given else {
        return 0;
    };
    let whole = number.as_u64().or_else(|| {
        let fraction = number.as_f64().filter(|n| *n >= 0.0)?;
        Some(fraction as u64)
    });
    whole.filter(|n| *n <= MAX_TOKENS).unwrap_or(0)
}

/// Reads a count from a log. Logs of version 0.1 may have any count that a server gave.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Value::deserialize(from).map(|given| token_count(&given))
}

impl Usage {
    /// Returns the tokens of the whole prompt.
    pub fn prompt(&self) -> u64 {
        self.input
            .saturating_add(self.cached)
            .saturating_add(self.cache_written)
    }

    /// Returns the tokens of prompt and answer.
    pub fn all(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Adds another answer's tokens to these. The billed sum is known only if both parts are known.
    pub fn add(&mut self, other: &Usage) {
        self.billed_nanos = match (*self == Usage::default(), *other == Usage::default()) {
            (true, _) => other.billed_nanos,
            (_, true) => self.billed_nanos,
            _ => {
                let both = self.billed_nanos.zip(other.billed_nanos);
                both.map(|(one, more)| one.saturating_add(more))
            }
        };
        for (sum, more) in [
            (&mut self.input, other.input),
            (&mut self.cached, other.cached),
            (&mut self.cache_written, other.cache_written),
            (&mut self.output, other.output),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Tokens of a model for other work than the session's own answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// `provider/model`.
    pub model: String,
    pub usage: Usage,
}
