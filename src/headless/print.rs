//! Output of a headless run: the answer, one JSON object, or JSON lines.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{RunResult, fitting, is_denied};
use crate::core::authorization::modes_that_allow;
use crate::core::check;
use crate::core::ending::last_answer;
use crate::core::entry::RequestForm;
use crate::core::entry::{
    About, Block, By, CallId, Choice, Entry, Fact, Guard, Outcome, Record, StopReason, Usage,
};
use crate::core::external_changes::with_more;
use crate::core::form::ServerQuestion;
use crate::core::permission::Permission;
use crate::core::settings::PermissionCheck;
use crate::core::state::{OpenCall, OpenQuestion, State};
use crate::core::structured::MAX_REPAIRS;
use crate::core::text::{count, one_line};
use crate::core::to_person::result_to_person;
use crate::core::tool::ToolCall;
use crate::core::visible::visible;
use crate::engine::{ContextChange, ContextFigures, Event, SummaryFailure};
use crate::model::{Delta, Figures};
use crate::report::{CliError, exit, note, raw};
use crate::session::objects::entry_line;
use crate::session::{Session, journal_fails, short_id};

/// Maximum number of characters of the reason why a command could not start.
const MAX_WHY: usize = 200;

/// The format of a headless run on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    StreamJson,
}

pub(super) type SharedOutput = Rc<RefCell<Printer>>;

pub(super) struct Printer {
    format: Format,
    session: String,
    figures: Figures,
    /// Text of the last answer, and the reason of its end.
    answer: String,
    stop: Option<StopReason>,
    usage: Usage,
    cost_usd: Option<f64>,
    turns: u64,
    calls: u64,
    denied: u64,
    /// Number of denied calls that a mode would have allowed.
    allowed_by: BTreeMap<&'static str, u64>,
    permission_check: PermissionCheck,
    /// A subagent works or worked in this run.
    has_subagents: bool,
    /// Number of commands that probably failed because of the sandbox.
    refused: u64,
    /// Number of commands that ran.
    ran: u64,
    /// Number of commands that could not start, and why the last one could not.
    unstarted: (u64, String),
    /// The call whose start was printed last.
    started: Option<CallId>,
}

impl Printer {
    pub(super) fn new(format: Format, session: &Session) -> SharedOutput {
        Rc::new(RefCell::new(Printer {
            format,
            session: session.id.clone(),
            figures: session.figures.clone(),
            answer: String::new(),
            stop: None,
            usage: Usage::default(),
            cost_usd: Some(0.0),
            turns: 0,
            calls: 0,
            denied: 0,
            allowed_by: BTreeMap::new(),
            permission_check: Arc::clone(&session.settings.policy.permission_check),
            has_subagents: session.log.state.children().next().is_some(),
            refused: 0,
            ran: 0,
            unstarted: Default::default(),
            started: None,
        }))
    }

    /// Prints the first line of the stream.
    pub(super) fn opened(&self, state: &State, is_resumed: bool) {
        self.line(|| {
            json!({
                "type": if is_resumed { "session.resumed" } else { "session.opened" },
                "session": self.session,
                "model": state.model,
                "mode": state.mode,
                "folder": state.folder,
                "title": state.title(),
                "version": crate::session::VERSION,
            })
        });
    }

    /// Prints a line of the JSON stream.
    fn line(&self, value: impl FnOnce() -> Value) {
        if self.format == Format::StreamJson {
            out(&value().to_string());
        }
    }

