//! The handling of a key: first by an overlay, then by a question, then by the box. Keys that the
//! box does not take are actions of the main screen.

use std::path::PathBuf;
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::prompts::Front;
use super::questions::UNREAD;
use super::{App, Intent, OutgoingMessage, Overlay, Phase};
use crate::core::signal::Signal;
use crate::engine::Command;
use crate::session::{CommandLine, SessionSelector};
use crate::ui::composer::{ComposerOutcome, Submission};
use crate::ui::input::SPLIT;
use crate::ui::keys::Action;
use crate::ui::overlay::{Answer, Filled, holds_key, is_key};
use crate::ui::transcript::{Tone, TranscriptSearch};

/// Ctrl+C twice within this leaves.
const QUIT_WAIT_MS: i64 = 2_000;

/// Lines of one turn of the wheel.
const WHEEL_LINES: usize = 3;

/// The hint for an Enter right after a letter.
const ENTER_TOO_SOON: &str = "wait a moment, then press Enter";

/// The hint for an Enter that came with the shell command before it.
pub(super) const ENTER_WAS_PASTED: &str =
    "the command came as a paste: Enter runs it, Ctrl+C clears it";

/// Handles a key while the engine leaves: the keys that quit need not wait for it.
fn leaving_key(key: &KeyEvent) -> Vec<Intent> {
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if ctrl => vec![Intent::Quit],
        _ => Vec::new(),
    }
}

