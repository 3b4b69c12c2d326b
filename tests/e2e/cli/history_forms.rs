//! Servers that refuse the history as it is: the session continues in a form that they take, also
//! after a kill, and later sessions begin so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::cli::{LIMIT, streamed};
use support::{Answer, Home, Live, Options, Protocol, Says, Seen, Server};

/// A server that refuses a part of the history, and its words.
struct Strict {
    protocol: Protocol,
    words: &'static str,
    refuses: fn(&Value) -> bool,
    /// The form that it is given.
    form: &'static str,
}

fn messages(body: &Value) -> Vec<Value> {
    body["messages"].as_array().cloned().unwrap_or_default()
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

fn has_words_after_results(body: &Value) -> bool {
    let all = messages(body);
    let pairs = all.windows(2);
    pairs
        .into_iter()
        .any(|pair| role(&pair[0]) == "tool" && role(&pair[1]) == "user")
}

fn has_two_calls(body: &Value) -> bool {
    let calls = |m: &Value| m["tool_calls"].as_array().map_or(0, Vec::len);
    messages(body).iter().any(|m| calls(m) > 1)
}

fn lacks_reasoning(body: &Value) -> bool {
    let lacks = |m: &Value| role(m) == "assistant" && m["reasoning_content"].is_null();
    messages(body).iter().any(lacks)
}

fn has_calls(body: &Value) -> bool {
    messages(body).iter().any(|m| role(m) == "tool")
}

const STRICT: [Strict; 4] = [
    Strict {
        protocol: Protocol::Chat,
        words: "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
        refuses: has_words_after_results,
        form: "with notes inside results",
    },
    Strict {
        protocol: Protocol::Chat,
        words: "This model only supports single tool-calls at once! at row 66, column 77",
        refuses: has_two_calls,
        form: "with one call in each answer",
    },
    Strict {
        protocol: Protocol::Chat,
        words: "The `reasoning_content` in the thinking mode must be passed back to the API.",
        refuses: lacks_reasoning,
        form: "with the reasoning of each answer",
    },
    Strict {
        protocol: Protocol::Chat,
        words: "messages[2]: no tool_call is known here",
        refuses: has_calls,
        form: "with calls and results as text",
    },
];

/// Two calls, and a stop at the limit of answers, so that words follow results.
fn begin(home: &Home) {
    let run = home.run(["-p", "look", "--max-turns", "1"]);
    assert_ne!(run.code(), Some(1), "{}", run.stderr);
}

fn two_calls(seen: &Seen) -> Answer {
    let read = |name: &str| json!({ "path": name });
    match seen.turn {
        0 => Says::call("read", read("a"))
            .and_call("read", read("b"))
            .into(),
        _ => Answer::text("seen"),
    }
}

#[test]
fn a_session_goes_on_in_the_form_that_its_server_takes() {
    for strict in STRICT {
        let is_strict = Arc::new(AtomicBool::new(false));
        let hangs = Arc::new(AtomicUsize::new(0));
        let (asked, counted) = (Arc::clone(&is_strict), Arc::clone(&hangs));
        let server = Server::start(move |seen| {
            if !asked.load(Ordering::Relaxed) {
                return two_calls(seen);
            }
            if (strict.refuses)(&seen.json) {
                return Answer::error(400, strict.words);
            }
            // The agent is killed while it waits for the first that is accepted.
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => Answer::Hang,
                _ => Answer::text("went on"),
            }
        });
        let home = Home::with(&server, strict.protocol);
        for name in ["a", "b"] {
            std::fs::write(home.path(name), name).unwrap();
        }
        begin(&home);
        let before = server.requests().len();
        is_strict.store(true, Ordering::Relaxed);
        let args = ["-p", "-c", "and now?", "--output-format", "stream-json"];
        let mut live = Live::spawn(home.rewake(args));
        live.wait_for(LIMIT, |line| line.contains("context.reformed"));
        while hangs.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        live.kill();
        live.wait(LIMIT);
        let run = streamed(&home, &["-p", "-c"]).expect(0);
        assert_eq!(
            run.events().pop().unwrap()["result"],
            "went on",
            "{}",
            strict.words
        );
        home.run(["-p", "-c", "again"]).expect(0);
        let requests = server.requests();
        let statuses: Vec<u16> = requests[before..].iter().map(|r| r.status).collect();
        assert_eq!(statuses[0], 400, "{}", strict.words);
        let refused = statuses.iter().filter(|status| **status == 400).count();
        assert_eq!(refused, 1, "{}: {statuses:?}", strict.words);
        // The kill changes nothing.
        assert_eq!(requests[before + 1].body, requests[before + 2].body);
        let session = run.events()[0]["session"].as_str().unwrap().to_string();
        let shown = home.run(["show", &session]).expect(0).stdout;
        let said = format!(
            "refused the history; it is sent {} from here on",
            strict.form
        );
        assert!(shown.contains(&said), "{shown}");
        server.assert_no_violations();
    }
}

