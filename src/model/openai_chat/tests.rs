//! Tests of OpenAI Chat Completions.

use super::*;
use crate::config::Quirks;
use crate::core::entry::FailureClass;
use crate::model::test_samples::{
    bytes, conversation, cut_everywhere, data, decode, ends_once, events, failed, junk, reply,
    shown,
};
use crate::model::wire::Codec;
use proptest::prelude::*;

fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    Codec::OpenaiChat.body(request, target, blobs)
}

fn target<'a>() -> Target<'a> {
    Target {
        model: "m",
        stream: true,
        thinking_budget: None,
        quirks: &Quirks::NONE,
    }
}

#[test]
fn a_request_has_everything_in_its_place() {
    let png = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AQID" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let want = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "You are an agent.\n\nBe brief." },
            { "role": "user", "content": [text("What is this?"), png, text("[image not available]")] },
            { "role": "assistant", "content": "I look.", "tool_calls": [
                { "id": "call_3_0", "type": "function",
                  "function": { "name": "read", "arguments": "{\"path\":\"a.png\"}" } },
                { "id": "call_3_1", "type": "function",
                  "function": { "name": "no_such_tool", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_3_0", "content": "an image" },
            { "role": "tool", "tool_call_id": "call_3_1", "content": "error: there is no such tool" },
            { "role": "user", "content":
                [text("Image in the result of read (call_3_0):"), png, text("And now?")] },
            { "role": "assistant", "content": "It is a cat." },
            { "role": "user", "content": "Good.\n\nGo on." },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "read", "description": "Reads a file.",
            "parameters": {
                "type": "object", "additionalProperties": false,
                "properties": { "path": { "type": "string" } }, "required": ["path"],
            },
        } }],
        "max_tokens": 1000,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let body = |target| body(&conversation(None, None), &target, &bytes);
    assert_eq!(body(target()), want);

    let quirks = Quirks {
        max_completion_tokens: true,
        no_stream_options: true,
        ..Quirks::NONE
    };
    let openai = body(Target {
        quirks: &quirks,
        ..target()
    });
    assert_eq!(openai.get("max_tokens"), None);
    assert_eq!(openai["max_completion_tokens"], 1000);
    assert_eq!(openai.get("stream_options"), None);
}

#[test]
fn calls_alone_have_null_content_and_their_thinking() {
    let call = MessagePart::Call {
        id: "call_1_0".into(),
        given_id: None,
        name: "read".into(),
        arguments: json!({}),
        signature: None,
    };
    let thinking = |sealed: Option<Value>| MessagePart::Thinking {
        text: "hm".into(),
        sealed,
    };
    let message = assistant(&[thinking(Some(SENT_BACK.into())), call.clone()]).unwrap();
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["reasoning_content"], "hm");
    let message = assistant(&[thinking(None), call]).unwrap();
    assert_eq!(message.get("reasoning_content"), None);
    assert_eq!(assistant(&[thinking(Some(SENT_BACK.into()))]), None);
}

const STREAM: &str = r#"
    {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}
    {"choices":[{"index":0,"delta":{"reasoning_content":"Look ","content":null}}]}
    {"choices":[{"index":0,"delta":{"reasoning_content":"first."}}]}
    {"choices":[{"index":0,"delta":{"content":"I lo"}}]}
    {"choices":[{"index":0,"delta":{"content":"ok."}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"glob","arguments":"{}"}}]}}]}
    {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"","arguments":"\"a\"}"}}]}}]}
    {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
    {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60}}}
    [DONE]
"#;

fn call(id: Option<&str>, name: &str, arguments: &str) -> Block {
    Block::Call {
        name: name.into(),
        arguments: arguments.into(),
        provider_id: id.map(str::to_string),
        signature: None,
    }
}

