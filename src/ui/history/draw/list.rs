//! Sessions under their folders and days.

use crate::core::text::count;
use jiff::civil::Date;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{both, typed};
use crate::ui::history::list::Line as Listed;
use crate::ui::history::pane::Pane;
use crate::ui::history::{Row, State, words};
use crate::ui::text::{clip, clip_middle, width};
use crate::ui::theme::Theme;

/// Everything fits beside the title from here on; below the other, only the time does.
const WIDE: usize = 100;
const MEDIUM: usize = 64;

impl Pane {
    pub(super) fn draw_list(
        &mut self,
        frame: &mut Frame<'_>,
        head: Rect,
        body: Rect,
        theme: &Theme,
        today: Date,
    ) {
        let columns = usize::from(head.width);
        frame.render_widget(Paragraph::new(self.list_head(columns, theme)), head);
        let mut height = usize::from(body.height);
        let mut lines = Vec::new();
        // What does not fit into a narrow line is said of the selected one.
        let details = self.list.row().filter(|_| columns < WIDE && height > 3);
        let details = details.map(|row| Line::styled(clip(&facts(row), columns), theme.dim));
        if details.is_some() {
            height -= 1;
        }
        self.list.show_selected(height);
        let (top, last) = (self.list.scroll.top, self.list.lines.len());
        let visible = self.list.lines.get(top..last.min(top + height));
        for line in visible.unwrap_or_default() {
            lines.extend(self.list_line(*line, columns, theme, today));
        }
        if self.list.rows.is_empty() && self.list.is_known {
            lines.push(Line::styled(clip(self.nothing(), columns), theme.dim));
        }
        lines.resize(height, Line::default());
        lines.extend(details);
        frame.render_widget(Paragraph::new(lines), body);
    }

    fn list_head(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let what = if self.list.in_trash {
            "Trash"
        } else {
            "History"
        };
        let total = u64::try_from(self.list.total).unwrap_or(u64::MAX);
        let total = match self.list.is_known {
            true => count(total, "session"),
            false => "reading …".to_string(),
        };
        let is_focused = self.question.is_none();
        vec![
            both((what, theme.heading()), (&total, theme.dim), columns),
            typed("/ ", self.list.query.text(), is_focused, columns, theme),
        ]
    }

    fn nothing(&self) -> &'static str {
        match (self.list.query.is_empty(), self.list.in_trash) {
            (false, _) => "Nothing like it was said or printed, and no title is like it.",
            (true, true) => "The trash is empty.",
            (true, false) => "There are no sessions yet.",
        }
    }

    fn list_line(
        &self,
        line: Listed,
        columns: usize,
        theme: &Theme,
        today: Date,
    ) -> Option<Line<'static>> {
        let row = |at: usize| self.list.rows.get(at);
        Some(match line {
            Listed::Folder(at) => {
                let workspace = &row(at)?.workspace;
                let here = if *workspace == self.here {
                    " · here"
                } else {
                    ""
                };
                let name = clip_middle(workspace, columns.saturating_sub(width(here)));
                Line::styled(format!("{name}{here}"), theme.heading())
            }
            Listed::Day(at) => {
                let day = words::day(row(at)?.day, today);
                Line::styled(clip(&format!("  {day}"), columns), theme.dim)
            }
            Listed::Session(at) => session(row(at)?, at == self.list.selected, columns, theme),
            Listed::Snippet(at) => {
                let snippet = row(at)?.snippet.as_deref()?;
                Line::styled(clip(&format!("      {snippet}"), columns), theme.dim)
            }
        })
    }
}

fn session(row: &Row, is_selected: bool, columns: usize, theme: &Theme) -> Line<'static> {
    let over = match is_selected {
        true => theme.accent,
        false => Style::new(),
    };
    let style = |style: Style| style.patch(over);
    let mark = if is_selected { "  ▸ " } else { "    " };
    let name = match &row.fork {
        Some(words) => format!("⑂ {words} · {}", row.title),
        None => row.title.clone(),
    };
    let (state, facts) = columns_of(row, columns);
    let room = columns.saturating_sub(width(&state) + width(&facts) + 1);
    let title = clip(&format!("{mark}{name}"), room);
    let blank = " ".repeat((room + 1).saturating_sub(width(&title)));
    let state_style = match row.state {
        State::InUse(_) => theme.running,
        State::Unfinished => theme.warn,
        State::Dismissed | State::Done => theme.dim,
    };
    Line::from(vec![
        Span::styled(title, style(theme.text)),
        Span::styled(blank, style(theme.text)),
        Span::styled(state, style(state_style)),
        Span::styled(facts, style(theme.dim)),
    ])
}

/// State and figures, each in its column.
fn columns_of(row: &Row, columns: usize) -> (String, String) {
    let state = words::state(row.state);
    let size = words::size(row.bytes);
    let (time, cost) = (&row.time, &row.cost);
    match columns {
        WIDE.. => {
            let entries = count(row.entries, "entry");
            let facts = format!("{time:>7} {entries:>14} {size:>8} {cost:>9}");
            (format!("{state:<18}"), facts)
        }
        MEDIUM..WIDE => (
            format!("{:<12}", clip(&state, 11)),
            format!("{time:>6} {size:>7} {cost:>9}"),
        ),
        _ => {
            let sign = match row.state {
                State::InUse(_) => "● ",
                State::Unfinished => "○ ",
                State::Dismissed | State::Done => "  ",
            };
            (sign.to_string(), time.clone())
        }
    }
}

fn facts(row: &Row) -> String {
    let state = words::state(row.state);
    let entries = count(row.entries, "entry");
    let size = words::size(row.bytes);
    format!("{state} · {entries} · {size} · {}", row.cost)
}
