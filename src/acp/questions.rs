//! Questions to the client: permissions, and forms of servers (MCP).
//!
//! A question is an entry of the session before the client gets it. So it may be answered
//! elsewhere; then the client's request is withdrawn, and a late answer has no effect.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::output::Output;
use super::updates::{call_fields, text_content};
use super::wire::{
    ClientCapabilities, ElicitationAnswer, PermissionAnswer, PermissionOutcome, params,
};
use crate::core::entry::{CallId, Seq, Verdict};
use crate::core::form::{self, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion};
use crate::core::offer;
use crate::core::signal::Signal;
use crate::core::state::State;
use crate::core::tool::ToolCall;
use crate::engine::{ChildQuestion, Command};
use crate::session::{denial, short_id};

/// How often a question is asked again after an answer that cannot be used. Then it stays open for
/// other processes.
const MAX_REPEATS: u32 = 3;

const ALLOW: &str = "allow";
const ALWAYS: &str = "always";
const SERVER: &str = "always_server";
const REJECT: &str = "reject";

/// The identity of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuestionKey {
    /// The session that was opened. A question of a subagent belongs to its parent.
    pub session: String,
    /// The session of the subagent that asks.
    pub child: Option<String>,
    pub call: CallId,
    /// The place of the question in the log of its session.
    pub asked: Seq,
}

/// A request to the client that has no answer yet.
#[derive(Debug, Clone)]
struct OpenRequest {
    key: QuestionKey,
    method: &'static str,
    params: Value,
    /// The options that allow more than the call, each with its rules.
    rules: Vec<(&'static str, String)>,
    /// The question of a server. `None`: the question is whether a call may run.
    form: Option<ServerQuestion>,
    repeats: u32,
}

/// The effect of an answer of the client.
pub(super) enum Answered {
    /// A row of the session.
    Signal(QuestionKey, Signal),
    /// A command to the engine of the session.
    Command(QuestionKey, Command),
    /// The client cancels the turn.
    Cancelled(QuestionKey),
    /// Nothing: the answer is late, or the question was asked again.
    Nothing,
}

/// The open requests to the client, by their IDs.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<BTreeMap<u64, OpenRequest>>,
    last: std::sync::atomic::AtomicU64,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, OpenRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, output: &Output, request: OpenRequest) {
        let id = self.last.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let (method, params) = (request.method, request.params.clone());
        self.open().insert(id, request);
        output.request(id, method, &params);
    }

    /// Sends a question, unless the client has it already.
    fn ask(&self, output: &Output, request: OpenRequest) {
        if !self.open().values().any(|open| open.key == request.key) {
            self.send(output, request);
        }
    }

    /// Asks whether a call may run.
    pub(super) fn ask_permission(
        &self,
        output: &Output,
        session: &str,
        state: &State,
        call: CallId,
    ) {
        let Some((open, asked)) = state.questions().find(|(open, _)| open.call.id == call) else {
            return;
        };
        let fields = call_fields(&open.call, &state.folder);
        let key = QuestionKey {
            session: session.to_string(),
            child: None,
            call,
            asked: asked.seq,
        };
        self.ask(
            output,
            permission(
                key,
                fields,
                &asked.why,
                offers(&open.call, asked.rule.as_ref()),
            ),
        );
    }

    /// Asks the question of a server, if the client supports its kind. Otherwise `rewake answer`
    /// answers it.
    pub(super) fn ask_form(
        &self,
        output: &Output,
        client: &ClientCapabilities,
        session: &str,
        state: &State,
    ) {
        let Some((open, asked)) = state.server_question() else {
            return;
        };
        let key = QuestionKey {
            session: session.to_string(),
            child: None,
            call: open.call.id,
            asked: asked.seq,
        };
        if let Some(request) = elicitation(key, client, &asked.question) {
            self.ask(output, request);
        }
    }

    /// Asks the question of a subagent. `None`: no subagent asks any more.
    pub(super) fn ask_child(
        &self,
        output: &Output,
        client: &ClientCapabilities,
        session: &str,
        question: Option<&ChildQuestion>,
    ) {
        let key = question.map(|question| QuestionKey {
            session: session.to_string(),
            child: Some(question.session.clone()),
            call: question.call.id,
            asked: question.asked,
        });
        self.withdraw(output, session, |open| {
            open.child.is_some() && Some(open) != key.as_ref()
        });
        let (Some(question), Some(key)) = (question, key) else {
            return;
        };
        let request = match &question.form {
            Some(form) => elicitation(key, client, form),
            None => {
                let mut fields = call_fields(&question.call, "/");
                let short = short_id(&question.session);
                fields["toolCallId"] = format!("{short}-{}", question.call.id.wire()).into();
                let why = format!("the task {:?} asks: {}", question.title, question.why);
                Some(permission(key, fields, &why, Vec::new()))
            }
        };
        if let Some(request) = request {
            self.ask(output, request);
        }
    }

    /// Withdraws the questions of a session that were answered elsewhere.
    pub(super) fn withdraw(
        &self,
        output: &Output,
        session: &str,
        is_over: impl Fn(&QuestionKey) -> bool,
    ) {
        let mut over = Vec::new();
        self.open().retain(|id, open| {
            let goes = open.key.session == session && is_over(&open.key);
            if goes {
                over.push(*id);
            }
            !goes
        });
        for id in over {
            output.notify("$/cancel_request", &json!({ "requestId": id }));
        }
    }

    /// Takes an answer of the client. `result`: `None` if the client refused the request.
    pub(super) fn answered(
        &self,
        output: &Output,
        id: &Value,
        result: Option<&RawValue>,
    ) -> Answered {
        let removed = id.as_u64().and_then(|id| self.open().remove(&id));
        let (Some(mut request), Some(result)) = (removed, result) else {
            return Answered::Nothing;
        };
        let usable = match &request.form {
            None => verdict(&request, result),
            Some(form) => form_answer(&request.key, form, result),
        };
        if let Some(answered) = usable {
            return answered;
        }
        tracing::info!(id = %id, "the answer of the client cannot be used");
        request.repeats += 1;
        if request.repeats < MAX_REPEATS {
            self.send(output, request);
        }
        Answered::Nothing
    }
}

