//! Blocks of code: lines that are wrapped and never cut. Their colours say which language it is; its
//! name would look like a line of code.

use ratatui::text::{Line, Span};

use crate::ui::highlight::Highlighter;
use crate::ui::text::{Break, push_span, wrap};
use crate::ui::theme::Theme;

const INDENT: &str = "  ";

/// The layout parameters of code.
pub(super) struct Frame<'a> {
    pub columns: usize,
    /// The prefix of the first line.
    pub first: &'a [Span<'static>],
    /// The prefix of the other lines.
    pub rest: &'a [Span<'static>],
    pub theme: &'a Theme,
}

impl Frame<'_> {
    /// Returns the lines of clean code from number `skip` on, and whether their colours are final.
    pub(super) fn lines(
        &self,
        code: &str,
        skip: usize,
        info: &str,
        highlighter: &mut Highlighter,
    ) -> (Vec<Line<'static>>, bool) {
        let coloured = highlighter.lines(code, skip, info, self.theme);
        let mut lines = Vec::with_capacity(coloured.lines.len());
        for parts in &coloured.lines {
            let mut spans = Vec::with_capacity(parts.len());
            for (style, text) in parts {
                push_span(&mut spans, self.theme.text.patch(*style), text);
            }
            let first = if lines.is_empty() {
                self.first
            } else {
                self.rest
            };
            lines.extend(self.wrapped(&spans, first));
        }
        (lines, coloured.settled)
    }

    fn wrapped(&self, spans: &[Span<'static>], first: &[Span<'static>]) -> Vec<Line<'static>> {
        let indented = |prefix: &[Span<'static>]| [prefix, &[Span::raw(INDENT)]].concat();
        let (first, rest) = (indented(first), indented(self.rest));
        let mut lines = wrap(spans, self.columns, &first, &rest, Break::Anywhere);
        for line in &mut lines {
            line.style = self.theme.code_bg;
        }
        lines
    }
}
