//! Lines in line mode (`--plain`): an answer to the open question, a command, or a message. They
//! have the same effects as keys on the screen, and an answer counts by the same rule: only when
//! the question was printed and the keyboard was quiet.

use std::time::Instant;

use super::{App, Intent, Overlay, Phase};
use crate::core::text::one_line;
use crate::ui::commands::SlashCommand;
use crate::ui::composer::{ComposerOutcome, Submission};
use crate::ui::overlay::{Picked, ResumeChoice, Typed};

/// Lines that are held until a session is open.
const MAX_HELD: usize = 1_000;

/// Lines that wait where nothing is drawn.
#[derive(Debug, Default)]
pub(super) struct HeldLines {
    /// Lines that came before a session was open, with their times.
    pub(super) lines: Vec<(String, Instant)>,
    /// Messages that came while unfinished sessions were offered. They are for the chosen session.
    offered: Vec<(String, Instant)>,
}

impl HeldLines {
    fn hold(&mut self, line: &str, at: Instant) {
        if self.lines.len() < MAX_HELD {
            self.lines.push((line.to_string(), at));
        }
    }

    fn offer(&mut self, line: &str, at: Instant) {
        if self.offered.len() < MAX_HELD {
            self.offered.push((line.to_string(), at));
        }
    }

    /// Releases messages for the chosen session, now that it is open. They come before later lines.
    pub(super) fn release_offered(&mut self) {
        self.lines.splice(0..0, std::mem::take(&mut self.offered));
    }
}

impl App {
    /// Takes a line without its end.
    pub fn line(&mut self, line: &str, at: Instant) -> Vec<Intent> {
        self.hint = None;
        if self.is_leaving {
            return Vec::new();
        }
        if self.holds_lines() {
            // A command would have no session that it is for.
            self.held.hold(line, at);
            return Vec::new();
        }
        let is_accepted = self.prompts.accepts(at);
        if self.prompts.asking().is_some() && !is_accepted && self.prompts.is_answer(line) {
            self.prompts.quiet.typed(at);
            self.hint = Some(
                "that line came before you could read the question, so it is not taken as the answer; answer now"
                    .into(),
            );
            return Vec::new();
        }
        match &self.prompts.overlay {
            Overlay::Key(_) => self.key_typed(match line.trim() {
                "" => Typed::Back,
                key => Typed::Keep(key.to_string()),
            }),
            Overlay::Card(_) => self.card_line(line, at),
            Overlay::FirstRun(first) => {
                let chosen = first
                    .line(line.trim())
                    .map(|setup| self.prompts.set_up(setup));
                self.or_hint(chosen)
            }
            Overlay::Trust(_) | Overlay::Confirm { .. } => match line.trim() {
                "y" | "yes" => self.answered(true),
                "n" | "no" => self.answered(false),
                _ => {
                    self.hint = Some("y or n, then Enter".into());
                    Vec::new()
                }
            },
            Overlay::Picker(picker) => {
                let (what, picked) = (picker.what, picker.line(line.trim()));
                match picked {
                    Picked::Value(value) => {
                        self.prompts.overlay = Overlay::None;
                        return self.picked(what, value);
                    }
                    Picked::Closed => {
                        self.prompts.overlay = Overlay::None;
                        self.hint = Some("nothing was chosen".into());
                    }
                    _ => {
                        let hint =
                            "answer with a number of the list, or with an empty line for none";
                        self.hint = Some(hint.into());
                    }
                }
                Vec::new()
            }
            Overlay::None if is_accepted && self.prompts.questions.asked.is_some() => {
                let (session, now_ms) = (&self.session, self.now_ms);
                let answered = self.prompts.questions.answer_line(line, session, now_ms);
                answered.unwrap_or_else(|| self.words_line(line, at))
            }
            Overlay::None if is_accepted && self.prompts.questions.form_in_front().is_some() => {
                match self.prompts.questions.form_line(line) {
                    Some(filled) => {
                        let (session, now_ms) = (&self.session, self.now_ms);
                        self.prompts.form_filled(filled, at, session, now_ms)
                    }
                    None => self.words_line(line, at),
                }
            }
            Overlay::None
                if line.trim().is_empty() && self.prompts.questions.form_aside().is_some() =>
            {
                self.prompts.form_back(at);
                Vec::new()
            }
            _ => self.words_line(line, at),
        }
    }

