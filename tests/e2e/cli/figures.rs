//! The context as a person sees and changes it: `compact`, the figures of `show`, and what
//! summaries cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::cli::served::until;
use crate::cli::{LIMIT, newest, quiet, refused, streamed};
use support::{Answer, Home, Live, Options, Protocol, Says, Server, Tokens, prompt};

/// Of each answer, and of each summary.
const ANSWER: Tokens = tokens(10, 2);
const SUMMARY: Tokens = tokens(1_000, 100);

const fn tokens(input: u64, output: u64) -> Tokens {
    Tokens {
        input,
        cached: 0,
        cache_written: 0,
        output,
    }
}

/// A model that makes so many calls, the last of which sleeps when it is to, and a summary
/// model that works or does not.
fn server(calls: usize, sleeps: bool, summaries: bool) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |seen| {
        if seen.model.contains("summary") {
            let says = Says {
                tokens: Some(SUMMARY),
                ..Says::text("The files were looked at with printf %02000d; nothing is left to do.")
            };
            return match summaries {
                true => says.into(),
                false => Answer::error(400, "no such model"),
            };
        }
        let n = asked.fetch_add(1, Ordering::Relaxed);
        let command = match sleeps && n + 1 == calls {
            true => "sleep 5".to_string(),
            false => format!("printf %02000d {n}"),
        };
        let says = match n < calls {
            true => Says::call("bash", json!({ "command": command })),
            false => Says::text("done"),
        };
        Says {
            tokens: Some(ANSWER),
            ..says
        }
        .into()
    })
}

/// The id of a session with these calls.
fn worked(home: &Home) -> String {
    home.run(["-p", "--yolo", "work"]).expect(0);
    newest(home)
}

#[test]
fn compact_summarises_all_but_the_newest_exchange() {
    let server = server(5, false, true);
    let home = Home::with(&server, Protocol::Anthropic);
    let id = worked(&home);
    let before = home.run(["show", &id]).expect(0).stdout;
    assert!(
        before.contains("window of 32000 tokens, assumed"),
        "{before}"
    );
    assert!(before.contains(", summary 0, recent "), "{before}");

    let hook = r#"{"hooks": {"PreCompact": [{"matcher": "manual", "hooks":
        [{"type": "command", "command": "cat > a && mv a compacts"}]}]}}"#;
    std::fs::write(home.rewake_home().join("hooks.json"), hook).unwrap();
    let run = home.run(["compact", &id]).expect(0);
    quiet(&run);
    assert_eq!(run.stderr, "");
    until(|| home.path("compacts").exists());
    assert!(home.read("compacts").contains(r#""trigger":"manual""#));
    let numbers: Vec<u64> = run
        .stdout
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    let [first, last, after, before] = numbers[..] else {
        panic!("{}", run.stdout);
    };
    assert!(first == 1 && last > 10, "{}", run.stdout);
    assert!(after + 2_000 < before, "{}", run.stdout);

    let shown = home.run(["show", &id]).expect(0).stdout;
    for words in [
        "1 window summarised, 0 continuations; that took 1100 tokens",
        &format!("about {after} tokens of at most "),
        &format!("(request {before} -> {after} tokens, summary "),
        "1 entry in full, 0 cached so far, 1100 tokens spent on it):",
        "nothing is left to do.",
        "tokens    1060 in, 0 cached, 0 written to the cache, 112 out",
        "0 of 1060 input tokens came from the cache, 0.0 %",
    ] {
        assert!(shown.contains(words), "{words:?} in\n{shown}");
    }

    let again = home.run(["compact", &id]).expect(0);
    assert!(again.stdout.starts_with("nothing to summarise"));
    // And the work goes on from the summary.
    home.run(["-p", "-c", "and now?"]).expect(0);
    let log = server.requests();
    let body = log.last().and_then(|l| l.body.clone()).unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains("nothing is left to do.") && !body.contains("0000000"));
    // The provider may cache up to the tools, up to the summary, and up to the end.
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let marks = |v: &serde_json::Value| v.to_string().matches("cache_control").count();
    assert_eq!((marks(&body["system"]), marks(&body["messages"])), (1, 2));
    assert_eq!(
        (marks(&messages[0]), marks(messages.last().unwrap())),
        (1, 1)
    );
    server.assert_no_violations();
}

