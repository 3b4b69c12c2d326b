//! Google Gemini, `generateContent` and `streamGenerateContent?alt=sse`.
//! <https://ai.google.dev/api/generate-content>
//!
//! The model's name and the choice of streaming are in the URL, not in the body. Thought
//! signatures are stored with their part and sent back with it. The same applies to the id of a
//! call, if the model gave one: its result carries it too. Without ids, results are matched by
//! name and order.
//!
//! Deliberately absent: hosted tools.

use serde_json::{Map, Value, json};

use super::answer::{self, Answer};
use super::list::List;
use super::target::{Blobs, Target};
use super::{Delta, Reply, effort, errors, gemini_schema, image, names, plain};
use crate::core::entry::{BlobRef, Block, Failure, FailureClass, StopReason, Usage};
use crate::core::request::{MessagePart, Request, Role};
use crate::net::sse::Event;

/// Signature for calls of another model. Gemini 3 refuses calls of the current turn without a
/// signature, and its documentation names this value.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// Range of budgets that all models with a budget accept, tokens.
const BUDGET: (u64, u64) = (512, 24_576);

/// Name of the field with the messages.
pub(crate) const LIST: &str = "contents";

/// Returns the body without the messages, which are added to `list`.
pub(crate) fn body(
    request: &Request,
    target: &Target,
    blobs: Blobs,
    list: &mut List<'_>,
) -> Map<String, Value> {
    let signed = needs_signatures(target.model);
    for message in &request.messages {
        list.message(message, false, || {
            let (role, parts) = match message.role {
                Role::User => ("user", user(&message.parts, blobs)),
                Role::Assistant => ("model", model(&message.parts, signed)),
            };
            if parts.is_empty() {
                return Vec::new();
            }
            let mut content = json!({ "role": role });
            // Moved in, because `json!` copies its values.
            content["parts"] = parts.into();
            vec![content]
        });
    }
    let mut body = Map::new();
    let system = [&request.system, &request.instructions];
    let system: Vec<Value> = system
        .into_iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({ "text": text }))
        .collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": system }));
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request.tools.iter().map(declaration).collect();
        body.insert(
            "tools".into(),
            json!([{ "functionDeclarations": declarations }]),
        );
    }
    let mut config = Map::new();
    config.insert("maxOutputTokens".into(), request.max_tokens.into());
    let by_budget = || {
        let budget = target.thinking_budget.filter(|budget| *budget > 0)?;
        let budget = budget.clamp(BUDGET.0, BUDGET.1);
        Some(json!({ "includeThoughts": true, "thinkingBudget": budget }))
    };
    if let Some(thinking) = effort::gemini(request.effort, target.model).or_else(by_budget) {
        config.insert("thinkingConfig".into(), thinking);
    }
    effort::put_temperature(&mut config, request.temperature);
    if let Some(schema) = &request.schema {
        config.insert("responseMimeType".into(), "application/json".into());
        config.insert("responseJsonSchema".into(), schema.clone());
    }
    body.insert("generationConfig".into(), config.into());
    body
}

fn needs_signatures(model: &str) -> bool {
    let model = model.trim_start_matches("models/");
    model.starts_with("gemini-")
        && !["gemini-1", "gemini-2"]
            .iter()
            .any(|old| model.starts_with(old))
}

fn declaration(tool: &crate::core::entry::ToolSpec) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), tool.name.as_str().into());
    out.insert("description".into(), tool.description.as_str().into());
    if let Some(parameters) = gemini_schema::parameters(&tool.schema) {
        out.insert("parameters".into(), parameters);
    }
    Value::Object(out)
}