    pub(super) fn event(&mut self, state: &State, event: &Event) {
        match event {
            Event::Recorded(record) => self.recorded(state, record),
            Event::Delta(delta) => self.delta(delta),
            Event::Asked { call, why, .. } => self.asked(state, *call, why),
            Event::ServerAsks(call, question) => self.server_asks(*call, question),
            Event::ChildAsks(Some(asks)) if asks.form.is_some() => note(&format!(
                "a task asks: {}: {}; rewake answer {} answers it",
                asks.call.in_one_line(100),
                asks.why,
                short_id(&asks.session),
            )),
            Event::ChildAsks(Some(asks)) => note(&format!(
                "a task asks about {}: {}; rewake allow {} or rewake deny {} answers it",
                asks.call.in_one_line(100),
                asks.why,
                short_id(&asks.session),
                short_id(&asks.session),
            )),
            Event::ChildAsks(None) => {}
            // Messages of other processes are printed when they are recorded. A headless run never
            // rewinds.
            Event::Queued(_)
            | Event::Requeued(_)
            | Event::Kept(_)
            | Event::InputKept(_)
            | Event::RewindPlanned(..)
            | Event::Files(_) => {}
            Event::CommandNotRun { .. } => {}
            Event::JournalFails(why) => note(&journal_fails(why)),
            Event::Notice(text) => note(text),
            Event::Context(figures) => self.context(figures),
            Event::SummaryFailed(failed) => self.summary_failed(failed),
        }
    }

    /// Prints how to answer a question from another process, since nobody can answer here.
    fn asked(&self, state: &State, call: CallId, why: &str) {
        let what = state
            .call(call)
            .map_or_else(String::new, |open| open.call.in_one_line(200));
        let short = short_id(&self.session);
        note(&format!("asks: {what}: {why}"));
        note(&format!(
            "rewake allow {short} {call}, or rewake deny {short} {call} \"why\""
        ));
    }

    fn server_asks(&self, call: CallId, question: &ServerQuestion) {
        let short = short_id(&self.session);
        note(&format!("{} asks: {}", question.asker(), question.line()));
        note(&format!(
            "rewake approvals shows it; rewake answer {short} {call} answers it"
        ));
    }

