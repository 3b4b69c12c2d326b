//! OpenAI Responses. <https://platform.openai.com/docs/api-reference/responses>
//!
//! Nothing is stored at the provider: `store` is false. The encrypted reasoning items of an answer
//! are stored here and sent back before the calls they belong to.
//!
//! Deliberately absent: `previous_response_id` and the ids of items, which mean nothing to a
//! provider that stored nothing; hosted tools.

use serde_json::{Map, Value, json};

use super::answer::{self, Answer};
use super::list::List;
use super::target::{Blobs, Target};
use super::{Delta, Reply, effort, errors, image, names, plain, structured};
use crate::core::entry::{BlobRef, Block, Failure, StopReason, Usage};
use crate::core::request::{MessagePart, Request, Role};
use crate::net::sse::Event;

/// Name of the field with the messages.
pub(crate) const LIST: &str = "input";

/// Returns the body without the messages, which are added to `list`.
pub(crate) fn body(
    request: &Request,
    target: &Target,
    blobs: Blobs,
    list: &mut List<'_>,
) -> Map<String, Value> {
    for message in &request.messages {
        list.message(message, false, || {
            let mut input = Vec::new();
            match message.role {
                Role::User => user(&message.parts, blobs, &mut input),
                Role::Assistant => assistant(&message.parts, &mut input),
            }
            input
        });
    }
    let mut body = Map::new();
    body.insert("model".into(), target.model.into());
    let system = plain::system(request);
    if !system.is_empty() {
        body.insert("instructions".into(), system.into());
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema, "strict": false,
            })
        });
        body.insert("tools".into(), tools.collect());
    }
    body.insert("max_output_tokens".into(), request.max_tokens.into());
    body.insert("store".into(), false.into());
    body.insert("stream".into(), target.stream.into());
    if reasons(target.model) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        let by_budget = || {
            let word = by_budget(target.thinking_budget?);
            Some(json!({ "effort": word, "summary": "auto" }))
        };
        if let Some(reasoning) = effort::responses(request.effort).or_else(by_budget) {
            body.insert("reasoning".into(), reasoning);
        }
    }
    effort::put_temperature(&mut body, request.temperature);
    if let Some(schema) = &request.schema {
        body.insert(
            "text".into(),
            json!({ "format": structured::text_format(schema) }),
        );
    }
    body
}

/// Returns whether the model reasons. Older models refuse a request for encrypted reasoning.
fn reasons(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let plain = ["gpt-3", "gpt-4", "chatgpt", "gpt-5-chat"];
    !plain.iter().any(|prefix| model.starts_with(prefix))
}

/// Returns the effort for a token budget. The protocol has three levels.
fn by_budget(budget_tokens: u64) -> &'static str {
    match budget_tokens {
        0..=4_096 => "low",
        4_097..=16_384 => "medium",
        _ => "high",
    }
}

