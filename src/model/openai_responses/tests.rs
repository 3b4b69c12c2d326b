//! Tests of OpenAI Responses.

use super::*;
use crate::config::Quirks;
use crate::core::entry::FailureClass;
use crate::model::test_samples::{
    bytes, conversation, cut_everywhere, data, decode, ends_once, events, failed, reply, shown,
};
use crate::model::wire::Codec;
use proptest::prelude::*;

fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    Codec::OpenaiResponses.body(request, target, blobs)
}

fn target(model: &str) -> Target<'_> {
    Target {
        model,
        stream: true,
        thinking_budget: Some(8_000),
        quirks: &Quirks::NONE,
    }
}

fn reasoning() -> Value {
    json!({
        "type": "reasoning", "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "Look first." }],
        "encrypted_content": "gAAA",
    })
}

#[test]
fn a_request_has_everything_in_its_place() {
    let body = body(
        &conversation(Some(reasoning()), Some("commentary")),
        &target("gpt-5.5"),
        &bytes,
    );
    let says = |text: &str| {
        json!({ "type": "message", "role": "assistant",
            "content": text })
    };
    let png = json!({ "type": "input_image", "image_url": "data:image/png;base64,AQID" });
    let text = |text: &str| json!({ "type": "input_text", "text": text });
    let user =
        |content: Vec<Value>| json!({ "type": "message", "role": "user", "content": content });
    let want = json!({
        "model": "gpt-5.5",
        "instructions": "You are an agent.\n\nBe brief.",
        "input": [
            user(vec![text("What is this?"), png.clone(), text("[image not available]")]),
            reasoning(),
            says("I look."),
            { "type": "function_call", "call_id": "call_3_0", "name": "read",
              "arguments": "{\"path\":\"a.png\"}" },
            { "type": "function_call", "call_id": "call_3_1", "name": "no_such_tool", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "call_3_0", "output": [text("an image"), png] },
            { "type": "function_call_output", "call_id": "call_3_1",
              "output": "error: there is no such tool" },
            user(vec![text("And now?")]),
            says("It is a cat."),
            user(vec![text("Good."), text("Go on.")]),
        ],
        "tools": [{
            "type": "function", "name": "read", "description": "Reads a file.", "strict": false,
            "parameters": {
                "type": "object", "additionalProperties": false,
                "properties": { "path": { "type": "string" } }, "required": ["path"],
            },
        }],
        "max_output_tokens": 1000,
        "store": false,
        "stream": true,
        "include": ["reasoning.encrypted_content"],
        "reasoning": { "effort": "medium", "summary": "auto" },
    });
    assert_eq!(body, want);
}

#[test]
fn older_models_are_not_asked_for_reasoning() {
    let body = |model| body(&conversation(None, None), &target(model), &bytes);
    assert_eq!(body("gpt-4.1-mini").get("include"), None);
    assert_eq!(body("openai/gpt-4o").get("reasoning"), None);
    assert!(body("o3").get("include").is_some());
}

#[test]
fn reasoning_goes_back_only_whole_and_before_what_it_led_to() {
    let thinking = |sealed| MessagePart::Thinking {
        text: "t".into(),
        sealed,
    };
    let text = || crate::model::test_samples::text("x");
    let types = |parts: &[MessagePart]| {
        let mut input = Vec::new();
        assistant(parts, &mut input);
        input
            .iter()
            .map(|i| i["type"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let only_an_id = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": null });
    assert_eq!(
        types(&[thinking(Some(reasoning())), text()]),
        ["reasoning", "message"]
    );
    assert_eq!(types(&[text(), thinking(Some(reasoning()))]), ["message"]);
    assert_eq!(types(&[thinking(Some(only_an_id)), text()]), ["message"]);
    assert_eq!(types(&[thinking(None), text()]), ["message"]);
}

const STREAM: &str = r#"
    {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}
    {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}
    {"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
    {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Look"}
    {"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}
    {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":1,"delta":"first."}
    {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","status":null,"summary":[{"type":"summary_text","text":"Look"},{"type":"summary_text","text":"first."}],"encrypted_content":"gAAA"}}
    {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[]}}
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"I lo"}
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"ok."}
    {"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look.","annotations":[]}]}}
    {"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_a","name":"read","arguments":""}}
    {"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"call_b","name":"glob","arguments":""}}
    {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\":"}
    {"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":3,"delta":"{}"}
    {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"\"a\"}"}
    {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\":\"a\"}"}
    {"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_a","name":"read","arguments":"{\"path\":\"a\"}","status":"completed"}}
    {"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"call_b","name":"glob","arguments":"{}","status":"completed"}}
    {"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":20}}}
