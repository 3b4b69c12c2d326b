//! A memory is recalled in the next session.

use serde_json::json;

use support::{Answer, Home, Protocol, Says, Seen, Server};

/// Keeps, looks back, or says what it was told, as the user wants.
fn obedient(seen: &Seen) -> Answer {
    let call = |tool: &str, arguments| Answer::Says(Says::text("").and_call(tool, arguments));
    let body = String::from_utf8_lossy(&seen.body);
    let asked = |word| body.contains(word);
    match seen.turn {
        0 if asked("keep in mind") => call(
            "memory_insert",
            json!({"text": "the integration tests need docker", "kind": "procedural"}),
        ),
        0 if asked("who was here") => call("review_history", json!({})),
        0 if asked("need docker") => Answer::text("it was recalled"),
        0 => Answer::text("nothing was recalled"),
        _ => Answer::text(seen.last_result()),
    }
}

#[test]
fn a_memory_kept_in_a_session_is_recalled_in_the_next() {
    let server = Server::start(obedient);
    let home = Home::with(&server, Protocol::Anthropic);
    // How the last session ended would be told too, and its words are those that are waited for.
    let alone = "context.cross_session=false";
    let say = |words: &str| home.run(["-p", words, "--set", alone]).expect(0).stdout;
    assert!(say("do the integration tests use docker?").contains("nothing"));
    let kept = say("keep in mind what the tests need");
    assert!(kept.contains("kept as procedural memory"), "{kept}");
    // No one asks before it, whatever the mode: it changes only the user's own store.
    assert!(say("do the integration tests use docker?").contains("it was recalled"));
    assert!(say("what about something else?").contains("nothing"));
    let history = say("who was here?");
    assert!(
        history.contains("keep in mind what the tests need"),
        "{history}"
    );
    assert!(history.contains("(this session)"), "{history}");
    server.assert_no_violations();
}
