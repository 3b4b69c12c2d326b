//! What a headless run prints: the answer, one JSON object, or a JSON object a line.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::rc::Rc;

use serde_json::{Value, json};

use super::is_denied;
use crate::core::entry::{Block, Entry, Fact, Outcome, Record, StopReason, Usage};
use crate::core::prompt::told;
use crate::core::state::State;
use crate::core::text::{neutralise, one_line};
use crate::core::tool::ToolCall;
use crate::engine::Event;
use crate::model::{Delta, Figures};
use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    StreamJson,
}

pub type Shared = Rc<RefCell<Printer>>;

pub struct Printer {
    format: Format,
    session: String,
    figures: Figures,
    /// The words of the last answer, and why it ended.
    answer: String,
    stop: Option<StopReason>,
    usage: Usage,
    cost_usd: Option<f64>,
    turns: u64,
    calls: u64,
    denied: u64,
}

impl Printer {
    pub fn new(format: Format, session: &Session) -> Shared {
        let printer = Printer {
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
        };
        printer.line(|| {
            json!({
                "type": if session.found.is_some() { "session.resumed" } else { "session.opened" },
                "session": session.id,
                "model": session.log.state.model,
                "mode": session.log.state.mode,
                "folder": session.log.state.folder,
                "title": session.log.state.title(),
                "version": crate::session::VERSION,
            })
        });
        Rc::new(RefCell::new(printer))
    }

    /// A line of the JSON stream.
    fn line(&self, value: impl FnOnce() -> Value) {
        if self.format == Format::StreamJson {
            out(&value().to_string());
        }
    }

    pub fn event(&mut self, state: &State, event: &Event<'_>) {
        match event {
            Event::Recorded(record) => self.recorded(state, record),
            Event::Delta(delta) => self.delta(delta),
            Event::Queued(text) => self.line(|| json!({"type": "queued", "text": text})),
            // Headless, what would ask is denied.
            Event::Asked(_) => {}
        }
    }

    fn recorded(&mut self, state: &State, record: &Record) {
        self.line(|| entry_line(record));
        match &record.entry {
            Entry::Replied {
                blocks,
                usage,
                stop,
                model,
                ..
            } => {
                self.stop = Some(*stop);
                self.turns += 1;
                self.usage.add(usage);
                let cost = self.figures.cost(model, usage);
                self.cost_usd = self.cost_usd.zip(cost).map(|(sum, one)| sum + one);
                self.answer = words(blocks);
            }
            Entry::Started { call, .. } => {
                if let Some(open) = state.call(*call) {
                    note(&format!("· {}", subject(&open.call)));
                }
            }
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                self.calls += 1;
                self.denied += u64::from(is_denied(&record.entry));
                if let Some(open) = state.call(*call) {
                    note(&format!(
                        "  {} {}",
                        open.call.name,
                        ending(outcome, fact.as_ref())
                    ));
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.line(|| json!({"type": "delta.text", "text": text})),
            Delta::Thinking(text) => self.line(|| json!({"type": "delta.thinking", "text": text})),
            Delta::Call { name } => self.line(|| json!({"type": "delta.call", "name": name})),
            Delta::Retry { after_ms, failure } => {
                self.line(|| json!({"type": "retry", "after_ms": after_ms, "failure": failure}));
                note(&format!(
                    "{}; trying again in {:.1} s",
                    failure.message,
                    *after_ms as f64 / 1000.0
                ));
            }
        }
    }

    /// Why the last answer of this run ended.
    pub fn stop(&self) -> Option<StopReason> {
        self.stop
    }

    /// The last thing on stdout.
    pub fn result(&mut self, state: &State, code: u8, why: Option<&str>) {
        if self.denied > 0 {
            note(&format!(
                "{} call(s) were denied; --permission-mode acceptEdits allows edits, --yolo allows all, \
                 [permissions] in the config allows some",
                self.denied
            ));
        }
        match self.format {
            Format::Text if self.answer.is_empty() => {}
            // A terminal obeys what is in a text; a file or a pipe gets it as it was written.
            Format::Text if std::io::stdout().is_terminal() => out(&neutralise(&self.answer)),
            Format::Text => out(&self.answer),
            Format::Json | Format::StreamJson => out(&self.summary(state, code, why).to_string()),
        }
    }

    fn summary(&self, state: &State, code: u8, why: Option<&str>) -> Value {
        json!({
            "type": "result",
            "session": self.session,
            "title": state.title(),
            "exit_code": code,
            "resumable": code != super::exit::DONE,
            "why": why,
            "result": self.answer,
            "stop": self.stop,
            "model": state.model,
            "turns": self.turns,
            "calls": self.calls,
            "denied": self.denied,
            "background": state.background.keys().collect::<Vec<_>>(),
            "usage": self.usage,
            "cost_usd": self.cost_usd,
        })
    }
}

/// An entry of the log as a line of the stream: its fields, with place, time and type.
pub fn entry_line(record: &Record) -> Value {
    let mut value = serde_json::to_value(&record.entry).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        let kind = fields.remove("kind").unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default();
        fields.insert("type".into(), format!("entry.{kind}").into());
        fields.insert("seq".into(), record.seq.into());
        fields.insert("at_ms".into(), record.at_ms.into());
    }
    value
}

fn words(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|b| match b {
        Block::Text { text, .. } => Some(text.as_str()),
        Block::Thinking { .. } | Block::Call { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn subject(call: &ToolCall) -> String {
    let about = call.input.as_ref().map(|i| i.subject()).unwrap_or_default();
    format!("{} {}", call.name, one_line(&about, 100))
}

fn ending(outcome: &Outcome, fact: Option<&Fact>) -> String {
    let (text, is_error) = told(outcome);
    match (outcome, fact) {
        (
            Outcome::Done { .. },
            Some(Fact::Ran {
                exit_code: Some(code),
                took_ms,
            }),
        ) => {
            format!("exit code {code}, {:.1} s", *took_ms as f64 / 1000.0)
        }
        (Outcome::Done { output }, _) => format!("done, {} bytes", output.text.len()),
        _ if is_error => one_line(text.lines().last().unwrap_or(&text), 160),
        _ => "done".to_string(),
    }
}

/// One line for the person who watches.
pub fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", neutralise(text));
}

/// What went wrong, and what to do.
pub fn trouble(text: &str, hint: Option<&str>) {
    note(&format!("error: {text}"));
    if let Some(hint) = hint {
        note(&format!("hint: {hint}"));
    }
}

fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}
