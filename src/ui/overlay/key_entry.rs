//! A key that is typed or pasted. What is shown of it is how long it is.
//!
//! Invariant: it is in no box, draft, log or debug output; the only way out is [`Typed::Keep`].

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::FirstRun;

/// Longer is no key.
const MAX_BYTES: usize = 16 * 1024;

/// Where a key is typed.
pub struct KeyEntry {
    pub provider: String,
    typed: String,
    /// Begun with, as soon as the key is kept.
    pub model: Option<String>,
    /// The first screen, which comes back when no key is given.
    pub back: Option<FirstRun>,
}

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry")
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

/// What a key press came to.
#[derive(PartialEq, Eq)]
pub enum Typed {
    Nothing,
    /// It is to be kept.
    Keep(String),
    /// None is given.
    Back,
}

impl KeyEntry {
    pub fn new(provider: &str) -> KeyEntry {
        KeyEntry {
            provider: provider.to_string(),
            typed: String::new(),
            model: None,
            back: None,
        }
    }

    /// How many characters were typed.
    pub fn chars(&self) -> usize {
        self.typed.chars().count()
    }

    pub fn key(&mut self, key: &KeyEvent) -> Typed {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Typed::Back,
            KeyCode::Char('c' | 'd') if ctrl => return Typed::Back,
            KeyCode::Char('u') if ctrl => self.typed.clear(),
            KeyCode::Enter if self.typed.trim().is_empty() => {}
            KeyCode::Enter => return Typed::Keep(std::mem::take(&mut self.typed)),
            KeyCode::Backspace => drop(self.typed.pop()),
            KeyCode::Char(c) if !ctrl => self.push(c),
            _ => {}
        }
        Typed::Nothing
    }

    /// Line ends around it are no part of a key.
    pub fn paste(&mut self, text: &str) {
        text.trim().chars().for_each(|c| self.push(c));
    }

    fn push(&mut self, c: char) {
        if !c.is_control() && self.typed.len() + c.len_utf8() <= MAX_BYTES {
            self.typed.push(c);
        }
    }
}
