//! Anthropic Messages: <https://docs.anthropic.com/en/api/messages> and its streaming page.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::answer::{Says, Stop, Tokens};
use super::http::Head;
use super::rules::*;
use super::seal::{digest, open, seal};
use super::server::Turn;

pub const PATH: &str = "/v1/messages";
const SEAL: &str = "anthropic";

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "metadata",
    "stop_sequences",
    "temperature",
    "top_k",
    "top_p",
    "service_tier",
    "output_config",
    "context_management",
    "container",
    "mcp_servers",
];

pub fn check(head: &Head, body: &Value, memory: &Memory) -> Result<View, Fault> {
    let key = head.header("x-api-key").or(head.bearer());
    if key.is_none_or(str::is_empty) {
        return Err(Fault::new(401, "x-api-key header is required"));
    }
    demand!(
        head.header("anthropic-version").is_some(),
        "anthropic-version: header is required"
    );
    if let Some(field) = unknown_field(body, FIELDS) {
        demand!(false, "{field}: Extra inputs are not permitted");
    }
    demand!(!text_of(body, "model").is_empty(), "model: Field required");
    let max_tokens = body.get("max_tokens").and_then(Value::as_u64);
    demand!(max_tokens.is_some(), "max_tokens: Field required");
    demand!(
        max_tokens > Some(0),
        "max_tokens: Input should be greater than 0"
    );
    let budget = body
        .pointer("/thinking/budget_tokens")
        .and_then(Value::as_u64);
    demand!(
        budget.is_none() || max_tokens > budget,
        "`max_tokens` must be greater than `thinking.budget_tokens`"
    );
    demand!(body["stream"] == true, "stream: this server only streams");
    let marks = cache_marks(body);
    demand!(
        marks <= 4,
        "A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    );
    let mut view = View {
        model: text_of(body, "model").to_string(),
        system: system(body)?,
        ..View::default()
    };
    for tool in list_of(body, "tools") {
        let schema = tool.get("input_schema");
        demand!(
            schema.is_some(),
            "tools.{}.input_schema: Field required",
            view.tools.len()
        );
        check_tool(&mut view.tools, text_of(tool, "name"), schema)?;
    }
    messages(body, memory, &mut view)?;
    Ok(view)
}

/// Marks anywhere but in what the model wrote or a tool's schema says.
fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(cache_marks).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match key.as_str() {
                "cache_control" => usize::from(!value.is_null()),
                "input" | "input_schema" => 0,
                _ => cache_marks(value),
            })
            .sum(),
        _ => 0,
    }
}

fn system(body: &Value) -> Result<String, Fault> {
    match &body["system"] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        blocks => {
            let mut texts = Vec::new();
            for block in list_of(body, "system") {
                check_text("system", block)?;
                texts.push(text_of(block, "text"));
            }
            demand!(
                blocks.is_array(),
                "system: Input should be a valid string or list"
            );
            Ok(texts.join("\n\n"))
        }
    }
}

fn check_text(at: &str, block: &Value) -> Result<(), Fault> {
    let fields = &["type", "text", "cache_control", "citations"];
    if let Some(field) = unknown_field(block, fields) {
        demand!(false, "{at}.text.{field}: Extra inputs are not permitted");
    }
    let text = text_of(block, "text");
    demand!(
        !text.is_empty(),
        "{at}: text content blocks must be non-empty"
    );
    demand!(
        !text.trim().is_empty(),
        "{at}: text content blocks must contain non-whitespace text"
    );
    Ok(())
}

fn messages(body: &Value, memory: &Memory, view: &mut View) -> Result<(), Fault> {
    let messages = list_of(body, "messages");
    demand!(
        !messages.is_empty(),
        "messages: at least one message is required"
    );
    let mut calls = Calls::default();
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages.{i}");
        if let Some(field) = unknown_field(message, &["role", "content"]) {
            demand!(false, "{at}.{field}: Extra inputs are not permitted");
        }
        let role = text_of(message, "role");
        demand!(
            ["user", "assistant"].contains(&role),
            "messages: Unexpected role {role:?}. Only \"user\" and \"assistant\" are allowed"
        );
        demand!(
            i > 0 || role == "user",
            "messages: first message must use the \"user\" role"
        );
        demand!(
            (i % 2 == 0) == (role == "user"),
            "messages: roles must alternate between \"user\" and \"assistant\", but found \
             multiple {role:?} roles in a row"
        );
        let blocks = blocks(&at, message)?;
        if role == "user" {
            user(&at, &blocks, &mut calls, view)?;
        } else {
            let owed = thinking_owed(body, i + 2 == messages.len());
            assistant(&at, &blocks, &mut calls, (memory, owed), view)?;
            view.turn += 1;
        }
    }
    demand!(
        messages.len() % 2 == 1,
        "This model does not support assistant message prefill. The conversation must end \
         with a user message."
    );
    Ok(())
}

