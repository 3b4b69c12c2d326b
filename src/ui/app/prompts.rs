//! Overlays and the open question over the conversation: whether a question was on the screen, and
//! whether a key answers it. [`super::Letters`] separates letters that select an answer from text.
//! Enter confirms.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use ratatui::text::Line;

use super::{Asking, Intent, Letter, Letters, OpenSession, Overlay, Questions, TypeAheadGuard};
use crate::config::UiConfig;
use crate::ui::overlay::{Card, Filled, KeyEntry, Page, Viewer};
use crate::ui::theme::Theme;

/// Maximum number of lines of a run's output in the viewer.
const MAX_OUTPUT_LINES: usize = 500;

/// Whether the open question can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The next key is an answer.
    Armed,
    /// The keyboard was not quiet for long enough.
    Quiet,
    /// Letters count, and Enter does not yet: a letter was typed a moment ago.
    Typed,
    /// Words are being typed into the box.
    Behind,
}

/// The part of the screen that a key reaches.
pub(super) enum Front {
    Conversation,
    Question,
    Form,
    Over,
}

/// The overlay, the open question, and the keyboard before them.
pub struct Prompts {
    pub overlay: Overlay,
    /// The help, over everything else. What it covers is unchanged when it is closed.
    pub help: Option<Viewer>,
    /// The part of the question in `overlay` that is on the screen.
    pub page: Page,
    /// The number of the overlay that asked last.
    raised: u64,
    pub questions: Questions,
    /// When keys may answer the open question.
    pub quiet: TypeAheadGuard,
    /// Letters that selected an answer, and may be the beginning of a sentence.
    pub(super) letters: Letters,
    /// The root whose sessions the history shows first.
    pub(super) workspace: String,
    /// The program was started to work in a copy of the session that is picked first.
    pub(super) picks_copy: bool,
    /// The number of the last rewind that was shown.
    pub(super) rewinds: u64,
}

impl Prompts {
    pub(super) fn new(workspace: &str) -> Prompts {
        Prompts {
            overlay: Overlay::None,
            help: None,
            page: Page::default(),
            raised: 0,
            questions: Questions::default(),
            quiet: TypeAheadGuard::new(Duration::from_millis(UiConfig::default().quiet_ms)),
            letters: Letters::default(),
            workspace: workspace.to_string(),
            picks_copy: false,
            rewinds: 0,
        }
    }

    /// Returns whether the conversation is not covered by an overlay or the help.
    pub fn is_clear(&self) -> bool {
        matches!(self.overlay, Overlay::None) && self.help.is_none()
    }

    /// Shows a question over everything else.
    pub(super) fn raise(&mut self, overlay: Overlay) {
        self.asks_again();
        self.overlay = overlay;
        self.help = None;
        self.page = Page::default();
    }

    /// Shows lines in a viewer.
    pub(super) fn view(&mut self, title: &str, lines: Vec<Line<'static>>) {
        self.overlay = Overlay::Viewer(Viewer::new(title, lines));
    }

    /// Notes that the overlay asks something else: it must be seen before a key answers it.
    pub(super) fn asks_again(&mut self) {
        self.raised += 1;
    }

    /// Returns the question that a key would answer.
    pub(super) fn asking(&self) -> Option<Asking> {
        match &self.overlay {
            _ if self.help.is_some() => None,
            Overlay::None => self.questions.asking(),
            Overlay::Card(_)
            | Overlay::FirstRun(_)
            | Overlay::Trust(_)
            | Overlay::Confirm { .. } => Some(Asking::Overlay(self.raised)),
            Overlay::Rewind(pane) if pane.asks() => Some(Asking::Overlay(self.raised)),
            _ => None,
        }
    }

    /// Returns the part of the screen that takes the next key.
    pub(super) fn front(&self) -> Front {
        match &self.questions.asked {
            _ if !self.is_clear() => Front::Over,
            Some(_) => Front::Question,
            None if self.questions.form_in_front().is_some() => Front::Form,
            None => Front::Conversation,
        }
    }

    /// Returns whether Enter may submit the text in the box.
    pub(super) fn lets_box_send(&self) -> bool {
        !matches!(self.front(), Front::Over)
    }

