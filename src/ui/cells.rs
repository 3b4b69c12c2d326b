//! A backend for terminals that measure some characters differently.
//!
//! Terminals disagree about how many columns characters of several code points take (families,
//! flags, skin tones, variation selectors; see UAX #11 and UTS #51), and about emoji that are newer
//! than they are. After such a character the position of the terminal's cursor is unknown. So the
//! cursor is set again after each of them, and the rest of its row is drawn again. This overwrites
//! columns that the terminal drew too far, and blanks those that it left out.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use unicode_width::UnicodeWidthChar;

use super::text::width;

/// A backend that draws through crossterm and remembers the content of each cell.
pub(super) struct Cells<W: Write> {
    out: CrosstermBackend<W>,
    size: Size,
    shown: Vec<Cell>,
}

impl<W: Write> Cells<W> {
    pub(super) fn new(out: W) -> Cells<W> {
        Cells {
            out: CrosstermBackend::new(out),
            size: Size::default(),
            shown: Vec::new(),
        }
    }

    /// Bytes that move nothing on the screen.
    pub(super) fn out(&mut self) -> &mut CrosstermBackend<W> {
        &mut self.out
    }

    fn forget(&mut self) -> io::Result<()> {
        self.size = self.out.size()?;
        let cells = usize::from(self.size.width) * usize::from(self.size.height);
        self.shown.clear();
        self.shown.resize(cells, Cell::default());
        Ok(())
    }

    fn index(&self, x: u16, y: u16) -> Option<usize> {
        let is_inside = x < self.size.width && y < self.size.height;
        is_inside.then(|| usize::from(y) * usize::from(self.size.width) + usize::from(x))
    }

    /// Stores the content of this cell and blanks the cells that it covers. Returns whether a
    /// character was there that terminals measure differently.
    fn keep(&mut self, x: u16, y: u16, cell: &Cell) -> bool {
        let Some(at) = self.index(x, y) else {
            return false;
        };
        let columns = width(cell.symbol()).max(1);
        let end = (at + columns).min(at + usize::from(self.size.width - x));
        for covered in &mut self.shown[at + 1..end] {
            *covered = cell.clone();
            covered.set_symbol(" ");
        }
        let before = std::mem::replace(&mut self.shown[at], cell.clone());
        is_uncertain(before.symbol())
    }

    /// Draws the row from this column to its end.
    fn row(&mut self, from: u16, y: u16) -> io::Result<()> {
        let mut run: Vec<(u16, Cell)> = Vec::new();
        let mut x = from;
        while let Some(at) = self.index(x, y) {
            let cell = self.shown[at].clone();
            let columns = u16::try_from(width(cell.symbol())).unwrap_or(1).max(1);
            if is_uncertain(cell.symbol()) {
                self.put(&run, y)?;
                run.clear();
                self.apart(x, y, &cell, columns)?;
            } else {
                run.push((x, cell));
            }
            x = x.saturating_add(columns);
        }
        self.put(&run, y)
    }

    /// Draws one such character over blanks. The cursor is set again after it.
    fn apart(&mut self, x: u16, y: u16, cell: &Cell, columns: u16) -> io::Result<()> {
        let mut blank = cell.clone();
        blank.set_symbol(" ");
        let end = x.saturating_add(columns).min(self.size.width);
        let blanks: Vec<(u16, Cell)> = (x..end).map(|x| (x, blank.clone())).collect();
        self.put(&blanks, y)?;
        let mut cell = cell.clone();
        // The character must not reach the next row.
        if x.saturating_add(most_columns(cell.symbol())) > self.size.width {
            let first = cell.symbol().chars().next().unwrap_or(' ');
            cell.set_symbol(first.encode_utf8(&mut [0; 4]));
        }
        self.put(&[(x, cell)], y)
    }

    /// Draws cells of a row. The cursor is set first.
    fn put(&mut self, cells: &[(u16, Cell)], y: u16) -> io::Result<()> {
        match cells {
            [] => Ok(()),
            cells => self.out.draw(cells.iter().map(|(x, cell)| (*x, y, cell))),
        }
    }
}

impl<W: Write> Backend for Cells<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let content: Vec<(u16, u16, &Cell)> = content.collect();
        // The first cell of each row from which on it is drawn whole.
        let mut whole: Vec<(u16, u16)> = Vec::new();
        for (x, y, cell) in &content {
            let before = self.keep(*x, *y, cell);
            let is_new = whole.last().is_none_or(|(_, row)| row != y);
            // A replaced character may leave parts on the screen that nothing else overwrites.
            if is_new && (before || is_uncertain(cell.symbol())) {
                whole.push((*x, *y));
            }
        }
        if whole.is_empty() {
            return self.out.draw(content.into_iter());
        }
        let is_apart = |x: u16, y: u16| whole.iter().any(|(from, row)| *row == y && x >= *from);
        let plain = content.into_iter().filter(|(x, y, _)| !is_apart(*x, *y));
        self.out.draw(plain)?;
        whole.iter().try_for_each(|(from, y)| self.row(*from, *y))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.out.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.out.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.forget()?;
        self.out.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.forget()?;
        self.out.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.out.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.out.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.out)
    }
}

/// Returns whether terminals disagree about the columns of the character.
fn is_uncertain(symbol: &str) -> bool {
    let mut chars = symbol.chars();
    match chars.next() {
        None | Some('\0'..='\u{2ff}') if symbol.len() <= 2 => false,
        Some('\u{1f000}'..='\u{1fbff}') => true,
        _ => chars.any(|c| changes_width(c) || c.width().unwrap_or(0) > 0),
    }
}

/// Returns whether this is a joiner, a variation selector, the keycap or a tag.
fn changes_width(c: char) -> bool {
    matches!(
        c,
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{20e3}' | '\u{e0020}'..='\u{e007f}'
    )
}

/// Returns the columns on the terminal that gives the character the most.
fn most_columns(symbol: &str) -> u16 {
    let of = |c: char| match c {
        '\u{1f000}'..='\u{1fbff}' | '\u{fe0f}' | '\u{20e3}' => 2,
        c => c.width().unwrap_or(0),
    };
    u16::try_from(symbol.chars().map(of).sum::<usize>()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_terminals_measure_differently_are_uncertain() {
        for symbol in [
            "👨\u{200d}👩\u{200d}👧",
            "🇩🇪",
            "👍🏽",
            "❤\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "🫠",
        ] {
            assert!(is_uncertain(symbol), "{symbol}");
        }
        for symbol in ["", " ", "a", "é", "e\u{301}", "日", "─", "▌", "…"] {
            assert!(!is_uncertain(symbol), "{symbol}");
        }
        assert_eq!(most_columns("👨\u{200d}👩\u{200d}👧"), 6);
        assert_eq!(most_columns("🇩🇪"), 4);
    }
}
