//! A field for a key, typed or pasted. The screen shows only its length.
//!
//! Invariant: the key is in no box, draft, log or debug output; the only way out is
//! [`Typed::Keep`].

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::FirstRun;

/// The keys of the field.
pub const KEY_ENTRY_KEYS: &str = "Enter tries and stores it · Ctrl+U clears · Esc back";

/// Maximum length of a key.
const MAX_BYTES: usize = 16 * 1024;

/// A field in which a key is typed.
pub struct KeyEntry {
    pub provider: String,
    typed: String,
    /// The model to use as soon as the key is stored.
    pub model: Option<String>,
    /// The first screen, which returns when no key is given.
    pub back: Option<FirstRun>,
}

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry")
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

/// The result of a key press.
#[derive(PartialEq, Eq)]
pub enum Typed {
    Nothing,
    /// Store the key.
    Keep(String),
    /// No key is given.
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

    /// Returns the number of typed characters.
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

    /// Pastes a key, without line ends around it. Returns false for several lines: they are not
    /// one key.
    pub fn paste(&mut self, text: &str) -> bool {
        let text = text.trim();
        let is_key = !text.contains(['\r', '\n']);
        if is_key {
            text.chars().for_each(|c| self.push(c));
        }
        is_key
    }

    fn push(&mut self, c: char) {
        if !c.is_control() && self.typed.len() + c.len_utf8() <= MAX_BYTES {
            self.typed.push(c);
        }
    }
}