"#;

fn call(id: Option<&str>, name: &str, arguments: &str) -> Block {
    Block::Call {
        name: name.into(),
        arguments: arguments.into(),
        provider_id: id.map(str::to_string),
        signature: None,
    }
}

fn want() -> Vec<Block> {
    vec![
        Block::Thinking {
            text: "Look\n\nfirst.".into(),
            sealed: Some(json!({
                "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
                "summary": [
                    { "type": "summary_text", "text": "Look" },
                    { "type": "summary_text", "text": "first." },
                ],
            })),
        },
        Block::Text {
            text: "I look.".into(),
            signature: Some("commentary".into()),
        },
        call(Some("call_a"), "read", r#"{"path":"a"}"#),
        call(Some("call_b"), "glob", "{}"),
    ]
}

#[test]
fn a_stream_becomes_an_answer() {
    let (deltas, reply) = decode::<ResponsesDecoder>(&events(STREAM));
    let reply = reply.unwrap();
    assert_eq!(reply.blocks, want());
    assert_eq!(reply.stop, StopReason::ToolUse);
    let usage = reply.usage;
    assert_eq!((usage.input, usage.cached, usage.output), (40, 60, 20));
    assert_eq!(shown(&deltas), ("I look.".into(), "Look\n\nfirst.".into()));
    let begun = deltas
        .iter()
        .filter(|d| matches!(d, Delta::Call { .. }))
        .count();
    assert_eq!(begun, 2);
    cut_everywhere::<ResponsesDecoder>(STREAM, 19);
    ends_once::<ResponsesDecoder>(STREAM);
}

#[test]
fn pieces_stand_for_items_that_never_come() {
    let pieces: Vec<&str> = STREAM
        .lines()
        .filter(|line| !line.contains("output_item.done") && !line.contains("arguments.done"))
        .collect();
    let reply = reply::<ResponsesDecoder>(&pieces.join("\n"));
    let mut want = want();
    want[0] = Block::Thinking {
        text: "Look\n\nfirst.".into(),
        sealed: None,
    };
    assert_eq!(reply.blocks, want);
}

#[test]
fn items_may_come_without_pieces_or_index() {
    let lines = r#"
        {"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}
        {"type":"response.output_item.done","item":{"type":"function_call","name":"read","arguments":"{}"}}
        {"type":"response.output_item.done","item":{"type":"function_call","name":"glob","arguments":"{}"}}
        {"type":"response.unheard_of","x":[1]}
        {"type":"response.output_item.done","item":{"type":"web_search_call"}}
        {"type":"response.completed","response":{}}
    "#;
    let (deltas, reply) = decode::<ResponsesDecoder>(&events(lines));
    let want = [
        Block::text("Hi"),
        call(None, "read", "{}"),
        call(None, "glob", "{}"),
    ];
    assert_eq!(reply.unwrap().blocks, want);
    assert_eq!(shown(&deltas).0, "Hi");
}

#[test]
fn parts_missing_in_a_finished_item_come_from_its_deltas() {
    let lines = r#"
        {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"read"}}
        {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}
        {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call"}}
        {"type":"response.output_text.delta","output_index":0,"delta":"Hi"}
        {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}
        {"type":"response.completed"}
    "#;
    let want = [call(Some("a"), "read", "{}"), Block::text("Hi")];
    assert_eq!(reply::<ResponsesDecoder>(lines).blocks, want);
}

#[test]
fn a_whole_response_is_an_answer_too() {
    let whole = r#"{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},
        "output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}"#;
    let reply = reply::<ResponsesDecoder>(&whole.replace('\n', " "));
    assert_eq!(
        (reply.blocks, reply.stop),
        (vec![Block::text("Hi")], StopReason::MaxTokens)
    );
}

#[test]
fn errors_in_the_stream_have_their_class() {
    use FailureClass::*;
    for (line, want) in [
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}"#,
            RateLimit,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"x"}}}"#,
            TooLong,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
            Overloaded,
        ),
        (
            r#"{"type":"error","code":"server_error","message":"x"}"#,
            Overloaded,
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"x"}}"#,
            BadRequest,
        ),
        (
            r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#,
            Auth,
        ),
        ("not json", Network),
        ("null", Network),
    ] {
        assert_eq!(failed::<ResponsesDecoder>(line), want, "{line}");
    }
}

