//! The scripted server is itself held to account: every rule refuses a request that breaks
//! it, with the API's own status and shape, and lets a good one pass; and what it streams
//! is what the APIs stream.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of this file is a test; clippy sees only the #[test] functions as such"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Answer, Options, Protocol, Says, Seen, Server, Stop, given, list, run};

/// One request on a connection of its own: status, headers, body.
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// The data of every event of the stream.
    fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|l| l.strip_prefix("data: "));
        data.filter(|d| *d != "[DONE]")
            .map(|d| serde_json::from_str(d).expect("JSON in an event"))
            .collect()
    }
}

fn path(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "/v1/messages",
        Protocol::Chat => "/v1/chat/completions",
        Protocol::Responses => "/v1/responses",
        Protocol::Gemini => "/v1beta/models/test-model:streamGenerateContent?alt=sse",
    }
}

fn headers(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "x-api-key: test-key\r\nanthropic-version: 2023-06-01\r\n",
        Protocol::Chat | Protocol::Responses => "authorization: Bearer test-key\r\n",
        Protocol::Gemini => "x-goog-api-key: test-key\r\n",
    }
}

fn send(server: &Server, path: &str, headers: &str, body: &str) -> Got {
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    let limit = Some(Duration::from_secs(90));
    stream.set_read_timeout(limit).expect("set a limit");
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("send");
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    Got {
        status: status.unwrap_or(0),
        head: head.to_string(),
        body: unchunked(rest),
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        body.push_str(&more[..size]);
        rest = &more[(size + 2).min(more.len())..];
    }
    body
}

fn ask(server: &Server, protocol: Protocol, body: &Value) -> Got {
    send(server, path(protocol), headers(protocol), &body.to_string())
}

/// A request with everything in it: two calls at once, thinking, results, more talk.
fn good(protocol: Protocol) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let args = json!({"path": "a"});
    match protocol {
        Protocol::Anthropic => json!({
            "model": "test-model", "max_tokens": 1000, "stream": true,
            "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}],
            "tools": [
                {"name": "read", "description": "reads", "input_schema": schema},
                {"name": "grep", "description": "finds", "input_schema": schema},
            ],
            "messages": [
                {"role": "user", "content": "do it"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm",
                     "signature": given::anthropic_signature("hm")},
                    {"type": "text", "text": "now"},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": args},
                    {"type": "tool_use", "id": "c2", "name": "grep", "input": args},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "c2", "is_error": true,
                     "content": [{"type": "text", "text": "two"}]},
                    {"type": "text", "text": "go on"},
                ]},
            ],
        }),
        Protocol::Chat => json!({
            "model": "test-model", "stream": true, "stream_options": {"include_usage": true},
            "tools": [
                {"type": "function", "function": {"name": "read", "parameters": schema}},
                {"type": "function", "function": {"name": "grep", "parameters": schema}},
            ],
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": "do it"},
                {"role": "assistant", "content": "now", "tool_calls": [
                    {"id": "c00000001", "type": "function",
                     "function": {"name": "read", "arguments": args.to_string()}},
                    {"id": "c00000002", "type": "function",
                     "function": {"name": "grep", "arguments": args.to_string()}},
                ]},
                {"role": "tool", "tool_call_id": "c00000001", "content": "one"},
                {"role": "tool", "tool_call_id": "c00000002", "content": "two"},
                {"role": "user", "content": [{"type": "text", "text": "go on"}]},
            ],
        }),
        Protocol::Responses => json!({
            "model": "test-model", "stream": true, "store": false, "instructions": "be good",
            "include": ["reasoning.encrypted_content"],
            "tools": [
                {"type": "function", "name": "read", "parameters": schema},
                {"type": "function", "name": "grep", "parameters": schema},
            ],
            "input": [
                {"type": "message", "role": "user",
                 "content": [{"type": "input_text", "text": "do it"}]},
                {"type": "reasoning", "id": "rs_1",
                 "summary": [{"type": "summary_text", "text": "hm"}],
                 "encrypted_content": given::responses_encrypted("hm")},
                {"type": "message", "role": "assistant",
                 "content": [{"type": "output_text", "text": "now"}]},
                {"type": "function_call", "call_id": "c1", "name": "read",
                 "arguments": args.to_string()},
                {"type": "function_call", "call_id": "c2", "name": "grep",
                 "arguments": args.to_string()},
                {"type": "function_call_output", "call_id": "c1", "output": "one"},
                {"type": "function_call_output", "call_id": "c2", "output": "two"},
                {"role": "user", "content": "go on"},
            ],
        }),
        Protocol::Gemini => json!({
            "systemInstruction": {"parts": [{"text": "be good"}]},
            "tools": [{"functionDeclarations": [
                {"name": "read", "description": "reads", "parameters": schema},
                {"name": "grep", "description": "finds", "parametersJsonSchema": schema},
            ]}],
            "contents": [
                {"role": "user", "parts": [{"text": "do it"}]},
                {"role": "model", "parts": [
                    {"text": "now"},
                    {"functionCall": {"name": "read", "args": args, "id": "c1"},
                     "thoughtSignature": given::gemini_signature("read", &args)},
                    {"functionCall": {"name": "grep", "args": args, "id": "c2"}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "read", "id": "c1",
                                          "response": {"output": "one"}}},
                    {"functionResponse": {"name": "grep", "id": "c2",
                                          "response": {"output": "two"}}},
                    {"text": "go on"},
                ]},
            ],
        }),
    }
}