fn user(parts: &[MessagePart], blobs: Blobs, input: &mut Vec<Value>) {
    let mut content = Vec::new();
    for part in parts {
        match part {
            MessagePart::Result {
                id,
                text,
                images,
                is_error,
                ..
            } => {
                let text = plain::result(text, *is_error);
                let output: Value = if images.is_empty() {
                    text.into()
                } else {
                    std::iter::once(text_part(&text))
                        .chain(
                            images
                                .iter()
                                .map(|(kind, blob)| image_part(kind, blob, blobs)),
                        )
                        .collect()
                };
                let mut item = json!({ "type": "function_call_output", "call_id": id });
                // Moved in, because `json!` copies its values.
                item["output"] = output;
                input.push(item);
            }
            MessagePart::Text { text, .. } if text.is_empty() => {}
            MessagePart::Text { text, .. } => content.push(text_part(text)),
            MessagePart::Image { media_type, blob } => {
                content.push(image_part(media_type, blob, blobs))
            }
            MessagePart::Thinking { .. } | MessagePart::Call { .. } => {}
        }
    }
    if !content.is_empty() {
        input.push(json!({ "type": "message", "role": "user", "content": content }));
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn image_part(media_type: &str, blob: &BlobRef, blobs: Blobs) -> Value {
    match image::data_url(media_type, blob, blobs) {
        Some(url) => json!({ "type": "input_image", "image_url": url }),
        None => text_part(image::MISSING),
    }
}

fn assistant(parts: &[MessagePart], input: &mut Vec<Value>) {
    // Reasoning at the end is refused, so it is held back until another item follows.
    let mut reasoning = Vec::new();
    let mut is_said = false;
    for part in parts {
        let item = match part {
            MessagePart::Thinking { sealed, .. } => {
                reasoning.extend(sealed.as_ref().filter(|item| is_sealed(item)).cloned());
                continue;
            }
            MessagePart::Text { text, .. } if text.is_empty() => continue,
            MessagePart::Text { text, signature } => message(text, signature.as_deref()),
            MessagePart::Call {
                id,
                name,
                arguments,
                ..
            } => json!({
                "type": "function_call", "call_id": id,
                "name": names::tool_name(name), "arguments": arguments.to_string(),
            }),
            MessagePart::Image { .. } | MessagePart::Result { .. } => continue,
        };
        input.append(&mut reasoning);
        input.push(item);
        is_said = true;
    }
    // A gateway sends the signature of another provider's model as reasoning after the text that
    // it belongs to. OpenAI refuses reasoning at the end of an answer that was cut, so that is
    // removed.
    reasoning.retain(|item| item.get("format").is_some());
    if let Some(last) = input.len().checked_sub(1).filter(|_| is_said) {
        input.splice(last..last, reasoning);
    }
}

/// Returns a message with a plain string. In OpenAI's schema, content in parts requires an id and
/// a status, which an answer that was not stored does not have. The phase separates interim
/// remarks from the final answer. Without it, newer models confuse them and stop early.
fn message(text: &str, phase: Option<&str>) -> Value {
    match phase {
        Some(phase @ ("commentary" | "final_answer")) => {
            json!({ "type": "message", "role": "assistant", "phase": phase, "content": text })
        }
        _ => json!({ "type": "message", "role": "assistant", "content": text }),
    }
}

/// Returns whether a reasoning item is complete. Without its content it is only an id of an item
/// that the provider did not store.
fn is_sealed(item: &Value) -> bool {
    let content = item.get("encrypted_content").and_then(Value::as_str);
    content.is_some_and(|content| !content.is_empty())
}

/// A decoder for a stream of events that build output items, or for one complete `response`.
#[derive(Debug, Default)]
pub struct ResponsesDecoder {
    answer: Answer,
    items: Vec<OutputItem>,
    /// Tokens that the server has reported so far.
    pub(super) usage: Usage,
    stop: Option<StopReason>,
    refused: bool,
}

/// An output item and its block in the answer.
#[derive(Debug)]
struct OutputItem {
    index: Option<u64>,
    kind: Kind,
    at: usize,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Call,
}

impl ResponsesDecoder {
    /// Returns whether the answer has ended completely.
    pub fn is_ended(&self) -> bool {
        self.stop.is_some()
    }

    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = event.data.trim();
        let mut deltas = Vec::new();
        if self.is_ended() || data.is_empty() || data == answer::DONE {
            return Ok(deltas);
        }
        let value = answer::json(data)?;
        match kind_of(event, &value).as_str() {
            "response.output_text.delta" => self.piece(Kind::Message, &value, &mut deltas)?,
            "response.refusal.delta" => {
                self.refused = true;
                self.piece(Kind::Message, &value, &mut deltas)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.piece(Kind::Reasoning, &value, &mut deltas)?;
            }
            "response.reasoning_summary_part.added" => self.paragraph(&value, &mut deltas)?,
            "response.function_call_arguments.delta" => {
                self.piece(Kind::Call, &value, &mut deltas)?
            }
            "response.function_call_arguments.done" => self.arguments(&value)?,
            "response.output_item.added" => self.item(&value, false, &mut deltas)?,
            "response.output_item.done" => self.item(&value, true, &mut deltas)?,
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(value.get("response").unwrap_or(&value), &mut deltas)?;
            }
            "error" => return Err(errors::in_stream(&value)),
            _ => {}
        }
        Ok(deltas)
    }

    /// Adds a piece to an item. Creates the item if the server did not announce it.
    fn piece(&mut self, kind: Kind, event: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let piece = event.get("delta").and_then(Value::as_str).unwrap_or("");
        if piece.is_empty() {
            return Ok(());
        }
        let at = match self.open_item(kind, index_of(event)) {
            Some(item) => item.at,
            None => self.open(kind, index_of(event), empty(kind))?,
        };
        self.answer.append(at, piece)?;
        match kind {
            Kind::Message => deltas.push(Delta::Text(piece.to_string())),
            Kind::Reasoning => deltas.push(Delta::Thinking(piece.to_string())),
            Kind::Call => {}
        }
        Ok(())
    }

    /// Begins a new paragraph: the parts of a summary are paragraphs.
    fn paragraph(&mut self, event: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let at = self
            .open_item(Kind::Reasoning, index_of(event))
            .map(|item| item.at);
        if let Some(at) = at
            && matches!(self.answer.blocks().get(at), Some(Block::Thinking { text, .. }) if !text.is_empty())
        {
            self.answer.append(at, "\n\n")?;
            deltas.push(Delta::Thinking("\n\n".to_string()));
        }
        Ok(())
    }

    /// Stores the complete arguments of a call. The item itself may arrive without them.
    fn arguments(&mut self, event: &Value) -> Result<(), Failure> {
        let given = event.get("arguments").and_then(Value::as_str).unwrap_or("");
        let Some(at) = self
            .open_item(Kind::Call, index_of(event))
            .map(|item| item.at)
        else {
            return Ok(());
        };
        match self.answer.blocks().get(at).cloned() {
            Some(Block::Call {
                name,
                provider_id,
                signature,
                ..
            }) if !given.is_empty() => {
                let arguments = given.to_string();
                let call = Block::Call {
                    name,
                    arguments,
                    provider_id,
                    signature,
                };
                self.answer.replace(at, call)
            }
            _ => Ok(()),
        }
    }

    /// Stores an item at its start or in its final form. The final form replaces the pieces,
    /// except for parts that it leaves out.
    fn item(&mut self, event: &Value, done: bool, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let item = event.get("item").unwrap_or(&Value::Null);
        let Some((kind, block)) = block(item) else {
            return Ok(());
        };
        self.refused |= has_refusal(item);
        let index = index_of(event);
        if !done {
            deltas.extend(shown(&block));
            self.open(kind, index, block)?;
            return Ok(());
        }
        match self.open_item(kind, index) {
            Some(item) => {
                item.done = true;
                let at = item.at;
                let block = match self.answer.blocks().get(at) {
                    Some(pieces) => completed(block, pieces),
                    None => block,
                };
                self.answer.replace(at, block)
            }
            None => {
                deltas.extend(shown(&block));
                self.open(kind, index, block)?;
                if let Some(item) = self.items.last_mut() {
                    item.done = true;
                }
                Ok(())
            }
        }
    }

    fn open(&mut self, kind: Kind, index: Option<u64>, block: Block) -> Result<usize, Failure> {
        let at = self.answer.open(block)?;
        self.items.push(OutputItem {
            index,
            kind,
            at,
            done: false,
        });
        Ok(at)
    }

    /// Returns the newest unfinished item of this kind. Some servers give every item the same
    /// index, some none.
    fn open_item(&mut self, kind: Kind, index: Option<u64>) -> Option<&mut OutputItem> {
        self.items.iter_mut().rev().find(|item| {
            let same = index.is_none() || item.index.is_none() || item.index == index;
            item.kind == kind && !item.done && same
        })
    }

    fn end(&mut self, response: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let status = response
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or("completed");
        if status == "failed" {
            return Err(errors::in_stream(response));
        }
        if self.items.is_empty() {
            let output = response.get("output").and_then(Value::as_array);
            for item in output.into_iter().flatten() {
                self.item(&json!({ "item": item }), true, deltas)?;
            }
        }
        let usage = response.get("usage").unwrap_or(&Value::Null);
        let input = answer::count(usage, "/input_tokens");
        let cached = answer::count(usage, "/input_tokens_details/cached_tokens").min(input);
        let written = answer::count(usage, "/input_tokens_details/cache_write_tokens");
        let written = written.min(input - cached);
        self.usage = Usage {
            input: input - cached - written,
            cached,
            cache_written: written,
            output: answer::count(usage, "/output_tokens"),
            billed_nanos: answer::billed(usage),
        };
        let reason = response
            .pointer("/incomplete_details/reason")
            .and_then(Value::as_str);
        self.stop = Some(match (status, reason) {
            (_, Some("max_output_tokens")) => StopReason::MaxTokens,
            (_, Some("content_filter")) => StopReason::Refusal,
            ("completed", _) => StopReason::EndTurn,
            _ => StopReason::Other,
        });
        Ok(())
    }

    /// Same as [`ResponsesDecoder::is_ended`]: the last event contains the reason of the end.
    pub fn is_whole(&self) -> bool {
        self.is_ended()
    }

    /// See [`Answer::kept`].
    pub fn kept(&self) -> usize {
        self.answer.kept()
    }

    pub fn finish(self) -> Result<Reply, Failure> {
        let stop = match self.stop.ok_or_else(errors::cut)? {
            StopReason::EndTurn if self.refused => StopReason::Refusal,
            stop => stop,
        };
        Ok(self.answer.finish(self.usage, stop))
    }
}

