//! Records as a person reads them: checkpoints with their reasons, and the conversation as
//! plain lines.
//!
//! Invariant: however large an entry is, a line of the tree and its part of the preview is not.

use crate::core::entry::{Block, CallId, Entry, Fact, Outcome, Record, SaveReason, Seq, Verdict};
use crate::core::text::{clip, count, one_line};
use crate::tools;
use crate::ui::text::{clean, clean_line};

const LINE_CHARS: usize = 160;
/// Of one message so much is shown, and of one result so many lines.
const MESSAGE_BYTES: usize = 4_000;
const RESULT_BYTES: usize = 1_200;
const RESULT_LINES: usize = 8;

/// The calls of the answers that were met, the last ones.
#[derive(Default)]
pub(super) struct Calls {
    answers: Vec<(Seq, Vec<String>)>,
}

impl Calls {
    pub(super) fn note(&mut self, record: &Record) {
        if let Entry::Replied { blocks, .. } = &record.entry {
            // Results of an answer come before the next answer.
            self.answers.clear();
            self.answers.push((record.seq, calls(record.seq, blocks)));
        }
    }

    fn name(&self, call: &CallId) -> Option<&str> {
        let (_, names) = self.answers.iter().find(|(seq, _)| *seq == call.reply)?;
        names
            .get(usize::try_from(call.index).ok()?)
            .map(String::as_str)
    }
}

fn calls(reply: Seq, blocks: &[Block]) -> Vec<String> {
    let calls = blocks.iter().filter_map(|block| match block {
        Block::Call {
            name, arguments, ..
        } => Some((name, arguments)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    (0..)
        .zip(calls)
        .map(|(index, (name, arguments))| {
            let call = tools::call(CallId { reply, index }, name, arguments);
            clean_line(&call.in_one_line(LINE_CHARS)).into_owned()
        })
        .collect()
}

/// Why there is a checkpoint; `None` where there is none.
pub(super) fn reason(entry: &Entry, calls: &Calls) -> Option<String> {
    Some(match entry {
        Entry::Replied { blocks, .. } => {
            let calls = blocks.iter().filter(|b| matches!(b, Block::Call { .. }));
            match calls.count() {
                0 => "answered".to_string(),
                1 => "answered, with a call".to_string(),
                n => format!("answered, with {n} calls"),
            }
        }
        Entry::Finished { call, outcome, .. } => {
            let name = calls.name(call).unwrap_or("a call");
            match outcome {
                Outcome::Done { .. } => format!("after {name}"),
                Outcome::Error { .. } => format!("after {name}, which failed"),
                Outcome::Denied { .. } => format!("{name} was denied"),
                Outcome::Interrupted { .. } => format!("{name} was interrupted"),
            }
        }
        Entry::Saved { reason, .. } => match reason {
            SaveReason::Timer => "timer",
            SaveReason::Turn => "end of the turn",
            SaveReason::Signal => "left on a signal",
            SaveReason::Exit => "left",
            SaveReason::ContextLimit => "context nearly full",
            SaveReason::Manual => "saved by hand",
        }
        .to_string(),
        Entry::Compacted { .. } => "summarised".to_string(),
        Entry::Continued { .. } => "context began again".to_string(),
        _ => return None,
    })
}

/// The files that were changed at an entry, as seen from the folder of the session.
pub(super) fn files(entry: &Entry, folder: &str) -> Vec<String> {
    match entry {
        Entry::Finished {
            fact: Some(Fact::Wrote { path, .. }),
            ..
        } => {
            let inside = path.strip_prefix(folder).and_then(|p| p.strip_prefix('/'));
            vec![one_clean_line(inside.unwrap_or(path))]
        }
        _ => Vec::new(),
    }
}

pub(super) fn one_clean_line(text: &str) -> String {
    clean_line(&one_line(text, LINE_CHARS)).into_owned()
}

/// A part of the conversation as lines; none for what says nothing to a person.
pub(super) fn lines(entry: &Entry, calls_before: &Calls, out: &mut Vec<String>) {
    match entry {
        Entry::Said { text, images, .. } => {
            out.push(String::new());
            block("» ", &clip(text, MESSAGE_BYTES), usize::MAX, out);
            if !images.is_empty() {
                out.push(format!("  [{}]", count(images.len(), "image")));
            }
        }
        Entry::Replied { blocks, .. } => {
            out.push(String::new());
            for text in blocks.iter().filter_map(words) {
                block("", &clip(text, MESSAGE_BYTES), usize::MAX, out);
            }
            out.extend(calls(0, blocks).into_iter().map(|call| format!("· {call}")));
        }
        Entry::Finished { call, outcome, .. } => {
            let (text, is_error) = outcome.to_model_text();
            let name = calls_before.name(call).unwrap_or("a call");
            let mark = if is_error { "error" } else { "done" };
            out.push(format!("  {name}: {mark}"));
            block("  ", &clip(&text, RESULT_BYTES), RESULT_LINES, out);
        }
        Entry::Decided {
            call,
            verdict: Verdict::Deny { reason },
            ..
        } => {
            let name = calls_before.name(call).unwrap_or("a call");
            out.push(format!("  {name} denied: {}", one_clean_line(reason)));
        }
        Entry::Stopped { .. } => out.push("── stopped by you".to_string()),
        Entry::Failed { error, .. } => {
            out.push(format!("── failed: {}", one_clean_line(&error.message)));
        }
        Entry::Noted { text, .. } => out.push(format!("── {}", one_clean_line(text))),
        Entry::Compacted { summary, .. } => {
            out.push("── summarised:".to_string());
            block("  ", &clip(summary, RESULT_BYTES), RESULT_LINES, out);
        }
        Entry::Continued { note, .. } => {
            out.push("── the context began again from this note:".to_string());
            block("  ", &clip(note, RESULT_BYTES), RESULT_LINES, out);
        }
        Entry::Forked { .. } => out.push("── forked here".to_string()),
        Entry::Resumed { found, .. } => out.push(format!("── woke: {}", one_clean_line(found))),
        Entry::Opened { .. }
        | Entry::Rendered { .. }
        | Entry::Decided { .. }
        | Entry::Started { .. }
        | Entry::Saved { .. }
        | Entry::Chose { .. }
        | Entry::Named { .. }
        | Entry::Learned { .. } => {}
    }
}

fn words(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text).filter(|t| !t.trim().is_empty()).map(|t| &**t),
        Block::Thinking { .. } | Block::Call { .. } => None,
    }
}

/// Lines with a mark before the first, set in below it; `…` for those that are left out.
fn block(mark: &str, text: &str, max_lines: usize, out: &mut Vec<String>) {
    let text = clean(text.trim_end());
    let blank = " ".repeat(mark.chars().count());
    let mut lines = text.split('\n');
    for (n, line) in lines.by_ref().take(max_lines).enumerate() {
        let before = if n == 0 { mark } else { &blank };
        out.push(format!("{before}{line}"));
    }
    if lines.next().is_some() {
        out.push(format!("{blank}…"));
    }
}
