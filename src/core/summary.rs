//! What stands for exchanges that left the context: the request to the summary model, and the
//! digest when it cannot be asked.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::choice::Effort;
use super::entry::{Block, Entry, Outcome, Record};
use super::exchange::Range;
use super::preface::Preface;
use super::request::{Message, Part, Request, Role};
use super::text::{clip, head_tail, one_line};

/// What stands for a summary that could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// An extract made from the log, without a model.
    Digest,
    /// One line that says which entries were left out.
    Placeholder,
}

/// Of a single text in what is summarised.
const TEXT_BYTES: usize = 2_000;

/// The request that makes a summary: what there was, and the records that leave.
pub fn request(
    model: &str,
    instructions: &str,
    before: Option<&str>,
    records: &[Record],
    room: &Budget,
    summary_tokens: u64,
) -> Request {
    let instructions = instructions.replace("{max_words}", &(summary_tokens * 3 / 4).to_string());
    let fixed = instructions.len() + before.map_or(0, str::len) + 500;
    let bytes = room.bytes(room.hard()).saturating_sub(fixed).max(1_000);
    let each = (bytes / records.len().max(1)).clamp(120, TEXT_BYTES);
    let transcript: Vec<String> = records.iter().filter_map(|r| line(r, each)).collect();
    let transcript = transcript.join("\n");
    let transcript = head_tail(&transcript, bytes, "\n[… left out …]\n");
    let before = before
        .map(|b| format!("<summary>\n{b}\n</summary>\n\n"))
        .unwrap_or_default();
    Request {
        model: model.to_string(),
        system: instructions,
        tools: Vec::new(),
        instructions: String::new(),
        messages: vec![Message {
            role: Role::User,
            parts: vec![Part::Text {
                text: format!(
                    "{before}<conversation>\n{transcript}\n</conversation>\n\nWrite the summary."
                ),
                signature: None,
            }],
            cache: false,
        }],
        max_tokens: (summary_tokens * 2).min(room.answer),
        effort: Effort::Default,
        temperature: None,
        schema: None,
    }
}

/// A record as a line of a transcript, with its address. `None` for what says nothing.
pub fn line(record: &Record, max_bytes: usize) -> Option<String> {
    let seq = record.seq;
    let cut = |text: &str| head_tail(text, max_bytes, " […] ").into_owned();
    Some(match &record.entry {
        Entry::Said { text, .. } => format!("[{seq}] user: {}", cut(text)),
        Entry::Replied { blocks, .. } => {
            let parts: Vec<String> = blocks
                .iter()
                .filter_map(|b| match b {
                    Block::Text { text, .. } if !text.trim().is_empty() => Some(cut(text)),
                    Block::Call {
                        name, arguments, ..
                    } => Some(format!("calls {name} {}", cut(arguments))),
                    Block::Text { .. } | Block::Thinking { .. } => None,
                })
                .collect();
            format!("[{seq}] agent: {}", cut(&parts.join("; ")))
        }
        Entry::Finished { outcome, .. } => {
            format!("[{seq}] result: {}", cut(&outcome.to_model_text().0))
        }
        Entry::Noted { text, .. } => format!("[{seq}] note: {}", cut(text)),
        Entry::Checked {
            told: Some(told), ..
        } => format!("[{seq}] note: {}", cut(told)),
        Entry::Stopped { .. } => format!("[{seq}] the user stopped the agent"),
        _ => return None,
    })
}

/// The summary without a model: what was there, and a line for each thing that happened,
/// the oldest cut first.
pub fn digest(preface: Option<&Preface>, records: &[Record], max_bytes: usize) -> String {
    const HEAD: &str = "(a digest made from the log, since the summary model could not be asked)\n";
    let before = preface
        .map(|p| p.summary.as_deref().unwrap_or(&p.text))
        .unwrap_or("");
    let before = before.strip_prefix(HEAD).unwrap_or(before);
    let mut lines: Vec<String> = before.lines().map(str::to_string).collect();
    lines.extend(records.iter().filter_map(digest_line));
    newest(HEAD, &lines, max_bytes)
}

fn digest_line(record: &Record) -> Option<String> {
    match &record.entry {
        Entry::Finished {
            outcome: Outcome::Done { .. },
            ..
        } => None,
        _ => line(record, 160).map(|l| one_line(&l, 200)),
    }
}

/// As many of the last lines as fit behind the head.
fn newest(head: &str, lines: &[String], max_bytes: usize) -> String {
    let mut room = max_bytes.saturating_sub(head.len());
    let kept = lines.iter().rev().take_while(|l| {
        let fits = l.len() < room;
        room = room.saturating_sub(l.len() + 1);
        fits
    });
    let from = lines.len() - kept.count();
    format!("{head}{}", lines[from..].join("\n"))
}

/// One line instead of a summary.
pub fn placeholder(range: Range) -> String {
    format!(
        "(entries 0-{} are not summarised; memory_page reads them)",
        range.last
    )
}

/// What a model wrote, cut to its size at the oldest content, or `None` when it is nonsense.
pub fn accept(text: &str, max_bytes: usize) -> Option<String> {
    let text = text.trim();
    if text.chars().filter(|c| c.is_alphanumeric()).count() < 3 {
        return None;
    }
    if text.len() <= max_bytes {
        return Some(text.to_string());
    }
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let cut = newest("(the oldest part was cut)\n", &lines, max_bytes);
    match cut.lines().count() > 1 {
        true => Some(cut),
        // One long line.
        false => Some(clip(text, max_bytes).into_owned()),
    }
}
