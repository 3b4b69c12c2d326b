//! Sessions that an older version could not go on with: what a server sent once was refused
//! ever after, by the store or by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::cli::{LIMIT, history, quiet, streamed};
use support::{Answer, Home, Live, Logged, Options, Protocol, Run, Says, Seen, Server};

/// `golden/refused.sql` is what version 0.1 left behind: in one session the server counted
/// 18,446,744,073,709,551,615 tokens, and every append behind that failed; in the other the
/// model read a file that only begins like a PNG, and the server refused every request.
const COUNTED: &str = "01a20080-7039-72b5-b0b2-c9eedaf3c8d9";
const SAW: &str = "01a20080-7447-75b9-9b6f-63162070c2bf";

/// 3 x 2 pixels.
const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00\x12\x16\xf1\x4d\x00\x00\x00\x03\x74\x45\x58\x74\x61\x00\x62\xdc\x49\xa2\x3b\x00\x00\x00\x10\x49\x44\x41\x54\x78\x9c\x63\xf8\xcf\xc0\x00\x41\x0c\x70\x16\x00\x41\xd2\x05\xfb\x87\xf0\xb9\x48\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

fn left_behind(server: &Server) -> Home {
    let home = Home::with(server, Protocol::Chat);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/refused.sql");
    let sql = std::fs::read_to_string(golden).unwrap();
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    database.execute_batch(&sql).unwrap();
    home
}

fn result(run: &Run) -> Value {
    run.events().pop().unwrap()
}

#[test]
fn a_session_with_wrong_token_counts_continues() {
    let server = Server::start(|_| Answer::text("counted"));
    let home = left_behind(&server);
    let shown = home.run(["show", COUNTED]).expect(0).stdout;
    assert!(shown.contains("tokens    0 in, 5 cached"), "{shown}");
    for _ in 0..2 {
        let run = streamed(&home, &["-p", "-r", COUNTED, "go on"]).expect(0);
        assert_eq!(result(&run)["result"], "counted");
    }
    server.assert_no_violations();
    // What is true is counted on.
    let tokens = result(&streamed(&home, &["-p", "-r", COUNTED, "again"]).expect(0));
    let input = tokens["usage"]["input"].as_u64().unwrap();
    assert!((1..100_000).contains(&input), "{tokens}");
    let exported = home.run(["export", COUNTED, "--json"]).expect(0).stdout;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let sum = &exported["session"]["usage"]["input"];
    assert!(sum.as_u64().is_some_and(|n| n < 1_000_000), "{sum}");
    assert!(
        history(&home)
            .iter()
            .any(|(id, line)| COUNTED.starts_with(id) && line.contains("done"))
    );
}

/// Every number that a server may send for one of its counts.
#[test]
fn a_server_that_counts_nonsense_breaks_no_session() {
    let body = |count: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"hello\"}},\"finish_reason\":\"stop\"}}],\
             \"usage\":{{\"prompt_tokens\":{count},\"completion_tokens\":{count}}}}}\n\ndata: [DONE]\n\n"
        )
    };
    let counts = [
        "18446744073709551615",
        "-1",
        "1.5e18",
        "\"many\"",
        "9223372036854775807",
    ];
    let server = Server::start_with(Options::default(), move |seen| Answer::Raw {
        status: 200,
        content_type: "text/event-stream",
        body: body(counts[seen.turn % counts.len()]),
    });
    let home = Home::with(&server, Protocol::Chat);
    home.run(["-p", "hi"]).expect(0);
    for _ in counts {
        home.run(["-p", "-c", "hi"]).expect(0);
    }
}

/// The smallest request is refused too: then only the server can be changed.
#[test]
fn a_window_too_small_for_any_request_is_reported_with_a_hint() {
    let words =
        "request (5288 tokens) exceeds the available context size (4096 tokens), try increasing it";
    let server = Server::start(move |_| Answer::error(400, words));
    for protocol in Protocol::ALL {
        let home = Home::with(&server, protocol);
        let run = home.run(["-p", "hi"]).expect(1);
        assert!(run.stderr.contains(words), "{}", run.stderr);
        let hint = "hint: the least that rewake has to send does not fit: give the model a larger";
        assert!(run.stderr.contains(hint), "{}", run.stderr);
    }
}

