//! Anthropic Messages, as of `anthropic-version: 2023-06-01`
//! (<https://platform.claude.com/docs/en/api/messages>).
//!
//! What is sealed in a `Thinking` block is `{"signature": …}` or `{"redacted": …}`; with the
//! text beside it that is all of a thinking block, and it is sent back as it came.
//!
//! Invariant: at most four cache marks are sent, never on thinking and never on empty text,
//! which the server refuses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::sse::Event;
use super::target::{Blobs, Target};
use super::{Delta, Reply, answer, errors, names, too_long};
use crate::core::entry::{BlobRef, Block, Failure, FailureClass, StopReason, Usage, token_count};
use crate::core::request::{Message, Part, Request, Role};

/// The protocol allows four; one is behind the system prompt.
const MESSAGE_MARKS: usize = 3;

/// The least the protocol takes as a budget for thinking.
const MIN_THINKING_TOKENS: u64 = 1024;

/// An answer has a few blocks; one with more is not worth its memory.
const MAX_BLOCKS: usize = 4096;

pub fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    let mut body = json!({
        "model": target.model,
        "max_tokens": request.max_tokens,
        "stream": target.stream,
    });
    // Moved in, as all that may be large: `json!` copies what it is given.
    body["messages"] = messages(request, blobs).into();
    let system = system(request);
    if !system.is_empty() {
        body["system"] = Value::Array(system);
    }
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(
                |t| json!({"name": t.name, "description": t.description, "input_schema": t.schema}),
            )
            .collect();
    }
    let budget = target
        .thinking_budget
        .map(|budget| budget.min(request.max_tokens.saturating_sub(1)))
        .filter(|budget| *budget >= MIN_THINKING_TOKENS && may_think(&request.messages));
    if let Some(budget) = budget {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
    body
}

/// One mark behind the system prompt is one behind the tools too: they come before it.
fn system(request: &Request) -> Vec<Value> {
    let mut blocks: Vec<Value> = [&request.system, &request.instructions]
        .into_iter()
        .filter_map(|text| text_block(text))
        .collect();
    if let Some(last) = blocks.last_mut() {
        mark(last);
    }
    blocks
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// With a budget, the server wants thinking at the head of a turn that is still open. A turn
/// that began without it (another model, another setting) is ended without it.
fn may_think(messages: &[Message]) -> bool {
    let is_result = |m: &Message| m.parts.iter().any(|p| matches!(p, Part::Result { .. }));
    let mut turn = messages
        .iter()
        .rev()
        .take_while(|m| m.role == Role::Assistant || is_result(m))
        .filter(|m| m.role == Role::Assistant)
        .peekable();
    turn.peek().is_none()
        || turn.any(|m| {
            matches!(
                m.parts.first(),
                Some(Part::Thinking {
                    sealed: Some(_),
                    ..
                })
            )
        })
}

fn messages(request: &Request, blobs: Blobs) -> Vec<Value> {
    let marked = request.messages.iter().filter(|m| m.cache).count();
    let mut unmarked = marked.saturating_sub(MESSAGE_MARKS);
    let mut messages = Vec::new();
    for message in &request.messages {
        let mut content = content(message, blobs);
        // An answer that was cut while it thought: the server wants something behind it.
        while content.last().is_some_and(is_thinking) {
            content.pop();
        }
        if content.is_empty() && message.role == Role::User {
            content.push(json!({"type": "text", "text": "(nothing)"}));
        }
        let is_marked = message.cache && unmarked == 0;
        unmarked -= usize::from(message.cache && unmarked > 0);
        let Some(last) = content.last_mut() else {
            continue;
        };
        if is_marked {
            mark(last);
        }
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let mut said = json!({ "role": role });
        said["content"] = content.into();
        messages.push(said);
    }
    messages
}

fn is_thinking(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking")
    )
}

