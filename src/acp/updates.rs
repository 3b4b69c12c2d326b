//! The projection of a session's entries to updates for the client, live and in a replay.
//!
//! A streamed answer is shown while it streams; its entry then adds only what was not streamed.
//!
//! Invariant: a call that the log closes is never left without its last update.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::output::{ChunkKind, Output};
use super::settings::Settings;
use super::wire::ClientCapabilities;
use crate::core::entry::{
    Block, CallId, Entry, Fact, FallbackModel, Outcome, Plan, Record, Seq, StepState,
};
use crate::core::permission::{PathUse, Permission};
use crate::core::state::State;
use crate::core::text::{head_tail, one_line};
use crate::core::to_person::result_to_person;
use crate::core::tool::ToolCall;
use crate::model::{Delta, Figures};
use crate::session::context::Gauging;
use crate::session::describe::image_count;
use crate::tools::{self, ShownBody};

/// The capability of notices.
const NOTICES: &str = "/session/notices";

/// Maximum size of the output of a call, and of its arguments.
const OUTPUT_MAX_BYTES: usize = 64 * 1024;

/// Maximum size of the text of a diff. A larger one is not shown.
const DIFF_MAX_BYTES: usize = 1024 * 1024;

/// Maximum number of characters in the title of a call.
const TITLE_CHARS: usize = 160;

/// The values from which figures of a session follow.
pub(super) struct Measures {
    pub gauging: Gauging,
    pub figures: Figures,
}

/// The answer that is streaming.
#[derive(Default)]
struct Streaming {
    text: String,
    thinking: String,
}

/// The state of what the client was shown of one session.
pub(super) struct Projector {
    pub output: Output,
    pub client: ClientCapabilities,
    pub session: String,
    /// The place of the next entry of a replay.
    pub next_seq: Seq,
    /// `None` while the session is not open.
    opened: Option<(Measures, Settings)>,
    streaming: Streaming,
    /// Number of answers that streamed, for the IDs of messages.
    answers: u64,
    /// Calls without a last update.
    open: BTreeSet<CallId>,
    title: Option<String>,
}

impl Projector {
    pub(super) fn new(output: Output, client: ClientCapabilities, session: &str) -> Projector {
        Projector {
            output,
            client,
            session: session.to_string(),
            next_seq: 0,
            opened: None,
            streaming: Streaming::default(),
            answers: 0,
            open: BTreeSet::new(),
            title: None,
        }
    }

    /// Notes that the session is open.
    pub(super) fn is_opened(&mut self, measures: Measures, settings: Settings) {
        self.opened = Some((measures, settings));
    }

    fn update(&self, update: Value) {
        self.output.update(&self.session, &update);
    }

    fn chunk(&self, kind: ChunkKind, message: &str, text: &str) {
        self.output.chunk(&self.session, kind, message, text);
    }

    /// Shows a line for the user: a notice, if the client knows them.
    pub(super) fn notice(&self, severity: &str, text: &str) {
        if self.client.has(NOTICES) {
            let title = one_line(text, 400);
            self.update(json!({ "sessionUpdate": "notice", "severity": severity, "title": title }));
        }
    }

    /// Shows how the session was found: a notice, or else a message.
    pub(super) fn recovery(&self, text: &str) {
        match self.client.has(NOTICES) {
            true => self.notice("info", text),
            false => self.chunk(ChunkKind::Agent, "recovery", text),
        }
    }

    /// Shows a piece of an answer.
    pub(super) fn delta(&mut self, delta: &Delta) {
        let message = self.streaming_id();
        match delta {
            Delta::Text(text) => {
                self.streaming.text.push_str(text);
                self.chunk(ChunkKind::Agent, &message, text);
            }
            Delta::Thinking(text) => {
                self.streaming.thinking.push_str(text);
                self.chunk(ChunkKind::Thought, &message, text);
            }
            Delta::Call { .. } | Delta::Usage(_) => {}
            Delta::Retry {
                after_ms, failure, ..
            } => {
                self.end_stream();
                let pause = *after_ms as f64 / 1000.0;
                let text = format!("{}; trying again in {pause:.1} s", failure.message);
                self.notice("warning", &text);
            }
        }
    }

    fn streaming_id(&self) -> String {
        format!("live-{}", self.answers)
    }

    fn end_stream(&mut self) {
        self.streaming = Streaming::default();
        self.answers += 1;
    }

    /// Shows an entry that was recorded, unless it is a prompt, which the client shows itself.
    /// `state` is the state after it.
    pub(super) fn recorded(&mut self, record: &Record, state: &State, is_prompt: bool) {
        if !is_prompt {
            self.entry(record, &state.folder);
        }
        match &record.entry {
            Entry::Replied { .. } | Entry::Compacted { .. } | Entry::Continued { .. } => {
                self.usage(state);
            }
            Entry::Chose(choice) => {
                if let Some(FallbackModel { model, error }) = choice.fallback.as_deref() {
                    let why = &error.message;
                    let text = format!("{model} answers until your next message, since: {why}");
                    self.notice("warning", &text);
                }
                self.settings(state);
            }
            _ => {}
        }
        self.title(state);
    }

