//! Tests of Gemini.

use std::sync::Arc;

use super::*;
use crate::config::Quirks;
use crate::model::test_samples::{
    bytes, conversation, cut_everywhere, data, decode, ends_once, events, failed, junk, reply,
    shown,
};
use crate::model::wire::Codec;
use proptest::prelude::*;

fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    Codec::Gemini.body(request, target, blobs)
}

fn target(model: &str) -> Target<'_> {
    Target {
        model,
        stream: true,
        thinking_budget: Some(100_000),
        quirks: &Quirks::NONE,
    }
}

#[test]
fn a_request_has_everything_in_its_place() {
    let png = json!({ "inlineData": { "mimeType": "image/png", "data": "AQID" } });
    let want = json!({
        "systemInstruction": { "parts": [{ "text": "You are an agent.\n" }, { "text": "Be brief." }] },
        "contents": [
            { "role": "user", "parts":
                [{ "text": "What is this?" }, png, { "text": "[image not available]" }] },
            { "role": "model", "parts": [
                { "text": "Look first.", "thought": true, "thoughtSignature": "c2Vh" },
                { "text": "I look." },
                { "functionCall": { "name": "read", "args": { "path": "a.png" } }, "thoughtSignature": "c2ln" },
                { "functionCall": { "name": "no_such_tool", "args": {} } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "name": "read", "response": { "output": "an image" } } },
                { "functionResponse": { "name": "no_such_tool",
                    "response": { "error": "there is no such tool" } } },
                { "text": "Image in the result of read (call_3_0):" }, png,
                { "text": "And now?" },
            ] },
            { "role": "model", "parts": [{ "text": "It is a cat." }] },
            { "role": "user", "parts": [{ "text": "Good." }, { "text": "Go on." }] },
        ],
        "tools": [{ "functionDeclarations": [{
            "name": "read", "description": "Reads a file.",
            "parameters": { "type": "object", "properties": { "path": { "type": "string" } },
                "required": ["path"] },
        }] }],
        "generationConfig": {
            "maxOutputTokens": 1000,
            "thinkingConfig": { "includeThoughts": true, "thinkingBudget": 24_576 },
        },
    });
    let request = conversation(Some("c2Vh".into()), Some("c2ln"));
    assert_eq!(
        body(&request, &target("gemini-3-pro-preview"), &bytes),
        want
    );
}

#[test]
fn calls_of_another_model_are_marked_where_signatures_are_demanded() {
    let signatures = |model: &str| {
        let body = body(&conversation(None, None), &target(model), &bytes);
        let parts = body["contents"][1]["parts"].as_array().unwrap().clone();
        parts
            .iter()
            .filter_map(|p| p["thoughtSignature"].as_str().map(str::to_string))
            .collect::<Vec<_>>()
    };
    assert_eq!(signatures("gemini-3-flash"), [FOREIGN_CALL]);
    assert!(signatures("gemini-2.5-pro").is_empty());
}

const STREAM: &str = r#"
    {"candidates":[{"content":{"role":"model","parts":[{"text":"Look ","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":100}}
    {"candidates":[{"content":{"role":"model","parts":[{"text":"first.","thought":true}]}}]}
    {"candidates":[{"content":{"role":"model","parts":[{"text":"I lo"}]}}]}
    {"candidates":[{"content":{"role":"model","parts":[{"text":"ok."}]}}]}
    {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"f2","name":"glob"}}]}}]}
    {"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":15,"thoughtsTokenCount":5}}
"#;

fn call(id: Option<&str>, name: &str, arguments: &str, signature: Option<&str>) -> Block {
    Block::Call {
        name: name.into(),
        arguments: arguments.into(),
        provider_id: id.map(str::to_string),
        signature: signature.map(str::to_string),
    }
}

