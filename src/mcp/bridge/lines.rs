//! Stdin and stdout, one message per line. Each has a separate thread, which blocks when the other
//! side does not read. Then the bridge stops reading from the network too.

use std::io::{BufRead, Read, Write};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::command::server::LINE_MAX_BYTES;
use crate::mcp::refusal::Refusal;

/// Maximum number of waiting lines in each direction.
const WAITING_MAX: usize = 32;

/// Returns the lines of stdin, until it is closed.
pub fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(WAITING_MAX);
    // The thread ends with the process, because a read of stdin cannot be cancelled.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let most = LINE_MAX_BYTES as u64 + 1;
            let read = Read::take(&mut stdin, most).read_until(b'\n', &mut line);
            // A line without an end was not written completely.
            if !read.is_ok_and(|n| n > 0) || line.pop() != Some(b'\n') {
                return;
            }
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A handle to stdout. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Output(mpsc::Sender<Vec<u8>>);

/// Returns a handle to stdout, and the thread that writes it. The thread ends when the last
/// [`Output`] is dropped.
pub fn output() -> (Output, JoinHandle<()>) {
    let (sender, mut lines) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
    let writer = std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        while let Some(line) = lines.blocking_recv() {
            let written = stdout.write_all(&line).and_then(|()| stdout.flush());
            if written.is_err() {
                return;
            }
        }
    });
    (Output(sender), writer)
}

impl Output {
    /// Writes a message of the server as one line. In JSON, line breaks only occur between tokens.
    pub async fn say(&self, message: &[u8]) {
        let mut line: Vec<u8> = message
            .iter()
            .map(|byte| {
                if matches!(byte, b'\n' | b'\r') {
                    b' '
                } else {
                    *byte
                }
            })
            .collect();
        line.push(b'\n');
        // Nobody reads any more: the process is about to end.
        let _ = self.0.send(line).await;
    }

    /// Answers a request for the server.
    pub async fn refuse(&self, id: &Value, refusal: &Refusal) {
        self.error(id, &refusal.to_error()).await;
    }

    pub async fn error(&self, id: &Value, error: &Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        self.say(answer.to_string().as_bytes()).await;
    }
}