    /// Shows an entry of the log.
    pub(super) fn entry(&mut self, record: &Record, folder: &str) {
        match &record.entry {
            Entry::Said {
                text,
                images,
                command,
                ..
            } => {
                let typed = command.as_ref().map(|command| command.line());
                let mut text = typed.unwrap_or_else(|| text.clone());
                if !images.is_empty() {
                    text.push_str(&format!(" {}", image_count(images)));
                }
                self.chunk(ChunkKind::User, &format!("entry-{}", record.seq), &text);
            }
            Entry::Replied { blocks, .. } => self.replied(record.seq, blocks, folder),
            Entry::Started { call, .. } => self.call_update(*call, "in_progress", None),
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => self.finished(*call, outcome, fact.as_ref()),
            Entry::Stopped { draft, .. } | Entry::Failed { draft, .. } => {
                self.cut(record.seq, draft.as_deref());
            }
            // Its open calls belong to the other session.
            Entry::Forked { .. } => self.close_calls(None),
            Entry::Compacted { .. } | Entry::Continued { .. }
                if self.client.has("/session/compaction") =>
            {
                let id = format!("entry-{}", record.seq);
                self.update(json!({
                    "sessionUpdate": "compaction_update", "compactionId": id, "status": "completed",
                }));
            }
            _ => {}
        }
    }

    fn replied(&mut self, seq: u64, blocks: &[Block], folder: &str) {
        let text = Block::texts(blocks).collect::<String>();
        let thinking = blocks.iter().filter_map(|block| match block {
            Block::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let thinking = thinking.collect::<String>();
        let Streaming {
            text: streamed,
            thinking: thought,
        } = std::mem::take(&mut self.streaming);
        let (live, stored) = (self.streaming_id(), format!("entry-{seq}"));
        for (kind, whole, shown) in [
            (ChunkKind::Thought, thinking, thought),
            (ChunkKind::Agent, text, streamed),
        ] {
            match whole.strip_prefix(shown.as_str()) {
                Some(rest) if !shown.is_empty() => self.chunk(kind, &live, rest),
                _ => self.chunk(kind, &stored, &whole),
            }
        }
        self.end_stream();
        for (id, name, arguments) in Block::calls(seq, blocks) {
            let call = tools::call(id, name, arguments);
            self.open.insert(call.id);
            let mut update = call_fields(&call, folder);
            update["sessionUpdate"] = "tool_call".into();
            update["status"] = "pending".into();
            self.update(update);
        }
    }

    /// Shows what an answer that was cut off had said, unless it streamed.
    fn cut(&mut self, seq: u64, draft: Option<&str>) {
        if let Some(draft) = draft.filter(|_| self.streaming.text.is_empty()) {
            self.chunk(ChunkKind::Agent, &format!("entry-{seq}"), draft);
        }
        self.end_stream();
    }

    fn finished(&mut self, call: CallId, outcome: &Outcome, fact: Option<&Fact>) {
        let (text, is_error) = result_to_person(outcome);
        let is_failed =
            is_error || matches!(fact, Some(Fact::Ran { exit_code, .. }) if *exit_code != Some(0));
        let status = if is_failed { "failed" } else { "completed" };
        // The client keeps the diff of an edit.
        let is_edit = matches!(fact, Some(Fact::Wrote { .. }));
        let content = (!is_edit).then(|| json!([text_content(&fenced(&text))]));
        self.call_update(call, status, content);
        if let Some(Fact::Planned { plan }) = fact {
            self.plan(plan);
        }
    }

    fn call_update(&mut self, call: CallId, status: &str, content: Option<Value>) {
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call.wire(), "status": status,
        });
        if let Some(content) = content {
            update["content"] = content;
        }
        if status != "in_progress" {
            self.open.remove(&call);
        }
        self.update(update);
    }

    /// Closes calls that the log closed without a result. `None`: all of them.
    pub(super) fn close_calls(&mut self, state: Option<&State>) {
        let is_open = |id: &CallId| {
            let open = state.and_then(|state| state.call(*id));
            open.is_some_and(|open| !open.finished)
        };
        let closed: Vec<CallId> = self
            .open
            .iter()
            .copied()
            .filter(|id| !is_open(id))
            .collect();
        for call in closed {
            self.call_update(call, "failed", None);
        }
    }

    pub(super) fn plan(&self, plan: &Plan) {
        let entries: Vec<Value> = plan
            .steps
            .iter()
            .map(|step| {
                let status = match step.state {
                    StepState::Done => "completed",
                    StepState::Current => "in_progress",
                    StepState::Left => "pending",
                };
                json!({ "content": step.text, "priority": "medium", "status": status })
            })
            .collect();
        self.update(json!({ "sessionUpdate": "plan", "entries": entries }));
    }

