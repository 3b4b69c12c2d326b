//! OpenAI Responses: <https://platform.openai.com/docs/api-reference/responses>, without a
//! store on the server: every request brings the whole history.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::answer::{Says, Stop};
use super::chat::bearer;
use super::http::Head;
use super::rules::*;
use super::seal::{digest, open, seal};
use super::server::Turn;

pub const PATH: &str = "/v1/responses";
const SEAL: &str = "responses";

const FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "store",
    "include",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "temperature",
    "text",
    "top_p",
    "text",
    "truncation",
    "user",
    "metadata",
    "prompt_cache_key",
    "service_tier",
    "safety_identifier",
    "prompt_cache_retention",
];

pub fn check(head: &Head, body: &Value, memory: &Memory) -> Result<View, Fault> {
    bearer(head)?;
    demand!(
        body.get("previous_response_id").is_none(),
        "Previous response with id '{}' not found.",
        text_of(body, "previous_response_id")
    );
    if let Some(field) = unknown_field(body, FIELDS) {
        demand!(false, "Unknown parameter: '{field}'.");
    }
    demand!(
        !text_of(body, "model").is_empty(),
        "Missing required parameter: 'model'."
    );
    demand!(body["stream"] == true, "this server only streams");
    let room = body.get("max_output_tokens").and_then(Value::as_u64);
    demand!(
        room.is_none_or(|tokens| tokens >= 16),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
    );
    let mut view = View {
        model: text_of(body, "model").to_string(),
        system: text_of(body, "instructions").to_string(),
        ..View::default()
    };
    for tool in list_of(body, "tools") {
        demand!(tool["type"] == "function", "Invalid value: 'tools[].type'");
        check_tool(
            &mut view.tools,
            text_of(tool, "name"),
            tool.get("parameters"),
        )?;
        check_properties(text_of(tool, "name"), tool.get("parameters"))?;
    }
    input(&items(body)?, body["store"] == false, memory, &mut view)?;
    Ok(view)
}

fn items(body: &Value) -> Result<Cow<'_, [Value]>, Fault> {
    match &body["input"] {
        Value::String(text) => Ok(Cow::Owned(vec![json!({"role": "user", "content": text})])),
        Value::Array(items) if !items.is_empty() => Ok(Cow::Borrowed(items)),
        _ => Err(Fault::new(400, "Missing required parameter: 'input'.")),
    }
}

/// What an item is in a conversation.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    System,
    User,
    Said,
    Reasoning,
    Call,
    Output,
}

impl Kind {
    fn is_answer(self) -> bool {
        matches!(self, Kind::Said | Kind::Reasoning | Kind::Call)
    }
}

fn kind_of(at: &str, item: &Value) -> Result<Kind, Fault> {
    let kind = item.get("type").and_then(Value::as_str);
    let role = text_of(item, "role");
    Ok(match (kind.unwrap_or("message"), role) {
        ("message", "user") => Kind::User,
        ("message", "assistant") => Kind::Said,
        ("message", "system" | "developer") => Kind::System,
        ("reasoning", _) => Kind::Reasoning,
        ("function_call", _) => Kind::Call,
        ("function_call_output", _) => Kind::Output,
        (kind, role) => {
            return Err(Fault::new(
                400,
                format!("Invalid value: '{at}' has type {kind:?} and role {role:?}"),
            ));
        }
    })
}

fn input(items: &[Value], storeless: bool, memory: &Memory, view: &mut View) -> Result<(), Fault> {
    let mut calls = Calls::default();
    let mut before = Kind::System;
    for (i, item) in items.iter().enumerate() {
        let at = format!("input[{i}]");
        let kind = kind_of(&at, item)?;
        demand!(
            kind.is_answer() || before != Kind::Reasoning,
            "Item '{}' of type 'reasoning' was provided without its required following item.",
            text_of(&items[i.max(1) - 1], "id")
        );
        let stays = before.is_answer() && kind.is_answer();
        if kind != Kind::Output && !stays {
            all_answered(&calls)?;
        }
        if kind.is_answer() && !before.is_answer() {
            demand!(
                before != Kind::System,
                "{at}: the first item must be of the user"
            );
            view.turn += 1;
        }
        match kind {
            Kind::System => {
                demand!(
                    before == Kind::System,
                    "{at}: the system's messages come first"
                );
                let text = content(&at, item, "input_text")?;
                view.system.push_str(&format!("\n\n{text}"));
            }
            Kind::User => view.user = content(&at, item, "input_text")?,
            Kind::Said => {
                content(&at, item, "output_text")?;
                has_prefix(&at, item, "msg")?;
            }
            Kind::Reasoning => reasoning(&at, item, storeless)?,
            Kind::Call => call(&at, item, &mut calls, memory, view)?,
            Kind::Output => output(&at, item, &mut calls, view)?,
        }
        before = kind;
    }
    demand!(
        before != Kind::Reasoning,
        "An item of type 'reasoning' was provided without its required following item."
    );
    all_answered(&calls)?;
    demand!(
        matches!(before, Kind::User | Kind::Output),
        "input: the last item must be of the user or an output"
    );
    Ok(())
}

