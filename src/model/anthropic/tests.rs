//! Tests of Anthropic Messages.

use super::*;
use crate::config::Quirks;
use crate::core::choice::Effort;
use crate::core::entry::FailureClass;
use crate::core::entry::ToolSpec;
use crate::model::wire::Codec;

fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    Codec::Anthropic.body(request, target, blobs)
}

fn target<'a>() -> Target<'a> {
    Target {
        model: "claude-x",
        stream: true,
        thinking_budget: None,
        quirks: &Quirks::NONE,
    }
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text {
        text: text.into(),
        signature: None,
    }
}

fn call(id: &str) -> MessagePart {
    MessagePart::Call {
        id: id.into(),
        given_id: None,
        name: "bash".into(),
        arguments: json!({"command": "ls"}),
        signature: None,
    }
}

fn result(id: &str, text: &str, is_error: bool) -> MessagePart {
    MessagePart::Result {
        id: id.into(),
        given_id: None,
        name: "bash".into(),
        text: text.into(),
        images: vec![("image/png".into(), blob())],
        is_error,
    }
}

fn thinking(sealed: Value) -> MessagePart {
    MessagePart::Thinking {
        text: "hm".into(),
        sealed: Some(sealed),
    }
}

fn blob() -> BlobRef {
    BlobRef {
        hash: "h".into(),
        bytes: 3,
    }
}

fn message(role: Role, parts: Vec<MessagePart>, cache: bool) -> Message {
    let parts = parts.into();
    Message { role, parts, cache }
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "anthropic/claude-x".into(),
        system: "You are an agent.".into(),
        tools: vec![ToolSpec {
            name: "bash".into(),
            description: "Runs a command.".into(),
            schema: json!({"type": "object"}),
        }],
        instructions: String::new(),
        messages,
        max_tokens: 8000,
        effort: Effort::Default,
        temperature: None,
        answers: 0,
        has_answered: false,
        schema: None,
    }
}

fn send(request: &Request) -> Value {
    body(request, &target(), &|_| Some(b"png".to_vec()))
}

#[test]
fn a_whole_request() {
    let request = request(vec![
        message(Role::User, vec![text("list")], false),
        message(
            Role::Assistant,
            vec![thinking(json!({"signature": "s1"})), call("call_1_0")],
            false,
        ),
        message(
            Role::User,
            vec![result("call_1_0", "a.rs", false), text("and?")],
            true,
        ),
    ]);
    let mark = json!({"type": "ephemeral"});
    let image = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}});
    assert_eq!(
        send(&request),
        json!({
            "model": "claude-x", "max_tokens": 8000, "stream": true,
            "system": [{"type": "text", "text": "You are an agent.", "cache_control": mark}],
            "tools": [{"name": "bash", "description": "Runs a command.",
                       "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "list"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s1"},
                    {"type": "tool_use", "id": "call_1_0", "name": "bash",
                     "input": {"command": "ls"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1_0",
                     "content": [{"type": "text", "text": "a.rs"}, image]},
                    {"type": "text", "text": "and?", "cache_control": mark},
                ]},
            ],
        })
    );
}

#[test]
fn the_cache_mark_follows_the_instructions_when_there_are_any() {
    let mut request = request(vec![message(Role::User, vec![text("hi")], false)]);
    request.instructions = "Use tabs.".into();
    let system = &send(&request)["system"];
    assert!(system[0].get("cache_control").is_none());
    assert_eq!(system[1]["text"], "Use tabs.");
    assert!(system[1].get("cache_control").is_some());
}

#[test]
fn cache_marks_follow_tools_summary_and_last_message() {
    let mut messages = vec![
        message(Role::User, vec![text("<summary>")], true),
        message(Role::Assistant, vec![text("a"), call("call_1_0")], false),
        message(Role::User, vec![result("call_1_0", "b", false)], false),
        message(Role::Assistant, vec![call("call_2_0")], false),
        message(Role::User, vec![result("call_2_0", "c", false)], true),
    ];
    let marked = |messages: &[Message]| {
        let body = send(&request(messages.to_vec()));
        let mut places = Vec::new();
        for list in ["tools", "system", "messages"] {
            for (at, item) in body[list].as_array().unwrap().iter().enumerate() {
                if item.to_string().contains("cache_control") {
                    places.push(format!("{list} {at}"));
                }
            }
        }
        places
    };
    // The system prompt comes after the tools.
    assert_eq!(marked(&messages), ["system 0", "messages 0", "messages 4"]);
    // Without a summary, there is none in the middle.
    messages[0].cache = false;
    assert_eq!(marked(&messages), ["system 0", "messages 4"]);
}