/// What is done to a good request, and a part of what is then said.
type Bad = (fn(&mut Value), &'static str);

/// Each is refused and counted; the good one passes before and after.
#[track_caller]
fn each_is_refused(protocol: Protocol, bad: &[Bad]) {
    let server = Server::start(|_: &Seen| Answer::text("ok"));
    let passes = || {
        let got = ask(&server, protocol, &good(protocol));
        assert_eq!(got.status, 200, "{}", got.body);
    };
    passes();
    for (count, (damage, said)) in bad.iter().enumerate() {
        let mut body = good(protocol);
        damage(&mut body);
        let got = ask(&server, protocol, &body);
        assert_eq!(got.status, 400, "should be refused ({said}): {body}");
        let message = got.json()["error"]["message"].to_string();
        assert!(message.contains(said), "expected {said:?} in {message}");
        assert_eq!(server.violations().len(), count + 1);
    }
    passes();
    assert_eq!(server.violations().len(), bad.len());
}

fn remove(list: &mut Value, index: usize) {
    list.as_array_mut().expect("a list").remove(index);
}

fn drop_key(object: &mut Value, key: &str) {
    object.as_object_mut().expect("an object").remove(key);
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}

#[test]
fn anthropic_rules() {
    each_is_refused(
        Protocol::Anthropic,
        &[
            (|b| drop_key(b, "model"), "model: Field required"),
            (|b| drop_key(b, "max_tokens"), "max_tokens: Field required"),
            (|b| b["stream"] = false.into(), "only streams"),
            (|b| b["seed"] = 1.into(), "seed: Extra inputs"),
            (|b| b["messages"] = json!([]), "at least one message"),
            (|b| remove(&mut b["messages"], 0), "first message must use"),
            (|b| remove(&mut b["messages"], 1), "roles must alternate"),
            (
                |b| b["messages"][0]["role"] = "system".into(),
                "Unexpected role",
            ),
            (
                |b| b["messages"][0]["content"] = "".into(),
                "must be non-empty",
            ),
            (
                |b| b["messages"][0]["content"] = " \n".into(),
                "non-whitespace",
            ),
            (
                |b| b["messages"][0]["content"] = json!([]),
                "content must be non-empty",
            ),
            (|b| b["system"][0]["text"] = "".into(), "must be non-empty"),
            (
                |b| b["messages"][2]["content"][2]["text"] = "".into(),
                "must be non-empty",
            ),
            (
                |b| b["messages"][2]["content"][2]["signature"] = "".into(),
                "Extra inputs",
            ),
            (
                |b| remove(&mut b["messages"][2]["content"], 1),
                "without `tool_result`",
            ),
            (
                |b| b["messages"][2]["content"] = "no".into(),
                "without `tool_result`",
            ),
            (
                |b| {
                    let text = b["messages"][2]["content"][2].take();
                    remove(&mut b["messages"][2]["content"], 2);
                    b["messages"][2]["content"]
                        .as_array_mut()
                        .unwrap()
                        .insert(0, text);
                },
                "without `tool_result` blocks immediately after",
            ),
            (
                |b| b["messages"][2]["content"][1]["tool_use_id"] = "c9".into(),
                "unexpected `tool_use_id`",
            ),
            (
                |b| b["messages"][2]["content"][1]["tool_use_id"] = "c1".into(),
                "must have a single result",
            ),
            (
                |b| {
                    let late = b["messages"][2]["content"][0].clone();
                    push(&mut b["messages"][2]["content"], late);
                },
                "must come before all other content",
            ),
            (
                |b| b["messages"][1]["content"][3]["id"] = "c1".into(),
                "must be unique",
            ),
            (
                |b| b["messages"][1]["content"][3]["id"] = "c 2".into(),
                "tool_use.id",
            ),
            (
                |b| b["messages"][1]["content"][3]["input"] = "{}".into(),
                "valid dictionary",
            ),
            (
                |b| b["messages"][1]["content"][3]["name"] = "a b".into(),
                "should match",
            ),
            (
                |b| b["messages"][1]["content"][3]["name"] = "nope".into(),
                "not declared",
            ),
            (
                |b| b["messages"][1]["content"][0]["thinking"] = "ha".into(),
                "Invalid `signature`",
            ),
            (
                |b| b["messages"][1]["content"][0]["signature"] = "x".into(),
                "Invalid `signature`",
            ),
            (
                |b| drop_key(&mut b["messages"][1]["content"][0], "signature"),
                "Invalid `signature`",
            ),
            (
                |b| b["messages"][2]["content"][1]["content"] = "".into(),
                "cannot be empty if `is_error`",
            ),
            (
                |b| remove(&mut b["messages"], 2),
                "must end with a user message",
            ),
            (|b| b["tools"][1]["name"] = "read".into(), "must be unique"),
            (
                |b| b["tools"][1]["name"] = "re.ad".into(),
                "should match pattern",
            ),
            (|b| b["tools"][1]["input_schema"] = json!({}), "type"),
            (
                |b| drop_key(&mut b["tools"][1], "input_schema"),
                "input_schema: Field required",
            ),
            (
                |b| {
                    for block in b["messages"][1]["content"].as_array_mut().unwrap() {
                        block["cache_control"] = json!({"type": "ephemeral"});
                    }
                },
                "maximum of 4 blocks with cache_control may be provided. Found 5",
            ),
            (
                |b| {
                    b["messages"][1]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
                },
                "thinking.cache_control",
            ),
            (
                |b| {
                    let image = json!({"type": "image", "source": {
                        "type": "base64", "media_type": "image/bmp", "data": "AAAA"}});
                    push(&mut b["messages"][2]["content"], image);
                },
                "media_type",
            ),
        ],
    );
}

#[test]
fn chat_rules() {
    each_is_refused(
        Protocol::Chat,
        &[
            (|b| drop_key(b, "model"), "model parameter"),
            (|b| drop_key(b, "stream"), "only streams"),
            (
                |b| b["thinking"] = 1.into(),
                "Unrecognized request argument",
            ),
            (
                |b| {
                    b["max_tokens"] = 1.into();
                    b["max_completion_tokens"] = 1.into();
                },
                "at the same time",
            ),
            (|b| b["tools"] = json!([]), "empty array"),
            (
                |b| b["tools"][1]["function"]["name"] = "read".into(),
                "must be unique",
            ),
            (
                |b| b["tools"][1]["function"]["name"] = "".into(),
                "should match pattern",
            ),
            (|b| b["messages"] = json!([]), "at least one message"),
            (
                |b| remove(&mut b["messages"], 1),
                "first message must be of the user",
            ),
            (
                |b| push(&mut b["messages"], json!({"role": "user", "content": "x"})),
                "roles must alternate",
            ),
            (
                |b| {
                    let answer = json!({"role": "assistant", "content": "x"});
                    push(&mut b["messages"], answer.clone());
                    push(&mut b["messages"], answer);
                },
                "roles must alternate",
            ),
            (
                |b| {
                    push(
                        &mut b["messages"],
                        json!({"role": "system", "content": "x"}),
                    )
                },
                "must be at the beginning",
            ),
            (
                |b| {
                    push(
                        &mut b["messages"],
                        json!({"role": "assistant", "content": "x"}),
                    )
                },
                "last message must be",
            ),
            (
                |b| b["messages"][1]["content"] = "".into(),
                "must not be empty",
            ),
            (
                |b| b["messages"][1]["content"] = Value::Null,
                "expected a string",
            ),
            (
                |b| b["messages"][5]["content"][0]["text"] = "".into(),
                "must not be empty",
            ),
            (
                |b| b["messages"][2]["content"] = "".into(),
                "must not be empty",
            ),
            (
                |b| b["messages"][1]["role"] = "human".into(),
                "Supported values",
            ),
            (
                |b| b["messages"][2]["tool_calls"] = json!([]),
                "empty array",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["id"] = "c00000001".into(),
                "must be unique",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["id"] = "".into(),
                "is empty",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["id"] = "call_1_1".into(),
                "with a length of 9",
            ),
            (
                |b| drop_key(&mut b["messages"][2]["tool_calls"][1], "type"),
                "Missing required",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["function"]["name"] = "x".into(),
                "not declared",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["function"]["arguments"] = "{".into(),
                "Failed to parse",
            ),
            (
                |b| b["messages"][2]["tool_calls"][1]["function"]["arguments"] = json!({}),
                "Failed to parse",
            ),
            (
                |b| remove(&mut b["messages"], 4),
                "did not have response messages: c00000002",
            ),
            (
                |b| {
                    remove(&mut b["messages"], 5);
                    remove(&mut b["messages"], 4);
                },
                "did not have response messages: c00000002",
            ),
            (
                |b| b["messages"][4]["tool_call_id"] = "c00000001".into(),
                "Duplicate value",
            ),
            (
                |b| b["messages"][4]["tool_call_id"] = "c00000009".into(),
                "must be a response to",
            ),
            (
                |b| b["messages"].as_array_mut().unwrap().swap(4, 5),
                "did not have response",
            ),
            (
                |b| {
                    let image = json!({"type": "image_url", "image_url": {"url": "file:///a"}});
                    push(&mut b["messages"][5]["content"], image);
                },
                "image_url",
            ),
        ],
    );
}

#[test]
fn responses_rules() {
    each_is_refused(
        Protocol::Responses,
        &[
            (|b| drop_key(b, "model"), "model"),
            (|b| drop_key(b, "stream"), "only streams"),
            (|b| b["messages"] = json!([]), "Unknown parameter"),
            (|b| b["previous_response_id"] = "resp_1".into(), "not found"),
            (|b| b["max_output_tokens"] = 8.into(), ">= 16"),
            (|b| b["tools"][1]["name"] = "read".into(), "must be unique"),
            (
                |b| b["tools"][1]["name"] = "a b".into(),
                "should match pattern",
            ),
            (
                |b| drop_key(b, "input"),
                "Missing required parameter: 'input'",
            ),
            (
                |b| remove(&mut b["input"], 0),
                "first item must be of the user",
            ),
            (
                |b| {
                    push(
                        &mut b["input"],
                        json!({"role": "assistant", "content": "x"}),
                    )
                },
                "last item must be",
            ),
            (
                |b| push(&mut b["input"], json!({"role": "system", "content": "x"})),
                "come first",
            ),
            (
                |b| b["input"][0]["content"][0]["text"] = "".into(),
                "must not be empty",
            ),
            (
                |b| b["input"][0]["content"][0]["type"] = "text".into(),
                "Supported values",
            ),
            (
                |b| b["input"][2]["content"][0]["type"] = "input_text".into(),
                "Supported values",
            ),
            (
                |b| b["input"][7]["content"] = "".into(),
                "must not be empty",
            ),
            (|b| b["input"][7]["role"] = "tool".into(), "Invalid value"),
            (|b| b["input"][4]["call_id"] = "c1".into(), "must be unique"),
            (|b| b["input"][4]["name"] = "x".into(), "not declared"),
            (
                |b| b["input"][4]["arguments"] = "[".into(),
                "not a JSON object",
            ),
            (
                |b| b["input"][4]["id"] = "call_1".into(),
                "begins with 'fc'",
            ),
            (
                |b| remove(&mut b["input"], 6),
                "No tool output found for function call c2",
            ),
            (
                |b| b["input"][6]["call_id"] = "c1".into(),
                "Duplicate output",
            ),
            (
                |b| b["input"][6]["call_id"] = "c9".into(),
                "No tool call found",
            ),
            (|b| remove(&mut b["input"], 4), "No tool call found"),
            (
                |b| b["input"].as_array_mut().unwrap().swap(6, 7),
                "No tool output found",
            ),
            (
                |b| drop_key(&mut b["input"][6], "output"),
                "'input[6].output'",
            ),
            (
                |b| b["input"][1]["encrypted_content"] = "x".into(),
                "could not be verified",
            ),
            (
                |b| b["input"][1]["summary"][0]["text"] = "ha".into(),
                "could not be verified",
            ),
            (
                |b| drop_key(&mut b["input"][1], "encrypted_content"),
                "not persisted",
            ),
            (
                |b| drop_key(&mut b["input"][1], "summary"),
                "input[1].summary",
            ),
            (|b| b["input"][1]["id"] = "1".into(), "begins with 'rs_'"),
            (
                |b| {
                    let thought = b["input"][1].clone();
                    push(&mut b["input"], thought);
                },
                "without its required following item",
            ),
            (
                |b| {
                    let thought = b["input"][1].clone();
                    b["input"].as_array_mut().unwrap().insert(7, thought);
                },
                "without its required following item",
            ),
        ],
    );
}

#[test]
fn gemini_rules() {
    each_is_refused(
        Protocol::Gemini,
        &[
            (|b| b["model"] = "x".into(), "Cannot find field"),
            (|b| drop_key(b, "contents"), "contents is not specified"),
            (
                |b| remove(&mut b["contents"], 0),
                "first content must be of the user",
            ),
            (|b| remove(&mut b["contents"], 1), "requests alternate"),
            (|b| remove(&mut b["contents"], 2), "last content"),
            (
                |b| b["contents"][1]["role"] = "assistant".into(),
                "valid role",
            ),
            (
                |b| b["contents"][0]["parts"] = json!([]),
                "parts must not be empty",
            ),
            (
                |b| b["contents"][0]["parts"][0]["text"] = "".into(),
                "empty text",
            ),
            (|b| b["contents"][0]["parts"][0] = json!({}), "oneof field"),
            (
                |b| b["contents"][0]["parts"][0]["inlineData"] = json!({"data": "AAAA"}),
                "oneof field",
            ),
            (
                |b| b["contents"][0]["parts"][0]["id"] = "x".into(),
                "Cannot find field",
            ),
            (
                |b| b["systemInstruction"]["parts"][0]["text"] = "".into(),
                "systemInstruction",
            ),
            (
                |b| remove(&mut b["contents"][2]["parts"], 1),
                "number of function response parts",
            ),
            (
                |b| {
                    let again = b["contents"][2]["parts"][1].clone();
                    push(&mut b["contents"][2]["parts"], again);
                },
                "number of function response parts",
            ),
            (
                |b| b["contents"][2]["parts"].as_array_mut().unwrap().swap(0, 1),
                "answers no call",
            ),
            (
                |b| b["contents"][2]["parts"].as_array_mut().unwrap().swap(1, 2),
                "before all other parts",
            ),
            (
                |b| b["contents"][2]["parts"][1]["functionResponse"]["name"] = "x".into(),
                "answers no call",
            ),
            (
                |b| b["contents"][2]["parts"][1]["functionResponse"]["id"] = "c1".into(),
                "does not match",
            ),
            (
                |b| b["contents"][2]["parts"][1]["functionResponse"]["response"] = "two".into(),
                "google.protobuf.Struct",
            ),
            (
                |b| b["contents"][1]["parts"][2]["functionCall"]["id"] = "c1".into(),
                "must be unique",
            ),
            (
                |b| b["contents"][1]["parts"][2]["functionCall"]["name"] = "x".into(),
                "not declared",
            ),
            (
                |b| b["contents"][1]["parts"][2]["functionCall"]["args"] = "{}".into(),
                "google.protobuf.Struct",
            ),
            (
                |b| drop_key(&mut b["contents"][1]["parts"][1], "thoughtSignature"),
                "missing a thought_signature",
            ),
            (
                |b| b["contents"][1]["parts"][1]["thoughtSignature"] = "AAAA".into(),
                "signature is not valid",
            ),
            (
                |b| b["contents"][1]["parts"][1]["functionCall"]["args"] = json!({"path": "b"}),
                "signature is not valid",
            ),
            (
                |b| {
                    let signature = b["contents"][1]["parts"][1]["thoughtSignature"].clone();
                    b["contents"][1]["parts"][2]["thoughtSignature"] = signature;
                },
                "signature is not valid",
            ),
            (
                |b| b["contents"][1]["parts"][0]["thoughtSignature"] = "AAAA".into(),
                "signature is not valid",
            ),
            (
                |b| b["tools"][0]["functionDeclarations"][1]["name"] = "read".into(),
                "must be unique",
            ),
            (
                |b| b["tools"][0]["functionDeclarations"][1]["name"] = "1read".into(),
                "Invalid function name",
            ),
            (
                |b| {
                    let schema = &mut b["tools"][0]["functionDeclarations"][0]["parameters"];
                    schema["additionalProperties"] = false.into();
                },
                "additionalProperties",
            ),
            (
                |b| {
                    let schema = &mut b["tools"][0]["functionDeclarations"][0]["parameters"];
                    schema["properties"]["path"]["type"] = json!(["string", "null"]);
                },
                "not repeating",
            ),
        ],
    );
}

#[test]
fn a_request_needs_a_key_a_path_and_json() {
    let server = Server::start(|_: &Seen| Answer::text("ok"));
    let bodiless = [
        (Protocol::Anthropic, 401, "authentication_error"),
        (Protocol::Chat, 401, "API key"),
        (Protocol::Responses, 401, "API key"),
        (Protocol::Gemini, 403, "PERMISSION_DENIED"),
    ];
    for (protocol, status, said) in bodiless {
        let got = send(&server, path(protocol), "", &good(protocol).to_string());
        assert_eq!(got.status, status);
        assert!(got.body.contains(said), "{}", got.body);
        let got = send(&server, path(protocol), headers(protocol), "{\"model\":");
        assert_eq!(got.status, 400);
    }
    let no_version = "x-api-key: k\r\n";
    let body = good(Protocol::Anthropic).to_string();
    assert_eq!(send(&server, "/v1/messages", no_version, &body).status, 400);
    assert_eq!(
        send(&server, "/messages", headers(Protocol::Anthropic), &body).status,
        404
    );
    assert_eq!(server.violations().len(), 10);
}

#[test]
fn a_wrong_key_is_refused_without_blaming_the_form() {
    let options = Options {
        key: Some("another".into()),
        ..Options::default()
    };
    let server = Server::start_with(options, |_: &Seen| Answer::text("ok"));
    for protocol in Protocol::ALL {
        assert_eq!(ask(&server, protocol, &good(protocol)).status, 401);
    }
    server.assert_no_violations();
}

#[test]
fn a_server_without_keys_wants_none() {
    let options = Options {
        keyless: true,
        ..Options::default()
    };
    let server = Server::start_with(options, |_: &Seen| Answer::text("ok"));
    for protocol in Protocol::ALL {
        let without = match protocol {
            Protocol::Anthropic => "anthropic-version: 2023-06-01\r\n",
            _ => "",
        };
        let body = good(protocol).to_string();
        assert_eq!(send(&server, path(protocol), without, &body).status, 200);
        assert_eq!(ask(&server, protocol, &good(protocol)).status, 400);
    }
    assert_eq!(server.violations().len(), 4);
}

#[test]
fn a_script_sees_the_conversation_in_every_protocol() {
    for protocol in Protocol::ALL {
        let server = Server::start(move |seen: &Seen| {
            assert_eq!(seen.turn, 1);
            assert_eq!(seen.model, "test-model");
            assert!(seen.system.contains("be good"));
            assert_eq!(seen.user, "go on");
            let (one, two) = match protocol {
                Protocol::Chat => ("c00000001", "c00000002"),
                _ => ("c1", "c2"),
            };
            let results = [(one.into(), "one".into()), (two.into(), "two".into())];
            assert_eq!(seen.results, results);
            assert_eq!(seen.tools, ["read", "grep"]);
            Answer::text("ok")
        });
        ask(&server, protocol, &good(protocol));
        server.assert_no_violations();
    }
}

/// Text, thinking and the calls of a stream, put together again.
fn heard(protocol: Protocol, events: &[Value]) -> (String, String, Vec<(String, String)>) {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for event in events {
        let string = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        match protocol {
            Protocol::Anthropic => {
                text += string("/delta/text");
                thinking += string("/delta/thinking");
                if string("/content_block/type") == "tool_use" {
                    calls.push((string("/content_block/name").to_string(), String::new()));
                }
                if let Some((_, arguments)) = calls.last_mut() {
                    *arguments += string("/delta/partial_json");
                }
            }
            Protocol::Chat => {
                text += string("/choices/0/delta/content");
                thinking += string("/choices/0/delta/reasoning_content");
                let name = string("/choices/0/delta/tool_calls/0/function/name");
                if !name.is_empty() {
                    calls.push((name.to_string(), String::new()));
                }
                if let Some((_, arguments)) = calls.last_mut() {
                    *arguments += string("/choices/0/delta/tool_calls/0/function/arguments");
                }
            }
            Protocol::Responses => match string("/type") {
                "response.output_text.delta" => text += string("/delta"),
                "response.reasoning_summary_text.delta" => thinking += string("/delta"),
                "response.function_call_arguments.delta" => {
                    calls.last_mut().expect("a call").1 += string("/delta");
                }
                "response.output_item.added" if string("/item/type") == "function_call" => {
                    calls.push((string("/item/name").to_string(), String::new()));
                }
                _ => {}
            },
            Protocol::Gemini => {
                for part in event["candidates"][0]["content"]["parts"]
                    .as_array()
                    .unwrap()
                {
                    let said = part["text"].as_str().unwrap_or("");
                    match part["thought"] == true {
                        true => thinking += said,
                        false => text += said,
                    }
                    if let Some(call) = part.get("functionCall") {
                        let name = call["name"].as_str().unwrap_or("");
                        calls.push((name.to_string(), call["args"].to_string()));
                    }
                }
            }
        }
    }
    (text, thinking, calls)
}

fn first_request(protocol: Protocol) -> Value {
    let mut body = good(protocol);
    let key = match protocol {
        Protocol::Anthropic | Protocol::Chat => "messages",
        Protocol::Responses => "input",
        Protocol::Gemini => "contents",
    };
    let keep = if protocol == Protocol::Chat { 2 } else { 1 };
    body[key].as_array_mut().unwrap().truncate(keep);
    if protocol == Protocol::Gemini {
        body["generationConfig"] = json!({"thinkingConfig": {"includeThoughts": true}});
    }
    body
}

#[test]
fn an_answer_is_streamed_whole_in_every_protocol() {
    let arguments = json!({"path": "ä \"quoted\" and long enough to be sent in several pieces"});
    let says = Says::text("héllo, this text is long enough for more than one event")
        .thinking("let me see")
        .and_call("read", arguments.clone())
        .and_call("grep", arguments.clone());
    for protocol in Protocol::ALL {
        let server = Server::start(list(vec![says.clone().into()]));
        let got = ask(&server, protocol, &first_request(protocol));
        assert_eq!(got.status, 200);
        assert!(got.head.contains("text/event-stream"));
        let (text, thinking, calls) = heard(protocol, &got.events());
        assert_eq!((text, thinking), (says.text.clone(), says.thinking.clone()));
        let names: Vec<_> = calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read", "grep"], "{}", protocol.name());
        for (_, sent) in calls {
            assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), arguments);
        }
        let proof = match protocol {
            Protocol::Anthropic => given::anthropic_signature("let me see"),
            Protocol::Chat => "[DONE]".to_string(),
            Protocol::Responses => given::responses_encrypted("let me see"),
            Protocol::Gemini => given::gemini_signature("read", &arguments),
        };
        assert!(got.body.contains(&proof), "{}", got.body);
        server.assert_no_violations();
    }
}

