//! What somebody who means harm tries, with and without a link.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::scenes::until;
use crate::server::client::{Reply, Serve};
use crate::server::{done_session, scripted, step};
use support::{Home, limited};

fn ask(server: &Serve, method: &str, path: &str, lines: &str, body: &str) -> Reply {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{lines}\r\n{body}",
        server.port
    );
    server.raw(head.as_bytes())
}

/// A form of a page of the web can be sent without asking the server first.
#[test]
fn a_form_of_a_page_sends_nothing() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    let path = format!("/sessions/{id}/messages");
    let body = r#"{"text":"do harm","x=":""}"#;
    let length = body.len();
    let form = |kind: &str, more: &str| {
        let lines = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n{more}");
        ask(&server, "POST", &path, &lines, body)
    };
    let foreign = "Origin: http://evil.example\r\n";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json",
    ] {
        // A form has no header of its own, a foreign page not with the token either.
        form(kind, "").refused(401, "there is no token");
        form(kind, foreign).refused(403, "another origin");
        form(kind, &format!("{foreign}{token}")).refused(403, "another origin");
        form(kind, &format!("Origin: null\r\n{token}")).refused(403, "another origin");
    }
    form("text/plain", &token).refused(415, "JSON");
    let session = server.get(&format!("/sessions/{id}")).json();
    assert_eq!(session["queued"], json!([]));
}

/// `HEAD` is `GET` without a body, and needs what `GET` needs; nothing else is allowed beside.
#[test]
fn no_method_is_a_way_around() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    for path in [
        "/agent/history",
        "/questions",
        &format!("/sessions/{id}/events"),
    ] {
        let without = ask(&server, "HEAD", path, "", "").expect(401);
        assert!(without.body.is_empty(), "{}", without.text());
        let with = ask(&server, "HEAD", path, &token, "").expect(200);
        assert!(with.body.is_empty(), "{}", with.text());
    }
    for method in ["OPTIONS", "TRACE", "PUT", "DELETE", "get", "BREW"] {
        let reply = ask(&server, method, "/agent/history", &token, "");
        assert!(
            [400, 405].contains(&reply.status),
            "{method}: {}",
            reply.status
        );
        assert!(!reply.head.to_lowercase().contains("access-control"));
        assert!(!reply.text().contains(&id));
    }
    let over = "X-HTTP-Method-Override: POST\r\n";
    let stop = format!("/sessions/{id}/stop");
    ask(&server, "GET", &stop, &format!("{token}{over}"), "").expect(405);
}

/// What one side takes for the body of a request the other would take for the next request.
#[test]
fn a_request_in_the_body_of_another_is_not_answered() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let token = &server.token;
    let hidden = format!(
        "POST /sessions/{id}/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{{\"text\":\"harm\"}}"
    );
    let length = hidden.len();
    for (lines, body) in [
        (format!("Content-Length: {length}\r\n"), hidden.clone()),
        (
            format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
            hidden.clone(),
        ),
        (
            format!(
                "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
                length + 5
            ),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            format!(
                "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n",
                length + 5
            ),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n".to_string(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: xchunked\r\n".to_string(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (format!("Content-Length: +{length}\r\n"), hidden.clone()),
        (
            format!("X: y\r\n Content-Length: {length}\r\n"),
            hidden.clone(),
        ),
    ] {
        // Whoever sends this may hold no token: the hidden one is of another request on the way.
        let request = format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}");
        let mut stream = server.connect();
        stream
            .set_read_timeout(Some(std::time::Duration::from_millis(500)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(n) => all.extend_from_slice(&buffer[..n]),
            }
        }
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(!text.contains(" 202 "), "{lines}: {text}");
    }
    let session = server.get(&format!("/sessions/{id}")).json();
    assert_eq!(session["queued"], json!([]));
}