fn all_answered(calls: &Calls) -> Result<(), Fault> {
    demand!(
        calls.open().is_empty(),
        "No tool output found for function call {}.",
        calls.open().join(", ")
    );
    Ok(())
}

fn has_prefix(at: &str, item: &Value, prefix: &str) -> Result<(), Fault> {
    let id = item.get("id").and_then(Value::as_str);
    demand!(
        id.is_none_or(|id| id.starts_with(prefix)),
        "Invalid '{at}.id': '{}'. Expected an ID that begins with '{prefix}'.",
        text_of(item, "id")
    );
    Ok(())
}

fn content(at: &str, item: &Value, kind: &str) -> Result<String, Fault> {
    let mut texts = Vec::new();
    match &item["content"] {
        Value::String(text) => {
            demand!(!text.is_empty(), "{at}.content: text must not be empty");
            texts.push(text.as_str());
        }
        Value::Array(parts) => {
            demand!(!parts.is_empty(), "Invalid '{at}.content': empty array.");
            for (j, part) in parts.iter().enumerate() {
                match text_of(part, "type") {
                    "input_image" if kind == "input_text" => {
                        check_image_url(text_of(part, "image_url"))?;
                    }
                    found => {
                        demand!(
                            found == kind,
                            "Invalid value: '{found}' in '{at}.content[{j}]'. Supported \
                             values are: '{kind}'."
                        );
                        let text = text_of(part, "text");
                        demand!(
                            !text.is_empty(),
                            "{at}.content[{j}]: text must not be empty"
                        );
                        texts.push(text);
                    }
                }
            }
        }
        _ => demand!(false, "Missing required parameter: '{at}.content'."),
    }
    Ok(texts.join("\n"))
}

fn reasoning(at: &str, item: &Value, storeless: bool) -> Result<(), Fault> {
    has_prefix(at, item, "rs_")?;
    demand!(
        item["summary"].is_array(),
        "Missing required parameter: '{at}.summary'."
    );
    let Some(sealed) = item.get("encrypted_content").and_then(Value::as_str) else {
        demand!(
            !storeless,
            "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
            text_of(item, "id")
        );
        return Ok(());
    };
    let expected = summary(item);
    let opened = open(SEAL, sealed);
    demand!(
        opened.is_some() && (expected.is_empty() || opened == Some(digest(&expected))),
        "The encrypted content for item {} could not be verified.",
        text_of(item, "id")
    );
    Ok(())
}

fn summary(item: &Value) -> String {
    let parts = list_of(item, "summary").iter();
    parts.map(|part| text_of(part, "text")).collect()
}

fn call(
    at: &str,
    item: &Value,
    calls: &mut Calls,
    memory: &Memory,
    view: &View,
) -> Result<(), Fault> {
    has_prefix(at, item, "fc")?;
    check_called(text_of(item, "name"), &view.tools, memory)?;
    let arguments = serde_json::from_str::<Value>(text_of(item, "arguments"));
    demand!(
        arguments.is_ok_and(|a| a.is_object()),
        "Invalid '{at}.arguments': not a JSON object"
    );
    calls.ask(text_of(item, "call_id"))
}

fn output(at: &str, item: &Value, calls: &mut Calls, view: &mut View) -> Result<(), Fault> {
    let id = text_of(item, "call_id");
    match calls.answer(id) {
        Ok(()) => {}
        Err(Misplaced::Twice) => demand!(false, "Duplicate output for function call {id}."),
        Err(Misplaced::Orphan) => demand!(
            false,
            "No tool call found for function call output with call_id {id}."
        ),
    }
    let text = match &item["output"] {
        Value::String(text) => text.clone(),
        Value::Array(_) => {
            let as_message = json!({"content": item["output"]});
            content(at, &as_message, "input_text")?
        }
        _ => {
            return Err(Fault::new(
                400,
                format!("Missing required parameter: '{at}.output'."),
            ));
        }
    };
    view.results.push((id.to_string(), text));
    Ok(())
}

/// A prompt that is too long is only seen when the stream has begun, and without figures.
pub fn too_long(turn: &Turn) -> String {
    let message = "Your input exceeds the context window of this model. Please adjust your \
                   input and try again.";
    let code = "context_length_exceeded";
    let mut out = Stream::default();
    out.event(json!({"type": "response.created", "response": response(turn, "in_progress")}));
    out.event(json!({"type": "error", "error": {
        "type": "invalid_request_error", "code": code, "message": message, "param": "input",
    }}));
    let mut failed = response(turn, "failed");
    failed["error"] = json!({"code": code, "message": message});
    out.event(json!({"type": "response.failed", "response": failed}));
    out.text
}

pub fn encrypted(thinking: &str) -> String {
    seal(SEAL, &digest(thinking))
}

