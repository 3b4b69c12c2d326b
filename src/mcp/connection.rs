//! Asking a server: which era it speaks, a request and its answer, and what it asks meanwhile.
//!
//! Invariant: a request is sent once for its id. What an agent had asked before it died is found in
//! the journal, and its answer is waited for.

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
use super::era::{self, Era, HANDSHAKE, Known, STATELESS};
pub use super::error::McpError;
use super::form;
use super::message::{self, Heard, METHOD_NOT_FOUND, RpcError};
use super::refusal::{Refusal, Why};
use crate::command::server::{Client, Fate, Unsent, describe};
use crate::core::form::FormAnswer;

/// A server that refuses a line because it ends is over by then.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// How long a server may take to say that it has no handshake.
const DISCOVER_WITHIN: Duration = Duration::from_millis(1500);

const DISCOVER_ID: &str = "rewake_discover";
const INITIALIZE_ID: &str = "rewake_initialize";
const INITIALIZED: &str = "notifications/initialized";
const ELICIT: &str = "elicitation/create";

/// So many questions for a person are asked at the same time; what is beyond is declined.
const AT_ONCE_MAX: usize = 16;

/// So many lines that came before an answer are heard once it is there. What is beyond is heard
/// in the next call.
const HEARD_BEHIND_MAX: usize = 256;

/// So many questions wait to be asked again.
const OPEN_MAX: usize = 64;

/// A server that is known.
pub struct Connection {
    client: Client,
    known: Known,
    root: PathBuf,
    elicit: Arc<dyn Elicit>,
    /// Its requests that an agent before this one answered: how often one of each id.
    answered: Mutex<HashMap<String, usize>>,
    /// So many lines that wait to be heard were there before this process.
    from_before: AtomicUsize,
    /// Questions for a person that nobody answered yet: who asked was dropped.
    open: Mutex<VecDeque<Vec<u8>>>,
    reopened: Notify,
    /// How many requests wait for their answers.
    asking: AtomicUsize,
    noise: AtomicUsize,
}

impl Connection {
    /// Learns what the server is, if no agent before did. `root` is the workspace, which the server
    /// may ask for; `elicit` answers what it asks a person.
    ///
    /// # Errors
    /// It does not answer within the limit, or speaks no version that is known here.
    pub async fn begin(
        client: Client,
        root: &Path,
        limit: Duration,
        elicit: Arc<dyn Elicit>,
    ) -> Result<Self, McpError> {
        let mut connection = Connection {
            answered: Mutex::new(answered_before(&client)?),
            from_before: AtomicUsize::new(client.waiting()),
            client,
            known: Known {
                era: Era::Handshake,
                version: String::new(),
                name: String::new(),
                instructions: String::new(),
                has_tools: false,
                has_prompts: false,
                has_resources: false,
                tells_changes: false,
            },
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
            None => connection.learn(limit).await?,
        };
        Ok(connection)
    }

    async fn learn(&self, limit: Duration) -> Result<Known, McpError> {
        let discover = era::params(Era::Stateless, json!({}));
        let asked = self.ask(DISCOVER_ID, "server/discover", &discover, false);
        let known = match tokio::time::timeout(DISCOVER_WITHIN.min(limit), asked).await {
            Ok(Ok(result)) => era::read_discover(&result).ok(),
            // One that is over or wants a login says so to the next question too.
            Ok(Err(
                fatal @ (McpError::Over(_) | McpError::Login { .. } | McpError::Journal(_)),
            )) => {
                return Err(fatal);
            }
            Ok(Err(_)) | Err(_) => None,
        };
        let known = match known {
            Some(known) => known,
            None => self.shake_hands(limit).await?,
        };
        let bytes = serde_json::to_vec(&known).map_err(io::Error::from)?;
        self.client.remember(&bytes)?;
        Ok(known)
    }

