//! A script starts a session over HTTP and answers its question.

use rewake::store::Store;
use serde_json::{Value, json};

use crate::scenes::http_sessions::writes;
use crate::scenes::serve::Serve;

/// A session from its start to its end, by a script that knows no more than the routes.
#[test]
fn a_session_is_started_and_answered() {
    let home = writes();
    let server = Serve::start(&home, &[]);
    let folder = home.workspace();
    let begin = json!({"prompt": "write it", "folder": folder});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    // Its prompt is on the disk as soon as that is answered.
    let store = Store::open(&home.rewake_home()).unwrap();
    assert!(store.history().find(id).unwrap().entries > 0);
    drop(store);

    let asked = server.until("/questions", |asked| asked[0]["tool"] == "write");
    assert_eq!(asked[0]["session"], id);
    assert_eq!(asked[0]["arguments"]["content"], "written\n");
    assert_eq!(home.read("f"), "");
    let listed = server.get("/agent/history").json();
    assert_eq!(listed["sessions"][0]["asks"], true);
    let verdict = json!({"verdict": "allow", "call": asked[0]["call"]});
    let path = format!("/sessions/{id}/verdicts");
    let accepted = server.post(&path, &verdict).expect(202).json();
    assert_eq!(accepted["became"], "heard");
    assert!(accepted["ids"][0].as_i64().is_some());
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    assert_eq!(home.read("f"), "written\n");
    let entries = server.get(&format!("/sessions/{id}/entries")).json();
    let decided = entries["entries"].as_array().unwrap().iter();
    let decided: Vec<&Value> = decided.filter(|e| e["type"] == "entry.decided").collect();
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0]["origin"], "http");
    // One that comes too late is not kept.
    server
        .post(&path, &verdict)
        .refused(409, "does not ask about call");
    server
        .post(&path, &json!({"verdict": "deny"}))
        .refused(409, "asks nothing");
}