/// Converts a user message. Results come first, in the order of their calls, then everything else.
fn user(parts: &[MessagePart], blobs: Blobs) -> Vec<Value> {
    let mut results = Vec::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            MessagePart::Result {
                id,
                given_id,
                name,
                text,
                images,
                is_error,
            } => {
                let key = if *is_error { "error" } else { "output" };
                let mut response = json!({
                    "name": names::tool_name(name), "response": { key: text },
                });
                if let Some(given) = given_id {
                    response["id"] = given.as_str().into();
                }
                results.push(json!({ "functionResponse": response }));
                for (media_type, blob) in images {
                    rest.push(json!({ "text": plain::image_label(name, id) }));
                    rest.push(image_part(media_type, blob, blobs));
                }
            }
            MessagePart::Text { text, .. } if text.is_empty() => {}
            MessagePart::Text { text, .. } => rest.push(json!({ "text": text })),
            MessagePart::Image { media_type, blob } => {
                rest.push(image_part(media_type, blob, blobs))
            }
            MessagePart::Thinking { .. } | MessagePart::Call { .. } => {}
        }
    }
    results.append(&mut rest);
    results
}

fn image_part(media_type: &str, blob: &BlobRef, blobs: Blobs) -> Value {
    match image::base64(blob, blobs) {
        Some(data) => json!({ "inlineData": { "mimeType": media_type, "data": data } }),
        None => json!({ "text": image::MISSING }),
    }
}

fn model(parts: &[MessagePart], signed: bool) -> Vec<Value> {
    let unsigned = |p: &MessagePart| {
        matches!(
            p,
            MessagePart::Call {
                signature: None,
                ..
            }
        )
    };
    let is_call = |p: &&MessagePart| matches!(p, MessagePart::Call { .. });
    // Only the first of several parallel calls is signed.
    let mut foreign = signed && parts.iter().find(is_call).is_some_and(unsigned);
    let mut out = Vec::new();
    for part in parts {
        let (mut value, signature) = match part {
            MessagePart::Text { text, .. } if text.is_empty() => continue,
            MessagePart::Text { text, signature } => {
                (json!({ "text": text }), signature.as_deref())
            }
            MessagePart::Thinking { text, sealed } => match sealed.as_ref().and_then(Value::as_str)
            {
                Some(signature) => (json!({ "text": text, "thought": true }), Some(signature)),
                // This is a summary for people.
                None => continue,
            },
            MessagePart::Call {
                given_id,
                name,
                arguments,
                signature,
                ..
            } => {
                let dummy = std::mem::take(&mut foreign).then_some(FOREIGN_CALL);
                let name = names::tool_name(name);
                let mut call = json!({ "name": name, "args": arguments });
                if let Some(given) = given_id {
                    call["id"] = given.as_str().into();
                }
                let call = json!({ "functionCall": call });
                (call, signature.as_deref().or(dummy))
            }
            MessagePart::Image { .. } | MessagePart::Result { .. } => continue,
        };
        if let Some(signature) = signature {
            value["thoughtSignature"] = signature.into();
        }
        out.push(value);
    }
    out
}

/// A decoder for a stream of `GenerateContentResponse`, or for a single one.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    answer: Answer,
    /// Tokens that the server has reported so far.
    pub(super) usage: Usage,
    stop: Option<StopReason>,
    done: bool,
}