#[test]
fn compact_makes_a_digest_when_the_summary_model_fails() {
    let server = server(5, false, false);
    let home = Home::with(&server, Protocol::Chat);
    let id = worked(&home);
    let run = home.run(["compact", &id]).expect(0);
    assert!(run.stdout.contains("were summarised"), "{}", run.stdout);
    assert!(
        run.stderr.contains("a digest from the log"),
        "{}",
        run.stderr
    );
    let shown = home.run(["show", &id]).expect(0).stdout;
    assert!(
        shown.contains("were summarised, as a digest (request "),
        "{shown}"
    );
}

/// The session's own model is asked at the end of its last request. It may continue the task all
/// the same: then it gets a transcript, and no tools.
#[test]
fn the_own_model_summarises_at_the_end_of_its_last_request() {
    for (protocol, calls) in [(Protocol::Anthropic, false), (Protocol::Chat, true)] {
        let asked = AtomicUsize::new(0);
        let server = Server::start(move |seen| {
            let body = seen.json.to_string();
            let text = "printf %02000d printed it; nothing is left to do.";
            let says = match () {
                () if body.contains("Do not continue the task") && calls => {
                    Says::call("bash", json!({ "command": "touch ran" }))
                }
                () if body.contains("Do not continue the task") => Says::text(text),
                () if body.contains("<conversation>") => Says::text(text),
                () if asked.fetch_add(1, Ordering::Relaxed) < 3 => {
                    Says::call("bash", json!({ "command": "printf %02000d 7" }))
                }
                () => Says::text("done"),
            };
            let tokens = Some(ANSWER);
            Says { tokens, ..says }.into()
        });
        let home = Home::with(&server, protocol);
        let own = ["--set", "summary_model=local/test-model"];
        home.run(["-p", "--yolo", "work"].into_iter().chain(own))
            .expect(0);
        let id = newest(&home);
        home.run(["compact", &id].into_iter().chain(own)).expect(0);
        let bodies = server.requests().into_iter().filter_map(|r| r.body.clone());
        let bodies = bodies.map(|body| serde_json::from_slice(&body).unwrap());
        let bodies: Vec<serde_json::Value> = bodies.collect();
        let here = bodies
            .iter()
            .position(|b| b.to_string().contains("Do not continue the task"));
        let here = here.expect("a summary");
        let [main, summary] = [&bodies[here - 1], &bodies[here]].map(prompt);
        let same = main
            .bytes()
            .zip(summary.bytes())
            .take_while(|(a, b)| a == b);
        // All but the brackets at the end of its last message.
        assert!(same.count() + 20 >= main.len(), "{main}\n{summary}");
        assert_eq!(bodies.len() - here, 1 + usize::from(calls));
        let last = bodies.last().unwrap();
        assert_eq!(last["tools"].is_null(), calls, "{last}");
        let shown = home.run(["show", &id]).expect(0).stdout;
        assert!(shown.contains("nothing is left to do."), "{shown}");
        // Both answers count.
        let spent = format!("that took {} tokens", 12 * (1 + usize::from(calls)));
        assert!(shown.contains(&spent), "{spent}: {shown}");
        assert!(!home.path("ran").exists());
        server.assert_no_violations();
    }
}

