//! Printing: data on stdout, notes and errors on stderr.
//!
//! A reader that left is not an error: nothing more is printed. Data that is lost for another
//! reason, such as a full disk, makes the program fail: see [`take_lost_output`].

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use super::Output;
use crate::core::visible::visible;

/// State of the data that this process printed on stdout.
enum Stdout {
    /// All of it was written.
    Written,
    /// The reader closed the pipe.
    Unread,
    /// Some of it was not written. `None`: the error was already reported.
    Lost(Option<io::Error>),
}

static STDOUT: Mutex<Stdout> = Mutex::new(Stdout::Written);

/// Prints a line of data on stdout, made safe for a terminal.
pub fn line(text: &str) {
    raw(format!("{}\n", visible(text)).as_bytes());
}

/// Prints bytes on stdout, unchanged.
pub fn raw(bytes: &[u8]) {
    if let Some(output) = Output::of_stdout() {
        return unless_failed(|| output.write_all(bytes));
    }
    print(|stdout| stdout.write_all(bytes));
}

/// Prints on stdout with `write`, unless an earlier write failed.
pub fn print(write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) {
    unless_failed(|| {
        let mut stdout = io::stdout().lock();
        write(&mut stdout).and_then(|()| stdout.flush())
    });
}

/// Writes, unless an earlier write failed: a part in the middle is never missing.
fn unless_failed(write: impl FnOnce() -> io::Result<()>) {
    let mut state = STDOUT.lock().unwrap_or_else(PoisonError::into_inner);
    if !matches!(*state, Stdout::Written) {
        return;
    }
    if let Err(error) = write() {
        *state = match error.kind() {
            io::ErrorKind::BrokenPipe => Stdout::Unread,
            _ => Stdout::Lost(Some(error)),
        };
    }
}

/// Returns whether everything that was printed was written. If not, nothing more is.
pub fn is_written() -> bool {
    let state = STDOUT.lock().unwrap_or_else(PoisonError::into_inner);
    matches!(*state, Stdout::Written)
}

/// Returns why data on stdout was lost, once. A reader that left lost nothing.
pub fn take_lost_output() -> Option<io::Error> {
    let mut state = STDOUT.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *state {
        Stdout::Written | Stdout::Unread => None,
        Stdout::Lost(error) => error.take(),
    }
}

/// Prints one line on stderr, for the person who watches.
pub fn note(text: &str) {
    let line = format!("{}\n", visible(text));
    let _ = match Output::of_stderr() {
        Some(output) => output.write_all(line.as_bytes()),
        None => io::stderr().lock().write_all(line.as_bytes()),
    };
}

/// Prints an error and a hint on stderr.
pub fn error(message: &str, hint: Option<&str>) {
    note(&format!("error: {message}"));
    if let Some(hint) = hint {
        note(&format!("hint: {hint}"));
    }
}

/// Says on stderr that background commands outlive the program.
pub fn note_background(running: usize) {
    match running {
        0 => {}
        1 => note("1 background command is still running; rewake ps lists it"),
        n => note(&format!(
            "{n} background commands are still running; rewake ps lists them"
        )),
    }
}
