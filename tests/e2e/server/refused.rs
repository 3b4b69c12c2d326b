//! What is refused: wrong names, pages, tokens, scopes, paths and bodies. Each refusal is JSON with
//! an error and a hint.

use std::os::unix::fs::PermissionsExt;

use rewake::core::entry::Via;
use rewake::store::{MAX_MESSAGES, Message, Store, now_ms};
use serde_json::{Value, json};

use crate::server::client::Serve;
use crate::server::{done_session, scripted, step};

#[test]
fn a_foreign_name_or_page_is_refused() {
    let home = scripted(&[step("ok", &[])]);
    done_session(&home, "x");
    let server = Serve::start(&home, &["--host", "desk.example"]);
    let (port, token) = (server.port, server.token.clone());
    let ask = |path: &str, lines: &str| {
        server.raw(
            format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{lines}\r\n")
                .as_bytes(),
        )
    };
    for path in ["/", "/health", "/agent/history", "/nothing"] {
        for host in [
            "Host: evil.example\r\n".to_string(),
            format!("Host: evil.example:{port}\r\n"),
            format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
            format!("Host: user@127.0.0.1:{port}\r\n"),
            "Host: 10.1.2.3\r\n".to_string(),
            "Host: \r\n".to_string(),
            String::new(),
            "Host: 127.0.0.1\r\nHost: evil.example\r\n".to_string(),
        ] {
            ask(path, &host).refused(421, "does not go by the name");
        }
    }
    let whole = format!("http://evil.example:{port}/agent/history");
    ask(&whole, "Host: 127.0.0.1\r\n").refused(421, "does not go by the name");
    for host in [
        "localhost",
        "LOCALHOST:1",
        "[::1]:7391",
        "127.0.0.1:9",
        "desk.example",
    ] {
        ask("/agent/history", &format!("Host: {host}\r\n")).expect(200);
    }
    for origin in [
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        "file://",
        "https://localhost.evil.example",
    ] {
        let lines = format!("Host: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n");
        ask("/agent/history", &lines).refused(403, "another origin");
        ask("/", &lines).refused(403, "another origin");
    }
    let own = format!("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n");
    ask("/agent/history", &own).expect(200);
    let tls = "Host: desk.example\r\nOrigin: https://desk.example\r\n";
    ask("/agent/history", tls).expect(200);
    // No page of another origin is ever let in.
    let preflight = format!(
        "OPTIONS /agent/history HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n\
         Access-Control-Request-Method: GET\r\nConnection: close\r\n\r\n"
    );
    let reply = server
        .raw(preflight.as_bytes())
        .refused(403, "another origin");
    assert!(!reply.head.to_lowercase().contains("access-control"));
}