pub fn render(says: &Says, turn: &Turn) -> String {
    let mut out = Stream::default();
    let begun = response(turn, "in_progress");
    out.event(json!({"type": "response.created", "response": begun}));
    out.event(json!({"type": "response.in_progress", "response": begun}));
    if !says.thinking.is_empty() {
        out.reasoning(says, turn);
    }
    if !says.text.is_empty() {
        out.message(says, turn);
    }
    for index in 0..says.calls.len() {
        out.call(says, index, turn);
    }
    let (kind, status, why) = match says.stop() {
        Stop::EndTurn | Stop::ToolUse => ("response.completed", "completed", Value::Null),
        Stop::MaxTokens => (
            "response.incomplete",
            "incomplete",
            json!({"reason": "max_output_tokens"}),
        ),
        Stop::Refusal => (
            "response.incomplete",
            "incomplete",
            json!({"reason": "content_filter"}),
        ),
    };
    let mut end = response(turn, status);
    end["incomplete_details"] = why;
    end["output"] = Value::Array(std::mem::take(&mut out.items));
    end["usage"] = usage(turn);
    out.event(json!({"type": kind, "response": end}));
    out.text
}

fn response(turn: &Turn, status: &str) -> Value {
    json!({
        "id": format!("resp_{}", turn.number), "object": "response",
        "created_at": 1_700_000_000, "status": status, "error": null,
        "incomplete_details": null, "model": turn.model, "output": [], "store": false,
        "usage": null,
    })
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "input_tokens": tokens.prompt(),
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.prompt() + tokens.output,
    })
}

#[derive(Default)]
struct Stream {
    text: String,
    events: usize,
    /// The items that are done: the last event repeats them all.
    items: Vec<Value>,
}

impl Stream {
    fn event(&mut self, mut data: Value) {
        data["sequence_number"] = self.events.into();
        self.events += 1;
        let kind = text_of(&data, "type");
        self.text
            .push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn added(&mut self, item: Value) {
        let index = self.items.len();
        self.event(json!({
            "type": "response.output_item.added", "output_index": index, "item": item,
        }));
    }

    fn done(&mut self, item: Value) {
        let index = self.items.len();
        self.event(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
        self.items.push(item);
    }

    fn reasoning(&mut self, says: &Says, turn: &Turn) {
        let index = self.items.len();
        let id = format!("rs_{}", turn.number);
        let at = |kind: &str| {
            json!({
                "type": kind, "item_id": id, "output_index": index, "summary_index": 0,
            })
        };
        let mut item = json!({"id": id, "type": "reasoning", "summary": []});
        self.added(item.clone());
        let mut part = at("response.reasoning_summary_part.added");
        part["part"] = json!({"type": "summary_text", "text": ""});
        self.event(part);
        for piece in says.pieces(&says.thinking) {
            let mut delta = at("response.reasoning_summary_text.delta");
            delta["delta"] = piece.into();
            self.event(delta);
        }
        let mut text = at("response.reasoning_summary_text.done");
        text["text"] = says.thinking.as_str().into();
        self.event(text);
        let whole = json!({"type": "summary_text", "text": says.thinking});
        let mut part = at("response.reasoning_summary_part.done");
        part["part"] = whole.clone();
        self.event(part);
        item["summary"] = json!([whole]);
        if turn.includes("reasoning.encrypted_content") {
            item["encrypted_content"] = encrypted(&says.thinking).into();
        }
        self.done(item);
    }

    fn message(&mut self, says: &Says, turn: &Turn) {
        let index = self.items.len();
        let id = format!("msg_{}", turn.number);
        let at = |kind: &str| {
            json!({
                "type": kind, "item_id": id, "output_index": index, "content_index": 0,
            })
        };
        self.added(json!({
            "id": id, "type": "message", "status": "in_progress", "role": "assistant",
            "content": [],
        }));
        let mut part = at("response.content_part.added");
        part["part"] = json!({"type": "output_text", "annotations": [], "text": ""});
        self.event(part);
        for piece in says.pieces(&says.text) {
            let mut delta = at("response.output_text.delta");
            delta["delta"] = piece.into();
            self.event(delta);
        }
        let mut text = at("response.output_text.done");
        text["text"] = says.text.as_str().into();
        self.event(text);
        let whole = json!({"type": "output_text", "annotations": [], "text": says.text});
        let mut part = at("response.content_part.done");
        part["part"] = whole.clone();
        self.event(part);
        self.done(json!({
            "id": id, "type": "message", "status": "completed", "role": "assistant",
            "content": [whole],
        }));
    }

    fn call(&mut self, says: &Says, index: usize, turn: &Turn) {
        let call = &says.calls[index];
        let at = self.items.len();
        let id = format!("fc_{}_{index}", turn.number);
        let call_id = call
            .id
            .clone()
            .unwrap_or(format!("call_{}_{index}", turn.number));
        let mut item = json!({
            "id": id, "type": "function_call", "status": "in_progress", "arguments": "",
            "call_id": call_id, "name": call.name,
        });
        self.added(item.clone());
        for piece in says.pieces(&call.arguments) {
            self.event(json!({
                "type": "response.function_call_arguments.delta", "item_id": id,
                "output_index": at, "delta": piece,
            }));
        }
        self.event(json!({
            "type": "response.function_call_arguments.done", "item_id": id,
            "output_index": at, "arguments": call.arguments,
        }));
        item["status"] = "completed".into();
        item["arguments"] = call.arguments.as_str().into();
        self.done(item);
    }
}