#[test]
fn stop_reasons_are_reported_in_the_terms_of_the_protocol() {
    let said = |protocol, stop| {
        let says = Says {
            stop: Some(stop),
            ..Says::text("x")
        };
        let server = Server::start(list(vec![says.into()]));
        ask(&server, protocol, &first_request(protocol)).body
    };
    let words = [
        (Protocol::Anthropic, "\"max_tokens\"", "\"refusal\""),
        (Protocol::Chat, "\"length\"", "\"content_filter\""),
        (
            Protocol::Responses,
            "\"max_output_tokens\"",
            "\"content_filter\"",
        ),
        (Protocol::Gemini, "\"MAX_TOKENS\"", "\"SAFETY\""),
    ];
    for (protocol, cut, refused) in words {
        assert!(said(protocol, Stop::MaxTokens).contains(cut));
        assert!(said(protocol, Stop::Refusal).contains(refused));
    }
}

#[test]
fn a_prompt_over_the_limit_gets_the_protocols_own_error() {
    let expected = [
        (Protocol::Anthropic, 400, "tokens > 100 maximum"),
        (Protocol::Chat, 400, "maximum context length is 100 tokens"),
        (Protocol::Responses, 200, "context_length_exceeded"),
        (
            Protocol::Gemini,
            400,
            "maximum number of tokens allowed (100)",
        ),
    ];
    for (protocol, status, said) in expected {
        let options = Options {
            limit_tokens: Some(100),
            ..Options::default()
        };
        let server = Server::start_with(options, |_: &Seen| Answer::text("ok"));
        let got = ask(&server, protocol, &good(protocol));
        assert_eq!(got.status, status);
        assert!(got.body.contains(said), "{}", got.body);
        assert!(server.requests()[0].too_long);
        server.assert_no_violations();
    }
}

