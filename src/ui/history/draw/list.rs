//! Sessions under their folders: the name, state and age of each.

use crate::core::text::{count, size_text};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{MARGIN, both, typed};
use crate::session::{Ending, SessionState, short_id};
use crate::ui::history::lines::clean_title;
use crate::ui::history::list::ListLine as Listed;
use crate::ui::history::pane::Pane;
use crate::ui::history::{Row, words};
use crate::ui::text::{Break, clean_line, clip, clip_middle, clip_words, width, wrap};
use crate::ui::theme::Theme;

/// Minimum columns for the state in words. With fewer, only the glyph shows it.
const MEDIUM: usize = 64;
/// Minimum columns for the chosen session beside the list.
pub(super) const WIDE: u16 = 140;
const STATE_COLUMNS: usize = 12;
const AGE_COLUMNS: usize = 6;

/// Indentation below the title of the chosen row.
const DETAILS_INDENT: &str = "      ";

impl Pane {
    pub(super) fn draw_list(
        &mut self,
        frame: &mut Frame<'_>,
        head: Rect,
        body: Rect,
        theme: &Theme,
        now_ms: i64,
    ) {
        let columns = usize::from(head.width);
        frame.render_widget(
            Paragraph::new(self.list_head(columns, head.height, theme)),
            head,
        );
        let height = usize::from(body.height);
        let (body, beside) = match body.width {
            WIDE.. => {
                let parts = [Constraint::Fill(3), Constraint::Fill(2)];
                let [list, beside] = Layout::horizontal(parts).areas(body);
                (list, Some(beside))
            }
            _ => (body, None),
        };
        if let Some(beside) = beside {
            let lines = self.chosen(beside, theme);
            frame.render_widget(Paragraph::new(lines), beside);
        }
        let columns = usize::from(body.width);
        let mut lines = Vec::new();
        self.list.show_selected(height);
        let (top, last) = (self.list.scroll.top, self.list.lines.len());
        let visible = self.list.lines.get(top..last.min(top + height));
        for line in visible.unwrap_or_default() {
            lines.extend(self.list_line(*line, columns, theme, now_ms));
        }
        if self.list.rows.is_empty() && self.list.is_known {
            let nothing = format!("{MARGIN}{}", self.nothing());
            lines.push(Line::styled(clip(&nothing, columns), theme.dim));
        }
        frame.render_widget(Paragraph::new(lines), body);
    }

    /// Returns the facts and the last messages of the chosen session.
    fn chosen(&self, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
        let Some(row) = self.list.row() else {
            return Vec::new();
        };
        let edge = [Span::styled("│ ", theme.border)];
        let columns = usize::from(area.width).saturating_sub(MARGIN.len());
        let mut lines = Vec::new();
        let mut put = |text: &str, style| {
            let spans = [Span::styled(clean_line(text).into_owned(), style)];
            lines.extend(wrap(&spans, columns, &edge, &edge, Break::Words));
            lines.len()
        };
        put(&row.title, theme.heading());
        let at = Timestamp::from_millisecond(row.updated_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = at.to_zoned(self.list.zone.clone());
        let model = row.model.as_deref().unwrap_or("no model yet");
        put(&format!("{model} · {}", row.cost), theme.dim);
        put(&at.strftime("%Y-%m-%d %H:%M").to_string(), theme.dim);
        let about = self.list.about();
        let said = about.map(|about| [&about.by_user, &about.by_model, &about.output]);
        let styles = [theme.accent, theme.text, theme.dim];
        // A long message leaves room for those after it.
        let rows = usize::from(area.height);
        let ends = [rows / 3, rows.saturating_sub(3), rows];
        for ((text, style), end) in said.into_iter().flatten().zip(styles).zip(ends) {
            if let Some(text) = text {
                put("", theme.dim);
                text.trim().lines().find(|line| put(line, style) >= end);
            }
        }
        lines
    }

    fn list_head(&self, columns: usize, rows: u16, theme: &Theme) -> Vec<Line<'static>> {
        let what = if self.list.in_trash {
            "Trash"
        } else {
            "History"
        };
        let here = self.list.here;
        let elsewhere = self.list.total.saturating_sub(here);
        let total = match (self.list.is_known, here, elsewhere) {
            (false, ..) => "reading …".to_string(),
            (true, here, 0) => format!("{here} here"),
            (true, here, elsewhere) => format!("{here} here · {elsewhere} elsewhere"),
        };
        let is_focused = self.question.is_none();
        let search = match self.list.query.is_empty() {
            true => Line::styled(
                clip(
                    &format!("{MARGIN}search: everything said and printed"),
                    columns,
                ),
                theme.dim,
            ),
            false => typed(
                "search: ",
                self.list.query.text(),
                is_focused,
                columns,
                theme,
            ),
        };
        let title = both((what, theme.heading()), (&total, theme.dim), columns);
        // If a low screen has only one line, the query comes first.
        match rows == 1 && !self.list.query.is_empty() {
            true => vec![search],
            false => vec![title, search, Line::default()],
        }
    }