    /// Notes a finished drawing with its start and end: it is on the screen now.
    pub fn drawn(&mut self, began: Instant, ended: Instant) {
        let asking = self.asking();
        self.quiet.drawn(asking, began, ended);
        match self.overlay {
            _ if self.help.is_some() => {}
            Overlay::None => self.questions.drawn(),
            Overlay::Trust(_) | Overlay::Confirm { .. } => self.page.drawn(),
            _ => {}
        }
    }

    /// Handles a tick. `may_arm`: no typed text prevents arming.
    pub(super) fn tick(&mut self, may_arm: bool, now: Instant) {
        let asking = self.asking();
        self.quiet.tick(asking, may_arm, now);
        self.letters.tick(now, self.quiet.length);
    }

    /// Returns whether a key of this time answers the open question.
    pub(super) fn accepts(&self, at: Instant) -> bool {
        self.quiet.accepts(self.asking(), at)
    }

    /// Returns whether keys answer the open question now. `has_words`: the box has text.
    pub(super) fn readiness(&self, has_words: bool) -> Readiness {
        match has_words {
            true => Readiness::Behind,
            false if self.quiet.is_armed() && self.letters.blocks_enter() => Readiness::Typed,
            false if self.quiet.is_armed() => Readiness::Armed,
            false => Readiness::Quiet,
        }
    }

    /// Returns whether the screen changes by itself, because of the open question.
    pub(super) fn moves(&self) -> bool {
        self.attached().is_some()
            || self.quiet.waits()
            || (self.asking().is_some() && self.letters.blocks_enter())
            || matches!(&self.overlay, Overlay::Card(card) if card.moves())
    }

    /// Refuses an Enter that follows a letter too closely while something asks: a tool that types
    /// a whole line sends one. It neither confirms nor sends. False: the key is for others.
    pub(super) fn refuses_enter(&self, key: &KeyEvent, at: Instant) -> bool {
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        let is_early = match &self.overlay {
            // In the list of a rewind Enter only shows the lines of a path, unless yes is selected.
            Overlay::Rewind(pane) if !pane.is_yes => false,
            Overlay::Rewind(_) if !self.accepts(at) => true,
            _ => !self.letters.allow_enter(at, self.quiet.length),
        };
        is_enter && is_early && self.asking().is_some()
    }

    /// Notes a letter that is not for the question: Enter right after it does not answer the
    /// question.
    pub(super) fn note_letter(&mut self, key: &KeyEvent, at: Instant) {
        if matches!(key.code, KeyCode::Char(_)) {
            self.letters.typed(at);
        }
    }

    /// Takes a letter for an armed question: it selects an answer, or it is text. Returns that
    /// text. `None`: the key is for others.
    pub(super) fn letter_key(&mut self, key: &KeyEvent, at: Instant) -> Option<String> {
        let held = KeyModifiers::CONTROL | KeyModifiers::ALT;
        match key.code {
            KeyCode::Char(c) if !key.modifiers.intersects(held) => {
                let Some(selects) = self.has_letter(c, at) else {
                    self.letters.forget();
                    return None;
                };
                match self.letters.press(c, selects, at) {
                    Letter::Selects => self.select_letter(Some(c)),
                    Letter::Text(text) => {
                        self.select_letter(None);
                        return Some(text);
                    }
                }
                Some(String::new())
            }
            KeyCode::Backspace if self.letters.is_held() => {
                let before = self.letters.backspace();
                self.select_letter(before);
                Some(String::new())
            }
            KeyCode::PageUp | KeyCode::PageDown => None,
            _ => {
                self.letters.forget();
                None
            }
        }
    }

    /// Returns whether a letter selects an answer of the open question. `None`: it takes its
    /// letters itself.
    fn has_letter(&self, letter: char, at: Instant) -> Option<bool> {
        match &self.overlay {
            Overlay::None => self.questions.has_letter(letter),
            Overlay::Trust(_) | Overlay::Confirm { .. } => Some(matches!(letter, 'y' | 'n')),
            Overlay::Card(_) if letter == '?' && !self.letters.is_held() => None,
            Overlay::Card(card) => Some(card.has_letter(letter)),
            Overlay::Rewind(pane) if letter == 'y' => pane.may_confirm().then_some(true),
            // The list uses single letters as keys, unless they follow in a sentence.
            Overlay::Rewind(pane) if !self.letters.is_held() || pane.has_key(letter) => {
                self.letters.is_near(at).then_some(false)
            }
            Overlay::Rewind(_) => Some(false),
            _ => None,
        }
    }