#[test]
fn tokens_written_to_the_cache_are_counted() {
    let usage = reply::<ResponsesDecoder>(r#"{"type":"response.completed","response":{"output":[],"usage":{"input_tokens":158,"input_tokens_details":{"cached_tokens":15,"cache_write_tokens":43},"output_tokens":32,"output_tokens_details":{"reasoning_tokens":10}}}}"#).usage;
    assert_eq!(
        (usage.input, usage.cached, usage.cache_written),
        (100, 15, 43)
    );
    assert_eq!(usage.output, 32);
}

/// A gateway sends the signature of another provider's model after the text that it belongs to.
/// The API refuses reasoning that is not followed by anything.
#[test]
fn reasoning_that_follows_the_text_is_sent_before_it() {
    let answer = r#"{"type":"response.completed","response":{"status":"completed","output":[
        {"type":"message","content":[{"type":"output_text","text":"Hi"}]},
        {"type":"reasoning","id":"rs_1","format":"google-gemini-v1","summary":[],"encrypted_content":"AA=="}]}}"#;
    let blocks = reply::<ResponsesDecoder>(&answer.replace('\n', " ")).blocks;
    let [Block::Text { text, .. }, Block::Thinking { sealed, .. }] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    let text = MessagePart::Text {
        text: text.clone(),
        signature: None,
    };
    let thinking = |sealed| MessagePart::Thinking {
        text: String::new(),
        sealed,
    };
    let mut input = vec![json!({ "role": "user" })];
    assistant(&[text.clone(), thinking(sealed.clone())], &mut input);
    assert_eq!(input[1]["encrypted_content"], "AA==");
    assert_eq!(input[1]["format"], "google-gemini-v1");
    assert_eq!(input[2]["content"], "Hi");
    // What OpenAI thought last belongs to words that never came.
    let mut input = Vec::new();
    let cut =
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA==" });
    assistant(&[text, thinking(Some(cut))], &mut input);
    assert_eq!(input.len(), 1);
}

proptest! {
    #[test]
    fn no_event_is_too_strange(
        types in prop::collection::vec(0usize..10, 0..12),
        junk in crate::model::test_samples::junk(),
    ) {
        const TYPES: [&str; 10] = [
            "response.output_text.delta", "response.reasoning_summary_text.delta",
            "response.reasoning_summary_part.added", "response.function_call_arguments.delta",
            "response.function_call_arguments.done", "response.output_item.added",
            "response.output_item.done", "response.completed", "response.failed", "error",
        ];
        let mut decoder = ResponsesDecoder::default();
        for (kind, junk) in types.iter().zip(junk) {
            let mut event = junk.clone();
            if let Value::Object(map) = &mut event {
                map.insert("type".into(), TYPES[*kind].into());
            }
            let _ = decoder.feed(&data(&event.to_string()));
        }
        let _ = decoder.finish();
    }
}
