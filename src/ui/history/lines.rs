//! Records in the history: a row of the tree for a checkpoint, plain lines for the conversation.
//!
//! Invariant: however large an entry is, a line of the tree and its part of the preview is not.

use crate::core::entry::{Entry, Fact};
use crate::core::text::{clip, one_line};
use crate::session::describe::{Description, Kind, Part, Stream, image_count};
use crate::ui::text::{clean, clean_line};

const LINE_CHARS: usize = 160;
/// Of one message so much is shown, and of one result so many lines.
const MESSAGE_BYTES: usize = 4_000;
const RESULT_BYTES: usize = 1_200;
const RESULT_LINES: usize = 8;

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

/// A part of the conversation as lines; none for what is no part of it.
pub(super) fn lines(it: &Description<'_>, out: &mut Vec<String>) {
    if let Stream::Cut(Some(words)) = it.stream {
        block("", &clip(words, MESSAGE_BYTES), usize::MAX, out);
        out.push("  [cut off here]".to_string());
    }
    if !it.is_in_conversation() {
        return;
    }
    let mark = match &it.kind {
        Kind::User => {
            out.push(String::new());
            "▌ "
        }
        Kind::Model { .. } => {
            out.push(String::new());
            ""
        }
        Kind::Call { .. } => {
            out.push(format!("  {}", clean_line(&it.line())));
            ""
        }
        Kind::Note { .. } => {
            let note = one_clean_line(&it.words());
            return out.push(format!("── {}: {note}", it.line()));
        }
        Kind::Session(_) | Kind::Failure => {
            out.push(format!("── {}", one_clean_line(&it.line())));
            ""
        }
    };
    for of_it in &it.body {
        part(of_it, mark, out);
    }
}

fn part(part: &Part<'_>, mark: &str, out: &mut Vec<String>) {
    match part {
        Part::Words(text) => block(mark, &clip(text, MESSAGE_BYTES), usize::MAX, out),
        Part::Thinking(_) => {}
        Part::Command(line) => out.push(format!("{mark}{}", clean_line(line))),
        Part::Images(images) => out.push(format!("  {}", image_count(images))),
        Part::Call(call) => {
            let call = call.in_one_line(LINE_CHARS);
            out.push(format!("· {}", clean_line(&call)));
        }
        Part::Output(text) => block("  ", &clip(text, RESULT_BYTES), RESULT_LINES, out),
        Part::Summary(text) => block("  ", &clip(text, RESULT_BYTES), RESULT_LINES, out),
        Part::Hint(hint) => out.push(format!("── hint: {}", one_clean_line(hint))),
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
