//! Sessions of qwen-code: JSON lines, a tree by `parentUuid`, with messages in the format of the
//! Gemini API. Source: files of version 0.15.10 in `tests/fixtures/import`.

use std::io;

use serde_json::Value;

use super::lines::{Lines, is_of_agent, list, text, time};
use super::links::{Link, current};
use super::{About, Piece, Report, Sink};

/// Reads a session. `sink` gets its pieces in order.
pub(super) fn read(mut lines: Lines, report: &mut Report, sink: Sink<'_>) -> io::Result<About> {
    let mut about = About::default();
    let mut links = Vec::new();
    while let Some(line) = lines.next(report)? {
        let line = &line.value;
        let known = |name: &str| Some(text(line, &[name])).filter(|text| !text.is_empty());
        if about.id.is_empty() {
            about.id = text(line, &["sessionId"]).to_string();
            about.version = known("version").map(String::from);
            about.folder = known("cwd").map(Into::into);
        }
        match text(line, &["type"]) {
            "user" | "assistant" | "tool_result" | "system" => {}
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
    let id = text(line, &["uuid"]);
    (!id.is_empty()).then(|| Link {
        id: id.to_string(),
        parent: line["parentUuid"].as_str().map(String::from),
        is_said: line["type"] == "user",
    })
}

fn pieces(line: &Value, report: &mut Report, sink: Sink<'_>) {
    let at_ms = time(line);
    let kind = text(line, &["type"]);
    for part in list(line, &["message", "parts"]) {
        match kind {
            "user" | "tool_result" => of_user(part, at_ms, report, sink),
            "assistant" => of_model(part, at_ms, text(line, &["uuid"]), sink),
            _ => {}
        }
    }
}

/// Takes a part of a message in the role of the user: words, or a result.
pub(super) fn of_user(part: &Value, at_ms: i64, report: &mut Report, sink: Sink<'_>) {
    if let Some(response) = part.get("functionResponse") {
        let body = &response["response"];
        let failed = body.get("error").is_some();
        let body = &body[if failed { "error" } else { "output" }];
        sink(Piece::Result {
            at_ms,
            call: text(response, &["id"]).to_string(),
            text: body.as_str().map_or_else(|| body.to_string(), String::from),
            is_error: failed,
        });
    }
    match text(part, &["text"]) {
        "" => {}
        text if is_of_agent(text) => report.of_agent += 1,
        text => sink(Piece::Said {
            at_ms,
            text: text.to_string(),
        }),
    }
}

/// Takes a part of an answer: text, or a call.
pub(super) fn of_model(part: &Value, at_ms: i64, answer: &str, sink: Sink<'_>) {
    if let Some(call) = part.get("functionCall") {
        sink(Piece::Call {
            at_ms,
            answer: answer.to_string(),
            id: text(call, &["id"]).to_string(),
            name: text(call, &["name"]).to_string(),
            arguments: call["args"].to_string(),
            printed: None,
        });
    }
    let text = text(part, &["text"]);
    if !text.is_empty() && part["thought"] != true {
        sink(Piece::Text {
            at_ms,
            answer: answer.to_string(),
            text: text.to_string(),
        });
    }
}