    /// Returns whether lines must wait, because the start or a session is still being loaded.
    pub(super) fn holds_lines(&self) -> bool {
        let opens = matches!(self.session.phase, Phase::Starting | Phase::Opening);
        opens && self.prompts.is_clear()
    }

    /// Handles the end of input. Nobody will answer, so messages of a pipe are for a new session.
    pub fn lines_ended(&mut self) -> Vec<Intent> {
        match self.prompts.overlay {
            Overlay::Card(_) if !self.held.offered.is_empty() => {
                self.prompts.card_chosen(ResumeChoice::New)
            }
            _ => Vec::new(),
        }
    }

    /// Handles the lines that came before a session was open, in their order.
    pub(super) fn held_lines(&mut self) -> Vec<Intent> {
        let lines = std::mem::take(&mut self.held.lines);
        let mut intents = Vec::new();
        let mut lines = lines.into_iter();
        for (line, at) in lines.by_ref() {
            intents.extend(self.line(&line, at));
            // The first of them may open one.
            if matches!(intents.last(), Some(Intent::Open { .. })) {
                self.session.phase = Phase::Opening;
                break;
            }
        }
        self.held.lines.extend(lines);
        intents
    }

    /// Words and commands, as from the box.
    pub(super) fn words_line(&mut self, line: &str, at: Instant) -> Vec<Intent> {
        self.prompts.quiet.typed(at);
        match self.input.submit_line(line) {
            ComposerOutcome::Submit(Submission::Command(command, argument)) => {
                self.plain_command(command, &argument)
            }
            did => self.did(did),
        }
    }

    fn plain_command(&mut self, command: SlashCommand, argument: &str) -> Vec<Intent> {
        match command {
            SlashCommand::History if argument.is_empty() => vec![Intent::Sessions],
            SlashCommand::History => {
                self.hint = Some(format!(
                    "the history is a pane of the screen; in a shell: rewake history {argument}"
                ));
                Vec::new()
            }
            SlashCommand::Theme => {
                self.hint = Some("there are no colours here; /theme is for the screen".into());
                Vec::new()
            }
            command => self.command(command, argument),
        }
    }

    /// Takes an answer to the offer of unfinished sessions, a command, or a message. A message
    /// waits until it is known which session it is for.
    fn card_line(&mut self, line: &str, at: Instant) -> Vec<Intent> {
        let Overlay::Card(card) = &self.prompts.overlay else {
            return Vec::new();
        };
        match card.line(line.trim()) {
            Some(Ok(chosen)) => self.prompts.card_chosen(chosen),
            Some(Err(why)) => {
                self.hint = Some(why);
                Vec::new()
            }
            None if line.starts_with(['/', '!']) => self.words_line(line, at),
            None => {
                self.prompts.quiet.typed(at);
                self.held.offer(line, at);
                let words = one_line(line, 200);
                self.hint = Some(format!("kept until you have answered: {words}"));
                Vec::new()
            }
        }
    }

    /// Returns whether nothing runs that could produce output without another line of the person.
    pub fn waits_for_person(&self) -> bool {
        let opens = matches!(self.session.phase, Phase::Starting | Phase::Opening);
        let asks = self.prompts.questions.is_open();
        let works = matches!(self.session.phase, Phase::Working { .. }) && !asks;
        let has_held = !(self.held.lines.is_empty() && self.held.offered.is_empty());
        let held = has_held && self.prompts.is_clear();
        !opens && !works && !held && self.user_commands.list.is_empty()
    }

    /// Handles Ctrl+C in line mode: stops the work, and quits when it comes twice.
    pub fn interrupted(&mut self) -> Vec<Intent> {
        match &self.prompts.overlay {
            Overlay::Key(_) => self.key_typed(Typed::Back),
            Overlay::Picker(_) => {
                self.prompts.overlay = Overlay::None;
                Vec::new()
            }
            _ => self.ask_quit(),
        }
    }
}
