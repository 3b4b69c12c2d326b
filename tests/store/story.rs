//! Sessions to tell: short ones for most tests, and one with every kind of entry.

use std::path::{Path, PathBuf};

use rewake::core::entry::Choice;
use rewake::core::entry::*;
use rewake::core::form::{
    Choice as FormChoice, Field, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion,
};
use rewake::store::{
    Batch, Head, MemoryQuery, Message, NewFork, NewSession, Scope, Store, StoreError, blob_ref,
    new_id,
};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

pub const HERE: &str = "/home/ann/project";

pub fn scratch() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

pub fn database(dir: &Path) -> PathBuf {
    dir.join("rewake.db")
}

/// The database without the store around it, to look at it and to damage it.
pub fn raw(dir: &Path) -> Connection {
    Connection::open(database(dir)).unwrap()
}

/// Words that wait in the inbox.
pub fn message(text: &str) -> Message {
    Message {
        text: text.into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    }
}

pub fn opened() -> Entry {
    Entry::Opened {
        folder: format!("{HERE}/src"),
        version: "0.1.0".into(),
        model: "anthropic/large".into(),
        mode: Mode::Default,
        layers: PromptPrefix {
            system: "You are a coding agent.".into(),
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "Reads a file.".into(),
                schema: json!({"type": "object"}),
            }],
            instructions: String::new(),
        },
        imported: None,
    }
}

pub fn said(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    }
}

pub fn session(store: &mut Store, workspace: &str) -> Head {
    let new = NewSession {
        id: new_id(),
        workspace: workspace.into(),
        folder: format!("{workspace}/src"),
    };
    store.create(&new, 1_000, opened()).unwrap().0
}

/// One to which nothing is owed.
pub fn fork(store: &mut Store, from: &str, seq: u64, at_ms: i64) -> Result<Head, StoreError> {
    let new = NewFork {
        id: new_id(),
        from: ForkPoint {
            session: from.into(),
            seq,
        },
        place: None,
        unfinished: false,
    };
    store.fork(&new, &[], &[], at_ms)
}

pub fn batch(entries: Vec<Entry>) -> Batch {
    Batch {
        at_ms: 2_000,
        entries,
        ..Batch::default()
    }
}

pub fn append(store: &mut Store, head: &mut Head, entries: Vec<Entry>) {
    store.append(head, &batch(entries)).unwrap();
}

/// A session with `n` things said behind its first entry.
pub fn talk(store: &mut Store, n: u64) -> Head {
    let mut head = session(store, HERE);
    for i in 1..=n {
        append(store, &mut head, vec![said(&format!("words {i}"))]);
    }
    head
}

