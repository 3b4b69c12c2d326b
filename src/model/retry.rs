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
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        tries: 3,
        base_ms: 100,
        cap_ms: 300,
    };

    fn refused(class: FailureClass, retry_after_s: Option<u64>) -> Refused {
        Refused {
            failure: Failure {
                class,
                message: "asking p".into(),
                hint: None,
            },
            retry_after: retry_after_s.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_back_off_doubles_up_to_a_cap() {
        let ms = |failed, jitter| RETRY.delay(failed, None, jitter).as_millis();
        assert_eq!(
            [1, 2, 3, 4, 1000].map(|n| ms(n, 1.0)),
            [100, 200, 300, 300, 300]
        );
        assert_eq!(ms(2, 0.5), 100);
        assert_eq!(ms(2, 0.0), 0);
    }

    #[test]
    fn what_the_server_asks_for_is_the_least() {
        let asked = Some(Duration::from_secs(7));
        assert_eq!(RETRY.delay(1, asked, 1.0), Duration::from_secs(7));
        let asked = Some(Duration::from_millis(1));
        assert_eq!(RETRY.delay(1, asked, 1.0), Duration::from_millis(100));
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_not_for_ever() {
        use FailureClass::*;
        for class in [RateLimit, Overloaded, Network] {
            assert!(RETRY.next(1, refused(class, None), 0.5).is_ok());
            let last = RETRY.next(3, refused(class, None), 0.5).unwrap_err();
            assert_eq!(last.message, "asking p (tried 3 times)");
        }
        for class in [TooLong, Auth, BadRequest, Protocol, Nonsense] {
            let failure = RETRY.next(1, refused(class, None), 0.5).unwrap_err();
            assert_eq!(failure.message, "asking p");
        }
    }

    #[test]
    fn a_wait_that_is_too_long_is_told_at_once() {
        let failure = RETRY
            .next(1, refused(FailureClass::RateLimit, Some(3600)), 0.5)
            .unwrap_err();
        assert!(failure.message.contains("3600 s"), "{}", failure.message);
        assert!(
            RETRY
                .next(1, refused(FailureClass::RateLimit, Some(300)), 0.5)
                .is_ok()
        );
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now: Timestamp = "2026-10-21T07:27:30Z".parse().unwrap();
        let read = |ms, after| retry_after(ms, after, now).map(|d| d.as_millis());
        assert_eq!(read(Some("1500"), Some("9")), Some(1500));
        assert_eq!(read(None, Some("2")), Some(2000));
        assert_eq!(read(None, Some(" 0.5 ")), Some(500));
        assert_eq!(
            read(None, Some("Wed, 21 Oct 2026 07:28:00 GMT")),
            Some(30_000)
        );
        assert_eq!(read(None, Some("Wed, 21 Oct 2026 07:00:00 GMT")), Some(0));
        assert_eq!(read(None, Some("soon")), None);
        assert_eq!(read(None, Some("-1")), None);
        assert_eq!(read(None, Some("1e300")), None);
        assert_eq!(read(None, None), None);
    }

    #[test]
    fn jitter_is_spread_between_0_and_1() {
        let values: Vec<f64> = (0..100).map(|_| jitter()).collect();
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        assert!(values.iter().any(|v| *v < 0.5) && values.iter().any(|v| *v > 0.5));
    }
}
