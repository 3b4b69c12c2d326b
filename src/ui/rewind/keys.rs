//! The keys of the list, and of the lines of a path.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Diff, RewindDid, RewindPane, RewindWhat};
use crate::engine::AfterPlan;

/// The letters that are keys of the list.
const TYPED: &str = "qnj gGtkey";

impl RewindPane {
    /// Returns whether this is one of the list's keys.
    pub fn has_key(&self, typed: char) -> bool {
        TYPED.contains(typed)
    }

    /// Returns the keys that have an effect now, the most important first: a narrow screen has room
    /// for few.
    pub fn keys(&self) -> Vec<&'static str> {
        if self.diff.is_some() {
            return vec!["↑↓ scroll", "Esc list", "? keys", "PgUp/PgDn a page"];
        }
        let mut keys = Vec::new();
        if self.shown.is_some() && self.does_something() {
            keys.push(match (self.what, self.is_yes) {
                (RewindWhat::Both, false) => "y rewind",
                (RewindWhat::Files | RewindWhat::Redo, false) => "y restore",
                (RewindWhat::Both, true) => "Enter rewinds",
                (RewindWhat::Files | RewindWhat::Redo, true) => "Enter restores",
            });
        }
        keys.push("Esc cancel");
        if self.has_rows() {
            keys.extend(["t restore this", "k keep", "e exact"]);
            keys.extend((!self.is_yes).then_some("Enter diff"));
            keys.extend(["? keys", "↑↓ move", "PgUp/PgDn a page"]);
        }
        keys
    }

    /// Takes a key. Of the letters, only keys of the list get here, and `y` does not: it selects,
    /// and Enter confirms.
    pub fn key(&mut self, key: &KeyEvent) -> RewindDid {
        let is_yes = std::mem::take(&mut self.is_yes);
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl && key.code == KeyCode::Char('c') {
            return RewindDid::Closed;
        }
        self.note = None;
        if self.diff.is_some() {
            self.diff_key(key);
            return RewindDid::Nothing;
        }
        let page = self.rows.saturating_sub(2).max(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q' | 'n') => return RewindDid::Closed,
            _ if self.shown.is_none() => {}
            KeyCode::Down | KeyCode::Char('j') => self.step(false, 1),
            KeyCode::Up => self.step(true, 1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(false, page),
            KeyCode::PageUp => self.step(true, page),
            KeyCode::Home | KeyCode::Char('g') => self.step(true, self.items.len()),
            KeyCode::End | KeyCode::Char('G') => self.step(false, self.items.len()),
            KeyCode::Char('t') => self.take(),
            KeyCode::Char('k') => self.keep(),
            KeyCode::Char('e') => {
                self.whole = !self.whole;
                self.shown = None;
                return RewindDid::Plan(self.request(AfterPlan::Show));
            }
            KeyCode::Enter if is_yes && self.is_seen => return self.confirmed(),
            KeyCode::Enter => return self.open_diff(),
            _ => {}
        }
        RewindDid::Nothing
    }

    /// Scrolls some lines up or down, as with the wheel.
    pub fn scroll(&mut self, up: bool, lines: usize) {
        match &mut self.diff {
            Some(diff) if up => diff.top = diff.top.saturating_sub(lines),
            Some(diff) => diff.top += lines,
            None => self.step(up, lines),
        }
    }

    /// Returns the request to restore. The engine restores only if the files still match the
    /// preview.
    fn confirmed(&mut self) -> RewindDid {
        if !self.does_something() {
            self.note = Some("there is nothing to restore".to_string());
            return RewindDid::Nothing;
        }
        let Some(shown) = self.shown.take() else {
            return RewindDid::Nothing;
        };
        let seen = shown.rewinding.before.clone();
        self.items.clear();
        RewindDid::Plan(self.request(match self.what {
            RewindWhat::Both => AfterPlan::HandOver { seen },
            RewindWhat::Files | RewindWhat::Redo => AfterPlan::Do { seen },
        }))
    }

    fn open_diff(&mut self) -> RewindDid {
        let (Some(row), Some(shown)) = (self.row(), &self.shown) else {
            return RewindDid::Nothing;
        };
        let (path, choice) = (row.path.clone(), self.choice(row));
        let diff = Diff {
            path: path.clone(),
            name: row.name.clone(),
            lines: None,
            top: 0,
        };
        let rewinding = Arc::clone(&shown.rewinding);
        self.diff = Some(diff);
        RewindDid::Diff {
            rewinding,
            path,
            choice,
        }
    }

    fn diff_key(&mut self, key: &KeyEvent) {
        let page = self.rows.saturating_sub(2).max(1);
        let Some(diff) = &mut self.diff else {
            return;
        };
        match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.diff = None,
            KeyCode::Down | KeyCode::Char('j') => diff.top += 1,
            KeyCode::Up => diff.top = diff.top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => diff.top += page,
            KeyCode::PageUp => diff.top = diff.top.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => diff.top = 0,
            KeyCode::End | KeyCode::Char('G') => diff.top = usize::MAX / 2,
            _ => {}
        }
    }
}
