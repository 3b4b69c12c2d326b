//! Sessions of pi: JSON lines, a tree by `parentId`. Source: files of version 0.73.1, format 3, in
//! `tests/fixtures/import`.

use std::io;

use serde_json::Value;

use super::lines::{Lines, is_of_agent, joined, list, text, time};
use super::links::{Link, current};
use super::{About, Piece, Report, Sink};

/// Kinds of lines without a part of the conversation.
const OTHER_KINDS: [&str; 6] = [
    "custom",
    "label",
    "model_change",
    "session",
    "session_info",
    "thinking_level_change",
];

/// Reads a session. `sink` gets its pieces in order.
pub(super) fn read(mut lines: Lines, report: &mut Report, sink: Sink<'_>) -> io::Result<About> {
    let mut about = About::default();
    let mut links = Vec::new();
    while let Some(line) = lines.next(report)? {
        let line = &line.value;
        let known = |name: &str| Some(text(line, &[name])).filter(|text| !text.is_empty());
        match text(line, &["type"]) {
            "session" if about.id.is_empty() => {
                about.id = text(line, &["id"]).to_string();
                about.folder = known("cwd").map(Into::into);
            }
            "session_info" => about.title = known("name").map(String::from).or(about.title),
            "message" | "compaction" | "branch_summary" => {}
            kind if OTHER_KINDS.contains(&kind) => {}
            kind => report.unknown(kind),
        }
        links.extend(link(line));
    }
    let (is_part, circular) = current(&links);
    report.circular += circular;
    lines.rewind()?;
    let mut parts = is_part.into_iter();
    while let Some(line) = lines.next(&mut Report::default())? {
        let line = &line.value;
        if link(line).is_some() && parts.next().unwrap_or_default() {
            pieces(line, report, sink);
        }
    }
    Ok(about)
}

fn link(line: &Value) -> Option<Link> {
    let id = text(line, &["id"]);
    if id.is_empty() || line["type"] == "session" {
        return None;
    }
    Some(Link {
        id: id.to_string(),
        parent: line["parentId"].as_str().map(String::from),
        is_said: line["message"]["role"] == "user",
    })
}

fn pieces(line: &Value, report: &mut Report, sink: Sink<'_>) {
    let at_ms = time(line);
    let message = &line["message"];
    if line["type"] == "compaction" {
        let text = text(line, &["summary"]).to_string();
        return sink(Piece::Summary { at_ms, text });
    }
    match text(message, &["role"]) {
        "user" => match joined(&message["content"]) {
            text if is_of_agent(&text) => report.of_agent += 1,
            text => sink(Piece::Said { at_ms, text }),
        },
        "toolResult" => sink(Piece::Result {
            at_ms,
            call: text(message, &["toolCallId"]).to_string(),
            text: joined(&message["content"]),
            is_error: message["isError"] == true,
        }),
        "assistant" => {
            let answer = text(line, &["id"]).to_string();
            for part in list(message, &["content"]) {
                match text(part, &["type"]) {
                    "text" => sink(Piece::Text {
                        at_ms,
                        answer: answer.clone(),
                        text: text(part, &["text"]).to_string(),
                    }),
                    "toolCall" => sink(Piece::Call {
                        at_ms,
                        answer: answer.clone(),
                        id: text(part, &["id"]).to_string(),
                        name: text(part, &["name"]).to_string(),
                        arguments: part["arguments"].to_string(),
                        printed: None,
                    }),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