#[test]
fn overlong_requests_are_refused_and_the_server_keeps_running() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    let long = "a".repeat(60_000);
    let many = "x".repeat(2_000_000);
    for (path, lines) in [
        (format!("/agent/history?q={long}"), token.clone()),
        (
            format!("/agent/history?q={}", &many[..200_000]),
            token.clone(),
        ),
        (format!("/sessions/{long}"), token.clone()),
        (format!("/sessions/{id}/blobs/{long}"), token.clone()),
        (
            "/agent/history".to_string(),
            format!("Authorization: Bearer {long}\r\n"),
        ),
        (
            "/agent/history".to_string(),
            format!("{token}X: {many}\r\n"),
        ),
        (
            "/agent/history".to_string(),
            format!("{token}{}", "X: y\r\n".repeat(2_000)),
        ),
        (
            format!("/sessions/{id}/events"),
            format!("{token}Last-Event-ID: {long}\r\n"),
        ),
    ] {
        let reply = ask(&server, "GET", &path, &lines, "");
        let status = reply.status;
        assert!([0, 400, 401, 404, 414, 431].contains(&status), "{status}");
        assert!(
            reply.body.len() < 200_000,
            "{} bytes come back",
            reply.body.len()
        );
    }
    let deep = format!("{{\"text\":{}", "[".repeat(100_000));
    server
        .body(
            "POST",
            &format!("/sessions/{id}/messages"),
            "application/json",
            deep.as_bytes(),
        )
        .refused(400, "makes no sense");
    server.get("/health").expect(200);
}

