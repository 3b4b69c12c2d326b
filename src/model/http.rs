//! One request to a provider over HTTP: sent, streamed, decoded, and tried again.
//!
//! Every wait has an end: for a connection, for the next byte, for the whole of an answer
//! or of an error. Dropping the future closes the connection.
//!
//! Invariant: redirects are not followed, since the key would go along. Failures name the
//! provider, the address and the status; the key, the query and the credentials of the
//! address are not in them, not even when the server repeats them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Certificate, Response, StatusCode, Url};

use super::patience::Patience;
use super::post::Post;
use super::provider::Provider;
use super::retry::{Refused, Retry, Tries, is_transient, retry_after};
use super::sse;
use super::target::Blobs;
use super::wire::Codec;
use super::{Delta, Reply};
use crate::core::entry::{Failure, FailureClass};
use crate::core::request::Request;
use crate::core::unsent;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// After the last event a well-behaved server closes the answer, and the connection can be
/// used again; another one is not waited for.
const LINGER: Duration = Duration::from_millis(100);

/// The most bytes an answer may have in all.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;

/// Of an error answer this much is read, and so much of its message shown.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Of an answer that is no event stream, so much is shown.
const HEAD_BYTES: usize = 200;

/// Connections to providers. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    retry: Retry,
    ca_file: Option<PathBuf>,
    /// Built with the first request: it reads the system's certificates, which takes time.
    remote: OnceLock<reqwest::Client>,
    /// For servers on this machine, which no proxy can reach.
    local: OnceLock<reqwest::Client>,
}

impl Client {
    /// `ca_file`: certificates (PEM) that are trusted besides those of the system.
    pub fn new(retry: Retry, ca_file: Option<PathBuf>) -> Client {
        Client(Arc::new(Inner {
            retry,
            ca_file,
            remote: OnceLock::new(),
            local: OnceLock::new(),
        }))
    }

    /// The body is made before this returns, once for all tries.
    pub fn call<'a>(
        &'a self,
        provider: &'a Provider,
        request: &'a Request,
        blobs: Blobs<'_>,
        on: &'a mut (dyn FnMut(Delta) + Send),
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<'a> {
        let post = Post::new(provider, request, blobs);
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
        let mut patience = Patience::begin(provider);
        let sent = self
            .client(&post.url)?
            .post(post.url.clone())
            .headers(post.headers.clone())
            .body(post.body.clone())
            .send();
        let response = match patience.wait(sent).await? {
            Ok(response) => response,
            Err(error) => return Err(network(&reason(error)).into()),
        };
        if response.status().is_success() {
            return Ok(stream(post.codec, response, &mut patience, on).await?);
        }
        Err(refuse(post.codec, provider, response, &patience).await)
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, Failure> {
        let is_local = is_loopback(url);
        let cell = match is_local {
            true => &self.0.local,
            false => &self.0.remote,
        };
        match cell.get() {
            Some(client) => Ok(client),
            None => {
                let built = build(is_local, self.0.ca_file.as_ref())?;
                Ok(cell.get_or_init(|| built))
            }
        }
    }
}

