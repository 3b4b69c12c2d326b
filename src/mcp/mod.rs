//! A client of the Model Context Protocol, over the stdin and stdout of a server that a keeper
//! runs ([`crate::command::server`]). For a server over HTTP, the [`bridge`] process is in
//! between.
//!
//! The protocol has two eras, and the client asks a server which one it speaks. Up to 2025-11-25 a
//! connection begins with `initialize`. From 2026-07-28 each request contains all that is needed.
//! The answer is stored beside the server, so the next agent does not ask again.
//!
//! | file | subject |
//! |---|---|
//! | [`connection`] | a connection: its era, a request and its answer, requests of the server |
//! | `call` | a call of a tool, in rounds, and as a task |
//! | `lists` | a server's tools, prompts and resources |
//! | [`message`] | JSON-RPC messages |
//! | [`era`] | the beginning of a connection |
//! | [`elicit`], `form` | questions of a server for a person |
//! | [`task`] | a call that a server answers later |
//! | `error` | errors of a request |
//! | [`bridge`] | a server over HTTP, as a process that exchanges lines |
//! | [`oauth`] | logging in to a server over HTTP |
//! | [`refusal`] | errors that a bridge returns instead of the server's answer |
//! | [`tools`] | a server's list of tools, page by page, within bounds |
//! | [`result`] | the result of a call |
//! | [`offers`] | prompts and resources |
//! | [`catalogue`] | the last known tools of all servers of a session |
//! | [`changed`] | how the description of a tool changed |
//! | [`find`] | search for tools by words |
//!
//! Invariant: all that a server says is data: bounded, without control characters, never followed.
//!
//! Deliberately absent: sampling, logging and completions; subscriptions; the tasks of 2025-11-25.

pub mod bridge;
pub mod call;
pub mod catalogue;
pub mod changed;
pub mod connection;
pub mod elicit;
pub mod era;
mod error;
pub mod find;
mod form;
mod input_schema;
pub mod launch;
mod lists;
pub mod message;
pub mod oauth;
pub mod offers;
pub mod refusal;
pub mod result;
pub mod task;
pub mod tools;

use crate::command::server::Servers;
use crate::core::text::one_line;

/// Number of bytes at the end of a server's stderr that are searched for its last line.
const TAIL_BYTES: u64 = 4096;

/// Removes control characters other than line break and tab from a server's text, and cuts it to
/// `max_bytes`.
pub fn clean(text: &str, max_bytes: usize) -> String {
    let mut clean = String::new();
    for char in text.chars().filter(|c| !is_hidden(*c)) {
        if clean.len() + char.len_utf8() > max_bytes {
            clean.push('…');
            break;
        }
        clean.push(char);
    }
    clean
}

/// Returns the last line that a server printed on stderr, which often explains an error: without
/// control characters, and cut to `max_bytes` and `max_chars`.
pub fn last_line(
    servers: &Servers,
    run: &str,
    max_bytes: usize,
    max_chars: usize,
) -> Option<String> {
    let printed = servers.printed(run, TAIL_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&printed);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(one_line(&clean(last, max_bytes), max_chars))
}

/// Returns whether this is a control character, or one that changes the direction of text.
fn is_hidden(char: char) -> bool {
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn nothing_hidden_and_nothing_endless_comes_through() {
        assert_eq!(clean("a\u{1b}[31mb\n\tc\r\u{202e}", 100), "a[31mb\n\tc");
        assert_eq!(clean("ä".repeat(10).as_str(), 5), "ää…");
        assert_eq!(clean("tag\u{e0041}", 100), "tag");
    }
}
