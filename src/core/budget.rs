//! The division of a model's context window between request and answer, and the estimate of tokens.
//!
//! rewake has no tokenizer. It divides bytes by a ratio that it learns for each model from the
//! provider's own counts ([`super::state::State::ratios`]).

use super::entry::MAX_TOKENS;

/// Bytes per token of text and code. It is low for most models, so that the estimate is safe.
pub const BYTES_PER_TOKEN: f64 = 3.5;

/// Smallest context window, in tokens. A smaller one is treated as this.
pub const MIN_WINDOW: u64 = 4_000;

/// Largest context window, in tokens. A larger value cannot be true, and the arithmetic would
/// overflow.
pub const MAX_WINDOW: u64 = MAX_TOKENS;

/// Below this window, in tokens, the short forms of system prompt and tools are used.
const SMALL_WINDOW: u64 = 16_000;

/// Below this window, in tokens, the tools that are seldom needed are left out.
const TINY_WINDOW: u64 = 8_000;

/// Least room for the user's messages, in bytes, however small the window is.
const MIN_WORDS_BYTES: usize = 600;

/// Approximate cost of an image, in tokens.
pub const IMAGE_TOKENS: u64 = 1_600;

/// The context window of one model, divided between request and answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Tokens of request and answer together.
    pub window: u64,
    /// Room for the answer.
    pub answer: u64,
    /// Ratio for the estimate of tokens: from 1 to 8, learnt or [`BYTES_PER_TOKEN`].
    pub bytes_per_token: f64,
}

impl Budget {
    /// Divides `window` tokens. `answer` is the output limit; the answer gets at most a quarter of
    /// the window.
    pub fn new(window: u64, answer: u64, bytes_per_token: Option<f64>) -> Budget {
        let window = window.clamp(MIN_WINDOW, MAX_WINDOW);
        Budget {
            window,
            answer: answer.clamp(1, window / 4),
            bytes_per_token: bytes_per_token.unwrap_or(BYTES_PER_TOKEN).clamp(1.0, 8.0),
        }
    }

    /// Returns the room for the user's messages after a compaction or a continuation, in bytes. It
    /// is a quarter of the window that remains after these layers and the answer, or a third of a
    /// tiny one.
    pub fn words_bytes(&self, layers_bytes: usize) -> usize {
        let left = (self.window - self.answer).saturating_sub(self.tokens(layers_bytes));
        let part = if self.is_tiny() { 3 } else { 4 };
        self.bytes(left / part).max(MIN_WORDS_BYTES)
    }

    /// Returns the hard limit in tokens: a larger request is not sent.
    pub fn hard(&self) -> u64 {
        (self.window * 9 / 10).min(self.window - self.answer)
    }

    /// Returns the soft limit in tokens: a larger request starts a summary in the background.
    pub fn soft(&self, max_tokens: u64) -> u64 {
        (self.window * 7 / 10)
            .min(max_tokens)
            .min(self.hard() * 9 / 10)
    }

    /// Estimates the tokens of a text of `bytes` bytes, rounded up.
    pub fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token).ceil() as u64
    }

    /// Estimates the bytes of a text of `tokens` tokens, rounded down.
    pub fn bytes(&self, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// Returns the size in bytes over which a text is sent as head, tail and address. It depends
    /// only on the window, so that a text is sent again in the same form.
    pub fn inline_bytes(&self, max: usize) -> usize {
        usize::try_from(self.window * 4 / 10)
            .unwrap_or(usize::MAX)
            .min(max)
    }

    /// Returns whether the window is small, so that the short forms of system prompt and tools are
    /// sent.
    pub fn is_small(&self) -> bool {
        self.window < SMALL_WINDOW
    }

    /// Returns whether only the most necessary tools are sent.
    pub fn is_tiny(&self) -> bool {
        self.window < TINY_WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_window_is_shared_out() {
        let budget = Budget::new(4_000, 8_192, None);
        assert_eq!((budget.answer, budget.hard()), (1_000, 3_000));
        assert!(budget.soft(120_000) < budget.hard());
        assert_eq!(Budget::new(10, 1, None).window, MIN_WINDOW);
    }

    #[test]
    fn a_window_without_end_can_be_shared_out() {
        let budget = Budget::new(u64::MAX, u64::MAX, None);
        assert!(budget.hard() < budget.window && budget.soft(u64::MAX) < budget.hard());
    }

    #[test]
    fn a_large_window_is_closed_before_it_is_full() {
        let budget = Budget::new(200_000, 32_000, Some(4.0));
        assert_eq!(budget.soft(120_000), 120_000);
        assert_eq!(budget.hard(), 168_000);
        assert_eq!(budget.tokens(400), 100);
    }
}