/// HTTP/2 has streams of its own inside of one connection, which nothing here counts.
#[test]
fn http_2_is_not_spoken() {
    let home = scripted(&[]);
    let server = Serve::start(&home, &[]);
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for pieces in [
        vec![&begin[..]],
        begin.chunks(1).collect(),
        begin.chunks(3).collect(),
    ] {
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        for piece in pieces {
            if stream.write_all(piece).is_err() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert_eq!(all, [0; 0], "it answers");
    }
    server.get("/health").expect(200);
}

/// Neither a link in place of the file of the tokens, nor one that others can write, is used.
#[test]
fn tokens_that_somebody_else_laid_there_are_not_used() {
    let home = scripted(&[]);
    let keys = home.rewake_home().join("keys");
    let file = keys.join(".serve.token");
    let known = home.user().join("known");
    let token = "0".repeat(64);
    std::fs::write(
        &known,
        format!("read {token}\ncontrol {token}\nadmin {token}\n"),
    )
    .unwrap();
    set_mode(&known, 0o600);
    std::fs::create_dir_all(&keys).unwrap();
    symlink(&known, &file).unwrap();
    let refuses = || {
        let run = home.run(["serve", "--listen", "127.0.0.1:0"]).expect(1);
        assert!(run.stderr.contains("you alone can read"), "{}", run.stderr);
        assert!(!run.stdout.contains(&token) && !run.stderr.contains(&token));
    };
    refuses();
    std::fs::remove_file(&file).unwrap();
    std::fs::copy(&known, &file).unwrap();
    set_mode(&file, 0o620);
    refuses();
    // New ones are laid beside what the link leads to, not into it.
    std::fs::remove_file(&file).unwrap();
    symlink(&known, &file).unwrap();
    let server = Serve::start(&home, &["--new-tokens"]);
    assert_ne!(server.token, token);
    assert!(std::fs::read_to_string(&known).unwrap().contains(&token));
    assert!(!std::fs::symlink_metadata(&file).unwrap().is_symlink());
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The token is in one file, and nowhere else: in no log, no entry, no file of the state.
#[test]
fn the_token_is_in_no_log() {
    let home = scripted(&[step("ok", &[]), step("ok", &[])]);
    let id = done_session(&home, "x");
    let mut command = home.rewake(["serve", "--listen", "127.0.0.1:0"]);
    command.env("REWAKE_LOG", "trace").env("RUST_LOG", "trace");
    let live = support::Live::spawn(command);
    let link = live.wait_for(crate::server::client::LIMIT, |line| {
        line.contains("/#token=")
    });
    let (address, token) = link.split_once("/#token=").unwrap();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let server = Serve {
        live,
        port,
        token: token.to_string(),
    };
    server.get("/agent/history").expect(200);
    server
        .get(&format!("/agent/history?token={token}"))
        .expect(200);
    server
        .post(
            &format!("/sessions/{id}/messages"),
            &json!({"text": "now", "start": true}),
        )
        .expect(202);
    server.until(&format!("/sessions/{id}"), |s| {
        s["queued"] == json!([]) && s["live"] == false
    });
    assert_eq!(
        files_with(&home.rewake_home(), token),
        ["keys/.serve.token"]
    );
}

fn files_with(folder: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path)
                && bytes
                    .windows(word.len())
                    .any(|part| part == word.as_bytes())
            {
                let name = path.strip_prefix(folder).unwrap();
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// The ends of an id name several sessions or none; a part that is no beginning names none.
#[test]
fn the_beginning_of_an_id_names_one_session_or_none() {
    let home = scripted(&[step("ok", &[])]);
    let (one, two) = (done_session(&home, "a"), done_session(&home, "b"));
    let server = Serve::start(&home, &[]);
    let common: String = one
        .chars()
        .zip(two.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    for path in [&common[..], &common[..1]] {
        server
            .post(&format!("/sessions/{path}/stop"), &json!({}))
            .refused(400, "");
    }
    for wrong in [
        "%25",
        "_",
        "*",
        "~",
        "%7e",
        "..",
        "%2e%2e",
        &one[4..],
        "0%00",
        "%20",
    ] {
        let reply = server.post(&format!("/sessions/{wrong}/stop"), &json!({}));
        assert_eq!(reply.status, 404, "{wrong}: {}", reply.text());
    }
}

/// Nothing is purged under the hands of whoever follows; when nobody does, it is gone for all.
#[test]
fn a_session_that_is_followed_is_not_purged() {
    let home: Home = scripted(&[step("ok", &[])]);
    done_session(&home, "stays");
    let id = done_session(&home, "goes");
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/events");
    let (of_it, of_all) = (server.follow(&path, None), server.follow("/events", None));
    of_it.until(|all, _| all.iter().any(|event| event.name == "state"));
    let purge = || home.run(["purge", &id, "--yes"]);
    let refused = purge().expect(75);
    assert!(
        refused
            .stderr
            .contains(&format!("in use by process {}\n", server.live.id())),
        "{}",
        refused.stderr
    );
    of_it.until(|_, is_over| !is_over);
    drop((of_it, of_all));
    // What the server had open it closes when nobody asks any more.
    until(|| purge().code() == Some(0));
    server
        .get(&format!("/sessions/{id}"))
        .refused(404, "no session");
    server.get(&path).refused(404, "no session");
    // What comes has numbers that were used before, and is told all the same.
    let again = server.follow("/events", Some(1 << 40));
    again.begun();
    let new = done_session(&home, "comes");
    assert_eq!(again.entry("replied")["session"], new.as_str());
}

/// More idle connections than there may be keep nobody out.
#[test]
fn connections_without_a_request_keep_nobody_out() {
    let home = scripted(&[]);
    let server = Serve::start(&home, &[]);
    let idle: Vec<_> = (0..160).map(|_| server.connect()).collect();
    let mut asks = server.connect();
    // Shorter than an idle connection lives.
    asks.set_read_timeout(Some(std::time::Duration::from_secs(90)))
        .unwrap();
    let request = format!(
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
        server.port
    );
    asks.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 15];
    asks.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop(idle);
}

/// More clients follow a session than the server has descriptors: the surplus is refused, and when
/// some leave, others are answered.
#[test]
fn surplus_clients_are_refused_and_the_server_goes_on() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let few = |command| limited(&command, 256, 256);
    let server = Serve::start_as(&home, &[], few);
    let head = format!(
        "GET /sessions/{id}/events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.port, server.token
    );
    let followers: Vec<TcpStream> = (0..160)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let is_refused = |mut stream: &TcpStream| match stream.read(&mut [0; 1 << 16]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    until(|| followers.iter().any(is_refused));
    drop(followers);
    // Until the server has seen that they left, it may refuse this one, too.
    let path = format!("/sessions/{id}");
    until(|| server.get(&path).status == 200);
}
