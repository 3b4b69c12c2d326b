//! The conversation as it is shown: a projection of the log, and what is streaming.
//!
//! Invariant: what the log has is shown from its entries alone; the stream is shown until the
//! entry that holds it is recorded, and never beside it.

mod block;
mod call;
mod lay;
mod paragraph;
mod scroll;

use std::collections::HashMap;

pub use block::{Block, Call, Kind, Status, Tone};
pub use call::change_lines;
pub use paragraph::LayoutContext;
pub use scroll::Scroll;

use super::markdown;
use crate::core::entry::{
    self, By, CallId, Entry, Fact, Guard, Outcome, Output, Record, Seq, SummaryBy, Verdict,
};
use crate::model::Delta;
use crate::tools;

#[derive(Default)]
pub struct Transcript {
    pub blocks: Vec<Block>,
    /// The block of each call whose answer is the last one.
    calls: HashMap<CallId, usize>,
    pub stream: Stream,
    /// The first entry that is shown; earlier ones are fetched when they are scrolled to.
    pub first: Option<Seq>,
    last: Option<Seq>,
    pub scroll: Scroll,
    /// Everything that folds is unfolded.
    pub unfolded: bool,
}

/// The answer that is being made.
#[derive(Default)]
pub struct Stream {
    pub words: markdown::Stream,
    pub has_words: bool,
    pub thinking: String,
    /// The tools of the calls that were begun.
    pub calls: Vec<String>,
    /// Why the model is asked again, and when.
    pub retry: Option<String>,
}

impl Stream {
    pub fn is_empty(&self) -> bool {
        !self.has_words && self.thinking.is_empty() && self.calls.is_empty() && self.retry.is_none()
    }

    fn feed(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                self.retry = None;
                self.has_words = true;
                self.words.push(text);
            }
            Delta::Thinking(text) => {
                self.retry = None;
                self.thinking.push_str(text);
            }
            Delta::Call { name } => self.calls.push(name.clone()),
            Delta::Retry { after_ms, failure } => {
                let wait = after_ms.div_ceil(1000);
                *self = Stream {
                    retry: Some(format!("{}; asked again in {wait} s", failure.message)),
                    ..Stream::default()
                };
            }
        }
    }
}

impl Transcript {
    pub fn of(records: &[Record]) -> Transcript {
        let mut transcript = Transcript::default();
        for record in records {
            transcript.fold(record);
        }
        transcript
    }

    /// Entries that come before those that are shown.
    pub fn prepend(&mut self, records: &[Record]) {
        let mut earlier = Transcript::of(records);
        let count = earlier.blocks.len();
        self.first = earlier.first.or(self.first);
        earlier.blocks.append(&mut self.blocks);
        self.blocks = earlier.blocks;
        for place in self.calls.values_mut() {
            *place += count;
        }
        self.scroll.shift(count);
    }

    pub fn delta(&mut self, delta: &Delta) {
        self.stream.feed(delta);
    }

    /// Told to the user, and in no log.
    pub fn add_notice(&mut self, tone: Tone, text: impl Into<String>) {
        let seq = self.last.unwrap_or_default();
        let kind = Kind::Notice {
            tone,
            text: text.into(),
        };
        self.blocks.push(Block::new(seq, 0, kind));
    }

