//! OpenAI Chat Completions: <https://platform.openai.com/docs/api-reference/chat>.
//!
//! Checked as strictly as the strictest of the compatible servers: their chat templates want
//! the system's messages first and users and answers in turn, and parse the arguments.

use serde_json::{Value, json};

use super::answer::{Says, Stop};
use super::http::Head;
use super::rules::*;
use super::server::Turn;

pub const PATH: &str = "/v1/chat/completions";

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "seed",
    "user",
    "metadata",
    "store",
    "reasoning_effort",
    "response_format",
    "prompt_cache_key",
    "service_tier",
    "safety_identifier",
    "verbosity",
];

pub fn check(head: &Head, body: &Value, memory: &Memory) -> Result<View, Fault> {
    bearer(head)?;
    if let Some(field) = unknown_field(body, FIELDS) {
        demand!(false, "Unrecognized request argument supplied: {field}");
    }
    demand!(
        !text_of(body, "model").is_empty(),
        "you must provide a model parameter"
    );
    demand!(body["stream"] == true, "this server only streams");
    demand!(
        body.get("max_tokens").is_none() || body.get("max_completion_tokens").is_none(),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    );
    let mut view = View {
        model: text_of(body, "model").to_string(),
        ..View::default()
    };
    for tool in list_of(body, "tools") {
        demand!(tool["type"] == "function", "Invalid value: 'tools[].type'");
        let function = &tool["function"];
        check_tool(
            &mut view.tools,
            text_of(function, "name"),
            function.get("parameters"),
        )?;
        check_properties(text_of(function, "name"), function.get("parameters"))?;
    }
    demand!(
        body.get("tools").is_none() || !view.tools.is_empty(),
        "Invalid 'tools': empty array. Expected an array with minimum length 1"
    );
    messages(list_of(body, "messages"), memory, &mut view)?;
    Ok(view)
}

