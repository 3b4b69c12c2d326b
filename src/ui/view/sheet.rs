//! A sheet of keys in as many columns as fit. It is read column by column.

use ratatui::text::{Line, Span};

use crate::ui::overlay::Section;
use crate::ui::text::{Break, clip, width, wrap};
use crate::ui::theme::Theme;

/// Minimum width of a column, on screens that are wide enough.
const LEAST_COLUMNS: usize = 34;
const MOST: usize = 3;
/// Gap between two columns.
const GAP: usize = 2;
/// A key longer than this takes a part of the columns for its description.
const KEY_COLUMNS: usize = 10;

pub(super) fn lines(sheet: &[Section], room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let many = ((room + GAP) / (LEAST_COLUMNS + GAP)).clamp(1, MOST);
    let columns = (room + GAP) / many - GAP;
    let lines = flow(sheet, columns, theme);
    let mut rows = lines.len().div_ceil(many);
    let parts = loop {
        match parts(&lines, many, rows) {
            Some(parts) => break parts,
            None => rows += 1,
        }
    };
    (0..rows).map(|row| beside(&parts, row, columns)).collect()
}

/// Splits the lines into columns of `rows` rows, or returns `None` if they do not fit. No column
/// begins with a blank line or ends with a title.
fn parts<'a>(
    lines: &'a [Line<'static>],
    many: usize,
    rows: usize,
) -> Option<Vec<&'a [Line<'static>]>> {
    let mut rest = lines;
    let mut parts = Vec::new();
    for _ in 0..many {
        while rest.first().is_some_and(|line| line.width() == 0) {
            rest = &rest[1..];
        }
        let mut end = rest.len().min(rows);
        // A title has a blank line before it, and its rows after it.
        let is_blank = |at: usize| rest.get(at).is_some_and(|line| line.width() == 0);
        if end < rest.len() && end >= 2 && is_blank(end - 2) {
            end -= 2;
        }
        let (part, later) = rest.split_at(end);
        parts.push(part);
        rest = later;
    }
    rest.is_empty().then_some(parts)
}

fn flow(sheet: &[Section], columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for section in sheet {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let title = clip(&section.title, columns);
        lines.push(Line::styled(title, theme.heading()));
        for (keys, what) in &section.rows {
            lines.extend(row(keys, what, columns, theme));
        }
    }
    lines
}

/// Returns the lines of a key and its description; further lines of the description are below the
/// first.
fn row(keys: &str, what: &str, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let words = [Span::styled(what.to_string(), theme.dim)];
    if keys.is_empty() {
        return wrap(&words, columns, &[], &[], Break::Words);
    }
    let blank = " ".repeat(KEY_COLUMNS.saturating_sub(width(keys)).max(1) + 1);
    let first = [Span::styled(keys.to_string(), theme.text), Span::raw(blank)];
    let rest = [Span::raw(" ".repeat(KEY_COLUMNS + 1))];
    if width(keys) + 2 > columns.saturating_sub(4) {
        let mut lines = wrap(&first[..1], columns, &[], &[], Break::Words);
        lines.extend(wrap(&words, columns, &rest, &rest, Break::Words));
        return lines;
    }
    wrap(&words, columns, &first, &rest, Break::Words)
}

fn beside(columns_of: &[&[Line<'static>]], row: usize, columns: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, lines) in columns_of.iter().enumerate() {
        let Some(line) = lines.get(row) else {
            continue;
        };
        let at: usize = spans.iter().map(Span::width).sum();
        let from = place * (columns + GAP);
        spans.push(Span::raw(" ".repeat(from.saturating_sub(at))));
        spans.extend(line.spans.iter().cloned().map(|mut span| {
            span.style = line.style.patch(span.style);
            span
        }));
    }
    Line::from(spans)
}
