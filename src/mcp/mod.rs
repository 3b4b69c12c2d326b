//! The Model Context Protocol, as a client, over the stdin and stdout of a server that a keeper
//! holds ([`crate::command::server`]). A server over HTTP has a process between, the [`bridge`].
//!
//! The protocol has two eras, and a server is asked which one it speaks: up to 2025-11-25 a
//! connection begins with `initialize`; from 2026-07-28 each request says all that is needed. The
//! answer is kept beside the server, so the next agent does not ask again.
//!
//! | file | subject |
//! |---|---|
//! | [`connection`] | asking a server: the era, a request and its answer; what it asks of us |
//! | `call` | a call of a tool, in rounds, and as a task |
//! | `lists` | what a server has: tools, prompts, resources |
//! | [`message`] | JSON-RPC: what is sent, what came |
//! | [`era`] | the beginning of a connection |
//! | [`elicit`], `form` | what a server asks a person for |
//! | [`task`] | a call that a server answers later |
//! | `error` | why there is no answer |
//! | [`bridge`] | a server over HTTP, as a process that is spoken with in lines |
//! | [`oauth`] | logging in to a server over HTTP |
//! | [`refusal`] | what a bridge answers in place of a server |
//! | [`tools`] | what a server says of its tools, page by page, within bounds |
//! | [`result`] | what a call gave |
//! | [`offers`] | prompts and resources |
//! | [`catalogue`] | what is known of the tools of all servers of a session |
//! | [`changed`] | how the description of a tool changed |
//! | [`find`] | tools that fit words |
//! | [`names`] | the name that the model has for a tool |
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
pub mod launch;
mod lists;
pub mod message;
pub mod names;
pub mod oauth;
pub mod offers;
pub mod refusal;
pub mod result;
pub mod task;
pub mod tools;

/// Text of a server as it may be shown and sent: no control characters but line break and tab, and
/// no more than so many bytes.
pub(crate) fn clean(text: &str, max_bytes: usize) -> String {
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

/// Control characters, and those that turn the direction of what is read.
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
