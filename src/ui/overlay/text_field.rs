//! A short text with a cursor. It treats characters as people see them (graphemes).
//!
//! Invariant: the text is at most [`MAX_BYTES`] and has no control characters but line ends.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// Maximum length. A longer text belongs in a file.
pub const MAX_BYTES: usize = 16 * 1024;

/// A field for a short text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextField {
    text: String,
    cursor: usize,
}

impl TextField {
    /// Makes a field with the cursor at the end of the text.
    pub fn new(text: &str) -> TextField {
        let mut field = TextField::default();
        field.insert(text);
        field
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before and after the cursor.
    pub fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Inserts text at the cursor. The part that does not fit is left out.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        for c in text.chars().filter(|c| *c == '\n' || !c.is_control()) {
            if self.text.len() + c.len_utf8() > MAX_BYTES {
                return;
            }
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Takes a key. Returns false when the field does not use it.
    pub fn key(&mut self, key: &KeyEvent) -> bool {
        let held = |held| key.modifiers.contains(held);
        let (ctrl, alt) = (held(KeyModifiers::CONTROL), held(KeyModifiers::ALT));
        match key.code {
            KeyCode::Left if ctrl || alt => self.cursor = self.word_before(),
            KeyCode::Right if ctrl || alt => self.cursor = self.word_behind(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.behind(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Char('a') if ctrl => self.cursor = 0,
            KeyCode::Char('e') if ctrl => self.cursor = self.text.len(),
            KeyCode::Char('u') if ctrl => self.cut(0, self.cursor),
            KeyCode::Char('k') if ctrl => self.cut(self.cursor, self.text.len()),
            KeyCode::Char('w') if ctrl => self.cut(self.word_before(), self.cursor),
            KeyCode::Char('j') if ctrl => self.insert("\n"),
            KeyCode::Enter if alt || held(KeyModifiers::SHIFT) => self.insert("\n"),
            KeyCode::Backspace if ctrl || alt => self.cut(self.word_before(), self.cursor),
            KeyCode::Backspace => self.cut(self.before(), self.cursor),
            KeyCode::Delete => self.cut(self.cursor, self.behind()),
            KeyCode::Char(c) if !ctrl && !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => return false,
        }
        true
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        let mut pieces = self.text[..self.cursor].grapheme_indices(true);
        pieces.next_back().map_or(0, |(at, _)| at)
    }

    fn behind(&self) -> usize {
        let piece = self.text[self.cursor..].graphemes(true).next();
        self.cursor + piece.map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_behind(&self) -> usize {
        let mut words = self.text[self.cursor..].unicode_word_indices();
        let end = |(at, word): (usize, &str)| self.cursor + at + word.len();
        words.next().map_or(self.text.len(), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(field: &mut TextField, code: KeyCode, modifiers: KeyModifiers) -> bool {
        field.key(&KeyEvent::new(code, modifiers))
    }

    #[test]
    fn a_key_moves_and_cuts_whole_characters() {
        let mut field = TextField::new("a漢👨‍👩‍👧e\u{301}");
        let none = KeyModifiers::NONE;
        press(&mut field, KeyCode::Backspace, none);
        assert_eq!(field.parts(), ("a漢👨‍👩‍👧", ""));
        press(&mut field, KeyCode::Left, none);
        assert_eq!(field.parts(), ("a漢", "👨‍👩‍👧"));
        press(&mut field, KeyCode::Delete, none);
        press(&mut field, KeyCode::Home, none);
        press(&mut field, KeyCode::Char('x'), none);
        assert_eq!(field.parts(), ("x", "a漢"));
        press(&mut field, KeyCode::Char('k'), KeyModifiers::CONTROL);
        assert_eq!(field.text(), "x");
        press(&mut field, KeyCode::Right, none);
        assert!(!press(
            &mut field,
            KeyCode::Char('o'),
            KeyModifiers::CONTROL
        ));
    }

    #[test]
    fn words_are_moved_over_and_cut() {
        let mut field = TextField::new("one two three");
        press(&mut field, KeyCode::Left, KeyModifiers::CONTROL);
        assert_eq!(field.parts(), ("one two ", "three"));
        press(&mut field, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(field.parts(), ("one ", "three"));
        press(&mut field, KeyCode::Right, KeyModifiers::ALT);
        assert_eq!(field.parts(), ("one three", ""));
    }

    #[test]
    fn pasted_text_is_bounded_and_loses_control_characters() {
        let mut field = TextField::default();
        field.insert("a\u{1b}[31mb\r\nc\rd\0");
        assert_eq!(field.text(), "a[31mb\nc\nd");
        field.insert(&"漢".repeat(MAX_BYTES));
        assert!(field.text().len() <= MAX_BYTES && field.text().len() > MAX_BYTES - 3);
    }
}
