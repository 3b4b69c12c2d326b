//! The keyboard, which another program may borrow together with the terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use crate::config::Env;
use crate::ui::Wake;
use crate::ui::app::Msg;
use crate::ui::input::Reader;
use crate::ui::plain::Lines;
use crate::ui::terminal::Screen;

/// The thread that reads the keyboard, or lines where nothing is drawn.
pub(crate) struct Keyboard {
    to_screen: Sender<Wake>,
    /// Lines are read, not keys.
    is_lines: bool,
    /// Keys come over a network.
    is_remote: bool,
    /// `None`: another program has the keyboard.
    reader: Option<Listening>,
}

impl Keyboard {
    pub(super) fn new(to_screen: Sender<Wake>, is_lines: bool, env: &Env) -> Keyboard {
        Keyboard {
            to_screen,
            is_lines,
            is_remote: ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"]
                .iter()
                .any(|name| env.var(name).is_some_and(|value| !value.is_empty())),
            reader: None,
        }
    }

    /// Starts to read.
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        let wanted = Arc::new(AtomicBool::new(true));
        let source = match self.is_lines {
            true => self.lines()?,
            false => self.keys(Arc::clone(&wanted))?,
        };
        self.reader = Some(Listening {
            wanted,
            _reader: source,
        });
        Ok(())
    }

    fn keys(&self, wanted: Arc<AtomicBool>) -> io::Result<KeySource> {
        let sender = self.to_screen.clone();
        let gone = EndReporter {
            to_screen: self.to_screen.clone(),
            wanted,
        };
        let reader = Reader::start(self.is_remote, move |heard| {
            let _ = &gone;
            crate::ui::message(heard).is_none_or(|msg| sender.send(Wake::Msg(msg)).is_ok())
        })?;
        Ok(KeySource::Keys(reader))
    }

    fn lines(&self) -> io::Result<KeySource> {
        let sender = self.to_screen.clone();
        let lines = Lines::start(move |line| {
            let wake = match line {
                Some(line) => Wake::Msg(Msg::Line(line, Instant::now())),
                None => Wake::NoMoreLines,
            };
            sender.send(wake).is_ok()
        })?;
        Ok(KeySource::Lines(lines))
    }

    /// Gives the keyboard and the terminal to another program until `other` returns.
    pub(super) fn lend<T>(
        &mut self,
        screen: &mut Screen,
        other: impl FnOnce() -> T,
    ) -> io::Result<T> {
        self.reader = None;
        let result = screen.lend(other);
        if let Err(e) = self.listen() {
            tracing::error!(error = %e, "the keyboard cannot be read");
            let _ = self.to_screen.send(Wake::Gone);
        }
        result
    }
}

/// The reader's thread, as long as it is wanted.
struct Listening {
    wanted: Arc<AtomicBool>,
    _reader: KeySource,
}

/// Kept for its end.
enum KeySource {
    Keys(#[expect(dead_code, reason = "dropped at the end")] Reader),
    Lines(#[expect(dead_code, reason = "dropped at the end")] Lines),
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::SeqCst);
    }
}

/// Reports when the reader's thread ends by itself: the terminal is gone.
struct EndReporter {
    to_screen: Sender<Wake>,
    wanted: Arc<AtomicBool>,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        if self.wanted.load(Ordering::SeqCst) {
            let _ = self.to_screen.send(Wake::Gone);
        }
    }
}
