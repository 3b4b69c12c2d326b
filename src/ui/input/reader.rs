//! The thread that waits for the terminal: its bytes, its size, and the passing of time.
//!
//! Invariant: when a [`Reader`] is dropped its thread has ended, so that another program
//! (an editor, the shell) gets every key.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

use super::burst::{Bursts, TerminalItem};

const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Reader {
    /// Closed to end the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    resized: SigId,
}

impl Reader {
    /// Reads the terminal of stdin. `is_remote`: keys come over a network. `send` is called with
    /// each event, on the reader's thread, and returns whether more are wanted. When the terminal is
    /// gone, `send` is not called again and is dropped.
    pub(crate) fn start(
        is_remote: bool,
        send: impl FnMut(TerminalItem) -> bool + Send + 'static,
    ) -> io::Result<Reader> {
        Reader::on(
            rustix::stdio::stdin().try_clone_to_owned()?,
            is_remote,
            send,
        )
    }

    /// Starts a reader like [`Reader::start`], on another terminal.
    pub(crate) fn on(
        terminal: OwnedFd,
        is_remote: bool,
        send: impl FnMut(TerminalItem) -> bool + Send + 'static,
    ) -> io::Result<Reader> {
        let (stopped, stop) = UnixStream::pair()?;
        let (winch, winched) = UnixStream::pair()?;
        winch.set_nonblocking(true)?;
        let resized = signal_hook::low_level::pipe::register(SIGWINCH, winched)?;
        let source = InputSource {
            terminal: File::from(terminal),
            stopped,
            winch,
        };
        let thread = std::thread::Builder::new()
            .name("terminal".to_string())
            .spawn(move || source.run(is_remote, send))?;
        Ok(Reader {
            stop: Some(stop),
            thread: Some(thread),
            resized,
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.resized);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

struct InputSource {
    terminal: File,
    stopped: UnixStream,
    winch: UnixStream,
}

/// The sources that are ready to be read.
struct Ready {
    terminal: bool,
    stopped: bool,
    winch: bool,
    /// The time up to which the terminal had nothing to read, if it still has nothing.
    silent_until: Instant,
}

impl InputSource {
    fn run(mut self, is_remote: bool, mut send: impl FnMut(TerminalItem) -> bool) {
        let mut input = Bursts::new(is_remote);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let Ok(ready) = self.wait(&input) else { return };
            if ready.stopped {
                return;
            }
            let mut items = Vec::new();
            let mut is_over = false;
            if ready.winch {
                items.extend(self.resize().map(TerminalItem::Event));
            }
            if ready.terminal {
                match self.terminal.read(&mut buffer) {
                    Ok(n) if n > 0 => items.extend(input.feed(&buffer[..n], Instant::now())),
                    Err(e)
                        if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                    Ok(_) | Err(_) => {
                        items.extend(input.end());
                        is_over = true;
                    }
                }
            } else {
                items.extend(input.tick(ready.silent_until));
            }
            let background = input.background().map(TerminalItem::Background);
            let status = input.takes_status().then_some(TerminalItem::TakesStatus);
            let answers = background.into_iter().chain(status);
            let is_wanted = answers.chain(items).all(&mut send);
            if is_over || !is_wanted {
                return;
            }
        }
    }

    fn wait(&self, input: &Bursts) -> io::Result<Ready> {
        let wanted = PollFlags::IN;
        let mut fds = [
            PollFd::new(&self.terminal, wanted),
            PollFd::new(&self.stopped, wanted),
            PollFd::new(&self.winch, wanted),
        ];
        let began = Instant::now();
        let patience = input.wait(began);
        let limit = patience
            .map(Timespec::try_from)
            .transpose()
            .map_err(io::Error::other)?;
        let silence = match poll(&mut fds, limit.as_ref()) {
            Ok(0) => patience.unwrap_or_default(),
            Ok(_) | Err(Errno::INTR) => Duration::ZERO,
            Err(e) => return Err(e.into()),
        };
        let [terminal, stopped, winch] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Ready {
            terminal,
            stopped,
            winch,
            silent_until: began + silence,
        })
    }

    /// Reads the size. Any number of signals are one new size.
    fn resize(&mut self) -> Option<Event> {
        let mut drained = [0; 64];
        while self.winch.read(&mut drained).is_ok_and(|n| n > 0) {}
        let size = rustix::termios::tcgetwinsize(&self.terminal).ok()?;
        Some(Event::Resize(size.ws_col, size.ws_row))
    }
}