fn build(is_local: bool, ca_file: Option<&PathBuf>) -> Result<reqwest::Client, Failure> {
    // An error says that there is one already, which is as good. Without one, building panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("rewake/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    if is_local {
        builder = builder.no_proxy();
    }
    if let Some(path) = ca_file {
        let failed = |why: String| Failure {
            class: FailureClass::Network,
            message: format!("reading the certificates in {}: {why}", path.display()),
            hint: Some("the file holds certificates in PEM form".to_string()),
        };
        let pem = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|e| failed(reason(e)))?;
        if certificates.is_empty() {
            return Err(failed("there are none".to_string()));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder
        .build()
        .map_err(|e| network(&format!("the HTTP client cannot be built: {}", reason(e))))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// Reads a streamed answer to its end.
async fn stream(
    codec: Codec,
    mut response: Response,
    patience: &mut Patience<'_>,
    on: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, Failure> {
    let mut parser = sse::Parser::new();
    let mut decoder = codec.decoder();
    let mut head = Vec::new();
    let (mut bytes, mut events) = (0, 0usize);
    let cut = 'answer: loop {
        let chunk = match patience.wait(response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => break None,
            Ok(Err(error)) => {
                break Some(network(&format!("the stream was cut: {}", reason(error))));
            }
            Err(waited) => break Some(waited),
        };
        bytes += chunk.len();
        if bytes > MAX_ANSWER_BYTES {
            let most = MAX_ANSWER_BYTES / (1024 * 1024);
            return Err(protocol(format!("the answer has more than {most} MiB")));
        }
        head.extend(chunk.iter().take(HEAD_BYTES - head.len()));
        for event in parser.feed(&chunk)? {
            events += 1;
            let kept = decoder.kept();
            let deltas = decoder.feed(&event)?;
            if !deltas.is_empty() || decoder.kept() > kept {
                patience.progressed();
            }
            deltas.into_iter().for_each(&mut *on);
            if decoder.is_ended() {
                let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                // What comes behind the end is nobody's answer, and may not end at all.
                let _ = tokio::time::timeout(LINGER, rest).await;
                break 'answer None;
            }
        }
    };
    if events == 0 && bytes > 0 && !begins_as_events(&head) {
        let head = String::from_utf8_lossy(&head);
        return Err(protocol(format!(
            "the answer is no event stream, it begins {head:?}"
        )));
    }
    // A connection that breaks behind the protocol's own end has cut nothing.
    decoder.finish().map_err(|failure| cut.unwrap_or(failure))
}

/// Comments and empty lines, with which a server shows that it lives, are of an event stream too.
fn begins_as_events(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let line = head.trim_start_matches('\u{feff}').trim_start();
    let names = [":", "data:", "event:", "id:", "retry:"];
    line.is_empty() || names.iter().any(|name| line.starts_with(name))
}

/// An answer that is not 2xx.
async fn refuse(
    codec: Codec,
    provider: &Provider,
    mut response: Response,
    patience: &Patience<'_>,
) -> Refused {
    let status = response.status();
    let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
    let asked = retry_after(
        header("retry-after-ms"),
        header("retry-after"),
        Timestamp::now(),
    );
    let mut body = Vec::new();
    let read = async {
        while let Ok(Ok(Some(chunk))) = patience.wait(response.chunk()).await {
            body.extend(chunk.iter().take(MAX_ERROR_BYTES - body.len()));
            if body.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
    };
    // What cannot be read of it changes nothing: the status says enough. So one that drips is
    // waited for no longer than one that does not come.
    let _ = tokio::time::timeout(Duration::from_millis(provider.idle_timeout_ms), read).await;
    let body = String::from_utf8_lossy(&body);
    let mut failure = codec.classify(status.as_u16(), &body);
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
    } else if status == StatusCode::TOO_MANY_REQUESTS && is_out_of_credit(&body) {
        // Waiting does not help.
        failure.class = FailureClass::Auth;
        let account = match provider.key_env.as_str() {
            "" => &provider.name,
            variable => variable,
        };
        failure.hint = Some(format!("the account behind {account} has no credit"));
    }
    failure.message = match failure.message.as_str() {
        "" => format!("HTTP {}", status.as_u16()),
        words => format!("HTTP {}: {words}", status.as_u16()),
    };
    Refused {
        failure,
        retry_after: asked,
    }
}

fn is_out_of_credit(body: &str) -> bool {
    let words = ["insufficient_quota", "billing_hard_limit", "credit balance"];
    words.iter().any(|w| body.contains(w))
}

impl Refused {
    /// Says where it happened, and what to do; takes out what must not be shown.
    fn about(mut self, provider: &Provider, url: &Url) -> Refused {
        let failure = &mut self.failure;
        let message = format!(
            "asking {} at {}: {}",
            provider.name,
            shown(url),
            failure.message
        );
        failure.message = clip(&provider.redact(&message));
        // Some servers say so with a status that means "again", or inside the stream.
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
            Some("is the server running? `rewake demo` needs none".to_string())
        }
        FailureClass::Network => Some("is the network up? `rewake demo` needs none".to_string()),
        FailureClass::TooLong
        | FailureClass::RateLimit
        | FailureClass::Overloaded
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense => None,
    }
}

