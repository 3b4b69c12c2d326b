//! How long an answer is waited for.
//!
//! Three limits. Silence: nothing comes at all. No progress: something comes, but not a word
//! of the answer (keep-alive comments, pings, empty pieces). The whole: from the request to
//! the last byte. Before the first word only silence and the whole count, since a local
//! server may read a long prompt for many minutes and show only that it lives.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::provider::Provider;
use crate::core::entry::{Failure, FailureClass};

pub(super) struct Patience<'a> {
    provider: &'a Provider,
    idle: Duration,
    progress: Duration,
    answer: Duration,
    began: Instant,
    /// When the last word came.
    content: Option<Instant>,
}

impl<'a> Patience<'a> {
    /// The request is about to be sent.
    pub(super) fn begin(provider: &'a Provider) -> Patience<'a> {
        Patience {
            provider,
            idle: Duration::from_millis(provider.idle_timeout_ms),
            progress: Duration::from_millis(provider.progress_timeout_ms),
            answer: Duration::from_millis(provider.answer_timeout_ms),
            began: Instant::now(),
            content: None,
        }
    }

    /// A piece of the answer came.
    pub(super) fn progressed(&mut self) {
        self.content = Some(Instant::now());
    }

    /// What comes next, or why it is not waited for any longer.
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
        // What drips is always there before the time is looked at.
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
        // A server that says nothing may not run at all: there is another hint for that.
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
