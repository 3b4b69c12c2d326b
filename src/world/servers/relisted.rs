//! When a live server was asked again for its list of tools, so that a flood asks once.

use std::time::{Duration, Instant};

/// A server that said that its list changed and did not list it is asked again after this.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// When a live server was asked for a list that changed.
#[derive(Default)]
pub(super) struct Relisted {
    pub(super) begun: Option<Instant>,
    pub(super) is_failed: bool,
}

impl Relisted {
    /// Whether who came at `since` has to ask no more.
    pub(super) fn is_enough(&self, since: Instant) -> bool {
        self.begun.is_some_and(|begun| {
            begun >= since || (self.is_failed && begun.elapsed() < ASK_AGAIN_AFTER)
        })
    }
}