    fn nothing(&self) -> &'static str {
        match (self.list.query.is_empty(), self.list.in_trash) {
            (false, _) => "No message, output or title matches.",
            (true, true) => "The trash is empty.",
            (true, false) => "There are no sessions yet.",
        }
    }

    fn list_line(
        &self,
        line: Listed,
        columns: usize,
        theme: &Theme,
        now_ms: i64,
    ) -> Option<Line<'static>> {
        let row = |at: usize| self.list.rows.get(at);
        let below = |text: &str| {
            let room = columns.saturating_sub(MARGIN.len());
            Line::styled(clip(&format!("{DETAILS_INDENT}{text}"), room), theme.dim)
        };
        Some(match line {
            Listed::Space(_) => Line::default(),
            Listed::Folder(at) => {
                let row = row(at)?;
                let is_here = row.workspace == self.here;
                let (name, here) = match is_here {
                    true => (base(&row.workspace), " · here"),
                    false => (row.place.as_str(), ""),
                };
                let room = columns.saturating_sub(width(here) + 2 * MARGIN.len());
                let name = clip_middle(name, room);
                Line::styled(format!("{MARGIN}{name}{here}"), theme.dim)
            }
            Listed::Session(at) => {
                let is_selected = at == self.list.selected;
                session(row(at)?, is_selected, columns, theme, now_ms)
            }
            Listed::Details(at) => below(&self.details(row(at)?)),
            Listed::Snippet(at) => below(row(at)?.snippet.as_deref()?),
        })
    }

    /// Returns details of the chosen row that the row itself does not show.
    fn details(&self, row: &Row) -> String {
        let mut parts = Vec::new();
        if let Some(about) = self.list.about() {
            let begins = row.title.trim_end_matches('…');
            let is_new = |last: &&String| !last.starts_with(begins);
            let last = about.by_user.as_deref().map(clean_title);
            let last = last.as_ref().filter(is_new);
            parts.extend(last.map(|last| format!("last: {last}")));
            parts.extend(about.requests.map(|requests| count(requests, "request")));
            parts.extend(
                about
                    .output
                    .as_ref()
                    .map(|line| format!("last output: {line}")),
            );
        }
        parts.join(" · ")
    }
}

fn base(workspace: &str) -> &str {
    let name = workspace.rsplit('/').next().unwrap_or_default();
    if name.is_empty() { workspace } else { name }
}

fn session(
    row: &Row,
    is_selected: bool,
    columns: usize,
    theme: &Theme,
    now_ms: i64,
) -> Line<'static> {
    let (mark, title_style) = match is_selected {
        true => ("› ", theme.accent),
        false => (MARGIN, theme.text),
    };
    let (glyph, state) = (words::glyph(row.standing), row.state);
    let state_style = match row.standing {
        SessionState::InUse { works: true, .. } => theme.running,
        SessionState::InUse { works: false, .. } => theme.text,
        SessionState::Ended(Ending::Failed) => theme.error,
        SessionState::Ended(Ending::Left | Ending::TurnLimit | Ending::Killed) => theme.text,
        SessionState::Ended(Ending::Stopped | Ending::Dismissed | Ending::Done) => theme.dim,
    };
    let age = words::age(now_ms.saturating_sub(row.updated_ms));
    let age = format!("{age:>AGE_COLUMNS$}");
    let state = match columns {
        MEDIUM.. => format!("{state:<STATE_COLUMNS$}"),
        _ => String::new(),
    };
    let taken = width(mark) + 2 + 1 + width(&state) + width(&age) + MARGIN.len();
    let room = columns.saturating_sub(taken);
    let fork = match (row.parent.is_some(), row.is_fork) {
        (true, _) => "└ task: ",
        (_, true) => "⑂ ",
        _ => "",
    };
    let title = clip_words(&format!("{fork}{}", row.title), room);
    let blank = " ".repeat((room + 1).saturating_sub(width(&title)));
    Line::from(vec![
        Span::styled(mark, theme.accent),
        Span::styled(format!("{glyph} "), state_style),
        Span::styled(title, title_style),
        Span::styled(blank, Style::new()),
        Span::styled(state, state_style),
        Span::styled(age, theme.dim),
    ])
}

/// Returns the figures of a session, and its name on the command line.
pub(super) fn figures(row: &Row) -> String {
    let entries = count(row.entries, "entry");
    let size = size_text(row.bytes);
    let process = match row.standing {
        SessionState::InUse { pid: Some(pid), .. } => format!(" · process {pid}"),
        _ => String::new(),
    };
    let id = short_id(&row.id);
    format!("{id} · {entries} · {size} · {}{process}", row.cost)
}