#[test]
fn a_stream_becomes_an_answer() {
    let (deltas, reply) = decode::<ChatDecoder>(&events(STREAM));
    let reply = reply.unwrap();
    let want = [
        Block::Thinking {
            text: "Look first.".into(),
            sealed: Some("reasoning_content".into()),
        },
        Block::text("I look."),
        call(Some("a"), "read", r#"{"path":"a"}"#),
        call(Some("b"), "glob", "{}"),
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
    cut_everywhere::<ChatDecoder>(STREAM, 9);
    ends_once::<ChatDecoder>(STREAM);
}

/// Returns the calls of a stream that sends each of these `tool_calls` in a separate chunk.
fn calls(pieces: &[&str]) -> Vec<Block> {
    let mut lines = String::new();
    for piece in pieces {
        lines += &format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{piece}]}}}}]}}\n");
    }
    lines += r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let reply = reply::<ChatDecoder>(&lines);
    assert_eq!(reply.stop, StopReason::ToolUse, "a server that says stop");
    reply.blocks
}

#[test]
fn every_servers_calls_are_told_apart() {
    let two = |a, b| vec![call(a, "x", r#"{"n":1}"#), call(b, "y", r#"{"n":2}"#)];
    let arguments = r#""arguments":"{\"n\":1}""#;
    let x = format!(r#""function":{{"name":"x",{arguments}}}"#);
    let y = x.replace('x', "y").replace('1', "2");

    let whole_in_one_chunk = format!("{{{x}}},{{{y}}}");
    assert_eq!(calls(&[&whole_in_one_chunk]), two(None, None));
    let no_index_no_id = [format!("{{{x}}}"), format!("{{{y}}}")];
    assert_eq!(
        calls(&[&no_index_no_id[0], &no_index_no_id[1]]),
        two(None, None)
    );
    let same_index = [
        format!(r#"{{"index":0,"id":"a",{x}}}"#),
        format!(r#"{{"index":0,"id":"b",{y}}}"#),
    ];
    assert_eq!(
        calls(&[&same_index[0], &same_index[1]]),
        two(Some("a"), Some("b"))
    );
    let same_index_no_id = [
        format!(r#"{{"index":0,{x}}}"#),
        format!(r#"{{"index":0,{y}}}"#),
    ];
    assert_eq!(
        calls(&[&same_index_no_id[0], &same_index_no_id[1]]),
        two(None, None)
    );
    let same_id = [
        format!(r#"{{"id":"a",{x}}}"#),
        format!(r#"{{"id":"a",{y}}}"#),
    ];
    assert_eq!(
        calls(&[&same_id[0], &same_id[1]]),
        two(Some("a"), Some("a"))
    );
    let without_arguments =
        r#"{"function":{"name":"x"}},{"function":{"name":"y","arguments":"{}"}}"#;
    let want = [call(None, "x", ""), call(None, "y", "{}")];
    assert_eq!(calls(&[without_arguments]), want);
    let object = r#"{"index":0,"function":{"name":"x","arguments":{"n":1}}},{"index":1,"function":{"name":"y","arguments":{"n":2}}}"#;
    assert_eq!(calls(&[object]), two(None, None));
}

#[test]
fn pieces_of_one_call_stay_together() {
    let one = |id| vec![call(id, "x", r#"{"n":1}"#)];
    let name_again_and_again = [
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":":1}"}}"#,
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
    ];
    assert_eq!(calls(&name_again_and_again), one(Some("a")));
    let another_id_each_time = [
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
        r#"{"index":0,"id":"b","function":{"name":null,"arguments":":1}"}}"#,
    ];
    assert_eq!(calls(&another_id_each_time), one(Some("a")));
    let without_index = [
        r#"{"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
        r#"{"function":{"arguments":":1}"}}"#,
    ];
    assert_eq!(calls(&without_index), one(Some("a")));
    let huge_index = [
        r#"{"index":18446744073709551615,"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
        r#"{"index":18446744073709551615,"function":{"arguments":":1}"}}"#,
    ];
    assert_eq!(calls(&huge_index), one(Some("a")));
    let old_form = r#"
        {"choices":[{"delta":{"function_call":{"name":"x","arguments":""}}}]}
        {"choices":[{"delta":{"function_call":{"arguments":"{\"n\":1}"}}}]}
        {"choices":[{"delta":{},"finish_reason":"function_call"}]}
    "#;
    assert_eq!(reply::<ChatDecoder>(old_form).blocks, one(None));
}

#[test]
fn other_forms_of_content_are_read() {
    let mistral = r#"
        {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}
        {"choices":[{"delta":{"content":[{"type":"text","text":"Hi"}]}}]}
        {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}
    "#;
    let hm = Block::Thinking {
        text: "hm".into(),
        sealed: None,
    };
    assert_eq!(
        reply::<ChatDecoder>(mistral).blocks,
        [hm.clone(), Block::text("Hi")]
    );
    let openrouter = r#"
        {"choices":[{"delta":{"content":"","reasoning":"hm","reasoning_content":null,"reasoning_details":[{}]}}]}
        {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}
    "#;
    assert_eq!(
        reply::<ChatDecoder>(openrouter).blocks,
        [hm, Block::text("Hi")]
    );
    let twice = r#"{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"},"finish_reason":"stop"}]}"#;
    let (deltas, _) = decode::<ChatDecoder>(&events(twice));
    assert_eq!(shown(&deltas).1, "hm");
    let whole = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"length"}]}"#;
    let reply = reply::<ChatDecoder>(whole);
    assert_eq!(
        (reply.blocks, reply.stop),
        (vec![Block::text("Hi")], StopReason::MaxTokens)
    );
}

#[test]
fn details_of_the_thinking_go_back_as_they_came() {
    let stream = r#"
        {"choices":[{"delta":{"reasoning":"Look ","reasoning_details":[{"type":"reasoning.text","text":"Look ","signature":null,"format":"f","index":0}]}}]}
        {"choices":[{"delta":{"reasoning":"first.","reasoning_details":[{"type":"reasoning.text","text":"first.","format":"f","index":0}]}}]}
        {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"sig-1","format":"f","index":0}]}}]}
        {"choices":[{"delta":{"reasoning":"More","reasoning_details":[{"type":"reasoning.text","text":"More","format":"f","index":0}]}}]}
        {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"AA==","id":"call_a","index":0},{"type":"reasoning.encrypted","data":"BB==","id":"call_b","index":0}]}}]}
        {"choices":[{"delta":{"content":"I look."},"finish_reason":"stop"}]}
    "#;
    let details = json!([
        { "type": "reasoning.text", "text": "Look first.", "signature": "sig-1", "format": "f", "index": 0 },
        { "type": "reasoning.text", "text": "More", "format": "f", "index": 0 },
        { "type": "reasoning.encrypted", "data": "AA==", "id": "call_a", "index": 0 },
        { "type": "reasoning.encrypted", "data": "BB==", "id": "call_b", "index": 0 },
    ]);
    let blocks = reply::<ChatDecoder>(stream).blocks;
    assert_eq!(sent_again(&blocks)["reasoning_details"], details);
    assert_eq!(sent_again(&blocks).get("reasoning_content"), None);

    // Gemini 3 gives the signature of a call without any thinking.
    let call = r#"
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}}]}
        {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"AA==","id":"a","index":0}]},"finish_reason":"tool_calls"}]}
    "#;
    let blocks = reply::<ChatDecoder>(call).blocks;
    let message = sent_again(&blocks);
    assert_eq!(message["reasoning_details"][0]["data"], "AA==");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "read");

    // With the field that DeepSeek and Kimi want, both go back.
    let both = call.replace(
        "\"tool_calls\":[",
        "\"reasoning_content\":\"hm\",\"tool_calls\":[",
    );
    let message = sent_again(&reply::<ChatDecoder>(&both).blocks);
    assert_eq!(message["reasoning_content"], "hm");
    assert_eq!(message["reasoning_details"][0]["data"], "AA==");
}

