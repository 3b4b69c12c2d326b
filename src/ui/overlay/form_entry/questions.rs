//! Keys and lines for the questions of the model.
//!
//! Invariant: only a row that the person chose is an answer, and nothing is sent while a question
//! has no answer and was not skipped.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Map;

use super::super::steps::{Step, Steps};
use super::super::text_field::TextField;
use super::{Filled, Filling, FormEntry, Page};
use crate::core::form::FormAnswer;

const NO_ANSWER: &str = "choose an answer first, or the last row to skip the question";
const NO_WORDS: &str = "type your words, or choose another row";
const NO_LINE: &str = "answer with a number or in your own words; skip skips the question";

impl FormEntry {
    /// Returns whether a question has an answer, or was skipped.
    pub fn is_settled(&self, step: &Step) -> bool {
        step.is_skipped() || self.has_answer(step)
    }

    fn has_answer(&self, step: &Step) -> bool {
        [step.main, step.own].iter().any(|place| {
            let value = self.value(*place);
            value.is_ok_and(|value| value.is_some())
        })
    }

    /// Returns the answer to a question for a person; empty without one.
    pub fn step_shown(&self, step: &Step) -> String {
        let mut places = vec![step.main, step.own];
        places.dedup();
        let given = |place: &usize| self.value(*place).is_ok_and(|value| value.is_some());
        let shown = places.iter().filter(|place| given(place));
        let shown: Vec<String> = shown.map(|place| self.shown(*place)).collect();
        shown.join(", ")
    }

    /// Returns whether the value of a field belongs to the answer, as far as the rows decide that.
    pub(super) fn is_chosen(&self, place: usize) -> bool {
        let steps = self.steps.iter().flat_map(|steps| &steps.questions);
        let mut steps = steps.filter(|step| step.main == place || step.own == place);
        steps.next().is_none_or(|step| match step.row {
            _ if step.is_skipped() => false,
            _ if step.several => true,
            Some(row) => (row == step.own_row()) == (place == step.own),
            None => false,
        })
    }

    /// Takes a key of a question of the model.
    pub(super) fn step_key(&mut self, key: &KeyEvent) -> Filled {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let held = ctrl || key.modifiers.contains(KeyModifiers::ALT);
        let is_plain = key.modifiers.is_empty();
        let now = self.steps.as_ref().and_then(Steps::now);
        let is_own = now.is_some_and(Step::is_own);
        match key.code {
            KeyCode::Esc => return Filled::Later,
            KeyCode::Char('d') if ctrl => return Filled::Send(FormAnswer::Decline),
            KeyCode::Enter if is_plain => return self.step_enter(),
            KeyCode::PageUp | KeyCode::PageDown => {
                self.follows = false;
                self.page.scrolled(key);
            }
            KeyCode::Tab => self.step_on(true),
            KeyCode::BackTab => self.step_on(false),
            KeyCode::Up | KeyCode::Down if is_plain => self.step_walk(key),
            KeyCode::Left | KeyCode::Right if is_plain && !is_own => {
                self.step_on(key.code == KeyCode::Right);
            }
            _ if now.is_none() => {
                return if matches!(key.code, KeyCode::Char(_)) && !held {
                    Filled::Open
                } else {
                    Filled::Pass
                };
            }
            KeyCode::Char(c @ '1'..='9') if !held && !is_own => {
                let row = usize::try_from(u32::from(c) - u32::from('1')).unwrap_or(usize::MAX);
                self.choose_row(row, true);
            }
            KeyCode::Char(' ') if !held && !is_own => {
                if let Some(row) = now.and_then(|step| step.row) {
                    self.choose_row(row, true);
                }
            }
            KeyCode::Char(_) if !held && !is_own => {
                // An answer of own words begins.
                let row = now.map_or(0, Step::own_row);
                self.choose_row(row, false);
                self.own_key(key);
            }
            _ if is_own && self.own_key(key) => {}
            _ => return Filled::Pass,
        }
        Filled::Open
    }

    /// Pastes into the own words of the question.
    pub(super) fn step_paste(&mut self, text: &str) -> bool {
        let Some(row) = self.steps.as_ref().and_then(Steps::now).map(Step::own_row) else {
            return false;
        };
        self.choose_row(row, false);
        if let Some(field) = self.own_words() {
            field.insert(text);
        }
        true
    }

