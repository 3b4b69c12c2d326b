//! What breaks between a bridge and its server: a call reaches the server once, and what nobody
//! knows is said.

use super::*;
use crate::scenes::until_async;

fn ids(asked: &[Asked]) -> Vec<Option<&str>> {
    asked
        .iter()
        .map(|asked| asked.header("last-event-id"))
        .collect()
}

#[test]
fn a_broken_stream_resumes_after_its_last_event() {
    for ending in ["cut", "ended"] {
        let server = older(move |asked| match (asked.verb.as_str(), asked.before) {
            ("POST", _) => {
                let mut pieces = vec![Piece::Text("id: e1\nretry: 60\ndata:\n\n".into())];
                if ending == "cut" {
                    pieces.push(Piece::Cut);
                }
                Gives::events(pieces)
            }
            // The first try of it goes wrong, and the second one breaks.
            (_, 1) => Gives::status(502),
            (_, 2) => Gives::events(vec![Piece::Text("id: e2\ndata:\n\n".into()), Piece::Cut]),
            _ => Gives::events(vec![event(&json!({ "jsonrpc": "2.0", "id": "probe_call",
                "result": { "content": [{ "type": "text", "text": "done" }] } }))]),
        });
        let run = call(&server).expect(0);
        assert!(run.stdout.ends_with("result:\ndone\n"), "{}", run.stdout);
        assert_eq!(server.posted("tools/call").len(), 1);
        let taken_up = [None, Some("e1"), Some("e1"), Some("e2")];
        assert_eq!(ids(&server.with_verb("GET")), taken_up, "{ending}");
    }
}

#[test]
fn a_call_whose_connection_broke_is_in_doubt_and_not_sent_again() {
    fn before_the_answer(_: &Asked) -> Gives {
        Gives::Gone
    }
    fn in_the_answer(_: &Asked) -> Gives {
        Gives::events(vec![Piece::Text("data: {\"jsonrpc\"".into()), Piece::Cut])
    }
    fn without_an_answer(_: &Asked) -> Gives {
        Gives::events(vec![])
    }
    fn with_an_event(_: &Asked) -> Gives {
        Gives::events(vec![Piece::Text("id: e1\ndata:\n\n".into()), Piece::Cut])
    }
    let gateway = |_: &Asked| Gives::status(504);
    // What was done may be shown at an address of its own.
    let see_other = |_: &Asked| Gives::status(303).with("location", "/done");
    // How often the server may be asked to be heard: one with a handshake once at the beginning, and
    // the newer era takes no stream up again.
    let servers = [
        (1, older(before_the_answer)),
        (0, newer(before_the_answer)),
        (1, older(in_the_answer)),
        (1, older(without_an_answer)),
        (0, newer(with_an_event)),
        (1, older(gateway)),
        (1, older(|_| Gives::status(408))),
        (1, older(see_other)),
        (1, older(|_| Gives::status(302))),
        (1, older(|_| Gives::status(202))),
    ];
    for (at, (most, server)) in servers.iter().enumerate() {
        let run = refused(call(server), 1, &[DOUBT]);
        assert_eq!(server.posted("tools/call").len(), 1, "{at}: {}", run.stderr);
        assert!(server.with_verb("GET").len() <= *most, "{at}");
    }
}

/// A call waits for what a person answered: an answer that got lost on its way is sent again.
#[test]
fn an_answer_that_the_server_did_not_take_is_sent_again() {
    let server = older(
        move |asked| match (asked.verb.as_str(), asked.method().as_str()) {
            ("POST", "tools/call") => Gives::events(vec![
                event(
                    &json!({ "jsonrpc": "2.0", "id": 9, "method": "elicitation/create",
                "params": { "message": "who?", "requestedSchema": { "type": "object",
                    "properties": { "name": { "type": "string" } } } } }),
                ),
                Piece::Pause(4000),
                event(&asked.text("done")),
            ]),
            ("POST", "") if asked.before == 0 => Gives::status(502),
            ("POST", "") => Gives::status(202),
            _ => Gives::status(405),
        },
    );
    let run = call(&server).expect(0);
    assert!(run.stdout.ends_with("result:\ndone\n"), "{}", run.stdout);
    let answers = server.posted("");
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[0].body, answers[1].body);
    assert_eq!(server.posted("tools/call").len(), 1);
}

#[test]
fn a_stream_that_cannot_be_taken_up_again_is_in_doubt() {
    let server = older(|asked| match asked.verb.as_str() {
        "POST" => Gives::events(vec![
            Piece::Text("id: e1\nretry: 50\ndata:\n\n".into()),
            Piece::Cut,
        ]),
        _ => Gives::status(400),
    });
    refused(
        call(&server),
        1,
        &[DOUBT, "cannot be taken up again (HTTP 400)"],
    );
    assert_eq!(server.posted("tools/call").len(), 1);
}

