//! Anthropic Messages, as of `anthropic-version: 2023-06-01`
//! (<https://platform.claude.com/docs/en/api/messages>).
//!
//! The `sealed` value of a `Thinking` block is `{"signature": …}` or `{"redacted": …}`. Together
//! with the text it is the complete thinking block, and it is sent back unchanged.
//!
//! Invariant: at most four cache marks are sent, never on thinking and never on empty text,
//! which the server refuses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::list::List;
use super::target::{Blobs, Target};
use super::{Delta, Reply, answer, effort, errors, names, structured};
use crate::core::choice::Effort;
use crate::core::entry::{BlobRef, Block, Failure, StopReason, Usage, token_count};
use crate::core::request::{Message, MessagePart, Request, Role};
use crate::net::sse::Event;

/// Cache marks on messages. The protocol allows four in all, and the system prompt takes one.
const MESSAGE_MARKS: usize = 3;

/// Minimum thinking budget of the protocol.
const MIN_THINKING_TOKENS: u64 = 1024;

/// Maximum number of blocks. Real answers have a few.
const MAX_BLOCKS: usize = 4096;

/// Name of the field with the messages.
pub(crate) const LIST: &str = "messages";

/// Returns the body without the messages, which are added to `list`.
pub(crate) fn body(
    request: &Request,
    target: &Target,
    blobs: Blobs,
    list: &mut List<'_>,
) -> Map<String, Value> {
    messages(request, blobs, list);
    let mut body = json!({
        "model": target.model,
        "max_tokens": request.max_tokens,
        "stream": target.stream,
    });
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
    let told = effort::anthropic(request.effort, target.model);
    let budget = match (request.effort, told) {
        (_, effort::Anthropic::Budget(tokens)) => Some(tokens),
        (Effort::Default, _) => target.thinking_budget,
        _ => None,
    };
    if let effort::Anthropic::Effort(effort) = told {
        body["thinking"] = json!({"type": "adaptive"});
        body["output_config"] = json!({"effort": effort});
    }
    if let Some(schema) = &request.schema {
        body["output_config"]["format"] = structured::output_format(schema);
    }
    let budget = budget
        .map(|budget| budget.min(request.max_tokens.saturating_sub(1)))
        .filter(|budget| *budget >= MIN_THINKING_TOKENS && may_think(&request.messages));
    if let Some(budget) = budget {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
    // With thinking, the server accepts only its default temperature.
    if let Some(temperature) = request.temperature
        && body.get("thinking").is_none()
    {
        body["temperature"] = temperature.into();
    }
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// Returns the system prompt with a cache mark at its end. The mark also covers the tools, which
/// come before it.
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

/// Returns whether thinking can be enabled. With a budget, the server requires thinking at the
/// beginning of an unfinished turn. If the turn began without it (another model, another setting),
/// it continues without it.
fn may_think(messages: &[Message]) -> bool {
    let is_result = |m: &Message| {
        m.parts
            .iter()
            .any(|p| matches!(p, MessagePart::Result { .. }))
    };
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
                Some(MessagePart::Thinking {
                    sealed: Some(_),
                    ..
                })
            )
        })
}

fn messages(request: &Request, blobs: Blobs, list: &mut List<'_>) {
    let marked = request.messages.iter().filter(|m| m.cache).count();
    let mut unmarked = marked.saturating_sub(MESSAGE_MARKS);
    for message in &request.messages {
        let is_marked = message.cache && unmarked == 0;
        unmarked -= usize::from(message.cache && unmarked > 0);
        list.message(message, is_marked, || {
            said(message, is_marked, blobs).into_iter().collect()
        });
    }
}

