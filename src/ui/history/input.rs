//! One line that is typed at its end: the filter and a new title.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use crate::ui::text::clean_line;

const MAX_BYTES: usize = 400;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineInput {
    text: String,
}

impl LineInput {
    pub(super) fn new(text: &str) -> LineInput {
        let mut input = LineInput::default();
        input.push(text);
        input
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends text. The part that does not fit is left out.
    pub(super) fn push(&mut self, text: &str) {
        for grapheme in clean_line(text).graphemes(true) {
            if self.text.len() + grapheme.len() > MAX_BYTES {
                break;
            }
            self.text.push_str(grapheme);
        }
    }

    /// Returns whether the key belongs to the line; it may be changed then.
    pub(super) fn key(&mut self, key: &KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char('w') if control => self.cut_word(),
            KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => {
                return false;
            }
            KeyCode::Char(c) => self.push(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => {
                let last = self.text.grapheme_indices(true).next_back();
                let end = last.map_or(0, |(at, _)| at);
                self.text.truncate(end);
            }
            _ => return false,
        }
        true
    }

    fn cut_word(&mut self) {
        let kept = self.text.trim_end();
        let end = kept.rfind(' ').map_or(0, |at| at + 1);
        self.text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_edited_as_it_is_displayed() {
        let mut input = LineInput::new("fix\n\u{1b}[31mthe e\u{301}");
        assert_eq!(input.text(), "fix ␛[31mthe e\u{301}");
        input.key(&KeyCode::Backspace.into());
        assert_eq!(input.text(), "fix ␛[31mthe ");
        input.key(&KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(input.text(), "fix ");
        assert!(!input.key(&KeyCode::Enter.into()));
        input.push(&"日".repeat(1_000));
        assert!(input.text().len() <= MAX_BYTES);
    }
}
