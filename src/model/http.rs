//! One request to a provider over HTTP: sent, streamed, decoded and retried.
//!
//! Every wait has a limit: for a connection, for the next byte, for a complete answer or error.
//! Dropping the future closes the connection.
//!
//! Invariant: redirects are not followed, since the key would go along. Failures name the
//! provider, the address and the status; the key, the query and the credentials of the address are
//! not in them, not even when the server repeats them.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

use super::list::MessageCache;
use super::post::Post;
use super::provider::Provider;
use super::retry::{Refused, Retry, Tries, is_transient};
use super::target::Blobs;
use super::timeouts::Timeouts;
use super::{Delta, Reply, errors, no_model, post, read, wait};
use crate::core::entry::{Failure, FailureClass};
use crate::core::half_character::read_lenient;
use crate::core::request::Request;
use crate::core::{request_failure, unsent};
use crate::net;
use crate::net::address::is_loopback;
use crate::net::client::{Kind, reason};

/// Maximum size of a list of models.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// Limits for an error response: bytes that are read, and length of the shown message.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const MAX_MESSAGE_CHARS: usize = 1_000;

/// The connections to providers. Clones are cheap and share them.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    retry: Retry,
    ca_file: Option<PathBuf>,
    /// Built for the first request, because loading the system's certificates takes time.
    remote: OnceLock<reqwest::Client>,
    /// For servers on this machine, which no proxy can reach.
    local: OnceLock<reqwest::Client>,
    local_plain: OnceLock<reqwest::Client>,
    /// The encoded messages of the last request, reused by the next.
    kept: Mutex<MessageCache>,
}

impl Client {
    /// Creates a client. `ca_file`: certificates (PEM) that are trusted besides those of the
    /// system.
    pub fn new(retry: Retry, ca_file: Option<PathBuf>) -> Client {
        Client(Arc::new(Inner {
            retry,
            ca_file,
            remote: OnceLock::new(),
            local: OnceLock::new(),
            local_plain: OnceLock::new(),
            kept: Mutex::default(),
        }))
    }

    /// Sends a request. The body is built before this returns, once for all tries.
    pub fn call<'a>(
        &'a self,
        provider: &'a Provider,
        request: &'a Request,
        blobs: Blobs<'_>,
        on: &'a mut (dyn FnMut(Delta) + Send),
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<'a> {
        let post = {
            // A summary that is requested meanwhile replaces the kept messages. The next request
            // then encodes its messages from scratch.
            let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
            Post::new(provider, request, blobs, &mut kept)
        };
        async move {
            let post = post?;
            let mut tries = Tries::new(self.0.retry);
            loop {
                let refused = match self.attempt(provider, &post, on).await {
                    Ok(reply) => return Ok(reply),
                    Err(refused) => refused,
                };
                tries.pause(refused.about(provider, &post.url), on).await?;
            }
        }
    }

    async fn attempt(
        &self,
        provider: &Provider,
        post: &Post,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Refused> {
        let mut patience = Timeouts::begin(provider);
        let client = self.client(&post.url)?;
        let send = || {
            let request = client.post(post.url.clone());
            let request = request.headers(post.headers.clone());
            request.body(post.body.clone()).send()
        };
        let response = match patience.wait(send()).await? {
            Err(error) if is_closed_unanswered(&error) => patience.wait(send()).await?,
            sent => sent,
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                let is_away = post.has_answered && errors::is_of_absent_server(&error);
                let refused = Refused::from(errors::not_sent(error).await);
                return Err(Refused { is_away, ..refused });
            }
        };
        if response.status().is_success() {
            let answer = read::answer(post.codec, response, &mut patience, on).await;
            return Ok(answer.map_err(|failure| errors::of_model(failure, &post.model))?);
        }
        Err(refuse(&post.model, provider, response, &patience).await)
    }

    /// Requests a small JSON document once, with the provider's headers.
    ///
    /// # Errors
    /// The server does not answer, its status is not a success, or its answer is too large or no
    /// JSON.
    pub async fn json(&self, provider: &Provider, url: &Url) -> Result<Value, Failure> {
        read_json(self.get(provider, url).await?, url).await
    }

    /// Requests a small JSON document about this one, as [`Client::json`].
    ///
    /// # Errors
    /// As [`Client::json`].
    pub async fn json_for(
        &self,
        provider: &Provider,
        url: &Url,
        about: &Value,
    ) -> Result<Value, Failure> {
        let request = self.client(url)?.post(url.clone());
        let request = request.body(about.to_string());
        read_json(self.send(provider, url, request).await?, url).await
    }

    /// Requests this address once, with the provider's headers.
    ///
    /// # Errors
    /// The server does not answer, or its status is not a success.
    pub async fn get(&self, provider: &Provider, url: &Url) -> Result<Response, Failure> {
        let request = self.client(url)?.get(url.clone());
        self.send(provider, url, request).await
    }

    async fn send(
        &self,
        provider: &Provider,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, Failure> {
        let codec = provider.protocol.codec();
        let codec = codec.ok_or_else(|| errors::nonsense("a script has no server"))?;
        let patience = Timeouts::begin(provider);
        let request = request.headers(post::headers(codec, provider)?);
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(refuse("", provider, response, &patience).await),
            Err(error) => Err(errors::not_sent(error).await.into()),
        }
        .map_err(|refused| refused.about(provider, url).failure)
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, Failure> {
        let kind = Kind::of(url);
        let cell = match kind {
            Kind::Remote => &self.0.remote,
            Kind::Local => &self.0.local,
            Kind::LocalPlain => &self.0.local_plain,
        };
        match cell.get() {
            Some(client) => Ok(client),
            None => {
                let built = build(kind, self.0.ca_file.as_ref())?;
                Ok(cell.get_or_init(|| built))
            }
        }
    }
}

