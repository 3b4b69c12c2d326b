//! Servers that mean harm, or are broken: no answer takes more memory or time than its bound.

use super::*;
use crate::model::offered::{self, ModelList};

/// Writes `head`, and then `piece` again and again until the client hangs up. Gives how many
/// bytes it got rid of.
async fn endless(head: Vec<u8>, piece: Vec<u8>) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let mut written = head.len();
        let mut next = socket.write_all(&head).await;
        while next.is_ok() {
            written += piece.len();
            next = socket.write_all(&piece).await;
        }
        written
    });
    (base, server)
}

fn head(status: &str, headers: &str) -> Vec<u8> {
    answer(status, headers, "").into_bytes()
}

fn delta(text: &str) -> String {
    format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
    )
}

/// Returns the beginning of a gzip stream that contains only the letter x, and bytes that continue
/// it without end. Each repetition of 13 bytes expands to 2,064.
fn gzip_bomb() -> (Vec<u8>, Vec<u8>) {
    // The bits of one block with fixed codes (RFC 1951): the letter, then again and again
    // "258 bytes, from 1 byte back".
    let mut bits = vec![0, 1, 0];
    let code = |value: u32, length: u32| (0..length).rev().map(move |n| (value >> n) as u8 & 1);
    bits.extend(code(0x30 + u32::from(b'x'), 8));
    let repeat: Vec<u8> = code(0b1100_0101, 8).chain(code(0, 5)).collect();
    bits.extend(&repeat);
    let bytes = |bits: &[u8]| -> Vec<u8> {
        let byte = |bits: &[u8]| (0..8).fold(0, |byte, n| byte | bits[n] << n);
        bits.chunks_exact(8).map(byte).collect()
    };
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let begin = [&header[..], &bytes(&bits)].concat();
    (begin, bytes(&repeat.repeat(8)).repeat(1_000))
}

/// As fast as the server can: the bound of an answer is in bytes too.
#[tokio::test]
async fn an_endless_stream_is_left_at_its_bound() {
    let stream = events(&[START]).into_bytes();
    let (base, server) = endless(stream, delta(&"x".repeat(1 << 20)).into_bytes()).await;
    let failure = once(&provider(&base)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Protocol);
    let said = "the answer has more than 128 MiB";
    assert!(failure.message.contains(said), "{}", failure.message);
    assert!(server.await.unwrap() > 128 << 20);
}

#[tokio::test]
async fn an_endless_object_is_left_at_its_bound() {
    let object = [head("200 OK", ""), b"{\"content\": \"".to_vec()].concat();
    let (base, server) = endless(object, vec![b'x'; 1 << 20]).await;
    let failure = once(&provider(&base)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Protocol);
    let said = "the answer has more than 32 MiB";
    assert!(failure.message.contains(said), "{}", failure.message);
    assert!(server.await.unwrap() > 32 << 20);
}

#[tokio::test]
async fn a_gzip_bomb_is_left_at_the_bound_of_what_it_unpacks_to() {
    let (begin, more) = gzip_bomb();
    let packed = "content-encoding: gzip\r\n";
    for (status, said) in [
        // A line without an end.
        ("200 OK", "one event has more than 16 MiB"),
        ("400 Bad Request", "xxxxxxxx"),
    ] {
        let head = [head(status, packed), begin.clone()].concat();
        let (base, server) = endless(head, more.clone()).await;
        let failure = once(&provider(&base)).await.unwrap_err();
        assert!(failure.message.contains(said), "{}", failure.message);
        assert!(failure.message.len() < 2 * MAX_MESSAGE_CHARS);
        // Packed, the whole of the bound is some 100 KB; the rest are the buffers of the system.
        let written = server.await.unwrap();
        assert!(written < 64 << 20, "{written} bytes were taken");
    }
}

#[tokio::test]
async fn an_error_of_a_gigabyte_is_read_to_its_bound() {
    for headers in ["content-length: 1073741824\r\n", ""] {
        let head = head("500 Internal Server Error", headers);
        let (base, server) = endless(head, vec![b'x'; 1 << 16]).await;
        let failure = once(&provider(&base)).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Overloaded);
        assert!(failure.message.len() < 2 * MAX_MESSAGE_CHARS);
        let written = server.await.unwrap();
        assert!(written < 64 << 20, "{written} bytes were taken");
    }
}

/// Neither the address nor the key of the request is sent anywhere else.
#[tokio::test]
async fn no_redirect_of_any_kind_is_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap();
    for status in [300, 301, 302, 303, 305, 307, 308] {
        let away = answer(
            &format!("{status} Elsewhere"),
            &format!("location: http://{address}/v1/messages\r\n"),
            "",
        );
        let (base, _) = serve(vec![away]).await;
        let failure = once(&provider(&base)).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::BadRequest, "{status}");
        assert!(failure.message.contains("it redirects"), "{status}");
    }
    let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(asked.is_err(), "the other server was asked");
}

/// Once, and again and again: a list of models is asked for with the key as well.
#[tokio::test]
async fn a_list_of_models_is_not_followed_elsewhere_and_has_its_bound() {
    let client = Client::new(RETRY, None);
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    let (base, _) = serve(vec![answer("302 Found", &to, "{}")]).await;
    let url = |base: &str| Url::parse(&format!("{base}/v1/models")).unwrap();
    let list_of = provider(&base);
    let list = url(&base);
    let got = client.json(&list_of, &list);
    let got = tokio::time::timeout(Duration::from_secs(60), got).await;
    let got = got.expect("the other server is not waited for");
    assert!(got.is_err(), "{got:?}");
    let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(asked.is_err(), "the other server was asked");

    let list = [head("200 OK", ""), b"{\"data\": \"".to_vec()].concat();
    let (base, server) = endless(list, vec![b'x'; 1 << 16]).await;
    let got = client.json(&provider(&base), &url(&base)).await;
    assert!(got.unwrap_err().message.contains("larger than 8 MiB"));
    assert!(server.await.unwrap() < 64 << 20);
}

