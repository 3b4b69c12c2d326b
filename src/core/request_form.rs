//! Forms of a history: how entries become messages for a server that refused the plain history.
//!
//! The log stays as it is. A form changes how its entries become messages, and is itself an entry
//! before the request that has it ([`Learned`](super::entry::Entry::Learned)), so that the next requests begin with the
//! same bytes. The forms are tried one by one, each on top of those that were accepted before. Only
//! when each alone was refused, several apply together, and at last a digest of the log replaces all
//! but the newest turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::entry::{LearnedForm, RequestForm, Seq};
use super::request::{Message, MessagePart, Role, plain};
use super::text::clip;

use RequestForm::{
    Digest, NotesInResults, OneCall, PlainText, WithReasoning, WithoutImages, WithoutReasoning,
};

/// The forms that apply, each with the place from which on: what concerns earlier answers alone
/// leaves later ones as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forms {
    forms: Vec<(RequestForm, Seq)>,
    /// The digest of all that is before this place.
    digest: Option<(Seq, String)>,
}

impl Forms {
    pub(super) fn has(&self, form: RequestForm) -> bool {
        self.since(form).is_some()
    }

    fn since(&self, form: RequestForm) -> Option<Seq> {
        let found = self.forms.iter().find(|(its, _)| *its == form);
        found.map(|(_, at)| *at)
    }

    /// Returns whether the reasoning of this answer is sent back.
    pub(super) fn keeps_reasoning(&self, answer: Seq) -> bool {
        self.since(WithoutReasoning).is_none_or(|at| answer >= at)
    }

    /// Returns why the images of this entry are not sent.
    pub(super) fn image_refusal(&self, seq: Seq) -> Option<&'static str> {
        let at = self.since(WithoutImages)?;
        (seq < at).then_some("it refused the request with them")
    }

    /// Returns the size of the digest in bytes, and the first place that it does not replace.
    pub(super) fn digest_size(&self, first: Option<Seq>) -> Option<(Seq, usize)> {
        let (before, text) = self.digest(first)?;
        Some((before, text.len()))
    }

    /// Returns the digest, and the first place that it does not replace, for a context that begins at
    /// `first`. `None`: a summary replaced as much since.
    pub(super) fn digest(&self, first: Option<Seq>) -> Option<(Seq, &str)> {
        let (before, text) = self.digest.as_ref()?;
        (first? < *before).then_some((*before, text))
    }

    /// Returns these with a digest of what is before this place.
    pub(super) fn with_digest(&self, at: Seq, digest: (Seq, String)) -> Forms {
        let mut forms = self.with(Digest, at);
        forms.digest = Some(digest);
        forms
    }

    /// Returns whether no form applies.
    pub(super) fn is_plain(&self) -> bool {
        self.forms.is_empty()
    }

    /// Changes messages that were made of the entries.
    pub(super) fn shape(&self, mut messages: Vec<Message>) -> Vec<Message> {
        if self.has(PlainText) {
            messages = messages.into_iter().map(as_text).collect();
        }
        if self.has(OneCall) {
            messages = with_one_call(messages);
        }
        if self.has(NotesInResults) {
            messages = messages.into_iter().flat_map(notes_in_results).collect();
        }
        if self.has(WithReasoning) {
            messages = messages.into_iter().map(with_reasoning).collect();
        }
        messages
    }

    /// Returns these with another form, which applies from here on.
    pub(super) fn with(&self, form: RequestForm, at: Seq) -> Forms {
        let mut forms = self.clone();
        forms.forms.retain(|(its, _)| *its != form);
        forms.forms.push((form, at));
        forms
    }

    /// Returns the entry's part with these forms.
    pub(super) fn learned(&self, why: &str) -> LearnedForm {
        LearnedForm {
            forms: self.forms.iter().map(|(form, _)| *form).collect(),
            since: self.forms.iter().map(|(_, at)| *at).collect(),
            why: why.to_string(),
            digest: self.digest.as_ref().map(|(_, text)| text.clone()),
            before: self.digest.as_ref().map_or(0, |(before, _)| *before),
        }
    }

    fn of(learned: &LearnedForm, at: Seq) -> Forms {
        let since = learned.since.iter().copied().chain(std::iter::repeat(at));
        let mut forms = Forms {
            forms: Vec::new(),
            digest: learned.digest.as_ref().map(|text| {
                let text = clip(text, MAX_DIGEST);
                (learned.before.min(at), text.to_string())
            }),
        };
        for (form, since) in learned.forms.iter().copied().zip(since).take(MAX_FORMS) {
            if form != RequestForm::Unknown && !forms.has(form) {
                forms.forms.push((form, since.min(at)));
            }
        }
        forms
    }
}

