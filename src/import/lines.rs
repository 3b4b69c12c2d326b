//! Reads a file of JSON lines, one line at a time, whatever is in it.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::tools::usage;
use super::{Piece, Report, Sink};
use crate::core::half_character::read_lenient;

/// Maximum length of a line, bytes. Longer ones are skipped.
pub(super) const MAX_LINE: u64 = 64 * 1024 * 1024;

/// A line and where it begins.
pub(super) struct Line {
    pub at: u64,
    pub value: Value,
}

/// A source of lines.
pub(super) trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

pub(super) struct Lines {
    file: BufReader<Box<dyn Source>>,
    at: u64,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(source: impl Source + 'static) -> Lines {
        Lines {
            file: BufReader::with_capacity(64 * 1024, Box::new(source)),
            at: 0,
            buffer: Vec::new(),
        }
    }

    /// Goes back to the beginning.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.seek(0)
    }

    fn seek(&mut self, at: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    /// Reads the line that begins at this place again.
    pub(super) fn line_at(&mut self, at: u64) -> io::Result<Option<Value>> {
        self.seek(at)?;
        Ok(self.next(&mut Report::default())?.map(|line| line.value))
    }

    /// Returns the next line that is JSON, and counts those before it that are not.
    pub(super) fn next(&mut self, report: &mut Report) -> io::Result<Option<Line>> {
        loop {
            let at = self.at;
            self.buffer.clear();
            let mut limited = (&mut self.file).take(MAX_LINE + 1);
            let read = limited.read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.at += read as u64;
            let is_whole = self.buffer.last() == Some(&b'\n');
            if !is_whole && read as u64 > MAX_LINE {
                self.at += self.skip_line()?;
                report.lines += 1;
                report.too_long += 1;
                continue;
            }
            let mut bytes = self.buffer.as_slice();
            if at == 0 {
                bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            }
            let bytes = bytes.trim_ascii();
            if bytes.is_empty() {
                continue;
            }
            report.lines += 1;
            match parse(bytes, report) {
                Some(value) => return Ok(Some(Line { at, value })),
                None => report.damaged += 1,
            }
        }
    }

    /// Skips the rest of a line, without storing it. Returns its length.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let chunk = self.file.fill_buf()?;
            if chunk.is_empty() {
                return Ok(skipped);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(chunk.len(), |end| end + 1);
            self.file.consume(length);
            skipped += length as u64;
            if end.is_some() {
                return Ok(skipped);
            }
        }
    }
}

/// Parses a line. Objects nested deeper than 128 levels are refused by the parser.
fn parse(bytes: &[u8], report: &mut Report) -> Option<Value> {
    let value = read_lenient(bytes).ok().filter(Value::is_object)?;
    report.not_utf8 += u64::from(std::str::from_utf8(bytes).is_err());
    Some(value)
}

/// Returns the text at a path of names. Empty: there is no such text.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    let found = path.iter().try_fold(value, |at, name| at.get(name));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at a path of names, or an empty one.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    let found = path.iter().try_fold(value, |at, name| at.get(name));
    found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Takes the texts and calls of an answer, and its usage. `call` is the type of a call and the name
/// of its arguments.
pub(super) fn answer(
    id: &str,
    at_ms: i64,
    message: &Value,
    (call, arguments): (&str, &str),
    sink: Sink<'_>,
) {
    for part in list(message, &["content"]) {
        match text(part, &["type"]) {
            "text" => sink(Piece::Text {
                at_ms,
                answer: id.to_string(),
                text: text(part, &["text"]).to_string(),
            }),
            kind if kind == call => sink(call_of(id, at_ms, part, arguments)),
            _ => {}
        }
    }
    sink(counted(id, text(message, &["model"]), &message["usage"]));
}

/// Returns the model of an answer, and the tokens that were counted for it.
pub(super) fn counted(answer: &str, model: &str, tokens: &Value) -> Piece {
    Piece::Counted {
        answer: answer.to_string(),
        model: model.to_string(),
        usage: usage(tokens),
    }
}

