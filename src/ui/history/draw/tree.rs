//! One session: its checkpoints as a tree, and the conversation at the cursor beside it, below
//! it, or in its place.

use crate::core::text::count;
use jiff::civil::Date;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::both;
use crate::ui::history::pane::Pane;
use crate::ui::history::tree::{HistoryRow, Parts, Side, Tree, TreeLine as Grown};
use crate::ui::history::{Point, TimelineItem};
use crate::ui::text::{clip, width};
use crate::ui::theme::Theme;
use crate::ui::transcript::LayoutContext;

const BESIDE_COLUMNS: u16 = 100;
const BELOW_ROWS: u16 = 14;
/// Minimum columns for the text of a line. With fewer, the time next to it is hidden.
const LEAST_WORDS: usize = 16;

impl Pane {
    pub(super) fn draw_tree(
        &mut self,
        frame: &mut Frame<'_>,
        head: Rect,
        body: Rect,
        layout: &mut LayoutContext<'_>,
        today: Date,
    ) {
        let theme = layout.theme;
        let Some(tree) = &mut self.tree else { return };
        let columns = usize::from(head.width);
        let entries = count(tree.entries, "entry");
        let entries = if tree.is_known {
            entries
        } else {
            "reading …".to_string()
        };
        let title = format!("History › {}", tree.title);
        let title = both((&title, theme.heading()), (&entries, theme.dim), columns);
        frame.render_widget(Paragraph::new(title), head);
        let (left, rule, right) = places(body);
        if let Some(rule) = rule {
            draw_rule(frame, rule, theme);
        }
        match right {
            Some(right) => {
                checkpoints(tree, frame, left, theme, today);
                preview(tree, frame, right, layout);
            }
            None if tree.side == Side::Preview => preview(tree, frame, left, layout),
            None => checkpoints(tree, frame, left, theme, today),
        }
    }
}

/// Returns the areas of the tree, the separator and the conversation, if there is room for both.
fn places(body: Rect) -> (Rect, Option<Rect>, Option<Rect>) {
    let parts = |direction: Layout, first: u16| {
        let constraints = [
            Constraint::Percentage(first),
            Constraint::Length(1),
            Constraint::Fill(1),
        ];
        let [left, rule, right] = direction.constraints(constraints).areas(body);
        (left, Some(rule), Some(right))
    };
    if body.width >= BESIDE_COLUMNS {
        return parts(Layout::horizontal([Constraint::Fill(1)]), 52);
    }
    if body.height >= BELOW_ROWS {
        return parts(Layout::vertical([Constraint::Fill(1)]), 55);
    }
    (body, None, None)
}

fn draw_rule(frame: &mut Frame<'_>, rule: Rect, theme: &Theme) {
    let style = theme.border;
    let lines: Vec<Line<'static>> = match rule.width {
        1 => vec![Line::styled("│", style); usize::from(rule.height)],
        wide => vec![Line::styled("─".repeat(usize::from(wide)), style)],
    };
    frame.render_widget(Paragraph::new(lines), rule);
}

fn preview(tree: &mut Tree, frame: &mut Frame<'_>, area: Rect, layout: &mut LayoutContext<'_>) {
    // A column is left free beside the rule.
    let beside = u16::from(area.x > 0);
    let area = Rect {
        x: area.x + beside,
        width: area.width.saturating_sub(beside),
        ..area
    };
    layout.width = area.width;
    let lines = match tree.preview.is_known {
        true => tree.preview.visible(usize::from(area.height), layout),
        false => vec![Line::styled("  reading …", layout.theme.dim)],
    };
    frame.render_widget(Paragraph::new(lines), area);
}

fn checkpoints(tree: &mut Tree, frame: &mut Frame<'_>, area: Rect, theme: &Theme, today: Date) {
    let columns = usize::from(area.width);
    let height = usize::from(area.height);
    tree.show_selected(height);
    let top = tree.scroll.top;
    let visible = tree.lines.iter().enumerate().skip(top).take(height);
    let mut lines: Vec<Line<'static>> = visible
        .map(|(at, line)| {
            let is_selected = at == tree.selected;
            let changed = tree.changed(at);
            grown(tree, line, changed, columns, theme, today, is_selected)
        })
        .collect();
    if tree.is_known && tree.points.is_empty() {
        let nothing = clip("  nothing was said yet", columns);
        lines.push(Line::styled(nothing, theme.dim));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns a line of the tree. `changed`: its changes to files, in short.
fn grown(
    tree: &Tree,
    line: &Grown,
    changed: Option<&str>,
    columns: usize,
    theme: &Theme,
    today: Date,
    is_selected: bool,
) -> Line<'static> {
    let point = |at: &usize| tree.points.get(*at);
    let (text, style, right) = match &line.what {
        HistoryRow::Older => ("… what was before".to_string(), theme.dim, None),
        HistoryRow::Session(title) => (title.clone(), theme.heading(), None),
        HistoryRow::Branch { label, .. } => (format!("⑂ {label}"), theme.text, None),
        HistoryRow::Said(at) => match point(at) {
            Some(
                it @ Point {
                    item: TimelineItem::Said(words),
                    ..
                },
            ) => (format!("▌ {words}"), theme.text, Some(moment(it, today))),
            _ => (String::new(), theme.text, None),
        },
        HistoryRow::Work(range) => {
            let points = tree.points.get(range.clone()).unwrap_or_default();
            (Parts::of(points.iter()).to_text(), theme.dim, None)
        }
        HistoryRow::Ended(at) => match point(at).map(|point| &point.item) {
            Some(TimelineItem::Ended(words)) => (words.clone(), theme.dim, None),
            _ => (String::new(), theme.text, None),
        },
    };
    let (mark, over) = match is_selected {
        true => ("›", theme.accent),
        false => (" ", Style::new()),
    };
    // Left of the lines of the tree, where there is room.
    let branches = match line.branches.strip_prefix(' ') {
        Some(branches) => format!("{mark}{branches}"),
        None => match line.branches.strip_suffix(' ') {
            Some(branches) => format!("{branches}{mark}"),
            None => line.branches.clone(),
        },
    };
    let branches = clip(&branches, columns);
    let room = columns.saturating_sub(width(&branches));
    // The changes and the time are at the right, if they leave room for the text.
    let fits = |right: &String| room > LEAST_WORDS + width(right);
    let both = changed.map(|changed| match &right {
        Some(time) => format!("{changed}  {time}"),
        None => changed.to_string(),
    });
    let right = both.filter(fits).or(right.filter(fits));
    let right = right.map_or_else(String::new, |right| format!("  {right} "));
    let text = clip(&text, room.saturating_sub(width(&right)));
    let blank = room.saturating_sub(width(&text) + width(&right));
    // Failures are marked.
    let parts = text.split_inclusive('✗').map(|part| {
        let (words, mark) = match part.strip_suffix('✗') {
            Some(words) => (words, "✗"),
            None => (part, ""),
        };
        [
            Span::styled(words.to_string(), style.patch(over)),
            Span::styled(mark, theme.error),
        ]
    });
    let mut spans = vec![Span::styled(branches, theme.border.patch(over))];
    spans.extend(parts.flatten().filter(|span| !span.content.is_empty()));
    spans.push(Span::raw(" ".repeat(blank)));
    spans.push(Span::styled(right, theme.dim));
    Line::from(spans)
}

fn moment(point: &Point, today: Date) -> String {
    match point.day == today {
        true => point.time.clone(),
        false => format!("{} {}", point.day.strftime("%m-%d"), point.time),
    }
}