/// With thinking on, the last answer must still begin with its thinking.
fn thinking_owed(body: &Value, last: bool) -> bool {
    let mode = body.pointer("/thinking/type").and_then(Value::as_str);
    last && matches!(mode, Some("enabled" | "adaptive"))
}

fn blocks<'a>(at: &str, message: &'a Value) -> Result<Cow<'a, [Value]>, Fault> {
    match &message["content"] {
        Value::String(text) => Ok(Cow::Owned(vec![json!({"type": "text", "text": text})])),
        Value::Array(blocks) => {
            demand!(!blocks.is_empty(), "{at}: content must be non-empty");
            Ok(Cow::Borrowed(blocks))
        }
        _ => Err(Fault::new(400, format!("{at}.content: Field required"))),
    }
}

fn user(at: &str, blocks: &[Value], calls: &mut Calls, view: &mut View) -> Result<(), Fault> {
    let mut texts = Vec::new();
    let mut results_over = false;
    for (j, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{j}");
        match text_of(block, "type") {
            "tool_result" if results_over => break,
            "tool_result" => {
                let text = result(&at, block, calls)?;
                view.results
                    .push((text_of(block, "tool_use_id").to_string(), text));
                continue;
            }
            "text" => {
                check_text(&at, block)?;
                texts.push(text_of(block, "text"));
            }
            "image" => image(&at, block)?,
            other => demand!(
                false,
                "{at}: Input tag {other:?} is not expected in a user message"
            ),
        }
        results_over = true;
    }
    demand!(
        calls.open().is_empty(),
        "{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. \
         Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        calls.open().join(", ")
    );
    let late = blocks.iter().skip_while(|b| b["type"] == "tool_result");
    demand!(
        !late.into_iter().any(|b| b["type"] == "tool_result"),
        "{at}: `tool_result` blocks must come before all other content"
    );
    if !texts.is_empty() {
        view.user = texts.join("\n");
    }
    Ok(())
}

