//! Half a character at the end of an event, and the other half in the next one or nowhere: each protocol
//! gives the whole character, or U+FFFD in text. Arguments with half a character are no JSON.

use rewake::core::entry::Block;
use rewake::model::Delta;
use rewake::model::wire::Codec;
use rewake::net::sse::Event;
use serde_json::Value;

const CHAT_TEXT: &str = r#"{"choices":[{"index":0,"delta":{"content":"PIECE"}}]}"#;
const CHAT_CALL: &str = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"NAME","arguments":"PIECE"}}]}}]}"#;
const BLOCK_TEXT: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"PIECE"}}"#;
const BLOCK_CALL: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"PIECE"}}"#;
const PART_TEXT: &str = r#"{"candidates":[{"content":{"parts":[{"text":"PIECE"}]}}]}"#;

/// The first event of an answer, an event with a piece, and the last event. A piece of a call is in
/// the quotes of its arguments.
fn protocols() -> Vec<(Codec, &'static str, &'static str, &'static str, bool)> {
    let chat_end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let block_end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let gemini_end = r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#;
    let text =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"write","input":{}}}"#;
    vec![
        (Codec::OpenaiChat, "", CHAT_TEXT, chat_end, false),
        (Codec::OpenaiChat, "", CHAT_CALL, chat_end, true),
        (Codec::Anthropic, text, BLOCK_TEXT, block_end, false),
        (Codec::Anthropic, call, BLOCK_CALL, block_end, true),
        (Codec::Gemini, "", PART_TEXT, gemini_end, false),
    ]
}

/// The text or the arguments of an answer in these pieces, and what was shown.
fn read(pieces: &[&str], of: &(Codec, &str, &str, &str, bool)) -> (String, String) {
    let (codec, start, piece, end, _) = *of;
    let mut decoder = codec.decoder();
    let mut shown = String::new();
    let inner = pieces.iter().enumerate().map(|(at, text)| {
        let name = if at == 0 { "write" } else { "" };
        piece.replace("PIECE", text).replace("NAME", name)
    });
    let all = [start.to_string()]
        .into_iter()
        .chain(inner)
        .chain([end.to_string()]);
    for data in all.filter(|data| !data.is_empty()) {
        let event = Event {
            event: String::new(),
            data,
        };
        for delta in decoder.feed(&event).expect("an event of the protocol") {
            if let Delta::Text(text) = delta {
                shown += &text;
            }
        }
    }
    let reply = decoder.finish().expect("a whole answer");
    let texts = reply.blocks.iter().map(|block| match block {
        Block::Text { text, .. } => text.clone(),
        Block::Call { arguments, .. } => arguments.clone(),
        Block::Thinking { .. } => String::new(),
    });
    (texts.collect(), shown)
}

#[test]
fn halves_in_two_events_are_one_character() {
    for of in protocols() {
        let is_call = of.4;
        let (whole, shown) = match is_call {
            true => read(&[r#"{\"a\":\"x \ud83d"#, r#"\ude00 y\"}"#], &of),
            false => read(&[r"x \ud83d", r"\ude00 y"], &of),
        };
        if is_call {
            let arguments: Value = serde_json::from_str(&whole).unwrap();
            assert_eq!(arguments["a"], "x \u{1f600} y", "{of:?}");
        } else {
            assert_eq!([whole, shown], ["x \u{1f600} y"; 2], "{of:?}");
        }
    }
}

#[test]
fn half_a_character_alone_is_no_character() {
    for of in protocols() {
        for half in [r"\ud83d", r"\ude00", r"\ud83d \ude00"] {
            if of.4 {
                let (arguments, _) = read(&[r#"{\"a\":\"x "#, half, r#" y\"}"#], &of);
                assert!(serde_json::from_str::<Value>(&arguments).is_err(), "{of:?}");
                continue;
            }
            let (whole, shown) = read(&["x ", half, " y"], &of);
            let read = half
                .replace(r"\ud83d", "\u{fffd}")
                .replace(r"\ude00", "\u{fffd}");
            assert_eq!(
                [whole, shown],
                [format!("x {read} y"), format!("x {read} y")]
            );
        }
    }
}

/// The characters that mark halves are text in an answer that has none.
#[test]
fn an_answer_without_halves_stays_as_it_is() {
    for of in protocols().into_iter().filter(|of| !of.4) {
        let text = "\u{10f83d}\u{10fe00} \u{fffd}";
        let (whole, shown) = read(&[text, r"\ud83d\ude00"], &of);
        assert_eq!(
            [whole, shown],
            [format!("{text}\u{1f600}"), format!("{text}\u{1f600}")]
        );
    }
}