/// Returns the type of an event. A complete response is treated like the event that would end it.
fn kind_of(event: &Event, value: &Value) -> String {
    let text = |key| value.get(key).and_then(Value::as_str);
    match (text("type"), text("object")) {
        (Some(kind), _) => kind.to_string(),
        (None, Some("response")) => format!("response.{}", text("status").unwrap_or("completed")),
        _ if value.get("error").is_some_and(|e| !e.is_null()) => "error".to_string(),
        _ => event.event.clone(),
    }
}

fn index_of(event: &Value) -> Option<u64> {
    event.get("output_index").and_then(Value::as_u64)
}

fn empty(kind: Kind) -> Block {
    match kind {
        Kind::Message => Block::text(""),
        Kind::Reasoning => Block::Thinking {
            text: String::new(),
            sealed: None,
        },
        Kind::Call => Block::call("", ""),
    }
}

fn block(item: &Value) -> Option<(Kind, Block)> {
    let text = |key| {
        item.get(key)
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_string()
    };
    let some = |key| Some(text(key)).filter(|t| !t.is_empty());
    Some(match item.get("type").and_then(Value::as_str)? {
        "message" => {
            let text = texts(item, "content", &["text", "refusal"], "");
            let signature = some("phase");
            (Kind::Message, Block::Text { text, signature })
        }
        "reasoning" => {
            let mut text = texts(item, "summary", &["text"], "\n\n");
            if text.is_empty() {
                text = texts(item, "content", &["text"], "\n\n");
            }
            // Without `status` and `content`, which are refused in a request.
            let sealed = is_sealed(item).then(|| {
                let mut sealed = json!({
                    "type": "reasoning", "id": item.get("id"),
                    "summary": item.get("summary").filter(|s| s.is_array()).unwrap_or(&json!([])),
                    "encrypted_content": item.get("encrypted_content"),
                });
                if let Some(format) = item.get("format").filter(|f| f.is_string()) {
                    sealed["format"] = format.clone();
                }
                sealed
            });
            (Kind::Reasoning, Block::Thinking { text, sealed })
        }
        "function_call" => {
            let call = Block::Call {
                name: text("name"),
                arguments: text("arguments"),
                provider_id: some("call_id"),
                signature: None,
            };
            (Kind::Call, call)
        }
        _ => return None,
    })
}

