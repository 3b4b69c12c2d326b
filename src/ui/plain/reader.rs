//! The thread that reads lines, from a terminal or a pipe.
//!
//! Invariant: when a [`Lines`] is dropped its thread has ended, so that another program gets
//! every key.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Maximum length of a line. The rest is left out.
const MAX_LINE_BYTES: usize = 1024 * 1024;

pub(crate) struct Lines {
    /// Closed to end the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Starts the reader. `send` is called with each line, and at the end with `None`. It returns
    /// whether more lines are wanted.
    pub(crate) fn start(
        send: impl FnMut(Option<String>) -> bool + Send + 'static,
    ) -> io::Result<Lines> {
        let stdin = rustix::stdio::stdin().try_clone_to_owned()?;
        let (stopped, stop) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("terminal".to_string())
            .spawn(move || read(&stdin, &stopped, send))?;
        Ok(Lines {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn read(stdin: &OwnedFd, stopped: &UnixStream, mut send: impl FnMut(Option<String>) -> bool) {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => {
                send(None);
                return;
            }
        }
        let [ready, is_stopped] = fds.map(|fd| !fd.revents().is_empty());
        if is_stopped {
            return;
        }
        if !ready {
            continue;
        }
        let read = match rustix::io::read(stdin, &mut buffer) {
            Ok(n) => n,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => 0,
        };
        if read == 0 {
            if !line.is_empty() && !send(Some(text(&mut line))) {
                return;
            }
            send(None);
            return;
        }
        for byte in &buffer[..read] {
            let is_end = *byte == b'\n';
            if is_end && !send(Some(text(&mut line))) {
                return;
            }
            if !is_end && line.len() < MAX_LINE_BYTES {
                line.push(*byte);
            }
        }
    }
}

/// Removes the line end, also that of DOS.
fn text(line: &mut Vec<u8>) -> String {
    let text = String::from_utf8_lossy(line).replace('\0', "\u{2400}");
    line.clear();
    text.strip_suffix('\r').map_or(text.clone(), str::to_string)
}