/// The message of the next request that these blocks become.
fn sent_again(blocks: &[Block]) -> Value {
    let parts: Vec<MessagePart> = blocks
        .iter()
        .map(|block| match block.clone() {
            Block::Text { text, signature } => MessagePart::Text { text, signature },
            Block::Thinking { text, sealed } => MessagePart::Thinking { text, sealed },
            Block::Call { name, .. } => MessagePart::Call {
                id: "c00000000".into(),
                given_id: None,
                name,
                arguments: json!({}),
                signature: None,
            },
        })
        .collect();
    assistant(&parts).unwrap()
}

#[test]
fn details_without_end_are_refused() {
    let chunk = |data: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"reasoning_details":[{{"type":"reasoning.encrypted","data":"{data}"}}]}}}}]}}"#
        )
    };
    for (piece, times) in [("x".to_string(), 5_000), ("x".repeat(1 << 20), 40)] {
        let event = data(&chunk(&piece));
        let mut decoder = ChatDecoder::default();
        assert!((0..times).any(|_| decoder.feed(&event).is_err()));
    }
}

#[test]
fn every_servers_counts_are_understood() {
    let usage = |usage: &str| {
        let usage = reply::<ChatDecoder>(&format!(
            r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
        ))
        .usage;
        (usage.input, usage.cached, usage.cache_written, usage.output)
    };
    // xAI: the thinking beside the answer. All others: in it.
    let thinking = r#""prompt_tokens":100,"completion_tokens":20,"completion_tokens_details":{"reasoning_tokens":15}"#;
    assert_eq!(
        usage(&format!(r#"{{{thinking},"total_tokens":135}}"#)),
        (100, 0, 0, 35)
    );
    assert_eq!(
        usage(&format!(r#"{{{thinking},"total_tokens":120}}"#)),
        (100, 0, 0, 20)
    );
    assert_eq!(usage(&format!("{{{thinking}}}")), (100, 0, 0, 20));
    for cached in [
        r#""prompt_tokens_details":{"cached_tokens":60}"#,
        r#""prompt_cache_hit_tokens":60"#,
        r#""cache_read_input_tokens":60"#,
        r#""cached_tokens":60"#,
    ] {
        let counts = format!(r#"{{"prompt_tokens":100,"completion_tokens":1,{cached}}}"#);
        assert_eq!(usage(&counts), (40, 60, 0, 1));
    }
    let written = r#"{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30}}"#;
    assert_eq!(usage(written), (10, 60, 30, 1));
    let more_than_all = r#"{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":160,"cache_write_tokens":30}}"#;
    assert_eq!(usage(more_than_all), (0, 100, 0, 1));
}

#[test]
fn the_counts_alone_are_the_last_chunk() {
    let mut decoder = ChatDecoder::default();
    let counts = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    decoder.feed(&data(counts)).unwrap();
    assert!(!decoder.is_ended(), "some servers count all the time");
    let stop = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    decoder.feed(&data(stop)).unwrap();
    assert!(!decoder.is_ended());
    decoder.feed(&data(counts)).unwrap();
    assert!(decoder.is_ended());
}

#[test]
fn errors_in_the_stream_have_their_class() {
    use FailureClass::*;
    for (line, want) in [
        (
            r#"{"error":{"message":"slow down","type":"rate_limit_error","code":429}}"#,
            RateLimit,
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}"#,
            Overloaded,
        ),
        (
            r#"{"object":"error","message":"maximum context length is 10 tokens","code":400}"#,
            TooLong,
        ),
        (r#"{"error":"the model runner stopped"}"#, Overloaded),
        ("{\"choices\":", Network),
        ("[DONE]", Network),
        (
            r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":""}]}"#,
            Network,
        ),
    ] {
        assert_eq!(failed::<ChatDecoder>(line), want, "{line}");
    }
}

/// Some gateways and models never send a reason. What is not whole is not taken.
#[test]
fn done_is_the_end_of_an_answer_without_a_reason() {
    let call = |arguments: &str| {
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function":
            {"name": "read", "arguments": arguments}}]}}]})
        .to_string()
    };
    let text = r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}"#.to_string();
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#.to_string();
    for (lines, want) in [
        (vec![text.clone()], Some(StopReason::EndTurn)),
        (vec![text.clone(), call("{}")], Some(StopReason::ToolUse)),
        (vec![text, call("{\"path\":")], None),
        (vec![thought], None),
    ] {
        let stream = lines.join("\n") + "\n[DONE]";
        let (_, reply) = decode::<ChatDecoder>(&events(&stream));
        assert_eq!(reply.ok().map(|reply| reply.stop), want, "{stream}");
    }
}

proptest! {
    #[test]
    fn no_event_is_too_strange(junk in junk()) {
        let mut decoder = ChatDecoder::default();
        for junk in junk {
            for shape in [
                junk.clone(),
                json!({ "choices": [junk] }),
                json!({ "choices": [{ "delta": junk, "finish_reason": junk }] }),
                json!({ "choices": [{ "delta": { "tool_calls": [junk] } }], "usage": junk }),
            ] {
                let _ = decoder.feed(&data(&shape.to_string()));
            }
        }
        let _ = decoder.finish();
    }
}
