//! OpenAI Chat Completions, for OpenAI and every compatible server: Ollama, llama.cpp, vLLM, LM
//! Studio, OpenRouter, DeepSeek and others. <https://platform.openai.com/docs/api-reference/chat>
//!
//! The servers agree on the request and differ in the stream. So the request is plain, and the
//! decoder accepts every known shape.
//!
//! Deliberately absent: `strict` and `parallel_tool_calls`, which some servers refuse; `<think>`
//! inside text, which is text here. Effort and temperature are sent only if they are set.

mod details;

use serde_json::{Map, Value, json};

use details::Details;

use super::answer::{self, Answer};
use super::list::List;
use super::target::{Blobs, Target};
use super::{Delta, Reply, effort, errors, image, names, plain, structured};
use crate::core::entry::{BlobRef, Block, Failure, StopReason, Usage};
use crate::core::request::{MessagePart, Request, Role};
use crate::core::request_form::{ALWAYS, REASONING_CONTENT};
use crate::net::sse::Event;

/// Field of thinking that is sent back. DeepSeek and Kimi refuse an answer with calls that is sent
/// back without its thinking. Of the other such fields only [`details`] are sent back: servers do
/// not accept `reasoning`.
///
/// The `sealed` value of a `Thinking` block is this word, or `{"reasoning_details": […]}`. The
/// latter contains `"reasoning_content": true` if the text is sent back too. `{"reasoning_content":
/// "always"}` sends the text back with every answer, not only with calls.
const SENT_BACK: &str = REASONING_CONTENT;

/// Name of the field with the messages.
pub(crate) const LIST: &str = "messages";

/// Returns the body without the messages, which are added to `list`.
pub(crate) fn body(
    request: &Request,
    target: &Target,
    blobs: Blobs,
    list: &mut List<'_>,
) -> Map<String, Value> {
    let system = plain::system(request);
    if !system.is_empty() {
        list.push(&json!({ "role": "system", "content": system }));
    }
    for message in &request.messages {
        list.message(message, false, || {
            let mut messages = Vec::new();
            match message.role {
                Role::User => user(&message.parts, blobs, &mut messages),
                Role::Assistant => messages.extend(assistant(&message.parts)),
            }
            messages
        });
    }
    let mut body = Map::new();
    body.insert("model".into(), target.model.into());
    body.insert("stream".into(), target.stream.into());
    if target.stream && !target.quirks.no_stream_options {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    let limit = if target.quirks.max_completion_tokens {
        "max_completion_tokens"
    } else {
        "max_tokens"
    };
    body.insert(limit.into(), request.max_tokens.into());
    if let Some((field, value)) = effort::chat(request.effort, target.quirks.effort) {
        body.insert(field.into(), value);
    }
    effort::put_temperature(&mut body, request.temperature);
    if let Some(schema) = &request.schema {
        body.insert(
            "response_format".into(),
            structured::response_format(schema),
        );
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        });
        body.insert("tools".into(), tools.collect());
    }
    body
}