    fn recorded(&mut self, state: &State, record: &Record) {
        self.line(|| entry_line(record));
        for (model, usage) in record.entry.spent() {
            self.usage.add(usage);
            let cost = self.figures.cost(model, usage);
            self.cost_usd = self.cost_usd.zip(cost).map(|(sum, one)| sum + one);
        }
        match &record.entry {
            Entry::Replied { stop, .. } => {
                self.stop = Some(*stop);
                self.turns += 1;
                let parts = last_answer(&state.context);
                self.answer = parts.into_iter().map(Block::joined_texts).collect();
            }
            Entry::Noted {
                about: Some(About::AnswerCut),
                ..
            } => {
                note("· the output limit cut the answer, so the model continues it");
            }
            Entry::Started { call, guard, .. } => {
                self.has_subagents |= matches!(guard, Guard::Child { .. });
                if let Some(open) = state.call(*call) {
                    note(&format!("· {}", subject(&open.call)));
                    self.started = Some(*call);
                }
            }
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                self.calls += 1;
                if is_denied(&record.entry) {
                    self.denied += 1;
                    let open = state.call(*call);
                    let modes =
                        open.map(|open| modes_that_allow(state, &self.permission_check, open));
                    // Another process may have changed the mode since the call was denied.
                    let others = modes
                        .into_iter()
                        .flatten()
                        .filter(|mode| *mode != state.mode);
                    for mode in others {
                        *self.allowed_by.entry(mode.name()).or_default() += 1;
                    }
                }
                let is_refused = matches!(fact, Some(Fact::Ran { refused: true, .. }));
                self.refused += u64::from(is_refused);
                if let Some(open) = state.call(*call) {
                    self.count_command(open, outcome, fact.as_ref());
                    // After the start of another call, the name alone does not say which call this is.
                    let what = match open.guard.is_some() && self.started != Some(*call) {
                        true => subject(&open.call).into(),
                        false => open.call.shown_name(),
                    };
                    note(&format!("  {what} {}", ending(outcome, fact.as_ref())));
                }
            }
            Entry::Checked {
                unfit: Some(unfit),
                told: Some(_),
                ..
            } => {
                let repairs = state.structured.as_ref().map_or(0, |held| held.repairs);
                note(&format!(
                    "· the answer does not match its JSON Schema, so the model is told ({repairs} of {MAX_REPAIRS}): {unfit}"
                ));
            }
            Entry::Answered {
                call,
                by: By::Start,
                ..
            } => {
                let open = state.call(*call).and_then(|o| o.server_question.as_ref());
                if let Some(OpenQuestion { question, .. }) = open {
                    note(&format!(
                        "{} asks: {}; declined, since nobody is here: --on-approval wait waits for an answer",
                        question.asker(),
                        question.line()
                    ));
                }
            }
            Entry::Noted {
                about: Some(About::FilesChanged { paths, more }),
                ..
            } => note(&format!(
                "· changed outside of rewake, so the model is told: {}",
                with_more(paths, *more)
            )),
            Entry::Noted {
                about: Some(about @ About::CheckEnded { .. }),
                ..
            } => {
                if let Some(line) = check::line(about) {
                    note(&format!("· {line}"));
                }
            }
            Entry::Chose(Choice {
                fallback: Some(fallback),
                ..
            }) => note(&format!(
                "· {} answers in its place until the next prompt: {}",
                fallback.model, fallback.error.message
            )),
            _ => {}
        }
    }

    fn summary_failed(&mut self, failed: &SummaryFailure) {
        self.line(|| {
            json!({
                "type": "context.summary_failed",
                "why": failed.why,
                "stands_in": failed.stands_in.name(),
                "asked_again_after_s": failed.left_alone.map(|time| time.as_secs()),
            })
        });
        note(&format!("· {}", failed.to_text()));
    }

    fn context(&mut self, figures: &ContextFigures) {
        let (name, words) = match figures.what {
            ContextChange::Compacted => ("context.closed", Some("a window was summarised")),
            ContextChange::Continued => (
                "context.continued",
                Some("the context was restarted from a note"),
            ),
            ContextChange::Freed => ("context.freed", Some("old results left the context")),
            ContextChange::Learned => (
                "context.learned",
                Some("the model's context window was learnt"),
            ),
            ContextChange::LearnedSilently => (
                "context.learned",
                Some(
                    "the server drops the beginning of long requests without a word; its context \
                     window was learnt from its counts",
                ),
            ),
            ContextChange::Guessed(_) => ("context.learned", None),
            ContextChange::ImagesRefused => (
                "context.images_refused",
                Some("the server refused images; they are sent as text from now on"),
            ),
            ContextChange::Reformed(_) => ("context.reformed", None),
            ContextChange::OutputLearned(_) | ContextChange::OutputRaised(_) => {
                ("context.output_limit", None)
            }
            ContextChange::NearLimit => ("context.near_limit", None),
        };
        let words = match figures.what {
            ContextChange::Reformed(form) => Some(Cow::Owned(format!(
                "the server refused the history; it is sent {} from now on",
                form.map_or("as it is", RequestForm::words)
            ))),
            ContextChange::Guessed(tokens) => Some(Cow::Owned(format!(
                "the server refused a request that fits its window; this session sends at most \
                 {tokens} tokens until a longer request succeeds"
            ))),
            ContextChange::OutputLearned(tokens) => Some(Cow::Owned(format!(
                "the server allows answers of {tokens} tokens at most"
            ))),
            ContextChange::OutputRaised(tokens) => Some(Cow::Owned(format!(
                "thinking used up the answer, which may have {tokens} tokens now"
            ))),
            _ => words.map(Cow::Borrowed),
        };
        self.line(|| {
            json!({
                "type": name,
                "request_tokens": figures.request_tokens,
                "limit_tokens": figures.hard_tokens,
                "summary_tokens": figures.summary_tokens,
                "window_entries": figures.window_entries,
                "cached_tokens": figures.cached_tokens,
            })
        });
        if let Some(words) = words {
            note(&format!(
                "· {words}: the next request has about {} tokens",
                figures.request_tokens
            ));
        }
    }

    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.line(|| json!({"type": "delta.text", "text": text})),
            Delta::Thinking(text) => self.line(|| json!({"type": "delta.thinking", "text": text})),
            Delta::Usage(_) => {}
            Delta::Call { name } => self.line(|| json!({"type": "delta.call", "name": name})),
            Delta::Retry {
                after_ms,
                until_ms,
                failure,
            } => {
                self.line(|| {
                    json!({
                        "type": "retry", "after_ms": after_ms, "until_ms": until_ms,
                        "failure": failure,
                    })
                });
                note(&format!(
                    "{}; trying again in {:.1} s",
                    failure.message,
                    *after_ms as f64 / 1000.0
                ));
            }
        }
    }

    /// Takes an answer that an earlier process recorded as the one of this run.
    pub(super) fn recorded_answer(&mut self, answer: &str, stop: StopReason) {
        self.answer = answer.to_string();
        self.stop = Some(stop);
    }

    /// Returns the reason for the end of the last answer.
    pub(super) fn stop(&self) -> Option<StopReason> {
        self.stop
    }

    /// Returns whether a subagent works or worked in this run.
    pub(super) fn has_subagents(&self) -> bool {
        self.has_subagents
    }

    /// Adds denied calls that are not in the log of this session.
    pub(super) fn add_denied(&mut self, denied: u64) {
        self.denied += denied;
    }

    /// Counts a command that ran, or that could not start.
    fn count_command(&mut self, open: &OpenCall, outcome: &Outcome, fact: Option<&Fact>) {
        let described = open.call.described.as_ref();
        let is_command =
            described.is_ok_and(|call| matches!(call.permission, Permission::Command { .. }));
        match outcome {
            _ if !is_command => {}
            Outcome::Error { output } => {
                let why = output.text.lines().find(|line| !line.is_empty());
                let why = why.unwrap_or_default().trim_matches(['[', ']']);
                // Before its start, a command is also refused for what the model wrote. After a
                // restart, it may not run any more.
                let is_of_machine = ["cannot prepare ", "not run: cannot "];
                let is_refused = why.starts_with("not run: it was to run ");
                if open.guard.is_some() && !is_refused
                    || is_of_machine.iter().any(|begin| why.starts_with(begin))
                {
                    self.unstarted.0 += 1;
                    self.unstarted.1 = one_line(why, MAX_WHY);
                }
            }
            Outcome::Done { .. } | Outcome::Interrupted { .. } => {
                self.ran += u64::from(fact.is_some());
            }
            Outcome::Denied { .. } => {}
        }
    }

    /// Returns why none of the commands could start. `None`: one ran, or there were none.
    pub(super) fn why_none_started(&self) -> Option<&str> {
        (self.ran == 0 && self.unstarted.0 > 0).then_some(self.unstarted.1.as_str())
    }

    /// Returns the number of denied calls.
    pub(super) fn denied(&self) -> u64 {
        self.denied
    }

    /// Returns the modes that would have allowed denied calls, in words. Empty: none.
    fn modes_in_words(&self) -> String {
        let words = self.allowed_by.iter().map(|(mode, allowed)| {
            let what = match (*allowed, self.denied) {
                (1, 1) => "it".to_string(),
                (allowed, denied) if allowed == denied => "them".to_string(),
                (allowed, _) => format!("{allowed} of them"),
            };
            let flag = match *mode {
                "bypassPermissions" => "--yolo",
                _ => "--permission-mode acceptEdits",
            };
            format!("; {flag} allows {what}")
        });
        words.collect()
    }

    /// Prints the last output on stdout.
    pub(super) fn result(&mut self, state: &State, result: &RunResult) {
        if self.denied > 0 {
            note(&format!(
                "{} denied{}; `rewake permissions` lists the rules, `rewake hooks` the guards",
                calls_were(self.denied),
                self.modes_in_words()
            ));
        }
        if self.refused > 0 {
            note(&format!(
                "{} failed in a way that looks like the sandbox; Network(…) and Full(…) rules in \
                 [permissions] give more access",
                count(self.refused, "command")
            ));
        }
        if self.unstarted.0 > 0 && self.ran > 0 {
            let (number, why) = &self.unstarted;
            note(&format!(
                "{} could not start: {why}",
                count(*number, "command")
            ));
        }
        match self.format {
            // An answer that does not match the schema is not printed, since the reader expects
            // one that does.
            Format::Text if state.structured.is_some() => {
                if let Some(json) = fitting(state) {
                    out(&shown(json, std::io::stdout().is_terminal()));
                }
            }
            Format::Text if self.answer.is_empty() => {}
            Format::Text => out(&shown(&self.answer, std::io::stdout().is_terminal())),
            Format::Json | Format::StreamJson => out(&self.summary(state, result).to_string()),
        }
    }

    fn summary(&self, state: &State, result: &RunResult) -> Value {
        let mut summary = json!({
            "type": "result",
            "session": self.session,
            "title": state.title(),
            "exit_code": result.code,
            "resumable": result.code != exit::DONE,
            "why": result.why,
            "hint": result.hint,
            "result": self.answer,
            "stop": self.stop,
            "model": state.model,
            "turns": self.turns,
            "calls": self.calls,
            "denied": self.denied,
            "refused_by_sandbox": self.refused,
            "background": state.background.keys().collect::<Vec<_>>(),
            "usage": self.usage,
            "cost_usd": self.cost_usd,
        });
        if state.structured.is_some() {
            let json = fitting(state).and_then(|json| serde_json::from_str(json).ok());
            summary["structured"] = json.unwrap_or(Value::Null);
        }
        summary
    }
}