fn result(at: &str, block: &Value, calls: &mut Calls) -> Result<String, Fault> {
    let fields = &[
        "type",
        "tool_use_id",
        "content",
        "is_error",
        "cache_control",
    ];
    if let Some(field) = unknown_field(block, fields) {
        demand!(
            false,
            "{at}.tool_result.{field}: Extra inputs are not permitted"
        );
    }
    let id = text_of(block, "tool_use_id");
    match calls.answer(id) {
        Ok(()) => {}
        Err(Misplaced::Twice) => demand!(
            false,
            "{at}: each tool_use must have a single result. Found multiple `tool_result` \
             blocks with id: {id}"
        ),
        Err(Misplaced::Orphan) => demand!(
            false,
            "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
    }
    let mut texts = Vec::new();
    match &block["content"] {
        Value::Null => {}
        Value::String(text) => texts.push(text.as_str()),
        Value::Array(parts) => {
            for part in parts {
                match text_of(part, "type") {
                    "text" => {
                        check_text(at, part)?;
                        texts.push(text_of(part, "text"));
                    }
                    "image" => image(at, part)?,
                    other => demand!(false, "{at}.content: Input tag {other:?} is not expected"),
                }
            }
        }
        _ => demand!(
            false,
            "{at}.content: Input should be a valid string or list"
        ),
    }
    demand!(
        block["is_error"] != true || texts.iter().any(|t| !t.is_empty()),
        "{at}: content cannot be empty if `is_error` is true"
    );
    Ok(texts.join("\n"))
}

fn image(at: &str, block: &Value) -> Result<(), Fault> {
    let source = &block["source"];
    demand!(
        source["type"] == "base64",
        "{at}.image.source: only base64 is known here"
    );
    check_image(text_of(source, "media_type"), text_of(source, "data"))
}

fn assistant(
    at: &str,
    blocks: &[Value],
    calls: &mut Calls,
    (memory, thinking_owed): (&Memory, bool),
    view: &mut View,
) -> Result<(), Fault> {
    let mut made = Vec::new();
    for (j, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{j}");
        match text_of(block, "type") {
            "text" => check_text(&at, block)?,
            "thinking" => thinking(&at, block)?,
            "tool_use" => {
                tool_use(&at, block, calls)?;
                check_called(text_of(block, "name"), &view.tools, memory)?;
                made.push((text_of(block, "name").to_string(), block["input"].clone()));
            }
            other => demand!(
                false,
                "{at}: Input tag {other:?} is not expected in an answer"
            ),
        }
    }
    if !thinking_owed || made.is_empty() {
        return Ok(());
    }
    if let Some(signature) = memory.thought.get(&fingerprint(view.turn, &made)) {
        demand!(
            blocks[0]["signature"] == signature.as_str(),
            "{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block",
            text_of(&blocks[0], "type")
        );
    }
    Ok(())
}

fn thinking(at: &str, block: &Value) -> Result<(), Fault> {
    if let Some(field) = unknown_field(block, &["type", "thinking", "signature"]) {
        demand!(
            false,
            "{at}.thinking.{field}: Extra inputs are not permitted"
        );
    }
    let sealed = open(SEAL, text_of(block, "signature"));
    demand!(
        sealed == Some(digest(text_of(block, "thinking"))),
        "{at}: Invalid `signature` in `thinking` block"
    );
    Ok(())
}

fn tool_use(at: &str, block: &Value, calls: &mut Calls) -> Result<(), Fault> {
    let fields = &["type", "id", "name", "input", "cache_control"];
    if let Some(field) = unknown_field(block, fields) {
        demand!(
            false,
            "{at}.tool_use.{field}: Extra inputs are not permitted"
        );
    }
    demand!(
        block["input"].is_object(),
        "{at}.tool_use.input: Input should be a valid dictionary"
    );
    let id = text_of(block, "id");
    let valid = id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    demand!(
        valid,
        "{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    );
    calls.ask(id)
}

pub fn error(fault: &Fault) -> Value {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({
        "type": "error",
        "error": {"type": kind, "message": fault.message},
        "request_id": "req_011test",
    })
}

pub fn too_long(tokens: u64, limit: u64) -> Fault {
    Fault::new(
        400,
        format!("prompt is too long: {tokens} tokens > {limit} maximum"),
    )
}

/// What [`Memory::thought`] must hold of this answer.
pub fn thought(says: &Says, turn: usize) -> Option<(String, String)> {
    if says.thinking.is_empty() || says.calls.is_empty() {
        return None;
    }
    let calls: Vec<_> = says
        .calls
        .iter()
        .map(|c| {
            let input = serde_json::from_str(&c.arguments).unwrap_or(Value::Null);
            (c.name.clone(), input)
        })
        .collect();
    Some((fingerprint(turn, &calls), signature(&says.thinking)))
}

pub fn signature(thinking: &str) -> String {
    seal(SEAL, &digest(thinking))
}

pub fn render(says: &Says, turn: &Turn) -> String {
    let mut out = Stream::default();
    out.start(turn);
    if !says.thinking.is_empty() {
        out.open(json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in says.pieces(&says.thinking) {
            out.delta(json!({"type": "thinking_delta", "thinking": piece}));
        }
        let signature = signature(&says.thinking);
        out.delta(json!({"type": "signature_delta", "signature": signature}));
        out.close();
    }
    if !says.text.is_empty() {
        out.open(json!({"type": "text", "text": ""}));
        for piece in says.pieces(&says.text) {
            out.delta(json!({"type": "text_delta", "text": piece}));
        }
        out.close();
    }
    for (i, call) in says.calls.iter().enumerate() {
        let id = call
            .id
            .clone()
            .unwrap_or(format!("toolu_{}_{i}", turn.number));
        out.open(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
        out.delta(json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in says.pieces(&call.arguments) {
            out.delta(json!({"type": "input_json_delta", "partial_json": piece}));
        }
        out.close();
    }
    out.end(says.stop(), turn.tokens);
    out.text
}

#[derive(Default)]
struct Stream {
    text: String,
    index: usize,
}

impl Stream {
    fn event(&mut self, data: Value) {
        let kind = text_of(&data, "type");
        self.text
            .push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn start(&mut self, turn: &Turn) {
        self.event(json!({"type": "message_start", "message": {
            "id": format!("msg_{}", turn.number), "type": "message", "role": "assistant",
            "model": turn.model, "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {
                "input_tokens": turn.tokens.input,
                "cache_creation_input_tokens": turn.tokens.cache_written,
                "cache_read_input_tokens": turn.tokens.cached,
                "output_tokens": 1,
            },
        }}));
    }

    fn open(&mut self, block: Value) {
        let index = self.index;
        self.event(json!({
            "type": "content_block_start", "index": index, "content_block": block,
        }));
        if index == 0 {
            self.event(json!({"type": "ping"}));
        }
    }

    fn delta(&mut self, delta: Value) {
        let index = self.index;
        self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn close(&mut self) {
        let index = self.index;
        self.event(json!({"type": "content_block_stop", "index": index}));
        self.index += 1;
    }

    fn end(&mut self, stop: Stop, tokens: Tokens) {
        let reason = match stop {
            Stop::EndTurn => "end_turn",
            Stop::ToolUse => "tool_use",
            Stop::MaxTokens => "max_tokens",
            Stop::Refusal => "refusal",
        };
        self.event(json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": tokens.output},
        }));
        self.event(json!({"type": "message_stop"}));
    }
}
