//! What is kept and what left the context, as a model meets it: the real binary over several
//! sessions of a folder, and every address that is printed is one that can be read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by panicking"
)]

use std::sync::{Arc, Mutex};

use rewake::core::budget::Budget;
use rewake::core::entry::*;
use rewake::core::request::MessagePart;
use rewake::core::state::State;
use rewake::core::turn::TurnRange;
use rewake::core::{continuation, prompt, summary};
use rewake::store::{Batch, Head, NewSession, Store, new_id};
use rewake::tools;
use rewake::tools::{HistoryView, ToolResult, Work};
use serde_json::json;

use support::{Answer, Home, Protocol, Says, Seen, Server};

/// What comes back by itself is what helps: words of people and what worked. It is not said twice
/// by a digest.
#[test]
fn failed_or_refused_calls_are_not_recalled() {
    const WORDS: &str = "zanzibar calibration";
    let calls = [
        // It is longer than a line of a digest, which would have all of it.
        (
            "bash",
            json!({"command": format!("echo worked: {WORDS} {}", "of each part ".repeat(20))}),
        ),
        (
            "bash",
            json!({"command": format!("echo broke: {WORDS}; exit 3")}),
        ),
        ("read", json!({"path": format!("{WORDS} gone.txt")})),
        ("read", json!({"path": format!("{WORDS} secret.txt")})),
    ];
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&bodies);
    let server = Server::start(move |seen: &Seen| {
        if seen.model.contains("summary") {
            return Answer::error(500, "down");
        }
        let mut bodies = seeing.lock().unwrap();
        bodies.push(seen.json.to_string());
        match calls.get(bodies.len() - 1) {
            Some((tool, arguments)) => {
                Answer::Says(Says::text("").and_call(tool, arguments.clone()))
            }
            None => Answer::text("so it is"),
        }
    });
    let home = Home::new();
    let more = "[retry]\ntries = 1\n[permissions]\ndeny = [\"Read(**/*secret.txt)\"]\n";
    home.configure(&server, Protocol::Anthropic, more);
    std::fs::write(home.path(format!("{WORDS} secret.txt")), WORDS).unwrap();
    let say = |words: &str| {
        let args = ["-p", "-c", "--yolo", words];
        home.run(
            if bodies.lock().unwrap().is_empty() {
                &args[..1]
            } else {
                &args[..2]
            }
            .iter()
            .chain(&args[2..]),
        )
        .expect(0);
        bodies.lock().unwrap().last().unwrap().clone()
    };
    let compact = || {
        let listed = home.run(["history"]).expect(0).stdout;
        let id = listed.split_whitespace().next().unwrap().to_string();
        home.run(["compact", &id]).expect(0);
    };
    say("look after it");
    let before = say("wait a bit");
    for word in ["worked: zan", "broke: zan", "gone.txt", "denied"] {
        assert!(before.contains(word), "{word}: {before}");
    }
    compact();
    let body = say("what of the zanzibar calibration?");
    let (_, note) = body.split_once("Found in the log").expect("a note");
    let (note, _) = note.split_once("</note>").expect("its end");
    assert!(note.contains("worked: "), "{note}");
    for word in ["broke: ", "gone.txt", "secret", "denied"] {
        assert!(!note.contains(word), "{word}: {note}");
    }
    say("then rest");
    compact();
    let body = say("go on");
    assert!(body.contains("The summary model gave no summary"), "{body}");
    assert!(!body.contains("Found in the log"), "{body}");
    server.assert_no_violations();
}

/// A session that is built entry by entry.
struct Log {
    _folder: tempfile::TempDir,
    store: Store,
    head: Head,
    records: Vec<Record>,
}

