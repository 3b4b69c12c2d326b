//! The log as spans: a pure fold.
//!
//! A turn is the span `invoke_agent rewake`. Below it are `chat MODEL` for each answer and
//! `execute_tool NAME` for each call. Names and attributes are those of the semantic conventions
//! for generative AI ([`SCHEMA`]).
//!
//! Invariant: a span depends on nothing but the session, its trace and the entries of its turn. So
//! a span that is sent again after a crash is the same span.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::entry::{
    Block, CallId, Entry, FailureClass, Outcome, Record, Seq, StopReason, Usage, Verdict,
};
use crate::core::text::{head_tail, one_line};

/// Version of the semantic conventions.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Maximum bytes of a content in an attribute.
const CONTENT_BYTES: usize = 8 * 1024;

/// Maximum length of a tool's name, which the model writes.
const NAME_CHARS: usize = 100;

pub type SpanId = [u8; 8];

/// The trace of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    pub id: [u8; 16],
    /// The span above the turns.
    pub parent: Option<SpanId>,
}

impl Trace {
    /// Returns the trace of a session that is below no other span.
    pub fn of_session(session: &str) -> Trace {
        Trace {
            id: hash(&["trace", session]),
            parent: None,
        }
    }

    /// Parses a `traceparent` (W3C Trace Context, section 3.2).
    pub fn parse(text: &str) -> Option<Trace> {
        let mut parts = text.trim().split('-');
        let (version, id, parent) = (parts.next()?, parts.next()?, parts.next()?);
        let version: [u8; 1] = bytes(version)?;
        let _flags: [u8; 1] = bytes(parts.next()?)?;
        // A later version may have more parts.
        let is_known = version < [0xff] && (version > [0] || parts.next().is_none());
        let (id, parent) = (bytes(id)?, bytes(parent)?);
        (is_known && id != [0; 16] && parent != [0; 8]).then_some(Trace {
            id,
            parent: Some(parent),
        })
    }

    /// Returns the `traceparent` for a process that a call starts.
    pub fn traceparent(&self, session: &str, call: CallId) -> String {
        format!("00-{}-{}-01", hex(&self.id), hex(&call_span(session, call)))
    }
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let digit = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let mut bytes = [0; N];
    (hex.len() == 2 * N && hex.bytes().all(|b| digit(&b))).then_some(())?;
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    let mut id = [0; N];
    hasher.finalize_xof().fill(&mut id);
    id
}

/// Returns the span of an entry: of an answer, or of the turn that it begins.
fn entry_span(what: &str, session: &str, seq: Seq) -> SpanId {
    hash(&["span", session, what, &seq.to_string()])
}

/// Returns the span of a call. It is known before the call starts.
pub fn call_span(session: &str, call: CallId) -> SpanId {
    hash(&["span", session, "call", &call.to_string()])
}

/// A span that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    /// The work is done elsewhere (`SPAN_KIND_CLIENT`), not in this process.
    pub is_client: bool,
    /// UTC, milliseconds since 1970.
    pub start_ms: i64,
    pub end_ms: i64,
    /// Text, whole numbers, flags, and lists of text.
    pub attributes: Vec<(&'static str, Value)>,
    pub failed: bool,
    /// For an answer: the model (`provider/model`) and its tokens.
    pub answer: Option<(String, Usage)>,
}

struct Turn {
    first: Seq,
    start_ms: i64,
    prompt: Option<String>,
    is_recovered: bool,
    /// The turn ends when no call is open. `Some(Some(_))`: it failed, and why.
    end: Option<Option<String>>,
}

struct OpenCall {
    name: String,
    arguments: String,
    start_ms: i64,
    is_started: bool,
    is_recovered: bool,
}

/// The turn and the calls of a session that have not ended.
pub struct SpanFold {
    session: String,
    trace: Trace,
    has_contents: bool,
    turn: Option<Turn>,
    calls: BTreeMap<CallId, OpenCall>,
}

impl SpanFold {
    /// Begins at the first entry of a turn. `has_contents`: spans have the texts of prompts,
    /// answers, arguments and results.
    pub fn new(session: &str, trace: Trace, has_contents: bool) -> SpanFold {
        SpanFold {
            session: session.to_string(),
            trace,
            has_contents,
            turn: None,
            calls: BTreeMap::new(),
        }
    }