#[test]
fn at_most_four_marks_and_none_on_thinking() {
    let turns = (0..10).flat_map(|_| {
        let answer = vec![text("ok"), thinking(json!({"signature": "s"}))];
        [
            message(Role::User, vec![text("go")], true),
            message(Role::Assistant, answer, true),
        ]
    });
    let body = send(&request(turns.collect()));
    let marks = |v: &Value| v.to_string().matches("cache_control").count();
    assert_eq!(marks(&body["system"]), 1);
    assert_eq!(marks(&body["messages"]), 3);
    let last = &body["messages"].as_array().unwrap()[19]["content"];
    assert_eq!(marks(&last[0]), 1);
}

#[test]
fn results_come_first_and_failed_ones_hold_only_text() {
    let body = send(&request(vec![message(
        Role::User,
        vec![
            result("a", "boom", true),
            result("b", " ", false),
            text("x"),
        ],
        false,
    )]));
    let content = body["messages"][0]["content"].as_array().unwrap();
    let kinds: Vec<&str> = content
        .iter()
        .map(|b| b["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "image", "text"]);
    assert_eq!(content[0]["is_error"], true);
    assert_eq!(content[0]["content"].as_array().unwrap().len(), 1);
    assert_eq!(content[1]["content"][0]["type"], "image");
}

#[test]
fn parts_the_server_would_refuse_are_not_sent() {
    let strange = MessagePart::Call {
        id: "c".into(),
        given_id: None,
        name: "what is/this".into(),
        arguments: json!({}),
        signature: None,
    };
    let body = send(&request(vec![
        message(Role::User, vec![text("hi"), text(" \n")], false),
        message(
            Role::Assistant,
            vec![text("\n"), thinking(json!({"signature": "s"}))],
            true,
        ),
        message(
            Role::Assistant,
            vec![thinking(json!({"items": []})), strange],
            false,
        ),
    ]));
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["content"].as_array().unwrap().len(), 1);
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 1);
    assert_eq!(messages[1]["content"][0]["name"], "what_is_this");
    let body = send(&request(vec![message(Role::User, vec![text(" ")], true)]));
    assert_eq!(body["messages"][0]["content"][0]["text"], "(nothing)");
}

