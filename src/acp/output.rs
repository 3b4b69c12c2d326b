//! Frames for the client: a queue, and the thread that writes it to stdout.
//!
//! Nobody waits for the client: a sender appends to the queue. While chunks of one message wait,
//! they are merged. A client with too much unread output is disconnected; the sessions have
//! everything in their logs.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::wire::RpcError;

/// Maximum size of unread output.
const UNREAD_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Size of unread output above which a replay waits.
const REPLAY_WAITS_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of the text of one chunk.
const CHUNK_MAX_BYTES: usize = 1024 * 1024;

/// The kind of a chunk of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkKind {
    User,
    Agent,
    Thought,
}

impl ChunkKind {
    fn update(self) -> &'static str {
        match self {
            ChunkKind::User => "user_message_chunk",
            ChunkKind::Agent => "agent_message_chunk",
            ChunkKind::Thought => "agent_thought_chunk",
        }
    }
}

/// A piece of a message.
#[derive(Debug)]
struct Chunk {
    session: String,
    kind: ChunkKind,
    /// ID of the message.
    message: String,
    text: String,
}

#[derive(Debug)]
enum Outgoing {
    Line(String),
    Chunk(Chunk),
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Outgoing>,
    /// Size of the frames, and of the one that is being written.
    bytes: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    closed: Notify,
}

/// A handle to stdout. Cheap to clone.
#[derive(Clone)]
pub(super) struct Output(Arc<Queue>);

impl Output {
    /// Starts the thread that writes to stdout.
    pub(super) fn start() -> Output {
        let queue = Arc::new(Queue::default());
        let output = Output(Arc::clone(&queue));
        // The thread ends with the process, because a write to a full pipe cannot be cancelled.
        std::thread::spawn(move || write_all(&queue));
        output
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.0.waiting)
    }

    fn push(&self, size: usize, frame: Outgoing) {
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return;
        }
        waiting.bytes += size;
        waiting.frames.push_back(frame);
        if waiting.bytes > UNREAD_MAX_BYTES {
            tracing::warn!(bytes = waiting.bytes, "the client does not read");
            close(&self.0, &mut waiting);
        }
        self.0.changed.notify_all();
    }

    fn send(&self, frame: &Value) {
        let line = format!("{frame}\n");
        self.push(line.len(), Outgoing::Line(line));
    }

    /// Answers a request.
    pub(super) fn respond(&self, id: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&self, id: &Value, error: &RpcError) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// Sends a request to the client.
    pub(super) fn request(&self, id: u64, method: &str, params: &Value) {
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&frame);
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends an update of a session.
    pub(super) fn update(&self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.notify("session/update", &params);
    }

    /// Sends a piece of a message. While it waits, later pieces of the message are added to it.
    pub(super) fn chunk(&self, session: &str, kind: ChunkKind, message: &str, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let at = crate::core::text::boundary_below(rest, CHUNK_MAX_BYTES.min(rest.len()));
            let (piece, more) = rest.split_at(at);
            self.chunk_of(session, kind, message, piece);
            rest = more;
        }
    }

    fn chunk_of(&self, session: &str, kind: ChunkKind, message: &str, text: &str) {
        let mut waiting = self.waiting();
        if let Some(Outgoing::Chunk(last)) = waiting.frames.back_mut()
            && last.session == session
            && last.kind == kind
            && last.message == message
            && last.text.len() + text.len() <= CHUNK_MAX_BYTES
        {
            last.text.push_str(text);
            waiting.bytes += text.len();
            return;
        }
        drop(waiting);
        let chunk = Chunk {
            session: session.to_string(),
            kind,
            message: message.to_string(),
            text: text.to_string(),
        };
        self.push(text.len(), Outgoing::Chunk(chunk));
    }

    /// Waits until the client has read most of the output. Only a replay waits, whose engine does
    /// not run yet. Returns false when the client is gone.
    pub(super) fn has_room(&self) -> bool {
        let mut waiting = self.waiting();
        while waiting.bytes > REPLAY_WAITS_BYTES && !waiting.is_closed {
            let woken = self.0.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        !waiting.is_closed
    }

    /// Returns when the client does not read any more.
    pub(super) async fn closed(&self) {
        self.0.closed.notified().await;
    }

    /// Accepts no more frames, and wakes those who wait for room.
    pub(super) fn end(&self) {
        close(&self.0, &mut self.waiting());
        self.0.changed.notify_all();
    }

    /// Waits until everything is written, at most until `end`.
    pub(super) fn drain(&self, end: Instant) {
        let mut waiting = self.waiting();
        while waiting.bytes > 0 && !waiting.is_closed && Instant::now() < end {
            let pause = Duration::from_millis(10);
            let woken = self.0.changed.wait_timeout(waiting, pause);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn close(queue: &Queue, waiting: &mut Waiting) {
    waiting.is_closed = true;
    waiting.frames.clear();
    waiting.bytes = 0;
    queue.closed.notify_one();
}

/// Writes frames until stdout is closed.
fn write_all(queue: &Queue) {
    loop {
        let mut waiting = lock(&queue.waiting);
        let frame = loop {
            match waiting.frames.pop_front() {
                Some(frame) => break frame,
                None if waiting.is_closed => return,
                None => {
                    let woken = queue.changed.wait(waiting);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(waiting);
        let (size, line) = match frame {
            Outgoing::Line(line) => (line.len(), line),
            Outgoing::Chunk(chunk) => (chunk.text.len(), chunk_line(&chunk)),
        };
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(line.as_bytes());
        let written = written.and_then(|()| stdout.flush());
        let mut waiting = lock(&queue.waiting);
        waiting.bytes = waiting.bytes.saturating_sub(size);
        if let Err(error) = written {
            tracing::info!(%error, "stdout is closed");
            close(queue, &mut waiting);
        }
        queue.changed.notify_all();
    }
}

fn chunk_line(chunk: &Chunk) -> String {
    let update = json!({
        "sessionUpdate": chunk.kind.update(),
        "messageId": chunk.message,
        "content": { "type": "text", "text": chunk.text },
    });
    let params = json!({ "sessionId": chunk.session, "update": update });
    let frame = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    format!("{frame}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwritten() -> Output {
        Output(Arc::default())
    }

    #[test]
    fn chunks_of_one_message_merge_while_they_wait() {
        let output = unwritten();
        output.chunk("s", ChunkKind::Agent, "m1", "one ");
        output.chunk("s", ChunkKind::Agent, "m1", "two");
        output.chunk("s", ChunkKind::Thought, "m1", "hm");
        output.chunk("s", ChunkKind::Agent, "m2", "three");
        let waiting = output.waiting();
        let texts: Vec<&str> = waiting
            .frames
            .iter()
            .map(|frame| match frame {
                Outgoing::Chunk(chunk) => chunk.text.as_str(),
                Outgoing::Line(line) => line,
            })
            .collect();
        assert_eq!(texts, ["one two", "hm", "three"]);
    }

    #[test]
    fn a_client_that_does_not_read_is_disconnected() {
        let output = unwritten();
        let text = "é".repeat(CHUNK_MAX_BYTES);
        for message in 0..32 {
            assert!(!output.waiting().is_closed, "{message}");
            output.chunk("s", ChunkKind::Agent, &message.to_string(), &text);
        }
        output.chunk("s", ChunkKind::Agent, "last", &text);
        let waiting = output.waiting();
        assert!(waiting.is_closed && waiting.frames.is_empty());
    }
}