    async fn shake_hands(&self, limit: Duration) -> Result<Known, McpError> {
        let late = |method: &str| McpError::Late {
            method: method.to_string(),
            limit,
        };
        let params = era::initialize_params();
        let asked = self.ask(INITIALIZE_ID, "initialize", &params, false);
        let result = match tokio::time::timeout(limit, asked).await {
            Err(_) => return Err(late("initialize")),
            // One that was late with the first question has no handshake.
            Ok(Err(error @ McpError::Rpc { .. })) => {
                return match self.client.fate(DISCOVER_ID)? {
                    Fate::Answered(line) => match message::read_answer(&line) {
                        Some(Ok(result)) => {
                            let versions = |found: Vec<String>| version(&found.join(", "));
                            era::read_discover(&result).map_err(versions)
                        }
                        Some(Err(_)) | None => Err(error),
                    },
                    Fate::NotBegun | Fate::Running | Fate::Lost => Err(error),
                };
            }
            Ok(result) => result?,
        };
        let known = era::read_initialize(&result).map_err(|found| version(&found))?;
        let mut is_told = false;
        self.client.each_sent(|line| {
            let heard = message::read_other(line);
            is_told |= matches!(heard, Heard::Notification { method, .. } if method == INITIALIZED);
        })?;
        if !is_told {
            let line = message::notification(INITIALIZED, &json!({}));
            if let Err(unsent) = self.client.send(&line, false).await {
                return Err(self.unsent(unsent).await);
            }
        }
        Ok(known)
    }

