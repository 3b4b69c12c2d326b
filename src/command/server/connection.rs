//! The connection of one agent to the keeper's socket: its messages that are not yet handled, and
//! the messages that it has not received yet.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::line::LINE_MAX_BYTES;
use super::wire::{self, Garbled, ToAgent, ToKeeper};

/// Maximum number of unsent bytes; an agent that does not read them is disconnected.
const UNREAD_MAX_BYTES: usize = 1024 * 1024;

const READ_BYTES: usize = 64 * 1024;

/// A message of an agent, with the line that followed it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentMessage {
    Hello {
        pid: u32,
    },
    /// A line, without its newline.
    Line {
        line: Vec<u8>,
        durable: bool,
    },
    TooLong {
        bytes: u64,
    },
    Forget {
        input: u64,
        output: u64,
    },
    Bye,
}

pub(super) struct Connection {
    pub stream: UnixStream,
    pub since: Instant,
    /// The pid that the agent gave, for display.
    pub pid: u32,
    /// Whether the agent will send nothing more.
    pub is_over: bool,
    received: Vec<u8>,
    /// Remaining bytes of a line that is too long.
    skip: u64,
    to_send: Vec<u8>,
    /// The length of `out`, sent after `to_send`. Only the newest length counts.
    output: Option<u64>,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            since: Instant::now(),
            pid: 0,
            is_over: false,
            received: Vec::new(),
            skip: 0,
            to_send: Vec::new(),
            output: None,
        })
    }

    /// Reads once. Returns whether there may be more.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_over = true,
            Ok(n) => {
                self.take(&buffer[..n]);
                return true;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return true,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_over = true,
        }
        false
    }

    fn take(&mut self, bytes: &[u8]) {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= skipped as u64;
        self.received.extend_from_slice(&bytes[skipped..]);
    }

    /// Returns the next complete message. An incomplete one at the end is never returned.
    pub(super) fn next(&mut self) -> Result<Option<AgentMessage>, Garbled> {
        let Some((message, head)) = wire::decode(&self.received)? else {
            return Ok(None);
        };
        let mut taken = head;
        let said = match message {
            ToKeeper::Hello { pid, .. } => AgentMessage::Hello { pid },
            ToKeeper::Forget { input, output } => AgentMessage::Forget { input, output },
            ToKeeper::Bye {} => AgentMessage::Bye,
            ToKeeper::Line { bytes, .. } if bytes > LINE_MAX_BYTES as u64 => {
                let here = (self.received.len() - head) as u64;
                self.skip = bytes.saturating_sub(here);
                taken += usize::try_from(here.min(bytes)).unwrap_or(0);
                AgentMessage::TooLong { bytes }
            }
            ToKeeper::Line { bytes, durable } => {
                let end = head + usize::try_from(bytes).unwrap_or(usize::MAX);
                let Some(line) = self.received.get(head..end) else {
                    return Ok(None);
                };
                taken = end;
                AgentMessage::Line {
                    line: line.to_vec(),
                    durable,
                }
            }
        };
        self.received.drain(..taken);
        if self.received.is_empty() {
            self.received = Vec::new();
        }
        Ok(Some(said))
    }

    /// Sends as much of a message as possible now. A server that says more than the agent reads
    /// does not grow the queue: lengths of `out` that were not sent yet are merged into one.
    pub(super) fn tell(&mut self, message: &ToAgent) {
        match message {
            ToAgent::Output { output } => self.output = Some(*output),
            other => self.to_send.extend(wire::encode(other)),
        }
        self.flush();
    }

    /// Sends as much as possible now.
    pub(super) fn flush(&mut self) {
        loop {
            if self.to_send.is_empty() {
                let Some(output) = self.output.take() else {
                    break;
                };
                self.to_send = wire::encode(&ToAgent::Output { output });
            }
            match self.stream.write(&self.to_send) {
                Ok(n) if n > 0 => drop(self.to_send.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Its earlier messages are still read.
                Ok(_) | Err(_) => {
                    self.to_send.clear();
                    self.output = None;
                }
            }
        }
        if self.to_send.len() > UNREAD_MAX_BYTES {
            self.to_send.clear();
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(super) fn has_to_send(&self) -> bool {
        !self.to_send.is_empty() || self.output.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, Connection) {
        let (agent, keeper) = UnixStream::pair().unwrap();
        (agent, Connection::new(keeper).unwrap())
    }

    fn line(text: &[u8]) -> Vec<u8> {
        let head = ToKeeper::Line {
            bytes: text.len() as u64,
            durable: true,
        };
        [wire::encode(&head), text.to_vec()].concat()
    }

    #[test]
    fn a_line_that_was_torn_by_a_death_is_never_given() {
        let whole = line(b"whole");
        let torn = line(b"torn line");
        for kept in 0..torn.len() {
            let (mut agent, mut connection) = pair();
            agent.write_all(&whole).unwrap();
            agent.write_all(&torn[..kept]).unwrap();
            drop(agent);
            while connection.read() {}
            assert!(connection.is_over);
            let first = AgentMessage::Line {
                line: b"whole".to_vec(),
                durable: true,
            };
            assert_eq!(connection.next(), Ok(Some(first)));
            assert_eq!(connection.next(), Ok(None), "{kept} bytes");
        }
    }

    /// An agent that reads slowly is not disconnected because of a server's flood.
    #[test]
    fn an_agent_that_reads_slowly_is_told_the_last_length_of_a_flood() {
        let (mut agent, mut connection) = pair();
        let last = 200_000;
        for output in 0..=last {
            connection.tell(&ToAgent::Output { output });
            assert!(connection.to_send.len() <= 64, "{output}");
        }
        connection.tell(&ToAgent::Resumed {});
        agent.set_nonblocking(true).unwrap();
        let (mut received, mut told) = (Vec::new(), Vec::new());
        while connection.has_to_send() || told.last() != Some(&ToAgent::Output { output: last }) {
            let mut buffer = [0; READ_BYTES];
            let n = agent.read(&mut buffer).expect("it is still told");
            received.extend_from_slice(&buffer[..n]);
            while let Some((message, taken)) = wire::decode::<ToAgent>(&received).unwrap() {
                received.drain(..taken);
                told.push(message);
            }
            connection.flush();
        }
        assert!(told.contains(&ToAgent::Resumed {}));
    }

    #[test]
    fn the_line_after_a_line_that_is_too_long_is_read() {
        let (mut agent, mut connection) = pair();
        let bytes = LINE_MAX_BYTES as u64 + 1;
        let head = ToKeeper::Line {
            bytes,
            durable: true,
        };
        let sending = std::thread::spawn(move || {
            agent.write_all(&wire::encode(&head)).unwrap();
            agent.write_all(&vec![b'x'; LINE_MAX_BYTES + 1]).unwrap();
            agent.write_all(&line(b"next")).unwrap();
        });
        let mut said = Vec::new();
        while !connection.is_over {
            connection.read();
            said.extend(connection.next().unwrap());
            assert!(connection.received.len() < 1024 * 1024);
        }
        sending.join().unwrap();
        assert_eq!(said[0], AgentMessage::TooLong { bytes });
        assert!(matches!(&said[1], AgentMessage::Line { line, .. } if line == b"next"));
        assert_eq!(said.len(), 2);
    }
}
