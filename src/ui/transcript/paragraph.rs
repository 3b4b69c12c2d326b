//! Wrapped text in a block: words, and code with all its blanks.

use jiff::tz::TimeZone;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::core::visible;
use crate::ui::highlight::Highlighter;
use crate::ui::text::{self, Break, clean};
use crate::ui::theme::Theme;

/// The environment of a layout: terminal, theme and time.
pub struct LayoutContext<'a> {
    /// Columns of the terminal.
    pub width: u16,
    pub theme: &'a Theme,
    pub code: &'a mut Highlighter,
    /// Generation of the theme and the colours of code. When it changes, all lines are invalid.
    pub generation: u64,
    /// UTC, milliseconds since 1970.
    pub now_ms: i64,
    /// Time zone of the times of day that are shown.
    pub zone: &'a TimeZone,
}

/// Maximum columns of wrapped words.
const MAX_PROSE: usize = 96;
/// Maximum columns of calls, diffs and right-aligned text.
const MAX_EDGE: usize = 2 + 180;
/// Minimum columns for a margin.
const MARGIN_COLUMNS: u16 = 40;

impl LayoutContext<'_> {
    pub(super) fn columns(&self) -> usize {
        usize::from(self.width).max(1)
    }

    /// Returns the column at which right-aligned text ends.
    pub(super) fn edge(&self) -> usize {
        let margin = if self.width >= MARGIN_COLUMNS { 2 } else { 0 };
        (self.columns() - margin).clamp(1, MAX_EDGE)
    }

    /// Returns the column at which words are wrapped.
    pub(super) fn prose(&self) -> usize {
        self.edge().min(2 + MAX_PROSE)
    }
}

pub(super) fn paragraph(
    words: &str,
    style: Style,
    before: &str,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let columns = layout.prose();
    lines_of(&clean(words), style, before, Break::Words, columns)
}

/// Returns the lines of a command, with all its blanks.
pub(super) fn code(
    words: &str,
    style: Style,
    before: &str,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let shown = clean(&visible::command(words)).into_owned();
    lines_of(&shown, style, before, Break::Anywhere, layout.edge())
}

fn lines_of(
    cleaned: &str,
    style: Style,
    before: &str,
    at: Break,
    columns: usize,
) -> Vec<Line<'static>> {
    let before = [Span::styled(before.to_string(), style)];
    let mut lines = Vec::new();
    for line in cleaned.lines() {
        let spans = [Span::styled(line.to_string(), style)];
        lines.extend(text::wrap(&spans, columns, &before, &before, at));
    }
    lines
}
