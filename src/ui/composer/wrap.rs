//! The text in rows of a width, and the row and column of the cursor.
//!
//! Rows break after a blank where possible. One column is left free, so that the cursor always has
//! a place.

use unicode_width::UnicodeWidthStr;

use super::buffer::pieces;
use super::chips::{Chips, is_chip};

const TAB_COLUMNS: usize = 4;

/// The bytes of the text that are on one row, without a line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub start: usize,
    pub end: usize,
}

/// Returns the columns that a piece takes.
pub(super) fn columns(piece: &str, chips: &Chips) -> usize {
    match piece.chars().next() {
        Some('\t') => TAB_COLUMNS,
        Some(c) if is_chip(c) => chips.label(c).map_or(0, |label| label.width()),
        _ => piece.width(),
    }
}

/// Splits the text into rows: at least one, and a new one after each line end.
pub(super) fn rows(text: &str, chips: &Chips, width: u16) -> Vec<Row> {
    let width = usize::from(width).saturating_sub(1).max(1);
    let mut rows = Vec::new();
    let mut start = 0;
    let mut used = 0;
    // The last possible break of the row, and the columns before it.
    let mut blank: Option<(usize, usize)> = None;
    for (at, piece) in pieces(text) {
        if piece == "\n" {
            rows.push(Row { start, end: at });
            (start, used, blank) = (at + 1, 0, None);
            continue;
        }
        let columns = columns(piece, chips).min(width);
        if used + columns > width {
            let (end, before) = blank.unwrap_or((at, used));
            rows.push(Row { start, end });
            (start, used, blank) = (end, used - before, None);
        }
        used += columns;
        if piece == " " || piece == "\t" {
            blank = Some((at + piece.len(), used));
        }
    }
    rows.push(Row {
        start,
        end: text.len(),
    });
    rows
}

/// Returns the row and the column of a position in the text.
pub(super) fn place(text: &str, chips: &Chips, rows: &[Row], at: usize) -> (usize, usize) {
    let row = rows.iter().rposition(|row| row.start <= at).unwrap_or(0);
    let start = rows.get(row).map_or(0, |row| row.start);
    let before = &text[start..at.max(start)];
    let column = pieces(before).map(|(_, piece)| columns(piece, chips)).sum();
    (row, column)
}

/// Returns the position in the text nearest to a column of a row.
pub(super) fn at(text: &str, chips: &Chips, rows: &[Row], row: usize, column: usize) -> usize {
    let Some(Row { start, end }) = rows.get(row).copied() else {
        return text.len();
    };
    let mut used = 0;
    for (at, piece) in pieces(&text[start..end]) {
        used += columns(piece, chips);
        // The end of a wrapped row is the beginning of the next.
        let last =
            start + at + piece.len() == end && rows.get(row + 1).is_some_and(|r| r.start == end);
        if used > column || last {
            return start + at;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: u16) -> Vec<&str> {
        let rows = rows(text, &Chips::default(), width);
        rows.iter().map(|row| &text[row.start..row.end]).collect()
    }

    #[test]
    fn rows_break_at_blanks_and_by_width() {
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("a\n\nb\n", 10), ["a", "", "b", ""]);
        assert_eq!(wrapped("fix the parser", 9), ["fix the ", "parser"]);
        assert_eq!(wrapped("abcdefgh", 5), ["abcd", "efgh"]);
        assert_eq!(wrapped("日本語", 5), ["日本", "語"]);
        assert_eq!(wrapped("日本", 2), ["日", "本"]);
        assert_eq!(wrapped("a\tb", 5), ["a", "\t", "b"]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn places_go_both_ways() {
        let chips = Chips::default();
        let text = "fix 日本 the parser\nx";
        for width in 2..30 {
            let rows = rows(text, &chips, width);
            for (byte, _) in pieces(text) {
                let (row, column) = place(text, &chips, &rows, byte);
                assert!(
                    column < usize::from(width).max(3),
                    "{width} {byte} {column}"
                );
                assert_eq!(at(text, &chips, &rows, row, column), byte, "{width}");
            }
        }
    }
}
