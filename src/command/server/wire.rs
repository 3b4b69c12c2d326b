//! What agent and keeper say to each other over the socket: JSON objects, one a line. A `line`
//! is followed by that many bytes, which are the line for the server.
//!
//! The keeper gives no line of the server over the socket. It says how long `out` is, and the
//! agent reads the file: so the agent is told nothing that is not in the journal.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A longer object is no message of ours.
pub(super) const HEADER_MAX_BYTES: usize = 4096;

/// Grows when an older keeper could not understand an agent.
pub(super) const VERSION: u32 = 1;

/// Of a reason, no more is told.
const WHY_MAX_CHARS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToKeeper {
    /// The first word. Nothing is answered before it.
    Hello { version: u32, pid: u32 },
    /// So many bytes follow. Durable: on the disk before they are handed over.
    Line { bytes: u64, durable: bool },
    /// What lies before these places of `in` and `out` will not be asked for again.
    Forget { input: u64, output: u64 },
    /// The session was left in order: the server is to end now.
    Bye {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAgent {
    /// All that the agent before had sent is in `in`. How long `in` and `out` are.
    Welcome {
        version: u32,
        input: u64,
        output: u64,
    },
    /// Another agent is there, and lives.
    Busy {
        pid: u32,
    },
    /// A line is in `in`, which is now so long. Lines are answered in their order.
    Taken {
        input: u64,
    },
    /// A line is not in `in` and was not handed over.
    Refused {
        why: String,
    },
    /// So much of `out` is to be read.
    Output {
        output: u64,
    },
    /// What the server says cannot be written down; nothing more is read of it until it can.
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

/// One message as it is sent.
pub(super) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// What of received bytes is no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

/// The first message of these bytes, and how long it is. `None`: it is not whole yet.
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
    fn what_is_no_message_is_not_waited_for() {
        assert_eq!(decode::<ToKeeper>(b"{\"bye\""), Ok(None));
        assert_eq!(decode::<ToKeeper>(b"GET / HTTP/1.1\n"), Err(Garbled));
        assert_eq!(decode::<ToKeeper>(&[b'x'; 5000]), Err(Garbled));
    }
}
