//! Tests of the requests over HTTP.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::config::Quirks;
use crate::config::{ANSWER_TIMEOUT_MS, IDLE_TIMEOUT_MS, PROGRESS_TIMEOUT_MS};
use crate::core::choice::Effort;
use crate::core::entry::Block;
use crate::core::request::{Message, MessagePart, Role};
use crate::model::provider::Secret;
use crate::model::wire::Protocol;

mod hostile;

const KEY: &str = "sk-very-secret-key";

const RETRY: Retry = Retry {
    tries: 3,
    base_ms: 1,
    cap_ms: 2,
    max_wait_ms: 600_000,
    waits_for_server: true,
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
        quirks: Quirks::NONE,
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
            parts: vec![MessagePart::Text {
                text: "hi".into(),
                signature: None,
            }]
            .into(),
            cache: false,
        }],
        max_tokens: 100,
        effort: Effort::Default,
        temperature: None,
        answers: 0,
        has_answered: false,
        schema: None,
    }
}

/// A wrong port fails after the usual tries; a server that answered before may come back.
#[tokio::test]
async fn a_server_that_is_away_is_waited_for_if_it_has_answered() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let retry = Retry {
        max_wait_ms: 1_500,
        ..RETRY
    };
    let waits = |deltas: &[Delta]| -> Vec<u64> {
        let wait = |delta: &Delta| match delta {
            Delta::Retry {
                after_ms, failure, ..
            } if failure.message.ends_with("; waiting for the server") => Some(*after_ms),
            _ => None,
        };
        deltas.iter().filter_map(wait).collect()
    };
    for base in [&*refusing, "http://nowhere.invalid"] {
        for (has_answered, waits_for_server, wanted) in [
            (true, true, vec![1_000]),
            (true, false, vec![]),
            (false, true, vec![]),
        ] {
            let request = Request {
                has_answered,
                ..request()
            };
            let retry = Retry {
                waits_for_server,
                ..retry
            };
            let (deltas, reply) = ask_with(retry, &provider(base), request).await;
            assert_eq!(waits(&deltas), wanted, "{base}: {deltas:?}");
            assert_eq!(reply.unwrap_err().class, FailureClass::Network);
        }
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
    ask_with(RETRY, provider, request()).await
}

async fn ask_with(
    retry: Retry,
    provider: &Provider,
    request: Request,
) -> (Vec<Delta>, Result<Reply, Failure>) {
    let client = Client::new(retry, None);
    let mut deltas = Vec::new();
    let mut on = |delta| deltas.push(delta);
    let reply = client.call(provider, &request, &|_| None, &mut on).await;
    // How often usage is reported does not matter here.
    deltas.retain(|delta| !matches!(delta, Delta::Usage(_)));
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

/// llama.cpp behaves like this: it announces that the connection stays open, and closes it after a
/// streamed answer. A request that was just sent on it is lost.
#[tokio::test]
async fn a_request_on_a_closed_kept_connection_is_retried() {
    let stays = whole().replace("connection: close", "keep-alive: timeout=5");
    let (head, body) = stays.split_once("\r\n\r\n").unwrap();
    let whole = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            socket.write_all(whole.as_bytes()).await.unwrap();
            let _ = socket.read_u8().await;
        }
    });
    let client = Client::new(Retry { tries: 1, ..RETRY }, None);
    let (provider, request) = (provider(&base), request());
    for _ in 0..3 {
        let mut on = |_| {};
        let answered = client.call(&provider, &request, &|_| None, &mut on);
        answered.await.unwrap();
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
    let Delta::Retry {
        after_ms, failure, ..
    } = &deltas[0]
    else {
        panic!("{deltas:?}");
    };
    assert!((20..=22).contains(after_ms), "{after_ms}");
    assert_eq!(failure.class, FailureClass::RateLimit);
}

