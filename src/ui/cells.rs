//! A backend for terminals that measure some characters differently.
//!
//! Terminals disagree about how many columns characters of several code points take (families,
//! flags, skin tones, variation selectors; see UAX #11 and UTS #51), and about emoji that are newer
//! than they are. After such a character the position of the terminal's cursor is unknown. So the
//! cursor is set again after each of them, and the rest of its row is drawn again. This overwrites
//! columns that the terminal drew too far, and blanks those that it left out.
//!
//! Rows that moved up, as in a growing answer, are scrolled by the terminal, so only new rows are
//! written.

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
    /// The terminal may scroll rows: its scrollback does not get them.
    scrolls: bool,
}

/// Fewer rows than this are written again instead of being scrolled.
const MIN_SCROLLED_ROWS: usize = 4;

/// Maximum number of unchanged cells between changed ones that are written again.
const MAX_REPEATED: u16 = 5;

/// Rows of the screen that moved up. `top` and `bottom` (exclusive) are the rows that scroll by
/// `by`: the last `by` of them are blank afterwards.
#[derive(Debug, PartialEq, Eq)]
struct ScrolledRows {
    top: usize,
    bottom: usize,
    by: usize,
}

impl ScrolledRows {
    /// Returns the rows whose scrolling saves the most.
    fn find(before: &[Cell], after: &[Cell], columns: usize) -> Option<ScrolledRows> {
        let before: Vec<&[Cell]> = before.chunks(columns).collect();
        let after: Vec<&[Cell]> = after.chunks(columns).collect();
        let changed: Vec<bool> = after.iter().zip(&before).map(|(a, b)| a != b).collect();
        let mut best = None;
        let mut most = MIN_SCROLLED_ROWS - 1;
        for by in 1..after.len() {
            let mut top = 0;
            while top + by < after.len() {
                let rows = after[top..].iter().zip(&before[top + by..]);
                let count = rows.take_while(|(after, before)| after == before).count();
                let bottom = top + count + by;
                let saved = changed[top..top + count].iter().filter(|c| **c).count();
                let lost = changed[top + count..bottom].iter().filter(|c| !**c).count();
                if saved.saturating_sub(lost) > most {
                    most = saved - lost;
                    best = Some(ScrolledRows { top, bottom, by });
                }
                top += count + 1;
            }
        }
        best
    }
}

