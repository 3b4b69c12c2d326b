//! Test data for the protocols: a conversation with all kinds of content, and streams.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Delta, Reply};
use crate::core::choice::Effort;
use crate::core::entry::{BlobRef, Failure, FailureClass, ToolSpec};
use crate::core::request::{Message, MessagePart, Request, Role};
use crate::net::sse::Event;

/// Returns a conversation with system prompt, instructions, images, thinking, and two parallel
/// calls with results, one of them failed. `sealed` and `signature` are the data that the tested
/// protocol stored from the answer.
pub(super) fn conversation(sealed: Option<Value>, signature: Option<&str>) -> Request {
    let message = |role, parts: Vec<MessagePart>| Message {
        role,
        parts: parts.into(),
        cache: false,
    };
    let call = |id: &str, name: &str, arguments, signature: Option<&str>| MessagePart::Call {
        id: id.into(),
        given_id: None,
        name: name.into(),
        arguments,
        signature: signature.map(str::to_string),
    };
    let result = |id: &str, name: &str, said: &str, images, is_error| MessagePart::Result {
        id: id.into(),
        given_id: None,
        name: name.into(),
        text: said.into(),
        images,
        is_error,
    };
    Request {
        model: "p/m".into(),
        system: "You are an agent.\n".into(),
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            schema: json!({
                "type": "object", "additionalProperties": false,
                "properties": { "path": { "type": "string" } }, "required": ["path"],
            }),
        }],
        instructions: "Be brief.".into(),
        messages: vec![
            message(
                Role::User,
                vec![text("What is this?"), image("png"), image("gone")],
            ),
            message(
                Role::Assistant,
                vec![
                    MessagePart::Thinking {
                        text: "Look first.".into(),
                        sealed,
                    },
                    text("I look."),
                    call("call_3_0", "read", json!({ "path": "a.png" }), signature),
                    call("call_3_1", "no such tool", json!({}), None),
                ],
            ),
            message(
                Role::User,
                vec![
                    result(
                        "call_3_0",
                        "read",
                        "an image",
                        vec![("image/png".into(), blob("png"))],
                        false,
                    ),
                    result(
                        "call_3_1",
                        "no such tool",
                        "there is no such tool",
                        vec![],
                        true,
                    ),
                    text("And now?"),
                ],
            ),
            message(Role::Assistant, vec![text("It is a cat.")]),
            message(Role::User, vec![text("Good."), text("Go on.")]),
        ],
        max_tokens: 1000,
        effort: Effort::Default,
        temperature: None,
        answers: 0,
        has_answered: false,
        schema: None,
    }
}

pub(super) fn text(text: &str) -> MessagePart {
    MessagePart::Text {
        text: text.into(),
        signature: None,
    }
}

fn image(hash: &str) -> MessagePart {
    MessagePart::Image {
        media_type: "image/png".into(),
        blob: blob(hash),
    }
}

fn blob(hash: &str) -> BlobRef {
    BlobRef {
        hash: hash.into(),
        bytes: 3,
    }
}

/// Returns the bytes of the only known image, which are `AQID` in base64.
pub(super) fn bytes(blob: &BlobRef) -> Option<Vec<u8>> {
    (blob.hash == "png").then(|| vec![1, 2, 3])
}

/// Returns an event for each line that is not empty.
pub(super) fn events(lines: &str) -> Vec<Event> {
    lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(data)
        .collect()
}

pub(super) fn data(data: &str) -> Event {
    Event {
        event: String::new(),
        data: data.into(),
    }
}

/// Common interface of the decoders.
pub(super) trait Decode: Default {
    fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure>;
    fn finish(self) -> Result<Reply, Failure>;
}

macro_rules! decode {
    ($($decoder:path),*) => {$(
        impl Decode for $decoder {
            fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
                self.feed(event)
            }
            fn finish(self) -> Result<Reply, Failure> {
                self.finish()
            }
        }
    )*};
}
decode!(
    super::openai_chat::ChatDecoder,
    super::openai_responses::ResponsesDecoder,
    super::gemini::GeminiDecoder
);

/// Returns the deltas of the events, and the answer or the failure at the end.
pub(super) fn decode<D: Decode>(events: &[Event]) -> (Vec<Delta>, Result<Reply, Failure>) {
    let mut decoder = D::default();
    let mut deltas = Vec::new();
    for event in events {
        match decoder.feed(event) {
            Ok(more) => deltas.extend(more),
            Err(failure) => return (deltas, Err(failure)),
        }
    }
    (deltas, decoder.finish())
}

pub(super) fn reply<D: Decode>(lines: &str) -> Reply {
    decode::<D>(&events(lines)).1.unwrap()
}

/// Returns the class of the failure at the end of a stream.
pub(super) fn failed<D: Decode>(lines: &str) -> FailureClass {
    decode::<D>(&events(lines)).1.unwrap_err().class
}

/// Cuts the stream after each event. Before the event that ends the answer, the result must be a
/// network failure. After a later one, it must be the complete answer.
pub(super) fn cut_everywhere<D: Decode>(lines: &str, end: usize) {
    let events = events(lines);
    let whole = decode::<D>(&events).1.unwrap();
    for kept in 0..events.len() {
        match decode::<D>(&events[..kept]).1 {
            Err(failure) => assert_eq!((failure.class, kept <= end), (FailureClass::Network, true)),
            Ok(reply) => assert_eq!((reply.blocks == whole.blocks, kept > end), (true, true)),
        }
    }
}

/// Returns events that some servers and gateways send after the end, in every protocol.
pub(super) fn tails() -> Vec<Event> {
    let ping = Event {
        event: "ping".into(),
        data: r#"{"type":"ping"}"#.into(),
    };
    let named = Event {
        event: "data".into(),
        data: "[DONE]".into(),
    };
    vec![data("[DONE]"), named, data(""), ping, data("no JSON")]
}

/// Checks that the answer of a stream stays the same if any of them follows its end.
pub(super) fn ends_once<D: Decode>(lines: &str) {
    let events = events(lines);
    let want = decode::<D>(&events).1.unwrap();
    for tail in tails() {
        let more = [&events[..], &[tail.clone(), tail.clone()]].concat();
        assert_eq!(decode::<D>(&more).1.as_ref(), Ok(&want), "{tail:?}");
    }
}

/// Returns the shown text and the shown thinking.
pub(super) fn shown(deltas: &[Delta]) -> (String, String) {
    let mut out = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => out.0.push_str(text),
            Delta::Thinking(text) => out.1.push_str(text),
            Delta::Call { .. } | Delta::Usage(_) | Delta::Retry { .. } => {}
        }
    }
    out
}

/// Returns JSON of any shape, built from the keys of the protocols.
pub(super) fn junk() -> impl Strategy<Value = Vec<Value>> {
    const KEYS: [&str; 24] = [
        "args",
        "arguments",
        "call_id",
        "code",
        "content",
        "delta",
        "encrypted_content",
        "error",
        "finishReason",
        "finish_reason",
        "function",
        "functionCall",
        "id",
        "index",
        "item",
        "name",
        "output_index",
        "parts",
        "response",
        "summary",
        "text",
        "thought",
        "thoughtSignature",
        "type",
    ];
    let word = prop_oneof![
        Just(""),
        Just("{}"),
        Just("{"),
        Just("message"),
        Just("reasoning"),
        Just("function_call"),
        Just("é\u{0}"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((0..KEYS.len(), inner), 0..6).prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (KEYS[key].to_string(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    });
    prop::collection::vec(value, 0..12)
}
