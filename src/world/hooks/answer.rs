//! The answer of a hook: what its exit code and its output mean.
//!
//! Source of the format: the hooks references of Claude Code and Codex. Exit code 0 with a JSON
//! object answers; exit code 0 with other text is context for some events; exit code 2 refuses, and
//! the reason is on stderr. Everything else is a failure.

use serde_json::{Map, Value};

use crate::command::{How, LEASE_ENDED, RunEnd};
use crate::core::cut::{CutSource, cut};
use crate::core::entry::{BlobRef, HookEvent, HookResult, HookRun, HookVerdict, Output};
use crate::core::text;
use crate::core::tool::ToolCall;
use crate::tools::arguments_from_hook;

/// Maximum size of the output of a hook.
pub(super) const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Maximum number of bytes of a hook's text that a request has.
const MAX_CONTEXT_BYTES: usize = 10_000;

/// Maximum number of characters of a reason, and of the words of a failed hook.
const REASON_CHARS: usize = 10_000;
const FAILURE_CHARS: usize = 300;

/// The answer of a hook, with the bytes of a long text.
pub(super) struct Answer {
    pub result: HookResult,
    pub blob: Option<Vec<u8>>,
}

/// Returns the answer of a hook that cannot be used. `onFailure: "allow"` ignores it.
pub(super) fn failed(run: &HookRun, why: &str) -> Answer {
    let why = text::one_line(why, REASON_CHARS);
    let (verdict, reason, message) = match run.may_fail {
        false => (HookVerdict::Failed, why, None),
        true => {
            let line = format!("the hook {} failed, and is ignored: {why}", run.hook);
            (HookVerdict::None, String::new(), Some(line))
        }
    };
    Answer {
        result: HookResult {
            hook: run.hook.clone(),
            verdict,
            reason,
            message,
            is_of_user: run.is_of_user,
            ..HookResult::default()
        },
        blob: None,
    }
}

/// Returns the answer of a hook that ended.
pub(super) fn of_end(
    event: HookEvent,
    run: &HookRun,
    end: &RunEnd,
    output: &[u8],
    errors: &[u8],
    call: Option<&ToolCall>,
) -> Answer {
    let errors = String::from_utf8_lossy(errors);
    let exit = match end.how {
        How::Exited(code) => Some(code),
        _ => None,
    };
    let read = match &end.how {
        _ if end.bytes_total > MAX_OUTPUT_BYTES => Err(format!(
            "its output is longer than {} MiB",
            MAX_OUTPUT_BYTES / (1024 * 1024)
        )),
        _ if end.is_output_lost => Err("the machine went down and took its output".to_string()),
        How::Exited(0) => of_output(event, output, call),
        How::Exited(2) if refuses_by_exit(event) => Ok(Parts {
            verdict: HookVerdict::Deny,
            reason: text::clip(errors.trim(), REASON_CHARS).into_owned(),
            ..Parts::default()
        }),
        How::Exited(code) => Err(with_words(&format!("exit code {code}"), &errors)),
        How::Signalled(signal) => Err(with_words(&format!("ended by signal {signal}"), &errors)),
        How::TimedOut => Err(with_words(
            &format!(
                "it reached its time limit after {:.1} s; raise `timeout`",
                end.took_ms as f64 / 1_000.0
            ),
            &errors,
        )),
        How::Stopped => Err("it was stopped".to_string()),
        How::LeaseEnded => Err(LEASE_ENDED.to_string()),
        How::NotRun(why) => Err(format!("it did not start: {why}")),
        How::Lost { .. } => Err(
            "its supervisor was lost, so its answer is unknown; it does not run again".to_string(),
        ),
    };
    let answer = match read {
        Ok(parts) => parts.answer(run),
        Err(why) => failed(run, &why),
    };
    Answer {
        result: HookResult {
            exit,
            took_ms: end.took_ms,
            ..answer.result
        },
        ..answer
    }
}

/// Returns whether exit code 2 refuses something at this event.
fn refuses_by_exit(event: HookEvent) -> bool {
    !matches!(
        event,
        HookEvent::SessionStart
            | HookEvent::PreCompact
            | HookEvent::Notification
            | HookEvent::SessionEnd
    )
}

fn with_words(how: &str, errors: &str) -> String {
    // The last line has the error of a stack trace.
    match errors.trim().lines().next_back() {
        None => how.to_string(),
        Some(last) => format!("{how}: {}", text::in_one_line(last, FAILURE_CHARS)),
    }
}

/// The parts of a usable answer.
#[derive(Default)]
struct Parts {
    verdict: HookVerdict,
    reason: String,
    input: Option<String>,
    context: Option<String>,
    message: Option<String>,
    stops: bool,
}

