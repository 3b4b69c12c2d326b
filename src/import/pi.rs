//! Sessions of pi: JSON lines, a tree by `parentId`. Source: files of version 0.73.1, format 3, in
//! `tests/fixtures/import`.

use std::collections::VecDeque;

use serde_json::Value;

use super::lines::{KEPT_BYTES, answer, is_of_agent, joined, text, time, with_images, with_kept};
use super::links::{TreeFormat, TreeLine};
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

#[derive(Default)]
pub(super) struct Pi {
    about: About,
    /// The last messages, with their IDs: a summary names the first one that it keeps.
    last: VecDeque<(String, String)>,
}

impl TreeFormat for Pi {
    fn about(&mut self) -> &mut About {
        &mut self.about
    }

    fn note(&mut self, line: &Value, report: &mut Report) {
        let about = &mut self.about;
        about.note_time(time(line));
        let known = |name: &str| Some(text(line, &[name])).filter(|text| !text.is_empty());
        match text(line, &["type"]) {
            "session" if about.id.is_empty() => {
                about.id = text(line, &["id"]).to_string();
                about.folder = known("cwd").map(Into::into);
            }
            "session_info" => about.title = known("name").map(String::from).or(about.title.take()),
            "message" | "compaction" | "branch_summary" => {}
            kind if OTHER_KINDS.contains(&kind) => {}
            kind => report.unknown(kind),
        }
    }

    fn place(&self, line: &Value) -> Option<TreeLine> {
        let id = text(line, &["id"]);
        if id.is_empty() || line["type"] == "session" {
            return None;
        }
        Some(TreeLine {
            id: id.to_string(),
            parent: line["parentId"].as_str().map(String::from),
            is_said: line["message"]["role"] == "user",
            is_message: line["type"] == "message",
            answer: String::new(),
        })
    }

    fn pieces(&mut self, line: &Value, report: &mut Report, sink: Sink<'_>) {
        if line["type"] == "compaction" {
            let first = text(line, &["firstKeptEntryId"]);
            let kept = self.last.iter().skip_while(|(id, _)| id != first);
            let kept: Vec<&str> = kept.map(|(_, text)| text.as_str()).collect();
            let summary = text(line, &["summary"]);
            return sink(Piece::Summary {
                at_ms: time(line),
                text: with_kept(summary, &kept),
            });
        }
        let message = &line["message"];
        let said = joined(&message["content"]);
        if !said.trim().is_empty() {
            let said = format!("{}: {said}", text(message, &["role"]));
            self.last.push_back((text(line, &["id"]).to_string(), said));
        }
        let bytes =
            |last: &VecDeque<(String, String)>| last.iter().map(|(_, t)| t.len()).sum::<usize>();
        while self.last.len() > 1 && bytes(&self.last) > KEPT_BYTES {
            self.last.pop_front();
        }
        pieces(line, report, sink);
    }
}

fn pieces(line: &Value, report: &mut Report, sink: Sink<'_>) {
    let at_ms = time(line);
    let message = &line["message"];
    match text(message, &["role"]) {
        "user" => match with_images(&message["content"]) {
            (text, _) if is_of_agent(&text) => report.of_agent += 1,
            (text, images) => sink(Piece::Said {
                at_ms,
                text,
                images,
            }),
        },
        "toolResult" => {
            let (result, images) = with_images(&message["content"]);
            sink(Piece::Result {
                at_ms,
                call: text(message, &["toolCallId"]).to_string(),
                text: result,
                is_error: message["isError"] == true,
                images,
            });
        }
        "assistant" => {
            let id = text(line, &["id"]);
            answer(id, at_ms, message, ("toolCall", "arguments"), sink);
        }
        _ => {}
    }
}
