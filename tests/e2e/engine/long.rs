//! Long tasks in small windows, with the real binary: a server that refuses what is too long
//! in each protocol's own words, hundreds of results of 4 KB each, a summary model that
//! works or fails, and kills. No text may say that a new session is to be started.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by panicking"
)]

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scenes::long::*;
use support::{Answer, Asked, Home, Live, Options, PrefixRow, Protocol, Says, Seen, Server, run};

struct Figures {
    requests: usize,
    refused: usize,
    events: Vec<serde_json::Value>,
}

fn finish(server: &Server, home: &Home, calls: usize) -> Figures {
    let args = [
        "-p",
        "read all the files in data, one after the other",
        "--yolo",
        "--output-format",
        "stream-json",
    ];
    let done = run(home.rewake(args), LIMIT);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    server.assert_no_violations();
    let events = done.events();
    let finished = events
        .iter()
        .filter(|e| e["type"] == "entry.finished")
        .count();
    assert_eq!(finished, calls, "every file is read once");
    assert!(
        !done.stderr.to_lowercase().contains("new session"),
        "{}",
        done.stderr
    );
    let result = events.last().expect("a result");
    assert_eq!(result["result"], "all files are read");
    let log = server.requests();
    Figures {
        requests: log.len(),
        refused: log.iter().filter(|r| r.too_long).count(),
        events,
    }
}

fn count(figures: &Figures, what: &str) -> usize {
    figures.events.iter().filter(|e| e["type"] == what).count()
}

fn all_windows(protocol: Protocol) {
    for (limit, calls) in [(32_000, 300), (8_000, 300), (4_000, 300)] {
        let server = server(limit, calls, Summaries::Work);
        let home = home(&server, protocol, calls);
        let figures = finish(&server, &home, calls);
        let (closed, continued) = (
            count(&figures, "context.closed"),
            count(&figures, "context.continued"),
        );
        eprintln!(
            "{} {limit}: {} requests, {} refused, {closed} closings, {continued} continuations",
            protocol.name(),
            figures.requests,
            figures.refused
        );
        assert!(
            closed + continued > 3,
            "the window was full again and again"
        );
        assert!(
            continued * 20 < calls,
            "{continued} times in {calls} calls the context began again"
        );
        assert!(
            figures.refused < 12,
            "{} requests were too long",
            figures.refused
        );
    }
}

#[test]
fn anthropic_in_small_windows() {
    all_windows(Protocol::Anthropic);
}

#[test]
fn chat_in_small_windows() {
    all_windows(Protocol::Chat);
}

#[test]
fn responses_in_small_windows() {
    all_windows(Protocol::Responses);
}

#[test]
fn gemini_in_small_windows() {
    all_windows(Protocol::Gemini);
}

/// All that the folder says to the model takes its share, and there is still room to work.
#[test]
fn with_instructions_and_skills_it_works_in_the_smallest_window() {
    let calls = 100;
    let server = server(4_000, calls, Summaries::Work);
    let home = home(&server, Protocol::Anthropic, calls);
    std::fs::write(home.path("AGENTS.md"), "Mind the gap.\n".repeat(1_000)).expect("a file");
    for n in 0..9 {
        let folder = home.path(format!(".rewake/skills/s{n}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = format!(
            "---\nname: s{n}\ndescription: {}\n---\n\nx\n",
            "words ".repeat(50)
        );
        std::fs::write(folder.join("SKILL.md"), text).expect("a file");
    }
    let figures = finish(&server, &home, calls);
    let (closed, continued) = (
        count(&figures, "context.closed"),
        count(&figures, "context.continued"),
    );
    eprintln!(
        "with instructions: {} requests, {} refused, {closed} closings, {continued} continuations",
        figures.requests, figures.refused
    );
    assert!(continued * 5 < calls, "{continued} continuations");
}

#[test]
fn a_session_completes_without_a_summary_model() {
    for limit in [32_000, 4_000] {
        let server = server(limit, 100, Summaries::Fail);
        let home = home(&server, Protocol::Anthropic, 100);
        let figures = finish(&server, &home, 100);
        let by = |e: &&serde_json::Value| e["type"] == "entry.closed" && e["by"] == "digest";
        let digests = figures.events.iter().filter(by).count();
        eprintln!(
            "no summaries {limit}: {} requests, {digests} digests, {} continuations",
            figures.requests,
            count(&figures, "context.continued")
        );
        assert!(
            digests + count(&figures, "context.continued") > 0,
            "{limit}"
        );
    }
}

/// When all is read, the model asks for what stood in the third file, and reads on to its end.
fn searching_server(limit_tokens: u64, calls: usize) -> Server {
    let options = Options {
        limit_tokens: Some(limit_tokens),
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            return Answer::text(format!("Read up to data/{}.txt.", last_file(seen)));
        }
        let call = |tool: &str, arguments| Answer::Says(Says::text("").and_call(tool, arguments));
        let next = last_file(seen) + 1;
        if next <= calls {
            return call(
                "read",
                serde_json::json!({"path": format!("data/{next}.txt")}),
            );
        }
        let result = seen.last_result();
        if let Some((_, on)) = result.rsplit_once("read on with address ") {
            let (address, offset) = on
                .trim_end_matches(']')
                .rsplit_once(", offset ")
                .expect("an offset");
            let offset: u64 = offset.parse().expect("a number");
            return call(
                "memory_page",
                serde_json::json!({"address": address, "offset": offset}),
            );
        }
        match result.split_once(" · printed · ") {
            Some((address, _)) => call("memory_page", serde_json::json!({"address": address})),
            None if result.contains("result of call") || result.contains("of file 3") => {
                Answer::text("all files are read")
            }
            None => call(
                "memory_search",
                serde_json::json!({"query": "what was the password of the vault?"}),
            ),
        }
    })
}

