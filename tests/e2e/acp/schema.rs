//! The check of the lines against the schema of the protocol can fail.

use serde_json::Value;

use crate::scenes::acp::schema::check;

#[test]
fn the_check_refuses_what_the_schema_does_not_have() {
    let refused = |line: Value, asked: Option<&'static str>| {
        std::panic::catch_unwind(move || check(&line, asked)).is_err()
    };
    let update = |update: Value| {
        serde_json::json!({
            "jsonrpc": "2.0", "method": "session/update",
            "params": { "sessionId": "a", "update": update },
        })
    };
    let plan = serde_json::json!({ "sessionUpdate": "plan", "entries": [] });
    assert!(!refused(update(plan), None));
    let unknown = serde_json::json!({ "sessionUpdate": "dance" });
    assert!(refused(update(unknown), None));
    let result = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    assert!(refused(result.clone(), Some("session/new")));
    assert!(!refused(result, Some("session/close")));
    let method = serde_json::json!({ "jsonrpc": "2.0", "method": "fs/read", "params": {} });
    assert!(refused(method, None));
}
