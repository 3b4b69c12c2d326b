//! The pane on the screen: a title, what is looked at, what was said or is asked, and the keys.
//!
//! Invariant: only lines that are on the screen are made.

mod list;
mod tree;

use jiff::Timestamp;
use jiff::civil::Date;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::pane::{Pane, Question};
use crate::ui::text::{Break, clip, width, wrap};
use crate::ui::theme::Theme;

const MAX_HINT_LINES: usize = 3;
const CURSOR: &str = " ";

impl Pane {
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme, now_ms: i64) {
        frame.render_widget(Clear, area);
        frame.buffer_mut().set_style(area, theme.text);
        let columns = usize::from(area.width);
        let hints = self.hint_lines(columns, theme);
        let said = u16::from(self.question.is_some() || self.notice.is_some());
        let rows = u16::try_from(hints.len()).unwrap_or(0);
        // Below the title of the list is its filter.
        let head = if self.tree.is_some() { 1 } else { 2 };
        let [head, body, line, keys] = Layout::vertical([
            Constraint::Length(head),
            Constraint::Min(1),
            Constraint::Length(said),
            Constraint::Length(rows),
        ])
        .areas(area);
        let today = self.today(now_ms);
        match self.tree.is_some() {
            true => self.draw_tree(frame, head, body, theme, today),
            false => self.draw_list(frame, head, body, theme, today),
        }
        frame.render_widget(Paragraph::new(self.said(columns, theme)), line);
        frame.render_widget(Paragraph::new(hints), keys);
    }

    fn today(&self, now_ms: i64) -> Date {
        let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        now.to_zoned(self.list.zone.clone()).date()
    }

    /// The question that is open, else what was said last.
    fn said(&self, columns: usize, theme: &Theme) -> Line<'static> {
        match (&self.question, &self.notice) {
            (Some(Question::Delete { title, .. }), _) => {
                let asked = "Delete? It goes to the trash: ";
                let title = clip(title, columns.saturating_sub(width(asked)));
                Line::styled(format!("{asked}{title}"), theme.warn)
            }
            (Some(Question::Title { input, .. }), _) => {
                typed("Title: ", input.text(), true, columns, theme)
            }
            (Some(Question::File { input, .. }), _) => {
                typed("Write to: ", input.text(), true, columns, theme)
            }
            (None, Some(notice)) => {
                let style = if notice.is_error {
                    theme.error
                } else {
                    theme.ok
                };
                Line::styled(clip(&notice.text, columns), style)
            }
            (None, None) => Line::default(),
        }
    }

    fn hint_lines(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (n, (key, what)) in self.hints().iter().enumerate() {
            if n > 0 {
                spans.push(Span::raw("  "));
            }
            // A hint is not broken between its words.
            let what = format!("\u{a0}{}", what.replace(' ', "\u{a0}"));
            spans.push(Span::styled(key.replace(' ', "\u{a0}"), theme.accent));
            spans.push(Span::styled(what, theme.dim));
        }
        let mut lines = wrap(&spans, columns, &[], &[], Break::Words);
        lines.truncate(MAX_HINT_LINES);
        lines
    }
}

/// Left and right on one line; the left is cut where there is no room.
fn both(left: (&str, Style), right: (&str, Style), columns: usize) -> Line<'static> {
    let right_text = clip(right.0, columns);
    let room = columns.saturating_sub(width(&right_text) + 1);
    let left_text = clip(left.0, room);
    let blank = columns.saturating_sub(width(&left_text) + width(&right_text));
    Line::from(vec![
        Span::styled(left_text, left.1),
        Span::styled(" ".repeat(blank), left.1),
        Span::styled(right_text, right.1),
    ])
}

/// A line that is typed: its end is seen, with a cursor when it has the keys.
fn typed(
    before: &str,
    text: &str,
    is_focused: bool,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let room = columns.saturating_sub(width(before) + 1);
    let hidden = width(text).saturating_sub(room);
    let shown = match hidden {
        0 => text.to_string(),
        _ => end_of(text, room),
    };
    let mut spans = vec![
        Span::styled(before.to_string(), theme.accent),
        Span::styled(shown, theme.text),
    ];
    if is_focused {
        spans.push(Span::styled(CURSOR, Style::new().reversed()));
    }
    Line::from(spans)
}

/// The last graphemes that fit.
fn end_of(text: &str, columns: usize) -> String {
    use unicode_segmentation::UnicodeSegmentation;
    let mut room = columns;
    let mut start = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        let Some(left) = room.checked_sub(width(grapheme)) else {
            break;
        };
        (room, start) = (left, at);
    }
    text[start..].to_string()
}
