//! What is sent is recorded once, the newest answer counts, and a start that fails says so.

use serde_json::{Value, json};

use crate::scenes::{asking, calling, until};
use crate::server::client::{Reply, Serve};
use crate::server::{done_session, scripted, step, writes};
use support::Home;

/// Sends with an idempotency key.
fn keyed(server: &Serve, path: &str, key: &str, body: &Value) -> Reply {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        server.token,
        body.len()
    );
    server.raw(head.as_bytes())
}

/// A session that asks whether it may write `f`, and in which nobody works.
fn left_with_a_question(home: &Home, meanwhile: impl FnOnce()) {
    let mut live = asking(home, "do it");
    meanwhile();
    live.kill();
}

#[test]
fn the_newest_verdict_counts() {
    for (first, last, written) in [("allow", "deny", ""), ("deny", "allow", "written\n")] {
        let home = writes();
        left_with_a_question(&home, || {});
        let server = Serve::start(&home, &[]);
        let asked = server.until("/questions", |asked| asked[0]["live"] == false);
        let id = asked[0]["session"].as_str().unwrap();
        for verdict in [first, last] {
            let verdict = json!({"verdict": verdict, "call": asked[0]["call"]});
            let kept = server.post(&format!("/sessions/{id}/verdicts"), &verdict);
            assert_eq!(kept.expect(202).json()["became"], "kept");
        }
        home.run(["-p", "-r", id]).expect(0);
        assert_eq!(home.read("f"), written, "{first}, then {last}");
        let entries = server.get(&format!("/sessions/{id}/entries")).json();
        let decided = entries["entries"].as_array().unwrap().iter();
        let decided: Vec<&Value> = decided.filter(|e| e["type"] == "entry.decided").collect();
        assert_eq!(decided.len(), 1, "{decided:#?}");
        assert_eq!(decided[0]["verdict"]["verdict"], last);
    }
}

/// A rule for the session comes from the question, never from who answers.
#[test]
fn only_an_offered_rule_is_allowed_for_the_session() {
    let touch = |name: &str| {
        let command = json!({"command": format!("touch {name}"), "access": "workspace"});
        step("", &[("bash", command)])
    };
    let home = scripted(&[touch("one"), touch("two"), step("done", &[])]);
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "do it", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    let asked = server.until("/questions", |asked| asked[0]["tool"] == "bash");
    let offered = json!([{"rule": "Bash(touch:*)", "words": "`touch`"}]);
    assert_eq!(asked[0]["session_rules"], offered);
    let path = format!("/sessions/{id}/verdicts");
    let wider = json!({"verdict": "allow", "rule": "Bash"});
    server
        .post(&path, &wider)
        .refused(409, "does not offer the rule");
    let denied = json!({"verdict": "deny", "rule": "Bash(touch:*)"});
    server
        .post(&path, &denied)
        .refused(400, "a denial has no rule");
    let allowed = json!({"verdict": "allow", "rule": "Bash(touch:*)"});
    server.post(&path, &allowed).expect(202);
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    assert!(home.path("one").exists() && home.path("two").exists());
    let entries = server.get(&format!("/sessions/{id}/entries")).json();
    let asked = entries["entries"].as_array().unwrap().iter();
    let asked = asked.filter(|e| e["type"] == "entry.asked").count();
    assert_eq!(asked, 1, "{entries}");
}

/// As many work as may. What is sent then is recorded, and said not to have started anything.
#[test]
fn requests_beyond_the_worker_limit_are_recorded_and_reported() {
    let command = json!({"command": "until [ -e gate ]; do sleep 0.1; done"});
    let home = calling(&[("bash", command)]);
    let server = Serve::start(&home, &["--scope", "admin"]);
    let begin = json!({"prompt": "wait", "folder": home.workspace(), "mode": "bypassPermissions"});
    let mut started = Vec::new();
    for _ in 0..16 {
        let made = server.post("/sessions", &begin).expect(201).json();
        started.push(made["session"].as_str().unwrap().to_string());
    }
    for id in &started {
        let entries = |e: &Value| {
            let all = e["entries"].as_array().unwrap().iter();
            all.filter(|e| e["type"] == "entry.started").count() > 0
        };
        server.until(&format!("/sessions/{id}/entries"), entries);
    }
    server.post("/sessions", &begin).refused(429, "16 sessions");
    // One that nobody works in.
    let fork = server.post(&format!("/sessions/{}/fork", started[0]), &json!({"at": 1}));
    let fork = fork.expect(201).json()["session"].clone();
    let fork = fork.as_str().unwrap();
    // One of the others may look for a moment at what its journal lacks. It takes no message.
    let message = json!({"text": "go on", "start": true});
    let sent = server.post(&format!("/sessions/{fork}/messages"), &message);
    let sent = sent.expect(202).json();
    assert_eq!(
        (&sent["became"], &sent["started"]),
        (&json!("kept"), &json!(false))
    );
    let why = sent["not_started"]["error"].as_str().expect("a reason");
    assert!(why.contains("16 sessions"), "{why}");
    let session = server.get(&format!("/sessions/{fork}")).json();
    assert_eq!(session["queued"][0]["text"], "go on");
    std::fs::write(home.path("gate"), "").unwrap();
    for id in &started {
        server.until(&format!("/sessions/{id}"), |s| s["live"] == false);
    }
}

