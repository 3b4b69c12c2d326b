//! The input of a hook: one JSON object on its stdin, and a transcript of the session in a file.
//!
//! Source of the format: the hooks references of Claude Code and Codex. `rewake` has what only
//! rewake knows.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::MachineHooks;
use crate::config::make_private_folder;
use crate::core::entry::{Block, Entry, HookEvent, Outcome, Record, Seq};
use crate::core::file_name::named_path_text;
use crate::core::path;
use crate::core::state::State;
use crate::core::tool::ToolCall;
use crate::tools::{input_for_hooks, name_for_hooks};
use crate::world::HookOccasion;

/// Returns the name that matchers are compared with.
pub(super) fn matched<'a>(occasion: &HookOccasion<'a>, state: &'a State) -> &'a str {
    match occasion.call.and_then(|id| state.call(id)) {
        Some(open) => name_for_hooks(&open.call),
        None => occasion.matched,
    }
}

impl MachineHooks {
    /// Returns the input of the hooks of an occasion.
    pub(super) fn input(&self, occasion: &HookOccasion<'_>, state: &State) -> String {
        let mut transcript = self.transcript.borrow_mut();
        if let Err(error) = transcript.write(&self.setup.session, &state.context) {
            tracing::warn!(%error, "the transcript for hooks was not written");
        }
        let open = occasion.call.and_then(|id| state.call(id));
        let mut input = json!({
            "session_id": self.setup.session,
            "transcript_path": transcript.path,
            "cwd": self.setup.cwd,
            "permission_mode": state.mode.name(),
            "hook_event_name": occasion.event.name(),
            "rewake": {
                "entry": occasion.of,
                "call": occasion.call.map(|id| id.to_string()),
                "recovered": occasion.recovered,
            },
        });
        if let Some(open) = open {
            input["tool_name"] = json!(name_for_hooks(&open.call));
            input["tool_input"] = input_for_hooks(&open.call, |path| {
                let folder = self.setup.cwd.to_string_lossy();
                path::clean(&path::join(&folder, &named_path_text(path)))
            });
            input["tool_use_id"] = json!(open.call.id.wire());
        }
        let matched = json!(occasion.matched);
        match occasion.event {
            HookEvent::SessionStart => {
                input["source"] = matched;
                input["model"] = json!(state.model);
            }
            HookEvent::PreCompact => {
                input["trigger"] = matched;
                input["custom_instructions"] = json!("");
            }
            HookEvent::SessionEnd => input["reason"] = matched,
            HookEvent::Notification => {
                input["notification_type"] = matched;
                input["message"] = json!("rewake waits for your answer");
            }
            HookEvent::UserPromptSubmit => {
                if let Some(Entry::Said { text, .. }) = occasion.entry {
                    input["prompt"] = json!(text);
                }
            }
            HookEvent::Stop | HookEvent::SubagentStop => {
                input["stop_hook_active"] = json!(state.hooks.has_refused_stop());
                input["last_assistant_message"] = json!(last_words(occasion.entry));
            }
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure => {
                if let (Some(Entry::Finished { outcome, .. }), Some(open)) = (occasion.entry, open)
                {
                    add_outcome(&mut input, outcome, &open.call);
                }
            }
            HookEvent::PreToolUse | HookEvent::PermissionRequest => {}
        }
        input.to_string()
    }
}

fn last_words(entry: Option<&Entry>) -> String {
    match entry {
        Some(Entry::Replied { blocks, .. }) => Block::joined_texts(blocks),
        _ => String::new(),
    }
}

/// Adds the result of a call, in the shape of the tool's counterpart.
fn add_outcome(input: &mut Value, outcome: &Outcome, call: &ToolCall) {
    let (text, is_error) = outcome.to_model_text();
    let is_interrupted = matches!(outcome, Outcome::Interrupted { .. });
    if is_error {
        input["error"] = json!(text);
        input["is_interrupt"] = json!(is_interrupted);
        input["rewake"]["in_doubt"] = json!(is_interrupted);
        return;
    }
    input["tool_response"] = match name_for_hooks(call) {
        "Bash" => json!({ "stdout": text, "stderr": "", "interrupted": false, "isImage": false }),
        "Write" | "Edit" => json!({
            "filePath": input["tool_input"]["file_path"], "success": true, "output": text,
        }),
        _ => json!({ "output": text }),
    };
}

/// The transcript of a session: one JSON object in each line, similar to that of Claude Code. It begins
/// with the context of the session, and new entries are appended.
#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    /// The place of the last written entry. `None`: nothing was written by this process.
    written: Option<Seq>,
}

impl Transcript {
    pub(super) fn new(path: PathBuf) -> Transcript {
        Transcript {
            path,
            written: None,
        }
    }

    /// Returns the line of the last answer of the model. An earlier process may have written it.
    pub(super) fn last_answer(&self) -> String {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let is_answer = |line: &&str| line.contains(r#""type":"assistant""#);
        text.lines().rfind(is_answer).unwrap_or("").to_string()
    }

    fn write(&mut self, session: &str, context: &[Record]) -> io::Result<()> {
        let is_new = |record: &&Record| self.written.is_none_or(|written| record.seq > written);
        let lines: Vec<String> = context
            .iter()
            .filter(is_new)
            .filter_map(|record| line(session, record))
            .collect();
        let last = context.last().map(|record| record.seq);
        if lines.is_empty() && self.written.is_some() {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        make_private_folder(folder)?;
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        let mut file = match self.written {
            None => options.write(true).truncate(true).open(&self.path)?,
            Some(_) => options.append(true).open(&self.path)?,
        };
        for line in lines {
            writeln!(file, "{line}")?;
        }
        self.written = last.or(self.written).or(Some(0));
        Ok(())
    }
}

fn line(session: &str, record: &Record) -> Option<String> {
    let (kind, message) = match &record.entry {
        Entry::Said { text, .. } => ("user", json!({ "role": "user", "content": text })),
        Entry::Replied { blocks, model, .. } => {
            let content: Vec<Value> = blocks.iter().filter_map(content).collect();
            let message = json!({ "role": "assistant", "model": model, "content": content });
            ("assistant", message)
        }
        Entry::Finished { call, outcome, .. } => {
            let (text, is_error) = outcome.to_model_text();
            let result = json!([{
                "type": "tool_result", "tool_use_id": call.wire(), "content": text,
                "is_error": is_error,
            }]);
            ("user", json!({ "role": "user", "content": result }))
        }
        _ => return None,
    };
    let line = json!({
        "type": kind, "sessionId": session, "uuid": record.seq.to_string(),
        "timestamp": record.at_ms, "message": message,
    });
    Some(line.to_string())
}

fn content(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => Some(json!({ "type": "text", "text": text })),
        Block::Call {
            name, arguments, ..
        } => Some(json!({ "type": "tool_use", "name": name, "input": arguments })),
        Block::Thinking { .. } => None,
    }
}