/// Returns the message in the form of the API, or `None` if nothing in it can be sent.
fn said(message: &Message, is_marked: bool, blobs: Blobs) -> Option<Value> {
    let mut content = content(message, blobs);
    // If the answer was cut while the model was thinking, the server expects content after the
    // thinking.
    while content.last().is_some_and(is_thinking) {
        content.pop();
    }
    if content.is_empty() && message.role == Role::User {
        content.push(json!({"type": "text", "text": "(nothing)"}));
    }
    let last = content.last_mut()?;
    if is_marked {
        mark(last);
    }
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let mut said = json!({ "role": role });
    // Moved in, because `json!` copies its values, which may be large.
    said["content"] = content.into();
    Some(said)
}

fn is_thinking(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking")
    )
}

fn content(message: &Message, blobs: Blobs) -> Vec<Value> {
    let mut blocks = Vec::new();
    // Images of a failed call are sent later: the server accepts only text in a failed result, and
    // results before everything else.
    let mut late = Vec::new();
    for part in message.parts.iter() {
        match part {
            MessagePart::Text { text, .. } => blocks.extend(text_block(text)),
            MessagePart::Image { media_type, blob } => {
                blocks.push(image_block(media_type, blob, blobs))
            }
            MessagePart::Thinking { text, sealed } => {
                blocks.extend(thinking_block(text, sealed.as_ref()))
            }
            MessagePart::Call {
                id,
                name,
                arguments,
                ..
            } => blocks.push(json!({
                "type": "tool_use", "id": id, "name": names::tool_name(name), "input": arguments,
            })),
            MessagePart::Result {
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
                if *is_error {
                    late.extend(images);
                } else {
                    content.extend(images);
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

/// Returns a text block. The server refuses texts without a word in them.
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

/// Returns `None` if another protocol sealed the thinking, because the server would refuse it.
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

/// A block while it streams.
enum OpenBlock {
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
    /// An unknown kind of block.
    Other,
}

#[derive(Default)]
pub struct MessagesDecoder {
    /// Open blocks with the server's index.
    blocks: Vec<(u64, OpenBlock)>,
    /// Tokens that the server has reported so far.
    pub(super) usage: Usage,
    stop: Option<StopReason>,
    ended: bool,
    /// Number of bytes of all pieces so far.
    kept: usize,
}

impl MessagesDecoder {
    /// Returns whether the answer has ended completely.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = event.data.trim();
        if self.is_ended() || data.is_empty() || data == answer::DONE {
            return Ok(Vec::new());
        }
        let data = answer::json(data)?;
        let named = data["type"].as_str().unwrap_or_default();
        // llama.cpp sends the error itself, with a type of its kind.
        let is_error = event.event == "error";
        let delta = match if is_error { "error" } else { named } {
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
            "error" => return Err(errors::in_stream(&data)),
            // A server that does not stream, or one that sends an error in an event without a
            // type.
            "message" => return self.whole_message(&data),
            "" if data.get("error").is_some_and(|e| !e.is_null()) => {
                return Err(errors::in_stream(&data));
            }
            // `ping`, `content_block_stop`, and future events.
            _ => None,
        };
        let is_empty = |d: &Delta| matches!(d, Delta::Text(t) | Delta::Thinking(t) if t.is_empty());
        Ok(delta.into_iter().filter(|d| !is_empty(d)).collect())
    }

    /// Reads a complete message that the server sent without streaming.
    fn whole_message(&mut self, message: &Value) -> Result<Vec<Delta>, Failure> {
        let mut deltas = Vec::new();
        let blocks = message["content"].as_array();
        for (index, block) in blocks.into_iter().flatten().enumerate() {
            self.kept += block.to_string().len();
            deltas.extend(self.start(index as u64, block)?);
        }
        self.count(&message["usage"]);
        self.stop = message["stop_reason"].as_str().map(stop_reason);
        self.ended = true;
        Ok(deltas)
    }

    /// Returns whether the stop reason was received. Some gateways never send the event for the end.
    pub fn is_whole(&self) -> bool {
        self.is_ended() || self.stop.is_some()
    }

    /// Returns a number that grows with every piece of the answer.
    pub fn kept(&self) -> usize {
        self.kept
    }

    pub fn finish(self) -> Result<Reply, Failure> {
        if !self.is_whole() {
            return Err(errors::cut());
        }
        Ok(Reply {
            blocks: self
                .blocks
                .into_iter()
                .filter_map(|(_, b)| b.close())
                .collect(),
            usage: self.usage,
            stop: self.stop.unwrap_or(StopReason::Other),
            has_text_calls: false,
        })
    }

    fn start(&mut self, index: u64, block: &Value) -> Result<Option<Delta>, Failure> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(nonsense(&format!("it has more than {MAX_BLOCKS} blocks")));
        }
        let (open, delta) = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                let text = string(&block["text"]);
                (OpenBlock::Text(text.clone()), Some(Delta::Text(text)))
            }
            "thinking" => {
                let text = string(&block["thinking"]);
                let delta = Delta::Thinking(text.clone());
                let signature = string(&block["signature"]);
                (OpenBlock::Thinking { text, signature }, Some(delta))
            }
            "redacted_thinking" => {
                self.kept += 1;
                (OpenBlock::Redacted(block["data"].clone()), None)
            }
            "tool_use" => {
                let name = string(&block["name"]);
                let open = OpenBlock::Call {
                    id: block["id"].as_str().map(str::to_string),
                    name: name.clone(),
                    given: block["input"].clone(),
                    json: String::new(),
                };
                (open, Some(Delta::Call { name }))
            }
            _ => (OpenBlock::Other, None),
        };
        self.blocks.push((index, open));
        Ok(delta)
    }

    fn grow(&mut self, index: u64, delta: &Value) -> Result<Option<Delta>, Failure> {
        let block = self.blocks.iter_mut().rev().find(|(i, _)| *i == index);
        let Some((_, block)) = block else {
            return Err(nonsense(&format!(
                "block {index} continues without a start"
            )));
        };
        let piece = |key: &str| delta[key].as_str().unwrap_or_default();
        let pieces = ["text", "thinking", "signature", "partial_json"];
        self.kept += pieces.map(|key| piece(key).len()).iter().sum::<usize>();
        Ok(match (block, delta["type"].as_str().unwrap_or_default()) {
            (OpenBlock::Text(text), "text_delta") => {
                text.push_str(piece("text"));
                Some(Delta::Text(piece("text").to_string()))
            }
            (OpenBlock::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(piece("thinking"));
                Some(Delta::Thinking(piece("thinking").to_string()))
            }
            (OpenBlock::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(piece("signature"));
                None
            }
            (OpenBlock::Call { json, .. }, "input_json_delta") => {
                json.push_str(piece("partial_json"));
                None
            }
            // Citations and future deltas.
            _ => None,
        })
    }

    /// Stores token counts. They are running totals, so a later event replaces earlier counts.
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

impl OpenBlock {
    fn close(self) -> Option<Block> {
        match self {
            OpenBlock::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
            OpenBlock::Thinking { text, signature } => {
                let sealed = (!signature.is_empty()).then(|| json!({"signature": signature}));
                (sealed.is_some() || !text.is_empty()).then_some(Block::Thinking { text, sealed })
            }
            OpenBlock::Redacted(data) => Some(Block::Thinking {
                text: String::new(),
                sealed: Some(json!({"redacted": data})),
            }),
            OpenBlock::Call {
                id,
                name,
                given,
                json,
            } => Some(Block::Call {
                name,
                arguments: if !json.is_empty() {
                    json
                } else if given.as_object().is_some_and(|o: &Map<_, _>| !o.is_empty()) {
                    // Some servers send the complete arguments with the start of the block.
                    given.to_string()
                } else {
                    "{}".to_string()
                },
                provider_id: id,
                signature: None,
            }),
            OpenBlock::Other => None,
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
    errors::nonsense(format!("the answer makes no sense: {what}"))
}

#[cfg(test)]
mod tests;
