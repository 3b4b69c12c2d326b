//! Up and Down through the rows of the text and on into earlier prompts, and the search in
//! these.

use std::time::Instant;

use crossterm::event::KeyEvent;

use super::{Composer, ComposerContext, ComposerOutcome, clean, wrap};
use crate::ui::keys::{Action, Context, Pressed};

/// Nobody looks for more.
pub(super) const MAX_SEARCH_CHARS: usize = 200;

impl Composer {
    pub(super) fn up(
        &mut self,
        goal: Option<usize>,
        around: &ComposerContext<'_>,
    ) -> ComposerOutcome {
        let (row, column) = self.place();
        if row > 0 && !self.history.is_browsing() {
            return self.go_to_row(row - 1, goal.unwrap_or(column));
        }
        if around.editing {
            return ComposerOutcome::OlderQueued;
        }
        let now = self.typed_now();
        match self.history.older(now) {
            Some(prompt) => {
                let prompt = clean(prompt);
                self.buffer.set(&prompt);
                ComposerOutcome::Moved
            }
            None => ComposerOutcome::Nothing,
        }
    }

    pub(super) fn down(
        &mut self,
        goal: Option<usize>,
        around: &ComposerContext<'_>,
    ) -> ComposerOutcome {
        let (row, column) = self.place();
        if row + 1 < self.rows.len() && !self.history.is_browsing() {
            return self.go_to_row(row + 1, goal.unwrap_or(column));
        }
        if around.editing {
            return ComposerOutcome::NewerQueued;
        }
        match self.history.newer() {
            Some(Ok(prompt)) => {
                let prompt = clean(prompt);
                self.buffer.set(&prompt);
            }
            Some(Err(draft)) => {
                self.buffer.set(&draft.text);
                self.buffer.move_to(draft.cursor);
            }
            None => return ComposerOutcome::Nothing,
        }
        ComposerOutcome::Moved
    }

    /// Shows the newest prompt that was sent, from an empty box.
    pub fn older_prompt(&mut self, around: &ComposerContext<'_>) -> ComposerOutcome {
        let around = ComposerContext {
            editing: false,
            ..*around
        };
        self.up(None, &around)
    }

    fn place(&mut self) -> (usize, usize) {
        const NEVER_DRAWN: u16 = 80;
        let width = self.laid_out.map_or(NEVER_DRAWN, |(_, width)| width);
        self.layout(width);
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        wrap::place(text, &self.chips, &self.rows, cursor)
    }

    fn go_to_row(&mut self, row: usize, column: usize) -> ComposerOutcome {
        let at = wrap::at(self.buffer.text(), &self.chips, &self.rows, row, column);
        self.buffer.move_to(at);
        self.goal = Some(column);
        self.popup = None;
        ComposerOutcome::Moved
    }

    pub(super) fn search_key(
        &mut self,
        key: &KeyEvent,
        now: Instant,
        around: &ComposerContext<'_>,
    ) -> ComposerOutcome {
        let pressed = self.keys.press(key, now, &[Context::Searching]);
        let Some(search) = &mut self.search else {
            return ComposerOutcome::Nothing;
        };
        match pressed {
            Pressed::Act(Action::Older) => search.older(&self.history),
            Pressed::Act(Action::Newer) => search.newer(&self.history),
            Pressed::Act(Action::Backspace) => {
                search.query.pop();
                search.retype(&self.history);
            }
            Pressed::Type(c) if !c.is_control() => {
                if search.query.chars().count() < MAX_SEARCH_CHARS {
                    search.query.push_str(&clean(c.encode_utf8(&mut [0; 4])));
                }
                search.retype(&self.history);
            }
            Pressed::Act(Action::Close) => {
                let before = std::mem::take(&mut search.before);
                self.search = None;
                self.buffer.set(&before.text);
                self.buffer.move_to(before.cursor);
                return ComposerOutcome::Moved;
            }
            Pressed::Act(Action::Accept) => {
                self.search = None;
                return ComposerOutcome::Moved;
            }
            // Any other key accepts the found prompt, and then has its usual effect.
            _ => {
                self.search = None;
                return self.typing_key(key, now, around);
            }
        }
        self.show_found();
        ComposerOutcome::Moved
    }

    /// Shows the found prompt in the box, or the text that was typed before.
    pub(super) fn show_found(&mut self) {
        if let Some(search) = &self.search {
            let found = search.found.and_then(|at| self.history.get(at));
            let text = found.map_or_else(|| search.before.text.clone(), clean);
            self.buffer.set(&text);
        }
    }
}
