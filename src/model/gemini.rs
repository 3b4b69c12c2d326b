//! Google Gemini, `generateContent` and `streamGenerateContent?alt=sse`.
//! <https://ai.google.dev/api/generate-content>
//!
//! The model's name and whether it streams stand in the URL, not in the body. Thought
//! signatures are kept on the part they came with and go back on it.
//!
//! Deliberately absent: ids of calls (results are matched by name and order), hosted tools.

use serde_json::{Map, Value, json};

use super::answer::{self, Answer};
use super::gemini_schema;
use super::sse::Event;
use super::target::{Blobs, Target};
use super::{Delta, Reply, errors, image, names, plain};
use crate::core::entry::{BlobRef, Block, Failure, FailureClass, StopReason, Usage};
use crate::core::request::{Part, Request, Role};

pub use super::errors::classify;

/// Gemini 3 refuses a call of the running turn without a signature. The documentation
/// names this word for calls that another model made.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// Within what all models with a budget take, tokens.
const BUDGET: (u64, u64) = (512, 24_576);

pub fn body(request: &Request, target: &Target, blobs: Blobs) -> Value {
    let signed = needs_signatures(target.model);
    let contents = request.messages.iter().map(|message| {
        let (role, parts) = match message.role {
            Role::User => ("user", user(&message.parts, blobs)),
            Role::Assistant => ("model", model(&message.parts, signed)),
        };
        (role, parts)
    });
    let contents = contents
        .filter(|(_, parts)| !parts.is_empty())
        .map(|(role, parts)| {
            let mut content = json!({ "role": role });
            // Moved in: `json!` copies what it is given.
            content["parts"] = parts.into();
            content
        });
    let mut body = Map::new();
    body.insert("contents".into(), contents.collect());
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
    if let Some(budget) = target.thinking_budget.filter(|budget| *budget > 0) {
        let budget = budget.clamp(BUDGET.0, BUDGET.1);
        let thinking = json!({ "includeThoughts": true, "thinkingBudget": budget });
        config.insert("thinkingConfig".into(), thinking);
    }
    body.insert("generationConfig".into(), config.into());
    Value::Object(body)
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

/// Results first and together, as the calls were; then everything else.
fn user(parts: &[Part], blobs: Blobs) -> Vec<Value> {
    let mut results = Vec::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            Part::Result {
                id,
                name,
                text,
                images,
                is_error,
            } => {
                let key = if *is_error { "error" } else { "output" };
                results.push(json!({ "functionResponse": {
                    "name": names::tool_name(name), "response": { key: text },
                }}));
                for (media_type, blob) in images {
                    rest.push(json!({ "text": plain::image_label(name, id) }));
                    rest.push(image_part(media_type, blob, blobs));
                }
            }
            Part::Text { text, .. } if text.is_empty() => {}
            Part::Text { text, .. } => rest.push(json!({ "text": text })),
            Part::Image { media_type, blob } => rest.push(image_part(media_type, blob, blobs)),
            Part::Thinking { .. } | Part::Call { .. } => {}
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

fn model(parts: &[Part], signed: bool) -> Vec<Value> {
    let unsigned = |p: &Part| {
        matches!(
            p,
            Part::Call {
                signature: None,
                ..
            }
        )
    };
    let is_call = |p: &&Part| matches!(p, Part::Call { .. });
    // Of parallel calls only the first is signed.
    let mut foreign = signed && parts.iter().find(is_call).is_some_and(unsigned);
    let mut out = Vec::new();
    for part in parts {
        let (mut value, signature) = match part {
            Part::Text { text, .. } if text.is_empty() => continue,
            Part::Text { text, signature } => (json!({ "text": text }), signature.as_deref()),
            Part::Thinking { text, sealed } => match sealed.as_ref().and_then(Value::as_str) {
                Some(signature) => (json!({ "text": text, "thought": true }), Some(signature)),
                // A summary for the reader.
                None => continue,
            },
            Part::Call {
                name,
                arguments,
                signature,
                ..
            } => {
                let dummy = std::mem::take(&mut foreign).then_some(FOREIGN_CALL);
                let name = names::tool_name(name);
                let call = json!({ "functionCall": { "name": name, "args": arguments } });
                (call, signature.as_deref().or(dummy))
            }
            Part::Image { .. } | Part::Result { .. } => continue,
        };
        if let Some(signature) = signature {
            value["thoughtSignature"] = signature.into();
        }
        out.push(value);
    }
    out
}

/// A stream of `GenerateContentResponse`, or one.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    usage: Usage,
    stop: Option<StopReason>,
    done: bool,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Nothing of the answer comes after this. Why it ended is no such sign: some models
    /// name it in every chunk.
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
            // The answer is whole; this is not of the protocol.
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
        deltas.extend(match is_thought {
            true => self.answer.thinking(text)?,
            false => self.answer.text(text)?,
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

    /// A signature belongs to the text it came with. It may also come late, in a part
    /// without text: then it is the last text's, or the first call's.
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
            // The next try may be well formed.
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
    Failure {
        class: FailureClass::BadRequest,
        message: format!("the provider blocked the prompt: {}", errors::clip(reason)),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{
        bytes, conversation, cut_everywhere, data, decode, ends_once, events, failed, junk, reply,
        shown,
    };
    use super::*;
    use proptest::prelude::*;

    fn target(model: &str) -> Target<'_> {
        Target {
            model,
            provider: "gemini",
            stream: true,
            thinking_budget: Some(100_000),
        }
    }

    #[test]
    fn a_request_has_everything_in_its_place() {
        let png = json!({ "inlineData": { "mimeType": "image/png", "data": "AQID" } });
        let want = json!({
            "systemInstruction": { "parts": [{ "text": "You are an agent.\n" }, { "text": "Be brief." }] },
            "contents": [
                { "role": "user", "parts":
                    [{ "text": "What is this?" }, png, { "text": "[image not available]" }] },
                { "role": "model", "parts": [
                    { "text": "Look first.", "thought": true, "thoughtSignature": "c2Vh" },
                    { "text": "I look." },
                    { "functionCall": { "name": "read", "args": { "path": "a.png" } }, "thoughtSignature": "c2ln" },
                    { "functionCall": { "name": "no_such_tool", "args": {} } },
                ] },
                { "role": "user", "parts": [
                    { "functionResponse": { "name": "read", "response": { "output": "an image" } } },
                    { "functionResponse": { "name": "no_such_tool",
                        "response": { "error": "there is no such tool" } } },
                    { "text": "Image in the result of read (call_3_0):" }, png,
                    { "text": "And now?" },
                ] },
                { "role": "model", "parts": [{ "text": "It is a cat." }] },
                { "role": "user", "parts": [{ "text": "Good." }, { "text": "Go on." }] },
            ],
            "tools": [{ "functionDeclarations": [{
                "name": "read", "description": "Reads a file.",
                "parameters": { "type": "object", "properties": { "path": { "type": "string" } },
                    "required": ["path"] },
            }] }],
            "generationConfig": {
                "maxOutputTokens": 1000,
                "thinkingConfig": { "includeThoughts": true, "thinkingBudget": 24_576 },
            },
        });
        let request = conversation(Some("c2Vh".into()), Some("c2ln"));
        assert_eq!(
            body(&request, &target("gemini-3-pro-preview"), &bytes),
            want
        );
    }

    #[test]
    fn calls_of_another_model_are_marked_where_signatures_are_demanded() {
        let signatures = |model: &str| {
            let body = body(&conversation(None, None), &target(model), &bytes);
            let parts = body["contents"][1]["parts"].as_array().unwrap().clone();
            parts
                .iter()
                .filter_map(|p| p["thoughtSignature"].as_str().map(str::to_string))
                .collect::<Vec<_>>()
        };
        assert_eq!(signatures("gemini-3-flash"), [FOREIGN_CALL]);
        assert!(signatures("gemini-2.5-pro").is_empty());
    }

    const STREAM: &str = r#"
        {"candidates":[{"content":{"role":"model","parts":[{"text":"Look ","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":100}}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"first.","thought":true}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"I lo"}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"ok."}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"f2","name":"glob"}}]}}]}
        {"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":15,"thoughtsTokenCount":5}}
    "#;

    fn call(id: Option<&str>, name: &str, arguments: &str, signature: Option<&str>) -> Block {
        Block::Call {
            name: name.into(),
            arguments: arguments.into(),
            provider_id: id.map(str::to_string),
            signature: signature.map(str::to_string),
        }
    }

    #[test]
    fn a_stream_becomes_an_answer() {
        let (deltas, reply) = decode::<Decoder>(&events(STREAM));
        let reply = reply.unwrap();
        let want = [
            Block::Thinking {
                text: "Look first.".into(),
                sealed: None,
            },
            Block::text("I look."),
            call(None, "read", r#"{"path":"a"}"#, Some("c2ln")),
            call(Some("f2"), "glob", "{}", None),
        ];
        assert_eq!(reply.blocks, want);
        assert_eq!(reply.stop, StopReason::ToolUse);
        let usage = reply.usage;
        assert_eq!((usage.input, usage.cached, usage.output), (40, 60, 20));
        assert_eq!(shown(&deltas), ("I look.".into(), "Look first.".into()));
        let begun = deltas
            .iter()
            .filter(|d| matches!(d, Delta::Call { .. }))
            .count();
        assert_eq!(begun, 2);
        cut_everywhere::<Decoder>(STREAM, 5);
        ends_once::<Decoder>(STREAM);
    }

    /// The blocks of a stream of these parts, each in a chunk of its own.
    fn blocks(parts: &[&str]) -> Vec<Block> {
        let chunk =
            |part: &&str| format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n");
        let mut lines: String = parts.iter().map(chunk).collect();
        lines += r#"{"candidates":[{"finishReason":"STOP"}]}"#;
        reply::<Decoder>(&lines).blocks
    }

    #[test]
    fn a_signature_stays_on_its_part() {
        let signed = |text: &str, signature: &str| Block::Text {
            text: text.into(),
            signature: Some(signature.into()),
        };
        let late = [
            r#"{"text":"Hi"}"#,
            r#"{"text":"","thoughtSignature":"QQ=="}"#,
        ];
        assert_eq!(blocks(&late), [signed("Hi", "QQ==")]);
        let two = [
            r#"{"text":"a","thoughtSignature":"QQ=="}"#,
            r#"{"text":"b","thoughtSignature":"Qg=="}"#,
            r#"{"text":"c"}"#,
        ];
        assert_eq!(
            blocks(&two),
            [signed("a", "QQ=="), signed("b", "Qg=="), Block::text("c")]
        );
        let behind_calls = [
            r#"{"functionCall":{"name":"x","args":{}}}"#,
            r#"{"functionCall":{"name":"y","args":{}}}"#,
            r#"{"text":"","thoughtSignature":"QQ=="}"#,
        ];
        let want = [
            call(None, "x", "{}", Some("QQ==")),
            call(None, "y", "{}", None),
        ];
        assert_eq!(blocks(&behind_calls), want);
        let thought = [r#"{"text":"hm","thought":true,"thoughtSignature":"QQ=="}"#];
        let want = Block::Thinking {
            text: "hm".into(),
            sealed: Some("QQ==".into()),
        };
        assert_eq!(blocks(&thought), [want]);
        assert_eq!(blocks(&[r#"{"text":"","thoughtSignature":"QQ=="}"#]), []);
    }

    #[test]
    fn the_end_has_its_reason() {
        let stop = |reason: &str| {
            reply::<Decoder>(&format!(
                r#"{{"candidates":[{{"finishReason":"{reason}"}}]}}"#
            ))
            .stop
        };
        assert_eq!(stop("STOP"), StopReason::EndTurn);
        assert_eq!(stop("MAX_TOKENS"), StopReason::MaxTokens);
        assert_eq!(stop("SAFETY"), StopReason::Refusal);
        assert_eq!(stop("SOMETHING_NEW"), StopReason::Other);
    }

    #[test]
    fn errors_in_the_stream_have_their_class() {
        use FailureClass::*;
        for (line, want) in [
            (
                r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
                Overloaded,
            ),
            (
                r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#,
                RateLimit,
            ),
            (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, BadRequest),
            (
                r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print("}]}"#,
                Protocol,
            ),
            ("}", Protocol),
            (r#"{"candidates":[]}"#, Network),
        ] {
            assert_eq!(failed::<Decoder>(line), want, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_event_is_too_strange(junk in junk()) {
            let mut decoder = Decoder::new();
            for junk in junk {
                for shape in [
                    junk.clone(),
                    json!({ "candidates": [junk], "usageMetadata": junk }),
                    json!({ "candidates": [{ "content": { "parts": [junk, { "functionCall": junk }] } }] }),
                ] {
                    let _ = decoder.feed(&data(&shape.to_string()));
                }
            }
            let _ = decoder.finish();
        }
    }
}
