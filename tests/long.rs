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

mod support;

use std::time::Duration;

use support::{Answer, Home, Live, Options, Protocol, Says, Seen, Server, run};

/// How long one run of the agent may take.
const LIMIT: Duration = Duration::from_secs(240);

/// The number of the last file that the request speaks of. The server remembers nothing, so
/// that a request which is sent again after a kill gets the same answer; and what left the
/// context must still be in the note, or the task would begin anew.
fn last_file(seen: &Seen) -> usize {
    let body = String::from_utf8_lossy(&seen.body);
    let numbers = body.match_indices("data/").filter_map(|(at, _)| {
        let rest = &body[at + 5..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        rest[digits.len()..]
            .starts_with(".txt")
            .then(|| digits.parse().ok())
            .flatten()
    });
    numbers.max().unwrap_or(0)
}

#[derive(Clone, Copy, PartialEq)]
enum Summaries {
    Work,
    Fail,
}

fn server(limit_tokens: u64, calls: usize, summaries: Summaries) -> Server {
    let options = Options {
        limit_tokens: Some(limit_tokens),
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            return match summaries {
                Summaries::Work => Answer::text(format!(
                    "Files up to data/{}.txt were read.",
                    last_file(seen)
                )),
                Summaries::Fail => Answer::error(500, "the summary model is down"),
            };
        }
        let next = last_file(seen) + 1;
        match next > calls {
            true => Answer::text("all files are read"),
            false => Answer::Says(Says::text("").and_call(
                "read",
                serde_json::json!({"path": format!("data/{next}.txt")}),
            )),
        }
    })
}

fn home(server: &Server, protocol: Protocol, calls: usize) -> Home {
    let home = Home::new();
    home.configure(
        server,
        protocol,
        "[retry]\ntries = 2\nbase_ms = 1\ncap_ms = 2\n",
    );
    std::fs::create_dir(home.path("data")).expect("a folder");
    for n in 1..=calls {
        let mut text = format!("this is file {n}\n");
        if n == 3 {
            text.push_str("the password of the vault is xylophone42\n");
        }
        while text.len() < 4_000 {
            text.push_str(&format!("line {} of file {n} says nothing\n", text.len()));
        }
        std::fs::write(home.path(format!("data/{n}.txt")), text).expect("a file");
    }
    home
}

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
fn without_a_summary_model_it_goes_on() {
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

/// Killed again and again in a window that is always full.
#[test]
fn killed_in_a_small_window_it_goes_on() {
    let calls = 60;
    let server = server(8_000, calls, Summaries::Work);
    let home = home(&server, Protocol::Chat, calls);
    let mut seed: u64 = 7;
    let mut args: Vec<&str> = vec![
        "-p",
        "read all the files in data",
        "--yolo",
        "--output-format",
        "stream-json",
    ];
    for kill in 0.. {
        assert!(kill < 200, "it never ends");
        let mut live = Live::spawn(home.rewake(&args));
        if kill < 20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(60 + (seed >> 33) % 250));
            live.kill();
        }
        let run = live.wait(LIMIT);
        match run.code() {
            Some(0) => break,
            // Killed, or held after three starts that got nowhere.
            None | Some(75) => {}
            other => panic!("exit {other:?}: {}", run.stderr),
        }
        let has_session = !home.run(["history"]).stdout.trim().is_empty();
        args = match has_session {
            true => vec!["-p", "-c", "go on", "--output-format", "stream-json"],
            false => args,
        };
    }
    server.assert_no_violations();
}