#[test]
fn each_scope_may_so_much_and_no_more() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let tokens = |server: &Serve| {
        let text = std::fs::read_to_string(home.rewake_home().join("keys/.serve.token")).unwrap();
        assert!(text.contains(&server.token));
        text.lines()
            .map(|line| line.split_once(' ').unwrap().1.to_string())
            .collect::<Vec<_>>()
    };
    let mut server = Serve::start(&home, &[]);
    let path = home.rewake_home().join("keys/.serve.token");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let [read, control, admin] = tokens(&server).try_into().unwrap();
    assert_eq!(server.token, control);
    let patch = format!("/sessions/{id}");
    let yolo = json!({"mode": "bypassPermissions"});
    server
        .send("PATCH", &patch, &yolo)
        .refused(403, "needs the scope admin");
    let begin = json!({"prompt": "x", "mode": "bypassPermissions"});
    server
        .post("/sessions", &begin)
        .refused(403, "needs the scope admin");
    server
        .send("PATCH", &patch, &json!({"mode": "plan"}))
        .expect(202);
    server.token = admin.clone();
    server.send("PATCH", &patch, &yolo).expect(202);
    server.token = read;
    let reply = server.get("/agent/history").expect(200);
    assert!(reply.has_header("rewake-scope: read"), "{}", reply.head);
    // Whoever may only look answers nothing, sends nothing and begins nothing.
    let allow = json!({"verdict": "allow", "text": "x", "prompt": "x"});
    let orders = [
        "/verdicts",
        "/messages",
        "/stop",
        "/pause",
        "/go",
        "/fork",
        "/rewind",
        "/compact",
    ];
    let orders = orders.map(|more| format!("/sessions/{id}{more}"));
    for path in orders.into_iter().chain(["/ps/0/stop".to_string()]) {
        server
            .post(&path, &allow)
            .refused(403, "the token has the scope read");
    }
    server
        .post("/sessions", &begin)
        .refused(403, "the token has the scope read");
    server
        .send("PATCH", &patch, &json!({"mode": "plan"}))
        .refused(403, "the token has the scope read");
    for wrong in [
        "",
        "x",
        &control[1..],
        &control.to_uppercase(),
        &"0".repeat(64),
    ] {
        server.token = wrong.to_string();
        let reply = server.get("/agent/history").refused(401, "token");
        assert!(reply.has_header("www-authenticate: Bearer"));
    }
    let basic = format!(
        "GET /agent/history HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {control}\r\nConnection: close\r\n\r\n"
    );
    server
        .raw(basic.as_bytes())
        .refused(401, "there is no token");
    // Neither in the address: it would stand in logs.
    let query = format!(
        "GET /agent/history?token={control} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    server
        .raw(query.as_bytes())
        .refused(401, "there is no token");
    drop(server);

    let mut shows = Serve::start(&home, &["--read-only"]);
    shows.token = admin;
    let reply = shows.get("/agent/history").expect(200);
    assert!(reply.has_header("rewake-scope: read"), "{}", reply.head);
    shows
        .send("PATCH", &patch, &json!({"mode": "plan"}))
        .refused(403, "only shows");
    drop(shows);
    // Old links are no longer good.
    let mut anew = Serve::start(&home, &["--new-tokens"]);
    assert_ne!(anew.token, control);
    anew.get("/agent/history").expect(200);
    anew.token = control;
    anew.get("/agent/history").refused(401, "not known");
}