fn content(message: &Message, blobs: Blobs) -> Vec<Value> {
    let mut blocks = Vec::new();
    // Images of a failed call: the server wants only text in a result that is an error, and
    // results before everything else.
    let mut late = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, .. } => blocks.extend(text_block(text)),
            Part::Image { media_type, blob } => blocks.push(image_block(media_type, blob, blobs)),
            Part::Thinking { text, sealed } => blocks.extend(thinking_block(text, sealed.as_ref())),
            Part::Call {
                id,
                name,
                arguments,
                ..
            } => blocks.push(json!({
                "type": "tool_use", "id": id, "name": names::tool_name(name), "input": arguments,
            })),
            Part::Result {
                id,
                text,
                images,
                is_error,
                ..
            } => {
                let images = images
                    .iter()
                    .map(|(kind, blob)| image_block(kind, blob, blobs));
                let mut content: Vec<Value> = text_block(text).into_iter().collect();
                match is_error {
                    true => late.extend(images),
                    false => content.extend(images),
                }
                blocks.push(result_block(id, content, *is_error));
            }
        }
    }
    let after_results = blocks
        .iter()
        .rposition(|block| block["type"] == "tool_result");
    let at = after_results.map_or(0, |last| last + 1);
    blocks.splice(at..at, late);
    blocks
}

/// The server refuses texts without a word in them.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn image_block(media_type: &str, blob: &BlobRef, blobs: Blobs) -> Value {
    match blobs(blob) {
        Some(bytes) => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": STANDARD.encode(bytes)},
        }),
        None => json!({"type": "text", "text": "[an image that is no longer stored]"}),
    }
}

/// `None` when it was not sealed by this protocol: the server would refuse it.
fn thinking_block(text: &str, sealed: Option<&Value>) -> Option<Value> {
    let sealed = sealed?;
    if let Some(data) = sealed.get("redacted") {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let signature = sealed.get("signature")?;
    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
}

fn result_block(id: &str, content: Vec<Value>, is_error: bool) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id});
    if !content.is_empty() {
        block["content"] = Value::Array(content);
    }
    if is_error {
        block["is_error"] = Value::Bool(true);
    }
    block
}

/// A block that is being streamed.
enum Open {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(Value),
    Call {
        id: Option<String>,
        name: String,
        given: Value,
        json: String,
    },
    /// A kind that is not known here.
    Other,
}

#[derive(Default)]
pub struct Decoder {
    /// With the server's own index.
    blocks: Vec<(u64, Open)>,
    usage: Usage,
    stop: Option<StopReason>,
    ended: bool,
    /// Bytes of all pieces so far.
    kept: usize,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Nothing of the answer comes after this.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = event.data.trim();
        if self.is_ended() || data.is_empty() || data == answer::DONE {
            return Ok(Vec::new());
        }
        let data: Value = serde_json::from_str(data)
            .map_err(|e| nonsense(&format!("an event {:?} is not JSON: {e}", event.event)))?;
        let delta = match data["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.count(&data["message"]["usage"]);
                None
            }
            "content_block_start" => self.start(index(&data), &data["content_block"])?,
            "content_block_delta" => self.grow(index(&data), &data["delta"])?,
            "message_delta" => {
                self.count(&data["usage"]);
                if let Some(reason) = data["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop_reason(reason));
                }
                None
            }
            "message_stop" => {
                self.ended = true;
                None
            }
            "error" => return Err(by_kind(&data["error"], 0)),
            // `ping`, `content_block_stop`, and what is added to the protocol later.
            _ => None,
        };
        let is_empty = |d: &Delta| matches!(d, Delta::Text(t) | Delta::Thinking(t) if t.is_empty());
        Ok(delta.into_iter().filter(|d| !is_empty(d)).collect())
    }

    /// Grows with every piece of the answer.
    pub fn kept(&self) -> usize {
        self.kept
    }

    pub fn finish(self) -> Result<Reply, Failure> {
        if !self.ended {
            return Err(Failure {
                class: FailureClass::Network,
                message: "the stream was cut before the end of the answer".to_string(),
                hint: None,
            });
        }
        Ok(Reply {
            blocks: self
                .blocks
                .into_iter()
                .filter_map(|(_, b)| b.close())
                .collect(),
            usage: self.usage,
            stop: self.stop.unwrap_or(StopReason::Other),
        })
    }

    fn start(&mut self, index: u64, block: &Value) -> Result<Option<Delta>, Failure> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(nonsense(&format!("it has more than {MAX_BLOCKS} blocks")));
        }
        let (open, delta) = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                let text = string(&block["text"]);
                (Open::Text(text.clone()), Some(Delta::Text(text)))
            }
            "thinking" => {
                let text = string(&block["thinking"]);
                let delta = Delta::Thinking(text.clone());
                let signature = string(&block["signature"]);
                (Open::Thinking { text, signature }, Some(delta))
            }
            "redacted_thinking" => {
                self.kept += 1;
                (Open::Redacted(block["data"].clone()), None)
            }
            "tool_use" => {
                let name = string(&block["name"]);
                let open = Open::Call {
                    id: block["id"].as_str().map(str::to_string),
                    name: name.clone(),
                    given: block["input"].clone(),
                    json: String::new(),
                };
                (open, Some(Delta::Call { name }))
            }
            _ => (Open::Other, None),
        };
        self.blocks.push((index, open));
        Ok(delta)
    }

    fn grow(&mut self, index: u64, delta: &Value) -> Result<Option<Delta>, Failure> {
        let block = self.blocks.iter_mut().rev().find(|(i, _)| *i == index);
        let Some((_, block)) = block else {
            return Err(nonsense(&format!("block {index} goes on without a start")));
        };
        let piece = |key: &str| delta[key].as_str().unwrap_or_default();
        let pieces = ["text", "thinking", "signature", "partial_json"];
        self.kept += pieces.map(|key| piece(key).len()).iter().sum::<usize>();
        Ok(match (block, delta["type"].as_str().unwrap_or_default()) {
            (Open::Text(text), "text_delta") => {
                text.push_str(piece("text"));
                Some(Delta::Text(piece("text").to_string()))
            }
            (Open::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(piece("thinking"));
                Some(Delta::Thinking(piece("thinking").to_string()))
            }
            (Open::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(piece("signature"));
                None
            }
            (Open::Call { json, .. }, "input_json_delta") => {
                json.push_str(piece("partial_json"));
                None
            }
            // Citations, and what is added to the protocol later.
            _ => None,
        })
    }

    /// The counts are running totals: those of a later event replace those before.
    fn count(&mut self, usage: &Value) {
        let fields = [
            ("input_tokens", &mut self.usage.input),
            ("cache_read_input_tokens", &mut self.usage.cached),
            ("cache_creation_input_tokens", &mut self.usage.cache_written),
            ("output_tokens", &mut self.usage.output),
        ];
        for (name, count) in fields {
            if let Some(given) = usage.get(name).filter(|given| given.is_number()) {
                *count = token_count(given);
            }
        }
    }
}