/// An image in the form of any protocol.
fn has_image(seen: &Seen) -> bool {
    let body = String::from_utf8_lossy(&seen.body);
    // The first bytes of a PNG in base64.
    body.contains("iVBORw0KGg")
}

#[test]
fn a_session_continues_when_the_server_refuses_an_image() {
    let server = Server::start(|seen| match has_image(seen) {
        true => Answer::error(400, "Could not process image"),
        false => Answer::text("i go on"),
    });
    let home = left_behind(&server);
    let run = streamed(&home, &["-p", "-r", SAW, "what is it?"]).expect(0);
    assert_eq!(result(&run)["result"], "i go on");
    let learned: Vec<Value> = of_kind(&run, "entry.learned");
    assert_eq!(
        learned[0]["images"],
        json!({"why": "Could not process image"})
    );
    assert_eq!(of_kind(&run, "context.images_refused").len(), 1);
    let shown = home.run(["show", SAW]).expect(0).stdout;
    let said = "local/test-model refused images; they are sent as text from here on";
    assert!(shown.contains(said), "{shown}");
    // Asked for once; what was sent after it is sent again.
    streamed(&home, &["-p", "-r", SAW, "and this?"]).expect(0);
    let requests = server.requests();
    let statuses: Vec<u16> = requests.iter().map(|r| r.status).collect();
    assert_eq!(statuses, [400, 200, 200]);
    let body = String::from_utf8_lossy(requests[1].body.as_ref().unwrap()).into_owned();
    let line =
        "[image/png, 23 bytes, not sent: the server refused images: Could not process image]";
    assert_eq!(body.matches(line).count(), 1, "{body}");
    assert_begins_with_the_one_before(&requests[1..]);
    server.assert_no_violations();
}

fn of_kind(run: &Run, kind: &str) -> Vec<Value> {
    let events = run.events().into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

/// Each request has what the model read in the one before as its beginning.
#[track_caller]
fn assert_begins_with_the_one_before(requests: &[Logged]) {
    for pair in requests.windows(2) {
        let [before, now] = pair else { continue };
        let prompt = |request: &Logged| {
            let body: Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
            support::prompt(&body)
        };
        let (whole, next) = (prompt(before), prompt(now));
        assert!(next.starts_with(&whole), "{next:?}\n---\n{whole:?}");
    }
}

/// What each protocol's servers say of an image, with the status they say it with.
const WORDS: [(Protocol, u16, &str); 6] = [
    (
        Protocol::Anthropic,
        400,
        "messages.2.content.0.tool_result.content.1.image.source.base64.data: Could not process image",
    ),
    (
        Protocol::Chat,
        400,
        "You uploaded an unsupported image. Please make sure your image is valid.",
    ),
    (
        Protocol::Chat,
        404,
        "No endpoints found that support image input",
    ),
    (
        Protocol::Chat,
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ),
    (
        Protocol::Responses,
        400,
        "The image data you provided does not represent a valid image.",
    ),
    (
        Protocol::Gemini,
        400,
        "Unable to process input image. Please retry or report in https://developers.example",
    ),
];

#[test]
fn images_that_are_refused_are_sent_as_text_also_after_a_kill() {
    for (protocol, status, words) in WORDS {
        let hangs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&hangs);
        let server = Server::start(move |seen| {
            if has_image(seen) {
                return Answer::error(status, words);
            }
            match seen.results.len() {
                0 => Says::call("read", json!({"path": "a.png"})).into(),
                // The agent is killed while it waits for this one.
                _ if counted.fetch_add(1, Ordering::Relaxed) == 0 => Answer::Hang,
                1 => Says::call("read", json!({"path": "b.txt"})).into(),
                _ => Answer::text("seen"),
            }
        });
        let home = Home::with(&server, protocol);
        std::fs::write(home.path("a.png"), PNG).unwrap();
        std::fs::write(home.path("b.txt"), "text").unwrap();
        let args = ["-p", "look", "--output-format", "stream-json"];
        let mut live = Live::spawn(home.rewake(args));
        live.wait_for(LIMIT, |line| line.contains("context.images_refused"));
        while hangs.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        live.kill();
        live.wait(LIMIT);

        let run = streamed(&home, &["-p", "-c"]).expect(0);
        quiet(&run);
        assert_eq!(result(&run)["result"], "seen", "{words}");
        let requests = server.requests();
        let statuses: Vec<u16> = requests.iter().map(|r| r.status).collect();
        assert_eq!(statuses, [200, status, 200, 200, 200], "{words}");
        // The kill changes nothing: the same bytes again, and then more behind them.
        assert_eq!(requests[2].body, requests[3].body, "{words}");
        assert_begins_with_the_one_before(&requests[2..]);
        let body = String::from_utf8_lossy(requests[2].body.as_ref().unwrap()).into_owned();
        assert!(
            body.contains("a.png: image/png, 3 x 2 px, 88 bytes"),
            "{body}"
        );
        assert!(body.contains("[image/png, 88 bytes, not sent: the server refused images: "));
        server.assert_no_violations();
    }
}

