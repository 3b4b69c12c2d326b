//! The choice of another form for a history that a server refused, by its words.
//!
//! Sources of the words: OpenAI ("The encrypted content … could not be verified",
//! `invalid_encrypted_content`), Anthropic ("Invalid `signature` in `thinking` block"), Gemini
//! ("Thought signature is not valid", "missing a thought_signature"), DeepSeek and Kimi ("The
//! `reasoning_content` in the thinking mode must be passed back"), the chat templates of Mistral
//! ("conversation roles must alternate", "Unexpected role 'user' after role 'tool'") and of Llama 3
//! ("This model only supports single tool-calls at once"), as llama.cpp and vLLM pass them on.

use super::budget::Budget;
use super::ending::is_answer;
use super::entry::{Entry, Failure, FailureClass, LearnedForm, Record, RequestForm, Seq};
use super::request::Message;
use super::request_failure::{RequestFailure, status};
use super::request_form::{Forms, ModelForms};
use super::state::State;
use super::text::one_line;
use super::window::CompactionSettings;
use super::{prompt, said_again, summary, unsent};

use RequestForm::{
    NotesInResults, OneCall, PlainText, WithReasoning, WithoutImages, WithoutReasoning,
};

/// The order in which forms are tried if the words of the server name no cause.
const ORDER: [RequestForm; 5] = [
    WithoutReasoning,
    NotesInResults,
    OneCall,
    WithoutImages,
    PlainText,
];

/// Several at once, after each alone was refused.
const TOGETHER: [RequestForm; 3] = [WithoutReasoning, WithoutImages, PlainText];

/// Words of servers, in lower case, and the form that answers them.
#[rustfmt::skip]
const CAUSES: [(RequestForm, &[&str]); 5] = [
    (WithReasoning, &["reasoning_content"]),
    (WithoutReasoning, &[
        "encrypted content", "encrypted_content", "signature", "thinking", "redacted", "reasoning item", "reasoning_details",
        "'reasoning'", "`reasoning`", "type 'reasoning",
    ]),
    (OneCall, &["single tool", "one tool call", "one tool-call", "parallel tool", "multiple tool calls", "multiple tool-calls"]),
    (NotesInResults, &["alternate", "after role", "unexpected role", "role 'tool'", "role: tool", "last role", "message order", "tool message", "user message"]),
    (PlainText, &["tool_call", "tool call", "tool_use", "tool_result", "function call", "functioncall", "function response", "function_call"]),
];

/// Words of an error about the conversation, which is all that a server with status 404 or 500 may
/// say for another form to be tried.
#[rustfmt::skip]
const ABOUT_HISTORY: [&str; 8] = [
    "template", "jinja", "messages[", "messages.", "input[", "contents[", "roles", "conversation",
];

/// Words of refusals that no form of the history changes.
#[rustfmt::skip]
const NEVER: [&str; 26] = [
    "content policy", "content_policy", "usage polic", "policy violation", "content_filter", "content filter",
    "content management policy", "content exists risk", "safety", "moderation", "flagged", "prohibited", "inappropriate", "blocked",
    "country", "region", "location is not supported", "territory", "organization has been", "--jinja",
    "--enable-auto-tool-choice", "does not support tools", "support tool use", "tool calling is not supported",
    "does not support function calling", "api key",
];

/// Words about parameters, which count unless the history is named too.
#[rustfmt::skip]
const PARAMETERS: [&str; 12] = [
    "unsupported parameter", "unsupported_parameter", "unsupported value", "unknown parameter", "unrecognized request argument",
    "max_tokens", "max_completion_tokens", "temperature", "budget_tokens", "invalid schema", "invalid_function_parameters",
    "input_schema",
];

/// Returns the next form to try after this refusal of the request that the state makes. `None`: the
/// refusal is not about the history, or nothing is left to try.
pub fn next_form(
    state: &State,
    failure: &Failure,
    budget: &Budget,
    windows: &CompactionSettings,
) -> Option<LearnedForm> {
    let words = words(failure)?;
    let none = ModelForms::default();
    let known = state.request_forms.of(&state.model).unwrap_or(&none);
    let at = state.next_seq();
    let lower = words.to_lowercase();
    let plain = Forms::default();
    let alone =
        |base: &Forms| -> Vec<Forms> { by_cause(&lower).map(|form| base.with(form, at)).collect() };
    let mut all = alone(&known.accepted);
    // The server may refuse now what it accepted once.
    if !known.accepted.is_plain() {
        all.push(plain.clone());
        all.extend(alone(&plain));
    }
    let together = TOGETHER.iter().fold(plain, |all, form| all.with(*form, at));
    all.push(together.clone());
    // Other reasons may keep what was named before from being enough.
    let needs_reasoning = known.tried.iter().any(|forms| forms.has(WithReasoning));
    let most = if needs_reasoning {
        together.with(WithReasoning, at)
    } else {
        together
    };
    all.push(most.clone());
    if let Some(digest) = digest(state, budget, windows) {
        all.push(most.with_digest(at, digest));
    }
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let render = |forms: &Forms| prompt::messages_in(state, inline, forms);
    let mut refused: Vec<Vec<Message>> = vec![render(&known.accepted)];
    refused.extend(known.tried.iter().map(render));
    let next = all
        .into_iter()
        .find(|forms| !refused.contains(&render(forms)))?;
    Some(next.learned(&words))
}