/// Converts a user message. Results become separate messages directly after the calls. The other
/// parts of the message and the images of results follow in one message.
fn user(parts: &[MessagePart], blobs: Blobs, messages: &mut Vec<Value>) {
    let mut content = Vec::new();
    for part in parts {
        match part {
            MessagePart::Result {
                id,
                name,
                text,
                images,
                is_error,
                ..
            } => {
                let result = plain::result(text, *is_error);
                let mut message = json!({ "role": "tool", "tool_call_id": id });
                // Moved in, because `json!` copies its values.
                message["content"] = result.into();
                messages.push(message);
                for (media_type, blob) in images {
                    content.push(text_part(&plain::image_label(name, id)));
                    content.push(image_part(media_type, blob, blobs));
                }
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
        messages.push(json!({ "role": "user", "content": joined(content) }));
    }
}

/// Joins a list of texts to one string, because many local servers accept nothing else.
fn joined(content: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|part| part.get("text")?.as_str())
        .collect();
    match texts {
        Some(texts) => texts.join("\n\n").into(),
        None => content.into(),
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image_part(media_type: &str, blob: &BlobRef, blobs: Blobs) -> Value {
    match image::data_url(media_type, blob, blobs) {
        Some(url) => json!({ "type": "image_url", "image_url": { "url": url } }),
        None => text_part(image::MISSING),
    }
}

fn assistant(parts: &[MessagePart]) -> Option<Value> {
    let mut texts = Vec::new();
    let mut thinking = Vec::new();
    let mut details = Vec::new();
    let mut calls = Vec::new();
    let mut always = false;
    for part in parts {
        match part {
            MessagePart::Text { text, .. } if text.is_empty() => {}
            MessagePart::Text { text, .. } => texts.push(text.as_str()),
            MessagePart::Thinking { text, sealed } => {
                let Some(sealed) = sealed else { continue };
                if sealed.get(SENT_BACK).is_some_and(|how| how == ALWAYS) {
                    always = true;
                    thinking.push(text.as_str());
                }
                if *sealed == SENT_BACK || sealed.get(SENT_BACK) == Some(&Value::Bool(true)) {
                    thinking.push(text.as_str());
                }
                let given = sealed.get(details::FIELD).and_then(Value::as_array);
                details.extend(given.into_iter().flatten().cloned());
            }
            MessagePart::Call {
                id,
                name,
                arguments,
                ..
            } => calls.push(json!({ "id": id, "type": "function", "function": {
                "name": names::tool_name(name), "arguments": arguments.to_string(),
            }})),
            MessagePart::Image { .. } | MessagePart::Result { .. } => {}
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if texts.is_empty() {
        Value::Null
    } else {
        texts.join("\n\n").into()
    };
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), content);
    if !details.is_empty() {
        message.insert(details::FIELD.into(), details.into());
    }
    let has_calls = !calls.is_empty();
    if has_calls {
        message.insert("tool_calls".into(), calls.into());
    }
    if !thinking.is_empty() && (always || has_calls) {
        message.insert(SENT_BACK.into(), thinking.join("\n\n").into());
    }
    Some(Value::Object(message))
}

/// Fields in which servers report tokens that were read from or written to a cache.
const CACHED: [&str; 4] = [
    "/prompt_tokens_details/cached_tokens",
    "/prompt_cache_hit_tokens",
    "/cache_read_input_tokens",
    "/cached_tokens",
];
const CACHE_WRITTEN: [&str; 2] = [
    "/prompt_tokens_details/cache_write_tokens",
    "/cache_creation_input_tokens",
];

/// A decoder for a stream of `chat.completion.chunk`, or for one complete `chat.completion`.
#[derive(Debug, Default)]
pub struct ChatDecoder {
    answer: Answer,
    calls: Vec<OpenCall>,
    /// Tokens that the server has reported so far.
    pub(super) usage: Usage,
    stop: Option<StopReason>,
    done: bool,
    refused: bool,
    /// The thinking arrived in the field that is sent back.
    sent_back: bool,
    details: Details,
}

/// An unfinished call, with the data by which its server identifies it.
#[derive(Debug)]
struct OpenCall {
    /// Index of the block in the answer.
    at: usize,
    index: Option<u64>,
    id: Option<String>,
}

/// A call, or a piece of one.
struct Piece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    has_arguments: bool,
}

impl ChatDecoder {
    /// Returns whether the answer has ended completely. The stop reason does not prove it, because
    /// the usage follows.
    pub fn is_ended(&self) -> bool {
        self.done
    }

    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = event.data.trim();
        self.done |= data == answer::DONE;
        if self.done && self.stop.is_none() && self.has_all() {
            // Some gateways and models never send a reason.
            self.stop = Some(StopReason::EndTurn);
        }
        if self.done || data.is_empty() {
            return Ok(Vec::new());
        }
        let chunk = match answer::json(data) {
            // The answer is complete, so this invalid event is ignored.
            Err(_) if self.stop.is_some() => return Ok(Vec::new()),
            chunk => chunk?,
        };
        if event.event == "error" || chunk.get("object").is_some_and(|o| o == "error") {
            return Err(errors::in_stream(&chunk));
        }
        error_in(&chunk)?;
        let counts = self.usage(&chunk);
        let mut deltas = Vec::new();
        let choices = chunk.get("choices").and_then(Value::as_array);
        let Some(choice) = choices.and_then(|c| c.iter().find(|c| is_first(c))) else {
            // A chunk with only the counts is the last one, also without `[DONE]`.
            self.done |= counts && self.stop.is_some();
            return Ok(deltas);
        };
        error_in(choice)?;
        self.usage(choice);
        if let Some(delta) = self.delta_of(choice) {
            self.delta(delta, &mut deltas)?;
        }
        self.end(choice);
        Ok(deltas)
    }

    /// Returns the delta of a stream, or the complete message of an answer without streaming.
    fn delta_of<'a>(&self, choice: &'a Value) -> Option<&'a Value> {
        let delta = choice.get("delta").filter(|d| d.is_object());
        delta.or_else(|| {
            choice
                .get("message")
                .filter(|_| self.answer.blocks().is_empty())
        })
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        for field in [SENT_BACK, "reasoning"] {
            let piece = delta.get(field).and_then(Value::as_str).unwrap_or("");
            if !piece.is_empty() {
                self.sent_back |= field == SENT_BACK;
                deltas.extend(self.answer.thinking(piece)?);
                break; // Some servers give the same piece in both.
            }
        }
        let kept = self.details.feed(delta);
        let kept = kept.ok_or_else(|| errors::nonsense("the answer has too many parts"))?;
        self.answer.keep(kept)?;
        match delta.get("content") {
            Some(Value::String(piece)) => deltas.extend(self.answer.text(piece)?),
            Some(Value::Array(parts)) => self.parts(parts, deltas)?,
            _ => {}
        }
        if let Some(piece) = delta.get("refusal").and_then(Value::as_str) {
            self.refused |= !piece.is_empty();
            deltas.extend(self.answer.text(piece)?);
        }
        if let Some(call) = delta.get("function_call").filter(|c| c.is_object()) {
            self.call(&json!({ "index": 0, "function": call }), deltas)?;
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            self.call(call, deltas)?;
        }
        Ok(())
    }

    /// Reads Mistral's form: `[{"type":"text"},
    /// {"type":"thinking","thinking":[{"type":"text"}]}]`.
    fn parts(&mut self, parts: &[Value], deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        for part in parts {
            let text = part.get("text").and_then(Value::as_str).unwrap_or("");
            deltas.extend(self.answer.text(text)?);
            let thinking = part.get("thinking").and_then(Value::as_array);
            for piece in thinking.into_iter().flatten() {
                let text = piece.get("text").and_then(Value::as_str).unwrap_or("");
                deltas.extend(self.answer.thinking(text)?);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let text = |pointer| {
            call.pointer(pointer)
                .and_then(Value::as_str)
                .filter(|t| !t.is_empty())
        };
        let piece = Piece {
            index: call.get("index").and_then(Value::as_u64),
            id: text("/id"),
            name: text("/function/name"),
            has_arguments: text("/function/arguments").is_some()
                || call
                    .pointer("/function/arguments")
                    .is_some_and(Value::is_object),
        };
        let at = match self.find(&piece) {
            Some(at) => at,
            None => self.open(&piece)?,
        };
        if let (Some(Block::Call { name, .. }), Some(given)) =
            (self.answer.blocks_mut().get_mut(at), piece.name)
            && name.is_empty()
        {
            *name = given.to_string();
            deltas.push(Delta::Call {
                name: given.to_string(),
            });
        }
        match call.pointer("/function/arguments") {
            Some(Value::String(arguments)) => self.answer.append(at, arguments),
            Some(whole @ Value::Object(_)) => self.answer.append(at, &whole.to_string()),
            _ => Ok(()),
        }
    }

    fn open(&mut self, piece: &Piece) -> Result<usize, Failure> {
        let id = piece.id.map(str::to_string);
        let at = self.answer.open(Block::Call {
            name: String::new(),
            arguments: String::new(),
            provider_id: id.clone(),
            signature: None,
        })?;
        let index = piece.index;
        self.calls.push(OpenCall { at, index, id });
        Ok(at)
    }

    /// Returns the call that a piece belongs to, or `None` if it begins a new one. Index and id
    /// are both optional, both may be repeated for another call, and the id may change within one.
    fn find(&self, piece: &Piece) -> Option<usize> {
        let open = match (piece.index, piece.id) {
            (Some(index), _) => self.calls.iter().rev().find(|c| c.index == Some(index)),
            (None, Some(id)) => self
                .calls
                .iter()
                .rev()
                .find(|c| c.id.as_deref() == Some(id)),
            // Without index and id, a name begins a new call.
            (None, None) => self.calls.last().filter(|_| piece.name.is_none()),
        }?;
        let begins = piece.name.is_some()
            && match (&open.id, piece.id) {
                (Some(a), Some(b)) if a != b => true,
                _ => piece.has_arguments && self.is_whole_call(open.at),
            };
        (!begins).then_some(open.at)
    }

    /// Returns whether the call has a name and complete arguments.
    fn is_whole_call(&self, at: usize) -> bool {
        match self.answer.blocks().get(at) {
            Some(Block::Call {
                name, arguments, ..
            }) => {
                !name.is_empty()
                    && arguments.trim_end().ends_with('}')
                    && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
            }
            _ => false,
        }
    }

    /// Returns whether the answer has text or calls, and each call is whole.
    fn has_all(&self) -> bool {
        let blocks = self.answer.blocks();
        let is_text = |b: &Block| matches!(b, Block::Text { text, .. } if !text.trim().is_empty());
        let is_call = |at: &usize| matches!(blocks.get(*at), Some(Block::Call { .. }));
        let mut calls = (0..blocks.len()).filter(is_call);
        (self.answer.has_calls() || blocks.iter().any(is_text))
            && calls.all(|at| self.is_whole_call(at))
    }

    /// Stores the token counts. Returns false if there are none. They are totals, so the last ones
    /// apply.
    fn usage(&mut self, holder: &Value) -> bool {
        let Some(usage) = holder.get("usage").filter(|u| u.is_object()) else {
            return false;
        };
        let count = |at: &str| answer::count(usage, at);
        let most = |places: &[&str]| places.iter().map(|at| count(at)).max().unwrap_or(0);
        let prompt = count("/prompt_tokens");
        let cached = most(&CACHED).min(prompt);
        let written = most(&CACHE_WRITTEN).min(prompt - cached);
        let said = count("/completion_tokens");
        let thought = count("/completion_tokens_details/reasoning_tokens");
        let output = said.saturating_add(thought);
        // xAI counts the thinking separately, all others count it in the output.
        let output = if prompt.saturating_add(output) == count("/total_tokens") {
            output
        } else {
            said
        };
        self.usage = Usage {
            input: prompt - cached - written,
            cached,
            cache_written: written,
            output,
            billed_nanos: answer::billed(usage),
        };
        true
    }

    fn end(&mut self, choice: &Value) {
        let reason = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .unwrap_or("");
        self.stop = match reason {
            "" => return,
            "stop" => Some(StopReason::EndTurn),
            "tool_calls" | "function_call" => Some(StopReason::ToolUse),
            "length" => Some(StopReason::MaxTokens),
            "content_filter" => Some(StopReason::Refusal),
            _ => Some(StopReason::Other),
        };
    }

    /// Returns whether the stop reason was received. Only data beside the answer may follow.
    pub fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    /// See [`Answer::kept`].
    pub fn kept(&self) -> usize {
        self.answer.kept()
    }

    fn seal_all(&mut self, with: &Value) {
        for block in self.answer.blocks_mut() {
            if let Block::Thinking { sealed, .. } = block {
                *sealed = Some(with.clone());
            }
        }
    }

    pub fn finish(mut self) -> Result<Reply, Failure> {
        let stop = self.stop.ok_or_else(errors::cut)?;
        let is_sent_back = self.sent_back && self.answer.has_calls();
        if is_sent_back {
            self.seal_all(&SENT_BACK.into());
        }
        if !self.details.is_empty() {
            let mut sealed = Map::new();
            if is_sent_back {
                sealed.insert(SENT_BACK.into(), true.into());
            }
            let details = std::mem::take(&mut self.details).into_value();
            sealed.insert(details::FIELD.into(), details);
            self.answer.seal_first(sealed.into());
        }
        let stop = match stop {
            StopReason::EndTurn if self.refused => StopReason::Refusal,
            stop => stop,
        };
        Ok(self.answer.finish(self.usage, stop))
    }
}

/// Returns whether this is the first choice. Only one is requested, so its index may be missing.
fn is_first(choice: &Value) -> bool {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
}

fn error_in(holder: &Value) -> Result<(), Failure> {
    match holder.get("error").filter(|e| !e.is_null()) {
        Some(error) => Err(errors::in_stream(error)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