    fn own_words(&mut self) -> Option<&mut TextField> {
        let own = self.steps.as_ref().and_then(Steps::now)?.own;
        match self.values.get_mut(own) {
            Some(Filling::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn own_key(&mut self, key: &KeyEvent) -> bool {
        self.follows = true;
        self.error = None;
        self.own_words().is_some_and(|text| text.key(key))
    }

    /// Moves to a row, which chooses it where one answer is wanted. `ticks`: of several it is ticked,
    /// or no longer.
    fn choose_row(&mut self, row: usize, ticks: bool) {
        let Some(steps) = &mut self.steps else { return };
        let Some(step) = steps.questions.get_mut(steps.at) else {
            return;
        };
        if row > step.skip_row() {
            return;
        }
        step.row = Some(row);
        self.follows = true;
        self.error = None;
        match self.values.get_mut(step.main) {
            Some(Filling::OneOf(one)) => *one = (row < step.options).then_some(row),
            Some(Filling::SomeOf {
                chosen,
                at,
                is_touched,
            }) => {
                *at = row;
                if let Some(is) = chosen.get_mut(row).filter(|_| ticks) {
                    *is = !*is;
                    *is_touched = true;
                }
            }
            _ => {}
        }
    }

    fn step_walk(&mut self, key: &KeyEvent) {
        let Some(step) = self.steps.as_ref().and_then(Steps::now) else {
            self.page.scrolled(key);
            return;
        };
        let row = match (key.code, step.row) {
            (KeyCode::Down, None) => 0,
            (KeyCode::Down, Some(row)) => (row + 1).min(step.skip_row()),
            (_, row) => row.unwrap_or(0).saturating_sub(1),
        };
        self.choose_row(row, false);
    }

    fn step_on(&mut self, forward: bool) {
        let Some(steps) = &self.steps else { return };
        let last = steps.questions.len() - usize::from(!steps.has_confirmation());
        self.step_to(if forward {
            (steps.at + 1).min(last)
        } else {
            steps.at.saturating_sub(1)
        });
    }

    fn step_to(&mut self, at: usize) {
        let Some(steps) = &mut self.steps else { return };
        if steps.at != at {
            steps.at = at;
            self.page = Page::default();
            self.follows = false;
            self.error = None;
        }
    }

    fn step_enter(&mut self) -> Filled {
        if !self.is_read() {
            return Filled::Unread;
        }
        let Some(steps) = &self.steps else {
            return Filled::Open;
        };
        let is_open = |step: &Step| !self.is_settled(step);
        let open = match steps.now() {
            Some(step) if is_open(step) => Some(steps.at),
            Some(_) if steps.has_confirmation() => {
                self.step_on(true);
                return Filled::Open;
            }
            _ => steps.questions.iter().position(is_open),
        };
        let Some(open) = open else {
            return Filled::Send(self.step_answers());
        };
        let step = &steps.questions[open];
        let why = if step.is_own() { NO_WORDS } else { NO_ANSWER };
        let wrong = Some((step.main, why.to_string()));
        self.step_to(open);
        self.error = wrong;
        self.follows = true;
        Filled::Open
    }

    /// Returns the answers; a refusal if all were skipped.
    fn step_answers(&self) -> FormAnswer {
        let mut values = Map::new();
        for (place, field) in self.fields().iter().enumerate() {
            if let Ok(Some(value)) = self.value(place) {
                values.insert(field.name.clone(), value);
            }
        }
        FormAnswer::Accept { values }.or_decline(&self.question)
    }

    /// Takes a line in line mode: for one question after the other, then a yes.
    pub(super) fn step_line(&mut self, line: &str) -> Filled {
        self.error = None;
        let word = line.trim();
        let Some(steps) = &mut self.steps else {
            return Filled::Open;
        };
        steps.at = self.line_at.min(steps.questions.len());
        let Some(step) = steps.now() else {
            return match word {
                "y" | "yes" => Filled::Send(self.step_answers()),
                "n" | "no" => {
                    self.line_at = 0;
                    Filled::Open
                }
                _ => self.wrong("answer y to send it, or n to begin again"),
            };
        };
        let (main, own) = (step.main, step.own);
        let (own_row, skip_row) = (step.own_row(), step.skip_row());
        self.at = main;
        let row = match word {
            "" => return self.wrong(NO_LINE),
            "skip" => skip_row,
            // The number of a row that takes no words by itself.
            _ if own != main && self.set(word) => match self.values.get(main) {
                Some(Filling::OneOf(Some(one))) => *one,
                _ => 0,
            },
            _ if word.parse::<usize>().is_ok() && own != main => return self.wrong(NO_LINE),
            _ => {
                if let Some(Filling::Text(text)) = self.values.get_mut(own) {
                    *text = TextField::new(line);
                }
                own_row
            }
        };
        match self.values.get_mut(if row == own_row { main } else { own }) {
            Some(Filling::SomeOf { chosen, .. }) => chosen.fill(false),
            Some(Filling::Text(text)) if own != main => *text = TextField::default(),
            _ => {}
        }
        self.choose_row(row, false);
        let is_open = |steps: &Steps| steps.now().is_some_and(|step| !self.is_settled(step));
        if self.steps.as_ref().is_some_and(is_open) {
            return self.wrong(NO_LINE);
        }
        self.line_at += 1;
        Filled::Open
    }
}
