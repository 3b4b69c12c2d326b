//! Wrapped text in a block: words, and code of which no blank is left out.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::core::visible;
use crate::ui::highlight::Highlighter;
use crate::ui::text::{self, Break, clean};
use crate::ui::theme::Theme;

/// What lines are laid out with.
pub struct LayoutContext<'a> {
    /// Columns of the terminal.
    pub width: u16,
    pub theme: &'a Theme,
    pub code: &'a mut Highlighter,
    /// Of the theme and of the colours of code: another one voids all lines.
    pub generation: u64,
    /// UTC, milliseconds since 1970.
    pub now_ms: i64,
}

impl LayoutContext<'_> {
    pub(super) fn columns(&self) -> usize {
        usize::from(self.width).max(1)
    }
}

pub(super) fn paragraph(
    words: &str,
    style: Style,
    before: &str,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    lines_of(&clean(words), style, before, Break::Words, layout)
}

/// A command: no blank of it is left out.
pub(super) fn code(
    words: &str,
    style: Style,
    before: &str,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let shown = clean(&visible::command(words)).into_owned();
    lines_of(&shown, style, before, Break::Anywhere, layout)
}

fn lines_of(
    cleaned: &str,
    style: Style,
    before: &str,
    at: Break,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let before = [Span::styled(before.to_string(), layout.theme.dim)];
    let mut lines = Vec::new();
    for line in cleaned.lines() {
        let spans = [Span::styled(line.to_string(), style)];
        lines.extend(text::wrap(&spans, layout.columns(), &before, &before, at));
    }
    lines
}