pub fn bearer(head: &Head) -> Result<(), Fault> {
    match head.bearer() {
        Some(key) if !key.is_empty() => Ok(()),
        _ => Err(Fault::new(
            401,
            "You didn't provide an API key. You need to provide your API key in an \
             Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )),
    }
}

fn messages(messages: &[Value], memory: &Memory, view: &mut View) -> Result<(), Fault> {
    let mut calls = Calls::default();
    let mut systems = Vec::new();
    let mut before = "system";
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages.[{i}]");
        let role = text_of(message, "role");
        if role != "tool" {
            demand!(
                calls.open().is_empty(),
                "An assistant message with 'tool_calls' must be followed by tool messages \
                 responding to each 'tool_call_id'. The following tool_call_ids did not have \
                 response messages: {}",
                calls.open().join(", ")
            );
        }
        match role {
            "system" | "developer" => {
                demand!(
                    before == "system",
                    "System message must be at the beginning."
                );
                systems.push(content(&at, message)?);
            }
            "user" => {
                demand!(
                    before != "user",
                    "Conversation roles must alternate user/assistant/user"
                );
                view.user = content(&at, message)?;
            }
            "assistant" => {
                demand!(
                    before != "system",
                    "{at}: the first message must be of the user"
                );
                demand!(
                    before != "assistant",
                    "Conversation roles must alternate user/assistant/user"
                );
                assistant(&at, message, &mut calls, memory, view)?;
                view.turn += 1;
            }
            "tool" => result(&at, message, &mut calls, view)?,
            _ => demand!(
                false,
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', \
                 'tool', and 'developer'."
            ),
        }
        before = if role == "developer" { "system" } else { role };
    }
    demand!(
        before != "system",
        "messages: at least one message of the user is needed"
    );
    demand!(
        before != "assistant",
        "messages: the last message must be of the user or a tool"
    );
    demand!(
        calls.open().is_empty(),
        "An assistant message with 'tool_calls' must be followed by tool messages responding \
         to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        calls.open().join(", ")
    );
    view.system = systems.join("\n\n");
    Ok(())
}

/// The text of a message: a string, or parts of which none may be empty.
fn content(at: &str, message: &Value) -> Result<String, Fault> {
    let mut texts = Vec::new();
    match &message["content"] {
        Value::String(text) => {
            demand!(!text.is_empty(), "{at}.content: text must not be empty");
            texts.push(text.as_str());
        }
        Value::Array(parts) => {
            demand!(!parts.is_empty(), "Invalid '{at}.content': empty array.");
            for part in parts {
                match text_of(part, "type") {
                    "text" => {
                        let text = text_of(part, "text");
                        demand!(!text.is_empty(), "{at}.content: text must not be empty");
                        texts.push(text);
                    }
                    "image_url" => {
                        demand!(
                            message["role"] == "user",
                            "Invalid content type. image_url is only supported by user messages."
                        );
                        check_image_url(text_of(&part["image_url"], "url"))?;
                    }
                    other => demand!(false, "Invalid value: '{other}' in '{at}.content'"),
                }
            }
        }
        _ => demand!(
            false,
            "Invalid value for 'content': expected a string, got {}.",
            message["content"]
        ),
    }
    Ok(texts.join("\n"))
}

fn assistant(
    at: &str,
    message: &Value,
    calls: &mut Calls,
    memory: &Memory,
    view: &View,
) -> Result<(), Fault> {
    let made = list_of(message, "tool_calls");
    demand!(
        message.get("tool_calls").is_none() || !made.is_empty(),
        "Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1"
    );
    if made.is_empty() || !message["content"].is_null() {
        content(at, message)?;
    }
    for call in made {
        let function = &call["function"];
        demand!(
            call["type"] == "function",
            "Missing required parameter: '{at}.tool_calls[].type'"
        );
        check_called(text_of(function, "name"), &view.tools, memory)?;
        let arguments = serde_json::from_str::<Value>(text_of(function, "arguments"));
        demand!(
            arguments.is_ok_and(|a| a.is_object()),
            "{at}.tool_calls: Failed to parse tool call arguments as JSON"
        );
        let id = text_of(call, "id");
        calls.ask(id)?;
        // Mistral's rule.
        demand!(
            id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
        );
    }
    Ok(())
}

fn result(at: &str, message: &Value, calls: &mut Calls, view: &mut View) -> Result<(), Fault> {
    let id = text_of(message, "tool_call_id");
    match calls.answer(id) {
        Ok(()) => {}
        Err(Misplaced::Twice) => demand!(false, "Duplicate value for 'tool_call_id' of '{id}'"),
        Err(Misplaced::Orphan) => demand!(
            false,
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
             message with 'tool_calls'."
        ),
    }
    // A tool may print nothing.
    let text = match message["content"].as_str() {
        Some(text) => text.to_string(),
        None => content(at, message)?,
    };
    view.results.push((id.to_string(), text));
    Ok(())
}

/// The shape of both OpenAI protocols.
pub fn error(fault: &Fault) -> Value {
    let kind = match fault.status {
        429 => "requests",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let code = fault.code.or(match fault.status {
        401 => Some("invalid_api_key"),
        429 => Some("rate_limit_exceeded"),
        _ => None,
    });
    json!({"error": {
        "message": fault.message, "type": kind, "param": fault.param, "code": code,
    }})
}

pub fn too_long(tokens: u64, limit: u64) -> Fault {
    Fault {
        param: Some("messages"),
        code: Some("context_length_exceeded"),
        ..Fault::new(
            400,
            format!(
                "This model's maximum context length is {limit} tokens. However, your messages \
                 resulted in {tokens} tokens. Please reduce the length of the messages."
            ),
        )
    }
}

pub fn render(says: &Says, turn: &Turn) -> String {
    let mut out = String::new();
    let id = format!("chatcmpl-{}", turn.number);
    let mut chunk = |choices: Value, usage: Value| {
        let data = json!({
            "id": id, "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": turn.model, "system_fingerprint": "fp_test",
            "choices": choices, "usage": usage,
        });
        out.push_str(&format!("data: {data}\n\n"));
    };
    let delta = |delta: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]);
    chunk(
        delta(json!({"role": "assistant", "content": ""})),
        Value::Null,
    );
    for piece in says.pieces(&says.thinking) {
        chunk(delta(json!({"reasoning_content": piece})), Value::Null);
    }
    for piece in says.pieces(&says.text) {
        chunk(delta(json!({"content": piece})), Value::Null);
    }
    for (index, call) in says.calls.iter().enumerate() {
        let id = call
            .id
            .clone()
            .unwrap_or(format!("call_{}_{index}", turn.number));
        let first = json!({
            "index": index, "id": id, "type": "function",
            "function": {"name": call.name, "arguments": ""},
        });
        chunk(delta(json!({"tool_calls": [first]})), Value::Null);
        for piece in says.pieces(&call.arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            chunk(delta(json!({"tool_calls": [more]})), Value::Null);
        }
    }
    let reason = match says.stop() {
        Stop::EndTurn => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
    };
    let end = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]);
    chunk(end, Value::Null);
    if turn.wants("/stream_options/include_usage") {
        chunk(json!([]), usage(turn));
    }
    out.push_str("data: [DONE]\n\n");
    out
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "prompt_tokens": tokens.prompt(),
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt() + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}
