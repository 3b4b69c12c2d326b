//! The questions of servers for a person, on their way to the engine, which records and shows them.
//!
//! Invariant: a question that is dropped without an answer is answered by nobody. The server asks
//! it again of the process that resumes the call.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::core::form::{FormAnswer, ServerQuestion};
use crate::mcp::elicit::{Elicit, Elicitation};
use crate::world::ServerAsks;

/// Maximum length of a key, which the server chooses. The log has the hash of a longer one.
const KEY_MAX_BYTES: usize = 200;

/// The questions of all servers of a session.
pub(super) struct Asks {
    sender: UnboundedSender<ServerAsks>,
    receiver: RefCell<UnboundedReceiver<ServerAsks>>,
    /// Number of questions that wait for an answer.
    open: Arc<watch::Sender<usize>>,
}

impl Asks {
    pub(super) fn new() -> Asks {
        // Unbounded: each call asks one question at a time and waits for its answer, so the calls
        // in progress are the limit.
        let (sender, receiver) = unbounded_channel();
        Asks {
            sender,
            receiver: RefCell::new(receiver),
            open: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Returns the handler of this server's questions.
    pub(super) fn of(&self, server: &str) -> Arc<dyn Elicit> {
        Arc::new(OfServer {
            server: server.to_string(),
            sender: self.sender.clone(),
            open: Arc::clone(&self.open),
        })
    }

    /// Returns the next question. Dropping the future loses none.
    pub(super) async fn next(&self) -> ServerAsks {
        let asked = poll_fn(|cx| self.receiver.borrow_mut().poll_recv(cx)).await;
        match asked {
            Some(asked) => asked,
            // This struct has a sender, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    /// Waits for some work up to the limit. The time in which a person is asked does not count.
    pub(super) async fn within<T>(
        &self,
        limit: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let Some(mut left) = limit else {
            return Some(work.await);
        };
        let mut work = std::pin::pin!(work);
        let mut open = self.open.subscribe();
        // This struct has the other end, so the wait cannot fail.
        let mut until = async |asks: bool| drop(open.wait_for(|n| (*n > 0) == asks).await);
        loop {
            let since = Instant::now();
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = until(true) => left = left.saturating_sub(since.elapsed()),
                () = tokio::time::sleep(left) => return None,
            }
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = until(false) => {}
            }
        }
    }
}

struct OfServer {
    server: String,
    sender: UnboundedSender<ServerAsks>,
    open: Arc<watch::Sender<usize>>,
}

impl Elicit for OfServer {
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, FormAnswer> {
        let question = ServerQuestion {
            server: self.server.clone(),
            key: bounded(question.key),
            message: question.message,
            wanted: question.wanted,
        };
        Box::pin(async move {
            let _open = AskedServer::new(&self.open);
            let (reply, answered) = oneshot::channel();
            let _ = self.sender.send(ServerAsks { question, reply });
            match answered.await {
                Ok(answer) => answer,
                // Nobody answers any more in this process.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

struct AskedServer<'a>(&'a watch::Sender<usize>);

impl<'a> AskedServer<'a> {
    fn new(count: &'a watch::Sender<usize>) -> AskedServer<'a> {
        count.send_modify(|n| *n += 1);
        AskedServer(count)
    }
}

impl Drop for AskedServer<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

fn bounded(key: String) -> String {
    match key.len() <= KEY_MAX_BYTES && !key.chars().any(char::is_control) {
        true => key,
        false => format!("blake3:{}", blake3::hash(key.as_bytes()).to_hex()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::form::RequestedAnswer;

    fn elicitation(key: &str) -> Elicitation {
        Elicitation {
            key: key.to_string(),
            message: "m".to_string(),
            wanted: RequestedAnswer::Form { fields: Vec::new() },
        }
    }

    #[tokio::test]
    async fn the_time_limit_of_a_call_does_not_run_while_a_person_is_asked() {
        let asks = Asks::new();
        let server = asks.of("s");
        let limit = Duration::from_secs(1);
        let person = async {
            let asked = asks.next().await;
            tokio::time::sleep(limit * 2).await;
            asked.reply.send(FormAnswer::Decline).unwrap();
        };
        let call = server.ask(elicitation("a"));
        let (called, ()) = tokio::join!(asks.within(Some(limit), call), person);
        assert_eq!(called, Some(FormAnswer::Decline));
        // The limit continues after the answer.
        let slow = async {
            server.ask(elicitation("b")).await;
            std::future::pending::<()>().await;
        };
        let person = async {
            asks.next().await.reply.send(FormAnswer::Cancel).unwrap();
        };
        let (called, ()) = tokio::join!(asks.within(Some(limit), slow), person);
        assert_eq!(called, None);
    }

    #[tokio::test]
    async fn a_question_that_nobody_takes_up_is_not_answered() {
        let asks = Asks::new();
        let server = asks.of("s");
        let mut asking = server.ask(elicitation("a"));
        let asked = tokio::select! {
            _ = &mut asking => panic!("it was answered"),
            asked = asks.next() => asked,
        };
        assert_eq!(asked.question.server, "s");
        drop(asked);
        let late = tokio::time::timeout(Duration::from_millis(20), &mut asking).await;
        assert!(late.is_err(), "{late:?}");
        drop(asking);
        assert_eq!(*asks.open.borrow(), 0);
    }

    #[test]
    fn a_key_that_a_server_made_up_is_bounded() {
        assert_eq!(bounded("server/7".into()), "server/7");
        for bad in ["a\u{1b}b".to_string(), "x".repeat(1000)] {
            let key = bounded(bad);
            assert!(key.starts_with("blake3:") && key.len() < 100, "{key}");
        }
    }
}