impl App {
    pub(super) fn key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        self.hint = None;
        if self.is_leaving {
            return leaving_key(key);
        }
        let is_conversation = matches!(self.prompts.front(), Front::Conversation);
        if key.kind == SPLIT && !(is_conversation && self.input.composer.binds(key)) {
            let letter = KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT);
            let mut intents = self.key(&KeyEvent::from(KeyCode::Esc), at);
            intents.extend(self.key(&letter, at));
            return intents;
        }
        if let Some(help) = &mut self.prompts.help {
            if !help.key(key) {
                self.prompts.help = None;
            }
            self.prompts.quiet.typed(at);
            return Vec::new();
        }
        let is_accepted = self.prompts.accepts(at);
        let asked = &self.prompts.questions.asked;
        let gives_reason = asked.as_ref().is_some_and(|a| a.reason.is_some());
        if !gives_reason {
            if self.prompts.refuses_enter(key, at) {
                self.hint = Some(ENTER_TOO_SOON.into());
                return Vec::new();
            }
            if is_accepted && let Some(text) = self.prompts.letter_key(key, at) {
                return self.type_text(&text, at);
            }
        }
        let has_words = self.input.has_words_in_front();
        let prompts = &self.prompts;
        let keys = &self.input.composer.keys;
        match prompts.front() {
            // Reading the keys answers nothing, so it need not wait.
            Front::Over if keys.is_help(key, !prompts.takes_text(has_words)) => {
                self.prompts.quiet.typed(at);
                self.prompts.show_help(&self.input);
                Vec::new()
            }
            Front::Question if is_accepted || gives_reason => self.asked_key(key, at),
            Front::Question => self.key_ahead(key, at),
            Front::Form if prompts.questions.is_for_form(key, is_accepted, has_words) => {
                self.form_key(key, at)
            }
            Front::Form => self.key_ahead(key, at),
            Front::Over if prompts.is_for_box(key, is_accepted, has_words) => {
                self.key_under(key, at)
            }
            Front::Over if is_accepted || matches!(prompts.overlay, Overlay::Rewind(_)) => {
                self.over_key(key, at)
            }
            Front::Over if prompts.asking().is_some() => self.key_under(key, at),
            Front::Over => {
                self.prompts.quiet.typed(at);
                self.over_key(key, at)
            }
            Front::Conversation => {
                let may_choose = self.may_choose_last();
                match self.last_here.key(key, may_choose) {
                    Some(intents) => {
                        self.prompts.quiet.typed(at);
                        intents
                    }
                    None => self.words_key(key, at),
                }
            }
        }
    }

    /// Handles a key that a question may take.
    fn asked_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        let asked = self.prompts.questions.asked.as_mut();
        match asked.map(|asked| asked.key(key)) {
            Some(Answer::Pass) | None => self.question_key(key, at),
            Some(Answer::Back) => {
                self.prompts.quiet.typed(at);
                Vec::new()
            }
            Some(Answer::Unread) => {
                self.hint = Some(UNREAD.into());
                Vec::new()
            }
            Some(answer) => {
                let questions = &mut self.prompts.questions;
                questions.answer(answer, &self.session, self.now_ms)
            }
        }
    }

    /// Handles a key that came before the question was armed: it scrolls, or it is for the box.
    fn key_ahead(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        let is_typing = self.input.has_words_in_front();
        match key.code {
            KeyCode::Tab if is_typing && !self.input.composer.has_list() => {
                self.input.aside = true;
                self.prompts.quiet.typed(at);
                return Vec::new();
            }
            _ => {}
        }
        let asked = self.prompts.questions.asked.as_mut();
        if !is_typing && asked.is_some_and(|asked| asked.scrolled(key)) {
            self.prompts.quiet.typed(at);
            return Vec::new();
        }
        self.words_key(key, at)
    }

    /// Handles a key for the box, which is hidden below a card: only keys that type get there.
    pub(super) fn key_under(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        self.prompts.quiet.typed(at);
        self.prompts.note_letter(key, at);
        if !self.input.has_words_in_front() && self.prompts.page.scrolled(key) {
            return Vec::new();
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let did = match key.code {
            KeyCode::Char('c' | 'd')
                if ctrl && !matches!(self.prompts.overlay, Overlay::Confirm { .. }) =>
            {
                return vec![Intent::Quit];
            }
            KeyCode::Tab if self.input.has_words_in_front() => {
                self.input.aside = true;
                return Vec::new();
            }
            KeyCode::Char(c) if !ctrl && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.input.paste(c.encode_utf8(&mut [0; 4]))
            }
            KeyCode::Backspace => self.key_into_box(key, at),
            _ => return Vec::new(),
        };
        self.input.aside = false;
        self.did(did)
    }

    /// Types text into the box, which a question may hide.
    fn type_text(&mut self, text: &str, at: Instant) -> Vec<Intent> {
        let is_over = matches!(self.prompts.front(), Front::Over);
        self.input.composer.begin_insert();
        let mut intents = Vec::new();
        for c in text.chars() {
            let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
            intents.extend(match is_over {
                true => self.key_under(&key, at),
                false => self.words_key(&key, at),
            });
        }
        intents
    }

    fn form_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        self.prompts.note_letter(key, at);
        match self.prompts.questions.form_key(key) {
            Filled::Pass => self.question_key(key, at),
            Filled::Typed => self.words_key(key, at),
            filled => {
                let (session, now_ms) = (&self.session, self.now_ms);
                self.prompts.form_filled(filled, at, session, now_ms)
            }
        }
    }

    /// Handles a key for the box, even if a question is open.
    pub(super) fn words_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        self.prompts.quiet.typed(at);
        self.prompts.note_letter(key, at);
        self.input.aside = false;
        self.box_key(key, at)
    }

    fn box_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        let was_typed = !self.input.composer.is_empty();
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        if is_enter
            && !was_typed
            && self.input.queue.editing.is_none()
            && self.prompts.form_back(at)
        {
            return Vec::new();
        }
        let did = self.key_into_box(key, at);
        if was_typed {
            self.quit_asked_ms = None;
        }
        self.did(did)
    }

    /// Takes pasted text. It is never an answer.
    pub(super) fn paste(&mut self, text: &str, at: Instant) -> Vec<Intent> {
        if self.prompts.help.is_some() {
            return Vec::new();
        }
        let is_accepted = self.prompts.accepts(at);
        self.prompts.letters.typed(at);
        let has_words = self.input.has_words_in_front();
        let is_clear = self.prompts.is_clear();
        let questions = &mut self.prompts.questions;
        if is_clear && questions.paste_into_form(text, is_accepted, has_words) {
            return Vec::new();
        }
        self.prompts.quiet.typed(at);
        if self.prompts.letters.is_held() {
            self.prompts.select_letter(None);
            self.letters_into_box();
        }
        self.last_here.at = None;
        match &mut self.prompts.overlay {
            Overlay::History(pane) => {
                let did = pane.paste(text);
                return self.prompts.history_did(did, &self.session);
            }
            Overlay::Picker(picker) => {
                picker
                    .typed
                    .push_str(&crate::core::text::one_line(text, 200));
                return Vec::new();
            }
            Overlay::Search(search) => {
                let mut layout = self.look.layout(self.now_ms);
                return self.conversation.search_paste(search, text, &mut layout);
            }
            Overlay::Viewer(_) | Overlay::Review(_) | Overlay::Rewind(_) => return Vec::new(),
            Overlay::Key(entry) => {
                if !entry.paste(text) {
                    self.hint = Some("that is more than one line: paste the key alone".into());
                }
                return Vec::new();
            }
            Overlay::FirstRun(first) if is_key(text) => {
                let Some((provider, model)) = first.key_for(text) else {
                    first.why = "choose a provider with Enter, then paste its key".into();
                    return Vec::new();
                };
                self.prompts.open_key_entry(&provider, model);
                if let Overlay::Key(entry) = &mut self.prompts.overlay {
                    entry.paste(text);
                }
                return Vec::new();
            }
            Overlay::FirstRun(first) if holds_key(text) => {
                first.why = "the pasted text may hold a key and was not taken: choose a provider \
                             with Enter, then paste the key alone"
                    .into();
                return Vec::new();
            }
            _ => {}
        }
        let is_clear = self.prompts.is_clear();
        let asked = self.prompts.questions.asked.as_mut();
        if is_clear && asked.is_some_and(|asked| asked.paste(text)) {
            return Vec::new();
        }
        self.input.aside = false;
        let did = self.input.paste(text);
        self.did(did)
    }

    /// Puts the image into the box, even if a question is open.
    pub(super) fn pasted_image(&mut self, pasted: Result<PathBuf, String>) -> Vec<Intent> {
        self.hint = None;
        match pasted {
            Ok(path) => {
                self.input.aside = false;
                let did = self.input.add_image(path);
                self.did(did)
            }
            Err(why) => {
                let (why, hint) = why.split_once('\n').unwrap_or((&why, ""));
                match hint {
                    "" => self.hint = Some(why.to_string()),
                    hint => self.notify(Tone::Warn, format!("{why}\n{hint}")),
                }
                Vec::new()
            }
        }
    }

    fn key_into_box(&mut self, key: &KeyEvent, at: Instant) -> ComposerOutcome {
        let is_working = self.session.is_busy() || !self.user_commands.list.is_empty();
        self.input.key(key, at, is_working)
    }

    pub(super) fn did(&mut self, did: ComposerOutcome) -> Vec<Intent> {
        match did {
            ComposerOutcome::Nothing | ComposerOutcome::Moved => Vec::new(),
            ComposerOutcome::Changed => {
                self.input.typed_ms.get_or_insert(self.now_ms);
                Vec::new()
            }
            ComposerOutcome::Submit(submission) => self.submit(submission),
            ComposerOutcome::WantsEditor => vec![Intent::Editor(self.input.composer.for_editor())],
            ComposerOutcome::Act(action) => self.act(action),
            ComposerOutcome::OlderQueued => {
                self.hint = self.input.older_queued().or(self.hint.take());
                Vec::new()
            }
            ComposerOutcome::NewerQueued => {
                self.hint = self.input.newer_queued().or(self.hint.take());
                Vec::new()
            }
            ComposerOutcome::Refused(why) => {
                self.hint = Some(why);
                Vec::new()
            }
        }
    }

    /// Runs the text after the `!`.
    fn run_shell(&mut self, typed: String) -> Vec<Intent> {
        match self.session.phase {
            Phase::Watching => {
                self.input.composer.set_text(&format!("!{typed}"));
                self.hint =
                    Some("another process uses this session: /fork makes a copy for you".into());
                Vec::new()
            }
            Phase::Nothing | Phase::Ended => {
                self.input.first_commands.push(typed);
                vec![Intent::open(SessionSelector::New)]
            }
            Phase::Starting | Phase::Opening => {
                self.input.first_commands.push(typed);
                self.hint = Some("run when the session is open".into());
                Vec::new()
            }
            Phase::Working { .. } | Phase::Resting(_) => {
                // Recording the command clears the stored draft, so the rest in the box must be
                // stored again.
                self.input.mark_rest_unsaved(self.now_ms);
                vec![self.user_commands.run(&typed, self.now_ms)]
            }
        }
    }

    fn submit(&mut self, submission: Submission) -> Vec<Intent> {
        match submission {
            Submission::Prompt {
                text,
                images,
                looks,
                shown,
            } => self.say(OutgoingMessage {
                text,
                shown,
                images,
                looks,
                command: None,
            }),
            Submission::Custom(name, arguments) => {
                self.say(OutgoingMessage::of_command(CommandLine {
                    name,
                    arguments,
                    trusts: None,
                }))
            }
            Submission::Shell(command) => self.run_shell(command),
            Submission::Command(command, argument) => {
                // The box is empty now. The stored draft must not keep the command, even if it
                // leaves the session.
                let mut intents = match self.session.is_open() {
                    true => self.input.keep(&self.session),
                    false => Vec::new(),
                };
                intents.extend(self.command(command, &argument));
                intents
            }
        }
    }

    pub(super) fn say(&mut self, words: OutgoingMessage) -> Vec<Intent> {
        self.conversation.transcript.scroll_end();
        let said = self.input.say(words, self.session.phase);
        self.with_hint(said)
    }

    /// Returns the intents, and shows the hint that came with them.
    pub(super) fn with_hint(
        &mut self,
        (intents, hint): (Vec<Intent>, Option<String>),
    ) -> Vec<Intent> {
        self.hint = hint.or(self.hint.take());
        intents
    }

    fn act(&mut self, action: Action) -> Vec<Intent> {
        match action {
            Action::Interrupt => return self.interrupt(),
            // Another mode may settle the question, which would be an answer.
            Action::CycleMode if self.prompts.asking().is_some() => {
                let key = self.input.composer.keys.map.key(Action::CycleMode);
                self.hint = Some(format!(
                    "a question came up: press {key} again once it can be answered"
                ));
            }
            Action::CycleMode => return self.session.cycle_mode(),
            Action::EditQueued => return self.did(ComposerOutcome::OlderQueued),
            Action::Rewind => super::rewind::pick_rewind(self),
            Action::CopyAnswer => {
                return match self.conversation.transcript.last_answer() {
                    Some(text) => vec![Intent::Copy(text.to_string())],
                    None => Vec::new(),
                };
            }
            Action::ToggleExpand => self.conversation.transcript.toggle_all(),
            Action::FoldThinking => self.conversation.transcript.toggle_thinking(),
            Action::SearchTranscript => {
                self.conversation.transcript.drop_head();
                let search = TranscriptSearch::new(self.conversation.transcript.scroll);
                self.prompts.overlay = Overlay::Search(Box::new(search));
            }
            Action::ScrollUp => return self.scroll(true, 1),
            Action::ScrollDown => return self.scroll(false, 1),
            Action::PageUp => return self.scroll(true, self.conversation.page()),
            Action::PageDown => return self.scroll(false, self.conversation.page()),
            Action::ScrollTop => return self.conversation.scroll_home(),
            Action::ScrollBottom => self.conversation.transcript.scroll_end(),
            Action::Redraw => return vec![Intent::Redraw],
            Action::Help => self.prompts.show_help(&self.input),
            Action::History => return self.prompts.open_history(""),
            Action::Ps => return vec![Intent::Ps],
            Action::WaitForFiles => {
                let (intents, hint) = self.session.wait_for_files();
                self.hint = Some(hint.into());
                return intents;
            }
            Action::PasteImage => {
                self.hint = Some("reading the clipboard …".into());
                return vec![Intent::PasteImage];
            }
            Action::ExternalEditor => {
                return vec![Intent::Editor(self.input.composer.for_editor())];
            }
            Action::Suspend => return vec![Intent::Suspend],
            Action::Quit => return vec![Intent::Quit],
            Action::AskQuit => return self.ask_quit(),
            Action::Submit => return self.nothing_to_send(),
            _ => {}
        }
        Vec::new()
    }

    /// Handles Enter on an empty box.
    fn nothing_to_send(&mut self) -> Vec<Intent> {
        if let Some(id) = self.input.queue.editing.take() {
            self.hint = Some("the queued message is deleted".into());
            return self.input.delete_queued(id);
        }
        match self.session.phase {
            Phase::Resting(_) if self.goes_on() => {
                vec![Intent::Engine(Command::Signal(Signal::GoOn))]
            }
            _ => Vec::new(),
        }
    }

    fn interrupt(&mut self) -> Vec<Intent> {
        if self.input.cancel_edit() {
            return Vec::new();
        }
        if let Some(stop) = self.user_commands.stop() {
            return stop;
        }
        match self.session.phase {
            Phase::Working { .. } => vec![Intent::Engine(Command::STOP)],
            Phase::Watching if self.input.composer.is_empty() => {
                self.hint = Some("you left that session; the other process continues it".into());
                vec![Intent::open(SessionSelector::New)]
            }
            Phase::Watching => {
                self.hint = Some(
                    self.input
                        .words_stay(Action::Interrupt, "leaves this session"),
                );
                Vec::new()
            }
            _ => {
                self.conversation.transcript.scroll_end();
                if !self.input.composer.is_empty() {
                    self.hint = Some(self.input.words_stay(Action::Rewind, "rewinds"));
                }
                Vec::new()
            }
        }
    }

    /// Handles Ctrl+C on an empty box: stops the work, or quits when it is pressed twice.
    pub(super) fn ask_quit(&mut self) -> Vec<Intent> {
        if let Some(stop) = self.user_commands.stop() {
            return stop;
        }
        let twice = self
            .quit_asked_ms
            .is_some_and(|at| self.now_ms - at <= QUIT_WAIT_MS);
        if twice {
            return vec![Intent::Quit];
        }
        self.quit_asked_ms = Some(self.now_ms);
        let is_working = matches!(self.session.phase, Phase::Working { .. });
        let hint = match is_working {
            true => "again quits",
            false => "again quits; running commands keep running",
        };
        self.hint = Some(self.input.composer.keys.map.hint(Action::AskQuit, hint));
        match is_working {
            true => vec![Intent::Engine(Command::STOP)],
            false => Vec::new(),
        }
    }

    fn scroll(&mut self, up: bool, lines: usize) -> Vec<Intent> {
        let mut layout = self.look.layout(self.now_ms);
        self.conversation.scroll(up, lines, &mut layout)
    }

    pub(super) fn mouse(&mut self, mouse: &MouseEvent) -> Vec<Intent> {
        let up = match mouse.kind {
            MouseEventKind::ScrollUp => true,
            MouseEventKind::ScrollDown => false,
            MouseEventKind::Down(MouseButton::Left) => {
                if self.prompts.is_clear() {
                    let mut layout = self.look.layout(self.now_ms);
                    self.conversation.click(usize::from(mouse.row), &mut layout);
                }
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        if let Some(help) = &mut self.prompts.help {
            help.scroll(up, WHEEL_LINES);
            return Vec::new();
        }
        match &mut self.prompts.overlay {
            Overlay::History(pane) => {
                let did = pane.wheel(up);
                return self.prompts.history_did(did, &self.session);
            }
            Overlay::Viewer(viewer) => viewer.scroll(up, WHEEL_LINES),
            Overlay::Review(review) => review.scroll(up, WHEEL_LINES),
            Overlay::Rewind(pane) => pane.scroll(up, WHEEL_LINES),
            _ => return self.scroll(up, WHEEL_LINES),
        }
        Vec::new()
    }

    /// Handles a key that the question does not take.
    pub(super) fn question_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc if self.session.phase == Phase::Watching => self.interrupt(),
            KeyCode::Esc => vec![Intent::Engine(Command::STOP)],
            KeyCode::Char('c') if ctrl && self.session.phase == Phase::Watching => self.ask_quit(),
            KeyCode::Char('c') if ctrl => vec![Intent::Engine(Command::STOP)],
            _ => match self.input.composer.keys.action_of(key) {
                Some(Action::CycleMode) => self.session.cycle_mode(),
                // Looking round while it asks.
                Some(Action::PageUp) => self.scroll(true, self.conversation.page()),
                Some(Action::PageDown) => self.scroll(false, self.conversation.page()),
                Some(
                    Action::Help
                    | Action::History
                    | Action::ToggleExpand
                    | Action::Suspend
                    | Action::Redraw
                    | Action::SearchTranscript,
                ) => self.box_key(key, at),
                _ => Vec::new(),
            },
        }
    }
}