/// Without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for addresses that have no place for them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// One line, not too long.
fn clip(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The innermost reason: the outer ones say only that a request failed.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut inner: &dyn std::error::Error = &error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn network(message: &str) -> Failure {
    Failure {
        class: FailureClass::Network,
        message: message.to_string(),
        hint: None,
    }
}

fn protocol(message: String) -> Failure {
    Failure {
        class: FailureClass::Protocol,
        message,
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::core::entry::Block;
    use crate::core::request::{Message, Part, Role};
    use crate::model::provider::{ANSWER_TIMEOUT_MS, IDLE_TIMEOUT_MS, PROGRESS_TIMEOUT_MS, Secret};
    use crate::model::wire::Protocol;

    const KEY: &str = "sk-very-secret-key";

    const RETRY: Retry = Retry {
        tries: 3,
        base_ms: 1,
        cap_ms: 2,
    };

    fn provider(base_url: &str) -> Provider {
        Provider {
            name: "anthropic".into(),
            protocol: Protocol::Anthropic,
            base_url: base_url.into(),
            key: Some(Secret::new(KEY)),
            key_env: "ANTHROPIC_API_KEY".into(),
            headers: vec![],
            idle_timeout_ms: IDLE_TIMEOUT_MS,
            progress_timeout_ms: PROGRESS_TIMEOUT_MS,
            answer_timeout_ms: ANSWER_TIMEOUT_MS,
            thinking_budget: None,
        }
    }

    fn request() -> Request {
        Request {
            model: "anthropic/claude-x".into(),
            system: "You are an agent.".into(),
            tools: vec![],
            instructions: String::new(),
            messages: vec![Message {
                role: Role::User,
                parts: vec![Part::Text {
                    text: "hi".into(),
                    signature: None,
                }],
                cache: false,
            }],
            max_tokens: 100,
        }
    }

    /// One connection for each answer, which is then closed; gives the requests.
    async fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                requests.push(read_request(&mut socket).await);
                // The client may hang up before it has read all.
                let _ = socket.write_all(answer.as_bytes()).await;
                let _ = socket.shutdown().await;
            }
            requests
        });
        (base, server)
    }

    async fn read_request(socket: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).to_lowercase();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1);
                let length = length.and_then(|l| l.lines().next()?.parse::<usize>().ok());
                if body.len() >= length.unwrap_or(0) {
                    return String::from_utf8(bytes).unwrap();
                }
            }
            assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0);
        }
    }

    async fn ask(provider: &Provider) -> (Vec<Delta>, Result<Reply, Failure>) {
        let client = Client::new(RETRY, None);
        let mut deltas = Vec::new();
        let request = request();
        let mut on = |delta| deltas.push(delta);
        let reply = client.call(provider, &request, &|_| None, &mut on).await;
        (deltas, reply)
    }

    fn answer(status: &str, headers: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
    }

    fn events(events: &[&str]) -> String {
        let events: Vec<String> = events.iter().map(|e| format!("data: {e}\n\n")).collect();
        answer(
            "200 OK",
            "content-type: text/event-stream\r\n",
            &events.concat(),
        )
    }

    const START: &str =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    const HALF: &str =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#;
    const REST: &str =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#;
    const END: [&str; 2] = [
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
        r#"{"type":"message_stop"}"#,
    ];

    fn whole() -> String {
        events(&[START, HALF, REST, END[0], END[1]])
    }

    #[tokio::test]
    async fn an_answer_is_streamed_and_given_whole() {
        let (base, server) = serve(vec![whole()]).await;
        let (deltas, reply) = ask(&provider(&base)).await;
        assert_eq!(reply.unwrap().blocks, [Block::text("Hello")]);
        assert_eq!(
            deltas,
            [Delta::Text("Hel".into()), Delta::Text("lo".into())]
        );
        let request = &server.await.unwrap()[0];
        assert!(
            request.starts_with("POST /v1/messages HTTP/1.1"),
            "{request}"
        );
        assert!(request.contains(&format!("x-api-key: {KEY}")));
        assert!(request.contains("anthropic-version: 2023-06-01"));
        assert!(request.contains(r#""model":"claude-x""#));
    }

    #[tokio::test]
    async fn a_stream_that_was_cut_is_asked_for_again() {
        let chunked = answer(
            "200 OK",
            "transfer-encoding: chunked\r\n",
            &format!("800\r\ndata: {START}\n\ndata: {HALF}\n\n"),
        );
        for cut in [events(&[START, HALF]), chunked, answer("200 OK", "", "")] {
            let (base, server) = serve(vec![cut, whole()]).await;
            let (deltas, reply) = ask(&provider(&base)).await;
            assert_eq!(reply.unwrap().blocks, [Block::text("Hello")]);
            let retry = deltas.iter().position(|d| matches!(d, Delta::Retry { .. }));
            let after = &deltas[retry.unwrap() + 1..];
            assert_eq!(after, [Delta::Text("Hel".into()), Delta::Text("lo".into())]);
            let requests = server.await.unwrap();
            assert_eq!(requests[0], requests[1], "the same bytes");
        }
    }

    #[tokio::test]
    async fn tries_have_an_end() {
        let (base, server) = serve(vec![events(&[START, HALF]); 3]).await;
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Network);
        assert!(
            failure.message.contains("(tried 3 times)"),
            "{}",
            failure.message
        );
        assert_eq!(server.await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn an_error_inside_the_stream_is_understood() {
        let overloaded =
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let (base, _) = serve(vec![events(&[START, HALF, overloaded]), whole()]).await;
        let (deltas, reply) = ask(&provider(&base)).await;
        assert!(reply.is_ok());
        assert!(
            deltas
                .iter()
                .any(|d| matches!(d, Delta::Retry { failure, .. }
            if failure.class == FailureClass::Overloaded))
        );
    }

    #[tokio::test]
    async fn a_rate_limit_is_waited_for_as_the_server_asks() {
        let slow = answer("429 Too Many Requests", "retry-after-ms: 20\r\n", "{}");
        let (base, _) = serve(vec![slow, whole()]).await;
        let (deltas, reply) = ask(&provider(&base)).await;
        assert!(reply.is_ok());
        let Delta::Retry { after_ms, failure } = &deltas[0] else {
            panic!("{deltas:?}");
        };
        assert_eq!((*after_ms, failure.class), (20, FailureClass::RateLimit));
    }

    #[tokio::test]
    async fn what_waiting_does_not_help_is_not_waited_for() {
        let hour = answer("429 Too Many Requests", "retry-after: 3600\r\n", "{}");
        let poor = answer(
            "429 Too Many Requests",
            "",
            r#"{"error":{"code":"insufficient_quota"}}"#,
        );
        for (refusal, said) in [(hour, "3600 s"), (poor, "no credit")] {
            let (base, server) = serve(vec![refusal]).await;
            let (deltas, reply) = ask(&provider(&base)).await;
            let failure = reply.unwrap_err();
            let all = format!("{} {:?}", failure.message, failure.hint);
            assert!(all.contains(said), "{all}");
            assert_eq!(deltas, []);
            assert_eq!(server.await.unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn a_wrong_key_is_said_without_the_key() {
        let body =
            format!(r#"{{"error":{{"type":"authentication_error","message":"bad {KEY}"}}}}"#);
        let (base, _) = serve(vec![answer("401 Unauthorized", "", &body)]).await;
        let base = base.replace("http://", "http://user:hunter2hunter2@") + "?token=hunter2";
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Auth);
        let said = format!("{failure:?}");
        assert!(said.contains("anthropic at http://127.0.0.1"), "{said}");
        assert!(
            said.contains("HTTP 401") && said.contains("ANTHROPIC_API_KEY"),
            "{said}"
        );
        assert!(!said.contains(KEY) && !said.contains("hunter2"), "{said}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Network);
        assert!(failure.message.contains("refused"), "{}", failure.message);
        assert!(failure.hint.unwrap().contains("is the server running?"));
    }

    #[tokio::test]
    async fn a_huge_error_is_cut() {
        let huge = "x".repeat(8 * 1024 * 1024);
        let (base, _) = serve(vec![answer("400 Bad Request", "", &huge)]).await;
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::BadRequest);
        assert!(failure.message.len() < 2 * MAX_MESSAGE_CHARS);
    }

    #[tokio::test]
    async fn an_answer_that_is_no_stream_is_said() {
        let page = answer(
            "200 OK",
            "content-type: text/html\r\n",
            "<html>Please log in</html>",
        );
        let (base, _) = serve(vec![page]).await;
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Protocol);
        assert!(
            failure.message.contains("Please log in"),
            "{}",
            failure.message
        );
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let away = answer(
            "307 Temporary Redirect",
            "location: http://192.0.2.1/\r\n",
            "",
        );
        let (base, _) = serve(vec![away]).await;
        let failure = ask(&provider(&base)).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::BadRequest);
        assert!(failure.hint.unwrap().contains("base_url"));
    }

    #[tokio::test]
    async fn a_silent_server_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut provider = provider(&format!("http://{}", listener.local_addr().unwrap()));
        provider.idle_timeout_ms = 20;
        let failure = ask(&provider).await.1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Network);
        assert!(
            failure.message.contains("nothing came"),
            "{}",
            failure.message
        );
    }

    #[tokio::test]
    async fn a_server_that_falls_silent_is_not_waited_for() {
        let (base, server) = hang(events(&[START, HALF])).await;
        let (mut provider, request) = (provider(&base), request());
        provider.idle_timeout_ms = 50;
        let client = Client::new(Retry { tries: 1, ..RETRY }, None);
        let reply = client
            .call(&provider, &request, &|_| None, &mut |_| {})
            .await;
        let failure = reply.unwrap_err();
        assert!(
            failure.message.contains("nothing came"),
            "{}",
            failure.message
        );
        server.await.unwrap();
    }

    /// Sends the start of an answer, and then the same piece for a second, or until the client
    /// hangs up, which is what it gives. Then the rest.
    async fn drip(
        start: String,
        piece: &'static str,
        rest: String,
        times: usize,
    ) -> (String, JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            socket.write_all(start.as_bytes()).await.unwrap();
            for _ in 0..times {
                if socket.write_all(piece.as_bytes()).await.is_err() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = socket.write_all(rest.as_bytes()).await;
            let _ = socket.shutdown().await;
            false
        });
        (base, server)
    }

    async fn once(provider: &Provider) -> Result<Reply, Failure> {
        let client = Client::new(Retry { tries: 1, ..RETRY }, None);
        let request = request();
        client
            .call(provider, &request, &|_| None, &mut |_| {})
            .await
    }

    const PING: &str = ": ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n";
    const EMPTY: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                         \"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n";
    const WORD: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                        \"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";

    #[tokio::test]
    async fn pings_and_empty_pieces_are_no_progress() {
        for piece in [PING, EMPTY] {
            let (base, _) = drip(events(&[START, HALF]), piece, String::new(), 1_000).await;
            let mut provider = provider(&base);
            provider.progress_timeout_ms = 40;
            let failure = once(&provider).await.unwrap_err();
            assert_eq!(failure.class, FailureClass::Network);
            let said = "not a word of the answer came for 0.04 s, though the server still sends \
                        (progress_timeout_ms)";
            assert!(failure.message.contains(said), "{}", failure.message);
            assert!(failure.hint.unwrap().contains("[providers.anthropic]"));
        }
    }

    #[tokio::test]
    async fn an_answer_that_never_ends_is_not_waited_for() {
        let refused = "HTTP/1.1 400 Bad Request\r\n\r\n".to_string();
        let whole = "the answer was not whole after 0.06 s (answer_timeout_ms)";
        for (start, piece, said) in [
            (events(&[START]), PING, whole),
            (events(&[START, HALF]), WORD, whole),
            // Of an error what came is told.
            (refused, "word ", "HTTP 400: word word"),
        ] {
            let (base, _) = drip(start, piece, String::new(), 1_000).await;
            let mut provider = provider(&base);
            provider.answer_timeout_ms = 60;
            let failure = once(&provider).await.unwrap_err();
            assert!(failure.message.contains(said), "{}", failure.message);
        }
    }

    #[tokio::test]
    async fn a_server_may_ping_for_long_before_the_first_word() {
        let (head, body) = {
            let whole = whole();
            let at = whole.find("\r\n\r\n").unwrap() + 4;
            (whole[..at].to_string(), whole[at..].to_string())
        };
        let (base, _) = drip(head, PING, body, 40).await;
        let mut provider = provider(&base);
        provider.progress_timeout_ms = 20;
        provider.idle_timeout_ms = 10_000;
        once(&provider).await.unwrap();
    }

    /// A server that only showed that it lives sent an event stream, and may be asked again.
    #[tokio::test]
    async fn only_pings_are_an_answer_that_did_not_come() {
        const COMMENT: &str = ": ping\n\n";
        for (piece, times) in [
            (COMMENT, 1_000),
            ("\n", 1_000),
            ("data: {\"a", 1_000),
            (COMMENT, 3),
        ] {
            let (base, _) = drip(events(&[]), piece, String::new(), times).await;
            let mut provider = provider(&base);
            provider.answer_timeout_ms = 60;
            let failure = once(&provider).await.unwrap_err();
            assert_eq!(failure.class, FailureClass::Network, "{}", failure.message);
        }
        let page = "HTTP/1.1 200 OK\r\n\r\n<html>";
        let (base, _) = drip(page.to_string(), "a", String::new(), 3).await;
        let failure = once(&provider(&base)).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Protocol);
    }

    #[tokio::test]
    async fn an_error_that_drips_is_not_waited_for() {
        let refused = "HTTP/1.1 400 Bad Request\r\n\r\n".to_string();
        let (base, server) = drip(refused, "word ", String::new(), 3_000).await;
        let mut provider = provider(&base);
        provider.idle_timeout_ms = 60;
        let failure = once(&provider).await.unwrap_err();
        assert!(failure.message.contains("HTTP 400: word word"));
        assert!(server.await.unwrap(), "the client hung up");
    }

    #[tokio::test]
    async fn what_drips_behind_the_end_is_not_waited_for() {
        let named = whole().replace(
            "data: {\"type\":\"message_stop",
            "event: message_stop\ndata: {\"type\":\"message_stop",
        );
        let (base, server) = drip(named, PING, String::new(), 1_000).await;
        let mut provider = provider(&base);
        provider.answer_timeout_ms = 3_600_000;
        once(&provider).await.unwrap();
        assert!(server.await.unwrap(), "the client hung up");
    }

    /// Sends the start of an answer and leaves the connection open. Ends when the client
    /// has closed it.
    async fn hang(answer: String) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            socket.write_all(answer.as_bytes()).await.unwrap();
            while !matches!(socket.read(&mut [0; 64]).await, Ok(0) | Err(_)) {}
        });
        (base, server)
    }

    #[tokio::test]
    async fn the_end_of_the_answer_is_the_protocol_s() {
        let named = whole().replace(
            "data: {\"type\":\"message_stop\"}",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}",
        );
        let (base, server) = hang(named).await;
        assert_eq!(
            ask(&provider(&base)).await.1.unwrap().blocks,
            [Block::text("Hello")]
        );
        server.await.unwrap();
    }

    /// Neither is read what comes behind the end, nor waited for: a word that is no JSON, an
    /// error, an event without end, and more and more.
    #[tokio::test]
    async fn what_comes_behind_the_end_is_not_read() {
        let error = r#"{"type":"error","error":{"type":"api_error","message":"late"}}"#;
        for tail in ["[DONE]", error, &"x".repeat(20 * 1024 * 1024)] {
            let (base, _) = serve(vec![whole() + &format!("data: {tail}\n\n")]).await;
            let reply = ask(&provider(&base)).await.1;
            assert_eq!(reply.unwrap().blocks, [Block::text("Hello")]);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            socket.write_all(whole().as_bytes()).await.unwrap();
            while socket.write_all(b": still here\n\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let reply = tokio::time::timeout(Duration::from_secs(20), ask(&provider(&base))).await;
        let reply = reply.expect("an answer").1;
        assert_eq!(reply.unwrap().blocks, [Block::text("Hello")]);
    }

    #[tokio::test]
    async fn dropping_the_call_closes_the_connection() {
        let (base, server) = hang(events(&[START, HALF])).await;
        let (client, provider, request) = (Client::new(RETRY, None), provider(&base), request());
        let (shown, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut on = |delta| shown.send(delta).unwrap();
        let call = client.call(&provider, &request, &|_| None, &mut on);
        tokio::select! {
            _ = call => panic!("the answer has no end"),
            delta = begun.recv() => assert_eq!(delta, Some(Delta::Text("Hel".into()))),
        }
        server.await.unwrap();
    }

    #[tokio::test]
    async fn certificates_that_cannot_be_read_are_said() {
        let client = Client::new(RETRY, Some("/nowhere/ca.pem".into()));
        let (provider, request) = (provider("https://127.0.0.1:1"), request());
        let reply = client
            .call(&provider, &request, &|_| None, &mut |_| {})
            .await;
        assert!(reply.unwrap_err().message.contains("/nowhere/ca.pem"));
    }

    #[test]
    fn a_client_for_the_world_can_be_built() {
        assert!(build(false, None).is_ok());
    }
}