#[test]
fn malformed_requests_are_refused_with_a_reason() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let s = |more: &str| format!("/sessions/{id}{more}");
    for (path, status, words) in [
        ("/nothing".to_string(), 404, "there is nothing at"),
        ("/agent/../serve.token".to_string(), 404, "nothing at"),
        ("//agent/history".to_string(), 404, "nothing at"),
        ("/sessions/zzz".to_string(), 404, "no session"),
        ("/sessions/%00".to_string(), 404, "no session"),
        (
            "/sessions/..%2f..%2fetc%2fpasswd".to_string(),
            404,
            "no session",
        ),
        ("/sessions/%ff".to_string(), 400, "path makes no sense"),
        ("/sessions/zzz/events".to_string(), 404, "no session"),
        (
            "/agent/history?limit=0".to_string(),
            400,
            "limit is a number",
        ),
        (
            "/agent/history?limit=x".to_string(),
            400,
            "query makes no sense",
        ),
        (
            "/agent/history?before=1e9".to_string(),
            400,
            "query makes no sense",
        ),
        (
            "/agent/history?before=9007199254740992".to_string(),
            400,
            "before is out of range",
        ),
        (s("/entries?from=9007199254740992"), 400, "out of range"),
        (
            format!("/agent/history?q={}", "a".repeat(5_000)),
            400,
            "too long",
        ),
        (s("/entries?from=5&to=2"), 400, "lies before"),
        (s("/entries?from=-1"), 400, "query makes no sense"),
        (s("/checkpoints?limit=5000"), 400, "limit is a number"),
    ] {
        server.get(&path).refused(status, words);
    }
    for (path, body, status, words) in [
        (s("/messages"), json!({}), 400, "nothing to send"),
        (
            s("/messages"),
            json!({"text": 5}),
            400,
            "body makes no sense",
        ),
        (s("/messages"), json!(["x"]), 400, "not a JSON object"),
        (s("/stop"), json!([]), 400, "not a JSON object"),
        (s("/messages"), json!({"txt": "x"}), 400, "unknown field"),
        (
            s("/messages"),
            json!({"images": [{"data": "!"}]}),
            400,
            "base64",
        ),
        (
            s("/messages"),
            json!({"images": [{"data": "AAAA"}]}),
            400,
            "image cannot be sent",
        ),
        (
            s("/verdicts"),
            json!({"verdict": "maybe"}),
            400,
            "unknown variant",
        ),
        (
            s("/verdicts"),
            json!({"verdict": "allow", "call": "x"}),
            400,
            "names no call",
        ),
        (
            s("/verdicts"),
            json!({"verdict": "allow", "reason": "x"}),
            400,
            "no reason",
        ),
        (
            s("/verdicts"),
            json!({"verdict": "allow"}),
            409,
            "asks nothing",
        ),
        ("/sessions/zz/go".into(), json!({}), 404, "no session"),
        (
            "/sessions".into(),
            json!({"prompt": " "}),
            400,
            "prompt is empty",
        ),
        (
            "/sessions".into(),
            json!({"prompt": "x", "folder": "relative"}),
            400,
            "relative is not an absolute path",
        ),
        (
            "/sessions".into(),
            json!({"prompt": "x", "folder": "/nowhere"}),
            400,
            "/nowhere does not exist",
        ),
        (
            "/sessions".into(),
            json!({"prompt": "x", "folder": "/etc/passwd"}),
            400,
            "/etc/passwd is not a folder",
        ),
        (
            "/sessions".into(),
            json!({"prompt": "x", "model": "no/such"}),
            400,
            "did not start",
        ),
    ] {
        server.post(&path, &body).refused(status, words);
    }
    for (body, words) in [
        (json!({}), "nothing to set"),
        (json!({"mode": "wild"}), "unknown variant"),
        (json!({"effort": "much"}), "unknown variant"),
        (json!({"temperature": 9.0}), "makes no sense"),
        (json!({"turns": 0}), "from 1 to"),
        (json!({"usd": 0.0}), "makes no sense"),
        (json!({"title": " \n "}), "the title is empty"),
        (json!({"model": "no/such"}), ""),
        (json!({"turns": 1, "no_limits": true}), "limits, and none"),
    ] {
        server.send("PATCH", &s(""), &body).refused(400, words);
    }
    for (method, path) in [
        ("DELETE", s("")),
        ("PUT", "/sessions".into()),
        ("GET", s("/stop")),
        ("POST", "/".into()),
    ] {
        server
            .body(method, &path, "application/json", b"{}")
            .refused(405, "cannot be asked with");
    }
    for (kind, status) in [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json; charset=utf-8", 202),
    ] {
        let reply = server.body("POST", &s("/messages"), kind, br#"{"text":"x"}"#);
        assert_eq!(reply.status, status, "{kind}: {}", reply.text());
    }
    server
        .body("POST", &s("/messages"), "application/json", b"{\"text\":\"")
        .refused(400, "body makes no sense");
}

#[test]
fn oversized_messages_are_refused_with_a_hint() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/messages");
    let large = vec![b'x'; 50 * 1024 * 1024];
    server
        .body("POST", &path, "application/json", &large)
        .refused(413, "name the file in the message");
    // Small enough to be read, and too long to be sent.
    let long = json!({"text": "x".repeat(11 * 1024 * 1024)});
    server
        .post(&path, &long)
        .refused(413, "name the file in the message");
    let prompt = json!({"prompt": "x".repeat(11 * 1024 * 1024)});
    server
        .post("/sessions", &prompt)
        .refused(413, "name the file");
    let chunked = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.token
    );
    let mut bytes = chunked.into_bytes();
    for _ in 0..40 {
        bytes.extend_from_slice(b"100000\r\n");
        bytes.extend_from_slice(&large[..0x10_0000]);
        bytes.extend_from_slice(b"\r\n");
    }
    let status = server.raw(&bytes).status;
    assert!([413, 0].contains(&status), "{status}");
    server.get("/health").expect(200);
    assert_eq!(
        server.get(&format!("/sessions/{id}")).json()["queued"],
        json!([])
    );
}

#[test]
fn no_more_messages_wait_than_are_bearable() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let message = Message {
        text: "x".into(),
        images: vec![],
        via: Via::Signal,
        command: None,
        origin: None,
    };
    for _ in 0..MAX_MESSAGES {
        store
            .inbox_mut()
            .queue(&id, &message, &[], now_ms())
            .unwrap();
    }
    drop(store);
    let server = Serve::start(&home, &[]);
    server
        .post(
            &format!("/sessions/{id}/messages"),
            &json!({"text": "one more"}),
        )
        .refused(429, "wait in it already");
}

