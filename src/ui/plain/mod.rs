//! The screen as lines only (`--plain`): for screen readers, and for terminals on which nothing can
//! be drawn. New text is printed below the old one; nothing is overwritten.
//!
//! It replaces the drawn screen: the [`App`], the effects and so the engine are the same. The first
//! line of a speaker begins with their name.
//!
//! Invariant: not one escape sequence is written, whatever a model or a command said.

mod asks;
mod blocks;
mod form;
mod reader;

pub use asks::call_in_words;

use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::app::{App, Phase};
use super::transcript::{Block, Kind, Status};
use crate::core::marks::title_line;
use crate::core::next::Why;
use crate::core::text::{count, one_line};
use crate::core::visible::visible;
use crate::model::Delta;

pub(crate) use reader::Lines;

/// Minimum time between reports on a running command.
const PROGRESS: Duration = Duration::from_secs(5);
/// Number of the last blocks that are printed of a resumed conversation.
const RECENT: usize = 12;

/// The state of printing, to find new text.
#[derive(Default)]
pub(crate) struct Printer {
    out: String,
    /// The engine and the session of the conversation.
    session: (u64, Option<String>),
    /// Number of blocks of the conversation that were printed.
    printed: usize,
    /// Printed calls that have not ended: their index, and whether their start was reported.
    calls: Vec<(usize, bool)>,
    /// The streamed answer, and the number of its bytes that are printed.
    stream: String,
    streamed: usize,
    queued: usize,
    hint: Option<String>,
    trouble: Option<String>,
    retry_until_ms: Option<i64>,
    /// The number of the question that was printed.
    asked: Option<u64>,
    /// The form that was printed, and the field of it that was asked for.
    form: Option<(u64, usize)>,
    overlay: Option<String>,
    /// The offered sessions whose details were printed.
    details: Vec<String>,
    phase: Option<Phase>,
    progress_at: Option<Instant>,
    is_echo_off: bool,
}