/// Sessions that only wait for a person take no place.
#[test]
fn more_sessions_may_wait_for_a_person_than_work() {
    let home = writes();
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "write it", "folder": home.workspace()});
    for n in 1..=17 {
        server.post("/sessions", &begin).expect(201);
        server.until("/questions", |asked| asked.as_array().unwrap().len() == n);
    }
    let asked = server.get("/questions").json();
    for question in asked.as_array().unwrap() {
        let id = question["session"].as_str().unwrap();
        server
            .post(&format!("/sessions/{id}/stop"), &json!({}))
            .expect(202);
        server.until(&format!("/sessions/{id}"), |s| s["live"] == false);
    }
}

#[test]
fn a_start_that_fails_says_why() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    home.write_config("model = 7\n");
    let message = json!({"text": "go on", "start": true});
    let sent = server.post(&format!("/sessions/{id}/messages"), &message);
    let sent = sent.expect(202).json();
    assert_eq!(sent["started"], false);
    let why = sent["not_started"]["error"].as_str().expect("a reason");
    assert!(why.contains("model"), "{why}");
    home.write_config(crate::server::SCRIPTED);
    let gone = server.post(&format!("/sessions/{id}/go"), &json!({"start": true}));
    let gone = gone.expect(202).json();
    assert_eq!(
        (&gone["started"], &gone["not_started"]),
        (&json!(true), &Value::Null)
    );
    server.until(&format!("/sessions/{id}"), |s| {
        s["queued"] == json!([]) && s["state"] == "done"
    });
}

#[test]
fn a_request_with_a_key_is_carried_out_once() {
    let home = scripted(&[step("one", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/messages");
    let message = json!({"text": "once"});
    let first = keyed(&server, &path, "k1", &message).expect(202).json();
    assert_eq!(
        keyed(&server, &path, "k1", &message).expect(202).json(),
        first
    );
    // Also by a server that was started later.
    drop(server);
    let server = Serve::start(&home, &[]);
    assert_eq!(
        keyed(&server, &path, "k1", &message).expect(202).json(),
        first
    );
    keyed(&server, &path, "k1", &json!({"text": "other"})).refused(422, "another request");
    keyed(&server, &path, &"k".repeat(256), &message).refused(400, "1 to 255 bytes");
    // What was refused may be sent again.
    keyed(&server, &path, "k2", &json!({"text": ""})).refused(400, "message is empty");
    keyed(&server, &path, "k2", &json!({"text": "two"})).expect(202);
    let session = server.get(&format!("/sessions/{id}")).json();
    let queued = session["queued"].as_array().unwrap().iter();
    let queued: Vec<&str> = queued.filter_map(|q| q["text"].as_str()).collect();
    assert_eq!(queued, ["once", "two"]);
}

/// A person who looks at neither a screen nor the page learns of a question.
#[test]
fn the_users_program_is_told_of_a_question_without_a_screen() {
    let tells = r#"printf '%s|%s' "$REWAKE_EVENT" "$1" > told.part; mv told.part told"#;
    let config = format!(
        "{}[notify]\ncommand = [\"sh\", \"-c\", {tells:?}, \"sh\"]\n",
        crate::server::SCRIPTED
    );
    let is_told = |home: &Home| {
        until(|| home.path("told").exists());
        assert_eq!(home.read("told"), "approval|asks: do it");
    };
    let home = writes();
    home.write_config(&config);
    left_with_a_question(&home, || is_told(&home));
    let home = writes();
    home.write_config(&config);
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "do it", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    is_told(&home);
    let path = format!("/sessions/{}/stop", made["session"].as_str().unwrap());
    server.post(&path, &json!({})).expect(202);
}