/// Returns the call in a part of an answer. `arguments` is the name of its arguments.
pub(super) fn call_of(answer: &str, at_ms: i64, part: &Value, arguments: &str) -> Piece {
    Piece::Call {
        at_ms,
        answer: answer.to_string(),
        id: text(part, &["id"]).to_string(),
        name: text(part, &["name"]).to_string(),
        arguments: part[arguments].to_string(),
        printed: None,
    }
}

/// Takes the words and images of a message of the user, unless it has none.
pub(super) fn take_said(parts: Vec<Value>, at_ms: i64, sink: Sink<'_>) {
    let (text, images) = with_images(&Value::Array(parts));
    if !text.trim().is_empty() || !images.is_empty() {
        sink(Piece::Said {
            at_ms,
            text,
            images,
        });
    }
}

/// Returns the time of a line in milliseconds since 1970. 0: it has none.
pub(super) fn time(value: &Value) -> i64 {
    match &value["timestamp"] {
        Value::String(text) => text
            .parse::<jiff::Timestamp>()
            .map_or(0, |at| at.as_millisecond()),
        number => number.as_i64().unwrap_or(0),
    }
}

/// Joins the texts of a content: a text, or a list of parts with texts.
pub(super) fn joined(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_string();
    }
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = parts.iter().filter_map(|p| p["text"].as_str()).collect();
    texts.join("\n")
}

/// Returns whether a text in the role of the user was written by the agent for its model.
pub(super) fn is_of_agent(text: &str) -> bool {
    const MARKS: [&str; 11] = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "<session_context>",
        "<system-reminder>",
        "<command-name>",
        "<command-message>",
        "<local-command-stdout>",
        "<local-command-caveat>",
        "# AGENTS.md instructions",
        "[Request interrupted by user",
    ];
    let text = text.trim_start();
    MARKS.iter().any(|mark| text.starts_with(mark))
}

/// Returns the text of a content, and the bytes of its images. Only base64 is an image: an address
/// is text, and nothing is opened.
pub(super) fn with_images(content: &Value) -> (String, Vec<Vec<u8>>) {
    let mut text = joined(content);
    let mut images = Vec::new();
    for part in list(content, &[]) {
        match picture(part) {
            Some(Ok(bytes)) => images.push(bytes),
            Some(Err(address)) => text.push_str(&format!("\n[image: {address}]")),
            None => {}
        }
    }
    (text, images)
}

/// Returns the bytes of a part that is an image, or its address.
fn picture(part: &Value) -> Option<Result<Vec<u8>, String>> {
    const DATA: [&[&str]; 3] = [&["source", "data"], &["inlineData", "data"], &["data"]];
    let data = DATA.iter().map(|path| text(part, path));
    if let Some(data) = data.into_iter().find(|data| !data.is_empty()) {
        return STANDARD.decode(data).ok().map(Ok);
    }
    const ADDRESSES: [&[&str]; 3] = [&["image_url"], &["url"], &["source", "url"]];
    let addresses = ADDRESSES.iter().map(|path| text(part, path));
    let address = addresses.into_iter().find(|address| !address.is_empty())?;
    match address.strip_prefix("data:image/") {
        Some(data) => {
            let (_, data) = data.split_once(";base64,")?;
            STANDARD.decode(data).ok().map(Ok)
        }
        None => Some(Err(address.chars().take(200).collect())),
    }
}

/// Maximum length of the messages that are kept with a summary, bytes.
pub(super) const KEPT_BYTES: usize = 16 * 1024;

/// Returns a summary with the messages that the agent kept after it, the last ones if they are long.
pub(super) fn with_kept(summary: &str, kept: &[&str]) -> String {
    let mut room = KEPT_BYTES;
    let fits = |text: &&&str| {
        let fits = text.len() < room;
        room = room.saturating_sub(text.len() + 1);
        fits
    };
    let mut texts: Vec<&str> = kept.iter().rev().take_while(fits).copied().collect();
    if texts.is_empty() {
        return summary.to_string();
    }
    texts.reverse();
    format!(
        "{summary}\n\nThe last messages before the summary:\n{}",
        texts.join("\n")
    )
}