#[tokio::test]
async fn refusals_that_waiting_cannot_cure_are_not_retried() {
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
async fn a_wrong_key_is_reported_without_the_key() {
    let body = format!(r#"{{"error":{{"type":"authentication_error","message":"bad {KEY}"}}}}"#);
    let (base, _) = serve(vec![answer("401 Unauthorized", "", &body)]).await;
    let base = base.replace("http://", "http://user:hunter2hunter2@") + "?token=hunter2";
    let failure = ask(&provider(&base)).await.1.unwrap_err();
    assert_eq!(failure.class, FailureClass::Auth);
    let said = format!("{failure:?}");
    // The reason comes before the address.
    assert!(said.contains("(HTTP 401) from anthropic at http"), "{said}");
    assert!(
        said.contains("HTTP 401") && said.contains("ANTHROPIC_API_KEY"),
        "{said}"
    );
    assert!(!said.contains(KEY) && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_a_hint() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let failure = ask(&provider(&base)).await.1.unwrap_err();
    assert_eq!(failure.class, FailureClass::Network);
    assert!(failure.message.contains("refused"), "{}", failure.message);
    assert!(failure.hint.unwrap().contains("start the server"));
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
async fn a_page_is_a_network_failure() {
    let page = answer(
        "200 OK",
        "content-type: text/html\r\n",
        "<html>Please log in</html>",
    );
    let (base, _) = serve(vec![page]).await;
    let failure = once(&provider(&base)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Network);
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
    let whole = "the answer was not whole after 0.6 s (answer_timeout_ms)";
    for (start, piece, said) in [
        (events(&[START]), PING, whole),
        (events(&[START, HALF]), WORD, whole),
        // The failure contains the part of the error that arrived.
        (refused, "word ", "(HTTP 400) from"),
    ] {
        let is_refused = piece.starts_with("word");
        let (base, _) = drip(start, piece, String::new(), 1_000).await;
        let mut provider = provider(&base);
        provider.answer_timeout_ms = 600;
        let failure = once(&provider).await.unwrap_err();
        assert!(failure.message.contains(said), "{}", failure.message);
        assert_eq!(failure.message.starts_with("word"), is_refused);
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
    assert_eq!(failure.class, FailureClass::Network);
}

#[tokio::test]
async fn an_error_that_drips_is_not_waited_for() {
    let refused = "HTTP/1.1 400 Bad Request\r\n\r\n".to_string();
    let (base, server) = drip(refused, "word ", String::new(), 3_000).await;
    let mut provider = provider(&base);
    provider.idle_timeout_ms = 600;
    let failure = once(&provider).await.unwrap_err();
    assert!(failure.message.contains("word word"));
    assert!(server.await.unwrap(), "the client hung up");
}

#[tokio::test]
async fn data_that_drips_after_the_end_is_not_waited_for() {
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

/// Data after the end of the answer is neither read nor waited for: a word that is not JSON, an
/// error, an event without an end, or endless data.
#[tokio::test]
async fn data_after_the_end_of_an_answer_is_not_read() {
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
async fn unreadable_certificates_are_reported_with_their_path() {
    let client = Client::new(RETRY, Some("/nowhere/ca.pem".into()));
    let (provider, request) = (provider("https://127.0.0.1:1"), request());
    let reply = client
        .call(&provider, &request, &|_| None, &mut |_| {})
        .await;
    assert!(reply.unwrap_err().message.contains("/nowhere/ca.pem"));
}

#[test]
fn a_client_for_the_world_can_be_built() {
    assert!(build(Kind::Remote, None).is_ok());
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol::Anthropic,
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::Gemini,
];

fn speaking(protocol: Protocol, base: &str) -> Provider {
    Provider {
        protocol,
        ..provider(base)
    }
}

/// One whole answer, as a server gives it that does not stream.
fn object(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => {
            r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":2}}"#
        }
        Protocol::OpenaiChat => {
            r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#
        }
        Protocol::OpenaiResponses => {
            r#"{"object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":7,"output_tokens":2}}"#
        }
        Protocol::Gemini | Protocol::Script => {
            r#"[{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]},{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}]"#
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for protocol in PROTOCOLS {
        let pretty: serde_json::Value = serde_json::from_str(object(protocol)).unwrap();
        let pretty = format!("\r\n {}\n", serde_json::to_string_pretty(&pretty).unwrap());
        for body in [object(protocol), &pretty] {
            let whole = answer("200 OK", "content-type: application/json\r\n", body);
            let (base, _) = serve(vec![whole]).await;
            let (deltas, reply) = ask(&speaking(protocol, &base)).await;
            let reply = reply.unwrap();
            assert_eq!(reply.blocks, [Block::text("Hello")], "{protocol:?}");
            assert_eq!((reply.usage.input, reply.usage.output), (7, 2));
            assert!(!deltas.is_empty(), "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn an_object_ends_where_it_ends() {
    for protocol in PROTOCOLS {
        let open = answer("200 OK", "", object(protocol)).replace("connection: close\r\n", "");
        let (base, server) = hang(open).await;
        let reply = once(&speaking(protocol, &base)).await.unwrap();
        assert_eq!(reply.blocks, [Block::text("Hello")]);
        server.await.unwrap();
        // Half an object is a network failure, and a body that is not an answer gives an error.
        let half = &object(protocol)[..40];
        for (body, class) in [
            (half, FailureClass::Protocol),
            ("{}", FailureClass::Protocol),
            (
                r#"{"error":{"message":"slow down","code":429,"type":"rate_limit_error"}}"#,
                FailureClass::RateLimit,
            ),
        ] {
            let (base, _) = serve(vec![answer("200 OK", "", body)]).await;
            let failure = once(&speaking(protocol, &base)).await.unwrap_err();
            assert_eq!(failure.class, class, "{protocol:?} {body}");
        }
    }
}

const CHAT_END: &str =
    r#"{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}"#;
const GEMINI_END: &str =
    r#"{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]}"#;

/// No `[DONE]` comes, only that the server lives.
#[tokio::test]
async fn a_server_that_keeps_sending_after_the_end_is_disconnected() {
    let both = [
        (Protocol::OpenaiChat, CHAT_END),
        (Protocol::Gemini, GEMINI_END),
    ];
    let asked = both.map(|(protocol, end)| async move {
        let (base, server) = drip(events(&[end]), ": ping\n\n", String::new(), 100_000).await;
        let mut provider = speaking(protocol, &base);
        provider.progress_timeout_ms = 3_600_000;
        let reply = once(&provider).await.unwrap();
        assert_eq!(reply.blocks, [Block::text("Hello")]);
        assert!(server.await.unwrap(), "the client hung up");
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn nothing_fails_an_answer_after_its_end() {
    let late = r#"{"error":{"message":"late","code":500}}"#;
    let long = "x".repeat(20 * 1024 * 1024);
    for (protocol, end) in [
        (Protocol::OpenaiChat, CHAT_END),
        (Protocol::Gemini, GEMINI_END),
    ] {
        for tail in [late, "}", "[1,", &long] {
            let (base, _) = serve(vec![events(&[end, tail])]).await;
            let reply = once(&speaking(protocol, &base)).await.unwrap();
            assert_eq!(reply.blocks, [Block::text("Hello")]);
        }
        let chunked = format!("800\r\ndata: {end}\n\n");
        let cut = answer("200 OK", "transfer-encoding: chunked\r\n", &chunked);
        let (base, _) = serve(vec![cut]).await;
        let reply = once(&speaking(protocol, &base)).await.unwrap();
        assert_eq!(reply.blocks, [Block::text("Hello")]);
    }
}

/// Some models say in every chunk that they ended: then only the end of the connection is one.
#[tokio::test]
async fn an_end_that_is_always_said_is_none() {
    let late = r#"{"error":{"message":"late","code":503}}"#;
    let (base, _) = serve(vec![events(&[GEMINI_END, GEMINI_END, late])]).await;
    let failure = once(&speaking(Protocol::Gemini, &base)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Overloaded);
    let chunked = format!("800\r\ndata: {GEMINI_END}\n\ndata: {GEMINI_END}\n\n");
    let cut = answer("200 OK", "transfer-encoding: chunked\r\n", &chunked);
    let (base, _) = serve(vec![cut]).await;
    let failure = once(&speaking(Protocol::Gemini, &base)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Network);
    let (base, _) = serve(vec![events(&[GEMINI_END, GEMINI_END])]).await;
    let reply = once(&speaking(Protocol::Gemini, &base)).await.unwrap();
    assert_eq!(reply.blocks, [Block::text("HelloHello")]);
}

#[tokio::test]
async fn an_error_after_thinking_alone_is_the_answer() {
    let thought = r#"{"choices":[{"delta":{"reasoning":"hm"},"finish_reason":"length"}]}"#;
    let error = r#"{"error":{"message":"Token limit reached","code":400},"choices":[]}"#;
    let (base, _) = serve(vec![events(&[thought, error])]).await;
    let failure = once(&speaking(Protocol::OpenaiChat, &base))
        .await
        .unwrap_err();
    assert!(failure.message.contains("Token limit reached"));
}

/// However often: the limit ends within the time there is.
#[tokio::test]
async fn a_limit_by_time_is_waited_for_beyond_the_tries() {
    let limit = answer(
        "429 Too Many Requests",
        "",
        r#"{"error":{"message":"Rate limit reached. Please try again in 3ms."}}"#,
    );
    let mut answers = vec![limit; 8];
    answers.push(whole());
    let (base, server) = serve(answers).await;
    let (deltas, reply) = ask(&provider(&base)).await;
    assert_eq!(reply.unwrap().blocks, [Block::text("Hello")]);
    assert_eq!(server.await.unwrap().len(), 9);
    let waits = deltas.iter().filter_map(|delta| match delta {
        Delta::Retry { after_ms, .. } => Some(*after_ms),
        _ => None,
    });
    assert_eq!(waits.collect::<Vec<_>>(), [3; 8]);
}