async fn read_json(mut response: Response, url: &Url) -> Result<Value, Failure> {
    let mut body = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|e| errors::network(&reason(e)))?;
        let Some(chunk) = chunk else { break };
        body.extend_from_slice(&chunk);
        if body.len() > MAX_LIST_BYTES {
            let most = MAX_LIST_BYTES / (1024 * 1024);
            let what = format!("the answer of {} is larger than {most} MiB", shown(url));
            return Err(errors::nonsense(what));
        }
    }
    let parsed = read_lenient(&body);
    parsed.map_err(|_| errors::nonsense(format!("the answer of {} is not JSON", shown(url))))
}

fn build(kind: Kind, ca_file: Option<&PathBuf>) -> Result<reqwest::Client, Failure> {
    let built = net::client::builder(kind, ca_file.map(PathBuf::as_path));
    built.and_then(net::client::build).map_err(|e| Failure {
        class: FailureClass::Configuration,
        hint: e.hint().map(str::to_string),
        message: e.to_string(),
    })
}

/// Returns whether the server closed the connection without an answer while the request was on its
/// way. That happens to reused connections, so the request is sent once more at once. If it
/// happens again, the server has failed.
fn is_closed_unanswered(error: &reqwest::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    if error.is_connect() || error.is_timeout() {
        return false;
    }
    let mut inner: Option<&dyn std::error::Error> = error.source();
    while let Some(error) = inner {
        let io = error.downcast_ref::<std::io::Error>();
        let is_closed = |e: &std::io::Error| {
            matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
        };
        // hyper has no type for it that could be named here.
        if io.is_some_and(is_closed)
            || error.to_string() == "connection closed before message completed"
        {
            return true;
        }
        inner = error.source();
    }
    false
}

