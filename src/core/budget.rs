//! What a model's context window is shared out to, in tokens, and what bytes cost.
//!
//! There is no tokenizer: tokens are bytes divided by a ratio that is learnt per model from
//! the provider's own counts ([`super::state::State::ratios`]).

use super::entry::MAX_TOKENS;

/// Text and code of most models, on the safe side.
pub const BYTES_PER_TOKEN: f64 = 3.5;

/// The smallest window that can be worked in. A smaller one is treated as this.
pub const MIN_WINDOW: u64 = 4_000;

/// The largest one: what is over it cannot be true, and could not be reckoned with.
pub const MAX_WINDOW: u64 = MAX_TOKENS;

/// Below this, the short forms of system prompt and tools are used.
const SMALL_WINDOW: u64 = 16_000;

/// Below this, the tools that are seldom needed are left out.
const TINY_WINDOW: u64 = 8_000;

/// What the user said has this room in the smallest window.
const MIN_WORDS_BYTES: usize = 600;

/// What an image costs, about.
pub const IMAGE_TOKENS: u64 = 1_600;

/// The context window of one model, shared out between request and answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Tokens of request and answer together.
    pub window: u64,
    /// Room for the answer.
    pub answer: u64,
    /// What tokens are estimated by: from 1 to 8, learnt or [`BYTES_PER_TOKEN`].
    pub bytes_per_token: f64,
}

impl Budget {
    /// `answer`: the most an answer may have; it gets a quarter of the window at most.
    pub fn new(window: u64, answer: u64, bytes_per_token: Option<f64>) -> Budget {
        let window = window.clamp(MIN_WINDOW, MAX_WINDOW);
        Budget {
            window,
            answer: answer.clamp(1, window / 4),
            bytes_per_token: bytes_per_token.unwrap_or(BYTES_PER_TOKEN).clamp(1.0, 8.0),
        }
    }

    /// Room for what the user said behind a compaction or a continuation, in bytes: a quarter
    /// of what is left of the window after these layers and the answer.
    pub fn words_bytes(&self, layers_bytes: usize) -> usize {
        let left = (self.window - self.answer).saturating_sub(self.tokens(layers_bytes));
        self.bytes(left / 4).max(MIN_WORDS_BYTES)
    }

    /// A request over this is not sent.
    pub fn hard(&self) -> u64 {
        (self.window * 9 / 10).min(self.window - self.answer)
    }

    /// A request over this starts a summary in the background.
    pub fn soft(&self, max_tokens: u64) -> u64 {
        (self.window * 7 / 10)
            .min(max_tokens)
            .min(self.hard() * 9 / 10)
    }

    /// About how many tokens so many bytes are, rounded up.
    pub fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token).ceil() as u64
    }

    /// About how many bytes so many tokens are, rounded down.
    pub fn bytes(&self, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// A single text over this is sent as head, tail and address. It depends on the window
    /// alone, so that what was sent is sent again in the same form.
    pub fn inline_bytes(&self, max: usize) -> usize {
        usize::try_from(self.window * 4 / 10)
            .unwrap_or(usize::MAX)
            .min(max)
    }

    /// Whether the short forms of system prompt and tools are sent, since the window is small.
    pub fn is_small(&self) -> bool {
        self.window < SMALL_WINDOW
    }

    /// Whether only the tools that the work itself needs are sent.
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
