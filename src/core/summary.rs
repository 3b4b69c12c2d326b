//! What stands for exchanges that left the context: the request to the summary model, and the
//! digest when it cannot be asked.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::choice::Effort;
use super::entry::{About, Block, Entry, Record, Seq, SummaryBy};
use super::exchange::Range;
use super::happened;
use super::request::{Message, Part, Request, Role};
use super::sharing;
use super::state::State;
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

/// Of a single result or answer in what is summarised, at most.
const TEXT_BYTES: usize = 2_000;

/// What the request has besides the instructions, the summary and the conversation, at most.
const AROUND_BYTES: usize = 500;

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
    let fixed = instructions.len() + before.map_or(0, str::len) + AROUND_BYTES;
    let bytes = room.bytes(room.hard()).saturating_sub(fixed).max(1_000);
    let transcript = transcript(records, bytes);
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
                    "{before}<conversation>\n{transcript}\n</conversation>\n\nNow write what was \
                     asked for."
                ),
                signature: None,
            }],
            cache: false,
        }],
        max_tokens: (summary_tokens * 2).min(room.answer),
        effort: Effort::Default,
        temperature: None,
    }
}

/// The records as lines, in at most `room` bytes, shared out by need. What a person said is cut
/// only when nothing of what the tools printed is left to cut.
fn transcript(records: &[Record], room: usize) -> String {
    let is_said = |record: &Record| matches!(record.entry, Entry::Said { .. });
    let whole: Vec<(&Record, String)> = records
        .iter()
        .filter_map(|r| line(r, usize::MAX).map(|line| (r, line)))
        .collect();
    let sizes = |said: bool, max: usize| {
        let of = whole.iter().filter(move |(r, _)| is_said(r) == said);
        of.map(move |(_, line)| line.len().min(max) + 1)
            .collect::<Vec<_>>()
    };
    const LEAST: usize = 120;
    let others_at_least: usize = sizes(false, LEAST).iter().sum();
    let for_said = room.saturating_sub(others_at_least).max(room / 2);
    let most_said = sharing::level(sizes(true, usize::MAX), for_said);
    let said: usize = sizes(true, most_said).iter().sum();
    let most = sharing::level(sizes(false, TEXT_BYTES), room.saturating_sub(said));
    let lines: Vec<String> = whole
        .iter()
        .map(|(record, line)| {
            let most = match is_said(record) {
                true => most_said,
                false => most.min(TEXT_BYTES),
            };
            cut(line, record.seq, most)
        })
        .collect();
    let all = lines.join("\n");
    head_tail(&all, room, "\n[… left out …]\n").into_owned()
}

/// A line of a transcript, with what is left out of it in bytes and address.
fn cut(line: &str, seq: Seq, max: usize) -> String {
    if line.len() <= max {
        return line.to_string();
    }
    let marker = format!(" [… {} bytes of entry {seq} left out …] ", line.len() - max);
    head_tail(line, max, &marker).into_owned()
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
        // It is in the log already.
        Entry::Noted {
            about: Some(About::Recalled),
            ..
        } => return None,
        Entry::Noted { text, .. } => format!("[{seq}] note: {}", cut(text)),
        Entry::Stopped { .. } => format!("[{seq}] the user stopped the agent"),
        _ => return None,
    })
}

/// Stands above what a digest has of its own.
const SINCE: &str = "What came after that, from the log:";

/// The summary without a model: the last one that a model made, whole, and a line for each
/// thing that came of the exchanges behind it, the oldest left out first. `max_bytes` is the
/// room of a summary; a quarter of that is for lines in any case.
pub fn digest(state: &State, records: &[Record], max_bytes: usize) -> String {
    const HEAD: &str = "(The summary model could not be asked.)";
    let preface = state.preface.as_ref();
    let sound = preface.and_then(|p| p.sound.as_deref()).map(str::trim);
    let before = match preface.map(|p| (p.summary.as_deref(), p.by)) {
        // The lines of the digest before.
        Some((Some(summary), SummaryBy::Digest)) => summary
            .split_once(SINCE)
            .map_or(summary, |(_, lines)| lines),
        _ => "",
    };
    let head = match sound {
        Some(sound) => format!("{HEAD}\n{sound}\n\n{SINCE}\n"),
        None => format!("{HEAD} {SINCE}\n"),
    };
    let before = before.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut lines: Vec<String> = before.map(str::to_string).collect();
    lines.extend(digest_lines(state, records));
    let room = max_bytes.max(head.len() + max_bytes / 4);
    newest(&head, &lines, room)
}

/// What came of each exchange. What the user said is no part of it: it stands by itself.
fn digest_lines(state: &State, records: &[Record]) -> Vec<String> {
    let calls = happened::calls(records, state.describe());
    let of = |record: &Record| match &record.entry {
        Entry::Said { .. } => None,
        Entry::Replied { blocks, .. } => {
            let mut texts = blocks.iter().filter_map(|b| match b {
                Block::Text { text, .. } if !text.trim().is_empty() => Some(one_line(text, 160)),
                _ => None,
            });
            texts
                .next()
                .map(|text| format!("[{}] agent: {text}", record.seq))
        }
        Entry::Finished {
            call,
            outcome,
            fact,
            ..
        } => {
            let line = happened::line(calls.get(call), outcome, fact.as_ref(), 160);
            Some(format!("[{}] {line}", record.seq))
        }
        _ => line(record, 160).map(|line| one_line(&line, 200)),
    };
    records.iter().filter_map(of).collect()
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
    // Some models repeat the marks around what they were given.
    let text = text.trim();
    let text = text.strip_prefix("<summary>").unwrap_or(text);
    let text = text.strip_suffix("</summary>").unwrap_or(text).trim();
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
