//! Retries: which failures are retried, how often, and after which pause.
//!
//! A request has no effect except its price, so it may be sent again at any time. The deltas
//! before the failure are void, and [`Delta::Retry`] tells the caller.
//!
//! A rate limit ends by itself, so it is waited for until [`Retry::max_wait_ms`] is used up,
//! however many tries that takes. So is a server that loads its model, or that has answered before and is
//! away. Every other failure uses up one of the tries.
//!
//! Invariant: every wait and every number of tries is bounded. A server that asks for a longer
//! wait than is left is not waited for: the user is told instead.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;

use super::{Delta, wait};
use crate::core::entry::{Failure, FailureClass};

/// Maximum number of rate-limited tries, for servers whose limits end at once and return at once.
const MAX_LIMITED: u32 = 100;

/// A failure, and the pause that the server asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub failure: Failure,
    pub retry_after: Option<Duration>,
    /// The server loads the model, or has answered in this session and cannot be reached.
    pub is_away: bool,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        // Inside a stream, only the message can name a pause.
        let retry_after = match failure.class {
            FailureClass::RateLimit => wait::in_words(&failure.message),
            _ => None,
        };
        Refused {
            failure,
            retry_after,
            is_away: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Maximum number of tries, including the first.
    pub tries: u32,
    /// Pause before the second try, which doubles with each further one.
    pub base_ms: u64,
    pub cap_ms: u64,
    /// Maximum total wait for rate limits, for servers that are away or load a model, and for pauses
    /// that servers ask for.
    pub max_wait_ms: u64,
    /// A server that is away or loads a model is waited for: no other model answers meanwhile.
    pub waits_for_server: bool,
}

/// Least pause before a server that is away or loads a model is asked again.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// Part of the pause that a server asks for, by which it is longer at most. Otherwise all clients
/// that it told the same come back in the same instant.
const MAX_SPREAD: f64 = 0.1;

impl Retry {
    /// Returns the pause after `failed` failed tries: exponential with full jitter, never less
    /// than the server asks for. `jitter` is between 0 and 1.
    fn delay(&self, failed: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
        let doubled = 1u64.checked_shl(failed.saturating_sub(1));
        let most_ms = self
            .base_ms
            .saturating_mul(doubled.unwrap_or(u64::MAX))
            .min(self.cap_ms);
        let jitter = jitter.clamp(0.0, 1.0);
        let backoff = Duration::from_millis((most_ms as f64 * jitter) as u64);
        let asked = retry_after.unwrap_or_default();
        backoff.max(asked.mul_f64(1.0 + MAX_SPREAD * jitter))
    }

    /// Returns whether to wait for a rate limit, or for a server that is away or loads a model. A single
    /// try means no waiting either.
    fn waits_for(&self, refused: &Refused) -> bool {
        let is_limit = refused.failure.class == FailureClass::RateLimit;
        self.tries > 1 && (is_limit || (self.waits_for_server && refused.is_away))
    }

    /// Returns the pause before the next try, or the failure if no tries are left.
    fn next(&self, so_far: &SoFar, refused: Refused, jitter: f64) -> Result<Duration, Failure> {
        let is_limit = self.waits_for(&refused);
        let Refused {
            mut failure,
            retry_after,
            is_away,
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
        // A pause that the server asks for may end later than the longest wait, by its spread.
        let spread = retry_after.unwrap_or_default().mul_f64(MAX_SPREAD);
        let all = so_far.failed + so_far.limited;
        let delay = if is_limit {
            // The pause is never zero, so that the tries last. If a server names the end of its
            // limit, the pause does not grow.
            let doublings = if retry_after.is_some() {
                1
            } else {
                so_far.limited
            };
            let delay = self.delay(doublings, retry_after, 0.5 + jitter / 2.0);
            if is_away {
                delay.max(AWAY_PAUSE)
            } else {
                delay
            }
        } else {
            self.delay(so_far.failed, retry_after, jitter)
        };
        let is_used_up = if is_limit {
            delay > left + spread || so_far.limited >= MAX_LIMITED
        } else {
            so_far.failed >= self.tries
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

/// Returns whether the same request may succeed a little later.
pub fn is_transient(class: FailureClass) -> bool {
    match class {
        FailureClass::RateLimit | FailureClass::Overloaded | FailureClass::Network => true,
        FailureClass::TooLong
        | FailureClass::Configuration
        | FailureClass::Auth
        | FailureClass::NoModel
        | FailureClass::UsedUp
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense
        | FailureClass::Hook => false,
    }
}

/// Outcome of the tries so far.
#[derive(Debug, Clone, Copy, Default)]
struct SoFar {
    failed: u32,
    /// Refusals because of a rate limit, or of a server that is away or loads its model.
    limited: u32,
    /// Total time waited because servers asked for it, or because of rate limits.
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

    /// Returns the number of failed tries.
    pub(crate) fn failed(&self) -> u32 {
        self.so_far.failed + self.so_far.limited
    }

    /// Waits until the request should be sent again, or returns the failure if it should not.
    pub(crate) async fn pause(
        &mut self,
        refused: Refused,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Failure> {
        let mut failure = refused.failure.clone();
        let is_limit = self.retry.waits_for(&refused);
        if is_limit && refused.is_away {
            failure.message += "; waiting for the server";
        }
        let is_asked = refused.retry_after.is_some();
        if is_limit {
            self.so_far.limited += 1;
        } else {
            self.so_far.failed += 1;
        }
        let wait = self.retry.next(&self.so_far, refused, jitter())?;
        if is_limit || is_asked {
            self.so_far.waited += wait;
        }
        let after_ms = wait.as_millis().try_into().unwrap_or(u64::MAX);
        let now_ms = Timestamp::now().as_millisecond();
        on(Delta::Retry {
            after_ms,
            until_ms: now_ms.saturating_add_unsigned(after_ms),
            failure,
        });
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Returns a number between 0 and 1. The keys of the standard hash maps are random enough to
/// spread clients.
fn jitter() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