/// Returns the options that allow more than a call, each with its name and its rules.
fn offers(call: &ToolCall, rule: Option<&String>) -> Vec<(&'static str, String, String)> {
    let rules = offer::for_session(rule.map(String::as_str), call.full_name());
    let named = |(id, (rule, words)): (_, (String, String))| {
        let name = format!("Allow {words} in this session");
        (id, name, rule)
    };
    [ALWAYS, SERVER].into_iter().zip(rules).map(named).collect()
}

fn permission(
    key: QuestionKey,
    mut call: Value,
    why: &str,
    offers: Vec<(&'static str, String, String)>,
) -> OpenRequest {
    let mut content = vec![text_content(why)];
    if let Some(diffs) = call.get("content").and_then(Value::as_array) {
        content.extend(diffs.iter().cloned());
    }
    call["content"] = content.into();
    let mut options = vec![json!({ "optionId": ALLOW, "name": "Allow", "kind": "allow_once" })];
    options.extend(
        offers
            .iter()
            .map(|(id, name, _)| json!({ "optionId": id, "name": name, "kind": "allow_always" })),
    );
    options.push(json!({ "optionId": REJECT, "name": "Reject", "kind": "reject_once" }));
    OpenRequest {
        params: json!({ "sessionId": key.session, "toolCall": call, "options": options }),
        key,
        method: "session/request_permission",
        rules: offers.into_iter().map(|(id, _, rule)| (id, rule)).collect(),
        form: None,
        repeats: 0,
    }
}

/// Returns what follows from an answer about a call. `None`: it cannot be used.
fn verdict(request: &OpenRequest, result: &RawValue) -> Option<Answered> {
    let answer: PermissionAnswer = params(result).ok()?;
    let key = request.key.clone();
    let (call, asked) = (key.call, key.asked);
    let option = match answer.outcome {
        PermissionOutcome::Cancelled => return Some(Answered::Cancelled(key)),
        PermissionOutcome::Selected { option_id } => option_id,
    };
    let verdict = match option.as_str() {
        ALLOW => Verdict::Allow,
        REJECT => denial(None),
        ALWAYS | SERVER => {
            let mut rules = request.rules.iter();
            let rule = Some(rules.find(|(id, _)| *id == option)?.1.clone());
            let verdict = Verdict::Allow;
            let command = Command::Decide {
                call,
                verdict,
                rule,
            };
            return Some(Answered::Command(key, command));
        }
        _ => return None,
    };
    Some(match key.child.clone() {
        None => Answered::Signal(
            key,
            Signal::Decide {
                call,
                asked,
                verdict,
                rule: None,
            },
        ),
        Some(session) => Answered::Command(
            key,
            Command::DecideChild {
                session,
                call,
                asked,
                verdict,
            },
        ),
    })
}

/// Returns the request for the question of a server. `None`: the client does not support its kind.
fn elicitation(
    key: QuestionKey,
    client: &ClientCapabilities,
    question: &ServerQuestion,
) -> Option<OpenRequest> {
    let mut params = json!({
        "sessionId": key.session,
        "message": format!("{}: {}", question.asker(), question.line()),
    });
    if key.child.is_none() {
        params["toolCallId"] = key.call.wire().into();
    }
    match &question.wanted {
        RequestedAnswer::Form { fields } if client.has("/elicitation/form") => {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|field| (field.name.clone(), property(field)))
                .collect();
            let required = fields.iter().filter(|field| field.is_required);
            let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
            params["mode"] = "form".into();
            params["requestedSchema"] =
                json!({ "type": "object", "properties": properties, "required": required });
        }
        RequestedAnswer::Visit { url } if client.has("/elicitation/url") => {
            params["mode"] = "url".into();
            params["url"] = url.as_str().into();
            params["elicitationId"] = format!("{}-{}", key.call.wire(), key.asked).into();
        }
        _ => return None,
    }
    Some(OpenRequest {
        key,
        method: "elicitation/create",
        params,
        rules: Vec::new(),
        form: Some(question.clone()),
        repeats: 0,
    })
}

