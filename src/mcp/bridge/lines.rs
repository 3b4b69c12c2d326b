//! Stdin and stdout, a message a line. Each has a thread of its own, which blocks when the other
//! side does not read: then nothing more is read of the network either.

use std::io::{BufRead, Read, Write};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::command::server::LINE_MAX_BYTES;
use crate::mcp::refusal::Refusal;

/// So many lines wait, in either direction.
const WAITING_MAX: usize = 32;

/// Lines of stdin, until it is closed.
pub fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(WAITING_MAX);
    // It ends with the process: a read of stdin cannot be broken off.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let most = LINE_MAX_BYTES as u64 + 1;
            let read = Read::take(&mut stdin, most).read_until(b'\n', &mut line);
            // A line without an end was never handed over.
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

/// Stdout. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Output(mpsc::Sender<Vec<u8>>);

/// Stdout, and the thread that writes it: it ends when the last [`Output`] is gone.
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
    /// A message of the server as one line. Line breaks stand only between the parts of JSON.
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
        // Nobody listens: the process is about to end.
        let _ = self.0.send(line).await;
    }

    /// The answer to a request that the server did not answer.
    pub async fn refuse(&self, id: &Value, refusal: &Refusal) {
        self.error(id, &refusal.to_error()).await;
    }

    pub async fn error(&self, id: &Value, error: &Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        self.say(answer.to_string().as_bytes()).await;
    }
}
