//! Answers that break off are billed by the provider: they count towards the cost of the session.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::cli::served::until;
use crate::cli::{entries, newest};
use support::{Answer, Home, Protocol, Run, Says, Server, Terminal, Tokens};

/// 0.30 US dollars for the prompt of each request, and fast retries.
const CONFIG: &str = "[models.\"local/test-model\"]\ncontext_window = 200000\nmax_output = 8000\n\
    input_price = 3.0\noutput_price = 15.0\n[retry]\nbase_ms = 20\ncap_ms = 50\n";

const PROMPT: Tokens = Tokens {
    input: 100_000,
    cached: 0,
    cache_written: 0,
    output: 4,
};

/// Bytes after which an answer is cut: within its text, long before its end.
const CUT: usize = 4_000;

/// A server whose first answers break off.
fn breaking(broken: usize) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |_| {
        let says = Says {
            tokens: Some(PROMPT),
            ..Says::text("a word ".repeat(1_000))
        };
        if asked.fetch_add(1, Ordering::Relaxed) < broken {
            return Answer::Cut {
                says,
                after_bytes: CUT,
            };
        }
        says.into()
    })
}

fn home(server: &Server, protocol: Protocol) -> Home {
    let home = Home::new();
    home.configure(server, protocol, CONFIG);
    home
}

fn result(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).expect("one JSON object")
}

#[test]
fn a_limit_of_cost_ends_the_tries_of_an_answer_that_breaks_off() {
    for protocol in Protocol::ALL {
        let server = breaking(usize::MAX);
        let home = home(&server, protocol);
        let args = ["-p", "hello", "--max-usd", "0.5", "--output-format", "json"];
        let run = home.run(args).expect(75);
        let billed = entries(&home, &newest(&home), "billed");
        // Only some protocols name the tokens of the prompt before the end. Others are estimated,
        // and a short prompt costs next to nothing.
        let named = matches!(protocol, Protocol::Anthropic | Protocol::Gemini);
        let cost = result(&run)["cost_usd"].as_f64().unwrap();
        assert_eq!(billed.len(), server.requests().len(), "{protocol:?}");
        assert!(cost > 0.0, "{protocol:?} {run:?}");
        if named {
            assert_eq!(billed.len(), 2, "{protocol:?} {run:?}");
            assert!((0.6..0.7).contains(&cost), "{protocol:?} {cost}");
            // The limit applies to the session, also when it is started again.
            home.run(["-p", "-c", "more"]).expect(75);
            assert_eq!(server.requests().len(), 2);
        }
    }
}

#[test]
fn a_broken_answer_is_in_the_usage_of_the_run_and_in_stats() {
    for protocol in Protocol::ALL {
        let server = breaking(1);
        let home = home(&server, protocol);
        let run = home
            .run(["-p", "hello", "--output-format", "json"])
            .expect(0);
        let billed = entries(&home, &newest(&home), "billed");
        let [billed] = &billed[..] else {
            panic!("{protocol:?} {billed:?}");
        };
        let usage = &billed["usage"];
        assert!(
            usage["input"].as_u64().unwrap() > 500,
            "{protocol:?} {usage}"
        );
        assert!(
            usage["output"].as_u64().unwrap() > 100,
            "{protocol:?} {usage}"
        );
        let stats: Value =
            serde_json::from_str(&home.run(["stats", "--json"]).expect(0).stdout).unwrap();
        let all = PROMPT.input + usage["input"].as_u64().unwrap();
        assert_eq!(stats["total"]["input"], all, "{protocol:?}");
        let spent = stats["total"]["cost_usd"].as_f64().unwrap();
        let cost = result(&run)["cost_usd"].as_f64().unwrap();
        assert!((spent - cost).abs() < 1e-9, "{spent} {cost}");
    }
}

/// Leaving records the try that breaks off, and not the answer before it once more.
#[test]
fn a_whole_answer_is_not_billed_again_when_the_user_leaves() {
    for protocol in Protocol::ALL {
        let server = Server::start(|_| {
            let text = Says::text("all is well");
            let tokens = Some(PROMPT);
            Says { tokens, ..text }.into()
        });
        let home = home(&server, protocol);
        let mut terminal = Terminal::start(&home, &["hello"]);
        terminal.sees("all is well");
        until(|| entries(&home, &newest(&home), "replied").len() == 1);
        terminal.types("\x04");
        terminal.ends();
        let id = newest(&home);
        assert_eq!(entries(&home, &id, "replied").len(), 1);
        assert_eq!(
            entries(&home, &id, "billed"),
            [] as [Value; 0],
            "{protocol:?}"
        );
    }
}
