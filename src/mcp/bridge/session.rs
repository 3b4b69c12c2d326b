//! State of a session: the headers that a server with a handshake expects in every request, its
//! own stream of messages, and the requests that wait for an answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::headers::{self, PROTOCOL_VERSION};
use super::lines::Output;
use super::messages::{MessageHead, Messages};
use super::mirror::Mirrors;
use super::wire::{Bad, Wire, refused};
use crate::core::half_character::read_lenient;
use crate::mcp::refusal::Refusal;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Pause before a broken stream is resumed, if the server does not name one.
pub const RETRY: Duration = Duration::from_secs(1);
/// Bounds for the pause that a server names.
const RETRY_MIN: Duration = Duration::from_millis(50);
pub const RETRY_MAX: Duration = Duration::from_secs(300);

/// Time limit for a server to begin a new session.
const RENEW_WITHIN: Duration = Duration::from_secs(30);

/// Time limit for ending a session. The keeper waits two seconds in all.
const END_WITHIN: Duration = Duration::from_millis(1500);

pub struct Session {
    pub wire: Wire,
    pub output: Output,
    pub mirrors: Mirrors,
    state: Mutex<State>,
    renewing: tokio::sync::Mutex<()>,
    listening: Mutex<Option<AbortHandle>>,
    in_flight: Mutex<HashMap<String, Arc<Notify>>>,
}

#[derive(Default)]
struct State {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Number of sessions so far.
    generation: u64,
    /// The lines that begin a new session.
    initialize: Vec<u8>,
    initialized: Vec<u8>,
}

/// The headers and the session for one message.
pub struct Along {
    pub headers: HeaderMap,
    /// Generation of the session. `None`: the message belongs to no session.
    pub session: Option<u64>,
}

impl Session {
    pub fn new(wire: Wire, output: Output) -> Session {
        Session {
            wire,
            output,
            mirrors: Mirrors::default(),
            state: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            listening: Mutex::default(),
            in_flight: Mutex::default(),
        }
    }

    /// Returns the headers of a message that is posted.
    pub fn along(&self, message: &Value) -> Along {
        let mut along = match headers::own_version(message) {
            Some(version) => Along {
                headers: headers::of_stateless(message, version),
                session: None,
            },
            // `initialize` begins a session, so it does not belong to one.
            None if message["method"] == "initialize" => Along {
                headers: HeaderMap::new(),
                session: None,
            },
            None => self.of_session(),
        };
        along.headers.insert(CONTENT_TYPE, JSON);
        along.headers.insert(ACCEPT, BOTH);
        along
    }

    fn of_session(&self) -> Along {
        let state = self.state();
        let mut headers = HeaderMap::new();
        if let Some(version) = &state.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        if let Some(id) = &state.id {
            headers.insert(SESSION, id.clone());
        }
        Along {
            headers,
            session: state.id.is_some().then_some(state.generation),
        }
    }

    /// Begins a session: `response` answered the message `line`.
    pub fn begin(&self, line: &[u8], response: &Response) {
        let mut state = self.state();
        state.id = response.headers().get(&SESSION).cloned();
        state.version = None;
        state.generation += 1;
        state.initialize = line.to_vec();
    }

    /// Stores the protocol version from the answer to `initialize`.
    pub fn agree(&self, answer: &[u8]) {
        let answer = read_lenient(answer).unwrap_or_default();
        let version = answer["result"]["protocolVersion"].as_str();
        self.state().version = version.and_then(|version| HeaderValue::from_str(version).ok());
    }

    /// Records that the handshake is done. From now on the server may send messages by itself.
    pub fn is_begun(self: &Arc<Self>, line: &[u8]) {
        self.state().initialized = line.to_vec();
        self.listen();
    }

    /// Begins a new session after the server forgot the old one. All requests that notice this
    /// share one new session.
    ///
    /// # Errors
    /// The server does not begin another.
    pub async fn renew(self: &Arc<Self>, generation: u64) -> Result<(), Bad> {
        let _one = self.renewing.lock().await;
        let (line, initialized) = {
            let state = self.state();
            if state.generation != generation {
                return Ok(());
            }
            (state.initialize.clone(), state.initialized.clone())
        };
        let renewed = tokio::time::timeout(RENEW_WITHIN, self.shake_hands(&line, &initialized));
        renewed.await.unwrap_or_else(|_| {
            Err(Refusal::not_done("the server forgot the session and begins no other").into())
        })?;
        self.listen();
        Ok(())
    }