#[test]
fn a_stream_becomes_an_answer() {
    let (deltas, reply) = decode::<GeminiDecoder>(&events(STREAM));
    let reply = reply.unwrap();
    let want = [
        Block::Thinking {
            text: "Look first.".into(),
            sealed: None,
        },
        Block::text("I look."),
        call(None, "read", r#"{"path":"a"}"#, Some("c2ln")),
        call(Some("f2"), "glob", "{}", None),
    ];
    assert_eq!(reply.blocks, want);
    assert_eq!(reply.stop, StopReason::ToolUse);
    let usage = reply.usage;
    assert_eq!((usage.input, usage.cached, usage.output), (40, 60, 20));
    assert_eq!(shown(&deltas), ("I look.".into(), "Look first.".into()));
    let begun = deltas
        .iter()
        .filter(|d| matches!(d, Delta::Call { .. }))
        .count();
    assert_eq!(begun, 2);
    cut_everywhere::<GeminiDecoder>(STREAM, 5);
    ends_once::<GeminiDecoder>(STREAM);
}

/// Returns the blocks of a stream that sends each of these parts in a separate chunk.
fn blocks(parts: &[&str]) -> Vec<Block> {
    let chunk =
        |part: &&str| format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n");
    let mut lines: String = parts.iter().map(chunk).collect();
    lines += r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    reply::<GeminiDecoder>(&lines).blocks
}

#[test]
fn a_signature_stays_on_its_part() {
    let signed = |text: &str, signature: &str| Block::Text {
        text: text.into(),
        signature: Some(signature.into()),
    };
    let late = [
        r#"{"text":"Hi"}"#,
        r#"{"text":"","thoughtSignature":"QQ=="}"#,
    ];
    assert_eq!(blocks(&late), [signed("Hi", "QQ==")]);
    let two = [
        r#"{"text":"a","thoughtSignature":"QQ=="}"#,
        r#"{"text":"b","thoughtSignature":"Qg=="}"#,
        r#"{"text":"c"}"#,
    ];
    assert_eq!(
        blocks(&two),
        [signed("a", "QQ=="), signed("b", "Qg=="), Block::text("c")]
    );
    let behind_calls = [
        r#"{"functionCall":{"name":"x","args":{}}}"#,
        r#"{"functionCall":{"name":"y","args":{}}}"#,
        r#"{"text":"","thoughtSignature":"QQ=="}"#,
    ];
    let want = [
        call(None, "x", "{}", Some("QQ==")),
        call(None, "y", "{}", None),
    ];
    assert_eq!(blocks(&behind_calls), want);
    let thought = [r#"{"text":"hm","thought":true,"thoughtSignature":"QQ=="}"#];
    let want = Block::Thinking {
        text: "hm".into(),
        sealed: Some("QQ==".into()),
    };
    assert_eq!(blocks(&thought), [want]);
    assert_eq!(blocks(&[r#"{"text":"","thoughtSignature":"QQ=="}"#]), []);
}

#[test]
fn the_end_has_its_reason() {
    let stop = |reason: &str| {
        reply::<GeminiDecoder>(&format!(
            r#"{{"candidates":[{{"finishReason":"{reason}"}}]}}"#
        ))
        .stop
    };
    assert_eq!(stop("STOP"), StopReason::EndTurn);
    assert_eq!(stop("MAX_TOKENS"), StopReason::MaxTokens);
    assert_eq!(stop("SAFETY"), StopReason::Refusal);
    assert_eq!(stop("SOMETHING_NEW"), StopReason::Other);
}

#[test]
fn errors_in_the_stream_have_their_class() {
    use FailureClass::*;
    for (line, want) in [
        (
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            Overloaded,
        ),
        (
            r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#,
            RateLimit,
        ),
        (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, BadRequest),
        (
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print("}]}"#,
            Protocol,
        ),
        ("}", Network),
        (r#"{"candidates":[]}"#, Network),
    ] {
        assert_eq!(failed::<GeminiDecoder>(line), want, "{line}");
    }
}

/// The id that the model gave to a call goes back with the call and with its result.
#[test]
fn the_ids_of_the_model_go_back() {
    let mut request = conversation(None, None);
    let parts = request
        .messages
        .iter_mut()
        .map(|m| Arc::make_mut(&mut m.parts));
    for part in parts.flatten() {
        if let MessagePart::Call { id, given_id, .. } | MessagePart::Result { id, given_id, .. } =
            part
            && id == "call_3_0"
        {
            *given_id = Some("f1".into());
        }
    }
    let body = body(&request, &target("gemini-3-pro"), &bytes);
    let calls = &body["contents"][1]["parts"];
    assert_eq!(calls[1]["functionCall"]["id"], "f1");
    assert_eq!(calls[2]["functionCall"].get("id"), None);
    let results = &body["contents"][2]["parts"];
    assert_eq!(results[0]["functionResponse"]["id"], "f1");
    assert_eq!(results[1]["functionResponse"].get("id"), None);
}

proptest! {
    #[test]
    fn no_event_is_too_strange(junk in junk()) {
        let mut decoder = GeminiDecoder::default();
        for junk in junk {
            for shape in [
                junk.clone(),
                json!({ "candidates": [junk], "usageMetadata": junk }),
                json!({ "candidates": [{ "content": { "parts": [junk, { "functionCall": junk }] } }] }),
            ] {
                let _ = decoder.feed(&data(&shape.to_string()));
            }
        }
        let _ = decoder.finish();
    }
}