#[test]
fn an_error_says_when_to_come_again() {
    for protocol in Protocol::ALL {
        let server = Server::start(|_: &Seen| Answer::Error {
            status: 429,
            message: "slow down".into(),
            retry_after_secs: Some(7),
        });
        let got = ask(&server, protocol, &good(protocol));
        assert_eq!(got.status, 429);
        match protocol {
            Protocol::Gemini => assert!(got.body.contains("\"retryDelay\":\"7s\"")),
            _ => assert!(got.head.contains("retry-after: 7")),
        }
    }
}

#[test]
fn a_stream_can_be_cut_and_slow() {
    let server = Server::start(|seen: &Seen| match seen.protocol {
        Protocol::Chat => Answer::Cut {
            says: Says::text("a text that will not arrive as a whole"),
            after_bytes: 100,
        },
        _ => Answer::Slow {
            says: Says::text("slowly"),
            chunk_bytes: 200,
            delay_ms: 0,
        },
    });
    let cut = ask(&server, Protocol::Chat, &good(Protocol::Chat));
    assert_eq!(cut.body.len(), 100);
    let slow = ask(&server, Protocol::Anthropic, &good(Protocol::Anthropic));
    assert_eq!(heard(Protocol::Anthropic, &slow.events()).0, "slowly");
}

