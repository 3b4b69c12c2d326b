//! Which failures are tried again, how often, and after how long.
//!
//! A request has no effect but its price, so it may be sent again at any time; what was
//! streamed before the failure is void, and the caller is told so by [`Delta::Retry`].
//!
//! Invariant: every wait and every number of tries is bounded. A server that asks for more
//! than [`MAX_WAIT`] is not waited for: the user is told instead.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;

use super::Delta;
use crate::core::entry::{Failure, FailureClass};

/// The longest wait a server may ask for.
pub const MAX_WAIT: Duration = Duration::from_secs(300);

/// A failure, and how long the server asks to be left alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub failure: Failure,
    pub retry_after: Option<Duration>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused {
            failure,
            retry_after: None,
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
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            tries: 6,
            base_ms: 1_000,
            cap_ms: 30_000,
        }
    }
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

    /// How long to wait before the next try, or why there is none.
    fn next(&self, failed: u32, refused: Refused, jitter: f64) -> Result<Duration, Failure> {
        let Refused {
            mut failure,
            retry_after,
        } = refused;
        if !is_transient(failure.class) {
            return Err(failure);
        }
        if let Some(asked) = retry_after.filter(|asked| *asked > MAX_WAIT) {
            let (asked, most) = (asked.as_secs(), MAX_WAIT.as_secs());
            failure.message +=
                &format!(" (it asks to wait {asked} s; more than {most} s is not waited)");
            return Err(failure);
        }
        if failed >= self.tries {
            if failed > 1 {
                failure.message += &format!(" (tried {failed} times)");
            }
            return Err(failure);
        }
        Ok(self.delay(failed, retry_after, jitter))
    }
}

/// The same request may well succeed a little later.
pub fn is_transient(class: FailureClass) -> bool {
    match class {
        FailureClass::RateLimit | FailureClass::Overloaded | FailureClass::Network => true,
        FailureClass::TooLong
        | FailureClass::Auth
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense => false,
    }
}

/// The tries of one request so far.
pub struct Tries {
    retry: Retry,
    failed: u32,
}

impl Tries {
    pub fn new(retry: Retry) -> Tries {
        Tries { retry, failed: 0 }
    }

    /// How many tries failed.
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Returns when the request is to be sent again, or with the failure when it is not.
    pub async fn pause(
        &mut self,
        refused: Refused,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Failure> {
        self.failed += 1;
        let failure = refused.failure.clone();
        let wait = self.retry.next(self.failed, refused, jitter())?;
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

/// `retry-after-ms: 1500`, `retry-after: 2` and `retry-after: Wed, 21 Oct 2026 07:28:00 GMT`
/// (RFC 9110, section 10.2.3).
pub fn retry_after(ms: Option<&str>, after: Option<&str>, now: Timestamp) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let ms = ms.and_then(number).map(|ms| ms / 1000.0);
    let seconds = ms.or_else(|| after.and_then(number));
    if let Some(seconds) = seconds {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(after?.trim()).ok()?;
    let wait = at.timestamp().duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests;
