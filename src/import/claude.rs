//! Sessions of Claude Code: JSON lines, one for each block of an answer, linked by `parentUuid`.
//!
//! Source: files of version 2.1.197 in `tests/fixtures/import`.

use std::collections::HashSet;
use std::io;

use serde_json::Value;

use super::lines::{Lines, is_of_agent, joined, list, text, time};
use super::links::{Link, current};
use super::{About, Piece, Report, Sink};

/// Kinds of lines without a part of the conversation.
const OTHER_KINDS: [&str; 17] = [
    "agent-name",
    "ai-title",
    "attachment",
    "attribution-snapshot",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "result",
    "summary",
    "system",
    "tag",
    "worktree-state",
];

/// Reads a session. `sink` gets its pieces in order.
pub(super) fn read(mut lines: Lines, report: &mut Report, sink: Sink<'_>) -> io::Result<About> {
    let mut about = About::default();
    let mut links = Vec::new();
    let mut answers = Vec::new();
    while let Some(line) = lines.next(report)? {
        let line = &line.value;
        note_about(line, &mut about);
        let Some(link) = link(line) else { continue };
        links.push(link);
        answers.push(text(line, &["message", "id"]).to_string());
    }
    let (mut is_part, circular) = current(&links);
    report.circular += circular;
    // All lines of an answer belong to it, wherever their parents lead.
    let live: HashSet<&str> = answers
        .iter()
        .zip(&is_part)
        .filter(|(id, part)| **part && !id.is_empty())
        .map(|(id, _)| id.as_str())
        .collect();
    for (place, id) in answers.iter().enumerate() {
        is_part[place] |= live.contains(id.as_str());
    }
    lines.rewind()?;
    let mut place = 0;
    let mut unreported = Report::default();
    while let Some(line) = lines.next(&mut unreported)? {
        let line = &line.value;
        match text(line, &["type"]) {
            "user" | "assistant" | "system" => {}
            kind if OTHER_KINDS.contains(&kind) => {}
            kind => report.unknown(kind),
        }
        if link(line).is_none() {
            continue;
        }
        let is_here = is_part.get(place).copied().unwrap_or_default();
        place += 1;
        if is_here {
            pieces(line, report, sink);
        }
    }
    Ok(about)
}

fn note_about(line: &Value, about: &mut About) {
    let first = |known: &mut String, name: &str| {
        if known.is_empty() {
            *known = text(line, &[name]).to_string();
        }
    };
    first(&mut about.id, "sessionId");
    let known = |name: &str| Some(text(line, &[name])).filter(|text| !text.is_empty());
    if about.version.is_none() {
        about.version = known("version").map(String::from);
    }
    if about.folder.is_none() {
        about.folder = known("cwd").map(Into::into);
    }
    // The newest title counts, and one that the user gave most.
    let title = match text(line, &["type"]) {
        "custom-title" => known("customTitle"),
        "summary" => known("summary"),
        "ai-title" => known("aiTitle"),
        _ => None,
    };
    if let Some(title) = title {
        about.title = Some(title.to_string());
    }
}

/// Returns the place in the tree of a line that is a part of the conversation.
fn link(line: &Value) -> Option<Link> {
    let kind = text(line, &["type"]);
    let id = text(line, &["uuid"]);
    if id.is_empty() || line["isSidechain"] == true {
        return None;
    }
    let parent = ["parentUuid", "logicalParentUuid"].map(|name| line[name].as_str());
    Some(Link {
        id: id.to_string(),
        parent: parent.into_iter().flatten().next().map(String::from),
        is_said: kind == "user" && said(line).is_some_and(|text| !is_of_agent(&text)),
    })
}

/// Returns the words of the user in a line.
fn said(line: &Value) -> Option<String> {
    let content = &line["message"]["content"];
    let is_other = line["isMeta"] == true || line["isCompactSummary"] == true;
    let has_result = list(content, &[])
        .iter()
        .any(|part| part["type"] == "tool_result");
    if is_other || has_result {
        return None;
    }
    Some(joined(content)).filter(|text| !text.trim().is_empty())
}

fn pieces(line: &Value, report: &mut Report, sink: Sink<'_>) {
    let at_ms = time(line);
    let content = &line["message"]["content"];
    match text(line, &["type"]) {
        "user" if line["isCompactSummary"] == true => sink(Piece::Summary {
            at_ms,
            text: joined(content),
        }),
        "user" if line["isMeta"] == true => report.of_agent += 1,
        "user" => {
            for part in list(content, &[])
                .iter()
                .filter(|p| p["type"] == "tool_result")
            {
                sink(Piece::Result {
                    at_ms,
                    call: text(part, &["tool_use_id"]).to_string(),
                    text: joined(&part["content"]),
                    is_error: part["is_error"] == true,
                });
            }
            match said(line) {
                Some(text) if is_of_agent(&text) => report.of_agent += 1,
                Some(text) => sink(Piece::Said { at_ms, text }),
                None => {}
            }
        }
        "assistant" if line["isApiErrorMessage"] == true => report.of_agent += 1,
        "assistant" => {
            let answer = text(line, &["message", "id"]).to_string();
            for part in list(content, &[]) {
                match text(part, &["type"]) {
                    "text" => sink(Piece::Text {
                        at_ms,
                        answer: answer.clone(),
                        text: text(part, &["text"]).to_string(),
                    }),
                    "tool_use" => sink(Piece::Call {
                        at_ms,
                        answer: answer.clone(),
                        id: text(part, &["id"]).to_string(),
                        name: text(part, &["name"]).to_string(),
                        arguments: part["input"].to_string(),
                        printed: None,
                    }),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
