//! A connection to a server: the protocol version, requests with their answers, and the server's
//! own requests.
//!
//! Invariant: a request is sent once for its id. What an agent had asked before it died is found
//! in the journal, and its answer is waited for.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::elicit::{Elicit, Elicitation};
use super::era::{self, Era, HANDSHAKE, NegotiatedServer, ProtocolHint, STATELESS};
pub use super::error::McpError;
use super::form;
use super::message::{self, METHOD_NOT_FOUND, RpcError, ServerMessage};
use super::refusal::{Refusal, Why};
use crate::command::server::{Client, ServerOutcome, Unsent, describe};
use crate::core::form::FormAnswer;

/// Time limit for the end of a server that refuses a line because it is ending.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Time limit for a server to answer that it needs no handshake.
const DISCOVER_WITHIN: Duration = Duration::from_millis(1500);

const DISCOVER_ID: &str = "rewake_discover";
const INITIALIZE_ID: &str = "rewake_initialize";
const INITIALIZED: &str = "notifications/initialized";
const ELICIT: &str = "elicitation/create";

/// Maximum number of simultaneous questions for a person. Further questions are declined.
const AT_ONCE_MAX: usize = 16;

/// Maximum number of earlier lines that are handled once an answer has arrived. Further lines are
/// handled in the next call.
const HEARD_BEHIND_MAX: usize = 256;

/// Maximum number of questions that wait to be asked again.
const OPEN_MAX: usize = 64;

/// A connection to a server whose protocol version is known.
pub struct Connection {
    client: Client,
    known: NegotiatedServer,
    root: PathBuf,
    elicit: Arc<dyn Elicit>,
    /// Requests of the server that an earlier agent answered: the number of answers for each ID.
    answered: Mutex<HashMap<String, usize>>,
    /// Number of unread lines from before this process.
    from_before: AtomicUsize,
    /// Unanswered questions for a person whose call was dropped.
    open: Mutex<VecDeque<Vec<u8>>>,
    reopened: Notify,
    /// Number of requests that wait for their answers.
    asking: AtomicUsize,
    noise: AtomicUsize,
}

impl Connection {
    /// Detects the protocol of the server, unless an earlier agent stored it. `root` is the
    /// workspace, which the server may ask for. `elicit` answers its questions for a person. `hint`:
    /// the protocol, as far as it is known.
    ///
    /// # Errors
    /// The server does not answer within the limit, or speaks no supported version.
    pub async fn begin(
        client: Client,
        root: &Path,
        limit: Duration,
        elicit: Arc<dyn Elicit>,
        hint: ProtocolHint,
    ) -> Result<Self, McpError> {
        let mut connection = Connection {
            answered: Mutex::new(answered_before(&client)?),
            from_before: AtomicUsize::new(client.waiting()),
            client,
            known: NegotiatedServer::default(),
            root: root.to_path_buf(),
            elicit,
            open: Mutex::default(),
            reopened: Notify::new(),
            asking: AtomicUsize::new(0),
            noise: AtomicUsize::new(0),
        };
        let kept = connection.client.remembered()?;
        let kept = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        connection.known = match kept {
            Some(known) => known,
            None => connection.learn(limit, hint).await?,
        };
        Ok(connection)
    }

    async fn learn(
        &self,
        limit: Duration,
        hint: ProtocolHint,
    ) -> Result<NegotiatedServer, McpError> {
        let newest = era::HANDSHAKE[0];
        let known = match hint {
            ProtocolHint::Only(era::STATELESS) => {
                let late = McpError::Late {
                    method: "server/discover".to_string(),
                    limit,
                };
                self.discover(limit).await?.ok_or(late)?
            }
            ProtocolHint::Only(version) => self.shake_hands(limit, version).await?,
            // Some servers never answer `server/discover`, which would be waited for at each start.
            ProtocolHint::Earlier(Era::Handshake) => match self.shake_hands(limit, newest).await {
                Err(refused @ McpError::Rpc { .. }) => self
                    .discover(DISCOVER_WITHIN.min(limit))
                    .await?
                    .ok_or(refused)?,
                done => done?,
            },
            ProtocolHint::Earlier(Era::Stateless) | ProtocolHint::Unknown => {
                match self.discover(DISCOVER_WITHIN.min(limit)).await? {
                    Some(known) => known,
                    None => self.shake_hands(limit, newest).await?,
                }
            }
        };
        let bytes = serde_json::to_vec(&known).map_err(io::Error::from)?;
        self.client.remember(&bytes)?;
        Ok(known)
    }

