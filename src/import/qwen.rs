//! Sessions of qwen-code: JSON lines, a tree by `parentUuid`, with messages in the format of the
//! Gemini API. Source: files of version 0.15.10 in `tests/fixtures/import`.

use serde_json::Value;

use super::lines::{call_of, counted, is_of_agent, list, take_said, text, time};
use super::links::{TreeFormat, TreeLine};
use super::{About, Piece, Report, Sink};

#[derive(Default)]
pub(super) struct Qwen(About);

impl TreeFormat for Qwen {
    fn about(&mut self) -> &mut About {
        &mut self.0
    }

    fn note(&mut self, line: &Value, report: &mut Report) {
        let about = &mut self.0;
        about.note_time(time(line));
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
    }

    fn place(&self, line: &Value) -> Option<TreeLine> {
        let id = text(line, &["uuid"]);
        (!id.is_empty()).then(|| TreeLine {
            id: id.to_string(),
            parent: line["parentUuid"].as_str().map(String::from),
            is_said: line["type"] == "user",
            is_message: line["type"] != "system",
            answer: String::new(),
        })
    }

    fn pieces(&mut self, line: &Value, report: &mut Report, sink: Sink<'_>) {
        let at_ms = time(line);
        let parts = list(line, &["message", "parts"]);
        match text(line, &["type"]) {
            "user" | "tool_result" => of_user(parts, at_ms, report, sink),
            "assistant" => {
                let id = text(line, &["uuid"]);
                for part in parts {
                    of_model(part, at_ms, id, sink);
                }
                let tokens = &line["usageMetadata"];
                sink(counted(id, text(line, &["model"]), tokens));
            }
            _ => {}
        }
    }
}

/// Takes the parts of a message in the role of the user: words, or results.
pub(super) fn of_user(parts: &[Value], at_ms: i64, report: &mut Report, sink: Sink<'_>) {
    let mut said = Vec::new();
    for part in parts {
        if let Some(response) = part.get("functionResponse") {
            let body = &response["response"];
            let failed = body.get("error").is_some();
            let body = &body[if failed { "error" } else { "output" }];
            sink(Piece::Result {
                at_ms,
                call: text(response, &["id"]).to_string(),
                text: body.as_str().map_or_else(|| body.to_string(), String::from),
                is_error: failed,
                images: Vec::new(),
            });
        } else if is_of_agent(text(part, &["text"])) {
            report.of_agent += 1;
        } else {
            said.push(part.clone());
        }
    }
    take_said(said, at_ms, sink);
}

/// Takes a part of an answer: text, or a call.
pub(super) fn of_model(part: &Value, at_ms: i64, answer: &str, sink: Sink<'_>) {
    if let Some(call) = part.get("functionCall") {
        sink(call_of(answer, at_ms, call, "args"));
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