    /// Returns the first entry that the spans after `next` need.
    pub fn needs(&self, next: Seq) -> Seq {
        self.turn.as_ref().map_or(next, |turn| turn.first)
    }

    /// Returns the spans that end with this entry.
    pub fn fold(&mut self, record: &Record) -> Vec<Span> {
        let at_ms = record.at_ms;
        let mut ended = Vec::new();
        match &record.entry {
            Entry::Said { text, .. } => {
                let prompt = self.has_contents.then(|| clipped(text));
                self.turn_at(record.seq, at_ms)
                    .prompt
                    .get_or_insert_with(|| prompt.unwrap_or_default());
            }
            Entry::Replied { .. } => ended.extend(self.answer(record)),
            Entry::Decided { call, verdict, .. } => {
                if let (Some(call), Verdict::Allow) = (self.calls.get_mut(call), verdict) {
                    (call.start_ms, call.is_recovered) = (at_ms, false);
                }
            }
            Entry::Started { call, .. } => {
                let call = self.calls.get_mut(call).filter(|call| !call.is_started);
                if let Some(call) = call {
                    (call.start_ms, call.is_started, call.is_recovered) = (at_ms, true, false);
                }
            }
            Entry::Finished { call, outcome, .. } => {
                let open = self.calls.remove(call);
                ended.extend(open.map(|open| self.call(*call, open, outcome, at_ms)));
            }
            Entry::Resumed { .. } => {
                self.calls
                    .values_mut()
                    .for_each(|call| call.is_recovered = true);
                self.turn
                    .iter_mut()
                    .for_each(|turn| turn.is_recovered = true);
            }
            Entry::Stopped { .. } => self.end_turn(None),
            Entry::Failed { error, .. } => self.end_turn(Some(class_name(error.class))),
            Entry::Forked { .. } => {
                self.turn = None;
                self.calls.clear();
            }
            _ => {}
        }
        if self.calls.is_empty() {
            let over = self.turn.take_if(|turn| turn.end.is_some());
            ended.extend(over.map(|turn| self.turn_span(turn, at_ms)));
        }
        ended
    }

    /// Returns the open turn. Without one, a turn begins here.
    fn turn_at(&mut self, seq: Seq, start_ms: i64) -> &mut Turn {
        self.turn.get_or_insert(Turn {
            first: seq,
            start_ms,
            prompt: None,
            is_recovered: false,
            end: None,
        })
    }

    fn end_turn(&mut self, why: Option<String>) {
        if let Some(turn) = &mut self.turn {
            turn.end = Some(why);
        }
    }

    fn answer(&mut self, record: &Record) -> Option<Span> {
        let Entry::Replied {
            blocks,
            usage,
            stop,
            model,
            took_ms,
            ..
        } = &record.entry
        else {
            return None;
        };
        let start_ms = record.at_ms.saturating_sub_unsigned(*took_ms);
        let turn = self.turn_at(record.seq, start_ms).first;
        for (id, name, arguments) in Block::calls(record.seq, blocks) {
            let call = OpenCall {
                name: one_line(name, NAME_CHARS),
                arguments: self.content(arguments),
                start_ms: record.at_ms,
                is_started: false,
                is_recovered: false,
            };
            self.calls.insert(id, call);
        }
        if self.calls.is_empty() {
            self.end_turn(None);
        }
        let (provider, name) = provider_and_model(model);
        let mut attributes = self.common("chat");
        attributes.extend([
            ("gen_ai.provider.name", json!(provider)),
            ("gen_ai.request.model", json!(name)),
            (
                "gen_ai.response.finish_reasons",
                json!([finish_reason(*stop)]),
            ),
            ("gen_ai.usage.input_tokens", json!(usage.prompt())),
            ("gen_ai.usage.output_tokens", json!(usage.output)),
            ("gen_ai.usage.cache_read.input_tokens", json!(usage.cached)),
            (
                "gen_ai.usage.cache_creation.input_tokens",
                json!(usage.cache_written),
            ),
        ]);
        if self.has_contents {
            let text = clipped(&Block::joined_texts(blocks));
            attributes.push(("gen_ai.output.messages", message("assistant", &text)));
        }
        Some(Span {
            id: entry_span("chat", &self.session, record.seq),
            parent: Some(entry_span("turn", &self.session, turn)),
            name: format!("chat {name}"),
            is_client: true,
            start_ms,
            end_ms: record.at_ms,
            attributes,
            failed: false,
            answer: Some((model.clone(), *usage)),
        })
    }