/// What left the context long ago is found by a word of it, and read whole.
fn found_again(protocol: Protocol, limit: u64, calls: usize) {
    let server = searching_server(limit, calls);
    let home = home(&server, protocol, calls);
    let args = ["-p", "read all", "--yolo", "--output-format", "stream-json"];
    let done = run(home.rewake(args), LIMIT);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    server.assert_no_violations();
    let results: Vec<String> = done
        .events()
        .iter()
        .filter(|e| e["type"] == "entry.finished")
        .map(|e| e["outcome"]["output"]["text"].to_string())
        .collect();
    let (search, pages) = results[calls..].split_first().expect("a search");
    assert!(search.contains("xylophone42"), "{search}");
    assert!(search.contains(" · printed · "), "{search}");
    let pages = pages.concat();
    let file = std::fs::read_to_string(home.path("data/3.txt")).expect("the file");
    for line in file.lines() {
        assert!(pages.contains(line), "{line:?} is not in {pages}");
    }
}

#[test]
fn a_fact_of_the_third_call_is_found_at_the_last_in_a_large_window() {
    found_again(Protocol::Anthropic, 32_000, 299);
}

#[test]
fn a_fact_of_the_third_call_is_found_at_the_last_in_a_small_window() {
    found_again(Protocol::Chat, 8_000, 299);
}

/// Requests between two changes of the context, in order; each with how much of it is the one
/// before. `events` say behind which answers the context changed.
fn cycles(events: &[serde_json::Value], asked: &[Asked]) -> Vec<Vec<Asked>> {
    let mut cycles = vec![Vec::new()];
    let mut asked = asked.iter();
    for event in events {
        match event["type"].as_str().unwrap_or_default() {
            "entry.replied" => {
                let one = *asked.next().expect("a request for each answer");
                cycles.last_mut().expect("never empty").push(one);
            }
            "entry.closed" | "entry.continued" | "entry.freed" | "entry.learned" => {
                cycles.push(Vec::new())
            }
            _ => {}
        }
    }
    assert_eq!(asked.next(), None, "each request got its answer");
    cycles.retain(|cycle| !cycle.is_empty());
    cycles
}

/// The cycles that have a request of these numbers, counted from 1.
fn cycles_of(cycles: &[Vec<Asked>], numbers: RangeInclusive<usize>) -> Vec<&Asked> {
    let mut before = 0;
    let of_numbers = cycles.iter().filter(|cycle| {
        let first = before + 1;
        before += cycle.len();
        first <= *numbers.end() && before >= *numbers.start()
    });
    let found: Vec<&Asked> = of_numbers.flatten().collect();
    assert!(!found.is_empty(), "so many requests");
    found
}

fn mean(cycle: &[&Asked]) -> f64 {
    cycle.iter().map(|one| one.tokens()).sum::<u64>() as f64 / cycle.len() as f64
}

