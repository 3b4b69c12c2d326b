//! Sessions of gemini-cli: JSON lines. A message with a known id replaces the earlier one. After a
//! resume, the file has a second header and the whole history again as `$set.messages`.
//!
//! A call is written only when it has ended: one that was killed leaves no trace.
//!
//! Source: files of version 0.61.0 in `tests/fixtures/import`.

use std::collections::HashMap;
use std::io;

use serde_json::Value;

use super::lines::{Lines, call_of, counted, list, text, time};
use super::qwen::{of_model, of_user};
use super::{About, Report, Sink};

/// The place of a message: its line, and its index in `$set.messages`.
type Place = (u64, Option<usize>);

/// Reads a session. `sink` gets its pieces in order.
pub(super) fn read(mut lines: Lines, report: &mut Report, sink: Sink<'_>) -> io::Result<About> {
    let mut about = About::default();
    let mut order: Vec<Place> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut note = |message: &Value, place: Place| {
        // A result may have the id of its call's message.
        let key = ["id", "type"].map(|name| text(message, &[name]).to_string());
        match known.get(&key.clone().into()) {
            // The history that a resume writes has other times, and no counts of tokens.
            Some(_) if place.1.is_some() => {}
            Some(at) => order[*at] = place,
            None => {
                known.insert(key.into(), order.len());
                order.push(place);
            }
        }
    };
    while let Some(line) = lines.next(report)? {
        let value = &line.value;
        if let Some(set) = value.get("$set") {
            for (index, message) in list(set, &["messages"]).iter().enumerate() {
                note(message, (line.at, Some(index)));
            }
        } else if value.get("id").is_some() {
            note(value, (line.at, None));
        } else if value.get("sessionId").is_some() {
            if about.id.is_empty() {
                about.id = text(value, &["sessionId"]).to_string();
                let began = serde_json::json!({ "timestamp": value["startTime"] });
                about.note_time(time(&began));
            }
        } else {
            let name = value.as_object().and_then(|object| object.keys().next());
            report.unknown(name.map_or("line", String::as_str));
        }
    }
    let mut last: Option<(u64, Value)> = None;
    for (at, index) in order {
        if last.as_ref().is_none_or(|(known, _)| *known != at) {
            last = lines.line_at(at)?.map(|value| (at, value));
        }
        let Some((_, value)) = &last else { continue };
        match index {
            Some(index) => {
                if let Some(message) = list(value, &["$set", "messages"]).get(index) {
                    pieces(message, report, sink);
                }
            }
            None => pieces(value, report, sink),
        }
    }
    Ok(about)
}

fn pieces(message: &Value, report: &mut Report, sink: Sink<'_>) {
    let at_ms = time(message);
    let id = text(message, &["id"]);
    let parts = match &message["content"] {
        Value::Array(parts) => parts.clone(),
        content => vec![serde_json::json!({ "text": content })],
    };
    match text(message, &["type"]) {
        "user" => {
            of_user(&parts, at_ms, report, sink);
        }
        "gemini" => {
            for part in &parts {
                of_model(part, at_ms, id, sink);
            }
            let calls = list(message, &["toolCalls"]);
            for call in calls {
                sink(call_of(id, at_ms, call, "args"));
            }
            sink(counted(id, text(message, &["model"]), &message["tokens"]));
            // The results come a second time as a message. The first one counts.
            for call in calls {
                of_user(list(call, &["result"]), at_ms, report, sink);
            }
        }
        "info" | "warning" | "error" => {}
        kind => report.unknown(kind),
    }
}