/// The texts of the exceptions in the templates of Mistral and Llama 3.
#[test]
fn a_template_that_the_server_shows_chooses_the_form_before_a_refusal() {
    for strict in &STRICT[..2] {
        let template = format!("{{{{- raise_exception('{}') }}}}", strict.words);
        let settings = json!({ "chat_template": template });
        let options = Options {
            pages: vec![("/props", settings)],
            ..Options::default()
        };
        let refuses = strict.refuses;
        let server = Server::start_with(options, move |seen| match refuses(&seen.json) {
            true => Answer::error(400, "another template"),
            false => two_calls(seen),
        });
        let home = Home::with(&server, strict.protocol);
        for name in ["a", "b"] {
            std::fs::write(home.path(name), name).unwrap();
        }
        begin(&home);
        let run = streamed(&home, &["-p", "-c", "and now?"]).expect(0);
        let statuses: Vec<u16> = server.requests().iter().map(|r| r.status).collect();
        assert_eq!(statuses, [200, 200], "{}", strict.words);
        let session = run.events()[0]["session"].as_str().unwrap().to_string();
        let shown = home.run(["show", &session]).expect(0).stdout;
        assert!(shown.contains(strict.form), "{shown}");
        server.assert_no_violations();
    }
}

/// After two sessions that had to learn it, the third begins so, until it is forgotten.
#[test]
fn a_form_that_was_learnt_twice_is_known_to_later_sessions() {
    let server = Server::start(|seen| match has_two_calls(&seen.json) {
        true => Answer::error(400, STRICT[1].words),
        false => two_calls(seen),
    });
    let home = Home::with(&server, Protocol::Chat);
    for name in ["a", "b"] {
        std::fs::write(home.path(name), name).unwrap();
    }
    let refused = || server.requests().iter().filter(|r| r.status == 400).count();
    for wanted in [1, 2, 2, 2] {
        home.run(["-p", "look"]).expect(0);
        assert_eq!(refused(), wanted);
    }
    let learnt = home.run(["models", "--learnt"]).expect(0).stdout;
    let line = "local/test-model  gets the history with one call in each answer: learnt 2 times";
    assert!(learnt.contains(line), "{learnt}");
    home.run(["models", "--forget", "local/test-model"])
        .expect(0);
    home.run(["models", "--forget", "local/test-model"])
        .expect(2);
    home.run(["-p", "look"]).expect(0);
    assert_eq!(refused(), 3);
}

/// A passing error of the server changes no later session.
#[test]
fn an_error_of_the_server_is_not_learnt() {
    let fails = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&fails);
    let server = Server::start(move |seen| {
        let is_second = !seen.results.is_empty();
        // All the tries of one request.
        match is_second && counted.fetch_add(1, Ordering::Relaxed) < 3 {
            true => Answer::error(500, "the chat template failed: roles must alternate"),
            false => two_calls(seen),
        }
    });
    let home = Home::new();
    home.configure(
        &server,
        Protocol::Chat,
        "[retry]\ntries = 3\nbase_ms = 1\ncap_ms = 2\n",
    );
    for name in ["a", "b"] {
        std::fs::write(home.path(name), name).unwrap();
    }
    for _ in 0..3 {
        fails.store(0, Ordering::Relaxed);
        home.run(["-p", "look"]).expect(0);
    }
    let learnt = home.run(["models", "--learnt"]).expect(0);
    assert_eq!(learnt.stdout, "");
}

#[test]
fn a_server_that_refuses_every_form_is_told_and_the_session_stays_as_it_is() {
    let is_strict = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_strict);
    let server = Server::start(move |seen| match asked.load(Ordering::Relaxed) {
        true => Answer::error(400, "Bad request"),
        false => two_calls(seen),
    });
    let home = Home::with(&server, Protocol::Chat);
    for name in ["a", "b"] {
        std::fs::write(home.path(name), name).unwrap();
    }
    home.run(["-p", "look"]).expect(0);
    is_strict.store(true, Ordering::Relaxed);
    let run = home.run(["-p", "-c", "and now?"]).expect(1);
    for words in [
        "Bad request",
        "with calls and results as text",
        "as a digest",
        "hint: continue with another model",
    ] {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    assert!(server.requests().len() < 12);
    is_strict.store(false, Ordering::Relaxed);
    let before = server.requests().len();
    home.run(["-p", "-c", "again"]).expect(0);
    let after = &server.requests()[before];
    let body: Value = serde_json::from_slice(after.body.as_ref().unwrap()).unwrap();
    assert!(has_two_calls(&body), "the history is sent as it is");
}

/// The server names its limit, or thinking uses up the answer.
#[test]
fn the_length_of_an_answer_is_learnt_and_raised_once() {
    let limit = |body: &Value| body["max_tokens"].as_u64().unwrap_or(0);
    let server = Server::start(move |seen| match limit(&seen.json) > 512 {
        true => Answer::error(
            400,
            "max_tokens: 8000 > 512, which is the maximum allowed number of output tokens",
        ),
        false => Answer::text("fine"),
    });
    let home = Home::new();
    home.configure(&server, Protocol::Chat, "");
    home.run(["-p", "hello"]).expect(0);
    home.run(["-p", "-c", "again"]).expect(0);
    let statuses: Vec<u16> = server.requests().iter().map(|r| r.status).collect();
    assert_eq!(statuses, [400, 200, 200]);

    let thinks = r#"data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":"length"}]}

data: [DONE]

"#;
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_limits = Arc::clone(&asked);
    let server = Server::start(move |seen| {
        seen_limits.lock().unwrap().push(limit(&seen.json));
        Answer::Raw {
            status: 200,
            content_type: "text/event-stream",
            body: thinks.into(),
        }
    });
    let home = Home::with(&server, Protocol::Chat);
    let run = home.run(["-p", "hello"]).expect(1);
    assert!(
        run.stderr.contains("ended at its output limit of"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("max_output"), "{}", run.stderr);
    let asked = asked.lock().unwrap().clone();
    assert!(asked.len() <= 2 && asked.is_sorted(), "{asked:?}");
}