/// Bounds of what an entry may say, which may come from another machine.
const MAX_FORMS: usize = 16;
const MAX_DIGEST: usize = 256 << 10;

/// Knowledge of the forms that a model's server takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelForms {
    /// Those of the next request.
    pub current: Forms,
    /// Those of the last request with an answer.
    pub(super) accepted: Forms,
    /// Those that were tried since, in their order.
    pub(super) tried: Vec<Forms>,
    /// The last refusal was about the request: its status was neither 404 nor 500.
    is_certain: bool,
}

impl ModelForms {
    /// Applies the entry at this place.
    fn learn(&mut self, learned: &LearnedForm, at: Seq) {
        let forms = Forms::of(learned, at);
        if learned.why.is_empty() {
            // Known before the first request, so nothing was refused.
            self.accepted = forms.clone();
        } else {
            self.tried.push(forms.clone());
            self.is_certain = !is_status_of_server(&learned.why);
        }
        self.current = forms;
    }

    /// There is an answer: the forms stay.
    fn accept(&mut self) {
        self.tried.clear();
        self.accepted = self.current.clone();
    }

    /// All were refused: the next request begins as the last one with an answer.
    fn give_up(&mut self) {
        self.tried.clear();
        self.current = self.accepted.clone();
    }

    /// Returns the forms that the next answer will show to be accepted, of those that later sessions
    /// may begin with.
    pub fn to_keep(&self) -> impl Iterator<Item = RequestForm> {
        let is_new = |form: &RequestForm| !self.accepted.has(*form);
        let all = self.current.forms.iter().map(|(form, _)| *form);
        let is_alone =
            self.is_certain && self.current.digest.is_none() && !self.current.has(PlainText);
        all.filter(move |form| is_alone && form.is_for_later() && is_new(form))
    }
}

/// Returns whether a refusal may have been about the state of the server, not about the request.
fn is_status_of_server(why: &str) -> bool {
    why.starts_with("HTTP 500") || why.starts_with("HTTP 404")
}

/// Returns the part of the entry with which a model's first request has these forms.
pub fn known_before(forms: &[RequestForm]) -> LearnedForm {
    LearnedForm {
        forms: forms.to_vec(),
        ..LearnedForm::default()
    }
}

/// The forms that servers take, by model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestForms(BTreeMap<String, ModelForms>);

impl RequestForms {
    /// Returns what is known of this model.
    pub fn of(&self, model: &str) -> Option<&ModelForms> {
        self.0.get(model)
    }

    /// Returns the forms of the next request to this model. `None`: the plain one.
    pub(crate) fn current(&self, model: &str) -> Option<&Forms> {
        let known = self.0.get(model)?;
        Some(&known.current).filter(|forms| !forms.is_plain())
    }

    /// Applies the entry at this place.
    pub(super) fn learn(&mut self, model: &str, learned: &LearnedForm, at: Seq) {
        let known = self.0.entry(model.to_string()).or_default();
        known.learn(learned, at);
    }

    /// There is an answer of this model.
    pub(super) fn accept(&mut self, model: &str) {
        if let Some(known) = self.0.get_mut(model) {
            known.accept();
        }
    }

    /// The next request of each model begins in the forms that it accepted last.
    pub(super) fn give_up(&mut self) {
        self.0.values_mut().for_each(ModelForms::give_up);
    }
}

fn is_note(part: &MessagePart) -> bool {
    matches!(part, MessagePart::Text { text, .. } if text.starts_with("<note>"))
}

fn message(role: Role, parts: Vec<MessagePart>) -> Message {
    Message {
        role,
        parts: Arc::new(parts),
        cache: false,
    }
}

/// Returns the message with calls and results as text.
fn as_text(whole: Message) -> Message {
    let is_shaped = |part: &MessagePart| {
        matches!(
            part,
            MessagePart::Call { .. } | MessagePart::Result { .. } | MessagePart::Thinking { .. }
        )
    };
    if !whole.parts.iter().any(is_shaped) {
        return whole;
    }
    let mut parts = Vec::new();
    for part in whole.parts.iter() {
        match part {
            MessagePart::Call {
                name, arguments, ..
            } => {
                parts.push(plain(format!("[called {name} with {arguments}]")));
            }
            MessagePart::Result {
                name,
                text: result,
                images,
                is_error,
                ..
            } => {
                let failed = if *is_error { ", which failed" } else { "" };
                parts.push(plain(format!("[result of {name}{failed}]\n{result}")));
                parts.extend(images.iter().map(image));
            }
            MessagePart::Thinking { .. } => {}
            MessagePart::Text { .. } | MessagePart::Image { .. } => parts.push(part.clone()),
        }
    }
    message(whole.role, parts)
}

