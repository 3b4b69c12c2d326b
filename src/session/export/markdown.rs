//! The Markdown export: the messages, calls and output of a session, in order.
//!
//! Invariant: no control character gets into the document, and neither the output of a command nor
//! the content of a file can end its code block.

use std::io::Write;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::ExportError;
use crate::core::entry::Record;
use crate::core::marks::title_line;
use crate::core::text::{count, session_name};
use crate::core::visible::visible;
use crate::session::describe::{BodyPart, Describer, Kind, Stream};
use crate::store::{SessionInfo, Store};
use crate::tools::{self, Replacement, ShownBody};

const TITLE_CHARS: usize = 200;
const CALL_CHARS: usize = 2_000;
const MIN_FENCE: usize = 3;
const MAX_LANGUAGE_BYTES: usize = 12;
/// Time limit of a diff. One that is cut off is correct, but not the shortest.
const MAX_DIFF_TIME: Duration = Duration::from_millis(200);

pub(crate) fn markdown(
    store: &Store,
    session: &str,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let info = store.history().find(session)?;
    head(&info, out)?;
    let mut describer = Describer::new(CALL_CHARS);
    store.load_each(&info.id, |record: Record| -> Result<(), ExportError> {
        write_record(&record, &mut describer, out)
    })?;
    Ok(())
}

fn head(info: &SessionInfo, out: &mut impl Write) -> Result<(), ExportError> {
    let title = session_name(info.title.as_deref());
    writeln!(out, "# {}\n", title_line(title, TITLE_CHARS))?;
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

fn write_record(
    record: &Record,
    describer: &mut Describer,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let it = describer.describe(record);
    if let Stream::Cut(Some(words)) = it.stream {
        writeln!(out, "\n{}", visible(words))?;
        note(out, "cut off here")?;
    }
    if !it.is_in_conversation() {
        return Ok(());
    }
    match &it.kind {
        Kind::User => writeln!(out, "\n## You, {}", utc(record.at_ms))?,
        Kind::Model { model, .. } => {
            writeln!(out, "\n## {}, {}", line(model), utc(record.at_ms))?;
        }
        Kind::Call { name, .. } => writeln!(out, "\n### {}: {}", code(name), line(&it.title))?,
        Kind::Note { .. } => return note(out, &format!("{}: {}", it.line(), it.words())),
        Kind::Session(_) | Kind::Failure => note(out, &it.line())?,
    }
    let mut is_in_list = false;
    for of_it in &it.body {
        let is_item = matches!(of_it, BodyPart::Call(_));
        if is_item && !is_in_list {
            writeln!(out)?;
        }
        is_in_list = part(of_it, out)? && is_item;
    }
    Ok(())
}

/// Writes a part. Returns true if the next item of a list can follow without a blank line.
fn part(part: &BodyPart<'_>, out: &mut impl Write) -> Result<bool, ExportError> {
    match part {
        BodyPart::Words(text) => writeln!(out, "\n{}", visible(text))?,
        BodyPart::Thinking(_) => {}
        BodyPart::Command(typed) => writeln!(out, "\n{}", code(typed))?,
        BodyPart::Images(images) => {
            for image in *images {
                let kind = line(&image.media_type);
                writeln!(out, "\n[{kind}, {} bytes]", image.blob.bytes)?;
            }
        }
        BodyPart::Call(call) => {
            writeln!(out, "- calls {}", code(&call.in_one_line(CALL_CHARS)))?;
            return changed(&tools::shown(call).body, out);
        }
        BodyPart::Output(text) => fenced(out, "text", text)?,
        BodyPart::Summary(text) => fenced(out, "text", text)?,
        BodyPart::Hint(hint) => note(out, &format!("hint: {hint}"))?,
    }
    Ok(false)
}

/// Writes the content that a call puts into a file. Returns true if there is none.
fn changed(body: &ShownBody, out: &mut impl Write) -> Result<bool, ExportError> {
    match body {
        ShownBody::File { path, content } => fenced(out, language(path), content)?,
        ShownBody::Edits { edits, .. } => fenced(out, "diff", &diff(edits))?,
        ShownBody::Served { arguments, .. } if arguments.contains('\n') => {
            fenced(out, "json", arguments)?;
        }
        ShownBody::Subject
        | ShownBody::Plan(_)
        | ShownBody::Command { .. }
        | ShownBody::Served { .. } => {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the language for syntax highlighting: the extension of the file name.
fn language(path: &str) -> &str {
    let end = path.rsplit_once('.').map_or("", |(_, end)| end);
    let is_plain = (1..=MAX_LANGUAGE_BYTES).contains(&end.len())
        && end.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_plain { end } else { "text" }
}

/// Returns each replaced part as a hunk. Its place in the file is not known.
fn diff(replaced: &[Replacement]) -> String {
    let mut text = String::new();
    for part in replaced {
        text.push_str(match part.all {
            true => "@@ in every place @@\n",
            false => "@@ @@\n",
        });
        let diff = TextDiff::configure()
            .timeout(MAX_DIFF_TIME)
            .diff_lines(part.old.as_str(), part.new.as_str());
        for change in diff.iter_all_changes() {
            text.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            text.push_str(change.value().trim_end_matches(['\r', '\n']));
            text.push('\n');
        }
    }
    text
}

/// Writes a code block with a fence that is longer than any in the text.
fn fenced(out: &mut impl Write, language: &str, text: &str) -> Result<(), ExportError> {
    let text = visible(text);
    let fence = "`".repeat((longest_ticks(&text) + 1).max(MIN_FENCE));
    writeln!(
        out,
        "\n{fence}{language}\n{}\n{fence}",
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
