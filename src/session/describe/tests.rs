//! Tests of the description of each kind of entry.

use super::*;
use crate::core::entry::Choice;
use crate::core::entry::Mode;
use crate::core::entry::{
    About, Failure, FailureClass, ForkPoint, Memory, MemoryKind, Output, PromptPrefix, StopReason,
    Via,
};

const CALL: CallId = CallId { reply: 3, index: 1 };

fn record(entry: Entry) -> Record {
    Record {
        seq: 3,
        at_ms: 0,
        entry,
    }
}

fn replied(blocks: Vec<Block>) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: "s/play".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    }
}

fn two_calls() -> Entry {
    replied(vec![
        Block::text(" "),
        Block::text("I look."),
        Block::call("read", r#"{"path":"a"}"#),
        Block::call("bash", r#"{"command":"make\nmake test"}"#),
    ])
}

fn finished(outcome: Outcome) -> Entry {
    Entry::Finished {
        call: CALL,
        outcome,
        fact: Some(Fact::Remembered {
            memory: Memory {
                kind: MemoryKind::Semantic,
                topic: None,
                text: "x".into(),
            },
        }),
        tree: None,
    }
}

/// Returns the line and the level of an entry that follows an answer with two calls.
fn said_of(entry: Entry) -> (String, Level) {
    let mut describer = Describer::default();
    describer.describe(&record(two_calls()));
    let record = record(entry);
    let it = describer.describe(&record);
    (it.line().into_owned(), it.level)
}

fn learned(silently: bool, images: Option<Refusal>) -> Entry {
    Entry::Learned(Learned {
        model: "a/b".into(),
        limit: 8192,
        silently,
        images,
        ..Learned::default()
    })
}

#[test]
fn every_kind_is_part_of_the_conversation_or_a_detail() {
    use Level::{Conversation, Detail};
    let layers = PromptPrefix::default;
    let decided = |verdict, by| Entry::Decided {
        at: None,
        call: CALL,
        verdict,
        by,
        access: None,
        rule: None,
        origin: None,
    };
    let failure = Failure {
        class: FailureClass::Auth,
        message: "the key is wrong".into(),
        hint: Some("set another".into()),
    };
    let compacted = |by| Entry::Compacted {
        window: 1,
        first: 1,
        last: 5,
        summary: "S".into(),
        by,
        spent: vec![],
        preface: None,
    };
    let table = [
        (
            Entry::Opened {
                folder: "/w".into(),
                version: "1".into(),
                model: "a/b".into(),
                mode: Mode::Default,
                layers: layers(),
                imported: None,
            },
            ("opened by rewake 1", Detail),
        ),
        (
            Entry::Rendered {
                version: "2".into(),
                layers: layers(),
            },
            ("resumed by rewake 2", Detail),
        ),
        (
            Entry::Said {
                text: "hello".into(),
                images: vec![],
                via: Via::Prompt,
                command: None,
                origin: None,
            },
            ("hello", Conversation),
        ),
        (two_calls(), ("answered, with 2 calls", Conversation)),
        (replied(vec![]), ("answered", Conversation)),
        (
            decided(Verdict::Allow, By::Person),
            ("bash make ␊ make test: allowed by you", Detail),
        ),
        (
            decided(
                Verdict::Deny {
                    reason: "no".into(),
                },
                By::Hook,
            ),
            ("bash make ␊ make test: denied by a hook: no", Detail),
        ),
        (
            Entry::Started {
                call: CALL,
                guard: Guard::Opaque,
                access: None,
            },
            ("bash make ␊ make test: began", Detail),
        ),
        (
            finished(Outcome::done("x")),
            ("bash make ␊ make test: done", Conversation),
        ),
        (
            finished(Outcome::Interrupted {
                output: Output::default(),
                why: "x".into(),
            }),
            ("bash make ␊ make test: interrupted", Conversation),
        ),
        (
            Entry::Stopped {
                draft: None,
                origin: None,
            },
            ("stopped by you", Conversation),
        ),
        (
            Entry::Failed {
                error: failure,
                draft: None,
            },
            ("failed: the key is wrong", Conversation),
        ),
        (
            Entry::Noted {
                text: "x".into(),
                about: Some(About::Instructions),
            },
            ("note", Conversation),
        ),
        (
            compacted(SummaryBy::Digest),
            ("entries 1 to 5 were summarised, as a digest", Conversation),
        ),
        (
            Entry::Continued {
                note: "N".into(),
                by: SummaryBy::Model,
                spent: vec![],
                story: None,
            },
            ("the context was restarted from a note", Conversation),
        ),
        (
            Entry::Saved {
                reason: SaveReason::ContextLimit,
                tree: None,
                why: None,
                clock: None,
            },
            ("saved: context nearly full", Detail),
        ),
        (
            Entry::Forked {
                from: ForkPoint {
                    session: "0197a1b2-c3d4-7000-8000-000000000000".into(),
                    seq: 12,
                },
                folder: None,
                from_replica: None,
            },
            (
                "forked from 0197a1b2-c3d4 at entry 12; files are shared",
                Conversation,
            ),
        ),
        (
            Entry::Chose(Choice {
                model: Some("a/b".into()),
                mode: Some(Mode::Plan),
                ..Choice::default()
            }),
            ("model a/b, mode: plan", Conversation),
        ),
        (
            Entry::Chose(Choice {
                without_schema: true,
                ..Choice::default()
            }),
            ("no JSON Schema applies any more", Conversation),
        ),
        (Entry::Named { title: "t".into() }, ("named t", Detail)),
        (
            learned(false, None),
            ("a/b takes at most 8192 tokens", Conversation),
        ),
        (
            Entry::Resumed {
                by: By::Start,
                found: "resumed x".into(),
                draft: None,
                unrecorded: false,
                at_work: false,
            },
            ("resumed x", Conversation),
        ),
    ];
    for (entry, (line, level)) in table {
        let kind = entry.kind();
        assert_eq!(said_of(entry), (line.to_string(), level), "{kind}");
    }
}

#[test]
fn a_learned_limit_is_described_with_its_cause() {
    let (silent, _) = said_of(learned(true, None));
    assert!(silent.contains("8192") && silent.contains("without a word"));
    let refusal = Refusal {
        why: "no eyes".into(),
        every: true,
    };
    let (refused, _) = said_of(learned(false, Some(refusal)));
    assert!(refused.contains("refused images") && refused.ends_with("no eyes"));
}

#[test]
fn a_call_of_another_answer_has_no_name() {
    let mut describer = Describer::default();
    let early = Record {
        seq: 9,
        ..record(two_calls())
    };
    describer.describe(&early);
    let of_an_unknown_answer = record(finished(Outcome::error("x")));
    let it = describer.describe(&of_an_unknown_answer);
    assert_eq!(it.line(), "a call: error");
}

#[test]
fn streamed_text_is_either_cut_or_whole() {
    let mut describer = Describer::default();
    let cut = |draft: &str| {
        record(Entry::Stopped {
            draft: Some(draft.into()),
            origin: None,
        })
    };
    assert_eq!(
        describer.describe(&cut("I was")).stream,
        Stream::Cut(Some("I was"))
    );
    assert_eq!(describer.describe(&cut(" \n")).stream, Stream::Cut(None));
    assert_eq!(
        describer.describe(&record(two_calls())).stream,
        Stream::Whole
    );
    let compacted = record(Entry::Named { title: "t".into() });
    assert_eq!(describer.describe(&compacted).stream, Stream::GoesOn);
}

#[test]
fn an_answer_to_the_model_names_only_what_the_person_gave() {
    use crate::core::form::{Choice, FieldKind};
    let field = |name: &str, title: &str, kind| Field {
        name: name.into(),
        title: title.into(),
        description: String::new(),
        is_required: false,
        kind,
        default: None,
    };
    let choices = vec![Choice {
        value: "red".into(),
        label: "red".into(),
    }];
    let text = FieldKind::Text {
        min_chars: None,
        max_chars: None,
        format: None,
    };
    let question = ServerQuestion {
        server: String::new(),
        key: "ask_user".into(),
        message: "Which colour?".into(),
        wanted: RequestedAnswer::Form {
            fields: vec![
                field("q1", "Colour", FieldKind::OneOf { choices }),
                field("q1_other", "or in your own words", text),
            ],
        },
    };
    let call = CallId { reply: 1, index: 0 };
    for (picked, own, want) in [
        ("red", "", "Colour: red"),
        ("", "blue", "in your own words: blue"),
        ("red", "dark", "Colour: red; in your own words: dark"),
    ] {
        let values = [("q1", picked), ("q1_other", own)];
        let values = values.map(|(name, value)| (name.to_string(), Value::from(value)));
        let answer = FormAnswer::Accept {
            values: values.into_iter().collect(),
        };
        let line = answered(Some(&question), call, &answer, "by you");
        let asked = "the agent asked: Which colour? · answered by you: ";
        assert_eq!(line, format!("{asked}{want}"));
    }
    let mut two = question;
    two.message = "1. Which colour?\n2. Which parts?".into();
    let RequestedAnswer::Form { fields } = &mut two.wanted else {
        panic!("no form");
    };
    let choices = vec![];
    let (min, max) = (None, None);
    let kind = FieldKind::SomeOf { choices, min, max };
    fields.push(field("q2", "Parts", kind));
    let values = [
        ("q1".to_string(), Value::from("red")),
        ("q2".to_string(), Value::from(vec!["lid", "base"])),
    ];
    let answer = FormAnswer::Accept {
        values: values.into_iter().collect(),
    };
    assert_eq!(
        answered(Some(&two), call, &answer, "by you"),
        "the agent asked 2 questions · answered by you: Colour: red; Parts: lid, base"
    );
}
