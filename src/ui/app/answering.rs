//! What asks the person, whether it was on the screen, and whether a key answers it. Letters select
//! an answer or are words, and Enter confirms: [`super::Letters`] tells which.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::keys::Front;
use super::{App, Asking, Intent, Letter, Overlay};
use crate::ui::overlay::Page;

/// What is said to an Enter right after a letter.
const ENTER_TOO_SOON: &str = "press Enter again: right after a letter it does nothing";

/// Whether what asks can be answered.
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

impl App {
    /// What asks lies over all else from now on. What stands in the box already waits.
    pub(super) fn raise(&mut self, overlay: Overlay) {
        self.asking += 1;
        self.letters_into_box();
        self.input.aside = !self.input.composer.is_empty();
        self.overlay = overlay;
        self.behind = None;
        self.page = Page::default();
    }

    /// What a key would answer, by its number.
    pub(super) fn asking(&self) -> Option<Asking> {
        match &self.overlay {
            Overlay::None => match &self.asked {
                Some(asked) => Some(asked.number),
                None => self.form_in_front().map(|form| form.number),
            },
            Overlay::Card(_)
            | Overlay::FirstRun(_)
            | Overlay::Trust(_)
            | Overlay::Confirm { .. } => Some(self.asking),
            Overlay::Rewind(pane) if pane.asks() => Some(self.asking),
            _ => None,
        }
    }

    /// What is to be known of what was just drawn, and is not known yet.
    pub fn seen(&mut self) -> Vec<Intent> {
        let ask = match &mut self.overlay {
            Overlay::History(pane) => pane.seen(),
            _ => None,
        };
        let mut asks: Vec<Intent> = ask.map(Intent::History).into_iter().collect();
        if let Some(session) = self.session.id.clone() {
            let spans = self.conversation.transcript.ask_changes();
            if !spans.is_empty() {
                asks.push(Intent::CallChanges { session, spans });
            }
            let edits = self.conversation.transcript.ask_places();
            if !edits.is_empty() {
                asks.push(Intent::EditPlaces(edits));
            }
        }
        asks
    }

    /// What was drawn from one time to the other is on the screen.
    pub fn drawn(&mut self, began: Instant, ended: Instant) {
        let asking = self.asking();
        self.quiet.drawn(asking, began, ended);
        if matches!(self.overlay, Overlay::None)
            && let Some(asked) = &mut self.asked
        {
            asked.drawn();
        }
        if matches!(self.overlay, Overlay::None)
            && self.form_in_front().is_some()
            && let Some(form) = &mut self.form
        {
            form.entry.page.drawn();
        }
        if matches!(self.overlay, Overlay::Trust(_) | Overlay::Confirm { .. }) {
            self.page.drawn();
        }
    }

    /// Whether keys answer what asks now.
    pub fn readiness(&self) -> Readiness {
        match self.input.has_words_in_front() {
            true => Readiness::Behind,
            false if self.quiet.is_armed() && self.letters.blocks_enter() => Readiness::Typed,
            false if self.quiet.is_armed() => Readiness::Armed,
            false => Readiness::Quiet,
        }
    }

    /// Whether the screen shows that Enter does not answer what asks yet.
    pub(super) fn blocks_enter(&self) -> bool {
        self.asking().is_some() && self.letters.blocks_enter()
    }

    /// Refuses an Enter that follows a letter too closely while something asks: a tool that types
    /// a whole line sends one. It neither confirms nor sends. False: the key is for others.
    pub(super) fn refuses_enter(&mut self, key: &KeyEvent, at: Instant) -> bool {
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        // In the list of a rewind Enter only shows the lines of a path, unless yes is selected.
        let only_looks = matches!(&self.overlay, Overlay::Rewind(pane) if !pane.is_yes);
        let is_refused = is_enter
            && !only_looks
            && self.asking().is_some()
            && !self.letters.allow_enter(at, self.quiet.length);
        if is_refused {
            self.hint = Some(ENTER_TOO_SOON.into());
        }
        is_refused
    }

    /// Takes a key to what asks and listens, if it is a letter: that selects an answer, or it is
    /// text. `None`: it is no such key.
    pub(super) fn letter_key(&mut self, key: &KeyEvent, at: Instant) -> Option<Vec<Intent>> {
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
                        return Some(self.type_text(&text, at));
                    }
                }
                Some(Vec::new())
            }
            KeyCode::Backspace if self.letters.is_held() => {
                let before = self.letters.backspace();
                self.select_letter(before);
                Some(Vec::new())
            }
            KeyCode::PageUp | KeyCode::PageDown => None,
            _ => {
                self.letters.forget();
                None
            }
        }
    }

    /// Whether a letter selects an answer of what asks. `None`: it takes its letters itself.
    fn has_letter(&self, letter: char, at: Instant) -> Option<bool> {
        match &self.overlay {
            Overlay::None => match (&self.asked, self.form_in_front()) {
                (Some(asked), _) => Some(asked.choice_of(letter).is_some()),
                (None, Some(form)) => form.entry.has_letter(letter),
                (None, None) => None,
            },
            Overlay::Trust(_) | Overlay::Confirm { .. } => Some(matches!(letter, 'y' | 'n')),
            Overlay::Card(_) if letter == '?' && !self.letters.is_held() => None,
            Overlay::Card(card) => Some(card.has_letter(letter)),
            Overlay::Rewind(pane) if letter == 'y' => pane.may_confirm().then_some(true),
            // The list has keys of its own, unless they follow in a sentence.
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
            Overlay::None => match (&mut self.asked, &mut self.form) {
                (Some(asked), _) => asked.select(letter),
                (None, Some(form)) => form.entry.letter = letter,
                (None, None) => {}
            },
            Overlay::Trust(_) | Overlay::Confirm { .. } => self.page.is_yes = letter == Some('y'),
            Overlay::Card(card) => card.letter = letter,
            Overlay::Rewind(pane) => pane.is_yes = letter == Some('y'),
            _ => {}
        }
    }

    /// Types text into the box, which may not be seen below what asks.
    fn type_text(&mut self, text: &str, at: Instant) -> Vec<Intent> {
        let is_over = matches!(self.front(), Front::Over);
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

    /// What asked is gone, and not by an answer given here: letters that selected are text.
    pub(super) fn letters_into_box(&mut self) {
        let text = self.letters.take();
        self.input.add(&text, self.now_ms);
    }
}
