//! Printing. A reader that goes away is no error.

use std::io::Write;

use crate::core::visible::visible;

/// A line of data on stdout, made safe for a terminal.
pub fn line(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", visible(text));
}

/// Bytes on stdout as they are.
pub fn raw(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// One line on stderr for the person who watches.
pub fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", visible(text));
}

/// What went wrong, and what to do.
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