#[test]
fn data_may_follow_the_end_of_an_answer() {
    let server = Server::start(|_: &Seen| Answer::Tail {
        says: Says::text("whole"),
        tail: "data: and more\n\n".into(),
    });
    for protocol in Protocol::ALL {
        let got = ask(&server, protocol, &good(protocol));
        assert!(got.body.ends_with("data: and more\n\n"), "{}", got.body);
    }
}

#[test]
fn a_tool_that_the_model_invented_may_stay_in_the_history() {
    let server = Server::start(list(vec![
        Answer::call("launch", json!({})),
        Answer::text("ok"),
    ]));
    let mut body = good(Protocol::Anthropic);
    body["messages"][1]["content"][3]["name"] = "launch".into();
    assert_eq!(ask(&server, Protocol::Anthropic, &body).status, 400);
    ask(
        &server,
        Protocol::Anthropic,
        &first_request(Protocol::Anthropic),
    );
    assert_eq!(ask(&server, Protocol::Anthropic, &body).status, 200);
}

#[test]
fn with_thinking_on_the_last_answer_keeps_its_thinking() {
    let args = json!({"path": "a"});
    let says = Says::default().thinking("hm");
    let says = says.and_call("read", args.clone()).and_call("grep", args);
    let server = Server::start(list(vec![says.into(), Answer::text("ok")]));
    ask(
        &server,
        Protocol::Anthropic,
        &first_request(Protocol::Anthropic),
    );
    let mut body = good(Protocol::Anthropic);
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 500});
    assert_eq!(ask(&server, Protocol::Anthropic, &body).status, 200);
    remove(&mut body["messages"][1]["content"], 0);
    let got = ask(&server, Protocol::Anthropic, &body);
    assert!(got.body.contains("Expected `thinking`"), "{}", got.body);
    drop_key(&mut body, "thinking");
    assert_eq!(ask(&server, Protocol::Anthropic, &body).status, 200);
}

