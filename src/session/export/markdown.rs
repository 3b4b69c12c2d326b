//! A session as Markdown: what was said, done and printed, in order.
//!
//! Invariant: no control character gets into the document, and what a command printed cannot
//! end the code block it stands in.

use std::io::Write;

use super::ExportError;
use crate::core::entry::{Block, CallId, Entry, Outcome, Record, Verdict};
use crate::core::text::{count, one_line};
use crate::core::visible::visible;
use crate::store::{SessionInfo, Store};
use crate::tools;

const TITLE_CHARS: usize = 200;
const CALL_CHARS: usize = 2_000;
const MIN_FENCE: usize = 3;

pub fn markdown(store: &Store, session: &str, out: &mut impl Write) -> Result<(), ExportError> {
    let info = store.find(session)?;
    head(&info, out)?;
    let mut calls = Calls::default();
    store.load_each(&info.id, |record: Record| -> Result<(), ExportError> {
        calls.note(&record);
        write_record(&record, &calls, out)
    })?;
    Ok(())
}

/// The calls of the last answer: results come before the next one.
#[derive(Default)]
struct Calls {
    reply: u64,
    names: Vec<String>,
}

impl Calls {
    fn note(&mut self, record: &Record) {
        if let Entry::Replied { blocks, .. } = &record.entry {
            self.reply = record.seq;
            self.names = calls(record.seq, blocks).collect();
        }
    }

    fn name(&self, call: &CallId) -> &str {
        let index = usize::try_from(call.index).unwrap_or(usize::MAX);
        let name = self.names.get(index).filter(|_| call.reply == self.reply);
        name.map_or("a call", String::as_str)
    }
}

fn calls(reply: u64, blocks: &[Block]) -> impl Iterator<Item = String> {
    let calls = blocks.iter().filter_map(|block| match block {
        Block::Call {
            name, arguments, ..
        } => Some((name, arguments)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    (0..).zip(calls).map(move |(index, (name, arguments))| {
        tools::call(CallId { reply, index }, name, arguments).in_one_line(CALL_CHARS)
    })
}

fn head(info: &SessionInfo, out: &mut impl Write) -> Result<(), ExportError> {
    let title = info.title.as_deref().unwrap_or("untitled");
    writeln!(out, "# {}\n", one_line(title, TITLE_CHARS))?;
    writeln!(out, "- session: {}", info.id)?;
    writeln!(out, "- folder: {}", line(&info.folder))?;
    if let Some(model) = &info.model {
        writeln!(out, "- model: {}", line(model))?;
    }
    let (from, to) = (utc(info.created_ms), utc(info.updated_ms));
    writeln!(
        out,
        "- from {from} to {to}, {}",
        count(info.entries, "entry")
    )?;
    let usage = &info.usage;
    writeln!(out, "- tokens: {} in, {} out", usage.prompt(), usage.output)?;
    if let Some(from) = &info.forked_from {
        writeln!(out, "- forked from {} at entry {}", from.session, from.seq)?;
    }
    Ok(())
}

fn write_record(record: &Record, calls: &Calls, out: &mut impl Write) -> Result<(), ExportError> {
    match &record.entry {
        Entry::Said { text, images, .. } => {
            writeln!(out, "\n## You, {}\n\n{}", utc(record.at_ms), visible(text))?;
            for image in images {
                writeln!(out, "\n[{}, {} bytes]", image.media_type, image.blob.bytes)?;
            }
        }
        Entry::Replied { blocks, model, .. } => replied(record, blocks, model, out)?,
        Entry::Finished { call, outcome, .. } => finished(calls.name(call), outcome, out)?,
        Entry::Decided {
            call,
            verdict: Verdict::Deny { reason },
            ..
        } => note(out, &format!("denied {}: {reason}", calls.name(call)))?,
        Entry::Stopped { .. } => note(out, "stopped by the user")?,
        Entry::Failed { error, .. } => note(out, &format!("failed: {}", error.message))?,
        Entry::Noted { text, .. } => note(out, text)?,
        Entry::Compacted { summary, .. } => {
            note(out, "what came before was summarised:")?;
            fenced(out, summary)?;
        }
        Entry::Continued { note: text, .. } => {
            note(out, "the context began again from this note:")?;
            fenced(out, text)?;
        }
        Entry::Forked { from } => {
            note(
                out,
                &format!("forked from {} at {}", from.session, from.seq),
            )?;
        }
        Entry::Resumed { found, .. } => note(out, &format!("woke: {found}"))?,
        Entry::Chose { model: Some(m), .. } => note(out, &format!("goes on with {m}"))?,
        Entry::Opened { .. }
        | Entry::Rendered { .. }
        | Entry::Decided { .. }
        | Entry::Started { .. }
        | Entry::Saved { .. }
        | Entry::Chose { .. }
        | Entry::Named { .. }
        | Entry::Learned { .. } => {}
    }
    Ok(())
}

fn replied(
    record: &Record,
    blocks: &[Block],
    model: &str,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    writeln!(out, "\n## {}, {}", line(model), utc(record.at_ms))?;
    for block in blocks {
        if let Block::Text { text, .. } = block
            && !text.trim().is_empty()
        {
            writeln!(out, "\n{}", visible(text))?;
        }
    }
    let mut blank = "\n";
    for call in calls(record.seq, blocks) {
        writeln!(out, "{blank}- calls {}", code(&call))?;
        blank = "";
    }
    Ok(())
}

fn finished(name: &str, outcome: &Outcome, out: &mut impl Write) -> Result<(), ExportError> {
    let (text, is_error) = outcome.to_model_text();
    let mark = if is_error { " (error)" } else { "" };
    writeln!(out, "\n### {}{mark}", code(name))?;
    fenced(out, &text)
}

fn fenced(out: &mut impl Write, text: &str) -> Result<(), ExportError> {
    let text = visible(text);
    let fence = "`".repeat((longest_ticks(&text) + 1).max(MIN_FENCE));
    writeln!(
        out,
        "\n{fence}text\n{}\n{fence}",
        text.trim_end_matches('\n')
    )?;
    Ok(())
}

fn note(out: &mut impl Write, text: &str) -> Result<(), ExportError> {
    let text = visible(text);
    writeln!(out, "\n> {}", text.trim_end().replace('\n', "\n> "))?;
    Ok(())
}

fn code(text: &str) -> String {
    let text = line(text);
    match longest_ticks(&text) {
        0 => format!("`{text}`"),
        n => {
            let ticks = "`".repeat(n + 1);
            format!("{ticks} {text} {ticks}")
        }
    }
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn line(text: &str) -> String {
    visible(text).replace('\n', " ")
}

fn utc(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_else(|_| "?".into())
}
