//! A table of figures for a terminal, adapted to its width, with one line per row.
//!
//! On a narrow terminal, the cells first get their short form. Then less important columns are
//! left out, and then the names lose their beginnings. Without a terminal the table is complete.

use std::io::IsTerminal;

use unicode_width::UnicodeWidthStr;

/// Space between two columns.
const GAP: usize = 2;

/// Minimum width of a cut name.
const LEAST_NAME: usize = 8;

/// Width to which names are cut before a column is left out.
const ENOUGH_OF_NAME: usize = 20;

/// A column of figures.
pub(super) struct Column {
    pub head: &'static str,
    /// Minimum width.
    pub width: usize,
    /// Priority for leaving the column out: the largest first, 0 never.
    pub left_out: u8,
}

/// A cell with a long and a short text.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub long: String,
    pub short: String,
}

impl Cell {
    /// Creates a cell without a short form.
    pub(super) fn of(text: impl ToString) -> Cell {
        let long = text.to_string();
        let short = long.clone();
        Cell { long, short }
    }

    fn text(&self, is_short: bool) -> &str {
        if is_short { &self.short } else { &self.long }
    }
}

/// A name, and a cell for each column.
pub(super) type TableRow = (String, Vec<Cell>);

/// The visible columns and their widths.
pub(super) struct TableLayout<'a> {
    columns: &'a [Column],
    /// Width of each column. `None`: it is left out.
    widths: Vec<Option<usize>>,
    name: usize,
    is_short: bool,
}

impl<'a> TableLayout<'a> {
    /// Computes a layout for all these rows. `terminal`: maximum number of columns. `None`:
    /// unlimited.
    pub(super) fn new(
        columns: &'a [Column],
        rows: &[&TableRow],
        terminal: Option<usize>,
    ) -> TableLayout<'a> {
        let longest = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        let mut layout = TableLayout {
            columns,
            widths: widths(columns, rows, false),
            name: longest,
            is_short: false,
        };
        let Some(terminal) = terminal else {
            return layout;
        };
        let wanted = longest.min(ENOUGH_OF_NAME);
        if layout.room(terminal) < wanted {
            layout.is_short = true;
            layout.widths = widths(columns, rows, true);
        }
        while layout.room(terminal) < wanted && layout.drop_least_important() {}
        layout.name = longest.min(layout.room(terminal).max(LEAST_NAME));
        layout
    }

    /// Returns the number of columns left for the name.
    fn room(&self, terminal: usize) -> usize {
        let cells: usize = self.widths.iter().flatten().map(|width| width + GAP).sum();
        terminal.saturating_sub(cells)
    }

    fn drop_least_important(&mut self) -> bool {
        let shown = self.widths.iter().zip(self.columns).enumerate();
        let can_go = shown.filter(|(_, (width, column))| width.is_some() && column.left_out > 0);
        let Some((at, _)) = can_go.max_by_key(|(_, (_, column))| column.left_out) else {
            return false;
        };
        self.widths[at] = None;
        true
    }

    pub(super) fn head(&self, name: &str) -> String {
        let heads = self.columns.iter().map(|column| column.head);
        self.line(name, heads)
    }

    pub(super) fn row(&self, (name, cells): &TableRow) -> String {
        self.line(name, cells.iter().map(|cell| cell.text(self.is_short)))
    }

    fn line<'t>(&self, name: &str, cells: impl Iterator<Item = &'t str>) -> String {
        let mut line = end_of(name, self.name);
        let last = self.widths.len() - 1;
        for (at, (cell, width)) in cells.zip(&self.widths).enumerate() {
            let Some(width) = width else {
                continue;
            };
            line.push_str(&" ".repeat(GAP));
            match at == last {
                true => line.push_str(cell),
                false => line.push_str(&format!("{cell:>width$}")),
            }
        }
        line.trim_end().to_string()
    }
}

fn widths(columns: &[Column], rows: &[&TableRow], is_short: bool) -> Vec<Option<usize>> {
    let width = |(at, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(at));
        let widest = cells.map(|cell| cell.text(is_short).width()).max();
        // The minimum width aligns tables below each other if the terminal is wide enough.
        let least = if is_short { 0 } else { column.width };
        Some(widest.unwrap_or(0).max(column.head.width()).max(least))
    };
    columns.iter().enumerate().map(width).collect()
}

/// Returns the end of a path, which is more useful than its beginning, padded with spaces.
fn end_of(name: &str, columns: usize) -> String {
    let mut shown = name.to_string();
    if name.width() > columns {
        let mut rest = name;
        while rest.width() + 1 > columns && !rest.is_empty() {
            let mut chars = rest.chars();
            chars.next();
            rest = chars.as_str();
        }
        shown = format!("…{rest}");
    }
    let blanks = columns.saturating_sub(shown.width());
    shown + &" ".repeat(blanks)
}

/// Returns the width of the terminal on stdout, or `None` without one.
pub(super) fn terminal_columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Wraps a text between words at the width of the terminal.
pub(super) fn broken(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return text.to_string();
    };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| !line.is_empty());
        match line {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(word.to_string()),
            None => lines = vec![word.to_string()],
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column {
            head: "answers",
            width: 9,
            left_out: 1,
        },
        Column {
            head: "input",
            width: 7,
            left_out: 0,
        },
        Column {
            head: "cost",
            width: 0,
            left_out: 0,
        },
    ];

    fn shown(name: &str, terminal: Option<usize>) -> Vec<String> {
        let cost = Cell {
            long: "$0.01 + 1 unpriced".to_string(),
            short: "$0.01+".to_string(),
        };
        let row = (name.to_string(), vec![Cell::of(12), Cell::of("3k"), cost]);
        let layout = TableLayout::new(&COLUMNS, &[&row], terminal);
        vec![layout.head("project"), layout.row(&row)]
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        let long = "/home/ann/projects/a-folder-with-a-long-name/rewake";
        for columns in [40, 60, 80, 120] {
            for name in [
                long,
                "/w",
                "/home/ann/漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
            ] {
                for line in shown(name, Some(columns)) {
                    assert!(line.width() <= columns, "{columns}: {line}");
                }
            }
        }
    }

    #[test]
    fn less_important_columns_are_dropped_first() {
        let long = "/home/ann/projects/a-folder-with-a-long-name/rewake";
        let want = |terminal, head: &str, row: &str| {
            let lines = shown(long, terminal);
            assert!(lines[0].ends_with(head), "{lines:?}");
            assert!(lines[1].ends_with(row), "{lines:?}");
        };
        want(
            None,
            "answers    input  cost",
            "rewake         12       3k  $0.01 + 1 unpriced",
        );
        want(
            Some(80),
            "answers    input  cost",
            "rewake         12       3k  $0.01 + 1 unpriced",
        );
        want(
            Some(50),
            "answers  input  cost",
            "name/rewake       12     3k  $0.01+",
        );
        want(Some(36), "input  cost", "name/rewake     3k  $0.01+");
        assert!(!shown(long, Some(36))[0].contains("answers"));
    }

    #[test]
    fn a_text_is_broken_between_words() {
        assert_eq!(broken("one two three", Some(8)), "one two\nthree");
        assert_eq!(broken("one two three", None), "one two three");
        assert_eq!(broken("a-long-word b", Some(4)), "a-long-word\nb");
    }
}