pub fn said_texts(records: &[Record]) -> Vec<&str> {
    records
        .iter()
        .filter_map(|r| match &r.entry {
            Entry::Said { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

pub const BLOB: &[u8] = b"line\nline\nline\nline\nline\nline\nline\nline\nline\nline\nline\nline\n";

/// With every kind of field.
pub fn server_question() -> ServerQuestion {
    let choices = || {
        vec![FormChoice {
            value: "a".into(),
            label: "A".into(),
        }]
    };
    let field = |name: &str, kind| Field {
        name: name.into(),
        title: "T".into(),
        description: String::new(),
        is_required: true,
        kind,
        default: None,
    };
    let text = FieldKind::Text {
        min_chars: Some(1),
        max_chars: None,
        format: Some("email".into()),
    };
    let number = FieldKind::Number {
        is_integer: true,
        min: Some(0.5),
        max: None,
    };
    let some = FieldKind::SomeOf {
        choices: choices(),
        min: Some(1),
        max: None,
    };
    let one = FieldKind::OneOf { choices: choices() };
    let fields = vec![
        field("t", text),
        field("n", number),
        field("y", FieldKind::YesNo),
        field("o", one),
        field("s", some),
    ];
    ServerQuestion {
        server: "far".into(),
        key: "server/7".into(),
        message: "who are you?".into(),
        wanted: RequestedAnswer::Form { fields },
    }
}

/// Every kind of entry but `Opened` and `Forked`, which the store itself places.
pub fn all_kinds() -> Vec<Entry> {
    let call = |index| CallId { reply: 2, index };
    let finished = |index, outcome, fact| Entry::Finished {
        call: call(index),
        outcome,
        fact,
        tree: None,
    };
    vec![
        Entry::Said {
            text: "fix the parser \u{1F980}\nplease".into(),
            images: vec![Image {
                media_type: "image/png".into(),
                blob: blob_ref(BLOB),
            }],
            via: Via::Queue,
            command: None,
            origin: None,
        },
        Entry::Replied {
            blocks: vec![
                Block::Thinking {
                    text: "hm".into(),
                    sealed: Some(json!({"signature": "s"})),
                },
                Block::text("I look at it."),
                Block::call("read", r#"{"path":"a.rs"}"#),
                Block::call("bash", "not json"),
            ],
            usage: Usage {
                input: 10,
                cached: 20,
                cache_written: 30,
                output: 40,
                billed_nanos: None,
            },
            stop: StopReason::ToolUse,
            model: "openai/other".into(),
            took_ms: 1_234,
            asked_bytes: 0,
            source_usage: None,
        },
        Entry::Decided {
            at: None,
            call: call(1),
            verdict: Verdict::Deny {
                reason: "no".into(),
            },
            by: By::Person,
            access: None,
            rule: None,
            origin: None,
        },
        Entry::Asked {
            call: call(3),
            why: "it writes".into(),
            rule: Some("Bash(make:*)".into()),
            access: None,
            at: Some("/w/a.rs".into()),
            form: None,
        },
        Entry::Asked {
            call: call(2),
            why: "who are you?".into(),
            rule: None,
            access: None,
            at: None,
            form: Some(Box::new(server_question())),
        },
        Entry::Answered {
            call: call(2),
            asked: 5,
            key: "server/7".into(),
            answer: FormAnswer::Accept {
                values: Default::default(),
            },
            by: By::Person,
            origin: Some("cli".into()),
        },
        Entry::Started {
            call: call(2),
            guard: Guard::Checked {
                path: "a.rs".into(),
                before: None,
                after: "ab".into(),
            },
            access: None,
        },
        Entry::Started {
            call: call(3),
            guard: Guard::Supervised {
                run: "run-1".into(),
                boot: "b".into(),
                background: true,
            },
            access: None,
        },
        Entry::Started {
            call: call(4),
            guard: Guard::Opaque,
            access: None,
        },
        finished(
            0,
            Outcome::Done {
                output: Output {
                    // Long enough to be compressed.
                    text: "line…".repeat(400),
                    blob: Some(blob_ref(BLOB)),
                    images: vec![],
                },
            },
            Some(Fact::Seen {
                path: "a.rs".into(),
                hash: "ab".into(),
                part: None,
            }),
        ),
        finished(
            1,
            Outcome::Denied {
                reason: "no".into(),
            },
            None,
        ),
        finished(
            2,
            Outcome::done("plan kept"),
            Some(Fact::Planned {
                plan: plan("tests"),
            }),
        ),
        finished(
            3,
            Outcome::error("exit 1"),
            Some(Fact::Ran {
                exit_code: Some(1),
                took_ms: 5,
                refused: false,
            }),
        ),
        finished(
            4,
            Outcome::Interrupted {
                output: Output::text("so far"),
                why: "killed".into(),
            },
            None,
        ),
        Entry::Rendered {
            version: "0.2.0".into(),
            layers: PromptPrefix::default(),
        },
        Entry::Stopped {
            draft: Some("I was".into()),
            origin: None,
        },
        Entry::Paused {
            origin: Some("cli".into()),
        },
        Entry::Lifted { origin: None },
        Entry::Failed {
            error: Failure {
                class: FailureClass::Overloaded,
                message: "no".into(),
                hint: None,
            },
            draft: None,
        },
        Entry::Noted {
            text: "a.rs changed".into(),
            about: Some(About::BackgroundEnded {
                id: "1".into(),
                exit_code: Some(0),
                spent: Vec::new(),
                asks_model: false,
            }),
        },
        Entry::Compacted {
            window: 0,
            first: 1,
            last: 3,
            summary: "so".into(),
            by: SummaryBy::Digest,
            spent: Vec::new(),
            preface: None,
        },
        Entry::Continued {
            note: "go on".into(),
            by: SummaryBy::Digest,
            spent: Vec::new(),
            story: None,
        },
        Entry::Saved {
            reason: SaveReason::Timer,
            tree: None,
            why: None,
            clock: None,
        },
        Entry::Chose(Choice {
            model: Some("ollama/small".into()),
            mode: Some(Mode::AcceptEdits),
            ..Choice::default()
        }),
        Entry::Checked {
            answer: 2,
            unfit: Some(Unfit {
                path: "/n".into(),
                why: "want integer".into(),
            }),
            told: Some("at /n: want integer".into()),
        },
        Entry::Named {
            title: "The parser".into(),
        },
        Entry::Learned(Learned {
            model: "ollama/small".into(),
            limit: 4_096,
            ..Learned::default()
        }),
        Entry::Resumed {
            by: By::Start,
            found: "a crash".into(),
            draft: None,
            unrecorded: false,
            at_work: false,
        },
    ]
}

pub fn plan(current: &str) -> Plan {
    Plan {
        steps: vec![PlanStep {
            text: current.into(),
            state: StepState::Current,
        }],
        goals: vec![],
    }
}

pub fn planned(current: &str) -> Entry {
    Entry::Finished {
        call: CallId { reply: 1, index: 0 },
        outcome: Outcome::done("kept"),
        fact: Some(Fact::Planned {
            plan: plan(current),
        }),
        tree: None,
    }
}

pub fn remembered(text: &str) -> Entry {
    let memory = Memory {
        kind: MemoryKind::Semantic,
        topic: Some("tests".into()),
        text: text.into(),
    };
    Entry::Finished {
        call: CallId { reply: 1, index: 0 },
        outcome: Outcome::done("kept"),
        fact: Some(Fact::Remembered { memory }),
        tree: None,
    }
}

/// What a search in the memories of a workspace gives.
pub fn memories(store: &Store, workspace: &str, query: &str) -> Vec<String> {
    let sought = MemoryQuery {
        query,
        scope: Scope::Workspace(workspace),
        kinds: &["episodic", "semantic", "procedural"],
        now_ms: 10_000,
        limit: 10,
    };
    let found = store.index().memories(&sought).unwrap();
    found.into_iter().map(|m| m.text).collect()
}
