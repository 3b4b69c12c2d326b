//! Turns the pieces of any agent's session into entries that may follow each other.
//!
//! The result depends on the bytes of the source alone, and no entry on later bytes, except those
//! of the last answer. So an import of a longer source continues an earlier one.

use std::collections::{HashMap, HashSet};

use super::tools::{model_name, translated};
use super::{About, Agent, Piece, Report, shown};
use crate::core::cut::{cut_output, is_cut};
use crate::core::entry::{
    Block, CallId, Entry, Image, ImportSource, Mode, Outcome, Output, PromptPrefix, Seq,
    StopReason, SummaryBy, Usage, Via,
};
use crate::core::image;
use crate::store::blob_ref;

/// The version of the conversion, in `Opened.version`. It does not follow the version of rewake,
/// so that entries stay the same.
pub(super) const VERSION: &str = "import/1";

/// Size from which a result is stored in a blob, and only its beginning and end are in the entry.
const INLINE_BYTES: usize = 16 * 1024;

const INTERRUPTED: &str =
    "the agent ended while this call was open: look at its effects before you repeat it";

/// Maximum lengths of a version and of an ID of another agent, characters.
const MAX_VERSION: usize = 40;
const MAX_ID: usize = 200;

/// The receiver of entries, each with its time and its blobs.
pub(super) type Entries<'a> = &'a mut dyn FnMut(i64, Entry, Vec<Vec<u8>>);

/// An answer that is not recorded yet.
#[derive(Default)]
struct Answer {
    id: String,
    at_ms: i64,
    blocks: Vec<Block>,
    /// The calls by their IDs in the source: the index, and the printed output.
    calls: HashMap<String, (u32, Option<String>)>,
    model: String,
    usages: HashMap<String, Usage>,
}

/// A call without a result.
struct Open {
    call: CallId,
    printed: Option<String>,
}

pub(super) struct Normal<'a> {
    agent: Agent,
    entries: Entries<'a>,
    next: Seq,
    answer: Option<Answer>,
    /// The calls of the last recorded answer without a result, and that answer.
    open: HashMap<String, Open>,
    last_answer: String,
    /// Parts of that answer that came while its calls were open, and the IDs of calls in them.
    later: Vec<Piece>,
    later_calls: HashSet<String>,
    /// The answer in which the ID of a call was used last. Some local servers give each answer the
    /// same IDs.
    seen: HashMap<String, String>,
    /// The model is to answer: only then may an answer follow.
    is_owed: bool,
    /// Number of calls that had no result when the session went further.
    interrupted: u64,
    report: Report,
}

/// The end of a session.
pub(super) struct Ended {
    pub report: Report,
    /// The output so far of each call that is open at the end.
    pub printed: Vec<Option<String>>,
    /// Number of all calls without a result.
    pub without_result: u64,
}