impl GeminiDecoder {
    /// Returns whether the answer has ended completely. The stop reason does not prove it, because
    /// some models send one in every chunk.
    pub fn is_ended(&self) -> bool {
        self.done
    }

    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = event.data.trim();
        let mut deltas = Vec::new();
        self.done |= data == answer::DONE;
        if self.done || data.is_empty() {
            return Ok(deltas);
        }
        let chunk = match answer::json(data) {
            // The answer is complete, so this invalid event is ignored.
            Err(_) if self.stop.is_some() => return Ok(deltas),
            chunk => chunk?,
        };
        if chunk.get("error").is_some_and(|e| !e.is_null()) || event.event == "error" {
            return Err(errors::in_stream(&chunk));
        }
        if let Some(reason) = chunk
            .pointer("/promptFeedback/blockReason")
            .and_then(Value::as_str)
        {
            return Err(blocked(reason));
        }
        self.usage(&chunk);
        let Some(candidate) = chunk.pointer("/candidates/0") else {
            return Ok(deltas);
        };
        let parts = candidate
            .pointer("/content/parts")
            .and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.part(part, &mut deltas)?;
        }
        self.end(candidate)?;
        Ok(deltas)
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let signature = part
            .get("thoughtSignature")
            .and_then(Value::as_str)
            .filter(|s| !s.is_empty());
        if let Some(call) = part.get("functionCall").filter(|c| c.is_object()) {
            return self.call(call, signature, deltas);
        }
        let text = part.get("text").and_then(Value::as_str).unwrap_or("");
        let is_thought = part
            .get("thought")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        deltas.extend(if is_thought {
            self.answer.thinking(text)?
        } else {
            self.answer.text(text)?
        });
        if let Some(signature) = signature {
            self.sign(signature);
        }
        Ok(())
    }

    fn call(
        &mut self,
        call: &Value,
        signature: Option<&str>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let text = |key| {
            call.get(key)
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_string()
        };
        let arguments = match call.get("args") {
            None | Some(Value::Null) => "{}".to_string(),
            Some(Value::String(text)) => text.clone(),
            Some(args) => args.to_string(),
        };
        let name = text("name");
        self.answer.open(Block::Call {
            name: name.clone(),
            arguments,
            provider_id: Some(text("id")).filter(|id| !id.is_empty()),
            signature: signature.map(str::to_string),
        })?;
        deltas.push(Delta::Call { name });
        Ok(())
    }

    /// Stores a signature with its text. It may also arrive late, in a part without text. Then it
    /// belongs to the last text or the first call.
    fn sign(&mut self, given: &str) {
        let blocks = self.answer.blocks_mut();
        let target = match blocks.last() {
            Some(Block::Call { .. }) => blocks.iter_mut().find(|b| matches!(b, Block::Call { .. })),
            _ => blocks.last_mut(),
        };
        match target {
            Some(Block::Text { signature, .. } | Block::Call { signature, .. }) => {
                signature.get_or_insert_with(|| given.to_string());
            }
            Some(Block::Thinking { sealed, .. }) => {
                sealed.get_or_insert_with(|| given.into());
            }
            None => {}
        }
    }

    fn usage(&mut self, chunk: &Value) {
        let Some(usage) = chunk.get("usageMetadata").filter(|u| u.is_object()) else {
            return;
        };
        let sum = |keys: [&str; 2]| {
            let [a, b] = keys.map(|key| answer::count(usage, key));
            a.saturating_add(b)
        };
        let prompt = sum(["/promptTokenCount", "/toolUsePromptTokenCount"]);
        let cached = answer::count(usage, "/cachedContentTokenCount").min(prompt);
        self.usage = Usage {
            input: prompt - cached,
            cached,
            cache_written: 0,
            output: sum(["/candidatesTokenCount", "/thoughtsTokenCount"]),
            billed_nanos: None,
        };
    }

    fn end(&mut self, candidate: &Value) -> Result<(), Failure> {
        let text = |key| candidate.get(key).and_then(Value::as_str).unwrap_or("");
        let reason = text("finishReason");
        self.stop = Some(match reason {
            "" => return Ok(()),
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
                StopReason::Refusal
            }
            // A second try may succeed.
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE"
            | "MISSING_THOUGHT_SIGNATURE" => {
                let said = errors::clip(text("finishMessage"));
                return Err(errors::nonsense(
                    format!("the model's call was malformed: {reason} {said}").trim_end(),
                ));
            }
            _ => StopReason::Other,
        });
        Ok(())
    }

    /// Returns whether a stop reason was received. Some models send one in every chunk.
    pub fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    /// See [`Answer::kept`].
    pub fn kept(&self) -> usize {
        self.answer.kept()
    }

    pub fn finish(self) -> Result<Reply, Failure> {
        let stop = self.stop.ok_or_else(errors::cut)?;
        Ok(self.answer.finish(self.usage, stop))
    }
}

fn blocked(reason: &str) -> Failure {
    Failure::new(
        FailureClass::BadRequest,
        format!("the provider blocked the prompt: {}", errors::clip(reason)),
    )
}

#[cfg(test)]
mod tests;
