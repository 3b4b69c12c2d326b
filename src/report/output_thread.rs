//! Stdout of the screen, and stdout and stderr of a headless run, each written by a separate
//! thread. A terminal that takes nothing (a dead ssh link, a paused window) or a pipe whose reader
//! stopped does not block the thread that hears signals and keys: a screen draws the next frame
//! when the one before is written, and a headless run stops printing after a signal.
//!
//! Deliberately absent: non-blocking writes. Other programs share the open file.
//!
//! Invariant: bytes are written in the order in which they were sent. After a signal that ends the
//! program, no wait here is longer than [`HURRY`] without progress.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::signals::Signals;

/// Maximum wait for a frame. After it the frame does not count as shown.
const SHOWN: Duration = Duration::from_millis(500);
/// Maximum wait without progress after a signal.
const HURRY: Duration = Duration::from_millis(300);
/// Maximum wait after a signal.
const MAX_HURRY: Duration = Duration::from_secs(1);
/// Interval between checks for a signal.
const LOOK: Duration = Duration::from_millis(10);
/// Size of one write. Progress is counted in these.
const WRITE_BYTES: usize = 4 * 1024;
/// Maximum number of bytes that wait, unless they came at once.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Stdout, while a screen or a headless run uses it. A panic restores the terminal through it.
static STDOUT: OnceLock<Arc<Output>> = OnceLock::new();
/// Stderr, while a headless run uses it.
static STDERR: OnceLock<Output> = OnceLock::new();

/// A file that a thread writes.
pub struct Output {
    shared: Arc<Shared>,
    signals: Signals,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes that the thread did not take yet.
    waiting: Vec<u8>,
    is_writing: bool,
    /// Number of writes.
    writes: u64,
    failed: Option<ErrorKind>,
}

impl Output {
    /// Returns stdout. Its thread is started once.
    pub fn stdout(signals: &Signals) -> io::Result<Arc<Output>> {
        let stdout = rustix::stdio::stdout().try_clone_to_owned()?;
        let output = Arc::new(Output::on(stdout, signals.clone())?);
        Ok(Arc::clone(STDOUT.get_or_init(|| output)))
    }

    /// Lets threads write stdout and stderr of a headless run.
    pub fn of_run(signals: &Signals) -> io::Result<()> {
        Output::stdout(signals)?;
        let stderr = rustix::stdio::stderr().try_clone_to_owned()?;
        let stderr = Output::on(stderr, signals.clone())?;
        STDERR.get_or_init(|| stderr);
        Ok(())
    }

