//! The signals that end the program in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::report::exit;

/// The last signal that came, once they are caught. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Signals {
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Begins to catch the signals. Before, each has its default action.
    pub(super) fn catch(&self) {
        for (signal, code) in [
            (SIGTERM, exit::SIGTERM),
            (SIGHUP, exit::SIGHUP),
            (SIGINT, exit::SIGINT),
        ] {
            let last = Arc::clone(&self.last);
            let caught = signal_hook::flag::register_usize(signal, last, usize::from(code));
            if let Err(error) = caught {
                tracing::warn!(%error, signal, "a signal cannot be caught");
            }
        }
    }

    /// Forgets a Ctrl+C that was meant for another program.
    pub(super) fn forget_interrupt(&self) {
        let (interrupt, relaxed) = (usize::from(exit::SIGINT), Ordering::Relaxed);
        let _ = self.last.compare_exchange(interrupt, 0, relaxed, relaxed);
    }

    /// Returns the exit code of the last signal.
    pub(super) fn last(&self) -> Option<u8> {
        match self.last.load(Ordering::Relaxed) {
            0 => None,
            code => u8::try_from(code).ok(),
        }
    }

    /// Behaves as if a signal came.
    #[cfg(test)]
    pub(super) fn pretend(&self) {
        self.last
            .store(usize::from(exit::SIGTERM), Ordering::Relaxed);
    }
}
