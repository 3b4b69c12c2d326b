//! The times at which a running server was asked again for its list of tools, so that a flood of
//! notifications leads to one request.

use std::time::{Duration, Instant};

/// Delay before asking again a server that reported a change and did not answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The times at which a running server was asked for a changed list.
#[derive(Default)]
pub(super) struct Relisted {
    pub(super) begun: Option<Instant>,
    pub(super) is_failed: bool,
}

impl Relisted {
    /// Returns whether a caller that arrived at `since` need not ask again.
    pub(super) fn is_enough(&self, since: Instant) -> bool {
        self.begun.is_some_and(|begun| {
            begun >= since || (self.is_failed && begun.elapsed() < ASK_AGAIN_AFTER)
        })
    }
}
