//! The signals of a keeper: SIGTERM asks it to end, SIGCHLD wakes it, and the others that can be
//! caught do nothing. They are caught and not ignored, because a child would inherit that.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::signal;

/// Received signals, as a flag and as a descriptor to poll.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    /// Readable after a signal that a keeper handles.
    pub(super) wake: UnixStream,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        // The flag is set before the pipe is readable: actions run in this order.
        signal_hook::flag::register(signal::SIGTERM, Arc::clone(&stop))?;
        signal_hook::low_level::pipe::register(signal::SIGTERM, waker.try_clone()?)?;
        signal_hook::low_level::pipe::register(signal::SIGCHLD, waker)?;
        let unread = Arc::new(AtomicBool::new(false));
        for other in [
            signal::SIGHUP,
            signal::SIGINT,
            signal::SIGQUIT,
            signal::SIGALRM,
            signal::SIGUSR1,
            signal::SIGUSR2,
            signal::SIGTSTP,
            signal::SIGTTIN,
            signal::SIGTTOU,
            signal::SIGXCPU,
            signal::SIGXFSZ,
        ] {
            signal_hook::flag::register(other, Arc::clone(&unread))?;
        }
        Ok(Signals { stop, wake })
    }

    pub(super) fn stop_asked(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Empties the pipe. Returns whether there was a signal.
    pub(super) fn clear(&self) -> bool {
        let mut bytes = [0; 64];
        let mut found = false;
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {
            found = true;
        }
        found
    }
}
