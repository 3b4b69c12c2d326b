//! A viewer for text: help, status, the context, output of commands.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

/// The keys of a viewer, the most used first.
pub const VIEWER_KEYS: &str =
    "Esc closes · ↑↓ scroll · PgUp/PgDn ten lines · Home/End first, last line";

/// Lines to read, over the whole conversation.
#[derive(Debug)]
pub struct Viewer {
    pub title: String,
    pub lines: Vec<Line<'static>>,
    /// The first line that is shown, from 0.
    pub top: usize,
    /// The run whose output is shown live.
    pub run: Option<String>,
    /// Sections of the help, shown instead of the lines in as many columns as fit.
    pub sheet: Vec<Section>,
}

/// A part of a sheet that is shown in columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    /// Keys and their descriptions. Without a key, only the words.
    pub rows: Vec<(String, String)>,
}

impl Viewer {
    /// Makes a viewer at its first line.
    pub fn new(title: impl Into<String>, lines: Vec<Line<'static>>) -> Viewer {
        Viewer {
            title: title.into(),
            lines,
            top: 0,
            run: None,
            sheet: Vec::new(),
        }
    }

    /// Scrolls by `lines`. It may go past the end: drawing limits it to the last page.
    pub fn scroll(&mut self, up: bool, lines: usize) {
        self.top = match up {
            true => self.top.saturating_sub(lines),
            false => self.top + lines,
        };
    }

    /// Takes a key. Returns false when the viewer must be closed: the help with every key that does
    /// not scroll.
    pub fn key(&mut self, key: &KeyEvent) -> bool {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => return false,
            KeyCode::Char('c') if ctrl => return false,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(10),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top += 10,
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.top = usize::MAX / 2,
            _ => return self.sheet.is_empty(),
        }
        true
    }
}