impl Parts {
    fn answer(self, run: &HookRun) -> Answer {
        let context = self.context.filter(|text| !text.trim().is_empty());
        let (context, blob) = match context {
            None => (None, None),
            Some(text) if text.len() <= MAX_CONTEXT_BYTES => (Some(Output::text(text)), None),
            Some(text) => {
                let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
                let source = CutSource {
                    address: &format!("blob:{hash}"),
                    is_all: true,
                };
                let output = Output {
                    text: cut(&text, MAX_CONTEXT_BYTES, source),
                    blob: Some(BlobRef {
                        hash,
                        bytes: text.len() as u64,
                    }),
                    images: Vec::new(),
                };
                (Some(output), Some(text.into_bytes()))
            }
        };
        Answer {
            result: HookResult {
                hook: run.hook.clone(),
                verdict: self.verdict,
                reason: self.reason,
                input: self.input,
                context,
                message: self.message,
                stops: self.stops,
                is_of_user: run.is_of_user,
                ..HookResult::default()
            },
            blob,
        }
    }
}

fn of_output(event: HookEvent, output: &[u8], call: Option<&ToolCall>) -> Result<Parts, String> {
    let text = std::str::from_utf8(output).map_err(|_| "its output is not UTF-8".to_string())?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.starts_with('{') {
        let is_context = matches!(event, HookEvent::SessionStart | HookEvent::UserPromptSubmit);
        return Ok(Parts {
            context: is_context.then(|| text.to_string()),
            ..Parts::default()
        });
    }
    let answer: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("its output is not valid JSON: {error}"))?;
    of_object(event, &answer, call)
}

fn of_object(
    event: HookEvent,
    answer: &Map<String, Value>,
    call: Option<&ToolCall>,
) -> Result<Parts, String> {
    let mut parts = Parts {
        message: words(answer, "systemMessage")?.map(str::to_string),
        ..Parts::default()
    };
    if let Some(reason) = words(answer, "reason")? {
        parts.reason = text::clip(reason, REASON_CHARS).into_owned();
    }
    parts.verdict = match words(answer, "decision")? {
        None => HookVerdict::None,
        Some("approve" | "allow") => HookVerdict::Allow,
        Some("block" | "deny") => HookVerdict::Deny,
        Some("ask") if event == HookEvent::PreToolUse => HookVerdict::Ask,
        Some(other) => return Err(unknown("decision", other)),
    };
    match answer.get("continue") {
        None | Some(Value::Null | Value::Bool(true)) => {}
        Some(Value::Bool(false)) => {
            parts.stops = true;
            if let Some(reason) = words(answer, "stopReason")? {
                parts.reason = text::clip(reason, REASON_CHARS).into_owned();
            }
            if event.is_guard() {
                parts.verdict = HookVerdict::Deny;
            }
        }
        Some(_) => return Err("`continue` is not true or false".to_string()),
    }
    match answer.get("hookSpecificOutput") {
        None | Some(Value::Null) => {}
        Some(Value::Object(specific)) => of_specific(event, specific, call, &mut parts)?,
        Some(_) => return Err("`hookSpecificOutput` is not an object".to_string()),
    }
    Ok(parts)
}

fn of_specific(
    event: HookEvent,
    specific: &Map<String, Value>,
    call: Option<&ToolCall>,
    parts: &mut Parts,
) -> Result<(), String> {
    if let Some(name) = words(specific, "hookEventName")?
        && name != event.name()
    {
        return Err(unknown("hookEventName", name));
    }
    parts.context = words(specific, "additionalContext")?.map(str::to_string);
    let mut input = specific.get("updatedInput");
    match event {
        HookEvent::PreToolUse => {
            let verdict = match words(specific, "permissionDecision")? {
                None => parts.verdict,
                Some("allow") => HookVerdict::Allow,
                Some("deny") => HookVerdict::Deny,
                Some("ask") => HookVerdict::Ask,
                Some(other) => return Err(unknown("permissionDecision", other)),
            };
            parts.verdict = parts.verdict.max(verdict);
            if let Some(reason) = words(specific, "permissionDecisionReason")? {
                parts.reason = text::clip(reason, REASON_CHARS).into_owned();
            }
        }
        HookEvent::PermissionRequest => match specific.get("decision") {
            None | Some(Value::Null) => {}
            Some(Value::Object(decision)) => {
                let verdict = match words(decision, "behavior")? {
                    Some("allow") => HookVerdict::Allow,
                    Some("deny") => HookVerdict::Deny,
                    other => return Err(unknown("behavior", other.unwrap_or("none"))),
                };
                parts.verdict = parts.verdict.max(verdict);
                if let Some(reason) = words(decision, "message")? {
                    parts.reason = text::clip(reason, REASON_CHARS).into_owned();
                }
                parts.stops |= decision.get("interrupt") == Some(&Value::Bool(true));
                input = input.or(decision.get("updatedInput"));
            }
            Some(_) => return Err("`decision` is not an object".to_string()),
        },
        _ => {}
    }
    if let (Some(input), Some(call)) = (input.filter(|input| !input.is_null()), call)
        && event.decides_about_call()
    {
        parts.input = Some(arguments_from_hook(call, input)?);
    }
    Ok(())
}

/// Returns a text of an answer.
fn words<'a>(answer: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match answer.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` is not a text")),
    }
}

fn unknown(key: &str, value: &str) -> String {
    format!(
        "`{key}` is {:?}, which is unknown",
        text::one_line(value, 60)
    )
}
