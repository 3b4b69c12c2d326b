//! The model server: threads on a loopback port, one for each connection.
//!
//! What it answers is a function of the request alone, so a request that is sent again
//! after the agent was killed gets the same answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::answer::{Answer, Protocol, Says, Tokens};
use super::http::{self, Head};
use super::rules::{Fault, Memory, View};
use super::{anthropic, chat, gemini, page, responses};

/// The key that [`super::Home`] gives the agent.
pub const KEY: &str = "test-key";

#[derive(Debug, Clone)]
pub struct Options {
    /// The model's context window in tokens (bytes of the body / 4); above it, the
    /// protocol's own error.
    pub limit_tokens: Option<u64>,
    /// What is too long is no error: its beginning is dropped and the rest is answered, as
    /// some local servers do. The script sees that rest as `body`.
    pub cuts_silently: bool,
    /// The one key that is let in; any is, when `None`.
    pub key: Option<String>,
    /// No key is wanted: a request that has one is at fault.
    pub keyless: bool,
    /// Answers of paths: lists of models and settings of the server. Others are not found, which is
    /// no fault of who asks.
    pub pages: Vec<(&'static str, Value)>,
    /// Bodies stay in the log. Not for long runs: they grow with the square of the turns.
    pub keep_bodies: bool,
    /// Without checks the server is as quick as it can be: nothing is parsed, a script sees
    /// nothing but the protocol and, as `turn`, how many answers were given before.
    pub check: bool,
    /// The port, for a server that starts again. 0: any that is free.
    pub port: u16,
    /// The server speaks TLS with this.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limit_tokens: None,
            cuts_silently: false,
            key: None,
            keyless: false,
            pages: Vec::new(),
            keep_bodies: true,
            check: true,
            port: 0,
            tls: None,
        }
    }
}

/// What a script decides on.
#[derive(Debug, Clone)]
pub struct Seen {
    pub protocol: Protocol,
    pub model: String,
    /// Answers of the model in the request: which turn of the conversation is asked for.
    pub turn: usize,
    pub system: String,
    /// The last words of the user.
    pub user: String,
    /// The facts of the start of the session, which come before those words.
    pub start: String,
    /// Call id and text of every result in the request, in order.
    pub results: Vec<(String, String)>,
    /// Names of the declared tools.
    pub tools: Vec<String>,
    pub head: Head,
    /// The request as JSON, and as it came.
    pub json: Arc<Value>,
    pub body: Arc<Vec<u8>>,
}

impl Seen {
    pub fn last_result(&self) -> &str {
        self.results.last().map_or("", |(_, text)| text)
    }
}

/// What the renderers need to know of the request.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    pub number: usize,
    pub model: &'a str,
    pub tokens: Tokens,
    /// `None` when nothing was parsed: then everything is wanted.
    request: Option<&'a Value>,
}

impl Turn<'_> {
    /// The request says `true` at this place.
    pub fn wants(&self, pointer: &str) -> bool {
        self.request
            .is_none_or(|request| request.pointer(pointer) == Some(&Value::Bool(true)))
    }

    /// The request's `include` names it.
    pub fn includes(&self, what: &str) -> bool {
        self.request.is_none_or(|request| {
            let include = request["include"].as_array();
            include.is_some_and(|names| names.iter().any(|n| n == what))
        })
    }
}

/// One request, as the log keeps it.
#[derive(Debug, Clone)]
pub struct Logged {
    pub protocol: Protocol,
    pub model: String,
    pub turn: usize,
    /// Since the server's start.
    pub at: Duration,
    pub bytes: usize,
    /// How many bytes at its beginning are those of the request before, of the same
    /// protocol and model. Cache marks do not count: they move without changing the prompt.
    pub same_prefix: usize,
    /// Size of the request before, without its cache marks.
    pub former_bytes: usize,
    pub status: u16,
    /// It was refused for its length, or cut.
    pub too_long: bool,
    pub body: Option<Arc<Vec<u8>>>,
}

pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    script: Box<dyn Fn(&Seen) -> Answer + Send + Sync>,
    options: Options,
    started: Instant,
    stopping: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Vec<Logged>,
    violations: Vec<String>,
    memory: Memory,
    former: HashMap<(Protocol, String), Vec<u8>>,
    answered: usize,
    /// Method and path of the request that came last, then its answer and its last message.
    last: String,
}

impl Server {
    pub fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
        Server::start_with(Options::default(), script)
    }

    pub fn start_with(
        options: Options,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Server {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).expect("bind a loopback port");
        let address = listener.local_addr().expect("the port that was bound");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            options,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let accepting = {
            let shared = shared.clone();
            std::thread::spawn(move || accept(&listener, &shared))
        };
        Server {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// What `base_url` must be in the configuration.
    pub fn base_url(&self, protocol: Protocol) -> String {
        let root = self.root();
        match protocol {
            Protocol::Anthropic => root,
            Protocol::Chat | Protocol::Responses => format!("{root}/v1"),
            Protocol::Gemini => format!("{root}/v1beta"),
        }
    }

    /// `http://127.0.0.1:PORT`
    pub fn root(&self) -> String {
        let scheme = match self.shared.options.tls {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn requests(&self) -> Vec<Logged> {
        self.shared.state().log.clone()
    }

    /// Every request that a real API would have refused, and every panic of the script.
    pub fn violations(&self) -> Vec<String> {
        self.shared.state().violations.clone()
    }

    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(
            violations.is_empty(),
            "{} invalid requests:\n{}",
            violations.len(),
            violations.join("\n")
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        page::print("last request to the model", || {
            self.shared.state().last.clone()
        });
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Accepting ends with the next connection. Without a network there is none.
        let is_woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.accepting.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(stream) = stream {
            let shared = shared.clone();
            // A connection that breaks is the other side's affair: it may have been killed.
            std::thread::spawn(move || shared.serve(stream).ok());
        }
    }
}

/// What goes back, and how.
struct Reply {
    status: u16,
    content_type: &'static str,
    retry_after_secs: Option<u64>,
    body: String,
    way: Way,
}

enum Way {
    Whole,
    Slow { chunk_bytes: usize, delay_ms: u64 },
    Cut { after_bytes: usize },
    Never,
}

impl Reply {
    fn stream(body: String, way: Way) -> Reply {
        Reply {
            status: 200,
            content_type: "text/event-stream",
            retry_after_secs: None,
            body,
            way,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match &self.options.tls {
            None => self.serve_on(stream),
            Some(config) => {
                let session = rustls::ServerConnection::new(config.clone());
                let session = session.map_err(io::Error::other)?;
                self.serve_on(rustls::StreamOwned::new(session, stream))
            }
        }
    }

    fn serve_on(&self, stream: impl Read + Write) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 << 10, stream);
        while let Some((head, body)) = http::read(&mut reader)? {
            let reply = self.reply(head, body);
            let mut stream = reader.get_mut();
            let head = http::head(reply.status, reply.content_type, reply.retry_after_secs);
            let bytes = reply.body.as_bytes();
            match reply.way {
                Way::Whole => http::write_whole(&mut stream, &head, bytes)?,
                Way::Slow {
                    chunk_bytes,
                    delay_ms,
                } => {
                    io::Write::write_all(&mut stream, head.as_bytes())?;
                    for chunk in bytes.chunks(chunk_bytes.max(1)) {
                        http::write_chunk(&mut stream, chunk)?;
                        std::thread::sleep(Duration::from_millis(delay_ms));
                    }
                    io::Write::write_all(&mut stream, b"0\r\n\r\n")?;
                }
                Way::Cut { after_bytes } => {
                    io::Write::write_all(&mut stream, head.as_bytes())?;
                    let sent = &bytes[..after_bytes.min(bytes.len())];
                    if !sent.is_empty() {
                        http::write_chunk(&mut stream, sent)?;
                    }
                    // It is closed as it is, without a last chunk.
                    return Ok(());
                }
                Way::Never => return wait_for_the_end(reader),
            }
        }
        Ok(())
    }

    fn reply(&self, head: Head, body: Vec<u8>) -> Reply {
        let at = self.started.elapsed();
        let body = Arc::new(body);
        self.state().last = format!("{} {}", head.method, head.path);
        if head.method == "GET" || head.path.starts_with("/api/") {
            let page = self.options.pages.iter().find(|(p, _)| *p == head.path);
            if let (Some(_), Err(fault)) = (page, self.let_in(&head)) {
                return self.refuse(Protocol::Anthropic, &fault, None);
            }
            return Reply {
                status: if page.is_some() { 200 } else { 404 },
                content_type: "application/json",
                retry_after_secs: None,
                body: page.map_or("{}".into(), |(_, page)| page.to_string()),
                way: Way::Whole,
            };
        }
        let Some(protocol) = protocol_of(&head) else {
            let what = format!("{} {}", head.method, head.path);
            self.state()
                .violations
                .push(format!("no such endpoint: {what}"));
            return self.refuse(
                Protocol::Chat,
                &Fault::new(404, format!("{what}: not found")),
                None,
            );
        };
        let mut seen = match self.look(protocol, head, &body) {
            Ok(seen) => seen,
            Err(fault) => {
                self.log(protocol, &View::default(), at, &body, fault.status, false);
                return self.refuse(protocol, &fault, None);
            }
        };
        let tokens = body.len() as u64 / 4;
        if let Some(limit) = self.options.limit_tokens.filter(|limit| tokens > *limit) {
            if !self.options.cuts_silently {
                self.log(protocol, &view_of(&seen), at, &body, 400, true);
                return self.too_long(&seen, tokens, limit);
            }
            let from = body.len() - limit as usize * 4;
            seen.body = Arc::new(body[from..].to_vec());
        }
        let answer = catch_unwind(AssertUnwindSafe(|| (self.script)(&seen)));
        let answer = answer.unwrap_or_else(|panic| {
            let what = message_of(&*panic);
            self.state()
                .violations
                .push(format!("the script panicked: {what}"));
            Answer::error(400, &format!("the script panicked: {what}"))
        });
        let status = match &answer {
            Answer::Error { status, .. } | Answer::Raw { status, .. } => *status,
            Answer::Says(_)
            | Answer::Slow { .. }
            | Answer::Tail { .. }
            | Answer::Cut { .. }
            | Answer::Hang => 200,
        };
        let cut = seen.body.len() < body.len();
        let same = self.log(protocol, &view_of(&seen), at, &body, status, cut);
        self.play(&seen, answer, same)
    }

    fn look(&self, protocol: Protocol, head: Head, body: &Arc<Vec<u8>>) -> Result<Seen, Fault> {
        let mut state = self.state();
        let (view, json) = if self.options.check {
            match self.check(protocol, &head, body, &state.memory) {
                Ok(checked) => checked,
                Err(fault) => {
                    let what = format!("{}: {}", protocol.name(), fault.message);
                    state.violations.push(what);
                    return Err(fault);
                }
            }
        } else {
            let turn = state.answered;
            state.answered += 1;
            (
                View {
                    turn,
                    ..View::default()
                },
                Value::Null,
            )
        };
        drop(state);
        self.let_in(&head)?;
        let (start, user) = match view.user.split_once("\n</at_start>") {
            Some((start, user)) => (start, user.trim_start_matches('\n')),
            None => ("", view.user.as_str()),
        };
        let (start, user) = (start.to_string(), user.to_string());
        Ok(Seen {
            protocol,
            model: view.model,
            turn: view.turn,
            system: view.system,
            user,
            start,
            results: view.results,
            tools: view.tools,
            head,
            json: Arc::new(json),
            body: body.clone(),
        })
    }

    fn check(
        &self,
        protocol: Protocol,
        head: &Head,
        body: &[u8],
        memory: &Memory,
    ) -> Result<(View, Value), Fault> {
        demand!(head.method == "POST", "{} is not allowed here", head.method);
        let content_type = head.header("content-type").unwrap_or_default();
        demand!(
            content_type.starts_with("application/json"),
            "content-type must be application/json: {content_type:?}"
        );
        let json: Value = serde_json::from_slice(body)
            .map_err(|e| Fault::new(400, format!("We could not parse the JSON body: {e}")))?;
        demand!(json.is_object(), "the body must be a JSON object");
        let mut head = Cow::Borrowed(head);
        if self.options.keyless {
            demand!(!head.has_key(), "a key was sent, and none is wanted");
            head.to_mut().add_keys();
        }
        let head = &*head;
        let view = match protocol {
            Protocol::Anthropic => anthropic::check(head, &json, memory)?,
            Protocol::Chat => chat::check(head, &json, memory)?,
            Protocol::Responses => responses::check(head, &json, memory)?,
            Protocol::Gemini => gemini::check(head, &json, memory)?,
        };
        Ok((view, json))
    }

    /// A wrong key is refused, but it is no fault of the request's form.
    fn let_in(&self, head: &Head) -> Result<(), Fault> {
        let Some(expected) = self.options.key.as_deref() else {
            return Ok(());
        };
        if head.keys().any(|key| key == expected) {
            return Ok(());
        }
        Err(Fault::new(
            401,
            "invalid x-api-key: Incorrect API key provided.",
        ))
    }

    /// Returns how many bytes of the prompt are those of the request before.
    fn log(
        &self,
        protocol: Protocol,
        view: &View,
        at: Duration,
        body: &Arc<Vec<u8>>,
        status: u16,
        too_long: bool,
    ) -> usize {
        let prompt = match protocol {
            Protocol::Anthropic if self.options.check => without_marks(body),
            _ => body.to_vec(),
        };
        let mut state = self.state();
        let result = view.results.last().map(|(_, text)| text);
        let message = result.unwrap_or(&view.user).lines().take(6);
        let message: Vec<&str> = message.collect();
        let message = message.join("\n");
        let of = format!(": {status}, {} turn {}\n{message}", view.model, view.turn);
        state.last.push_str(&of);
        let key = (protocol, view.model.clone());
        let former = state.former.get(&key).map_or(&[][..], Vec::as_slice);
        let former_bytes = former.len();
        let same_prefix = same_prefix(former, &prompt);
        state.former.insert(key, prompt);
        state.log.push(Logged {
            protocol,
            model: view.model.clone(),
            turn: view.turn,
            at,
            bytes: body.len(),
            same_prefix,
            former_bytes,
            status,
            too_long,
            body: self.options.keep_bodies.then(|| body.clone()),
        });
        same_prefix
    }

    fn play(&self, seen: &Seen, answer: Answer, same_prefix: usize) -> Reply {
        match answer {
            Answer::Says(says) => self.stream(seen, &says, same_prefix, Way::Whole),
            Answer::Slow {
                says,
                chunk_bytes,
                delay_ms,
            } => {
                let way = Way::Slow {
                    chunk_bytes,
                    delay_ms,
                };
                self.stream(seen, &says, same_prefix, way)
            }
            Answer::Tail { says, tail } => {
                let mut reply = self.stream(seen, &says, same_prefix, Way::Whole);
                reply.body += &tail;
                reply
            }
            Answer::Cut { says, after_bytes } => {
                self.stream(seen, &says, same_prefix, Way::Cut { after_bytes })
            }
            Answer::Error {
                status,
                message,
                retry_after_secs,
            } => self.refuse(
                seen.protocol,
                &Fault::new(status, message),
                retry_after_secs,
            ),
            Answer::Raw {
                status,
                content_type,
                body,
            } => Reply {
                status,
                content_type,
                retry_after_secs: None,
                body,
                way: Way::Whole,
            },
            Answer::Hang => Reply::stream(String::new(), Way::Never),
        }
    }

    fn stream(&self, seen: &Seen, says: &Says, same_prefix: usize, way: Way) -> Reply {
        if self.options.check {
            self.remember(seen, says);
        }
        let tokens = says
            .tokens
            .unwrap_or_else(|| count(seen.body.len(), same_prefix, says));
        let turn = seen.turn_with(tokens, self.options.check);
        let body = match seen.protocol {
            Protocol::Anthropic => anthropic::render(says, &turn),
            Protocol::Chat => chat::render(says, &turn),
            Protocol::Responses => responses::render(says, &turn),
            Protocol::Gemini => gemini::render(says, &turn),
        };
        Reply::stream(body, way)
    }

    fn remember(&self, seen: &Seen, says: &Says) {
        let mut state = self.state();
        for call in &says.calls {
            if !seen.tools.contains(&call.name) {
                state.memory.invented.insert(call.name.clone());
            }
        }
        if seen.protocol == Protocol::Anthropic
            && let Some((calls, signature)) = anthropic::thought(says, seen.turn)
        {
            state.memory.thought.insert(calls, signature);
        }
    }

    fn too_long(&self, seen: &Seen, tokens: u64, limit: u64) -> Reply {
        let fault = match seen.protocol {
            Protocol::Anthropic => anthropic::too_long(tokens, limit),
            Protocol::Chat => chat::too_long(tokens, limit),
            Protocol::Gemini => gemini::too_long(tokens, limit),
            Protocol::Responses => {
                let turn = seen.turn_with(Tokens::default(), self.options.check);
                return Reply::stream(responses::too_long(&turn), Way::Whole);
            }
        };
        self.refuse(seen.protocol, &fault, None)
    }

    fn refuse(&self, protocol: Protocol, fault: &Fault, retry_after_secs: Option<u64>) -> Reply {
        let body = match protocol {
            Protocol::Anthropic => anthropic::error(fault),
            Protocol::Chat | Protocol::Responses => chat::error(fault),
            Protocol::Gemini => gemini::error(fault, retry_after_secs),
        };
        // Gemini says when to come again in the body alone.
        let in_header = protocol != Protocol::Gemini;
        Reply {
            status: fault.status,
            content_type: "application/json",
            retry_after_secs: retry_after_secs.filter(|_| in_header),
            body: body.to_string(),
            way: Way::Whole,
        }
    }
}

impl Seen {
    fn turn_with(&self, tokens: Tokens, checked: bool) -> Turn<'_> {
        Turn {
            number: self.turn,
            model: &self.model,
            tokens,
            request: checked.then_some(&*self.json),
        }
    }
}

fn view_of(seen: &Seen) -> View {
    View {
        model: seen.model.clone(),
        turn: seen.turn,
        ..View::default()
    }
}

fn protocol_of(head: &Head) -> Option<Protocol> {
    match head.path.as_str() {
        anthropic::PATH => Some(Protocol::Anthropic),
        chat::PATH => Some(Protocol::Chat),
        responses::PATH => Some(Protocol::Responses),
        path => {
            let model = path
                .strip_prefix(gemini::PREFIX)?
                .strip_suffix(gemini::METHOD)?;
            (!model.is_empty() && !model.contains('/')).then_some(Protocol::Gemini)
        }
    }
}

/// As a real server counts that caches every prefix it has seen: bytes / 4.
fn count(body_bytes: usize, same_prefix: usize, says: &Says) -> Tokens {
    let cached = same_prefix.min(body_bytes) as u64 / 4;
    Tokens {
        input: body_bytes as u64 / 4 - cached,
        cached,
        cache_written: 0,
        output: says.bytes() as u64 / 4 + 1,
    }
}

fn same_prefix(a: &[u8], b: &[u8]) -> usize {
    // Whole blocks first: a byte at a time is slow without optimisation.
    const BLOCK: usize = 4096;
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let from = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let rest = a[from..].iter().zip(&b[from..]);
    from + rest.take_while(|(a, b)| a == b).count()
}

/// The body without `"cache_control":{…}`.
fn without_marks(body: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(body) else {
        return body.to_vec();
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\"cache_control\":{") {
        let Some(end) = rest[at..].find('}') else {
            break;
        };
        let behind = &rest[at + end + 1..];
        // Its comma goes with it, on whichever side it stands.
        match rest[..at].strip_suffix(',') {
            Some(before) => {
                out.push_str(before);
                rest = behind;
            }
            None => {
                out.push_str(&rest[..at]);
                rest = behind.strip_prefix(',').unwrap_or(behind);
            }
        }
    }
    out.push_str(rest);
    out.into_bytes()
}

/// Until the other side closes the connection.
fn wait_for_the_end(mut reader: impl Read) -> io::Result<()> {
    io::copy(&mut reader, &mut io::sink()).map(|_| ())
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_string()
}