/// Returns the object that a run with JSON output prints if it cannot be started. It has the fields
/// of a result.
pub fn failed_start(error: &CliError) -> Value {
    json!({
        "type": "result",
        "session": null,
        "title": null,
        "exit_code": error.code,
        "resumable": error.code == exit::RESUMABLE,
        "why": error.message,
        "hint": error.hint,
        "result": "",
        "stop": null,
        "model": null,
        "turns": 0,
        "calls": 0,
        "denied": 0,
        "refused_by_sandbox": 0,
        "background": [],
        "usage": Usage::default(),
        "cost_usd": 0.0,
    })
}

pub(super) fn calls_were(number: u64) -> String {
    match number {
        1 => "1 call was".to_string(),
        n => format!("{n} calls were"),
    }
}

/// Maximum length of the call in the line about its start.
const SUBJECT_CHARS: usize = 120;

fn subject(call: &ToolCall) -> String {
    call.in_one_line(SUBJECT_CHARS)
}

fn ending(outcome: &Outcome, fact: Option<&Fact>) -> String {
    let (text, is_error) = result_to_person(outcome);
    match (outcome, fact) {
        (
            Outcome::Done { .. },
            Some(Fact::Ran {
                exit_code: Some(code),
                took_ms,
                ..
            }),
        ) => {
            format!("exit code {code}, {:.1} s", *took_ms as f64 / 1000.0)
        }
        (Outcome::Done { output }, _) => format!("done, {} bytes", output.text.len()),
        // For an interrupted call, the reason follows its output. For a failed call, the reason
        // comes first.
        (Outcome::Interrupted { .. }, _) => one_line(text.lines().last().unwrap_or(&text), 160),
        _ if is_error => one_line(text.lines().next().unwrap_or(&text), 160),
        _ => "done".to_string(),
    }
}

/// Returns the answer as it is printed. A file or a pipe gets the model's text unchanged.
fn shown(answer: &str, on_terminal: bool) -> Cow<'_, str> {
    match on_terminal {
        true => visible(answer),
        false => Cow::Borrowed(answer),
    }
}

pub(super) fn out(text: &str) {
    raw(format!("{text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::Output;

    #[test]
    fn the_model_cannot_paint_the_terminal_but_may_write_any_file() {
        let answer = "\u{1b}[31mred\u{7}\nend";
        assert_eq!(shown(answer, false), answer);
        assert_eq!(shown(answer, true), visible(answer));
        assert!(!shown(answer, true).contains('\u{1b}'));
    }

    #[test]
    fn the_line_of_a_call_says_why_it_failed() {
        let failed = Outcome::error("x does not exist\nhint: glob finds files by name");
        assert_eq!(ending(&failed, None), "x does not exist");
        let interrupted = Outcome::Interrupted {
            output: Output::text("part 1\npart 2"),
            why: "stopped".into(),
        };
        assert_eq!(ending(&interrupted, None), "[interrupted: stopped]");
    }
}