/// The third session knows it, and says how to try again.
#[test]
fn that_a_model_takes_no_images_is_known_after_two_sessions() {
    let server = Server::start(|seen| match (has_image(seen), seen.results.len()) {
        (true, _) => Answer::error(400, "this model does not support images"),
        (false, 0) => Says::call("read", json!({"path": "a.png"})).into(),
        _ => Answer::text("done"),
    });
    let home = Home::with(&server, Protocol::Chat);
    std::fs::write(home.path("a.png"), PNG).unwrap();
    let refused = || server.requests().iter().filter(|r| r.status == 400).count();
    let forget = "rewake models --forget local/test-model";
    for (refusals, is_known) in [(1, false), (2, false), (2, true)] {
        let run = home.run(["-p", "look"]).expect(0);
        assert_eq!(refused(), refusals, "{}", run.stderr);
        assert_eq!(run.stderr.contains(forget), is_known, "{}", run.stderr);
    }
    home.run(["models", "--forget", "local/test-model"])
        .expect(0);
    home.run(["-p", "look"]).expect(0);
    assert_eq!(refused(), 3);
}

#[test]
fn a_model_without_eyes_is_asked_once_and_a_bad_image_stops_no_later_one() {
    for (words, refusals) in [
        ("this model does not support images", 1),
        ("Could not process image", 2),
    ] {
        let server = Server::start(move |seen| match (has_image(seen), seen.results.len()) {
            (true, _) => Answer::error(400, words),
            (false, n @ 0..2) => Says::call("read", json!({"path": format!("{n}.png")})).into(),
            _ => Answer::text("done"),
        });
        let home = Home::with(&server, Protocol::Chat);
        for name in ["0.png", "1.png"] {
            std::fs::write(home.path(name), PNG).unwrap();
        }
        home.run(["-p", "look"]).expect(0);
        let refused = server.requests().iter().filter(|r| r.status == 400).count();
        assert_eq!(refused, refusals, "{words}");
    }
}

#[test]
fn another_reason_is_told_and_no_image_is_lost() {
    let server = Server::start(|seen| match seen.results.len() {
        0 => Says::call("read", json!({"path": "a.png"})).into(),
        _ => Answer::error(400, "temperature: must be 1"),
    });
    let home = Home::with(&server, Protocol::Anthropic);
    std::fs::write(home.path("a.png"), PNG).unwrap();
    let run = home.run(["-p", "look"]).expect(1);
    assert!(
        run.stderr.contains("temperature: must be 1"),
        "{}",
        run.stderr
    );
    assert_eq!(server.requests().len(), 2);
}
