//! Printing for subcommands. A reader that goes away is no error.

use std::io::Write;

use crate::core::visible::visible;

/// A line of data on stdout, made safe for a terminal.
pub fn line(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", visible(text));
}

/// A line for the user on stderr, made safe for a terminal.
pub fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", visible(text));
}

/// Bytes on stdout as they are.
pub fn raw(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// A UTC time in the user's own zone: `2026-11-21 14:05`.
pub fn local_time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| {
            t.to_zoned(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        })
        .unwrap_or_else(|_| "?".into())
}
