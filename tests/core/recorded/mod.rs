//! Short answers in the shapes that providers send, read whole, byte by byte and in pieces:
//! what is read of each, what it cost, and what the next request must hold of it.
//!
//! The bodies were written for these tests; their shapes are those of the providers that they
//! are named after.

mod costs;
mod halves;

use rewake::config::Quirks;
use rewake::core::budget::Budget;
use rewake::core::choice::Effort;
use rewake::core::entry::{Block, CallId, Entry, Mode, Outcome, Output, PromptPrefix, Record, Via};
use rewake::core::prompt::messages;
use rewake::core::request::Request;
use rewake::core::state::State;
use rewake::model::Reply;
use rewake::model::target::Target;
use rewake::model::wire::Codec;
use rewake::net::sse::Parser;
use serde_json::{Value, json};

struct Recorded {
    name: &'static str,
    codec: Codec,
    body: &'static str,
    /// Thinking, text, and the calls.
    said: [&'static str; 3],
    /// Input, cached, written to the cache, output.
    counts: [u64; 4],
    /// What the next request holds, and where.
    next: Vec<(&'static str, Value)>,
}

macro_rules! body {
    ($name:literal) => {
        ($name, include_str!(concat!("bodies/", $name, ".sse")))
    };
}

fn recorded() -> Vec<Recorded> {
    let one = |codec, (name, body), said, counts, next| Recorded {
        name,
        codec,
        body,
        said,
        counts,
        next,
    };
    let (thought, done, read) = ("Look first.", "Done.", r#"read {"path":"a"}"#);
    let chat = |at: &'static str, value: &str| (at, json!(value));
    vec![
        one(
            Codec::OpenaiChat,
            body!("openrouter-gemini"),
            ["", "", read],
            [60, 40, 0, 10],
            vec![
                chat("/messages/1/reasoning_details/0/data", "c2lnbmVkLWNhbGw="),
                chat("/messages/1/reasoning_details/0/id", "tool_read_1"),
                chat("/messages/1/tool_calls/0/id", "c00000003"),
                chat("/messages/2/tool_call_id", "c00000003"),
            ],
        ),
        one(
            Codec::OpenaiChat,
            body!("openrouter-anthropic"),
            [thought, done, ""],
            [50, 0, 0, 12],
            vec![(
                "/messages/1/reasoning_details",
                json!([{ "type": "reasoning.text", "text": thought, "format": "anthropic-claude-v1",
                         "index": 0, "signature": "c2lnbmVkLXRob3VnaHQ=" }]),
            )],
        ),
        one(
            Codec::OpenaiChat,
            body!("xai-chat"),
            [thought, done, ""],
            [1, 11, 0, 342],
            vec![chat("/messages/1/content", done)],
        ),
        one(
            Codec::OpenaiChat,
            body!("llamacpp-no-done"),
            ["", done, ""],
            [20, 0, 0, 3],
            vec![chat("/messages/1/content", done)],
        ),
        one(
            Codec::OpenaiChat,
            body!("mistral-parts"),
            [thought, done, r#"read {"path": "a"}"#],
            [30, 0, 0, 8],
            vec![chat("/messages/1/tool_calls/0/id", "c00000003")],
        ),
        one(
            Codec::Anthropic,
            body!("anthropic"),
            [thought, "", r#"read {"path": "a"}"#],
            [9, 100, 5, 20],
            vec![
                chat("/messages/1/content/0/thinking", thought),
                chat("/messages/1/content/0/signature", "c2lnbmVkLXRob3VnaHQ="),
                chat("/messages/1/content/1/id", "c00000003"),
                chat("/messages/2/content/0/tool_use_id", "c00000003"),
            ],
        ),
        one(
            Codec::OpenaiResponses,
            body!("openai-responses"),
            ["", done, ""],
            [100, 15, 43, 32],
            vec![
                chat("/input/1/encrypted_content", "c2VhbGVk"),
                chat("/input/2/content", done),
            ],
        ),
        one(
            Codec::OpenaiResponses,
            body!("openrouter-responses"),
            ["", done, ""],
            [17, 0, 0, 9],
            vec![
                chat("/input/1/encrypted_content", "c2VhbGVk"),
                chat("/input/1/format", "google-gemini-v1"),
                chat("/input/2/content", done),
            ],
        ),
        one(
            Codec::Gemini,
            body!("gemini"),
            [thought, "", read],
            [60, 0, 0, 12],
            vec![
                chat("/contents/1/parts/0/functionCall/id", "96c1su3s"),
                chat("/contents/1/parts/0/thoughtSignature", "c2lnbmVkLWNhbGw="),
                chat("/contents/2/parts/0/functionResponse/id", "96c1su3s"),
            ],
        ),
    ]
}

/// The answer, read from these pieces of its body.
fn read<'a>(codec: Codec, pieces: impl Iterator<Item = &'a [u8]>) -> Reply {
    let (mut parser, mut decoder) = (Parser::new(), codec.decoder());
    for piece in pieces {
        for event in parser.feed(piece).expect("an event") {
            decoder.feed(&event).expect("an event of the protocol");
        }
    }
    decoder.finish().expect("a whole answer")
}

#[test]
fn an_answer_is_read_however_it_is_cut() {
    for one in recorded() {
        let reply = read(one.codec, std::iter::once(one.body.as_bytes()));
        for size in [1, 7, 60] {
            let cut = read(one.codec, one.body.as_bytes().chunks(size));
            assert_eq!(cut, reply, "{} in pieces of {size}", one.name);
        }
        let [mut thought, mut text, mut calls] = [const { String::new() }; 3];
        for block in &reply.blocks {
            match block {
                Block::Thinking { text, .. } => thought += text,
                Block::Text { text: piece, .. } => text += piece,
                Block::Call {
                    name, arguments, ..
                } => calls += &format!("{name} {arguments}"),
            }
        }
        assert_eq!(
            [&thought, &text, &calls],
            one.said.each_ref(),
            "{}",
            one.name
        );
        let usage = reply.usage;
        let counts = [usage.input, usage.cached, usage.cache_written, usage.output];
        assert_eq!(counts, one.counts, "{}", one.name);
    }
}

/// The request that follows an answer, after its calls were done.
fn next_request(one: &Recorded, model: &str) -> Value {
    let reply = read(one.codec, std::iter::once(one.body.as_bytes()));
    let calls = reply
        .blocks
        .iter()
        .filter(|b| matches!(b, Block::Call { .. }));
    let done = (0..calls.count() as u32).map(|index| Entry::Finished {
        call: CallId { reply: 2, index },
        outcome: Outcome::Done {
            output: Output {
                text: "done".into(),
                ..Output::default()
            },
        },
        fact: None,
        tree: None,
    });
    let said = |text: &str| Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    let entries = [
        Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: model.into(),
            mode: Mode::Default,
            layers: PromptPrefix::default(),
            imported: None,
        },
        said("hi"),
        Entry::Replied {
            blocks: reply.blocks,
            usage: reply.usage,
            stop: reply.stop,
            model: "p/m".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        },
    ];
    let entries = entries.into_iter().chain(done).chain([said("go on")]);
    let records = entries.zip(0..).map(|(entry, seq)| Record {
        seq,
        at_ms: 0,
        entry,
    });
    let state = State::of(rewake::tools::describe, &records.collect::<Vec<_>>()).expect("a log");
    let request = Request {
        model: model.into(),
        system: String::new(),
        tools: vec![],
        instructions: String::new(),
        messages: messages(
            &state,
            Budget::new(100_000, 1_000, None).inline_bytes(10_000),
        ),
        max_tokens: 1_000,
        effort: Effort::Default,
        temperature: None,
        answers: 0,
        has_answered: false,
        schema: None,
    };
    let target = Target {
        model: "m",
        stream: true,
        thinking_budget: None,
        quirks: &Quirks::NONE,
    };
    one.codec.body(&request, &target, &|_| None)
}

#[test]
fn the_next_request_contains_what_a_provider_requires() {
    for one in recorded() {
        let body = next_request(&one, "p/m");
        for (at, want) in &one.next {
            assert_eq!(body.pointer(at), Some(want), "{}: {at} in {body}", one.name);
        }
    }
}

/// Signatures and ids mean nothing to another model.
#[test]
fn another_model_gets_nothing_of_it() {
    for one in recorded() {
        let body = next_request(&one, "p/another").to_string();
        for sealed in ["c2lnbm", "c2VhbGVk", "96c1su3s", "reasoning_details"] {
            assert!(!body.contains(sealed), "{}: {body}", one.name);
        }
    }
}