    /// Asks for the protocol without a handshake. Returns `None` if the server does not have it or
    /// does not answer.
    async fn discover(&self, within: Duration) -> Result<Option<NegotiatedServer>, McpError> {
        let discover = era::params(Era::Stateless, json!({}));
        let asked = self.ask(DISCOVER_ID, "server/discover", &discover, false);
        match tokio::time::timeout(within, asked).await {
            Ok(Ok(result)) => Ok(era::read_discover(&result).ok()),
            // A server that ended or needs a login answers the next request in the same way.
            Ok(Err(
                fatal @ (McpError::Over(_) | McpError::Login { .. } | McpError::Journal(_)),
            )) => Err(fatal),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    async fn shake_hands(
        &self,
        limit: Duration,
        wanted: &str,
    ) -> Result<NegotiatedServer, McpError> {
        let late = |method: &str| McpError::Late {
            method: method.to_string(),
            limit,
        };
        let params = era::initialize_params(wanted);
        let asked = self.ask(INITIALIZE_ID, "initialize", &params, false);
        let result = match tokio::time::timeout(limit, asked).await {
            Err(_) => return Err(late("initialize")),
            // A server that answered the first request too late has no handshake.
            Ok(Err(error @ McpError::Rpc { .. })) => {
                return match self.client.outcome(DISCOVER_ID)? {
                    ServerOutcome::Answered(line) => match message::read_answer(&line) {
                        Some(Ok(result)) => {
                            let versions = |found: Vec<String>| version(&found.join(", "));
                            era::read_discover(&result).map_err(versions)
                        }
                        Some(Err(_)) | None => Err(error),
                    },
                    ServerOutcome::NotBegun | ServerOutcome::Running | ServerOutcome::Lost => {
                        Err(error)
                    }
                };
            }
            Ok(result) => result?,
        };
        let known = era::read_initialize(&result).map_err(|found| version(&found))?;
        let mut is_told = false;
        self.client.each_sent(|line| {
            let heard = message::read_other(line);
            is_told |= matches!(heard, ServerMessage::Notification { method, .. } if method == INITIALIZED);
        })?;
        if !is_told {
            let line = message::notification(INITIALIZED, &json!({}));
            if let Err(unsent) = self.client.send(&line, false).await {
                return Err(self.unsent(unsent).await);
            }
        }
        Ok(known)
    }

    pub fn known(&self) -> &NegotiatedServer {
        &self.known
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the number of printed lines that are not messages.
    pub fn noise(&self) -> usize {
        self.noise.load(Ordering::Relaxed)
    }

    /// Returns whether the server announced a change of its tools since they were last listed.
    pub fn is_changed(&self) -> bool {
        self.client.is_list_changed()
    }

    /// Records whether the tools have to be listed again: false before listing them, true if that
    /// failed.
    pub fn note_changed(&self, is_changed: bool) {
        self.client.note_list_changed(is_changed);
    }

    /// Sends a request without effects, under a new ID.
    pub(super) async fn look(&self, method: &str, params: Value) -> Result<Value, McpError> {
        let params = era::params(self.known.era, params);
        self.ask(&new_id(), method, &params, false).await
    }

    /// Sends a request if it was never sent, and waits for its answer. Meanwhile it answers the
    /// requests of the server.
    pub(super) async fn ask(
        &self,
        id: &str,
        method: &str,
        params: &Value,
        durable: bool,
    ) -> Result<Value, McpError> {
        if self.client.outcome(id)? == ServerOutcome::NotBegun {
            let line = message::request(id, method, params);
            let sent = self.client.send(&line, durable).await;
            match sent {
                // The keeper sent the line or died. The journal shows the outcome.
                Ok(()) | Err(Unsent::Gone) => {}
                Err(refused) => return Err(self.unsent(refused).await),
            }
        }
        let fate = self.attend(id).await?;
        match fate {
            ServerOutcome::Answered(line) => match message::read_answer(&line) {
                Some(Ok(result)) => Ok(result),
                Some(Err(error)) => Err(refused(method, error)),
                None => Err(McpError::Garbled(method.to_string())),
            },
            ServerOutcome::NotBegun => Err(McpError::Over(self.how().await)),
            ServerOutcome::Running | ServerOutcome::Lost => Err(McpError::Lost(self.how().await)),
        }
    }

    /// Waits for an answer. Questions for a person run at the same time, so they do not delay the
    /// answer or the detection of the server's end.
    async fn attend(&self, id: &str) -> io::Result<ServerOutcome> {
        let _counted = Counted::new(&self.asking);
        let mut questions: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let fate = loop {
            tokio::select! {
                biased;
                fate = self.client.answer(id) => break fate?,
                Some(()) = questions.next(), if !questions.is_empty() => {}
                Some(line) = self.heard() => {
                    if let Some(question) = self.hear(line, questions.len() < AT_ONCE_MAX).await {
                        questions.push(question);
                    }
                }
            }
        };
        // Handles the messages that the server sent before its answer.
        for _ in 0..HEARD_BEHIND_MAX {
            let Ok(Some(bytes)) = self.client.try_other() else {
                break;
            };
            let line = self.mark_line(bytes);
            if let Some(question) = self.hear(line, questions.len() < AT_ONCE_MAX).await {
                questions.push(question);
            }
        }
        drop(questions);
        // An open question is cancelled when no request to the server is in progress any more.
        if self.asking.load(Ordering::Relaxed) == 1 {
            let open: Vec<_> = self.open().drain(..).collect();
            for line in open {
                if let ServerMessage::Request { id, .. } = message::read_other(&line) {
                    self.reply(&id, Ok(form::answer(None, FormAnswer::Cancel)))
                        .await;
                }
            }
        }
        Ok(fate)
    }

    /// Returns the next message that is not an answer, or `None` if no more will come.
    async fn heard(&self) -> Option<Line> {
        loop {
            let reopened = self.reopened.notified();
            tokio::pin!(reopened);
            reopened.as_mut().enable();
            if let Some(bytes) = self.open().pop_front() {
                return Some(Line {
                    bytes,
                    is_from_before: false,
                });
            }
            tokio::select! {
                line = self.client.other() => return Some(self.mark_line(line.ok().flatten()?)),
                () = reopened => {}
            }
        }
    }

    /// Marks a line from the journal: the first ones are from before this process.
    fn mark_line(&self, bytes: Vec<u8>) -> Line {
        let one_less = |left: usize| left.checked_sub(1);
        let (order, left) = (Ordering::Relaxed, &self.from_before);
        Line {
            bytes,
            is_from_before: left.fetch_update(order, order, one_less).is_ok(),
        }
    }

    /// Returns whether an earlier process answered this request. A server may use its ID again.
    fn was_answered(&self, id: &Value) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let times = answered.get_mut(&id.to_string());
        times.is_some_and(|times| match times.checked_sub(1) {
            Some(left) => {
                *times = left;
                true
            }
            None => false,
        })
    }

    async fn how(&self) -> String {
        describe(self.client.ended().await.how())
    }

    /// A server that is ending accepts no more lines. The reason of its end is the better error.
    async fn unsent(&self, unsent: Unsent) -> McpError {
        match unsent {
            Unsent::Refused(why) => {
                match tokio::time::timeout(ENDS_WITHIN, self.client.ended()).await {
                    Ok(past) => McpError::Over(describe(past.how())),
                    Err(_) => McpError::Refused(why),
                }
            }
            Unsent::Gone => McpError::Over("its keeper is gone".to_string()),
        }
    }

    /// Handles a line. Returns a future if it is a question for a person, to be awaited beside all
    /// other work.
    async fn hear(&self, line: Line, may_ask: bool) -> Option<BoxFuture<'_, ()>> {
        let Line {
            bytes: line,
            is_from_before,
        } = line;
        match message::read_other(&line) {
            ServerMessage::Noise => drop(self.noise.fetch_add(1, Ordering::Relaxed)),
            ServerMessage::Notification { .. } => {}
            ServerMessage::Request { id, .. } if is_from_before && self.was_answered(&id) => {}
            ServerMessage::Request { id, method, .. } if method == ELICIT && !may_ask => {
                self.reply(&id, Ok(form::answer(None, FormAnswer::Decline)))
                    .await;
            }
            ServerMessage::Request { id, method, params } if method == ELICIT => {
                let mut asked = PendingElicitation {
                    connection: self,
                    line,
                };
                return Some(Box::pin(async move {
                    let answer = self.question(format!("server/{id}"), &params).await;
                    // From here on the question counts as answered. If the future is dropped while
                    // the line is sent, the question is not asked again.
                    asked.line.clear();
                    self.reply(&id, Ok(answer)).await;
                }));
            }
            ServerMessage::Request { id, method, .. } => {
                self.reply(&id, answer_to(&method, &self.root)).await;
            }
        }
        None
    }

    /// Asks a person the server's question, and returns the answer for the server.
    async fn question(&self, key: String, params: &Value) -> Value {
        let question = form::read(key, params);
        let answer = match &question {
            Some(question) => self.ask_person(question.clone()).await,
            None => FormAnswer::Decline,
        };
        form::answer(question.as_ref(), answer)
    }

    /// Keeps the server alive while a person thinks, even if this process ends.
    async fn ask_person(&self, question: Elicitation) -> FormAnswer {
        let mut asking = self.elicit.ask(question);
        if let Some(answer) = (&mut asking).now_or_never() {
            return answer;
        }
        if let Err(error) = self.client.extend_for_person() {
            tracing::warn!(%error, "a server may be ended while it waits for an answer");
        }
        asking.await
    }

    /// Returns the answer to a request that a server makes during a call, or `None` if it is not
    /// supported.
    pub(super) async fn input(&self, key: String, request: &Value) -> Option<Value> {
        match request["method"].as_str().unwrap_or_default() {
            ELICIT => Some(self.question(key, &request["params"]).await),
            method => answer_to(method, &self.root).ok(),
        }
    }

    async fn reply(&self, id: &Value, answer: Result<Value, RpcError>) {
        let line = message::answer(id, answer);
        // A server that ended needs no answer.
        let _ = self.client.send(&line, false).await;
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the server that is not an answer.
struct Line {
    bytes: Vec<u8>,
    /// The line was there before this process started.
    is_from_before: bool,
}

/// A question that is being asked. If it is dropped without an answer, it is asked again.
struct PendingElicitation<'a> {
    connection: &'a Connection,
    line: Vec<u8>,
}

impl Drop for PendingElicitation<'_> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            let mut open = self.connection.open();
            if open.len() < OPEN_MAX {
                open.push_back(line);
            }
            drop(open);
            self.connection.reopened.notify_waiters();
        }
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Counted<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns an ID for a request without effects, which is never looked up later.
pub(super) fn new_id() -> String {
    format!("rewake_{}", Uuid::new_v4().simple())
}

/// Converts an error of a request. Tells the bridge's own refusals from errors of the server.
pub fn refused(method: &str, error: RpcError) -> McpError {
    match Refusal::read(&error) {
        None => McpError::Rpc {
            method: method.to_string(),
            error,
        },
        Some(Refusal { why, message }) => match why {
            Why::NotDone => McpError::Refused(message),
            Why::InDoubt => McpError::InDoubt(message),
            Why::Login(challenge) => McpError::Login { message, challenge },
        },
    }
}

fn version(found: &str) -> McpError {
    McpError::Version {
        found: found.to_string(),
        spoken: format!("{STATELESS}, {}", HANDSHAKE.join(", ")),
    }
}

/// Answers a request that a server may send to a client.
fn answer_to(method: &str, root: &Path) -> Result<Value, RpcError> {
    match method {
        "ping" => Ok(json!({})),
        "roots/list" => Ok(json!({ "roots": [{ "uri": file_uri(root) }] })),
        other => Err(RpcError {
            code: METHOD_NOT_FOUND,
            message: format!("rewake does not answer {}", super::clean(other, 100)),
            data: None,
        }),
    }
}

/// Returns a file URI (RFC 8089), with characters that a URI must not contain as `%XX`.
fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_string();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Counts the answered requests of the server, by ID.
fn answered_before(client: &Client) -> io::Result<HashMap<String, usize>> {
    let mut answered = HashMap::new();
    client.each_sent(|line| {
        if message::read_answer(line).is_some()
            && let Ok(message) = serde_json::from_slice::<Value>(line)
        {
            *answered.entry(message["id"].to_string()).or_insert(0) += 1;
        }
    })?;
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_the_workspace_and_that_there_is_no_more() {
        let roots = answer_to("roots/list", Path::new("/a b/ü")).unwrap();
        assert_eq!(roots["roots"][0]["uri"], "file:///a%20b/%C3%BC");
        assert_eq!(answer_to("ping", Path::new("/")).unwrap(), json!({}));
        let refused = answer_to("sampling/createMessage", Path::new("/")).unwrap_err();
        assert_eq!(refused.code, METHOD_NOT_FOUND);
    }
}