    pub fn fold(&mut self, record: &Record) {
        self.first.get_or_insert(record.seq);
        self.last = Some(record.seq);
        let at = (record.seq, record.at_ms);
        match &record.entry {
            Entry::Opened { .. } | Entry::Rendered { .. } | Entry::Named { .. } => {}
            Entry::Saved { .. } => {}
            Entry::Said { text, images, .. } => self.push(
                at,
                Kind::Said {
                    text: text.clone(),
                    images: images.len(),
                },
            ),
            Entry::Replied { blocks, .. } => self.replied(at, blocks),
            Entry::Decided { call, verdict, by } => self.decided(*call, verdict, *by),
            Entry::Started { call, guard } => self.started(*call, guard, record.at_ms),
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => self.finished(*call, outcome, fact.as_ref(), record.at_ms),
            Entry::Stopped { draft } => {
                self.cut_words(at, draft.as_deref());
                self.mark(at, Tone::Warn, "stopped by you");
            }
            Entry::Failed { error, draft } => {
                self.cut_words(at, draft.as_deref());
                self.push(
                    at,
                    Kind::Failed {
                        message: error.message.clone(),
                        hint: error.hint.clone(),
                    },
                );
            }
            Entry::Noted { text, about } => {
                self.push(at, Kind::Noted { text: text.clone() });
                // A command of the user's own: what it printed is what was wanted.
                if let (None, Some(block)) = (about, self.blocks.last_mut()) {
                    block.unfolded = Some(true);
                }
            }
            Entry::Compacted {
                first, last, by, ..
            } => {
                let how = match by {
                    SummaryBy::Model => "",
                    SummaryBy::Digest => " by a digest",
                    SummaryBy::Placeholder => " by a placeholder",
                };
                let text = format!("entries {first} to {last} were summarised{how}");
                self.mark(at, Tone::Calm, text);
            }
            Entry::Continued { .. } => {
                self.mark(at, Tone::Calm, "the context began again from a note");
            }
            Entry::Forked { from } => self.forked(at, from),
            Entry::Chose { model, mode } => {
                let model = model.as_ref().map(|m| format!("model {m}"));
                let mode = mode.map(|m| format!("mode {}", m.name()));
                let said: Vec<String> = model.into_iter().chain(mode).collect();
                self.mark(at, Tone::Calm, said.join(", "));
            }
            Entry::Learned {
                model,
                images: Some(refusal),
                ..
            } => {
                let why = &refusal.why;
                let text =
                    format!("{model} refused images; they are sent as text from now on: {why}");
                self.mark(at, Tone::Warn, text);
            }
            Entry::Learned { model, limit, .. } => {
                self.mark(at, Tone::Calm, format!("{model} takes {limit} tokens"));
            }
            Entry::Resumed { found, draft, .. } => {
                self.cut_words(at, draft.as_deref());
                self.mark(at, Tone::Warn, found);
            }
        }
    }

    fn push(&mut self, (seq, at_ms): (Seq, i64), kind: Kind) {
        self.blocks.push(Block::new(seq, at_ms, kind));
    }

    fn mark(&mut self, at: (Seq, i64), tone: Tone, text: impl Into<String>) {
        let text = text.into();
        self.push(at, Kind::Marker { tone, text });
    }

    /// What was streaming stands in this entry now.
    fn cut_words(&mut self, at: (Seq, i64), draft: Option<&str>) {
        self.stream = Stream::default();
        if let Some(text) = draft.filter(|d| !d.trim().is_empty()) {
            let text = text.to_string();
            self.push(at, Kind::Words { text, cut: true });
        }
    }

    fn replied(&mut self, at: (Seq, i64), blocks: &[entry::Block]) {
        self.stream = Stream::default();
        self.calls.clear();
        let mut index = 0;
        for block in blocks {
            match block {
                entry::Block::Text { text, .. } if text.trim().is_empty() => {}
                entry::Block::Text { text, .. } => {
                    let text = text.clone();
                    self.push(at, Kind::Words { text, cut: false });
                }
                entry::Block::Thinking { text, .. } if text.trim().is_empty() => {}
                entry::Block::Thinking { text, .. } => {
                    self.push(at, Kind::Thinking { text: text.clone() });
                }
                entry::Block::Call {
                    name, arguments, ..
                } => {
                    let id = CallId { reply: at.0, index };
                    index += 1;
                    self.calls.insert(id, self.blocks.len());
                    let call = tools::call(id, name, arguments);
                    let call = Call {
                        shown: tools::shown(&call),
                        call,
                        status: Status::Waiting,
                        tail: String::new(),
                        plan: None,
                    };
                    self.push(at, Kind::Call(Box::new(call)));
                }
            }
        }
    }

