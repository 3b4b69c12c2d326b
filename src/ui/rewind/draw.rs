//! The list of paths, or the lines of one, over the whole screen. Only rows that are seen are made.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{Diff, Item, RewindPane, RewindWhat};
use crate::core::entry::KeptWhy;
use crate::core::rewind::PathChoice;
use crate::core::text::count;
use crate::session::{PathBecomes, RewindRow, RewindSection};
use crate::ui::text::{clean_line, clip, clip_middle, width};
use crate::ui::theme::Theme;

/// Draws the pane over the whole area. `before`: the text before the keys while they are dim and do
/// not count yet.
pub fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    pane: &mut RewindPane,
    theme: &Theme,
    before: Option<&str>,
) {
    let columns = usize::from(area.width);
    let head = head(pane, columns, theme);
    let foot = foot(pane, columns, theme, before);
    let above = u16::try_from(head.len()).unwrap_or(0);
    let body = area.height.saturating_sub(above + 1);
    pane.rows = usize::from(body);
    pane.scroll_into_view();
    let mut lines = head;
    let seen = match &mut pane.diff {
        Some(diff) => diff_lines(diff, pane.rows, columns, theme),
        None => list_lines(pane, columns, theme),
    };
    lines.extend(seen);
    lines.resize(usize::from(above + body), Line::default());
    lines.push(foot);
    frame.render_widget(Paragraph::new(lines), area);
    pane.drawn();
}

fn head(pane: &RewindPane, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let words = clean_line(&pane.words).into_owned();
    let title = match (pane.what, &pane.diff) {
        (_, Some(diff)) => clean_line(&diff.name).into_owned(),
        (RewindWhat::Files, None) => format!("Rewind files to before: {words}"),
        (RewindWhat::Both, None) => format!("Rewind files and conversation to before: {words}"),
        (RewindWhat::Redo, None) => "Redo: take the last rewind back".to_string(),
    };
    let title = Line::styled(clip(&title, columns), theme.heading());
    if pane.diff.is_some() {
        return vec![title];
    }
    let (sums, style) = match (&pane.note, &pane.shown) {
        (Some(note), _) => (note.clone(), theme.warn),
        (None, None) => ("looking at the files …".to_string(), theme.dim),
        (None, Some(_)) => (pane.sums().text(), theme.text),
    };
    let exact = match pane.whole {
        true => " · exact: also what others changed",
        false => "",
    };
    let sums = Line::styled(clip(&format!("{sums}{exact}"), columns), style);
    vec![title, sums]
}

fn foot(pane: &RewindPane, columns: usize, theme: &Theme, before: Option<&str>) -> Line<'static> {
    let before = before.filter(|_| pane.asks());
    let mut keys = before.unwrap_or_default().to_string();
    for (at, key) in pane.keys().into_iter().enumerate() {
        let gap = if at == 0 { "" } else { " · " };
        if width(&keys) + width(gap) + width(key) <= columns {
            keys.push_str(gap);
            keys.push_str(key);
        }
    }
    let style = match before {
        None if pane.asks() => theme.accent,
        _ => theme.dim,
    };
    Line::styled(clip(&keys, columns), style)
}

fn list_lines(pane: &RewindPane, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let seen = pane.items.iter().enumerate().skip(pane.top).take(pane.rows);
    let line = |(at, item): (usize, &Item)| match item {
        Item::Warning(text) => {
            let text = format!("! {}", clean_line(text));
            Line::styled(clip(&text, columns), theme.warn)
        }
        Item::Heading(section, all) => {
            let text = format!("{} · {}", section.title(), count(*all, "path"));
            let more = match section {
                RewindSection::Asked => ": press t to restore one",
                RewindSection::Appeared => ": press t to remove one",
                _ => "",
            };
            Line::styled(clip(&format!("{text}{more}"), columns), theme.heading())
        }
        Item::Row(row) => match pane.preview().and_then(|p| p.rows.get(*row)) {
            Some(row) => row_line(row, pane.choice(row), at == pane.at, columns, theme),
            None => Line::default(),
        },
        Item::Always(text) => Line::styled(clip(text, columns), theme.dim),
        Item::Blank => Line::default(),
    };
    seen.map(line).collect()
}

/// `▸ ← src/a.rs   +12 −3`
fn row_line(
    row: &RewindRow,
    choice: Option<PathChoice>,
    is_at: bool,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let (sign, text, style) = match row.becomes(choice) {
        Ok(change) if change.what == PathBecomes::Removed => ("✗ ", change.text(), theme.warn),
        Ok(change) => ("← ", change.text(), theme.accent),
        Err(KeptWhy::Chosen) => ("= ", "stays".to_string(), theme.dim),
        Err(why) => ("= ", why.words().to_string(), theme.dim),
    };
    let text = match choice {
        Some(_) => format!("{text} (your choice)"),
        None => text,
    };
    let room = columns.saturating_sub(5);
    // The path is more important than the text after it.
    let text = clip(
        &text,
        room.saturating_sub(width(&row.name).min(room * 3 / 5)),
    );
    let name = clip_middle(&clean_line(&row.name), room.saturating_sub(width(&text)));
    let gap = " ".repeat(room.saturating_sub(width(&name) + width(&text)) + 1);
    let (mark, name_style) = match is_at {
        true => ("▸ ", theme.accent),
        false => ("  ", theme.text),
    };
    Line::from(vec![
        Span::styled(mark, theme.accent),
        Span::styled(sign, style),
        Span::styled(name, name_style),
        Span::styled(format!("{gap}{text}"), theme.dim),
    ])
}

fn diff_lines(diff: &mut Diff, rows: usize, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(lines) = &diff.lines else {
        return vec![Line::styled("reading …", theme.dim)];
    };
    if lines.is_empty() {
        return vec![Line::styled("its lines are the same", theme.dim)];
    }
    diff.top = diff.top.min(lines.len().saturating_sub(rows));
    let seen = lines.iter().skip(diff.top).take(rows);
    let line = |line: &String| {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'@', b'@', ..] => theme.dim,
            [b'+', ..] => theme.diff_add,
            [b'-', ..] => theme.diff_del,
            _ => theme.text,
        };
        Line::styled(clip(&clean_line(line), columns), style)
    };
    seen.map(line).collect()
}