#[test]
fn keys_and_config_are_never_served() {
    let home = scripted(&[step("ok", &[])]);
    let config = "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n\
                  [providers.other]\nprotocol = \"openai-chat\"\nbase_url = \"http://secret.example\"\napi_key_env = \"LOCAL_KEY\"\n";
    home.write_config(config);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &["--scope", "admin"]);
    for path in [
        "/agent/history".to_string(),
        "/questions".into(),
        "/health".into(),
        "/".into(),
        "/openapi.json".into(),
        format!("/sessions/{id}"),
        format!("/sessions/{id}/entries"),
    ] {
        let text = server.get(&path).expect(200).text();
        for secret in [support::KEY, "secret.example", &server.token, "LOCAL_KEY"] {
            assert!(!text.contains(secret), "{path} has {secret}");
        }
    }
    for path in [
        "/config.toml",
        "/serve.token",
        "/rewake.db",
        "/../serve.token",
        "/%2e%2e/serve.token",
    ] {
        server.get(path).refused(404, "nothing");
    }
}

/// Whatever the session does without a question, a link of the scope control does not make it do.
#[test]
fn a_control_link_reaches_no_session_that_asks_nothing() {
    let steps: Vec<String> = (0..8).map(|_| step("ok", &[])).collect();
    let home = scripted(&steps);
    home.run(["-p", "first", "--yolo"]).expect(0);
    let server = Serve::start(&home, &[]);
    let history = server.get("/agent/history").json();
    let id = history["sessions"][0]["id"].as_str().unwrap().to_string();
    let orders = [
        ("/messages", json!({"text": "x", "start": true})),
        ("/verdicts", json!({"verdict": "allow"})),
        ("/answers", json!({"answer": "cancel"})),
        ("/go", json!({"start": true})),
        ("/rewind", json!({"entry": 1, "what": "conversation"})),
        ("/compact", json!({"start": true})),
    ];
    for (order, body) in &orders {
        let reply = server.post(&format!("/sessions/{id}{order}"), body);
        reply.refused(403, "which needs the scope admin");
    }
    let patch = format!("/sessions/{id}");
    let limits = json!({"no_limits": true});
    server
        .send("PATCH", &patch, &limits)
        .refused(403, "scope admin");
    server
        .send("PATCH", &patch, &json!({"title": "x"}))
        .expect(202);
    // Its fork is strict, also where the mode was chosen later.
    let say = json!({"text": "x", "start": true});
    let fork = |id: &str, at: &Value| {
        let made = server.post(&format!("/sessions/{id}/fork"), at).expect(201);
        let fork = made.json()["session"].as_str().unwrap().to_string();
        assert_eq!(
            server.get(&format!("/sessions/{fork}")).json()["mode"],
            "default"
        );
        fork
    };
    let strict = fork(&id, &json!({}));
    let sent = server
        .post(&format!("/sessions/{strict}/messages"), &say)
        .expect(202);
    assert_eq!(sent.json()["started"], true);
    server.until(&format!("/sessions/{strict}"), |s| s["live"] == false);
    assert_eq!(
        server.get(&format!("/sessions/{strict}")).json()["mode"],
        "default"
    );
    server
        .send("PATCH", &patch, &json!({"mode": "default"}))
        .expect(202);
    home.run(["-p", "again", "-r", &id]).expect(0);
    fork(&id, &json!({"at": 1}));
    server
        .post(&format!("/sessions/{id}/messages"), &say)
        .expect(202);
    server.until(&format!("/sessions/{id}"), |s| s["live"] == false);
    // A choice of the mode that waits is as good as the mode.
    let mut command = home.rewake(["set", &id, "--mode", "bypassPermissions"]);
    assert!(command.output().unwrap().status.success());
    let sent = server.post(&format!("/sessions/{id}/messages"), &say);
    sent.refused(403, "scope admin");
    // The config decides about a new session.
    let config = home.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = format!("permission_mode = \"bypassPermissions\"\n{text}");
    std::fs::write(&config, text).unwrap();
    let begin = json!({"prompt": "x", "folder": home.workspace()});
    server
        .post("/sessions", &begin)
        .refused(400, "needs the scope admin");
    let begin = json!({"prompt": "x", "folder": home.workspace(), "mode": "default"});
    server.post("/sessions", &begin).expect(201);
}