/// Requests grow from one closing to the next, so single ones cannot be compared: what is
/// compared is the mean, and the largest, of all requests from the closing before request 80
/// to the one after request 120, with those around request 300. A single cycle is longer or shorter
/// by chance.
#[test]
fn a_long_task_costs_the_same_at_its_end() {
    for protocol in Protocol::ALL {
        // The last cycle is cut short by the end of the task.
        let calls = 330;
        let row = Arc::new(Mutex::new(PrefixRow::default()));
        let (seeing, answer) = (Arc::clone(&row), reader(calls, Summaries::Work));
        let options = Options {
            limit_tokens: Some(32_000),
            keep_bodies: false,
            ..Options::default()
        };
        let server = Server::start_with(options, move |seen: &Seen| {
            if !seen.model.contains("summary") {
                seeing.lock().unwrap().see(&seen.json);
            }
            answer(seen)
        });
        let window = "[models.\"local/test-model\"]\ncontext_window = 32000\n";
        let home = home_with(&server, protocol, calls, window);
        let figures = finish(&server, &home, calls);
        assert_eq!(figures.refused, 0);
        let cycles = cycles(&figures.events, &row.lock().unwrap().asked);

        let (early, late) = (cycles_of(&cycles, 80..=120), cycles_of(&cycles, 280..=320));
        let largest = |of: &[&Asked]| of.iter().map(|one| one.tokens()).max().unwrap_or(0) as f64;
        let change = [mean(&late) / mean(&early), largest(&late) / largest(&early)];
        // The first request of a cycle is the one that the closing changed.
        let between = cycles.iter().flat_map(|cycle| &cycle[1..]);
        let (same, all) = between.fold((0, 0), |(s, a), one| (s + one.same, a + one.former));
        let kept = same as f64 / all as f64;
        eprintln!(
            "{}: {} cycles, mean {:.0} -> {:.0} tokens, prefix kept {:.3} %",
            protocol.name(),
            cycles.len(),
            mean(&early),
            mean(&late),
            kept * 100.0
        );
        assert!(cycles.len() > 10, "the window was full again and again");
        assert!(change.iter().all(|c| (c - 1.0).abs() <= 0.1), "{change:?}");
        assert!(kept >= 0.99, "{kept}");
    }
}

/// As some local servers do: what is too long is answered, without its beginning.
#[test]
fn a_server_that_cuts_in_silence_is_found_out() {
    let (limit, calls) = (8_000, 60);
    let options = Options {
        limit_tokens: Some(limit),
        cuts_silently: true,
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, reader(calls, Summaries::Work));
    // Its window is not known: 32,000 tokens are assumed.
    let home = home(&server, Protocol::Chat, calls);
    let figures = finish(&server, &home, calls);
    let learned = figures
        .events
        .iter()
        .filter(|e| e["type"] == "entry.learned");
    let learned: Vec<&serde_json::Value> = learned.collect();
    assert_eq!(learned.len(), 1, "{learned:?}");
    let found = learned[0]["limit"].as_u64().expect("a limit");
    assert!(learned[0]["silently"] == true && (limit * 3 / 4..=limit).contains(&found));
    assert!(
        figures.refused <= 5,
        "{} requests were cut",
        figures.refused
    );
    let log = server.requests();
    let last_cut = log.iter().rposition(|r| r.too_long).expect("it was cut");
    assert!(last_cut < 20, "and no more once it is learnt: {last_cut}");

    // The next session knows it from its first request on.
    let server_of_new = server.requests().len();
    let again = home.run(["-p", "go on", "--yolo", "--output-format", "stream-json"]);
    let again = again.expect(0);
    assert!(again.events().iter().all(|e| e["type"] != "entry.learned"));
    let cut = server.requests()[server_of_new..]
        .iter()
        .any(|r| r.too_long);
    assert!(!cut, "no request of the new session is cut");
}

/// What is said at the start, before 300 calls.
const RULES: [&str; 3] = [
    "Never write to a file in data.",
    "Les fichiers doivent être lus un par un.",
    "The last answer must be: all files are read",
];

/// The rules are in every request, however small the window, while the agent is killed and the
/// summary model is down every second time. A word of an early result is found in one call.
fn rules_to_the_end(protocol: Protocol, limit: u64) {
    let calls = 300;
    let missing = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::new(Mutex::new((0, 0, 0)));
    let (seeing, counting) = (Arc::clone(&missing), Arc::clone(&asked));
    let options = Options {
        limit_tokens: Some(limit),
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen: &Seen| {
        let (requests, summaries, searches) = &mut *counting.lock().unwrap();
        if seen.model.contains("summary") {
            *summaries += 1;
            return match *summaries % 4 {
                // Two tries of one summary fail, and those of the next do not.
                1 | 2 => Answer::error(500, "the summary model is down"),
                _ => Answer::text(format!(
                    "Files up to data/{}.txt were read.",
                    last_file(seen)
                )),
            };
        }
        *requests += 1;
        let body = seen.json.to_string();
        let gone = RULES.iter().filter(|rule| !body.contains(**rule));
        let number = *requests;
        seeing
            .lock()
            .unwrap()
            .extend(gone.map(|rule| (number, *rule)));
        let call = |tool: &str, arguments| Answer::Says(Says::text("").and_call(tool, arguments));
        let next = last_file(seen) + 1;
        if next <= calls {
            let path = format!("data/{next}.txt");
            return call("read", serde_json::json!({ "path": path }));
        }
        match seen.last_result().contains("xylophone42") {
            true => Answer::text("all files are read"),
            false => {
                *searches += 1;
                call(
                    "memory_search",
                    serde_json::json!({"query": "password of the vault"}),
                )
            }
        }
    });
    let window = format!("[models.\"local/test-model\"]\ncontext_window = {limit}\n");
    let home = home_with(&server, protocol, calls, &window);
    let prompt = format!("Read all the files in data. {}", RULES.join("\n"));
    let mut args = vec!["-p", &prompt, "--yolo", "--output-format", "stream-json"];
    for start in 0.. {
        assert!(start < 60, "it never ends");
        let mut live = Live::spawn(home.rewake(&args));
        if start < 6 {
            std::thread::sleep(Duration::from_millis(150 + 70 * start));
            live.kill();
        }
        let run = live.wait(LIMIT);
        match run.code() {
            Some(0) => break,
            None | Some(75) => {}
            other => panic!("exit {other:?}: {}", run.stderr),
        }
        if !home.run(["history"]).stdout.trim().is_empty() {
            args = vec![
                "-p",
                "-c",
                "go on",
                "--yolo",
                "--output-format",
                "stream-json",
            ];
        }
    }
    server.assert_no_violations();
    let missing = missing.lock().unwrap();
    let (requests, summaries, searches) = *asked.lock().unwrap();
    eprintln!(
        "{} {limit}: {requests} requests, {summaries} asked of the summary model",
        protocol.name()
    );
    assert!(requests > calls && summaries > 2, "{requests}, {summaries}");
    assert!(missing.is_empty(), "missing from requests: {missing:?}");
    assert_eq!(searches, 1, "one search finds it");
}