impl<'a> Normal<'a> {
    /// Begins with the first entry.
    pub(super) fn new(agent: Agent, about: &About, entries: Entries<'a>) -> Normal<'a> {
        let opened = Entry::Opened {
            folder: about.shown_folder(),
            version: VERSION.to_string(),
            model: agent.name().to_string(),
            mode: Mode::default(),
            layers: PromptPrefix::default(),
            imported: Some(Box::new(ImportSource {
                agent: agent.name().to_string(),
                agent_version: about
                    .version
                    .as_deref()
                    .map(|text| shown(text, MAX_VERSION)),
                id: shown(&about.id, MAX_ID),
            })),
        };
        let mut normal = Normal {
            agent,
            entries,
            next: 0,
            answer: None,
            open: HashMap::new(),
            last_answer: String::new(),
            later: Vec::new(),
            later_calls: HashSet::new(),
            seen: HashMap::new(),
            is_owed: false,
            interrupted: 0,
            report: Report::default(),
        };
        normal.emit(about.began_ms, opened, Vec::new());
        normal
    }

    fn emit(&mut self, at_ms: i64, entry: Entry, blobs: Vec<Vec<u8>>) {
        (self.entries)(at_ms, entry, blobs);
        self.next += 1;
    }

    pub(super) fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Said {
                at_ms,
                text,
                images,
            } => {
                self.close(at_ms);
                let (images, blobs) = self.images(images);
                if text.trim().is_empty() && images.is_empty() {
                    return;
                }
                let said = Entry::Said {
                    text,
                    images,
                    via: Via::Prompt,
                    command: None,
                    origin: None,
                };
                self.emit(at_ms, said, blobs);
                self.is_owed = true;
            }
            Piece::Summary { at_ms, text } => {
                self.close(at_ms);
                if !text.trim().is_empty() {
                    let continued = Entry::Continued {
                        note: text.clone(),
                        by: SummaryBy::Model,
                        spent: Vec::new(),
                        story: Some(text),
                    };
                    self.emit(at_ms, continued, Vec::new());
                }
            }
            Piece::Text { .. } | Piece::Call { .. } | Piece::Counted { .. } => self.part(piece),
            Piece::Result {
                at_ms,
                call,
                text,
                is_error,
                images,
            } => {
                self.end_answer_of(&call);
                if self.later_calls.contains(&call) {
                    self.later.push(Piece::Result {
                        at_ms,
                        call,
                        text,
                        is_error,
                        images,
                    });
                    return;
                }
                let Some(open) = self.open.remove(&call) else {
                    // gemini-cli writes each result twice.
                    self.report.extra_results += u64::from(self.agent != Agent::Gemini);
                    return;
                };
                let (images, mut blobs) = self.images(images);
                let (mut output, blob) = output(text);
                output.images = images;
                blobs.extend(blob);
                let outcome = match is_error {
                    true => Outcome::Error { output },
                    false => Outcome::Done { output },
                };
                self.finished(at_ms, open.call, outcome, blobs);
                self.take_later();
            }
        }
    }

    /// Ends the session. A call without a result stays open.
    pub(super) fn end(mut self) -> Ended {
        self.end_answer();
        while !self.later.is_empty() {
            let at_ms = self.later.first().map_or(0, Piece::at_ms);
            self.close_calls(at_ms);
            self.take_later();
            self.end_answer();
        }
        let printed = self.take_open().into_iter().map(|open| open.printed);
        let printed: Vec<Option<String>> = printed.collect();
        Ended {
            report: self.report,
            without_result: self.interrupted + printed.len() as u64,
            printed,
        }
    }

    /// Takes a part of an answer.
    fn part(&mut self, piece: Piece) {
        let (Piece::Text { answer: id, .. }
        | Piece::Call { answer: id, .. }
        | Piece::Counted { answer: id, .. }) = &piece
        else {
            return;
        };
        let is_same = self.answer.as_ref().is_some_and(|a| a.id == *id);
        let is_count = matches!(piece, Piece::Counted { .. });
        if !is_same {
            // The pending one has calls, so the model was asked again meanwhile.
            if self.answer.as_ref().is_some_and(|a| !a.calls.is_empty()) && !is_count {
                self.end_answer();
            }
            if !self.open.is_empty() && self.answer.is_none() {
                if is_count {
                    return;
                }
                if *id == self.last_answer {
                    if let Piece::Call { id, .. } = &piece {
                        self.later_calls.insert(id.clone());
                    }
                    self.later.push(piece);
                    return;
                }
                self.close_calls(piece.at_ms());
                self.take_later();
            }
        }
        match piece {
            Piece::Text {
                at_ms,
                answer,
                text,
            } => {
                if !text.trim().is_empty()
                    && let Some(answer) = self.pending(at_ms, answer)
                {
                    answer.blocks.push(Block::text(text));
                }
            }
            Piece::Call {
                at_ms,
                answer,
                id,
                name,
                arguments,
                printed,
            } => {
                let earlier = self.seen.insert(id.clone(), answer.clone());
                let is_pending = self
                    .answer
                    .as_ref()
                    .is_some_and(|a| a.calls.contains_key(&id));
                if earlier.is_some_and(|earlier| earlier == answer) || is_pending {
                    self.report.extra_calls += 1;
                    return;
                }
                let call = translated(&name, &arguments);
                self.report.cut_arguments += u64::from(call.is_cut);
                if let Some(answer) = self.pending(at_ms, answer) {
                    answer.blocks.push(Block::Call {
                        name: call.name,
                        arguments: call.arguments,
                        provider_id: None,
                        signature: None,
                    });
                    let index = answer.calls.len() as u32;
                    answer.calls.insert(id, (index, printed));
                }
            }
            Piece::Counted {
                answer,
                model,
                usage,
            } => {
                if let Some(pending) = &mut self.answer {
                    if !model.is_empty() {
                        pending.model = model;
                    }
                    pending.usages.insert(answer, usage);
                }
            }
            _ => {}
        }
    }

    /// Returns the pending answer. Two answers in a row are one. `None`: there was no message.
    fn pending(&mut self, at_ms: i64, id: String) -> Option<&mut Answer> {
        if !self.is_owed {
            self.report.without_message += 1;
            return None;
        }
        let answer = self.answer.get_or_insert_with(|| Answer {
            at_ms,
            ..Answer::default()
        });
        answer.id = id;
        Some(answer)
    }

    /// Records the pending answer.
    fn end_answer(&mut self) {
        let Some(answer) = self.answer.take() else {
            return;
        };
        let reply = self.next;
        self.open = answer
            .calls
            .into_iter()
            .map(|(id, (index, printed))| {
                let call = CallId { reply, index };
                (id, Open { call, printed })
            })
            .collect();
        let mut sum = Usage::default();
        for usage in answer.usages.values() {
            sum.add(usage);
        }
        let stop = match self.open.is_empty() {
            true => StopReason::EndTurn,
            false => StopReason::ToolUse,
        };
        self.is_owed = !self.open.is_empty();
        self.last_answer = answer.id;
        let replied = Entry::Replied {
            blocks: answer.blocks,
            usage: Usage::default(),
            stop,
            model: model_name(self.agent, &answer.model),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: (sum != Usage::default()).then_some(sum),
        };
        self.emit(answer.at_ms, replied, Vec::new());
    }

    /// Records the pending answer if it has this call.
    fn end_answer_of(&mut self, call: &str) {
        let is_there = |a: &Answer| a.calls.contains_key(call);
        if self.answer.as_ref().is_some_and(is_there) {
            self.end_answer();
        }
    }

    /// Records the pending answer, and an interruption for each of its calls without a result.
    fn close(&mut self, at_ms: i64) {
        self.end_answer();
        self.close_calls(at_ms);
        while !self.later.is_empty() {
            self.take_later();
            self.end_answer();
            self.close_calls(at_ms);
        }
    }

    /// Removes the calls without a result, in their order.
    fn take_open(&mut self) -> Vec<Open> {
        let mut open: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        open.sort_by_key(|open| open.call);
        open
    }

    fn close_calls(&mut self, at_ms: i64) {
        for open in self.take_open() {
            self.interrupted += 1;
            let (output, blobs) = output(open.printed.unwrap_or_default());
            let outcome = Outcome::Interrupted {
                output,
                why: INTERRUPTED.to_string(),
            };
            self.finished(at_ms, open.call, outcome, blobs);
        }
    }

    fn finished(&mut self, at_ms: i64, call: CallId, outcome: Outcome, blobs: Vec<Vec<u8>>) {
        let finished = Entry::Finished {
            call,
            outcome,
            fact: None,
            tree: None,
        };
        self.emit(at_ms, finished, blobs);
        self.is_owed = true;
    }

    /// Takes the parts that had to wait for the end of the calls before them.
    fn take_later(&mut self) {
        if self.open.is_empty() {
            self.later_calls.clear();
            for piece in std::mem::take(&mut self.later) {
                self.take(piece);
            }
        }
    }

    /// Returns the images that models accept, and their bytes.
    fn images(&mut self, found: Vec<Vec<u8>>) -> (Vec<Image>, Vec<Vec<u8>>) {
        let mut images = Vec::new();
        let mut blobs = Vec::new();
        for bytes in found {
            match image::check(&bytes) {
                Ok(info) => {
                    images.push(Image {
                        media_type: info.media_type.to_string(),
                        blob: blob_ref(&bytes),
                    });
                    blobs.push(bytes);
                }
                Err(_) => self.report.refused_images += 1,
            }
        }
        (images, blobs)
    }
}

/// Returns a text as output. A large one is stored whole in a blob.
fn output(text: String) -> (Output, Vec<Vec<u8>>) {
    if !is_cut(text.len(), INLINE_BYTES) {
        return (Output::text(text), Vec::new());
    }
    let output = cut_output(&text, INLINE_BYTES, blob_ref(text.as_bytes()));
    (output, vec![text.into_bytes()])
}
