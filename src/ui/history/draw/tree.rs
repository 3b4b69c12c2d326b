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
use crate::ui::history::tree::{Drawn, Line as Grown, Side, Tree};
use crate::ui::history::{Point, What};
use crate::ui::text::{clip, width};
use crate::ui::theme::Theme;

const BESIDE_COLUMNS: u16 = 100;
const BELOW_ROWS: u16 = 14;

impl Pane {
    pub(super) fn draw_tree(
        &mut self,
        frame: &mut Frame<'_>,
        head: Rect,
        body: Rect,
        theme: &Theme,
        today: Date,
    ) {
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
            draw_rule(frame, rule, theme, tree.side);
        }
        match right {
            Some(right) => {
                checkpoints(tree, frame, left, theme, today);
                preview(tree, frame, right, theme);
            }
            None if tree.side == Side::Preview => preview(tree, frame, left, theme),
            None => checkpoints(tree, frame, left, theme, today),
        }
    }
}

/// The tree, what is between, and the conversation, where there is room for both.
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

fn draw_rule(frame: &mut Frame<'_>, rule: Rect, theme: &Theme, side: Side) {
    let style = match side {
        Side::Tree => theme.border,
        Side::Preview => theme.border,
    };
    let lines: Vec<Line<'static>> = match rule.width {
        1 => vec![Line::styled("│", style); usize::from(rule.height)],
        wide => vec![Line::styled("─".repeat(usize::from(wide)), style)],
    };
    frame.render_widget(Paragraph::new(lines), rule);
}

fn preview(tree: &mut Tree, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
    // A column is left free beside the rule.
    let columns = usize::from(area.width.saturating_sub(2)).max(1);
    let is_known = tree.preview.is_known;
    let lines = tree.preview.visible(columns, usize::from(area.height));
    let line = |text: &String| {
        let style = match text.chars().next() {
            Some('▌') => theme.text,
            Some('·' | '─') => theme.dim,
            _ => theme.text,
        };
        Line::styled(format!(" {text}"), style)
    };
    let lines: Vec<Line<'static>> = match is_known {
        true => lines.iter().map(line).collect(),
        false => vec![Line::styled(" reading …", theme.dim)],
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
            grown(tree, line, columns, theme, today, is_selected)
        })
        .collect();
    let has_checkpoint = tree.points.iter().any(|p| p.what.is_checkpoint());
    if tree.is_known && !has_checkpoint {
        lines.push(Line::styled(
            clip("   no checkpoint yet", columns),
            theme.dim,
        ));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A line of the tree, filled to its end so that the cursor is seen as a bar.
fn grown(
    tree: &Tree,
    line: &Grown,
    columns: usize,
    theme: &Theme,
    today: Date,
    is_selected: bool,
) -> Line<'static> {
    let (text, style) = match &line.what {
        Drawn::Older => ("… what was before".to_string(), theme.dim),
        Drawn::Session(title) => (title.clone(), theme.heading()),
        Drawn::Branch { label, .. } => (format!("⑂ {label}"), theme.accent),
        Drawn::Said(at) => match tree.points.get(*at).map(|p| &p.what) {
            Some(What::Said(words)) => (format!("▌ {words}"), theme.text),
            _ => (String::new(), theme.text),
        },
        Drawn::Checkpoint(at) => {
            let text = tree
                .points
                .get(*at)
                .map(|p| checkpoint(p, step(tree, *at), today));
            (text.unwrap_or_default(), theme.text)
        }
    };
    let (mark, over) = match is_selected {
        true => ("▸", theme.accent),
        false => (" ", Style::new()),
    };
    let branches = match line.branches.strip_suffix("─ ") {
        Some(branches) => format!("{branches}─{mark}"),
        None => line.branches.clone(),
    };
    let branches = clip(&branches, columns);
    let room = columns.saturating_sub(width(&branches));
    let text = clip(&text, room);
    let blank = " ".repeat(room.saturating_sub(width(&text)));
    Line::from(vec![
        Span::styled(branches, theme.border.patch(over)),
        Span::styled(text, style.patch(over)),
        Span::styled(blank, theme.text.patch(over)),
    ])
}

/// The step of the plan, where it is another than at the checkpoint before.
fn step(tree: &Tree, at: usize) -> Option<&str> {
    let step = |point: &Point| match &point.what {
        What::Checkpoint { plan_step, .. } => Some(plan_step.clone()),
        What::Said(_) => None,
    };
    let before = tree.points.get(..at)?.iter().rev().find_map(step).flatten();
    match &tree.points.get(at)?.what {
        What::Checkpoint { plan_step, .. } if *plan_step != before => plan_step.as_deref(),
        _ => None,
    }
}

fn checkpoint(point: &Point, step: Option<&str>, today: Date) -> String {
    let time = match point.day == today {
        true => point.time.clone(),
        false => format!("{} {}", point.day.strftime("%m-%d"), point.time),
    };
    let What::Checkpoint { reason, files, .. } = &point.what else {
        return time;
    };
    let mut text = format!("{time} {reason}");
    if !files.is_empty() {
        text.push_str(&format!(" · changed {}", files.join(", ")));
    }
    if let Some(step) = step {
        text.push_str(&format!(" · step: {step}"));
    }
    text
}
