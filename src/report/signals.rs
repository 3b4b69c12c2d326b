//! The signals that end the program in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::{SigId, flag};

use super::exit;

/// The signals that came, once they are caught, as exit codes. Clones share them.
#[derive(Clone, Default)]
pub struct Signals {
    /// The last SIGTERM or SIGHUP. A Ctrl+C after it does not replace it.
    ends: Arc<AtomicUsize>,
    interrupt: Arc<AtomicUsize>,
}

impl Signals {
    /// Begins to catch a signal. `code`: its exit code.
    pub fn catch(&self, signal: i32, code: u8) {
        let place = if signal == SIGINT {
            &self.interrupt
        } else {
            &self.ends
        };
        let caught = flag::register_usize(signal, Arc::clone(place), usize::from(code));
        warn(signal, caught);
    }

    /// Makes the second SIGINT end the process at once.
    pub fn end_at_second_interrupt() {
        let is_second = Arc::new(AtomicBool::new(false));
        let code = i32::from(exit::SIGINT);
        // Actions run in this order.
        let ends = flag::register_conditional_shutdown(SIGINT, code, Arc::clone(&is_second));
        warn(SIGINT, ends);
        warn(SIGINT, flag::register(SIGINT, is_second));
    }

    /// Forgets a Ctrl+C that was meant for another program.
    pub fn forget_interrupt(&self) {
        self.interrupt.store(0, Ordering::Relaxed);
    }

    /// Returns the exit code of the last signal. SIGTERM and SIGHUP come before Ctrl+C.
    pub fn last(&self) -> Option<u8> {
        let codes = [&self.ends, &self.interrupt].map(|code| code.load(Ordering::Relaxed));
        let code = codes.into_iter().find(|code| *code != 0)?;
        u8::try_from(code).ok()
    }

    /// Behaves as if a signal came.
    #[cfg(test)]
    pub(crate) fn pretend(&self) {
        self.ends
            .store(usize::from(exit::SIGTERM), Ordering::Relaxed);
    }
}

fn warn(signal: i32, caught: io::Result<SigId>) {
    if let Err(error) = caught {
        tracing::warn!(%error, signal, "a signal cannot be caught");
    }
}
