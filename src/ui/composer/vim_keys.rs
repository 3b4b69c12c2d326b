//! Vim's keys in the box: the keys that the engine takes, and their effect on the buffer.

use std::ops::Range;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::vim::{Key, Mode, Vim};
use super::{Composer, ComposerOutcome};

impl Composer {
    /// Turns vim's keys on or off.
    pub fn set_vim(&mut self, is_on: bool) {
        self.vim = is_on.then(Vim::default);
        self.buffer.group(is_on);
    }

    /// Returns whether vim's keys are on.
    pub fn is_vim(&self) -> bool {
        self.vim.is_some()
    }

    /// Returns whether letters are commands of vim.
    pub(super) fn is_commanding(&self) -> bool {
        self.vim.as_ref().is_some_and(Vim::is_commanding)
    }

    /// Makes letters text, because they come from elsewhere or another text is in the box.
    pub fn begin_insert(&mut self) {
        if let Some(vim) = &mut self.vim {
            vim.start_insert();
            self.buffer.group(false);
            self.buffer.group(true);
        }
    }

    /// Returns the selected bytes of the text.
    pub(super) fn selection(&self) -> Option<Range<usize>> {
        let vim = self.vim.as_ref()?;
        vim.selection(self.buffer.text(), self.buffer.cursor())
    }

    /// Takes a key for the engine. `None`: the key has its usual effect.
    pub(super) fn vim_key(&mut self, key: &KeyEvent) -> Option<ComposerOutcome> {
        let key = self.engine_key(key).filter(|_| !self.keys.has_prefix())?;
        let vim = self.vim.as_mut()?;
        let page = vim.key(self.buffer.text(), self.buffer.cursor(), key)?;
        self.buffer
            .perform(page.changed_at, &page.steps, page.cursor);
        self.buffer.group(vim.mode() == Mode::Insert);
        if !page.steps.is_empty() {
            self.history.stop();
        }
        self.keys.forget();
        self.goal = None;
        self.popup = None;
        self.settle();
        Some(ComposerOutcome::Moved)
    }

    /// Puts the cursor where it may be after something else changed the text or moved it.
    pub(super) fn settle_after(&mut self, before: (u64, usize)) {
        if (self.buffer.revision(), self.buffer.cursor()) != before
            && let Some(vim) = &mut self.vim
        {
            vim.forget_place();
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some(vim) = &self.vim {
            let cursor = self.buffer.cursor();
            let settled = vim.settled(self.buffer.text(), cursor);
            if settled != cursor {
                self.buffer.move_to(settled);
            }
        }
    }

    fn engine_key(&self, key: &KeyEvent) -> Option<Key> {
        let vim = self.vim.as_ref()?;
        let held = key.modifiers - KeyModifiers::SHIFT;
        let is_bare = key.modifiers.is_empty();
        if !vim.is_commanding() {
            return (key.code == KeyCode::Esc && is_bare).then_some(Key::Esc);
        }
        let is_within = vim.is_pending() || matches!(vim.mode(), Mode::Visual { .. });
        Some(match key.code {
            KeyCode::Esc if is_bare => Key::Esc,
            KeyCode::Char('r') if held == KeyModifiers::CONTROL => Key::Redo,
            // Help.
            KeyCode::Char('?') if self.is_empty() && !is_within => return None,
            KeyCode::Char(c) if held.is_empty() => Key::Char(c),
            _ if !is_bare => return None,
            KeyCode::Enter if vim.takes_enter() => Key::Char('\n'),
            KeyCode::Left | KeyCode::Backspace => Key::Char('h'),
            KeyCode::Right => Key::Char('l'),
            KeyCode::Up if is_within => Key::Char('k'),
            KeyCode::Down if is_within => Key::Char('j'),
            KeyCode::Home if !self.is_empty() && !vim.is_pending() => Key::Char('0'),
            KeyCode::End if !self.is_empty() => Key::Char('$'),
            KeyCode::Delete => Key::Char('x'),
            _ => return None,
        })
    }
}