#[test]
fn rules_of_the_first_message_are_in_every_request_of_a_large_window() {
    rules_to_the_end(Protocol::Anthropic, 32_000);
}

#[test]
fn rules_of_the_first_message_are_in_every_request_of_a_small_window() {
    rules_to_the_end(Protocol::Chat, 8_000);
}

#[test]
fn rules_of_the_first_message_are_in_every_request_of_the_smallest_window() {
    rules_to_the_end(Protocol::Chat, 4_000);
}

/// A summary that failed is asked for again at the next compaction; it is said each time that it
/// failed, why, and what stands in. After three in a row the summary model is left alone.
#[test]
fn a_failed_summary_is_reported_and_tried_again() {
    let asked = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&asked);
    let answer = reader(100, Summaries::Fail);
    let options = Options {
        limit_tokens: Some(8_000),
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            *counting.lock().unwrap() += 1;
        }
        answer(seen)
    });
    let window = "[models.\"local/test-model\"]\ncontext_window = 8000\n";
    let home = home_with(&server, Protocol::Anthropic, 100, window);
    let args = ["-p", "read all", "--yolo", "--output-format", "stream-json"];
    let done = run(home.rewake(args), LIMIT);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    let events = done.events();
    let failed = |e: &&serde_json::Value| e["type"] == "context.summary_failed";
    let failed: Vec<_> = events.iter().filter(failed).collect();
    assert_eq!(failed.len(), 3, "{failed:?}");
    for (place, event) in failed.iter().enumerate() {
        let why = event["why"].to_string();
        assert!(why.contains("the summary model is down"), "{event}");
        let stands_in = event["stands_in"].to_string();
        assert!(stands_in.contains("from the log"), "{event}");
        assert_eq!(event["asked_again_after_s"].is_null(), place < 2, "{event}");
    }
    let said = done.stderr.matches("the summary model failed: ").count();
    assert_eq!(said, 3, "{}", done.stderr);
    // Each is tried twice by the transport.
    assert_eq!(*asked.lock().unwrap(), 6);
}

/// The summary model has a smaller window than anybody knows: its server refuses the first request,
/// and gets a shorter one at once.
#[test]
fn a_summary_request_that_is_too_long_is_shortened_and_sent_again() {
    let refused = Arc::new(Mutex::new((0, 0)));
    let counting = Arc::clone(&refused);
    let answer = reader(40, Summaries::Work);
    let options = Options {
        limit_tokens: Some(16_000),
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            let mut counts = counting.lock().unwrap();
            if counts.0 == 0 {
                counts.0 = seen.body.len();
                return Answer::error(400, "prompt is too long: 9000 tokens > 3000 maximum");
            }
            counts.1 = seen.body.len();
        }
        answer(seen)
    });
    let window = "[models.\"local/test-model\"]\ncontext_window = 16000\n";
    let home = home_with(&server, Protocol::Anthropic, 40, window);
    let args = ["-p", "read all", "--yolo", "--output-format", "stream-json"];
    let done = run(home.rewake(args), LIMIT);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    let (refused, answered) = *refused.lock().unwrap();
    assert!(0 < answered && answered < refused, "{refused} {answered}");
    let events = done.events();
    let failed = |e: &&serde_json::Value| e["type"] == "context.summary_failed";
    assert_eq!(events.iter().filter(failed).count(), 0);
}