/// Reads the failure from an answer that is not 2xx. `model` is the name in the request, or empty.
async fn refuse(
    model: &str,
    provider: &Provider,
    mut response: Response,
    patience: &Timeouts<'_>,
) -> Refused {
    let status = response.status();
    let headers = response.headers().clone();
    let mut body = Vec::new();
    let read = async {
        while let Ok(Ok(Some(chunk))) = patience.wait(response.chunk()).await {
            body.extend(chunk.iter().take(MAX_ERROR_BYTES - body.len()));
            if body.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
    };
    // An unreadable body does not matter, since the status says enough. So a server that sends it
    // slowly is not waited for longer than a silent one.
    let _ = tokio::time::timeout(Duration::from_millis(provider.idle_timeout_ms), read).await;
    let body = String::from_utf8_lossy(&body);
    let mut failure = errors::classify(status.as_u16(), &body, model);
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_string());
    let asked = wait::asked(status.as_u16(), &header, &body, Timestamp::now());
    let is_away = wait::is_for_loading(status.as_u16(), &body);
    if status.is_redirection() {
        failure.class = FailureClass::BadRequest;
        failure.message = "it redirects, which is not followed".to_string();
        failure.hint = Some(format!("check the base_url of {}", provider.name));
    } else if status == StatusCode::NOT_FOUND {
        let hint = format!(
            "check the model's name and the base_url of {}",
            provider.name
        );
        failure.hint.get_or_insert(hint);
    } else if failure.hint.as_deref() == Some(errors::BILLING) {
        let account = match provider.key_env.as_str() {
            "" => &provider.name,
            variable => variable,
        };
        failure.hint = Some(format!(
            "the account of {account} has no credit, or its limit is reached: {}",
            errors::BILLING
        ));
    }
    let is_of_model = matches!(failure.class, FailureClass::Auth | FailureClass::BadRequest);
    if is_of_model && status.is_client_error() && no_model::is_named(&body, model) {
        let first = failure.hint.take();
        let first = first.or_else(|| hint(failure.class, provider, response.url()));
        failure.hint = Some(match first {
            Some(first) => format!("{first}; or {}", errors::OTHER_MODEL),
            None => errors::OTHER_MODEL.to_string(),
        });
    }
    failure.message = match failure.message.as_str() {
        "" => format!("HTTP {}", status.as_u16()),
        words => format!("HTTP {}: {words}", status.as_u16()),
    };
    Refused {
        failure,
        retry_after: asked,
        is_away,
    }
}

impl Refused {
    /// Adds the place and a hint, and removes secrets.
    fn about(mut self, provider: &Provider, url: &Url) -> Refused {
        let failure = &mut self.failure;
        let redacted = |text: &str| clip(&provider.redact(text));
        let (reason, address) = (redacted(&failure.message), redacted(&shown(url)));
        failure.message = request_failure::message(&provider.name, &reason, &address);
        // Some servers refuse images with the status of a temporary failure, or inside the stream.
        if is_transient(failure.class) && unsent::is_clear(&failure.message) {
            failure.class = FailureClass::BadRequest;
        }
        failure.hint = failure
            .hint
            .take()
            .or_else(|| hint(failure.class, provider, url));
        self
    }
}

fn hint(class: FailureClass, provider: &Provider, url: &Url) -> Option<String> {
    match class {
        FailureClass::Auth if provider.key_env.is_empty() => Some(format!(
            "name the variable of its key: api_key_env in [providers.{}]",
            provider.name
        )),
        FailureClass::Auth => Some(format!(
            "check the key in {}, and that it may use this model",
            provider.key_env
        )),
        FailureClass::Network if is_loopback(url) => {
            Some("start the server; `rewake demo` needs none".to_string())
        }
        FailureClass::Network => {
            Some("check the network connection; `rewake demo` needs none".to_string())
        }
        // The user sees this only if nothing more can leave the context. Before that, the session
        // learns the limit from the error.
        FailureClass::TooLong => Some(
            "the least that rewake has to send does not fit: give the model a larger context window \
             (llama-server -c 32768, OLLAMA_CONTEXT_LENGTH=32000), or choose another"
                .to_string(),
        ),
        FailureClass::RateLimit
        | FailureClass::Configuration
        | FailureClass::Overloaded
        | FailureClass::NoModel
        | FailureClass::UsedUp
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense
        | FailureClass::Hook => None,
    }
}

/// Returns the address without parts that may be secret.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for addresses without a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// Returns the message on one line, cut to a maximum length.
fn clip(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