impl<W: Write> Cells<W> {
    pub(super) fn new(out: W, scrolls: bool) -> Cells<W> {
        Cells {
            scrolls,
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

    /// Scrolls rows of the terminal, which shows `before`, and draws what differs then.
    fn scroll(&mut self, mut before: Vec<Cell>, rows: &ScrolledRows) -> io::Result<()> {
        let columns = usize::from(self.size.width);
        let ScrolledRows { top, bottom, by } = *rows;
        // A line feed in the last row of a region scrolls it on every terminal.
        let region = format!("\x1b[{};{bottom}r\x1b[{bottom};1H", top + 1);
        write!(self.out, "{region}{}\x1b[r", "\n".repeat(by))?;
        before[top * columns..bottom * columns].rotate_left(by * columns);
        before[(bottom - by) * columns..bottom * columns].fill(Cell::EMPTY);
        let mut changed = Vec::new();
        let mut whole = Vec::new();
        let after = self.shown.chunks(columns);
        for (y, (before, after)) in (0..).zip(before.chunks(columns).zip(after)) {
            let is_wide = |cell: &Cell| is_uncertain(cell.symbol()) || width(cell.symbol()) != 1;
            if before == after {
                continue;
            }
            if before.iter().chain(after).any(is_wide) {
                whole.push(y);
                continue;
            }
            let mut next = 0;
            for x in 0..self.size.width {
                let at = usize::from(x);
                if before[at] == after[at] {
                    continue;
                }
                // Some unchanged cells are shorter than setting the cursor.
                let first = if x - next <= MAX_REPEATED { next } else { x };
                changed.extend((first..=x).map(|x| (x, y, &after[usize::from(x)])));
                next = x + 1;
            }
        }
        self.out.draw(changed.into_iter())?;
        whole.into_iter().try_for_each(|y| self.row(0, y))
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
        let columns = usize::from(self.size.width);
        let is_much =
            self.scrolls && columns > 0 && content.len() > columns * MIN_SCROLLED_ROWS / 2;
        let before = is_much.then(|| self.shown.clone());
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
        if let Some(before) = before
            && let Some(rows) = ScrolledRows::find(&before, &self.shown, columns)
        {
            return self.scroll(before, &rows);
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
    use std::cell::RefCell;
    use std::num::NonZero;
    use std::rc::Rc;

    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};

    use super::*;

    const AREA: Rect = Rect::new(0, 0, 20, 12);

    fn page(lines: &[String]) -> Buffer {
        let mut page = Buffer::empty(AREA);
        for (y, line) in (0..AREA.height).zip(lines) {
            let style = match line.len() % 3 {
                0 => Style::new().fg(Color::Red),
                _ => Style::new(),
            };
            page.set_string(0, y, line, style);
        }
        page
    }

    /// The bytes that a terminal got.
    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Draws pages one after the other. Returns the bytes of each.
    fn drawn(pages: &[Buffer], scrolls: bool) -> Vec<Vec<u8>> {
        let written = Written::default();
        let mut cells = Cells::new(written.clone(), scrolls);
        cells.size = AREA.as_size();
        cells.shown = vec![Cell::default(); usize::from(AREA.width) * usize::from(AREA.height)];
        let mut before = Buffer::empty(AREA);
        let drawn = pages.iter().map(|page| {
            cells.draw(before.diff(page).into_iter()).unwrap();
            before = page.clone();
            written.0.take()
        });
        drawn.collect()
    }

    fn look(parser: &vt100::Parser) -> Vec<String> {
        let cell = |y, x| {
            parser
                .screen()
                .cell(y, x)
                .map(|c| (c.contents().to_string(), c.fgcolor()))
        };
        let row = |y| {
            (0..AREA.width).map(move |x| {
                let (text, color) = cell(y, x).unwrap();
                // A blank cell may be written or not.
                if text.trim().is_empty() {
                    return " ".to_string();
                }
                format!("{text}{color:?}")
            })
        };
        (0..AREA.height).map(|y| row(y).collect()).collect()
    }

    fn terminal() -> vt100::Parser {
        let size = |n| NonZero::new(n).unwrap();
        vt100::Parser::new(size(AREA.height), size(AREA.width), 0)
    }

    #[test]
    fn rows_that_move_up_are_not_written_again() {
        let lines = |from: usize| -> Vec<String> {
            let text = (from..from + 10).map(|n| format!("row number {n} of it"));
            text.chain(["".into(), "the status line".into()]).collect()
        };
        let pages = [page(&lines(0)), page(&lines(2))];
        let bytes = drawn(&pages, true).remove(1);
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.contains("\u{1b}[1;10r") && text.len() < 120,
            "{text:?}"
        );
        assert!(!text.contains("row number 9 ") && text.contains("row number 11"));
        // What is scrolled out would stay in the terminal's scrollback.
        let written = String::from_utf8(drawn(&pages, false).remove(1)).unwrap();
        assert!(!written.contains("\u{1b}[1;10r"), "{written:?}");
    }

    proptest! {
        #[test]
        fn scrolling_shows_what_drawing_shows(
            texts in proptest::collection::vec("[ab日]{0,4}|row [a-c]{3,12}|[👍x]{1,3}", 60),
            pages in proptest::collection::vec((0..40usize, 4..13usize, 0..3usize), 1..8),
        ) {
            let page = |(from, count, still): &(usize, usize, usize)| {
                let still = (0..*still).map(|n| format!("still {n}"));
                let rows = texts[*from..from + count].iter().cloned();
                page(&still.chain(rows).collect::<Vec<_>>())
            };
            let pages: Vec<Buffer> = pages.iter().map(page).collect();
            let (mut scrolled, mut written) = (terminal(), terminal());
            for (one, other) in drawn(&pages, true).iter().zip(drawn(&pages, false)) {
                scrolled.process(one);
                written.process(&other);
                prop_assert_eq!(look(&scrolled), look(&written));
            }
        }
    }

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
