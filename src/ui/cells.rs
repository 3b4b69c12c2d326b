//! What is drawn, as cells on a terminal that may measure a character otherwise.
//!
//! Terminals disagree about how many columns characters of several code points take (families,
//! flags, skin tones, variation selectors; see UAX #11 and UTS #51), and about emoji that are
//! newer than they are. Where the terminal's cursor then stands nobody knows. So behind each such
//! character the cursor is put where it belongs, and the rest of its row is drawn with it: what
//! the terminal drew too far is written over, and what it left out is blank.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use unicode_width::UnicodeWidthChar;

use super::text::width;

/// Draws through crossterm, and remembers what stands in each cell.
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

    /// What stands in this cell from now on, and nothing in those that it covers. Whether one stood
    /// there that terminals measure differently.
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

    /// One character, with blanks below it, and the cursor put anew behind it.
    fn apart(&mut self, x: u16, y: u16, cell: &Cell, columns: u16) -> io::Result<()> {
        let mut blank = cell.clone();
        blank.set_symbol(" ");
        let end = x.saturating_add(columns).min(self.size.width);
        let blanks: Vec<(u16, Cell)> = (x..end).map(|x| (x, blank.clone())).collect();
        self.put(&blanks, y)?;
        let mut cell = cell.clone();
        // It must not reach the next row.
        if x.saturating_add(most_columns(cell.symbol())) > self.size.width {
            let first = cell.symbol().chars().next().unwrap_or(' ');
            cell.set_symbol(first.encode_utf8(&mut [0; 4]));
        }
        self.put(&[(x, cell)], y)
    }

    /// Begins with the cursor put anew.
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
            // One that goes has parts left that no one else writes over.
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

/// Not all terminals give it as many columns.
fn is_uncertain(symbol: &str) -> bool {
    let mut chars = symbol.chars();
    match chars.next() {
        None | Some('\0'..='\u{2ff}') if symbol.len() <= 2 => false,
        Some('\u{1f000}'..='\u{1fbff}') => true,
        _ => chars.any(|c| changes_width(c) || c.width().unwrap_or(0) > 0),
    }
}

/// Joiners, variation selectors, the keycap, tags.
fn changes_width(c: char) -> bool {
    matches!(
        c,
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{20e3}' | '\u{e0020}'..='\u{e007f}'
    )
}

/// The columns on the terminal that gives it the most.
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
    fn what_terminals_measure_differently_is_known() {
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
