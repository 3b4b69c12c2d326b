//! Sessions of Codex: JSON lines. Each item of a conversation is there as `response_item`, and many
//! a second time as `event_msg`. Only the events tell words of the user from those of the agent.
//!
//! Source: files of version 0.169.0 in `tests/fixtures/import`.

use std::io;

use serde_json::{Value, json};

use super::lines::{Lines, is_of_agent, joined, list, text, time, with_images, with_kept};
use super::tools::usage;
use super::{About, Piece, Report, Sink};

/// Kinds of lines without a part of the conversation.
const OTHER_KINDS: [&str; 2] = ["ghost_snapshot", "world_state"];

/// Reads a session. `sink` gets its pieces in order.
pub(super) fn read(mut lines: Lines, report: &mut Report, sink: Sink<'_>) -> io::Result<About> {
    let mut about = About::default();
    // Items up to the next result or message are one answer.
    let mut answer = 0_u64;
    let mut model = String::new();
    while let Some(line) = lines.next(report)? {
        let line = &line.value;
        let payload = &line["payload"];
        let at_ms = time(line);
        about.note_time(at_ms);
        match text(line, &["type"]) {
            "session_meta" if about.id.is_empty() => {
                about.id = text(payload, &["id"]).to_string();
                let known = |name: &str| Some(text(payload, &[name])).filter(|t| !t.is_empty());
                about.version = known("cli_version").map(String::from);
                about.folder = known("cwd").map(Into::into);
            }
            "session_meta" => {}
            "compacted" => sink(Piece::Summary {
                at_ms,
                text: summary(payload),
            }),
            "turn_context" => model = text(payload, &["model"]).to_string(),
            "token_usage_record" => sink(Piece::Counted {
                answer: text(payload, &["response_id"]).to_string(),
                model: model.clone(),
                usage: usage(&payload["usage"]),
            }),
            "event_msg" => {
                if let Some((text, images)) = said(payload) {
                    answer += 1;
                    sink(Piece::Said {
                        at_ms,
                        text,
                        images,
                    });
                }
            }
            "response_item" => item(payload, at_ms, &mut answer, report, sink),
            kind if OTHER_KINDS.contains(&kind) => {}
            kind => report.unknown(kind),
        }
    }
    Ok(about)
}

/// Returns a summary, with the messages that Codex kept beside it.
fn summary(compacted: &Value) -> String {
    let kept = list(compacted, &["replacement_history"]);
    let kept = kept.iter().map(|item| joined(&item["content"]));
    let kept: Vec<String> = kept
        .filter(|text| !text.is_empty() && !is_of_agent(text))
        .collect();
    let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
    with_kept(text(compacted, &["message"]), &kept)
}

/// Returns the words of the user that an event confirms: of a completed item, or as versions before
/// 0.150 wrote it.
fn said(event: &Value) -> Option<(String, Vec<Vec<u8>>)> {
    let said = match text(event, &["type"]) {
        "user_message" => {
            let images = list(event, &["images"]).iter();
            let images = images.map(|url| json!({ "image_url": url }));
            let (addresses, images) = with_images(&images.collect());
            (format!("{}{addresses}", text(event, &["message"])), images)
        }
        "item_completed" if event["item"]["type"] == "UserMessage" => {
            with_images(&event["item"]["content"])
        }
        _ => return None,
    };
    Some(said).filter(|(text, images)| !text.trim().is_empty() || !images.is_empty())
}

fn item(item: &Value, at_ms: i64, answer: &mut u64, report: &mut Report, sink: Sink<'_>) {
    let call = |id: &str, name: &str, arguments: String| Piece::Call {
        at_ms,
        answer: answer.to_string(),
        id: id.to_string(),
        name: name.to_string(),
        arguments,
        printed: None,
    };
    let id = text(item, &["call_id"]);
    match text(item, &["type"]) {
        "message" if item["role"] == "assistant" => sink(Piece::Text {
            at_ms,
            answer: answer.to_string(),
            text: joined(&item["content"]),
        }),
        // Words of the user come as an event, too.
        "message" => report.of_agent += u64::from(item["role"] != "user"),
        "function_call" => {
            let arguments = text(item, &["arguments"]).to_string();
            sink(call(id, text(item, &["name"]), arguments));
        }
        "custom_tool_call" => {
            let input = Value::from(text(item, &["input"]));
            let arguments = json!({ "input": input }).to_string();
            sink(call(id, text(item, &["name"]), arguments));
        }
        "local_shell_call" => sink(call(id, "shell", item["action"].to_string())),
        "function_call_output" | "custom_tool_call_output" => {
            *answer += 1;
            let output = &item["output"];
            let (text, images) = match output {
                Value::Object(object) => with_images(object.get("content").unwrap_or(output)),
                output => with_images(output),
            };
            sink(Piece::Result {
                at_ms,
                call: id.to_string(),
                text,
                is_error: output["success"] == false,
                images,
            });
        }
        "reasoning" | "web_search_call" | "ghost_snapshot" | "compaction" => {}
        kind => report.unknown(kind),
    }
}
