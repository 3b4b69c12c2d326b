//! The changes since the last commit, for a review file by file.

use std::collections::HashSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::ui::changes::{FileChange, Side};

/// Files, which of them is open, and where.
#[derive(Debug)]
pub struct Review {
    pub files: Vec<FileChange>,
    pub at: usize,
    /// The first line of the file that is shown.
    pub top: usize,
    /// The list of files is focused. A narrow screen shows only the focused part.
    pub in_list: bool,
    /// Reviewed files.
    pub seen: HashSet<String>,
    /// Rows of the file that were last drawn.
    pub rows: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reviewed {
    Nothing,
    Closed,
    /// Open the person's editor: the file, below the repository's root, and the line.
    Edit(String, usize),
}

impl Review {
    /// Makes a review with the focus on the list.
    pub fn new(files: Vec<FileChange>) -> Review {
        Review {
            files,
            at: 0,
            top: 0,
            in_list: true,
            seen: HashSet::new(),
            rows: 10,
        }
    }

    pub fn scroll(&mut self, up: bool, lines: usize) {
        let last = self
            .files
            .get(self.at)
            .map_or(0, |f| f.lines.len().saturating_sub(1));
        self.top = match up {
            true => self.top.saturating_sub(lines),
            false => (self.top + lines).min(last),
        };
    }

    fn go_to(&mut self, at: usize) {
        self.at = at.min(self.files.len().saturating_sub(1));
        self.top = 0;
    }

    /// Returns the line number in the new file of the first visible line.
    fn line(&self) -> usize {
        let lines = self.files.get(self.at).map_or(&[][..], |f| &f.lines);
        let mut below = lines.iter().skip(self.top);
        below
            .find(|l| l.side != Side::Removed)
            .map_or(1, |l| l.number.max(1))
    }

    pub fn key(&mut self, key: &KeyEvent) -> Reviewed {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = self.rows.saturating_sub(2).max(1);
        match key.code {
            KeyCode::Char('c') if ctrl => return Reviewed::Closed,
            KeyCode::Esc if !self.in_list => self.in_list = true,
            KeyCode::Esc | KeyCode::Char('q') => return Reviewed::Closed,
            KeyCode::Tab | KeyCode::Char('l') | KeyCode::Enter => self.in_list = !self.in_list,
            KeyCode::Right | KeyCode::Char('n') => self.go_to(self.at + 1),
            KeyCode::Left | KeyCode::Char('p') => self.go_to(self.at.saturating_sub(1)),
            KeyCode::Char('e') => {
                if let Some(file) = self.files.get(self.at) {
                    return Reviewed::Edit(file.path.clone(), self.line());
                }
            }
            KeyCode::Char(' ') => self.mark(),
            KeyCode::Char(']') => self.hunk(false),
            KeyCode::Char('[') => self.hunk(true),
            KeyCode::Down | KeyCode::Char('j') if self.in_list => self.go_to(self.at + 1),
            KeyCode::Up | KeyCode::Char('k') if self.in_list => {
                self.go_to(self.at.saturating_sub(1))
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll(false, 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(true, 1),
            KeyCode::PageDown => self.scroll(false, page),
            KeyCode::PageUp => self.scroll(true, page),
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll(false, usize::MAX / 2),
            _ => {}
        }
        Reviewed::Nothing
    }

    /// Marks the file as seen and goes to the next that is not, or removes the mark.
    fn mark(&mut self) {
        let Some(path) = self.files.get(self.at).map(|f| f.path.clone()) else {
            return;
        };
        if self.seen.remove(&path) {
            return;
        }
        self.seen.insert(path);
        let order = (self.at + 1..self.files.len()).chain(0..self.at);
        let next = order
            .into_iter()
            .find(|at| !self.seen.contains(&self.files[*at].path));
        if let Some(next) = next {
            self.go_to(next);
        }
    }

    fn hunk(&mut self, backwards: bool) {
        let lines = self.files.get(self.at).map_or(&[][..], |f| &f.lines);
        let is_hunk = |at: &usize| lines.get(*at).is_some_and(|l| l.side == Side::Hunk);
        let found = match backwards {
            true => (0..self.top).rev().find(is_hunk),
            false => (self.top + 1..lines.len()).find(is_hunk),
        };
        self.top = found.unwrap_or(self.top);
    }
}
