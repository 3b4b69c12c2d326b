//! The history of a session, entry by entry: requests, the outcome of each call, and the end of
//! turns.

use super::lines::{clean_title, one_clean_line};
use super::{CallResult, TimelineItem};
use crate::core::entry::{Block, CallId, Entry, Fact, Outcome, Record, Seq};
use crate::core::marks::without_marks;
use crate::core::text::{clip, one_line};
use crate::core::tree::may_change_files;
use crate::session::describe::{Describer, Kind, end_of_turn};
use crate::tools::{self, Verb};

/// Maximum length of the subject of a call.
const SUBJECT_CHARS: usize = 40;

/// And so much of an answer.
const ANSWER_WORDS: usize = 40;
const ANSWER_BYTES: usize = 4_096;

#[derive(Default)]
pub(super) struct Timeline {
    pub(super) done: Vec<Done>,
    describer: Describer,
    /// The calls of the last answer that have no result.
    open: Vec<OpenTurn>,
    last: Option<(Seq, i64)>,
}

/// Something that was done, and when: UTC, milliseconds since 1970.
pub(super) struct Done {
    pub(super) seq: Seq,
    pub(super) at_ms: i64,
    pub(super) item: TimelineItem,
    /// The entries with which a call that may have changed files began and ended.
    pub(super) span: Option<(Seq, Seq)>,
}

struct OpenTurn {
    id: CallId,
    /// The entry with which it began, if it may change files.
    started: Option<Seq>,
    verb: Verb,
    subject: String,
}

impl Timeline {
    pub(super) fn add(&mut self, record: &Record) {
        self.last = Some((record.seq, record.at_ms));
        let item = match &record.entry {
            said @ Entry::Said { .. } => {
                TimelineItem::Said(clean_title(&said.typed().unwrap_or_default()))
            }
            Entry::Replied { blocks, .. } => {
                self.open = open(record.seq, blocks);
                match end_of_turn(&record.entry) {
                    Some(_) => TimelineItem::Ended(answer(blocks)),
                    None => return,
                }
            }
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                if let Some((item, started)) = self.finished(*call, outcome, fact.as_ref()) {
                    let span = started.map(|started| (started, record.seq));
                    self.push_done(call.reply, record, item, span);
                }
                return;
            }
            Entry::Started { call, .. } => {
                let open = self.open.iter_mut().find(|open| open.id == *call);
                if let Some(open) = open.filter(|_| may_change_files(&record.entry)) {
                    open.started = Some(record.seq);
                }
                return;
            }
            // Open calls belong to the other branch.
            Entry::Forked { .. } => return self.open.clear(),
            entry if ends_something(entry) => {
                let it = self.describer.describe(record);
                TimelineItem::Ended(one_clean_line(&match it.kind {
                    Kind::Failure => format!("✗ {}", it.title),
                    _ => it.line().into_owned(),
                }))
            }
            _ => return,
        };
        self.push(record.seq, record.at_ms, item);
    }

    /// Adds finished work. A stop is recorded before the results of its calls, but shown after
    /// them.
    fn push_done(
        &mut self,
        reply: Seq,
        record: &Record,
        item: TimelineItem,
        span: Option<(Seq, Seq)>,
    ) {
        let is_stop =
            |last: &mut Done| matches!(last.item, TimelineItem::Ended(_)) && last.seq > reply;
        let stop = self.done.pop_if(is_stop);
        self.done.push(Done {
            seq: stop.as_ref().map_or(record.seq, |stop| stop.seq),
            at_ms: record.at_ms,
            item,
            span,
        });
        if let Some(stop) = stop {
            self.push(record.seq, stop.at_ms, stop.item);
        }
    }

    fn push(&mut self, seq: Seq, at_ms: i64, item: TimelineItem) {
        self.done.push(Done {
            seq,
            at_ms,
            item,
            span: None,
        });
    }

    /// Returns the work of a call, and its first entry if it may have changed files.
    fn finished(
        &mut self,
        id: CallId,
        outcome: &Outcome,
        fact: Option<&Fact>,
    ) -> Option<(TimelineItem, Option<Seq>)> {
        let at = self.open.iter().position(|open| open.id == id)?;
        let open = self.open.remove(at);
        let OpenTurn { verb, subject, .. } = open;
        let result = match (outcome, fact) {
            (Outcome::Denied { .. }, _) => CallResult::Denied,
            (Outcome::Interrupted { .. }, _) => CallResult::Interrupted,
            (Outcome::Error { .. }, _) => CallResult::Failed,
            (_, Some(Fact::Ran { exit_code, .. })) if *exit_code != Some(0) => CallResult::Failed,
            (_, Some(Fact::Background { .. })) => CallResult::InBackground,
            _ => CallResult::Done,
        };
        // A plan changes nothing outside of the session.
        let item = TimelineItem::Did {
            verb,
            subject,
            result,
        };
        (verb != Verb::Plan).then_some((item, open.started))
    }

    /// Ends the history. Calls without a result still run, or were interrupted.
    pub(super) fn end(&mut self, goes_on: bool) {
        let result = if goes_on {
            CallResult::Running
        } else {
            CallResult::Interrupted
        };
        let Some((seq, at_ms)) = self.last else {
            return;
        };
        for OpenTurn { verb, subject, .. } in std::mem::take(&mut self.open) {
            let item = TimelineItem::Did {
                verb,
                subject,
                result,
            };
            self.push(seq, at_ms, item);
        }
    }
}

/// Returns whether the entry is a stop, a failure or a restore of files.
fn ends_something(entry: &Entry) -> bool {
    end_of_turn(entry).is_some() || matches!(entry, Entry::Restored { .. })
}

fn open(reply: Seq, blocks: &[Block]) -> Vec<OpenTurn> {
    let open = Block::calls(reply, blocks).map(|(id, name, arguments)| {
        let call = tools::call(id, name, arguments);
        let shown = tools::shown(&call);
        let subject = match shown.verb {
            Verb::Call => format!("{} {}", call.shown_name(), call.subject()),
            _ => call.subject().to_string(),
        };
        OpenTurn {
            id,
            started: None,
            verb: if shown.only_looks {
                Verb::Look
            } else {
                shown.verb
            },
            subject: one_clean_line(&one_line(&subject, SUBJECT_CHARS)),
        }
    });
    open.collect()
}

/// Returns the first words of an answer, from its first paragraph.
fn answer(blocks: &[Block]) -> String {
    let mut words = Block::texts(blocks).map(str::trim);
    let words = words.find(|text| !text.is_empty());
    words.map_or("answered".to_string(), |words| {
        // Tables and code say nothing on one line.
        let paragraph = words.split("\n\n").next().unwrap_or_default();
        let plain = without_marks(&clip(paragraph, ANSWER_BYTES));
        let plain: Vec<&str> = plain.split_whitespace().take(ANSWER_WORDS).collect();
        let said = match plain.is_empty() {
            true => clean_title(words),
            false => one_clean_line(&plain.join(" ")),
        };
        format!("answered: {said}")
    })
}