#[tokio::test]
async fn a_list_of_models_may_have_pages_and_may_be_anything_else() {
    let client = Client::new(RETRY, None);
    let of = async |bodies: Vec<&str>| {
        let answers = bodies.iter().map(|body| answer("200 OK", "", body));
        let (base, server) = serve(answers.collect()).await;
        let list = offered::ask(&client, &provider(&base)).await;
        (list, server.await.unwrap())
    };
    let first = r#"{"data": [{"id": "a"}], "has_more": true, "last_id": "a"}"#;
    let (list, asked) = of(vec![first, r#"{"data": [{"id": "b"}], "has_more": false}"#]).await;
    let names: Vec<&str> = list.models().iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(
        asked[1].starts_with("GET /v1/models?after_id=a "),
        "{}",
        asked[1]
    );
    let endless: Vec<String> = (0..20)
        .map(|n| format!(r#"{{"data": [{{"id": "m{n}"}}], "has_more": true, "last_id": "m{n}"}}"#))
        .collect();
    let endless = endless.iter().map(String::as_str).collect();
    for (bodies, why) in [
        (vec!["<html>login</html>"], "not JSON"),
        (vec![r#"{"data": []}"#], "is empty"),
        (vec![r#"{"error": "none"}"#], "not a list of models"),
        (endless, "has no end"),
        // Half of a list does not say what it lacks.
        (vec![first, "{}"], "not a list of models"),
    ] {
        match of(bodies).await.0 {
            ModelList::Unknown(said) => assert!(said.contains(why), "{said}"),
            known => panic!("{known:?}"),
        }
    }
}

/// Bytes that are not UTF-8 are replaced wherever they occur.
#[tokio::test]
async fn bytes_that_are_no_text_break_nothing() {
    let wrong = |text: &str| -> Vec<u8> {
        let (before, after) = text.split_once('@').unwrap();
        [before.as_bytes(), b"\xff\xfe\xc3(", after.as_bytes()].concat()
    };
    let stream = [
        events(&[START]),
        delta("a@b"),
        END.map(|end| format!("data: {end}\n\n")).concat(),
    ];
    let object = r#"{"type":"message","content":[{"type":"text","text":"a@b"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let whole = [stream.concat(), answer("200 OK", "", object)];
    for whole in whole {
        let reply = once(&provider(&bytes(wrong(&whole)).await)).await.unwrap();
        let text = match &reply.blocks[..] {
            [Block::Text { text, .. }] => text.as_str(),
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with('a') && text.ends_with('b'), "{text:?}");
        assert!(text.contains('\u{fffd}'), "{text:?}");
    }
    for body in ["no @ text", r#"{"error":{"message":"no @ text"}}"#] {
        let refused = wrong(&answer("400 Bad Request", "", body));
        let failure = once(&provider(&bytes(refused).await)).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::BadRequest);
        let said = "no \u{fffd}";
        assert!(failure.message.contains(said), "{}", failure.message);
    }
    // In the headers too.
    let strange = wrong("HTTP/1.1 400 Bad @\r\nretry-after: @\r\nconnection: close\r\n\r\nwords");
    let failure = once(&provider(&bytes(strange).await)).await.unwrap_err();
    assert!(failure.message.contains("anthropic"), "{}", failure.message);
}

/// One connection, for these bytes.
async fn bytes(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let _ = socket.write_all(&answer).await;
        let _ = socket.shutdown().await;
    });
    base
}

/// The answer begins, byte by byte, and never comes to its body.
#[tokio::test]
async fn headers_that_never_end_are_not_waited_for() {
    const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    for (start, piece) in [
        ("HTTP/1.1 200 OK\r\nx-a: ", "x"),
        ("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"),
        ("", INTERIM),
    ] {
        let (base, server) = drip(start.to_string(), piece, String::new(), 3_000).await;
        let mut provider = provider(&base);
        provider.idle_timeout_ms = 60;
        let failure = once(&provider).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Network, "{}", failure.message);
        assert!(server.await.unwrap(), "the client hung up");
    }
    for piece in ["x".repeat(1 << 16), INTERIM.repeat(100)] {
        let start = if piece.starts_with('x') {
            "HTTP/1.1 200 OK\r\nx-a: "
        } else {
            ""
        };
        let (base, server) = endless(start.into(), piece.into_bytes()).await;
        let mut provider = provider(&base);
        provider.idle_timeout_ms = 2_000;
        let failure = once(&provider).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Network, "{}", failure.message);
        server.await.unwrap();
    }
}

/// A time to wait that a server asks for is checked like any other number.
#[tokio::test]
async fn an_absurd_time_to_wait_is_none() {
    for after in ["-1", "1e300", "NaN", "99999999999999999999", "infinity"] {
        let limit = answer(
            "429 Too Many Requests",
            &format!("retry-after: {after}\r\nretry-after-ms: {after}\r\n"),
            r#"{"error":{"message":"slow down"}}"#,
        );
        let (base, server) = serve(vec![limit, whole()]).await;
        ask(&provider(&base)).await.1.unwrap();
        assert_eq!(server.await.unwrap().len(), 2, "{after}");
    }
}