impl Open {
    fn close(self) -> Option<Block> {
        match self {
            Open::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
            Open::Thinking { text, signature } => {
                let sealed = (!signature.is_empty()).then(|| json!({"signature": signature}));
                (sealed.is_some() || !text.is_empty()).then_some(Block::Thinking { text, sealed })
            }
            Open::Redacted(data) => Some(Block::Thinking {
                text: String::new(),
                sealed: Some(json!({"redacted": data})),
            }),
            Open::Call {
                id,
                name,
                given,
                json,
            } => Some(Block::Call {
                name,
                arguments: match json.is_empty() {
                    // Some servers give the arguments whole, with the start of the block.
                    true if given.as_object().is_some_and(|o: &Map<_, _>| !o.is_empty()) => {
                        given.to_string()
                    }
                    true => "{}".to_string(),
                    false => json,
                },
                provider_id: id,
                signature: None,
            }),
            Open::Other => None,
        }
    }
}

fn index(data: &Value) -> u64 {
    data["index"].as_u64().unwrap_or_default()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}

fn nonsense(what: &str) -> Failure {
    Failure {
        class: FailureClass::Protocol,
        message: format!("the answer makes no sense: {what}"),
        hint: None,
    }
}

/// `{"type": "error", "error": {"type": …, "message": …}}`, or whatever a proxy answers.
pub fn classify(status: u16, body: &str) -> Failure {
    match serde_json::from_str::<Value>(body) {
        Ok(answer) if answer["error"]["message"].is_string() => by_kind(&answer["error"], status),
        // A proxy's, or that of a server with a form of its own.
        _ => errors::classify(status, body),
    }
}

/// `status` is 0 for an error inside a stream.
fn by_kind(error: &Value, status: u16) -> Failure {
    let kind = error["type"].as_str().unwrap_or_default();
    let words = errors::words(error);
    Failure {
        class: class(kind, status, &words),
        message: format!("{kind}: {}", errors::clip(&words)),
        hint: None,
    }
}

