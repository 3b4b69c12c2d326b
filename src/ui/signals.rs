//! The signals that end the program in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::report::exit;

/// The signals that came, once they are caught, as exit codes. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The last SIGTERM or SIGHUP. A Ctrl+C after it does not replace it.
    ends: Arc<AtomicUsize>,
    interrupt: Arc<AtomicUsize>,
}

impl Signals {
    /// Begins to catch the signals. Before, each has its default action.
    pub(super) fn catch(&self) {
        for (signal, code, place) in [
            (SIGTERM, exit::SIGTERM, &self.ends),
            (SIGHUP, exit::SIGHUP, &self.ends),
            (SIGINT, exit::SIGINT, &self.interrupt),
        ] {
            let (place, code) = (Arc::clone(place), usize::from(code));
            let caught = signal_hook::flag::register_usize(signal, place, code);
            if let Err(error) = caught {
                tracing::warn!(%error, signal, "a signal cannot be caught");
            }
        }
    }

    /// Forgets a Ctrl+C that was meant for another program.
    pub(super) fn forget_interrupt(&self) {
        self.interrupt.store(0, Ordering::Relaxed);
    }

    /// Returns the exit code of the last signal. SIGTERM and SIGHUP come before Ctrl+C.
    pub(super) fn last(&self) -> Option<u8> {
        let codes = [&self.ends, &self.interrupt].map(|code| code.load(Ordering::Relaxed));
        let code = codes.into_iter().find(|code| *code != 0)?;
        u8::try_from(code).ok()
    }

    /// Behaves as if a signal came.
    #[cfg(test)]
    pub(super) fn pretend(&self) {
        self.ends
            .store(usize::from(exit::SIGTERM), Ordering::Relaxed);
    }
}
