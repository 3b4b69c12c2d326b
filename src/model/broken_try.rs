//! The usage of a request whose answer broke off: the provider bills it, and mostly does not say how
//! much.

use super::Delta;
use crate::core::entry::Usage;

/// The tokens of the current try of a request, as its stream tells them.
#[derive(Debug, Default)]
pub struct TryUsage {
    /// Estimated tokens of the prompt, for servers that count them at the end only, and how many of
    /// them the provider has in its cache.
    prompt: u64,
    cached: u64,
    /// `None`: no answer has started, so nothing is billed.
    answer: Option<Usage>,
}

impl TryUsage {
    /// `prompt`: estimated tokens of the request, of which `cached` are expected in the cache.
    pub fn new(prompt: u64, cached: u64) -> TryUsage {
        TryUsage {
            prompt,
            cached: cached.min(prompt),
            answer: None,
        }
    }

    /// Follows the stream. Returns the tokens of the try that broke off, if the request is sent again.
    pub fn follow(&mut self, delta: &Delta) -> Option<Usage> {
        match delta {
            Delta::Usage(usage) => {
                self.answer = Some(*usage);
                None
            }
            Delta::Retry { .. } => self.end(),
            Delta::Text(_) | Delta::Thinking(_) | Delta::Call { .. } => None,
        }
    }

    /// Returns the tokens of a try that ends without an answer.
    pub fn end(&mut self) -> Option<Usage> {
        let mut usage = self.answer.take()?;
        if usage.prompt() == 0 {
            usage.input = self.prompt - self.cached;
            usage.cached = self.cached;
        }
        Some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{Failure, FailureClass};

    fn retry() -> Delta {
        Delta::Retry {
            after_ms: 0,
            until_ms: 0,
            failure: Failure::new(FailureClass::Network, "the stream was cut"),
        }
    }

    #[test]
    fn a_try_is_billed_once_its_answer_begins_and_only_once() {
        let mut usage = TryUsage::new(1_000, 400);
        assert_eq!(usage.follow(&retry()), None, "refused before its answer");
        let started = Usage {
            output: 7,
            ..Usage::default()
        };
        assert_eq!(usage.follow(&Delta::Usage(started)), None);
        let broken = usage.follow(&retry()).expect("it is billed");
        assert_eq!((broken.input, broken.cached, broken.output), (600, 400, 7));
        assert_eq!(usage.end(), None, "counted already");
        let counted = Usage {
            cached: 100_000,
            ..started
        };
        usage.follow(&Delta::Usage(counted));
        assert_eq!(usage.end(), Some(counted), "the server's count wins");
    }
}
