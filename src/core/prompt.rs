//! State -> Request: the messages for the model are a projection of the log.
//!
//! The projection is valid by construction: results are directly after their calls, roles
//! alternate, ids are unique. It invents nothing: a call without a result is never projected,
//! because `next` does not ask the model while one is open.

mod kept;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::budget::Budget;
use super::cut::{CutSource, cut, is_cut};
use super::entry::{Block, CallId, Entry, Outcome, Output, Record, Seq};
use super::freeing::{bytes_of, may_be_freed};
use super::permission::Permission;
use super::plain_text::plain_text;
use super::quoted::inside_tag;
use super::request::{Message, MessagePart, Request, Role, plain};
use super::request_form::Forms;
use super::size::{IMAGE_BYTES, PART_BYTES, SAID_FACTOR, UNSENT_BYTES, images_of, record_bytes};
use super::state::State;
use super::tool::Describe;
use super::{hook, rewind, unsent};

pub use kept::KeptMessages;

/// Builds the request to send: the same bytes for the same log at any time. Messages from the
/// previous request are reused.
pub fn request(
    state: &State,
    budget: &Budget,
    inline_max_bytes: usize,
    kept: &mut KeptMessages,
) -> Request {
    let inline = budget.inline_bytes(inline_max_bytes);
    let mut messages = messages_again(state, inline, kept);
    mark(&mut messages, state);
    Request {
        model: state.model.clone(),
        system: state.layers.system.clone(),
        tools: state.layers.tools.clone(),
        instructions: state.layers.instructions_and_start().0.to_string(),
        messages,
        max_tokens: budget.answer,
        effort: state.effort,
        temperature: state.temperature,
        answers: state.replies + state.cut_answers,
        has_answered: has_answered(state),
        schema: state.structured.as_ref().map(|held| held.schema.clone()),
    }
}

/// Returns whether the provider of the session's model has answered in this session.
fn has_answered(state: &State) -> bool {
    let provider = |model: &str| model.split('/').next().map(str::to_string);
    let own = provider(&state.model);
    state.spent.keys().any(|model| provider(model) == own)
}

/// Marks the places where a provider should look in its cache, and write what the next requests
/// find there: three at most. A provider looks only a short distance back from a mark. An answer
/// with many calls is longer, and so is the change that [`super::freeing`] makes.
fn mark(messages: &mut [Message], state: &State) {
    let newest = messages.len().checked_sub(1);
    let preface = state.preface.as_ref().map(|_| 0);
    // Nothing before this changes until the next summary.
    let settled = first_to_free(state)
        .and_then(|seq| before_result(messages, state, seq))
        .or(preface);
    // The end of the previous request. If results were freed since, the corresponding place before
    // them.
    let known = match state.freed.oldest_new() {
        Some(seq) => before_result(messages, state, seq),
        None => newest.and_then(|newest| users_before(messages, newest)),
    };
    for at in [settled, known, newest].into_iter().flatten() {
        messages[at].cache = true;
    }
}

/// Returns the oldest result that may still be freed.
fn first_to_free(state: &State) -> Option<Seq> {
    let mut records = state.context.iter();
    let found = records.find(|record| {
        matches!(record.entry, Entry::Finished { .. })
            && !state.freed.has(record.seq)
            && may_be_freed(record)
    });
    found.map(|record| record.seq)
}

/// Returns the last message of the user before the one with this result.
fn before_result(messages: &[Message], state: &State, seq: Seq) -> Option<usize> {
    let mut records = state.context.iter();
    let id = records.find_map(|record| match &record.entry {
        Entry::Finished { call, .. } if record.seq == seq => Some(call.wire()),
        _ => None,
    })?;
    let is_it =
        |part: &MessagePart| matches!(part, MessagePart::Result { id: its, .. } if *its == id);
    let at = messages.iter().position(|m| m.parts.iter().any(is_it))?;
    users_before(messages, at)
}

/// Returns the last message of the user before this one; requests end with one.
fn users_before(messages: &[Message], at: usize) -> Option<usize> {
    messages[..at].iter().rposition(|m| m.role == Role::User)
}

/// Builds the messages of the log. They are valid for every prefix of every log: a call without a
/// result is left out. A text over `inline` bytes is replaced by head, tail and its address.
pub fn messages(state: &State, inline: usize) -> Vec<Message> {
    messages_again(state, inline, &mut KeptMessages::default())
}

