//! Time limits for an answer.
//!
//! There are three limits. Idle: no data arrives. Progress: data arrives, but no part of the
//! answer (keep-alive comments, pings, empty pieces). Answer: from the request to the last byte.
//! Before the first part of the answer, the progress limit does not apply, since a local server
//! may read a long prompt for many minutes and only send keep-alive data.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::provider::Provider;
use crate::core::entry::{Failure, FailureClass};

pub(super) struct Timeouts<'a> {
    provider: &'a Provider,
    idle: Duration,
    progress: Duration,
    answer: Duration,
    began: Instant,
    /// Time of the last piece of the answer.
    content: Option<Instant>,
}

impl<'a> Timeouts<'a> {
    /// Starts the clock right before the request is sent.
    pub(super) fn begin(provider: &'a Provider) -> Timeouts<'a> {
        Timeouts {
            provider,
            idle: Duration::from_millis(provider.idle_timeout_ms),
            progress: Duration::from_millis(provider.progress_timeout_ms),
            answer: Duration::from_millis(provider.answer_timeout_ms),
            began: Instant::now(),
            content: None,
        }
    }

    /// Records that a piece of the answer arrived.
    pub(super) fn progressed(&mut self) {
        self.content = Some(Instant::now());
    }

    /// Waits for the next piece. Fails when one of the time limits is reached.
    pub(super) async fn wait<T>(&self, next: impl Future<Output = T>) -> Result<T, Failure> {
        let now = Instant::now();
        let whole = (self.began + self.answer, Limit::Answer);
        let progress = self.content.map(|at| (at + self.progress, Limit::Progress));
        let idle = (now + self.idle, Limit::Idle);
        let (end, limit) =
            [Some(whole), progress]
                .into_iter()
                .flatten()
                .fold(
                    idle,
                    |least, other| if other.0 < least.0 { other } else { least },
                );
        // With slow data, `next` is always ready before the timer is checked.
        if end <= now {
            return Err(self.over(limit));
        }
        timeout_at(end, next).await.map_err(|_| self.over(limit))
    }

    fn over(&self, limit: Limit) -> Failure {
        let secs = |time: Duration| time.as_secs_f64();
        let message = match limit {
            Limit::Idle => format!("nothing came for {} s (idle_timeout_ms)", secs(self.idle)),
            Limit::Progress => format!(
                "not a word of the answer came for {} s, though the server still sends \
                 (progress_timeout_ms)",
                secs(self.progress)
            ),
            Limit::Answer => format!(
                "the answer was not whole after {} s (answer_timeout_ms)",
                secs(self.answer)
            ),
        };
        // A silent server may not be running, which has a different hint.
        let hint = match limit {
            Limit::Idle => None,
            Limit::Progress | Limit::Answer => Some(format!(
                "a slow server wants a longer time: the setting is in [providers.{}]",
                self.provider.name
            )),
        };
        Failure {
            class: FailureClass::Network,
            message,
            hint,
        }
    }
}

enum Limit {
    Idle,
    Progress,
    Answer,
}
