//! The drawing of the pane: a title, the list or tree, a notice or question, and the keys.
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

use super::keys::Hint;
use super::lines::clean_title;
use super::pane::{Pane, Question};
use crate::ui::text::{Break, clip, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::transcript::LayoutContext;

/// Left and right of everything.
const MARGIN: &str = "  ";
const CURSOR: &str = " ";
const BETWEEN: &str = " · ";
/// Lower, the room of rules and blank lines is used for sessions.
const TALL: u16 = 16;
/// And lower still, all of it is for sessions but the first line and the keys.
const LOW: u16 = 8;
/// Minimum columns of the left text. If they would not remain, the right text is left out.
const LEAST_LEFT: usize = 10;

impl Pane {
    /// Draws the pane. `layout`: the environment for a conversation.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, layout: &mut LayoutContext<'_>) {
        let (theme, now_ms) = (layout.theme, layout.now_ms);
        frame.render_widget(Clear, area);
        frame.buffer_mut().set_style(area, theme.text);
        let columns = usize::from(area.width);
        let hints = self.hint_lines(columns, theme);
        let is_low = area.height < LOW;
        let below = match is_low {
            true => self.said(columns, theme).into_iter().collect(),
            false => self.below(columns, theme),
        };
        let said = u16::try_from(below.len()).unwrap_or(0);
        let rows = u16::try_from(hints.len()).unwrap_or(0);
        let is_tall = area.height >= TALL;
        // The query is below the title of the list.
        let head = match (self.tree.is_some(), is_tall) {
            (true, _) => 1,
            (false, _) if is_low => 1,
            (false, true) => 3,
            (false, false) => 2,
        };
        let [head, body, rule, line, keys] = Layout::vertical([
            Constraint::Length(head),
            Constraint::Min(1),
            Constraint::Length(u16::from(is_tall)),
            Constraint::Length(said),
            Constraint::Length(rows),
        ])
        .areas(area);
        let today = self.today(now_ms);
        let edge = "─".repeat(columns.saturating_sub(2 * MARGIN.len()));
        let edge = Line::styled(format!("{MARGIN}{edge}"), theme.border);
        frame.render_widget(Paragraph::new(edge), rule);
        match self.tree.is_some() {
            true => self.draw_tree(frame, head, body, layout, today),
            false => self.draw_list(frame, head, body, theme, now_ms),
        }
        frame.render_widget(Paragraph::new(below), line);
        frame.render_widget(Paragraph::new(hints), keys);
    }

    fn today(&self, now_ms: i64) -> Date {
        let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        now.to_zoned(self.list.zone.clone()).date()
    }

    /// Returns the keys and the figures of the chosen session, for the help.
    pub(crate) fn help(&self) -> String {
        let row = self.list.row().filter(|_| self.tree.is_none());
        let figures =
            row.map(|row| format!("session {}", list::figures(row).replace(BETWEEN, ", ")));
        let hint = |(key, what): &Hint| format!("{} {what}", key.replace(' ', "\u{a0}"));
        let hints = self.hints().iter().map(hint);
        hints.chain(figures).collect::<Vec<_>>().join(BETWEEN)
    }

    /// Returns the open question, or else the notice of the last key, or else the last messages of
    /// the chosen session.
    fn below(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut lines: Vec<Line<'static>> = self.said(columns, theme).into_iter().collect();
        let row = self.list.row().filter(|_| self.tree.is_none());
        let dim = |text: &str| {
            let room = columns.saturating_sub(MARGIN.len());
            Line::styled(clip(&format!("{MARGIN}{text}"), room), theme.dim)
        };
        if lines.is_empty() && row.is_some() {
            let last = self.list.about();
            let last = last.and_then(|about| about.by_model.as_deref());
            // A wide screen shows it beside the list.
            let last = last.filter(|_| columns < usize::from(list::WIDE));
            let last = last.map(|last| dim(&format!("last said: {}", clean_title(last))));
            lines.push(last.unwrap_or_default());
        }
        lines
    }

    /// Returns the open question, or else the notice of the last key.
    fn said(&self, columns: usize, theme: &Theme) -> Option<Line<'static>> {
        Some(match (&self.question, &self.notice) {
            (Some(Question::Trash { title, .. }), _) => {
                let asked = format!("{MARGIN}Put it into the trash? ");
                let title = clip(title, columns.saturating_sub(width(&asked)));
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
                    theme.text
                };
                Line::styled(clip(&format!("{MARGIN}{}", notice.text), columns), style)
            }
            (None, None) => return None,
        })
    }

    /// Returns one line of keys.
    fn hint_lines(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut hints = self.hints().to_vec();
        let room = columns.saturating_sub(2 * MARGIN.len());
        let needs = |hints: &[Hint]| {
            let of = |(key, what): &Hint| width(key) + 1 + width(what) + width(BETWEEN);
            hints
                .iter()
                .map(of)
                .sum::<usize>()
                .saturating_sub(width(BETWEEN))
        };
        while hints.len() > 1 && needs(&hints) > room {
            // The hints for more keys and for leaving are dropped last.
            hints.remove(hints.len().saturating_sub(3));
        }
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (n, (key, what)) in hints.iter().enumerate() {
            if n > 0 {
                spans.push(Span::styled(BETWEEN, theme.dim));
            }
            // A hint is not broken between its words.
            let what = format!("\u{a0}{}", what.replace(' ', "\u{a0}"));
            spans.push(Span::styled(key.replace(' ', "\u{a0}"), theme.text));
            spans.push(Span::styled(what, theme.dim));
        }
        let margin = [Span::raw(MARGIN)];
        let columns = columns.saturating_sub(MARGIN.len());
        let mut lines = wrap(&spans, columns, &margin, &margin, Break::Words);
        lines.truncate(1);
        lines
    }
}

/// Places two texts on one line, left and right between the margins. The left one is cut if needed.
fn both(left: (&str, Style), right: (&str, Style), columns: usize) -> Line<'static> {
    let columns = columns.saturating_sub(2 * MARGIN.len());
    let least = width(left.0).min(LEAST_LEFT) + 1;
    let has_room = width(right.0) + least <= columns;
    let right_text = if has_room { right.0 } else { "" };
    let room = columns.saturating_sub(width(right_text) + 1);
    let left_text = clip(left.0, room);
    let blank = columns.saturating_sub(width(&left_text) + width(right_text));
    Line::from(vec![
        Span::raw(MARGIN),
        Span::styled(left_text, left.1),
        Span::raw(" ".repeat(blank)),
        Span::styled(right_text.to_string(), right.1),
    ])
}

/// Returns a line of typed text: its end is visible, with a cursor when it is focused.
fn typed(
    before: &str,
    text: &str,
    is_focused: bool,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let room = columns.saturating_sub(2 * MARGIN.len() + width(before) + 1);
    let hidden = width(text).saturating_sub(room);
    let shown = match hidden {
        0 => text.to_string(),
        _ => end_of(text, room),
    };
    let mut spans = vec![
        Span::styled(format!("{MARGIN}{before}"), theme.dim),
        Span::styled(shown, theme.text),
    ];
    if is_focused {
        spans.push(Span::styled(CURSOR, Style::new().reversed()));
    }
    Line::from(spans)
}

/// Returns the last graphemes that fit.
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