    /// The block of a call of the last answer.
    fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        let block = self.blocks.get_mut(*self.calls.get(&id)?)?;
        block.touch();
        match &mut block.kind {
            Kind::Call(call) => Some(call),
            _ => None,
        }
    }

    pub fn call(&self, id: CallId) -> Option<&Call> {
        match &self.blocks.get(*self.calls.get(&id)?)?.kind {
            Kind::Call(call) => Some(call),
            _ => None,
        }
    }

    pub fn asked(&mut self, id: CallId) {
        if let Some(call) = self.call_mut(id) {
            call.status = Status::Asked;
        }
    }

    fn decided(&mut self, id: CallId, verdict: &Verdict, _by: By) {
        if let Some(call) = self.call_mut(id)
            && *verdict == Verdict::Allow
        {
            call.status = Status::Allowed;
        }
    }

    fn started(&mut self, id: CallId, guard: &Guard, at_ms: i64) {
        let run = match guard {
            Guard::Supervised { run, .. } => Some(run.clone()),
            Guard::Checked { .. } | Guard::Opaque => None,
        };
        if let Some(call) = self.call_mut(id) {
            call.status = Status::Running {
                since_ms: at_ms,
                run,
            };
        }
    }

    fn finished(&mut self, id: CallId, outcome: &Outcome, fact: Option<&Fact>, at_ms: i64) {
        let Some(call) = self.call_mut(id) else {
            return;
        };
        let since = match call.status {
            Status::Running { since_ms, .. } => u64::try_from(at_ms - since_ms).ok(),
            _ => None,
        };
        let (took_ms, exit_code) = match fact {
            Some(Fact::Ran { exit_code, took_ms }) => (Some(*took_ms), *exit_code),
            _ => (since, None),
        };
        if let Some(Fact::Planned { plan }) = fact {
            call.plan = Some(plan.clone());
        }
        call.tail.clear();
        call.status = Status::Over {
            outcome: outcome.clone(),
            took_ms,
            exit_code,
            in_background: matches!(fact, Some(Fact::Background { .. })),
        };
    }

    /// Open calls belong to the other branch.
    fn forked(&mut self, at: (Seq, i64), from: &entry::ForkPoint) {
        let ids: Vec<CallId> = self.calls.keys().copied().collect();
        for id in ids {
            if let Some(call) = self.call_mut(id)
                && !matches!(call.status, Status::Over { .. })
            {
                call.status = Status::Over {
                    outcome: Outcome::Interrupted {
                        output: Output::default(),
                        why: "it belongs to the other branch".into(),
                    },
                    took_ms: None,
                    exit_code: None,
                    in_background: false,
                };
            }
        }
        let origin = crate::session::short_id(&from.session);
        self.mark(
            at,
            Tone::Calm,
            format!("a copy of {origin} from here on; files are shared"),
        );
    }

    /// The commands whose output is shown as it comes: call and run.
    pub fn running(&self) -> Vec<(CallId, String)> {
        let calls = self.calls.keys().filter_map(|id| {
            let run = self.call(*id)?.run()?;
            Some((*id, run.to_string()))
        });
        calls.collect()
    }

    pub fn tail(&mut self, id: CallId, text: String) {
        if self.call(id).is_some_and(|call| call.tail != text)
            && let Some(call) = self.call_mut(id)
        {
            call.tail = text;
        }
    }

    /// The last words of the model, whole.
    pub fn last_answer(&self) -> Option<&str> {
        self.blocks
            .iter()
            .rev()
            .find_map(|block| match &block.kind {
                Kind::Words { text, .. } => Some(text.as_str()),
                _ => None,
            })
    }

    /// What the user said, the newest last: place of the entry and words.
    pub fn prompts(&self) -> Vec<(Seq, &str)> {
        let said = self.blocks.iter().filter_map(|block| match &block.kind {
            Kind::Said { text, .. } => Some((block.seq, text.as_str())),
            _ => None,
        });
        said.collect()
    }
}
