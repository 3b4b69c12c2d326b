//! Which failures are tried again, how often, and after how long.
//!
//! A request has no effect but its price, so it may be sent again at any time; what was
//! streamed before the failure is void, and the caller is told so by [`Delta::Retry`].
//!
//! A limit by time ends by itself, so it is waited for until [`Retry::max_wait_ms`] is used up,
//! however many tries that takes. Every other failure uses up one of the tries.
//!
//! Invariant: every wait and every number of tries is bounded. A server that asks for a longer
//! wait than is left is not waited for: the user is told instead.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::{Delta, wait};
use crate::core::entry::{Failure, FailureClass};

/// A server may end its limit at once and never answer: this bounds the tries within the wait.
const MAX_LIMITED: u32 = 100;

/// A failure, and how long the server asks to be left alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub failure: Failure,
    pub retry_after: Option<Duration>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        // Inside a stream there are only words.
        let retry_after = match failure.class {
            FailureClass::RateLimit => wait::in_words(&failure.message),
            _ => None,
        };
        Refused {
            failure,
            retry_after,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// In all, the first one included.
    pub tries: u32,
    /// The back-off before the second try; it doubles with each.
    pub base_ms: u64,
    pub cap_ms: u64,
    /// In all, for limits by time and for what a server asks for.
    pub max_wait_ms: u64,
}

impl Retry {
    /// The wait after `failed` failed tries: exponential with full jitter, never less than
    /// what the server asks for. `jitter` is between 0 and 1.
    fn delay(&self, failed: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
        let doubled = 1u64.checked_shl(failed.saturating_sub(1));
        let most_ms = self
            .base_ms
            .saturating_mul(doubled.unwrap_or(u64::MAX))
            .min(self.cap_ms);
        let backoff = Duration::from_millis((most_ms as f64 * jitter.clamp(0.0, 1.0)) as u64);
        backoff.max(retry_after.unwrap_or_default())
    }

    /// Who wants one try wants no waiting either.
    fn waits_for(&self, class: FailureClass) -> bool {
        class == FailureClass::RateLimit && self.tries > 1
    }

    /// How long to wait before the next try, or why there is none.
    fn next(&self, so_far: &SoFar, refused: Refused, jitter: f64) -> Result<Duration, Failure> {
        let Refused {
            mut failure,
            retry_after,
        } = refused;
        if !is_transient(failure.class) {
            return Err(failure);
        }
        let left = Duration::from_millis(self.max_wait_ms).saturating_sub(so_far.waited);
        if let Some(asked) = retry_after.filter(|asked| *asked > left) {
            let (asked, most) = (asked.as_secs(), self.max_wait_ms / 1_000);
            failure.message += &format!(
                " (it asks to wait {asked} s; more than {most} s in all is not waited: retry.max_wait_ms)"
            );
            return Err(failure);
        }
        let is_limit = self.waits_for(failure.class);
        let all = so_far.failed + so_far.limited;
        let delay = match is_limit {
            // Never at once, so that the tries last. A server that names the end is taken at
            // its word each time.
            true => {
                let doublings = if retry_after.is_some() {
                    1
                } else {
                    so_far.limited
                };
                self.delay(doublings, retry_after, 0.5 + jitter / 2.0)
            }
            false => self.delay(so_far.failed, retry_after, jitter),
        };
        let is_used_up = match is_limit {
            true => delay > left || so_far.limited >= MAX_LIMITED,
            false => so_far.failed >= self.tries,
        };
        if is_used_up {
            if all > 1 {
                failure.message += &format!(" (tried {all} times)");
            }
            return Err(failure);
        }
        Ok(delay)
    }
}

/// The same request may well succeed a little later.
pub(crate) fn is_transient(class: FailureClass) -> bool {
    match class {
        FailureClass::RateLimit | FailureClass::Overloaded | FailureClass::Network => true,
        FailureClass::TooLong
        | FailureClass::Auth
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense => false,
    }
}

/// What came of the tries so far.
#[derive(Debug, Clone, Copy, Default)]
struct SoFar {
    failed: u32,
    /// Refused for a limit by time.
    limited: u32,
    /// For what servers asked, and for limits.
    waited: Duration,
}

/// The tries of one request so far.
pub(crate) struct Tries {
    retry: Retry,
    so_far: SoFar,
}

impl Tries {
    pub(crate) fn new(retry: Retry) -> Tries {
        Tries {
            retry,
            so_far: SoFar::default(),
        }
    }

    /// How many tries failed.
    pub(crate) fn failed(&self) -> u32 {
        self.so_far.failed + self.so_far.limited
    }

    /// Returns when the request is to be sent again, or with the failure when it is not.
    pub(crate) async fn pause(
        &mut self,
        refused: Refused,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Failure> {
        let failure = refused.failure.clone();
        let is_limit = self.retry.waits_for(failure.class);
        let is_asked = refused.retry_after.is_some();
        match is_limit {
            true => self.so_far.limited += 1,
            false => self.so_far.failed += 1,
        }
        let wait = self.retry.next(&self.so_far, refused, jitter())?;
        if is_limit || is_asked {
            self.so_far.waited += wait;
        }
        on(Delta::Retry {
            after_ms: wait.as_millis().try_into().unwrap_or(u64::MAX),
            failure,
        });
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Between 0 and 1. The keys of the standard hash maps are random: good enough to keep
/// clients apart.
fn jitter() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