    /// Selects the answer of a letter. `None`: the one that is preselected.
    pub(super) fn select_letter(&mut self, letter: Option<char>) {
        match &mut self.overlay {
            Overlay::None => self.questions.select_letter(letter),
            Overlay::Trust(_) | Overlay::Confirm { .. } => self.page.is_yes = letter == Some('y'),
            Overlay::Card(card) => card.letter = letter,
            Overlay::Rewind(pane) => pane.is_yes = letter == Some('y'),
            _ => {}
        }
    }

    /// Returns whether a key over the list of a rewind is for the box. Keys of the list scroll at
    /// once, but answer only when the list is armed.
    pub(super) fn is_for_box(&self, key: &KeyEvent, is_accepted: bool, has_words: bool) -> bool {
        let Overlay::Rewind(pane) = &self.overlay else {
            return false;
        };
        let is_word = match key.code {
            KeyCode::Char(c) => {
                let held = KeyModifiers::CONTROL | KeyModifiers::ALT;
                !(key.modifiers.intersects(held) || is_accepted && pane.has_key(c))
            }
            KeyCode::Tab | KeyCode::Backspace => has_words,
            _ => false,
        };
        is_word && !pane.shows_diff()
    }

    /// Takes a key of a question of yes or no. Returns its answer, if it gives one. Letters select.
    pub(super) fn yes_or_no_key(&mut self, key: &KeyEvent) -> Option<bool> {
        if self.page.scrolled(key) || !key.modifiers.is_empty() {
            return None;
        }
        match key.code {
            KeyCode::Enter => return Some(self.page.is_yes),
            KeyCode::Esc => return Some(false),
            KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right | KeyCode::Tab => {
                self.page.is_yes = !self.page.is_yes;
            }
            _ => {}
        }
        None
    }

    /// Returns whether a line is only an answer to the open question. A longer line is text, which
    /// is not lost.
    pub(super) fn is_answer(&self, line: &str) -> bool {
        let word = line.trim();
        if matches!(self.overlay, Overlay::Card(_)) {
            return Card::answer(word).is_some();
        }
        let is_number = word.parse::<u32>().is_ok();
        is_number || matches!(word, "" | "y" | "yes" | "n" | "no" | "a" | "s" | "e")
    }

    /// Performs the result of a key or a line of the form.
    pub(super) fn form_filled(
        &mut self,
        filled: Filled,
        at: Instant,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        if filled == Filled::Later {
            self.quiet.typed(at);
        }
        self.questions.filled(filled, session, now_ms)
    }

    /// Brings back the form that was put aside. False: there is none.
    pub(super) fn form_back(&mut self, at: Instant) -> bool {
        let is_back = self.questions.form_back();
        if is_back {
            self.quiet.typed(at);
        }
        is_back
    }

    /// Opens the entry of a key from the first screen, which returns when no key is given.
    pub(super) fn open_key_entry(&mut self, provider: &str, model: String) {
        let mut entry = KeyEntry::new(provider);
        entry.model = Some(model);
        let before = std::mem::replace(&mut self.overlay, Overlay::Key(entry));
        if let (Overlay::Key(entry), Overlay::FirstRun(first)) = (&mut self.overlay, before) {
            entry.back = Some(first);
        }
    }

    /// Returns the card.
    pub(super) fn card(&mut self) -> Option<&mut Card> {
        match &mut self.overlay {
            Overlay::Card(card) => Some(card),
            _ => None,
        }
    }

    /// Returns the run that the viewer is attached to.
    pub fn attached(&self) -> Option<String> {
        match &self.overlay {
            Overlay::Viewer(viewer) => viewer.run.clone(),
            _ => None,
        }
    }

    /// Takes more output of the run in the viewer.
    pub(super) fn receive_output(&mut self, run: &str, text: &str, theme: &Theme, height: usize) {
        if let Overlay::Viewer(viewer) = &mut self.overlay
            && viewer.run.as_deref() == Some(run)
        {
            let grown = crate::ui::ansi::lines(text, MAX_OUTPUT_LINES, theme);
            // A reader at the end stays at the end.
            if viewer.lines.is_empty() || viewer.top + height >= viewer.lines.len() {
                viewer.top = grown.len();
            }
            viewer.lines = grown;
        }
    }
}