/// Builds the same as [`messages`], and reuses messages from the previous request.
pub fn messages_again(state: &State, inline: usize, kept: &mut KeptMessages) -> Vec<Message> {
    render(
        state,
        inline,
        state.request_forms.current(&state.model),
        kept,
    )
}

/// Builds the messages as a request in these forms has them.
pub(super) fn messages_in(state: &State, inline: usize, forms: &Forms) -> Vec<Message> {
    render(state, inline, Some(forms), &mut KeptMessages::default())
}

fn render(
    state: &State,
    inline: usize,
    forms: Option<&Forms>,
    kept: &mut KeptMessages,
) -> Vec<Message> {
    let mut out = Messages::new(inline, forms);
    kept.begin(state, inline, forms);
    let (_, start) = state.layers.instructions_and_start();
    out.push(Role::User, [plain(start.to_string())]);
    let mut rest = &state.context[..];
    let first = rest.first().map(|record| record.seq);
    match forms.and_then(|forms| forms.digest(first)) {
        // It has what the preface says.
        Some((before, digest)) => {
            out.push(Role::User, [plain(digest.to_string())]);
            rest = &rest[rest.partition_point(|record| record.seq < before)..];
        }
        None => {
            let preface = state.preface.iter();
            out.push(Role::User, preface.map(|p| plain(p.text.clone())));
        }
    }
    while let Some((record, behind)) = rest.split_first() {
        rest = match kept::first_answered_turn(rest, state, forms) {
            Some(exchange) if out.may_begin_an_answer() => {
                out.flush();
                out.done
                    .extend_from_slice(kept.messages(&exchange, state, inline, forms));
                exchange.behind
            }
            _ => {
                out.record(record, state);
                behind
            }
        };
    }
    kept.end();
    let messages = out.finish();
    match forms {
        Some(forms) => forms.shape(messages),
        None => messages,
    }
}

/// Estimates the bytes of a request; images count by their cost.
pub fn request_bytes(state: &State, inline: usize) -> usize {
    let forms = state.request_forms.current(&state.model);
    let first = state.context.first().map(|record| record.seq);
    let digest = forms.and_then(|forms| forms.digest_size(first));
    let (first, preface) = match (digest, &state.preface) {
        (Some((before, bytes)), _) => (before, bytes + PART_BYTES),
        (None, Some(preface)) => (0, preface.text.len() + PART_BYTES),
        (None, None) => (0, 0),
    };
    let bytes = |record: &Record| match state.image_refusal(record.seq, forms) {
        _ if state.freed.has(record.seq) => bytes_of(state, record, inline),
        None => record_bytes(record, inline),
        Some(_) => {
            let images = images_of(&record.entry).len();
            record_bytes(record, inline) - images * (IMAGE_BYTES - UNSENT_BYTES)
        }
    };
    let sent = state.context.iter().filter(|record| record.seq >= first);
    let records: usize = sent.map(bytes).sum();
    state.fixed_bytes() + preface + records
}

/// Returns the text, or the beginning and the end of a large one with the address of the whole.
fn inlined(text: &str, inline: usize, seq: Seq) -> String {
    if is_cut(text.len(), inline) {
        cut_of_entry(text, inline, seq, true)
    } else {
        text.to_string()
    }
}

/// Does the same for a part of an entry. A byte position in it is not an offset in the whole.
fn inlined_part(text: &str, inline: usize, seq: Seq) -> String {
    if text.len() <= inline {
        text.to_string()
    } else {
        cut_of_entry(text, inline, seq, false)
    }
}

fn cut_of_entry(text: &str, inline: usize, seq: Seq, is_all: bool) -> String {
    let address = format!("entry {seq}");
    let source = CutSource {
        address: &address,
        is_all,
    };
    cut(text, inline, source)
}

