//! Tables: fitted to the screen, their cells wrapped.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use crate::ui::text::{Break, push_span, width, wrap};
use crate::ui::theme::Theme;

const SEPARATOR: &str = " │ ";
const RULE: &str = "─┼─";
/// Minimum width of columns. With narrower ones, rows are shown as text.
const MIN_COLUMNS: usize = 4;

pub(super) type Cell = Vec<Span<'static>>;

/// A table while it is read; the first row is its head.
pub(super) struct Table {
    pub alignments: Vec<Alignment>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn lines(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        match self.widths(columns) {
            Some(widths) => self.grid(&widths, theme),
            None => self.as_text(columns, theme),
        }
    }

    /// Returns the width of each column; `None` when they do not fit side by side.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let separators = width(SEPARATOR) * count.saturating_sub(1);
        let room = columns.checked_sub(separators).filter(|_| count > 0)?;
        let wanted: Vec<usize> = (0..count).map(|n| self.wanted(n)).collect();
        // The widest columns are cut down to the same width.
        let fits = |cap: usize| wanted.iter().map(|w| (*w).min(cap)).sum::<usize>() <= room;
        let widest = wanted.iter().copied().max().unwrap_or(0).min(columns);
        let cap = (0..=widest).rev().find(|cap| fits(*cap))?;
        let narrow = cap < widest && cap < MIN_COLUMNS;
        (!narrow).then(|| wanted.iter().map(|w| (*w).min(cap)).collect())
    }

    fn wanted(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell_width(cell)).max().unwrap_or(0).max(1)
    }

    fn grid(&self, widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            lines.extend(self.row(row, widths, theme));
            if n == 0 {
                let rules: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
                lines.push(Line::from(Span::styled(rules.join(RULE), theme.border)));
            }
        }
        lines
    }

    fn row(&self, row: &[Cell], widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let empty = Cell::new();
        let cells: Vec<Vec<Line<'static>>> = widths
            .iter()
            .enumerate()
            .map(|(n, w)| wrap(row.get(n).unwrap_or(&empty), *w, &[], &[], Break::Words))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|at| {
                let mut spans = Vec::new();
                for (n, cell) in cells.iter().enumerate() {
                    if n > 0 {
                        push_span(&mut spans, theme.border, SEPARATOR);
                    }
                    let parts = cell.get(at).map_or(&[][..], |line| line.spans.as_slice());
                    self.push_aligned(&mut spans, parts, n, widths[n], theme);
                }
                Line::from(spans)
            })
            .collect()
    }

    fn push_aligned(
        &self,
        spans: &mut Vec<Span<'static>>,
        parts: &[Span<'static>],
        column: usize,
        columns: usize,
        theme: &Theme,
    ) {
        let free = columns.saturating_sub(cell_width(parts));
        let before = match self.alignments.get(column) {
            Some(Alignment::Right) => free,
            Some(Alignment::Center) => free / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        };
        let last = column + 1 == self.alignments.len();
        push_span(spans, theme.text, &" ".repeat(before));
        for part in parts {
            push_span(spans, part.style, &part.content);
        }
        if !last {
            push_span(spans, theme.text, &" ".repeat(free - before));
        }
    }

    fn as_text(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for row in &self.rows {
            let mut spans = Vec::new();
            for (n, cell) in row.iter().enumerate() {
                if n > 0 {
                    push_span(&mut spans, theme.border, SEPARATOR);
                }
                for part in cell {
                    push_span(&mut spans, part.style, &part.content);
                }
            }
            lines.extend(wrap(&spans, columns, &[], &[Span::raw("  ")], Break::Words));
        }
        lines
    }
}

fn cell_width(cell: &[Span<'static>]) -> usize {
    cell.iter().map(|span| width(&span.content)).sum()
}