impl Log {
    fn new() -> Log {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let opened = Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: "m".into(),
            mode: Mode::Default,
            layers: PromptPrefix::default(),
            imported: None,
        };
        let (head, first) = store.create(&new, 0, opened).unwrap();
        Log {
            _folder: folder,
            store,
            head,
            records: vec![first],
        }
    }

    fn push(&mut self, entry: Entry, blobs: Vec<Vec<u8>>) -> Seq {
        let batch = Batch {
            entries: vec![entry],
            blobs,
            ..Batch::default()
        };
        let records = self.store.append(&mut self.head, &batch).unwrap();
        self.records.extend(records);
        self.head.seq()
    }

    fn state(&self) -> State {
        State::of(rewake::tools::describe, &self.records).expect("a legal log")
    }

    /// An answer that reads a file, and its result.
    fn reads(&mut self, path: &str, prints: &str) {
        let arguments = json!({ "path": path }).to_string();
        let reply = self.push(
            Entry::Replied {
                blocks: vec![Block::text("I look"), Block::call("read", arguments)],
                usage: Usage::default(),
                stop: StopReason::ToolUse,
                model: "m".into(),
                took_ms: 0,
                asked_bytes: 0,
                source_usage: None,
            },
            vec![],
        );
        let (output, blobs) = tools::truncate_output(prints.to_string(), 4_000);
        let finished = Entry::Finished {
            call: CallId { reply, index: 0 },
            outcome: Outcome::Done { output },
            fact: Some(Fact::Seen {
                path: path.into(),
                hash: "h".into(),
                part: None,
            }),
            tree: None,
        };
        self.push(finished, blobs);
    }

    fn page(&mut self, address: &str) -> ToolResult {
        let arguments = json!({ "address": address }).to_string();
        let id = CallId { reply: 0, index: 0 };
        let Ok(Work::LookBack(look)) = tools::work(&tools::call(id, "memory_page", &arguments))
        else {
            panic!("not a tool that looks back");
        };
        let session = self.head.session().to_string();
        let mut past = HistoryView {
            store: &mut self.store,
            session: &session,
            now_ms: 0,
            room: 16_000,
        };
        tools::look_back(look, &mut past)
    }
}

/// Whatever in the text looks like an address.
fn addresses(text: &str) -> Vec<String> {
    let shapes = r"(?i)entr(?:y|ies) \d+(?:-\d+)?|blob:[0-9a-f]+|\[\d+\]";
    let shapes = regex::Regex::new(shapes).unwrap();
    shapes
        .find_iter(text)
        .map(|m| m.as_str().to_string())
        .collect()
}

fn sent(state: &State) -> String {
    let messages = prompt::messages(state, 1_000);
    let parts = messages.iter().flat_map(|m| m.parts.iter());
    let texts = parts.filter_map(|part| match part {
        MessagePart::Text { text, .. } | MessagePart::Result { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_address_that_is_printed_can_be_read() {
    let mut log = Log::new();
    let said = |text: String| Entry::Said {
        text,
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    log.push(said("fix the parser".into()), vec![]);
    log.push(said("long words ".repeat(2_000)), vec![]);
    log.reads("a.rs", &"much output\n".repeat(5_000));
    log.reads("b.rs", &"some output\n".repeat(200));
    let last = log.head.seq();
    log.reads("c.rs", "little");

    let range = TurnRange { first: 1, last };
    let mut texts = vec![
        ("what is sent", sent(&log.state()), 3),
        (
            "a digest",
            summary::digest(&log.state(), &log.records, 5_000),
            4,
        ),
        ("a placeholder", summary::placeholder(range), 1),
    ];
    log.push(
        Entry::Compacted {
            window: 1,
            first: 1,
            last,
            summary: texts[1].1.clone(),
            by: SummaryBy::Digest,
            spent: vec![],
            preface: None,
        },
        vec![],
    );
    texts.push(("a summary", sent(&log.state()), 6));
    let budget = Budget::new(16_000, 4_000, None);
    let note = continuation::note(&log.state(), &budget, None, &|_| true);
    let by = SummaryBy::Digest;
    log.push(
        Entry::Continued {
            note,
            by,
            spent: vec![],
            story: None,
        },
        vec![],
    );
    texts.push(("a note", sent(&log.state()), 6));

    for (what, text, at_least) in texts {
        let printed = addresses(&text);
        assert!(printed.len() >= at_least, "{what}: {printed:?}\n{text}");
        for address in printed {
            let ran = log.page(&address);
            let is_read = matches!(ran.outcome, Outcome::Done { .. });
            assert!(is_read, "{address:?} of {what}: {ran:?}");
        }
    }
}