    /// Returns stdout, if a thread writes it.
    pub fn of_stdout() -> Option<&'static Arc<Output>> {
        STDOUT.get()
    }

    /// Returns stderr, if a thread writes it.
    pub(super) fn of_stderr() -> Option<&'static Output> {
        STDERR.get()
    }

    /// Starts the thread that writes this file.
    fn on(file: OwnedFd, signals: Signals) -> io::Result<Output> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("output".to_string())
            .spawn(move || of_thread.write(&file))?;
        Ok(Output { shared, signals })
    }

    /// Hands bytes to the thread.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.locked();
        state.check()?;
        let is_full = state.waiting.len() + bytes.len() > MAX_WAITING_BYTES;
        if is_full && !state.waiting.is_empty() {
            return Err(io::Error::new(
                ErrorKind::WouldBlock,
                "the terminal takes no output",
            ));
        }
        state.waiting.extend_from_slice(bytes);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Writes bytes, however long that takes. After a signal it fails if nobody reads them.
    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let is_unread = self.is_hurried() && !self.is_idle()?;
        if !is_unread {
            self.send(bytes)?;
            if self.wait()? {
                return Ok(());
            }
        }
        Err(io::Error::new(ErrorKind::WouldBlock, "nobody reads it"))
    }

    /// Returns whether everything is written.
    pub fn is_idle(&self) -> io::Result<bool> {
        let state = self.shared.locked();
        state.check()?;
        Ok(state.is_idle())
    }

    /// Waits for a frame, for a moment at most. Returns whether everything is written.
    pub fn shows(&self) -> io::Result<bool> {
        self.wait_within(if self.is_hurried() {
            Duration::ZERO
        } else {
            SHOWN
        })
    }

    /// Waits until everything is written, or for a moment after a signal. Returns whether
    /// everything is written.
    pub fn wait(&self) -> io::Result<bool> {
        self.wait_within(Duration::MAX)
    }

    /// As [`Output::wait`], with a limit.
    pub fn wait_within(&self, limit: Duration) -> io::Result<bool> {
        let began = Instant::now();
        let mut hurried = None;
        let mut progress = (0, began);
        let mut state = self.shared.locked();
        loop {
            state.check()?;
            if state.is_idle() {
                return Ok(true);
            }
            if progress.0 != state.writes {
                progress = (state.writes, Instant::now());
            }
            if self.is_hurried() {
                let since = *hurried.get_or_insert_with(Instant::now);
                let stalled = progress.1.max(since);
                if stalled.elapsed() >= HURRY || since.elapsed() >= MAX_HURRY {
                    return Ok(false);
                }
            }
            if began.elapsed() >= limit {
                return Ok(false);
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether a signal ends the program.
    pub fn is_hurried(&self) -> bool {
        self.signals.last().is_some()
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_writing
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, file: &OwnedFd) {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.locked();
            while state.waiting.is_empty() {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut state.waiting);
            state.is_writing = true;
            drop(state);
            let written = self.write_all(file, &bytes);
            let mut state = self.locked();
            state.is_writing = false;
            if let Err(error) = written {
                state.failed = Some(error.kind());
                state.waiting.clear();
            }
            let is_over = state.failed.is_some();
            drop(state);
            self.changed.notify_all();
            if is_over {
                return;
            }
        }
    }

    fn write_all(&self, file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(file, &bytes[..bytes.len().min(WRITE_BYTES)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.locked().writes += 1;
                }
                Err(Errno::INTR) => {}
                // Another program made the shared file non-blocking.
                Err(Errno::AGAIN) => {
                    let mut fds = [PollFd::new(file, PollFlags::OUT)];
                    match poll(&mut fds, None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(e) => return Err(e.into()),
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

/// A writer that collects bytes and sends them when it is flushed.
pub struct FrameBuffer {
    bytes: Vec<u8>,
    output: Arc<Output>,
}

impl FrameBuffer {
    pub fn new(output: Arc<Output>) -> FrameBuffer {
        FrameBuffer {
            bytes: Vec::new(),
            output,
        }
    }
}

impl Write for FrameBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.output.send(&self.bytes);
        self.bytes.clear();
        sent
    }
}

/// Returns whether stderr takes a short text, or refuses it at once.
pub fn stderr_takes() -> bool {
    let stderr = rustix::stdio::stderr();
    let mut fds = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
    let until = Instant::now() + HURRY;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            // A signal says nothing about stderr.
            Err(Errno::INTR) => {}
            polled => return !matches!(polled, Ok(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (Output, UnixStream) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let output = Output::on(theirs.into(), Signals::default()).unwrap();
        (output, ours)
    }

    /// More than a socket holds.
    const FLOOD: usize = 8 * 1024 * 1024;

    #[test]
    fn what_nobody_reads_blocks_nobody_and_comes_in_order() {
        let (output, mut ours) = pair();
        output.send(&vec![b'a'; FLOOD]).unwrap();
        assert!(!output.wait_within(Duration::ZERO).unwrap());
        output.send(b"b").unwrap();
        assert!(!output.is_idle().unwrap());
        let mut read = vec![0; FLOOD + 1];
        ours.read_exact(&mut read).unwrap();
        assert!(read[..FLOOD].iter().all(|byte| *byte == b'a'));
        assert_eq!(read[FLOOD], b'b');
        assert!(output.wait().unwrap() && output.is_idle().unwrap());
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_reader() {
        let (output, _ours) = pair();
        output.send(&vec![b'a'; FLOOD]).unwrap();
        output.signals.pretend();
        assert!(!output.wait().unwrap());
    }

    #[test]
    fn there_is_a_bound_and_a_reader_that_left_is_an_error() {
        let (output, ours) = pair();
        output.send(&vec![b'a'; FLOOD]).unwrap();
        while output.shared.locked().writes == 0 {
            std::thread::yield_now();
        }
        output.send(&vec![b'b'; MAX_WAITING_BYTES]).unwrap();
        let refused = output.send(b"c").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        drop(ours);
        assert!(output.wait().is_err() && output.send(b"d").is_err());
    }
}