#[test]
fn the_log_knows_how_much_of_a_prompt_is_as_before() {
    let server = Server::start(|_: &Seen| Answer::text("ok"));
    let body = |mark: &str| {
        format!(
            r#"{{"max_tokens":9,"model":"m","stream":true,"messages":[{{"role":"user","content":[{{"type":"text","text":"a"{mark}}}]}}]}}"#
        )
    };
    let marked = body(r#","cache_control":{"type":"ephemeral"}"#);
    for text in [&marked, &body(""), &body(r#","citations":null"#)] {
        let got = send(&server, "/v1/messages", headers(Protocol::Anthropic), text);
        assert_eq!(got.status, 200, "{}", got.body);
    }
    let log = server.requests();
    assert_eq!(log[0].same_prefix, 0);
    assert_eq!(log[0].bytes, marked.len());
    assert_eq!(log[1].same_prefix, body("").len(), "a mark is no change");
    assert!(log[2].same_prefix < log[2].former_bytes);
}

#[test]
fn a_script_that_panics_is_a_violation() {
    let server = Server::start(|_: &Seen| panic!("out of words"));
    assert_eq!(
        ask(&server, Protocol::Chat, &good(Protocol::Chat)).status,
        400
    );
    assert_eq!(server.violations(), ["the script panicked: out of words"]);
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
#[should_panic(expected = "still running")]
fn a_child_that_does_not_end_fails_the_test() {
    run(shell("exec sleep 60"), Duration::from_millis(30));
}