/// Returns the forms in the order in which they are tried.
fn by_cause(lower: &str) -> impl Iterator<Item = RequestForm> {
    let named = CAUSES.iter().filter(|(_, words)| has_one(lower, words));
    let mut all: Vec<RequestForm> = named.map(|(form, _)| *form).collect();
    for form in ORDER {
        if !all.contains(&form) {
            all.push(form);
        }
    }
    all.into_iter()
}

fn has_one(lower: &str, words: &[&str]) -> bool {
    words.iter().any(|words| lower.contains(words))
}

/// The begin of a failure that came inside of an answer.
pub(crate) const IN_STREAM: &str = "the provider broke off its answer";

/// Maximum length of the server's words in the entry.
const MAX_WORDS: usize = 300;

/// Returns the words of a refusal that another form may answer, with its status.
fn words(failure: &Failure) -> Option<String> {
    let own = RequestFailure::parse(&failure.message).and_then(|said| said.server_words());
    let lower = own.unwrap_or(&failure.message).to_lowercase();
    let status = status(&failure.message);
    let is_named = CAUSES.iter().any(|(_, words)| has_one(&lower, words))
        || has_one(&lower, &ABOUT_HISTORY)
        || unsent::is_clear(&lower);
    let may_be = match (failure.class, status) {
        (FailureClass::BadRequest, Some(404)) => is_named,
        (FailureClass::BadRequest, Some(400 | 413 | 422)) => true,
        (FailureClass::BadRequest, None) => failure.message.starts_with(IN_STREAM),
        (FailureClass::Overloaded, Some(500)) => is_named,
        (FailureClass::Overloaded, None) => is_named && failure.message.starts_with(IN_STREAM),
        _ => false,
    };
    let is_other =
        has_one(&lower, &NEVER) || has_one(&lower, &PARAMETERS) && !has_one(&lower, &ABOUT_HISTORY);
    (may_be && !is_other).then(|| {
        let status = status
            .map(|status| format!("HTTP {status}: "))
            .unwrap_or_default();
        status + &one_line(own.unwrap_or(&failure.message), MAX_WORDS)
    })
}

/// Returns the refusal with what was tried in vain. `None`: nothing was.
pub fn with_tried(state: &State, failure: &Failure) -> Option<Failure> {
    words(failure)?;
    let tried = &state.request_forms.of(&state.model)?.tried;
    let words = |forms: &Forms| forms.learned("").words();
    let tried: Vec<String> = tried.iter().map(words).collect();
    if tried.is_empty() {
        return None;
    }
    Some(Failure {
        message: format!(
            "{}; the history was refused, too, when it was sent {}",
            failure.message,
            tried.join(", ")
        ),
        hint: Some(
            "continue with another model (-m PROVIDER/MODEL, or /model on the screen), or from an \
             earlier point (rewake fork ID --at N)"
                .into(),
        ),
        ..failure.clone()
    })
}

/// Returns the digest of all before the newest turn, with the words of the user, and where that turn
/// begins: with the first message that has no answer yet.
fn digest(state: &State, budget: &Budget, windows: &CompactionSettings) -> Option<(Seq, String)> {
    let is_said = |record: &Record| matches!(record.entry, Entry::Said { .. });
    let is_answer = |record: &Record| match &record.entry {
        Entry::Replied { blocks, stop, .. } => is_answer(blocks, *stop),
        _ => false,
    };
    let answered = state
        .context
        .iter()
        .rposition(is_answer)
        .map_or(0, |at| at + 1);
    let first = state.context[answered..].iter().position(is_said);
    let turn = match first {
        Some(at) => answered + at,
        None => state.context.iter().rposition(is_said)?,
    };
    let (left, kept) = state.context.split_at(turn);
    let before = kept.first()?.seq;
    let last = left.last()?.seq;
    let bytes = budget.bytes(windows.summary_tokens(budget));
    let digest = summary::digest(state, left, bytes);
    Some((before, said_again::render(state, budget, &digest, last)))
}