    /// Shows the use of the context, and the cost if it is known.
    pub(super) fn usage(&self, state: &State) {
        let Some((measures, _)) = &self.opened else {
            return;
        };
        let gauge = measures.gauging.of(state);
        let mut update = json!({
            "sessionUpdate": "usage_update", "used": gauge.parts.all(), "size": gauge.window,
        });
        if let Some(amount) = measures.figures.cost_of(state) {
            update["cost"] = json!({ "amount": amount, "currency": "USD" });
        }
        self.update(update);
    }

    /// Shows the title, if it changed.
    pub(super) fn title(&mut self, state: &State) {
        if state.title() != self.title.as_deref() {
            self.title = state.title().map(str::to_string);
            let title = self.title.as_deref().map(|title| one_line(title, 200));
            self.update(json!({ "sessionUpdate": "session_info_update", "title": title }));
        }
    }

    /// Shows the mode, the model and the effort, if they changed.
    fn settings(&mut self, state: &State) {
        let Some((_, settings)) = &mut self.opened else {
            return;
        };
        let now = settings.after(state);
        let before = std::mem::replace(settings, now.clone());
        if now.mode != before.mode {
            let mode = now.mode.name();
            self.update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
        }
        if now != before {
            let options = now.options();
            self.update(
                json!({ "sessionUpdate": "config_option_update", "configOptions": options }),
            );
        }
    }
}

/// Returns the fields that describe a call, besides its status.
pub(super) fn call_fields(call: &ToolCall, folder: &str) -> Value {
    let mut fields = json!({
        "toolCallId": call.id.wire(),
        "title": call.in_one_line(TITLE_CHARS),
        "name": call.full_name(),
        "kind": kind(call),
    });
    let diffs = diffs(call, folder);
    if !diffs.is_empty() {
        fields["content"] = diffs.into();
    }
    if let Ok(described) = &call.described {
        if call.arguments.len() <= OUTPUT_MAX_BYTES {
            fields["rawInput"] = Value::clone(&described.arguments);
        }
        if let Permission::Path { path, .. } = &described.permission {
            fields["locations"] = json!([{ "path": Path::new(folder).join(path) }]);
        }
    }
    fields
}

fn kind(call: &ToolCall) -> &'static str {
    let permission = call.described.as_ref().map(|d| &d.permission);
    match permission {
        Ok(Permission::Path { path_use, .. }) => match path_use {
            PathUse::Read => "read",
            PathUse::Grep | PathUse::Glob => "search",
            PathUse::Edit | PathUse::Write => "edit",
        },
        Ok(Permission::WriteInWorkspace { .. }) => "edit",
        Ok(Permission::Glob { .. } | Permission::LookBack { .. }) => "search",
        Ok(Permission::Command { .. }) => "execute",
        Ok(Permission::Fetch { .. } | Permission::Search { .. }) => "fetch",
        Ok(Permission::None | Permission::Wait | Permission::Task | Permission::Foreign { .. })
        | Err(_) => "other",
    }
}

/// Returns a diff for each edit of a call. Of a written file, the old text is not known.
fn diffs(call: &ToolCall, folder: &str) -> Vec<Value> {
    let diff = |path: &str, old: Option<&str>, new: &str| {
        let path = Path::new(folder).join(path);
        json!({ "type": "diff", "path": path, "oldText": old, "newText": new })
    };
    if call.arguments.len() > DIFF_MAX_BYTES {
        return Vec::new();
    }
    match tools::shown(call).body {
        ShownBody::Edits { path, edits } => edits
            .iter()
            .map(|edit| diff(&path, Some(&edit.old), &edit.new))
            .collect(),
        ShownBody::File { path, content } => vec![diff(&path, None, &content)],
        _ => Vec::new(),
    }
}

pub(super) fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns output between fences, since clients show text as Markdown.
fn fenced(text: &str) -> String {
    let text = head_tail(text, OUTPUT_MAX_BYTES, "\n[…]\n");
    let mut fence = "```".to_string();
    while text.contains(fence.as_str()) {
        fence.push('`');
    }
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_those_of_the_text() {
        assert_eq!(fenced("a\n"), "```\na\n```");
        assert_eq!(fenced("````\na"), "`````\n````\na\n`````");
    }

    #[test]
    fn calls_have_the_kinds_of_the_protocol() {
        let kind_of = |name: &str, arguments: Value| {
            let id = CallId { reply: 1, index: 0 };
            kind(&tools::call(id, name, &arguments.to_string()))
        };
        assert_eq!(kind_of("bash", json!({ "command": "ls" })), "execute");
        assert_eq!(kind_of("read", json!({ "path": "a" })), "read");
        assert_eq!(kind_of("grep", json!({ "pattern": "a" })), "search");
        assert_eq!(
            kind_of("write", json!({ "path": "a", "content": "" })),
            "edit"
        );
        assert_eq!(kind_of("nothing", json!({})), "other");
    }
}
