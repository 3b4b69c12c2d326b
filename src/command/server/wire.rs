//! The protocol between agent and keeper over the socket: JSON objects, one per line. A `line`
//! object is followed by the given number of bytes, which are the line for the server.
//!
//! The keeper never sends a line of the server over the socket. It sends the length of `out`, and
//! the agent reads the file, so the agent learns nothing that is not in the journal.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum length of an object.
pub(super) const HEADER_MAX_BYTES: usize = 4096;

/// Version of the protocol. It grows when an older keeper could not understand an agent.
pub(super) const VERSION: u32 = 1;

/// Maximum number of characters of a reason.
const WHY_MAX_CHARS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToKeeper {
    /// The first message. The keeper answers nothing before it.
    Hello { version: u32, pid: u32 },
    /// A line of `bytes` bytes follows. If `durable`, it is on the disk before it is handed over.
    Line { bytes: u64, durable: bool },
    /// The lines before these places of `in` and `out` are not needed any more.
    Forget { input: u64, output: u64 },
    /// The session was closed properly, so the server ends now.
    Bye {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAgent {
    /// All lines of the previous agent are in `in`. Gives the lengths of `in` and `out`.
    Welcome {
        version: u32,
        input: u64,
        output: u64,
    },
    /// Another agent is connected and alive.
    Busy {
        pid: u32,
    },
    /// A line is in `in`, which now has this length. Lines are acknowledged in order.
    Taken {
        input: u64,
    },
    /// A line is not in `in` and was not handed over.
    Refused {
        why: String,
    },
    /// The length of `out` that can be read.
    Output {
        output: u64,
    },
    /// The output of the server cannot be journaled, and is not read until it can be.
    Paused {
        why: String,
    },
    Resumed {},
}

impl ToAgent {
    pub(super) fn refused(why: &str) -> ToAgent {
        ToAgent::Refused {
            why: why.chars().take(WHY_MAX_CHARS).collect(),
        }
    }

    pub(super) fn paused(why: &str) -> ToAgent {
        ToAgent::Paused {
            why: why.chars().take(WHY_MAX_CHARS).collect(),
        }
    }
}

/// Encodes a message for sending.
pub(super) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The error for received bytes that are not a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

/// Returns the first message of these bytes and its length, or `None` while it is incomplete.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, usize)>, Garbled> {
    let head = &bytes[..bytes.len().min(HEADER_MAX_BYTES)];
    match head.iter().position(|byte| *byte == b'\n') {
        Some(end) => match serde_json::from_slice(&head[..end]) {
            Ok(message) => Ok(Some((message, end + 1))),
            Err(_) => Err(Garbled),
        },
        None if bytes.len() >= HEADER_MAX_BYTES => Err(Garbled),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let hello = ToKeeper::Hello { version: 1, pid: 7 };
        let line = ToKeeper::Line {
            bytes: 3,
            durable: true,
        };
        let bytes = [encode(&hello), encode(&line), b"abc".to_vec()].concat();
        let (first, taken) = decode::<ToKeeper>(&bytes).unwrap().unwrap();
        assert_eq!((first, taken), (hello.clone(), encode(&hello).len()));
        let (second, more) = decode::<ToKeeper>(&bytes[taken..]).unwrap().unwrap();
        assert_eq!(second, line);
        assert_eq!(&bytes[taken + more..], b"abc");
    }

    #[test]
    fn bytes_that_cannot_become_a_message_are_refused_at_once() {
        assert_eq!(decode::<ToKeeper>(b"{\"bye\""), Ok(None));
        assert_eq!(decode::<ToKeeper>(b"GET / HTTP/1.1\n"), Err(Garbled));
        assert_eq!(decode::<ToKeeper>(&[b'x'; 5000]), Err(Garbled));
    }
}
