//! What is answered when it does not fit, when the store below fails, and what a kill leaves of
//! what was accepted.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rewake::store::Store;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::scenes::until;
use crate::server::client::{Reply, Serve};
use crate::server::{done_session, scripted, step};
use support::{Answer, Home, Protocol, Says, Server};

fn database(home: &Home) -> Connection {
    Connection::open(home.rewake_home().join("rewake.db")).expect("the database")
}

/// An error and a hint, both words, and nothing else.
fn is_problem(reply: &Reply) {
    let problem = reply.json();
    let fields: Vec<&String> = problem.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["error", "hint"], "{problem}");
    assert!(reply.has_header("content-type: application/json"));
    assert!(!problem["error"].as_str().unwrap().is_empty());
    assert!(!problem["hint"].as_str().unwrap().is_empty());
}

#[test]
fn a_request_that_does_not_fit_the_state_is_a_conflict() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let verdicts = format!("/sessions/{id}/verdicts");
    let reply = server
        .post(&verdicts, &json!({"verdict": "allow"}))
        .expect(409);
    is_problem(&reply);
    let short = &id[..13];
    assert_eq!(
        reply.json(),
        json!({
            "error": format!("session {short} asks nothing"),
            "hint": "rewake approvals lists the open questions; earlier ones are answered or closed",
        })
    );
    let reply = server
        .get(&format!("/sessions/{id}/calls/1.0/change"))
        .expect(409);
    is_problem(&reply);
}

#[test]
fn a_session_whose_model_is_gone_says_so_and_uses_the_fallback() {
    let models = Server::start(|seen| match seen.model.as_str() {
        "test-model" => Answer::Raw {
            status: 410,
            content_type: "application/json",
            body: json!({"error": {"message": "deprecated", "code": "model_not_found"}})
                .to_string(),
        },
        _ => Says::text("another answers").into(),
    });
    let home = Home::new();
    for (fallback, state, wanted) in [
        ("", "failed", "-m PROVIDER/MODEL"),
        (
            "fallback_model = [\"local/other\"]",
            "done",
            "another answers",
        ),
    ] {
        home.configure(&models, Protocol::Chat, fallback);
        let server = Serve::start(&home, &[]);
        let begin = json!({"prompt": "go", "folder": home.workspace()});
        let made = server.post("/sessions", &begin).expect(201).json();
        let path = format!("/sessions/{}", made["session"].as_str().expect("an id"));
        server.until(&path, |s| s["state"] == state && s["live"] == false);
        let entries = server.get(&format!("{path}/entries?from=1")).text();
        assert!(entries.contains(wanted), "{entries}");
        assert!(entries.contains("\"no_model\""), "{entries}");
    }
}

/// A store that fails below the server: the answer has the documented shape, and says nothing of
/// tables, files or code.
#[test]
fn a_store_that_fails_is_an_answer_that_shows_nothing_of_it() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let image = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/server/dot.png"
    ));
    let data = crate::server::routes::base64(&image.expect("an image"));
    let message = json!({"text": "see", "images": [{"data": data}]});
    server
        .post(&format!("/sessions/{id}/messages"), &message)
        .expect(202);
    let hash = crate::server::routes::blake3_of(&home.rewake_home(), &id);
    let blob = format!("/sessions/{id}/blobs/{hash}");
    server.get(&blob).expect(200);
    let change = |sql: &str| database(&home).execute_batch(sql).expect("changed");

    change("UPDATE blobs SET data = x'00'");
    let damaged = server.get(&blob).expect(500);
    change("ALTER TABLE blobs RENAME TO elsewhere");
    let missing = server.get(&blob).expect(500);
    let folder = home.user();
    for reply in [damaged, missing] {
        is_problem(&reply);
        let text = reply.text().to_lowercase();
        for inside in [
            "blob",
            "table",
            "sql",
            "select",
            "panic",
            "src/",
            "elsewhere",
            &hash,
            &folder.to_string_lossy().to_lowercase(),
        ] {
            assert!(!text.contains(inside), "{inside:?} is shown: {text}");
        }
        assert!(text.contains("rewake doctor"), "{text}");
    }
    // What needs nothing of it goes on.
    server.get("/health").expect(200);
    server.get("/agent/history").expect(200);
}

/// The numbers that were answered with are those in the store, after a kill of the server, too; a
/// number that was obeyed is not given again.
#[test]
fn the_number_of_a_signal_survives_kills_and_is_given_once() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    let id = done_session(&home, "x");
    let path = format!("/sessions/{id}");
    let turns = |n: usize| json!({"turns": n + 100});
    let waiting = || -> Vec<i64> {
        let store = Store::open(&home.rewake_home()).unwrap();
        let waiting = store.inbox().signals(&id).unwrap();
        waiting.iter().map(|sent| sent.id.number()).collect()
    };
    let mut answered: Vec<i64> = Vec::new();
    for round in 0..3 {
        let mut server = Serve::start(&home, &[]);
        let (told, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let (server_port, token) = (server.port, server.token.clone());
            let (told, is_over, path) = (&told, &is_over, &path);
            threads.spawn(move || {
                for n in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Some(number) = patch(server_port, &token, path, &turns(n)) {
                        told.lock().unwrap().push(number);
                    }
                }
            });
            until(|| told.lock().unwrap().len() >= 5 + 3 * round);
            // In the middle of whatever it does.
            server.live.kill();
            is_over.store(true, Ordering::SeqCst);
        });
        answered.extend(told.into_inner().unwrap());
    }
    let kept: BTreeSet<i64> = waiting().into_iter().collect();
    let once: BTreeSet<i64> = answered.iter().copied().collect();
    assert_eq!(once.len(), answered.len(), "a number was given twice");
    assert!(once.is_subset(&kept), "{once:?} of {kept:?}");

    // They are obeyed; the numbers go on behind them.
    home.run(["-p", "-r", &id, "go on"]).expect(0);
    assert_eq!(waiting(), [0; 0]);
    let server = Serve::start(&home, &[]);
    let next = server.send("PATCH", &path, &turns(0)).expect(202).json();
    let next = next["ids"][0].as_i64().unwrap();
    assert!(next > *kept.last().unwrap(), "{next} was given before");
    assert_eq!(waiting(), [next]);
}

/// One limit, and the number that it was accepted with. `None`: the server is gone.
fn patch(port: u16, token: &str, path: &str, body: &Value) -> Option<i64> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    serde_json::from_str::<Value>(body).ok()?["ids"][0].as_i64()
}
