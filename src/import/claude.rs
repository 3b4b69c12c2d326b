//! Sessions of Claude Code: JSON lines, one for each block of an answer, linked by `parentUuid`.
//!
//! Source: files of version 2.1.197 in `tests/fixtures/import`.

use serde_json::Value;

use super::lines::{answer, is_of_agent, joined, list, text, time, with_images};
use super::links::{TreeFormat, TreeLine};
use super::{About, Piece, Report, Sink};

/// Kinds of lines without a part of the conversation.
#[rustfmt::skip]
const OTHER_KINDS: [&str; 17] = [
    "agent-name", "ai-title", "attachment", "attribution-snapshot", "custom-title", "file-history-snapshot",
    "last-prompt", "mode", "permission-mode", "pr-link", "progress", "queue-operation", "result", "summary",
    "system", "tag", "worktree-state",
];

#[derive(Default)]
pub(super) struct Claude(About);

impl TreeFormat for Claude {
    fn about(&mut self) -> &mut About {
        &mut self.0
    }

    fn note(&mut self, line: &Value, report: &mut Report) {
        note_about(line, &mut self.0);
        match text(line, &["type"]) {
            "user" | "assistant" | "system" => {}
            kind if OTHER_KINDS.contains(&kind) => {}
            kind => report.unknown(kind),
        }
    }

    fn place(&self, line: &Value) -> Option<TreeLine> {
        let kind = text(line, &["type"]);
        let id = text(line, &["uuid"]);
        if id.is_empty() || line["isSidechain"] == true {
            return None;
        }
        let parent = ["parentUuid", "logicalParentUuid"].map(|name| line[name].as_str());
        Some(TreeLine {
            id: id.to_string(),
            parent: parent.into_iter().flatten().next().map(String::from),
            is_said: kind == "user" && said(line).is_some_and(|(text, _)| !is_of_agent(&text)),
            is_message: matches!(kind, "user" | "assistant"),
            answer: text(line, &["message", "id"]).to_string(),
        })
    }

    fn pieces(&mut self, line: &Value, report: &mut Report, sink: Sink<'_>) {
        pieces(line, report, sink);
    }
}

fn note_about(line: &Value, about: &mut About) {
    about.note_time(time(line));
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

/// Returns the words of the user in a line, and the images with them.
fn said(line: &Value) -> Option<(String, Vec<Vec<u8>>)> {
    let content = &line["message"]["content"];
    let is_other = line["isMeta"] == true || line["isCompactSummary"] == true;
    let has_result = list(content, &[])
        .iter()
        .any(|part| part["type"] == "tool_result");
    if is_other || has_result {
        return None;
    }
    let said = with_images(content);
    Some(said).filter(|(text, images)| !text.trim().is_empty() || !images.is_empty())
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
                let (result, images) = with_images(&part["content"]);
                sink(Piece::Result {
                    at_ms,
                    call: text(part, &["tool_use_id"]).to_string(),
                    text: result,
                    is_error: part["is_error"] == true,
                    images,
                });
            }
            match said(line) {
                Some((text, _)) if is_of_agent(&text) => report.of_agent += 1,
                Some((text, images)) => sink(Piece::Said {
                    at_ms,
                    text,
                    images,
                }),
                None => {}
            }
        }
        "assistant" if line["isApiErrorMessage"] == true => report.of_agent += 1,
        "assistant" => {
            let (message, id) = (&line["message"], text(line, &["message", "id"]));
            answer(id, at_ms, message, ("tool_use", "input"), sink);
        }
        _ => {}
    }
}