    fn call(&self, id: CallId, call: OpenCall, outcome: &Outcome, end_ms: i64) -> Span {
        let error = match outcome {
            Outcome::Done { .. } => None,
            Outcome::Error { .. } => Some("tool_error"),
            Outcome::Denied { .. } => Some("denied"),
            Outcome::Interrupted { .. } => Some("interrupted"),
        };
        let mut attributes = self.common("execute_tool");
        attributes.extend([
            ("gen_ai.tool.name", json!(call.name)),
            ("gen_ai.tool.type", json!("function")),
            ("gen_ai.tool.call.id", json!(id.wire())),
        ]);
        attributes.extend(error.map(|error| ("error.type", json!(error))));
        if call.is_recovered && error != Some("denied") {
            attributes.push(("rewake.recovered", json!(true)));
        }
        if self.has_contents {
            let result = clipped(&outcome.to_model_text().0);
            attributes.push(("gen_ai.tool.call.arguments", json!(call.arguments)));
            attributes.push(("gen_ai.tool.call.result", json!(result)));
        }
        Span {
            id: call_span(&self.session, id),
            parent: self
                .turn
                .as_ref()
                .map(|turn| entry_span("turn", &self.session, turn.first)),
            name: format!("execute_tool {}", call.name),
            is_client: false,
            start_ms: call.start_ms,
            end_ms,
            attributes,
            failed: error.is_some(),
            answer: None,
        }
    }

    fn turn_span(&self, turn: Turn, end_ms: i64) -> Span {
        let error = turn.end.flatten();
        let mut attributes = self.common("invoke_agent");
        attributes.push(("gen_ai.agent.name", json!("rewake")));
        if turn.is_recovered {
            attributes.push(("rewake.recovered", json!(true)));
        }
        let failed = error.is_some();
        attributes.extend(error.map(|error| ("error.type", json!(error))));
        if let (true, Some(prompt)) = (self.has_contents, turn.prompt) {
            attributes.push(("gen_ai.input.messages", message("user", &prompt)));
        }
        Span {
            id: entry_span("turn", &self.session, turn.first),
            parent: self.trace.parent,
            name: "invoke_agent rewake".to_string(),
            is_client: false,
            start_ms: turn.start_ms,
            end_ms,
            attributes,
            failed,
            answer: None,
        }
    }

    fn common(&self, operation: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("gen_ai.operation.name", json!(operation)),
            ("gen_ai.conversation.id", json!(self.session)),
        ]
    }

    fn content(&self, text: &str) -> String {
        match self.has_contents {
            true => clipped(text),
            false => String::new(),
        }
    }
}

fn clipped(text: &str) -> String {
    head_tail(text, CONTENT_BYTES, " […] ").into_owned()
}

/// Returns messages of the conventions as JSON in a text.
fn message(role: &str, text: &str) -> Value {
    let parts = json!([{ "type": "text", "content": text }]);
    json!(json!([{ "role": role, "parts": parts }]).to_string())
}

fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other => "other",
    }
}

fn class_name(class: FailureClass) -> String {
    let name = serde_json::to_value(class).ok();
    let name = name.as_ref().and_then(Value::as_str);
    name.unwrap_or("_OTHER").to_string()
}

/// Returns the provider by its name in the conventions, and the model.
pub fn provider_and_model(model: &str) -> (&str, &str) {
    let (provider, name) = model.split_once('/').unwrap_or(("_OTHER", model));
    let provider = match provider {
        "azure" => "azure.ai.openai",
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    };
    (provider, name)
}

#[cfg(test)]
mod tests;