/// Returns a result, or the shortened form of a large one. A result that was shortened when it was
/// recorded has its whole text in a blob, and is shortened around the same place.
pub(crate) fn inlined_result(text: &str, inline: usize, seq: Seq, outcome: &Outcome) -> String {
    let output = match outcome {
        Outcome::Done { output }
        | Outcome::Error { output }
        | Outcome::Interrupted { output, .. } => Some(output),
        Outcome::Denied { .. } => None,
    };
    match output {
        Some(Output {
            blob: Some(blob), ..
        }) if text.len() > inline => {
            let address = format!("blob:{}", blob.hash);
            let source = CutSource {
                address: &address,
                is_all: true,
            };
            cut(text, inline, source)
        }
        _ => cut_of_entry(text, inline, seq, true),
    }
}

/// Shortens each text of arguments that are too large.
fn shortened(value: Value, inline: usize, seq: Seq) -> Value {
    match value {
        Value::String(text) => Value::String(inlined_part(&text, inline, seq)),
        Value::Array(items) => items
            .into_iter()
            .map(|v| shortened(v, inline, seq))
            .collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, v)| (key, shortened(v, inline, seq)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

/// Messages under construction. The last answer waits until its results are known.
#[derive(Default)]
struct Messages<'a> {
    inline: usize,
    forms: Option<&'a Forms>,
    done: Vec<Message>,
    /// Parts of the last answer, and the results of its calls in their order.
    answer: Vec<MessagePart>,
    calls: Vec<Called>,
    /// Texts of hooks that follow the results of these calls.
    after_results: Vec<MessagePart>,
}

/// A call of the last answer.
struct Called {
    id: CallId,
    given_id: Option<String>,
    name: String,
    arguments: String,
    result: Option<MessagePart>,
}

impl Called {
    /// Returns whether its result has the text of files, of which the model must know every byte.
    /// The output file of a command's run folder does not count.
    fn shows_files(&self, describe: Describe) -> bool {
        match describe(&self.name, &self.arguments).map(|d| d.permission) {
            Ok(Permission::Path { path, .. }) => !is_output_of_run(&path),
            Ok(permission) => permission.path_use().is_some(),
            Err(_) => false,
        }
    }
}

/// Returns whether a path is the output file of a background command: `…/runs/RUN/output`.
fn is_output_of_run(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    parts.next() == Some("output") && parts.nth(1) == Some("runs")
}

impl<'a> Messages<'a> {
    fn new(inline: usize, forms: Option<&'a Forms>) -> Messages<'a> {
        Messages {
            inline,
            forms,
            ..Messages::default()
        }
    }

    fn record(&mut self, record: &Record, state: &State) {
        // The reason why its images are not sent.
        let refused = state.image_refusal(record.seq, self.forms);
        match &record.entry {
            Entry::Said { text, images, .. } => {
                self.flush();
                let images = images.iter().map(|i| match refused {
                    Some(why) => plain(unsent::line(i, why)),
                    None => MessagePart::Image {
                        media_type: i.media_type.clone(),
                        blob: i.blob.clone(),
                    },
                });
                let words = if text.trim().is_empty() && images.len() == 0 {
                    "(an empty message)".to_string()
                } else {
                    inlined(text, self.inline.saturating_mul(SAID_FACTOR), record.seq)
                };
                self.push(Role::User, std::iter::once(plain(words)).chain(images));
            }
            Entry::Replied {
                blocks, model: by, ..
            } => {
                self.flush();
                self.answer(record.seq, blocks, *by == state.model);
            }
            Entry::Finished { call, outcome, .. } => match state.freed.line(record.seq) {
                Some(line) => self.freed(*call, outcome, line),
                None => self.result(record.seq, *call, outcome, refused, state),
            },
            Entry::Stopped {
                draft: Some(draft), ..
            } => {
                self.flush();
                self.push(
                    Role::Assistant,
                    [plain(inlined(draft, self.inline, record.seq))],
                );
            }
            Entry::Noted { text, .. }
            | Entry::Checked {
                told: Some(text), ..
            } => {
                self.flush();
                self.push(Role::User, [note(&inlined(text, self.inline, record.seq))]);
            }
            Entry::Hooked { .. } => {
                let text = hook::note(&record.entry).unwrap_or_default();
                let text = note(&inlined(&text, self.inline, record.seq));
                self.note_after_results(text);
            }
            Entry::Restored { .. } => {
                self.flush();
                if let Some(text) = rewind::told(&record.entry) {
                    self.push(Role::User, [note(&inlined(&text, self.inline, record.seq))]);
                }
            }
            Entry::Forked {
                folder,
                from_replica,
                ..
            } => {
                self.close_all(
                    "interrupted: this session was copied from another one while this call was open, \
                     and the other may have done it: look at its effects before you repeat it",
                );
                if let (Some(folder), None) = (folder, from_replica) {
                    self.flush();
                    self.push(Role::User, [note(&rewind::folder_copy_note(folder))]);
                }
            }
            Entry::Relocated {
                from, folder, by, ..
            } => {
                let by = by.words();
                self.note_after_results(note(&format!(
                    "The folder {from} was moved: it is {folder} now ({by}). Use paths of the new \
                     place. Files may have changed meanwhile."
                )));
            }
            Entry::Moved { from, host, os, .. } => {
                let from = if from.is_empty() {
                    "another machine"
                } else {
                    from
                };
                let text = note(&format!(
                    "The session continues on the machine {host} ({os}), since {from} was lost. Here \
                     are the files of its last recorded state and its commits. Ignored and temporary \
                     files, running processes, and everything outside of the workspace stayed behind."
                ));
                self.note_after_results(text);
            }
            _ => {}
        }
    }

    fn answer(&mut self, reply: Seq, blocks: &[Block], same_model: bool) {
        let keeps = self.forms.is_none_or(|f| f.keeps_reasoning(reply));
        let is_sealed = same_model && keeps;
        for block in blocks {
            match block {
                Block::Text { text, signature } => self.answer.push(MessagePart::Text {
                    text: if is_cut(text.len(), self.inline) {
                        inlined_part(text, self.inline, reply)
                    } else {
                        text.clone()
                    },
                    signature: signature.clone().filter(|_| is_sealed),
                }),
                Block::Thinking { text, sealed } if is_sealed => {
                    self.answer.push(MessagePart::Thinking {
                        text: text.clone(),
                        sealed: sealed.clone(),
                    })
                }
                Block::Thinking { .. } => {}
                Block::Call {
                    name,
                    arguments,
                    provider_id,
                    signature,
                } => {
                    let index = self.calls.len() as u32;
                    let id = CallId { reply, index };
                    let is_sent_back = |given: &&String| same_model && is_only(blocks, given);
                    let given_id = provider_id.as_ref().filter(is_sent_back).cloned();
                    self.answer.push(MessagePart::Call {
                        id: id.wire(),
                        given_id: given_id.clone(),
                        name: name.clone(),
                        arguments: self.arguments(arguments, reply),
                        signature: signature.clone().filter(|_| is_sealed),
                    });
                    self.calls.push(Called {
                        id,
                        given_id,
                        name: name.clone(),
                        arguments: arguments.clone(),
                        result: None,
                    });
                }
            }
        }
    }

    fn arguments(&self, arguments: &str, reply: Seq) -> Value {
        let value = object(arguments);
        if !is_cut(arguments.len(), self.inline) {
            return value;
        }
        let texts = arguments.len() / self.inline.max(1) + 2;
        let each = shortened(value, (self.inline / texts).max(100), reply);
        if each.to_string().len() <= self.inline {
            each
        } else {
            serde_json::json!({ "shortened": inlined_part(arguments, self.inline, reply) })
        }
    }

    fn result(
        &mut self,
        seq: Seq,
        call: CallId,
        outcome: &Outcome,
        refused: Option<&str>,
        state: &State,
    ) {
        if let Some(called) = self.calls.iter_mut().find(|called| called.id == call) {
            let (mut text, is_error) = outcome.to_model_text();
            if !called.shows_files(state.describe())
                && let Cow::Owned(plain) = plain_text(&text)
            {
                text = plain;
            }
            if is_cut(text.len(), self.inline) {
                text = inlined_result(&text, self.inline, seq, outcome);
            }
            let mut images = match outcome {
                Outcome::Done { output } | Outcome::Error { output } => &output.images[..],
                Outcome::Denied { .. } | Outcome::Interrupted { .. } => &[],
            };
            if let Some(why) = refused {
                for image in std::mem::take(&mut images) {
                    text.push('\n');
                    text.push_str(&unsent::line(image, why));
                }
            }
            called.result = Some(MessagePart::Result {
                id: call.wire(),
                given_id: called.given_id.clone(),
                name: called.name.clone(),
                text,
                images: images
                    .iter()
                    .map(|i| (i.media_type.clone(), i.blob.clone()))
                    .collect(),
                is_error,
            });
        }
    }

    /// Uses the line instead of the result.
    fn freed(&mut self, call: CallId, outcome: &Outcome, line: &str) {
        if let Some(called) = self.calls.iter_mut().find(|called| called.id == call) {
            called.result = Some(MessagePart::Result {
                id: call.wire(),
                given_id: called.given_id.clone(),
                name: called.name.clone(),
                text: line.to_string(),
                images: Vec::new(),
                is_error: outcome.to_model_text().1,
            });
        }
    }

    fn close_all(&mut self, why: &str) {
        for called in &mut self.calls {
            called.result.get_or_insert_with(|| MessagePart::Result {
                id: called.id.wire(),
                given_id: called.given_id.clone(),
                name: called.name.clone(),
                text: why.to_string(),
                images: Vec::new(),
                is_error: true,
            });
        }
    }

    /// Returns whether the next answer starts a new message, because the last message is the
    /// user's.
    fn may_begin_an_answer(&self) -> bool {
        self.calls.iter().any(|called| called.result.is_some())
            || self.answer.is_empty()
                && self.done.last().is_some_and(|last| last.role == Role::User)
    }

    /// Adds a note, after the results of open calls: results come directly after their calls.
    fn note_after_results(&mut self, text: MessagePart) {
        if self.calls.iter().any(|called| called.result.is_none()) {
            self.after_results.push(text);
        } else {
            self.flush();
            self.push(Role::User, [text]);
        }
    }

    /// Adds the last answer, with the results directly after it.
    fn flush(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let open: Vec<String> = calls
            .iter()
            .filter(|called| called.result.is_none())
            .map(|called| called.id.wire())
            .collect();
        let mut answer = std::mem::take(&mut self.answer);
        answer.retain(|p| !matches!(p, MessagePart::Call { id, .. } if open.contains(id)));
        self.push(Role::Assistant, answer);
        self.push(
            Role::User,
            calls.into_iter().filter_map(|called| called.result),
        );
        let after = std::mem::take(&mut self.after_results);
        self.push(Role::User, after);
    }

    /// Appends parts. If the last message has the same role, they are added to it, so that roles
    /// alternate.
    fn push(&mut self, role: Role, parts: impl IntoIterator<Item = MessagePart>) {
        let mut parts: Vec<MessagePart> = parts
            .into_iter()
            .filter(|p| !matches!(p, MessagePart::Text { text, .. } if text.trim().is_empty()))
            .collect();
        // No provider accepts a message of only thinking.
        if parts
            .iter()
            .all(|p| matches!(p, MessagePart::Thinking { .. }))
        {
            return;
        }
        match self.done.last_mut() {
            Some(last) if last.role == role => Arc::make_mut(&mut last.parts).append(&mut parts),
            _ => self.done.push(Message {
                role,
                parts: parts.into(),
                cache: false,
            }),
        }
    }

    fn finish(mut self) -> Vec<Message> {
        self.flush();
        // A chain may begin with the model's words if everything before them left the context.
        if self.done.first().is_some_and(|m| m.role == Role::Assistant) {
            let parts = vec![plain("(the conversation goes on)".to_string())];
            self.done.insert(
                0,
                Message {
                    role: Role::User,
                    parts: parts.into(),
                    cache: false,
                },
            );
        }
        self.done
    }
}

/// Returns whether the id is unique in the answer. Servers may give several calls of one answer the
/// same id.
fn is_only(blocks: &[Block], given: &str) -> bool {
    let is_its =
        |block: &&Block| matches!(block, Block::Call { provider_id: Some(id), .. } if id == given);
    blocks.iter().filter(is_its).count() == 1
}

/// Returns a note from rewake for the model. The text cannot end the note, whatever it quotes.
fn note(text: &str) -> MessagePart {
    plain(format!("<note>\n{}\n</note>", inside_tag(text)))
}

/// Returns the arguments as a valid object, whatever the model wrote.
fn object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => Value::Object(map),
        // Some servers wrap the object into a string.
        Ok(Value::String(inner)) if inner.trim_start().starts_with('{') => object(&inner),
        _ if arguments.trim().is_empty() => Value::Object(Default::default()),
        _ => serde_json::json!({ "malformed": arguments }),
    }
}