#[test]
fn server_error_details_are_reported() {
    let error = json!({ "jsonrpc": "2.0", "id": null,
        "error": { "code": -32020, "message": "Header mismatch" } });
    let server = newer(move |_| Gives::Status(400, vec![], error.to_string()));
    let run = refused(call(&server), 1, &["Header mismatch (-32020)"]);
    assert!(!run.stderr.contains(DOUBT), "{}", run.stderr);
    let server = older(|_| Gives::Status(403, vec![], "not\u{1b}[31m you".into()));
    refused(call(&server), 1, &["HTTP 403: not[31m you"]);
}

#[test]
fn a_server_that_is_busy_is_waited_for_and_not_for_ever() {
    let server = older(|asked| match asked.before {
        0 => Gives::status(429).with("retry-after", "0"),
        1 => Gives::status(503).with("retry-after", "0"),
        _ => done(asked),
    });
    call(&server).expect(0);
    assert_eq!(server.posted("tools/call").len(), 3);
    let server = older(|_| Gives::status(429).with("retry-after", "0"));
    let run = refused(call(&server), 1, &["takes no more requests (HTTP 429)"]);
    assert!(!run.stderr.contains(DOUBT), "{}", run.stderr);
    assert_eq!(server.posted("tools/call").len(), 4);
    let server = older(|_| Gives::status(429).with("retry-after", "86400"));
    refused(call(&server), 1, &["a pause of 86400 s"]);
    assert_eq!(server.posted("tools/call").len(), 1);
}

#[test]
fn a_redirect_is_followed_at_home_alone() {
    let elsewhere = McpServer::start(done);
    let to = elsewhere.url();
    let server = older(move |asked| match asked.path.as_str() {
        "/mcp" => Gives::status(308).with("location", &to),
        _ => done(asked),
    });
    let run = refused(
        call(&server),
        1,
        &["redirects (HTTP 308)", &elsewhere.url(), "hint"],
    );
    assert!(!run.stderr.contains(DOUBT), "{}", run.stderr);
    assert_eq!(elsewhere.asked().len(), 0);
    let server = older(|asked| match asked.path.as_str() {
        "/mcp" => Gives::status(307).with("location", "/moved"),
        _ => done(asked),
    });
    call(&server).expect(0);
    let server = older(|_| Gives::status(307).with("location", "/mcp"));
    refused(call(&server), 1, &["redirects (HTTP 307)"]);
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let long = "x".repeat(17 * 1024 * 1024);
    let events = long.clone();
    let server = older(move |asked| Gives::json(&asked.text(&long)));
    refused(call(&server), 1, &[DOUBT, "longer than"]);
    let server = newer(move |_| Gives::events(vec![Piece::Text(format!("data: {events}"))]));
    refused(call(&server), 1, &[DOUBT, "more than 16"]);
}

#[test]
fn a_lie_is_not_handed_on() {
    let server = older(|asked| {
        let lie = json!({ "jsonrpc": "2.0", "id": "rewake_other", "result": {} });
        let noise = Piece::Text("data: no message\n\ndata: [1,2]\n\n: hm\n\n".into());
        Gives::events(vec![noise, event(&lie), event(&asked.text("done"))])
    });
    let run = call(&server).expect(0);
    assert!(run.stdout.ends_with("result:\ndone\n"), "{}", run.stdout);
}

#[tokio::test]
async fn a_lost_server_session_is_reopened_for_unprocessed_calls() {
    let server = older(|asked| {
        let is_old = asked.header("mcp-session-id") == Some("session-0");
        match asked.tool().as_str() {
            // The server was started again in the middle of this one.
            "do" if asked.before == 0 => Gives::events(vec![
                Piece::Text(": on it\n\n".into()),
                Piece::Pause(300),
                Piece::Cut,
            ]),
            _ if is_old => Gives::status(404),
            _ => done(asked),
        }
    });
    let place = Place::new();
    let (_, connection) = place.start(&server.url()).await;
    let (first, second) = tokio::join!(called(&connection, "call_1"), async {
        until_async(|| server.posted("tools/call").len() == 1).await;
        called(&connection, "call_2").await
    });
    assert!(first.unwrap_err().is_in_doubt());
    assert_eq!(second.unwrap(), "done");
    assert_eq!(server.posted("initialize").len(), 2);
    assert_eq!(server.posted("notifications/initialized").len(), 2);
    let sessions: Vec<_> = server
        .posted("tools/call")
        .iter()
        .map(|a| a.header("mcp-session-id").map(str::to_string))
        .collect();
    let of = |n: usize| Some(format!("session-{n}"));
    assert_eq!(sessions, [of(0), of(0), of(1)]);
    end(connection).await;
}

#[test]
fn a_server_that_forgets_every_session_is_given_up() {
    let server = older(|_| Gives::status(404));
    let run = refused(call(&server), 1, &["HTTP 404"]);
    assert!(!run.stderr.contains(DOUBT), "{}", run.stderr);
    assert_eq!(server.posted("initialize").len(), 3);
}