#[test]
fn a_missing_image_is_replaced_by_a_text_that_names_it() {
    let part = MessagePart::Image {
        media_type: "image/png".into(),
        blob: blob(),
    };
    let request = request(vec![message(Role::User, vec![part], false)]);
    let body = body(&request, &target(), &|_| None);
    let said = body["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("no longer stored"));
}

#[test]
fn a_budget_is_sent_only_where_the_server_takes_it() {
    let budget = |messages: Vec<Message>, tokens| {
        let target = Target {
            thinking_budget: Some(tokens),
            ..target()
        };
        body(&request(messages), &target, &|_| None)["thinking"]["budget_tokens"].as_u64()
    };
    let said = || message(Role::User, vec![text("go")], false);
    let back = || message(Role::User, vec![result("a", "x", false)], false);
    let sealed = || thinking(json!({"signature": "s"}));
    assert_eq!(budget(vec![said()], 4000), Some(4000));
    assert_eq!(budget(vec![said()], 90_000), Some(7999));
    assert_eq!(budget(vec![said()], 100), None);
    let plain = message(Role::Assistant, vec![call("a")], false);
    assert_eq!(budget(vec![said(), plain.clone(), back()], 4000), None);
    let thought = message(Role::Assistant, vec![sealed(), call("a")], false);
    assert_eq!(budget(vec![said(), thought, back()], 4000), Some(4000));
    assert_eq!(budget(vec![said(), plain, said()], 4000), Some(4000));
}

fn decode(events: &[Value]) -> (Vec<Delta>, Result<Reply, Failure>) {
    let mut decoder = MessagesDecoder::default();
    let mut deltas = Vec::new();
    for data in events {
        let event = Event {
            event: data["type"].as_str().unwrap_or_default().into(),
            data: data.to_string(),
        };
        match decoder.feed(&event) {
            Ok(more) => deltas.extend(more),
            Err(failure) => return (deltas, Err(failure)),
        }
    }
    (deltas, decoder.finish())
}

fn stream() -> Vec<Value> {
    let start = |i: u64, block: Value| json!({"type": "content_block_start", "index": i, "content_block": block});
    let delta =
        |i: u64, delta: Value| json!({"type": "content_block_delta", "index": i, "delta": delta});
    let stop = |i: u64| json!({"type": "content_block_stop", "index": i});
    vec![
        json!({"type": "message_start", "message": {"id": "m", "usage": {
            "input_tokens": 10, "cache_read_input_tokens": 200,
            "cache_creation_input_tokens": 30, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        start(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see"})),
        delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "xyz"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Look"})),
        delta(2, json!({"type": "text_delta", "text": "ing."})),
        stop(2),
        start(
            3,
            json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}),
        ),
        delta(
            3,
            json!({"type": "input_json_delta", "partial_json": "{\"command\":"}),
        ),
        delta(
            3,
            json!({"type": "input_json_delta", "partial_json": "\"ls\"}"}),
        ),
        stop(3),
        start(
            4,
            json!({"type": "tool_use", "id": "toolu_2", "name": "plan", "input": {}}),
        ),
        stop(4),
        json!({"type": "some_new_event", "x": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
               "usage": {"output_tokens": 42}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn a_whole_answer() {
    let (deltas, reply) = decode(&stream());
    let reply = reply.unwrap();
    let named = |name: &str, id: &str, arguments: &str| Block::Call {
        name: name.into(),
        arguments: arguments.into(),
        provider_id: Some(id.into()),
        signature: None,
    };
    let sealed = |text: &str, sealed| Block::Thinking {
        text: text.into(),
        sealed: Some(sealed),
    };
    assert_eq!(
        reply.blocks,
        [
            sealed("let me see", json!({"signature": "sig"})),
            sealed("", json!({"redacted": "xyz"})),
            Block::text("Looking."),
            named("bash", "toolu_1", r#"{"command":"ls"}"#),
            named("plan", "toolu_2", "{}"),
        ]
    );
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(
        reply.usage,
        Usage {
            input: 10,
            cached: 200,
            cache_written: 30,
            output: 42,
            billed_nanos: None,
        }
    );
    assert_eq!(
        deltas,
        [
            Delta::Thinking("let me ".into()),
            Delta::Thinking("see".into()),
            Delta::Text("Look".into()),
            Delta::Text("ing.".into()),
            Delta::Call {
                name: "bash".into()
            },
            Delta::Call {
                name: "plan".into()
            },
        ]
    );
}

#[test]
fn thinking_goes_back_as_it_came() {
    let (_, reply) = decode(&stream());
    let parts = reply.unwrap().blocks.into_iter().filter_map(|b| match b {
        Block::Thinking { text, sealed } => Some(MessagePart::Thinking { text, sealed }),
        _ => None,
    });
    let mut parts: Vec<MessagePart> = parts.collect();
    parts.push(text("x"));
    let body = send(&request(vec![message(Role::Assistant, parts, false)]));
    let content = body["messages"][0]["content"].as_array().unwrap();
    assert_eq!(
        content[..2],
        [
            json!({"type": "thinking", "thinking": "let me see", "signature": "sig"}),
            json!({"type": "redacted_thinking", "data": "xyz"}),
        ]
    );
}

#[test]
fn a_stream_cut_anywhere_is_a_network_failure() {
    let stream = stream();
    // The last event only says that nothing follows.
    for end in 0..stream.len() - 1 {
        let (_, reply) = decode(&stream[..end]);
        assert_eq!(
            reply.unwrap_err().class,
            FailureClass::Network,
            "after {end}"
        );
    }
}

#[test]
fn events_after_the_end_or_without_content_are_ignored() {
    let stream = stream();
    let want = decode(&stream).1;
    let event = |data: &Value| Event {
        event: data["type"].as_str().unwrap_or_default().into(),
        data: data.to_string(),
    };
    let late = json!({"type": "error", "error": {"type": "api_error", "message": "late"}});
    for tail in crate::model::test_samples::tails()
        .into_iter()
        .chain([event(&late)])
    {
        let mut decoder = MessagesDecoder::default();
        for data in &stream {
            decoder.feed(&event(data)).unwrap();
        }
        assert_eq!(decoder.feed(&tail), Ok(vec![]), "{tail:?}");
        assert_eq!(decoder.finish(), want);
    }
    // The stop reason is the end for gateways that send no event for it.
    let (_, reply) = decode(&stream[..stream.len() - 1]);
    assert_eq!(reply, want);
    // Without it, the word ends nothing.
    let mut decoder = MessagesDecoder::default();
    for data in &stream[..stream.len() - 2] {
        decoder.feed(&event(data)).unwrap();
    }
    decoder
        .feed(&crate::model::test_samples::data("[DONE]"))
        .unwrap();
    assert_eq!(decoder.finish().unwrap_err().class, FailureClass::Network);
}

#[test]
fn stop_reasons_are_understood() {
    for (reason, stop) in [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::Other),
        ("a new one", StopReason::Other),
    ] {
        let (_, reply) = decode(&[
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!(reply.unwrap().stop, stop, "{reason}");
    }
}

#[test]
fn malformed_events_are_protocol_failures() {
    let lost = json!({"type": "content_block_delta", "index": 7,
                      "delta": {"type": "text_delta", "text": "x"}});
    let failure = decode(&[lost]).1.unwrap_err();
    assert_eq!(failure.class, FailureClass::Protocol);
    let event = Event {
        event: "message_start".into(),
        data: "{".into(),
    };
    let failure = MessagesDecoder::default().feed(&event).unwrap_err();
    assert!(failure.message.contains("not JSON"));
}

/// As llama.cpp sends it, without the object around the error.
#[test]
fn an_error_event_is_known_by_its_name() {
    let event = Event {
        event: "error".into(),
        data: r#"{"code":500,"message":"Context size has been exceeded.","type":"server_error"}"#
            .into(),
    };
    let failure = MessagesDecoder::default().feed(&event).unwrap_err();
    assert_eq!(failure.class, FailureClass::TooLong);
    assert!(failure.message.contains("Context size has been exceeded."));
}

#[test]
fn errors_are_classified() {
    use FailureClass::*;
    let answer = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    for (status, body, class) in [
        (
            401,
            answer("authentication_error", "invalid x-api-key"),
            Auth,
        ),
        (403, answer("permission_error", "no"), Auth),
        (402, answer("billing_error", "no credit"), UsedUp),
        (429, answer("rate_limit_error", "slow down"), RateLimit),
        (529, answer("overloaded_error", "Overloaded"), Overloaded),
        (
            500,
            answer("api_error", "Internal server error"),
            Overloaded,
        ),
        (502, "<html>bad gateway</html>".into(), Overloaded),
        (413, answer("request_too_large", "too large"), TooLong),
        (
            400,
            answer("invalid_request_error", "max_tokens: 5 > 3"),
            BadRequest,
        ),
        (404, answer("not_found_error", "model: claude-y"), NoModel),
        (
            400,
            answer(
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            TooLong,
        ),
        (
            400,
            answer(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            ),
            TooLong,
        ),
    ] {
        let failure = errors::classify(status, &body, "");
        assert_eq!(failure.class, class, "{status} {body}");
        assert!(!failure.message.is_empty());
    }
    let gone = errors::classify(404, &answer("not_found_error", "model: claude-y"), "");
    assert_eq!(
        gone.message,
        "the provider has no model claude-y: it is retired, or the name is wrong"
    );
    let (_, cut) = decode(&[
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ]);
    assert_eq!(cut.unwrap_err().class, Overloaded);
}