fn class(kind: &str, status: u16, words: &str) -> FailureClass {
    match (kind, status) {
        _ if too_long::is_too_long(status, &[kind.to_lowercase()], words) => FailureClass::TooLong,
        ("rate_limit_error", _) | (_, 429) => FailureClass::RateLimit,
        ("overloaded_error" | "api_error" | "timeout_error", _) => FailureClass::Overloaded,
        ("authentication_error" | "permission_error" | "billing_error", _) | (_, 401..=403) => {
            FailureClass::Auth
        }
        (_, 408) => FailureClass::Network,
        (_, 500..) => FailureClass::Overloaded,
        _ => FailureClass::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::ToolSpec;

    fn target<'a>() -> Target<'a> {
        Target {
            model: "claude-x",
            provider: "anthropic",
            stream: true,
            thinking_budget: None,
        }
    }

    fn text(text: &str) -> Part {
        Part::Text {
            text: text.into(),
            signature: None,
        }
    }

    fn call(id: &str) -> Part {
        Part::Call {
            id: id.into(),
            name: "bash".into(),
            arguments: json!({"command": "ls"}),
            signature: None,
        }
    }

    fn result(id: &str, text: &str, is_error: bool) -> Part {
        Part::Result {
            id: id.into(),
            name: "bash".into(),
            text: text.into(),
            images: vec![("image/png".into(), blob())],
            is_error,
        }
    }

    fn thinking(sealed: Value) -> Part {
        Part::Thinking {
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

    fn message(role: Role, parts: Vec<Part>, cache: bool) -> Message {
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
    fn the_mark_is_behind_the_instructions_when_there_are_any() {
        let mut request = request(vec![message(Role::User, vec![text("hi")], false)]);
        request.instructions = "Use tabs.".into();
        let system = &send(&request)["system"];
        assert!(system[0].get("cache_control").is_none());
        assert_eq!(system[1]["text"], "Use tabs.");
        assert!(system[1].get("cache_control").is_some());
    }

    #[test]
    fn the_marks_are_behind_the_tools_the_summary_and_the_last_message() {
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
        // The system prompt stands behind the tools.
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
    fn what_the_server_would_refuse_is_not_sent() {
        let strange = Part::Call {
            id: "c".into(),
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
    fn an_image_that_is_gone_is_said() {
        let part = Part::Image {
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
        let mut decoder = Decoder::new();
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
        let delta = |i: u64, delta: Value| json!({"type": "content_block_delta", "index": i, "delta": delta});
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
                output: 42
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
            Block::Thinking { text, sealed } => Some(Part::Thinking { text, sealed }),
            _ => None,
        });
        let mut parts: Vec<Part> = parts.collect();
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
    fn a_stream_cut_anywhere_is_no_answer() {
        let stream = stream();
        for end in 0..stream.len() {
            let (_, reply) = decode(&stream[..end]);
            assert_eq!(
                reply.unwrap_err().class,
                FailureClass::Network,
                "after {end}"
            );
        }
    }

    #[test]
    fn what_stands_behind_the_end_or_says_nothing_is_no_fault() {
        let stream = stream();
        let want = decode(&stream).1;
        let event = |data: &Value| Event {
            event: data["type"].as_str().unwrap_or_default().into(),
            data: data.to_string(),
        };
        let late = json!({"type": "error", "error": {"type": "api_error", "message": "late"}});
        for tail in crate::model::samples::tails()
            .into_iter()
            .chain([event(&late)])
        {
            let mut decoder = Decoder::new();
            for data in &stream {
                decoder.feed(&event(data)).unwrap();
            }
            assert_eq!(decoder.feed(&tail), Ok(vec![]), "{tail:?}");
            assert_eq!(decoder.finish(), want);
        }
        // Without the end before it, the word ends nothing.
        let mut decoder = Decoder::new();
        for data in &stream[..stream.len() - 1] {
            decoder.feed(&event(data)).unwrap();
        }
        decoder
            .feed(&crate::model::samples::data("[DONE]"))
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
    fn what_makes_no_sense_is_said() {
        let lost = json!({"type": "content_block_delta", "index": 7,
                          "delta": {"type": "text_delta", "text": "x"}});
        let failure = decode(&[lost]).1.unwrap_err();
        assert_eq!(failure.class, FailureClass::Protocol);
        let event = Event {
            event: "message_start".into(),
            data: "{".into(),
        };
        let failure = Decoder::new().feed(&event).unwrap_err();
        assert!(failure.message.contains("not JSON"));
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
            (402, answer("billing_error", "no credit"), Auth),
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
            (
                404,
                answer("not_found_error", "model: claude-y"),
                BadRequest,
            ),
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
            let failure = classify(status, &body);
            assert_eq!(failure.class, class, "{status} {body}");
            assert!(!failure.message.is_empty());
        }
        let (_, cut) = decode(&[
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ]);
        assert_eq!(cut.unwrap_err().class, Overloaded);
    }
}