impl Printer {
    /// Takes a piece of the answer, and prints its whole lines.
    pub(crate) fn hears(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.stream.push_str(text),
            Delta::Retry { .. } => {
                if self.streamed > 0 {
                    self.line("Note: the answer was cut, and begins again");
                }
                self.stream.clear();
                self.streamed = 0;
            }
            Delta::Thinking(_) | Delta::Call { .. } | Delta::Usage(_) => {}
        }
    }

    /// Returns everything that is new, as lines.
    pub(crate) fn print(&mut self, app: &mut App) -> String {
        self.conversation(app);
        self.stream_lines();
        self.queue(app);
        self.asks(app);
        self.notes(app);
        self.state(app);
        self.progress(app);
        std::mem::take(&mut self.out)
    }

    /// Prints one or more lines. Control characters are made visible.
    fn line(&mut self, text: &str) {
        self.out.push_str(&visible(text.trim_end()));
        self.out.push('\n');
    }

    /// Prints a text after the name of the speaker.
    fn says(&mut self, who: &str, text: &str) {
        self.line(&format!("{who}: {}", text.trim()));
    }

    fn conversation(&mut self, app: &App) {
        let session = (app.session.engine, app.session.id.clone());
        let blocks = &app.conversation.transcript.blocks;
        if self.session != session || blocks.len() < self.printed {
            self.session = session;
            self.calls.clear();
            self.printed = 0;
            self.stream.clear();
            self.streamed = 0;
            if let Some(id) = &app.session.id {
                let title = app.session.now.title.as_deref().unwrap_or("new");
                let id = crate::session::short_id(id);
                self.line(&format!("Session {id}: {}", title_line(title, 200)));
            }
            if blocks.len() > RECENT {
                self.printed = blocks.len() - RECENT;
                self.line("Note: what was said before is not printed; rewake show prints all");
            }
        }
        // The outcome of running calls is printed before later blocks.
        for (place, was_begun) in std::mem::take(&mut self.calls) {
            if let Some(Kind::Call(call)) = blocks.get(place).map(|block| &block.kind) {
                self.call(place, call, was_begun);
            }
        }
        let is_working = matches!(app.session.phase, Phase::Working { .. });
        for (place, block) in blocks.iter().enumerate().skip(self.printed) {
            // A stop is recorded before the end of its calls. It is printed after them.
            let is_end = matches!(block.kind, Kind::TurnSummary(_));
            if is_end && is_working && !self.calls.is_empty() {
                break;
            }
            self.block(place, block);
            self.printed = place + 1;
        }
    }

    fn block(&mut self, place: usize, block: &Block) {
        match &block.kind {
            Kind::Words { text, cut } => {
                self.words(text);
                if *cut {
                    self.line("Note: the answer was cut here");
                }
            }
            Kind::Call(call) => self.call(place, call, false),
            _ => {
                if let Some((who, text)) = blocks::text(&block.kind) {
                    self.says(who, &text);
                }
            }
        }
    }

    /// Prints the text of an answer, without the part that was printed while it streamed.
    fn words(&mut self, text: &str) {
        let begun = self.stream[..self.streamed].to_string();
        let rest = text
            .strip_prefix(begun.as_str())
            .filter(|_| self.streamed > 0);
        match rest {
            Some("") => {}
            Some(rest) => self.line(rest.trim_start_matches('\n')),
            None => self.says("rewake", text),
        }
        self.stream = self
            .stream
            .strip_prefix(text)
            .unwrap_or_default()
            .to_string();
        self.streamed = 0;
    }

    fn stream_lines(&mut self) {
        let Some(end) = self.stream[self.streamed..].rfind('\n') else {
            return;
        };
        let (from, to) = (self.streamed, self.streamed + end + 1);
        let text = self.stream[from..to].to_string();
        if from == 0 && text.trim().is_empty() {
            return;
        }
        match from {
            0 => self.says("rewake", &text),
            _ => self.line(text.strip_suffix('\n').unwrap_or(&text)),
        }
        self.streamed = to;
    }

    fn call(&mut self, place: usize, call: &super::transcript::Call, was_begun: bool) {
        match &call.status {
            Status::Over { .. } => {
                let text = blocks::call_over(call);
                self.line(&text);
            }
            Status::Running { .. } => {
                if !was_begun {
                    let text = format!("Running: {}", blocks::call_name(call));
                    self.line(&text);
                    self.progress_at = Some(Instant::now());
                }
                self.calls.push((place, true));
            }
            Status::Waiting | Status::Asked | Status::Allowed => {
                self.calls.push((place, was_begun));
            }
        }
    }

    fn queue(&mut self, app: &App) {
        if app.input.queue.messages.len() > self.queued
            && let Some(last) = app.input.queue.messages.last()
        {
            let waits = count(app.input.queue.messages.len(), "message");
            self.says(
                "Queued",
                &format!("{} ({waits})", one_line(&last.message.text, 200)),
            );
        }
        self.queued = app.input.queue.messages.len();
    }

    fn notes(&mut self, app: &mut App) {
        if app.hint != self.hint {
            self.hint.clone_from(&app.hint);
            if let Some(hint) = self.hint.clone() {
                self.says("Note", &hint);
            }
        }
        if app.session.kept.trouble != self.trouble {
            self.trouble.clone_from(&app.session.kept.trouble);
            match self.trouble.clone() {
                Some(why) => self.says("Warning", &format!("nothing is saved: {why}")),
                None => self.says("Note", "it is saved again"),
            }
        }
        let retry = app.conversation.transcript.stream.retry.clone();
        if let Some((why, until_ms)) = retry
            && self.retry_until_ms != Some(until_ms)
        {
            self.retry_until_ms = Some(until_ms);
            let seconds = (until_ms - app.now_ms).max(0) / 1000;
            self.says("Note", &format!("{why}; asked again in {seconds} s"));
        }
        if let Some(words) = app.input.take_unsent() {
            let words = one_line(&words, 200);
            self.says(
                "Note",
                &format!("not sent yet, an empty line sends it: {words}"),
            );
        }
    }

    fn state(&mut self, app: &App) {
        if self.phase == Some(app.session.phase) {
            return;
        }
        let was_working = matches!(self.phase, Some(Phase::Working { .. } | Phase::Opening));
        match app.session.phase {
            Phase::Resting(Why::Idle) if !app.goes_on() => {
                self.line("Ready: describe a task, or /help");
            }
            Phase::Resting(_) if app.goes_on() => {
                let queued = match app.input.queue.messages.len() {
                    0 => String::new(),
                    waiting => format!(" ({} queued)", count(waiting, "message")),
                };
                self.line(&format!(
                    "Ready: an empty line continues{queued}, or type a message"
                ));
            }
            Phase::Resting(_) => self.line("Ready: describe a task"),
            Phase::Working { .. } if !was_working => self.line("Working: Ctrl+C stops"),
            Phase::Watching => self.line(
                "Watching: another process works in this session; /stop stops it, /new leaves it",
            ),
            Phase::Ended => self.line("Note: the session has ended"),
            Phase::Starting | Phase::Nothing | Phase::Opening | Phase::Working { .. } => {}
        }
        self.phase = Some(app.session.phase);
    }

    fn progress(&mut self, app: &App) {
        let is_due = self.progress_at.is_none_or(|at| at.elapsed() >= PROGRESS);
        let is_working = matches!(app.session.phase, Phase::Working { .. })
            && app.prompts.questions.asked.is_none()
            && app.prompts.questions.form.is_none();
        if !is_working || !app.prompts.is_clear() {
            self.progress_at = None;
            return;
        }
        if self.progress_at.is_none() {
            self.progress_at = Some(Instant::now());
            return;
        }
        if !is_due {
            return;
        }
        self.progress_at = Some(Instant::now());
        let running = self.calls.iter().rev().find_map(|(place, _)| {
            let Kind::Call(call) = &app.conversation.transcript.blocks.get(*place)?.kind else {
                return None;
            };
            blocks::call_running(call, app.now_ms)
        });
        let user = app.user_commands.list.last().map(|command| {
            let seconds = (app.now_ms - command.since_ms).max(0) / 1000;
            blocks::running(&command.command, seconds, &command.tail)
        });
        if let Some(text) = running.or(user) {
            self.line(&text);
        }
    }

    /// Turns the terminal's echo on or off. It is off while a key is typed; a pipe has none.
    fn echo(&mut self, is_on: bool) {
        if self.is_echo_off != is_on {
            return;
        }
        let stdin = rustix::stdio::stdin();
        if let Ok(mut modes) = tcgetattr(stdin) {
            modes.local_modes.set(LocalModes::ECHO, is_on);
            if let Err(error) = tcsetattr(stdin, OptionalActions::Now, &modes) {
                tracing::warn!(%error, "the terminal's echo was not changed");
            }
        }
        self.is_echo_off = !is_on;
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.echo(true);
    }
}