fn image((media_type, blob): &(String, super::entry::BlobRef)) -> MessagePart {
    MessagePart::Image {
        media_type: media_type.clone(),
        blob: blob.clone(),
    }
}

/// Divides each answer with several calls, each part followed by its result.
fn with_one_call(messages: Vec<Message>) -> Vec<Message> {
    let is_call = |part: &&MessagePart| matches!(part, MessagePart::Call { .. });
    let mut shaped = Vec::new();
    let mut rest = messages.into_iter().peekable();
    while let Some(answer) = rest.next() {
        if answer.parts.iter().filter(is_call).count() < 2 {
            shaped.push(answer);
            continue;
        }
        let mut results = rest
            .next()
            .map(|next| next.parts.to_vec())
            .unwrap_or_default();
        let mut said = Vec::new();
        for part in answer.parts.iter() {
            said.push(part.clone());
            let MessagePart::Call { id, .. } = part else {
                continue;
            };
            let is_its = |part: &MessagePart| matches!(part, MessagePart::Result { id: its, .. } if its == id);
            if let Some(at) = results.iter().position(is_its) {
                let result = results.remove(at);
                shaped.push(message(Role::Assistant, std::mem::take(&mut said)));
                shaped.push(message(Role::User, vec![result]));
            }
        }
        if !said.is_empty() {
            // Words after the last call come before its result.
            let last = shaped.len().saturating_sub(2);
            if let Some(before) = shaped.get_mut(last) {
                Arc::make_mut(&mut before.parts).append(&mut said);
            }
        }
        if let Some(last) = shaped.last_mut() {
            Arc::make_mut(&mut last.parts).append(&mut results);
        }
    }
    shaped
}

/// The answer between results and the words of a person.
const BETWEEN: &str = "(I have the results.)";

/// Returns the message with its notes in the last result, or a short answer between results and all
/// else.
fn notes_in_results(whole: Message) -> Vec<Message> {
    let is_result = |part: &MessagePart| matches!(part, MessagePart::Result { .. });
    let results = whole
        .parts
        .iter()
        .take_while(|part| is_result(part))
        .count();
    let (results, rest) = whole.parts.split_at(results);
    let shows = |part: &MessagePart| matches!(part, MessagePart::Result { images, .. } if !images.is_empty());
    if results.is_empty() || rest.is_empty() && !results.iter().any(shows) {
        return vec![whole];
    }
    let mut results = results.to_vec();
    let mut after = Vec::new();
    for result in &mut results {
        let MessagePart::Result { name, images, .. } = result else {
            continue;
        };
        if !images.is_empty() {
            after.push(plain(format!("[images of the result of {name}]")));
            after.extend(std::mem::take(images).iter().map(image));
        }
    }
    let notes = if after.is_empty() {
        rest.iter().take_while(|part| is_note(part)).count()
    } else {
        0
    };
    let (notes, words) = rest.split_at(notes);
    if let Some(MessagePart::Result { text, .. }) = results.last_mut() {
        for note in notes {
            if let MessagePart::Text { text: note, .. } = note {
                text.push_str("\n\n");
                text.push_str(note);
            }
        }
    }
    after.extend_from_slice(words);
    let mut shaped = vec![message(Role::User, results)];
    if !after.is_empty() {
        shaped.push(message(Role::Assistant, vec![plain(BETWEEN.into())]));
        shaped.push(message(Role::User, after));
    }
    shaped
}

/// Value of [`REASONING_CONTENT`] for reasoning that is sent with every answer, not only with calls.
pub const ALWAYS: &str = "always";
/// The field of an answer with its reasoning.
pub const REASONING_CONTENT: &str = "reasoning_content";

/// Returns an answer with its reasoning, or with the words that it was not recorded.
fn with_reasoning(whole: Message) -> Message {
    if whole.role == Role::User {
        return whole;
    }
    let mut texts = Vec::new();
    let mut parts = Vec::new();
    for part in whole.parts.iter() {
        match part {
            MessagePart::Thinking { text, .. } if !text.trim().is_empty() => {
                texts.push(text.clone())
            }
            MessagePart::Thinking { .. } => {}
            other => parts.push(other.clone()),
        }
    }
    let reasoning = if texts.is_empty() {
        "(not recorded)".to_string()
    } else {
        texts.join("\n\n")
    };
    let thinking = MessagePart::Thinking {
        text: reasoning,
        sealed: Some(json!({ REASONING_CONTENT: ALWAYS })),
    };
    parts.insert(0, thinking);
    message(Role::Assistant, parts)
}