fn texts(item: &Value, list: &str, keys: &[&str], between: &str) -> String {
    let parts = item
        .get(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let text = |part: &Value| {
        keys.iter()
            .find_map(|key| part.get(key)?.as_str().map(str::to_string))
    };
    parts.filter_map(text).collect::<Vec<_>>().join(between)
}

fn has_refusal(item: &Value) -> bool {
    let parts = item.get("content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .any(|part| part.get("refusal").is_some())
}

/// Returns the part to show of an item that arrives complete.
fn shown(block: &Block) -> Option<Delta> {
    match block {
        Block::Text { text, .. } if !text.is_empty() => Some(Delta::Text(text.clone())),
        Block::Thinking { text, .. } if !text.is_empty() => Some(Delta::Thinking(text.clone())),
        Block::Call { name, .. } if !name.is_empty() => Some(Delta::Call { name: name.clone() }),
        _ => None,
    }
}

/// Returns the final form of an item, with the pieces for parts that it leaves out.
fn completed(mut whole: Block, pieces: &Block) -> Block {
    let keep = |text: &mut String, piece: &String| {
        if text.is_empty() {
            text.clone_from(piece);
        }
    };
    match (&mut whole, pieces) {
        (
            Block::Text { text, signature },
            Block::Text {
                text: piece,
                signature: phase,
            },
        ) => {
            keep(text, piece);
            *signature = signature.take().or_else(|| phase.clone());
        }
        (Block::Thinking { text, .. }, Block::Thinking { text: piece, .. }) => keep(text, piece),
        (
            Block::Call {
                name,
                arguments,
                provider_id,
                ..
            },
            Block::Call {
                name: named,
                arguments: piece,
                provider_id: id,
                ..
            },
        ) => {
            keep(name, named);
            keep(arguments, piece);
            *provider_id = provider_id.take().or_else(|| id.clone());
        }
        _ => {}
    }
    whole
}

#[cfg(test)]
mod tests;