/// As `/props` says, all requests to llama.cpp share the memory of one window: no request is made
/// while it writes a summary.
#[test]
fn a_server_that_shares_its_memory_gets_no_request_beside_a_summary() {
    let is_writing = Arc::new(AtomicBool::new(false));
    let [beside, summaries] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let options = Options {
        pages: vec![("/props", json!({ "chat_template": "x" }))],
        ..Options::default()
    };
    let counted = (Arc::clone(&beside), Arc::clone(&summaries));
    let asked = AtomicUsize::new(0);
    let server = Server::start_with(options, move |seen| {
        let body = seen.json.to_string();
        let is_summary = ["Do not continue the task", "<conversation>"]
            .iter()
            .any(|words| body.contains(words));
        if is_summary {
            is_writing.store(true, Ordering::SeqCst);
            counted.1.fetch_add(1, Ordering::SeqCst);
            // Time for a request that is wrong.
            std::thread::sleep(Duration::from_millis(300));
            is_writing.store(false, Ordering::SeqCst);
            return Says::text("printf %02000d printed it; nothing is left to do.").into();
        }
        if is_writing.load(Ordering::SeqCst) {
            counted.0.fetch_add(1, Ordering::SeqCst);
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            n @ 0..24 => {
                let command = format!("printf %02000d {n} # {}", "why ".repeat(400));
                Says::call("bash", json!({ "command": command }))
            }
            _ => Says::text("done"),
        }
        .into()
    });
    let home = Home::new();
    let more = "[models.\"local/test-model\"]\ncontext_window = 12000\n";
    home.configure(&server, Protocol::Chat, more);
    let own = ["--set", "summary_model=local/test-model"];
    home.run(["-p", "--yolo", "work"].into_iter().chain(own))
        .expect(0);
    assert!(summaries.load(Ordering::SeqCst) > 0);
    assert_eq!(beside.load(Ordering::SeqCst), 0);
}

#[test]
fn compact_leaves_alone_what_is_in_use_or_in_the_middle_of_a_call() {
    let server = server(1, true, true);
    let home = Home::with(&server, Protocol::Anthropic);
    let args = ["-p", "--yolo", "work", "--output-format", "stream-json"];
    let mut live = Live::spawn(home.rewake(args));
    live.wait_for(LIMIT, |line| line.contains("entry.started"));
    let id = newest(&home);
    refused(home.run(["compact", &id]), 75, &["in use"]);
    live.kill();
    live.wait(LIMIT);
    refused(home.run(["compact", &id]), 75, &["bash", "rewake -p -r"]);
    refused(home.run(["compact", "ffff"]), 2, &["ffff"]);
}

#[test]
fn summary_usage_is_included_in_the_totals() {
    let server = server(60, false, true);
    let home = Home::new();
    let config = "[context]\nstrategy = \"messages\"\nkeep = 10\nmax_messages = 20\n\
                  [models.\"local/test-model\"]\ninput_price = 1000000\noutput_price = 0\n\
                  [models.\"local/test-summary\"]\ninput_price = 10000\noutput_price = 0\n";
    home.configure(&server, Protocol::Responses, config);
    let run = streamed(&home, &["-p", "--yolo", "work"]).expect(0);
    let events = run.events();
    let count = |kind: &str| events.iter().filter(|e| e["type"] == kind).count() as u64;
    let (answers, closed) = (count("entry.replied"), count("entry.closed"));
    assert!(answers == 61 && closed >= 3, "{answers}, {closed}");
    let result = events.last().unwrap();
    assert_eq!(result["usage"]["input"], answers * 10 + closed * 1_000);
    assert_eq!(result["usage"]["output"], answers * 2 + closed * 100);
    // By the price of each model: 10 and 10 dollars.
    let cost = result["cost_usd"].as_f64().unwrap();
    assert!(
        (cost - (answers * 10 + closed * 10) as f64).abs() < 0.001,
        "{cost}"
    );
}

/// What is learnt of a model's tokens in one session is used by the next from its start.
#[test]
fn the_bytes_of_a_token_are_kept_for_new_sessions() {
    // Twice as many tokens as the bytes would have without knowing the model.
    let server = Server::start(|seen| {
        let says = Says {
            tokens: Some(tokens(seen.body.len() as u64 * 2 / 3, 1)),
            ..Says::text("done")
        };
        match seen.user.as_str() {
            "first" => says.into(),
            _ => Answer::error(400, "no"),
        }
    });
    let home = Home::with(&server, Protocol::Anthropic);
    let asked = |prompt: &str| {
        home.run(["-p", prompt]);
        let shown = home.run(["show", &newest(&home)]).expect(0).stdout;
        let (_, behind) = shown.split_once("request has about ").unwrap();
        let tokens = behind.split(' ').next().and_then(|n| n.parse().ok());
        tokens.unwrap_or(0_u64)
    };
    let unknown = asked("other");
    let known = asked("first");
    let next = asked("other");
    assert!(known > unknown * 2, "{unknown}, {known}");
    assert!(next.abs_diff(known) < 200, "{known}, {next}");
}