    pub fn known(&self) -> &Known {
        &self.known
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How many lines the server printed that are no messages.
    pub fn noise(&self) -> usize {
        self.noise.load(Ordering::Relaxed)
    }

    /// Whether the server said that its tools changed, and they were not listed since.
    pub fn is_changed(&self) -> bool {
        self.client.is_list_changed()
    }

    /// Notes whether the tools are still to be listed: false before they are listed, true when that
    /// failed.
    pub fn note_changed(&self, is_changed: bool) {
        self.client.note_list_changed(is_changed);
    }

    /// Asks for something that changes nothing, under an id of its own.
    pub(super) async fn look(&self, method: &str, params: Value) -> Result<Value, McpError> {
        let params = era::params(self.known.era, params);
        self.ask(&new_id(), method, &params, false).await
    }

    /// Sends a request if it was never sent, and waits for its answer. What the server asks
    /// meanwhile is answered.
    pub(super) async fn ask(
        &self,
        id: &str,
        method: &str,
        params: &Value,
        durable: bool,
    ) -> Result<Value, McpError> {
        if self.client.fate(id)? == Fate::NotBegun {
            let line = message::request(id, method, params);
            let sent = self.client.send(&line, durable).await;
            match sent {
                // The keeper took it, or died: then the journal says what became of it.
                Ok(()) | Err(Unsent::Gone) => {}
                Err(refused) => return Err(self.unsent(refused).await),
            }
        }
        let fate = self.attend(id).await?;
        match fate {
            Fate::Answered(line) => match message::read_answer(&line) {
                Some(Ok(result)) => Ok(result),
                Some(Err(error)) => Err(refused(method, error)),
                None => Err(McpError::Garbled(method.to_string())),
            },
            Fate::NotBegun => Err(McpError::Over(self.how().await)),
            Fate::Running | Fate::Lost => Err(McpError::Lost(self.how().await)),
        }
    }

    /// Waits for an answer. Questions for a person are asked beside it, so that an answer, or the
    /// end of the server, is not kept waiting by them.
    async fn attend(&self, id: &str) -> io::Result<Fate> {
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
        // What the server said before its answer is heard too.
        for _ in 0..HEARD_BEHIND_MAX {
            let Ok(Some(bytes)) = self.client.try_other() else {
                break;
            };
            let line = self.said(bytes);
            if let Some(question) = self.hear(line, questions.len() < AT_ONCE_MAX).await {
                questions.push(question);
            }
        }
        drop(questions);
        // A question that is open when nothing is asked of the server any more is over with it.
        if self.asking.load(Ordering::Relaxed) == 1 {
            let open: Vec<_> = self.open().drain(..).collect();
            for line in open {
                if let Heard::Request { id, .. } = message::read_other(&line) {
                    self.reply(&id, Ok(form::answer(None, FormAnswer::Cancel)))
                        .await;
                }
            }
        }
        Ok(fate)
    }

    /// The next message that is no answer. `None`: nothing more comes.
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
                line = self.client.other() => return Some(self.said(line.ok().flatten()?)),
                () = reopened => {}
            }
        }
    }

    /// A line as it comes from the journal: first those that were there before this process.
    fn said(&self, bytes: Vec<u8>) -> Line {
        let one_less = |left: usize| left.checked_sub(1);
        let (order, left) = (Ordering::Relaxed, &self.from_before);
        Line {
            bytes,
            is_from_before: left.fetch_update(order, order, one_less).is_ok(),
        }
    }

    /// A question of an earlier start was answered then. A server may use its id again.
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

    /// A server that is ending takes no more lines. How it ended says more than that.
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

    /// `Some`: a question for a person, to be waited for beside all else.
    async fn hear(&self, line: Line, may_ask: bool) -> Option<BoxFuture<'_, ()>> {
        let Line {
            bytes: line,
            is_from_before,
        } = line;
        match message::read_other(&line) {
            Heard::Noise => drop(self.noise.fetch_add(1, Ordering::Relaxed)),
            Heard::Notification { .. } => {}
            Heard::Request { id, .. } if is_from_before && self.was_answered(&id) => {}
            Heard::Request { id, method, .. } if method == ELICIT && !may_ask => {
                self.reply(&id, Ok(form::answer(None, FormAnswer::Decline)))
                    .await;
            }
            Heard::Request { id, method, params } if method == ELICIT => {
                let mut asked = Asked {
                    connection: self,
                    line,
                };
                return Some(Box::pin(async move {
                    let answer = self.question(format!("server/{id}"), &params).await;
                    // From here on it is answered: who is dropped while the line goes its way leaves
                    // no question behind.
                    asked.line.clear();
                    self.reply(&id, Ok(answer)).await;
                }));
            }
            Heard::Request { id, method, .. } => {
                self.reply(&id, answer_to(&method, &self.root)).await;
            }
        }
        None
    }

    /// Asks a person what the server wants to know. What the server gets.
    async fn question(&self, key: String, params: &Value) -> Value {
        let question = form::read(key, params);
        let answer = match &question {
            Some(question) => self.ask_person(question.clone()).await,
            None => FormAnswer::Decline,
        };
        form::answer(question.as_ref(), answer)
    }

    /// A server is not ended while a person thinks, whether this process lives or not.
    async fn ask_person(&self, question: Elicitation) -> FormAnswer {
        let mut asking = self.elicit.ask(question);
        if let Some(answer) = (&mut asking).now_or_never() {
            return answer;
        }
        if let Err(error) = self.client.keep_for_person() {
            tracing::warn!(%error, "a server may be ended while it waits for an answer");
        }
        asking.await
    }

    /// What a server wants to know in the middle of a request; `None`: it is not told such things.
    pub(super) async fn input(&self, key: String, request: &Value) -> Option<Value> {
        match request["method"].as_str().unwrap_or_default() {
            ELICIT => Some(self.question(key, &request["params"]).await),
            method => answer_to(method, &self.root).ok(),
        }
    }

    async fn reply(&self, id: &Value, answer: Result<Value, RpcError>) {
        let line = message::answer(id, answer);
        // A server that is gone needs no answer.
        let _ = self.client.send(&line, false).await;
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the server that is no answer.
struct Line {
    bytes: Vec<u8>,
    /// It was there when this process came.
    is_from_before: bool,
}

/// A question that is being asked. One that is dropped unanswered is asked again.
struct Asked<'a> {
    connection: &'a Connection,
    line: Vec<u8>,
}

impl Drop for Asked<'_> {
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

/// The id of a request that changes nothing, so nobody looks for it later.
pub(super) fn new_id() -> String {
    format!("rewake_{}", Uuid::new_v4().simple())
}

/// What an answer with an error comes to. What a bridge says in place of a server is told from what
/// a server says.
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

/// What a server may ask of a client.
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

/// RFC 8089, with what may not stand in a URI as `%XX`.
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

/// How often the server's requests of each id were answered already.
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