    async fn shake_hands(&self, line: &[u8], initialized: &[u8]) -> Result<(), Bad> {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let along = self.along(&message);
        let response = self
            .wire
            .send(Method::POST, &along.headers, Some(line))
            .await?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        self.begin(line, &response);
        let none = || Refusal::not_done("the server forgot the session and begins no other");
        let mut messages = Messages::of(response).ok_or_else(none)?;
        loop {
            let next = messages.next().await.map_err(Refusal::not_done)?;
            let answer = next.ok_or_else(none)?;
            if MessageHead::of(&answer).is_some_and(|head| head.answers() == Some(&message["id"])) {
                self.agree(&answer);
                break;
            }
        }
        let along = self.along(&Value::Null);
        self.wire
            .send(Method::POST, &along.headers, Some(initialized))
            .await?;
        Ok(())
    }

    /// Reads the server's own messages, until it refuses or forgets the session.
    fn listen(self: &Arc<Self>) {
        let session = Arc::clone(self);
        let task = tokio::spawn(async move { session.listen_to_all().await });
        let before = self.listening().replace(task.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    async fn listen_to_all(&self) {
        let (mut last_id, mut retry, mut failures) = (None, RETRY, 0);
        loop {
            match self.open(last_id.as_deref()).await {
                Ok(response) if response.status().is_success() => {
                    let Some(mut messages) = Messages::of(response) else {
                        return;
                    };
                    while let Ok(Some(message)) = messages.next().await {
                        failures = 0;
                        self.deliver(&message).await;
                    }
                    last_id = messages.last_id().map(str::to_string).or(last_id);
                    retry = messages.retry().map_or(retry, within_bounds);
                }
                Ok(_) => return,
                Err(_) => {}
            }
            tokio::time::sleep(backoff(retry, failures)).await;
            failures += 1;
        }
    }

    /// Opens the stream of the server's messages, starting after the event `last_id`.
    pub async fn open(&self, last_id: Option<&str>) -> Result<Response, Refusal> {
        let mut headers = self.of_session().headers;
        headers.insert(ACCEPT, EVENTS);
        let last_id = last_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
        if let Some(last_id) = last_id {
            headers.insert(LAST_EVENT_ID, last_id);
        }
        self.wire.send(Method::GET, &headers, None).await
    }

    /// Registers a request that waits for its answer. `None`: another one has the same ID.
    pub fn expect(&self, id: &Value) -> Option<Arc<Notify>> {
        let mut in_flight = self.in_flight();
        let Entry::Vacant(place) = in_flight.entry(id.to_string()) else {
            return None;
        };
        Some(Arc::clone(place.insert(Arc::new(Notify::new()))))
    }

    /// Removes a waiting request. Returns false if it was not waiting.
    pub fn take(&self, id: &Value) -> bool {
        let done = self.in_flight().remove(&id.to_string());
        done.map(|done| done.notify_one()).is_some()
    }

    /// Returns whether no request is waiting.
    pub fn is_idle(&self) -> bool {
        self.in_flight().is_empty()
    }

    /// Refuses all waiting requests with this reason.
    pub async fn give_up(&self, refusal: &Refusal) {
        let waiting: Vec<String> = self.in_flight().keys().cloned().collect();
        for id in waiting {
            let id: Value = serde_json::from_str(&id).unwrap_or_default();
            if self.take(&id) {
                self.output.refuse(&id, refusal).await;
            }
        }
    }

    /// Passes on a message of the server. Drops an answer that no request waits for.
    pub async fn deliver(&self, message: &[u8]) {
        let Some(head) = MessageHead::of(message) else {
            return;
        };
        match head.answers() {
            Some(id) if !self.take(id) => {}
            Some(_) | None => self.output.say(message).await,
        }
    }

    /// Ends the session on the server.
    pub async fn end(&self) {
        if let Some(listening) = self.listening().take() {
            listening.abort();
        }
        let along = self.of_session();
        if along.session.is_some() {
            let ended = self.wire.send(Method::DELETE, &along.headers, None);
            let _ = tokio::time::timeout(END_WITHIN, ended).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listening(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn within_bounds(retry: Duration) -> Duration {
    retry.clamp(RETRY_MIN, RETRY_MAX)
}

/// Returns the pause before the next attempt, which grows with every failure.
pub fn backoff(retry: Duration, failures: u32) -> Duration {
    retry.saturating_mul(1 << failures.min(8)).min(RETRY_MAX)
}

/// Returns the generation of the session if the server does not know it.
pub fn is_forgotten(status: StatusCode, along: &Along) -> Option<u64> {
    along.session.filter(|_| status == StatusCode::NOT_FOUND)
}