/// Returns the schema of a field.
fn property(field: &form::Field) -> Value {
    let choices = |choices: &[form::Choice]| -> Vec<Value> {
        let choice = |c: &form::Choice| json!({ "const": c.value, "title": c.label });
        choices.iter().map(choice).collect()
    };
    let whole = |number: &Option<f64>, is_integer: bool| match number {
        Some(number) if is_integer => json!(*number as i64),
        number => json!(number),
    };
    let mut schema = match &field.kind {
        FieldKind::Text {
            min_chars,
            max_chars,
            format,
        } => {
            let known = ["email", "uri", "date", "date-time"];
            let format = format.as_deref().filter(|format| known.contains(format));
            let (min, max) = (bounded(min_chars), bounded(max_chars));
            json!({ "type": "string", "minLength": min, "maxLength": max, "format": format })
        }
        FieldKind::Number {
            is_integer,
            min,
            max,
        } => json!({
            "type": if *is_integer { "integer" } else { "number" },
            "minimum": whole(min, *is_integer), "maximum": whole(max, *is_integer),
        }),
        FieldKind::YesNo => json!({ "type": "boolean" }),
        FieldKind::OneOf { choices: all } => json!({ "type": "string", "oneOf": choices(all) }),
        FieldKind::SomeOf {
            choices: all,
            min,
            max,
        } => json!({
            "type": "array", "minItems": min, "maxItems": max,
            "items": { "anyOf": choices(all) },
        }),
    };
    if !field.title.is_empty() {
        schema["title"] = field.title.as_str().into();
    }
    if !field.description.is_empty() {
        schema["description"] = field.description.as_str().into();
    }
    if let Some(default) = &field.default {
        schema["default"] = default.clone();
    }
    if let Value::Object(fields) = &mut schema {
        fields.retain(|_, value| !value.is_null());
    }
    schema
}

/// Returns a length that fits into the schema's 32 bits.
fn bounded(chars: &Option<u64>) -> Option<u32> {
    chars.map(|chars| u32::try_from(chars).unwrap_or(u32::MAX))
}

/// Returns what follows from an answer to a form. `None`: it cannot be used.
fn form_answer(
    key: &QuestionKey,
    question: &ServerQuestion,
    result: &RawValue,
) -> Option<Answered> {
    let answer = match params(result).ok()? {
        ElicitationAnswer::Accept { content } => FormAnswer::Accept {
            values: content.unwrap_or_default(),
        },
        ElicitationAnswer::Decline => FormAnswer::Decline,
        ElicitationAnswer::Cancel => FormAnswer::Cancel,
    };
    let answer = answer.or_decline(question);
    form::check(question, &answer).ok()?;
    let (key, call, asked) = (key.clone(), key.call, key.asked);
    Some(match key.child.clone() {
        None => Answered::Signal(
            key,
            Signal::Answer {
                call,
                asked,
                answer,
            },
        ),
        Some(session) => Answered::Command(
            key,
            Command::AnswerChild {
                session,
                call,
                asked,
                answer,
            },
        ),
    })
}
