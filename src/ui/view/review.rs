//! The changes since the last commit: the list of files, and the lines of one. Only visible lines
//! are laid out.

use std::path::Path;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::put;
use crate::core::text::count;
use crate::ui::app::{App, Overlay};
use crate::ui::changes::{ChangeLine, FileChange, Side};
use crate::ui::highlight::Highlighter;
use crate::ui::overlay::Review;
use crate::ui::text::{Break, clean_line, clip, clip_middle, width, wrap};
use crate::ui::theme::Theme;

/// Minimum columns for the list beside the file.
const BOTH_COLUMNS: u16 = 110;
const LIST_COLUMNS: u16 = 38;

/// Number of lines before the visible ones that are read for their colours.
const LINES_ABOVE: usize = 200;
const MAX_LINE_BYTES: usize = 2_000;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    if !matches!(app.prompts.overlay, Overlay::Review(_)) {
        return;
    }
    let Overlay::Review(mut review) = std::mem::replace(&mut app.prompts.overlay, Overlay::None)
    else {
        return;
    };
    let body = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(2),
        ..area
    };
    review.rows = usize::from(body.height);
    let columns = usize::from(area.width);
    put(frame, area, &[title(&review, columns, &app.look.theme)]);
    let (list, file) = match (area.width >= BOTH_COLUMNS, review.in_list) {
        (true, _) => {
            let rest = Rect {
                x: body.x + LIST_COLUMNS + 1,
                width: body.width - LIST_COLUMNS - 1,
                ..body
            };
            let list = Rect {
                width: LIST_COLUMNS,
                ..body
            };
            (Some(list), Some(rest))
        }
        (false, true) => (Some(body), None),
        (false, false) => (None, Some(body)),
    };
    if let Some(list) = list {
        put(frame, list, &list_lines(&review, list, &app.look.theme));
    }
    if let Some(at) = file {
        let theme = app.look.theme.clone();
        let lines = file_lines(&review, at, &theme, &mut app.look.code);
        put(frame, at, &lines);
    }
    let keys = match review.in_list {
        true => "↑↓ file · Enter opens · Space seen · e editor · ? keys · Esc closes",
        false => "←→ file · ↑↓ PgDn · ] [ hunk · Space seen · e editor · Esc list",
    };
    let foot = Rect {
        y: area.y + area.height.saturating_sub(1),
        height: 1,
        ..area
    };
    put(
        frame,
        foot,
        &[Line::styled(clip(keys, columns), app.look.theme.dim)],
    );
    app.prompts.overlay = Overlay::Review(review);
}

fn title(review: &Review, columns: usize, theme: &Theme) -> Line<'static> {
    let files = count(review.files.len(), "file");
    let added: usize = review.files.iter().map(|f| f.added).sum();
    let removed: usize = review.files.iter().map(|f| f.removed).sum();
    let seen = review
        .files
        .iter()
        .filter(|f| review.seen.contains(&f.path))
        .count();
    let at = review.at + 1;
    let text = match (review.in_list, review.files.get(review.at)) {
        (false, Some(file)) => {
            let end = format!("  {at} of {files} · +{} −{}", file.added, file.removed);
            let room = columns.saturating_sub(width(&end));
            format!("{}{end}", clip_middle(&clean_line(&file.path), room))
        }
        _ => format!("changes since the last commit  {files} · +{added} −{removed} · {seen} seen"),
    };
    Line::styled(clip(&text, columns), theme.heading())
}

fn list_lines(review: &Review, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
    let rows = usize::from(area.height).max(1);
    let top = (review.at + 1).saturating_sub(rows);
    let files = review.files.iter().enumerate().skip(top).take(rows);
    let line = |(at, file): (usize, &FileChange)| {
        let mark = if review.seen.contains(&file.path) {
            "✓ "
        } else {
            "  "
        };
        let counts = match file.notes.first() {
            Some(note) if file.lines.is_empty() => note.split(':').next().unwrap_or("").to_string(),
            Some(note) if note == "deleted" => format!("deleted −{}", file.removed),
            _ => format!("+{} −{}", file.added, file.removed),
        };
        let room = usize::from(area.width).saturating_sub(width(&counts) + 6);
        let path = clip_middle(&clean_line(&file.path), room);
        let gap = " ".repeat(room.saturating_sub(width(&path)) + 2);
        let focus = if at == review.at { "› " } else { "  " };
        let style = if at == review.at {
            theme.accent
        } else {
            theme.text
        };
        Line::from(vec![
            Span::styled(focus, theme.accent),
            Span::styled(mark, theme.ok),
            Span::styled(path, style),
            Span::styled(format!("{gap}{counts}"), theme.dim),
        ])
    };
    files.map(line).collect()
}

fn file_lines(
    review: &Review,
    area: Rect,
    theme: &Theme,
    code: &mut Highlighter,
) -> Vec<Line<'static>> {
    let Some(file) = review.files.get(review.at) else {
        return Vec::new();
    };
    let rows = usize::from(area.height);
    let columns = usize::from(area.width);
    let mut lines: Vec<Line<'static>> = Vec::new();
    if review.top == 0 {
        let notes = file.notes.iter();
        lines.extend(notes.map(|note| Line::styled(clip(&clean_line(note), columns), theme.dim)));
    }
    let seen = file.lines.iter().skip(review.top).take(rows);
    let colours = coloured(file, review.top, rows, theme, code);
    let digits = file.lines.last().map_or(1, |l| l.number.to_string().len());
    for (line, colours) in seen.zip(colours) {
        if lines.len() >= rows {
            break;
        }
        lines.extend(shown(line, colours, digits, columns, theme));
    }
    lines.truncate(rows);
    lines
}

fn shown(
    line: &ChangeLine,
    colours: Vec<(Style, String)>,
    digits: usize,
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (sign, style) = match line.side {
        Side::Hunk => {
            let text = clip(&clean_line(&line.text), columns);
            return vec![Line::styled(text, theme.dim)];
        }
        Side::Same => (' ', theme.dim),
        Side::Added => ('+', theme.diff_add),
        Side::Removed => ('-', theme.diff_del),
    };
    let back = Style {
        bg: style.bg,
        ..Style::default()
    };
    let plain = if line.side == Side::Same {
        theme.text
    } else {
        style
    };
    let spans: Vec<Span<'static>> = colours
        .into_iter()
        .map(|(colour, text)| Span::styled(text, plain.patch(colour).patch(back)))
        .collect();
    let first = [Span::styled(
        format!("{:>digits$} {sign} ", line.number),
        style,
    )];
    let rest = [Span::styled(" ".repeat(digits + 3), style)];
    let rows = wrap(&spans, columns, &first, &rest, Break::Anywhere);
    rows.into_iter().map(|row| row.style(back)).collect()
}

/// Colours the visible lines, each side of the change separately.
fn coloured(
    file: &FileChange,
    top: usize,
    rows: usize,
    theme: &Theme,
    code: &mut Highlighter,
) -> Vec<Vec<(Style, String)>> {
    let language = Path::new(&file.path).extension().unwrap_or_default();
    let language = language.to_string_lossy();
    let above = top.saturating_sub(LINES_ABOVE);
    let window = || {
        file.lines
            .iter()
            .enumerate()
            .skip(above)
            .take(top - above + rows)
    };
    let text = |line: &ChangeLine| {
        clean_line(&crate::core::text::clip(&line.text, MAX_LINE_BYTES)).into_owned()
    };
    let mut of_side = |side: Side| {
        let is_of = |line: &ChangeLine| line.side == side || line.side == Side::Same;
        let lines: Vec<(usize, String)> = window()
            .filter(|(_, line)| is_of(line))
            .map(|(at, line)| (at, text(line)))
            .collect();
        let whole: String = lines.iter().map(|(_, text)| format!("{text}\n")).collect();
        let colours = code.lines(&whole, 0, &language, theme).lines;
        lines
            .into_iter()
            .map(|(at, _)| at)
            .zip(colours)
            .collect::<Vec<_>>()
    };
    let (removed, added) = (of_side(Side::Removed), of_side(Side::Added));
    let of = |at: usize, line: &ChangeLine| {
        let side = if line.side == Side::Removed {
            &removed
        } else {
            &added
        };
        let found = side.binary_search_by_key(&at, |(at, _)| *at);
        found.ok().map(|found| side[found].1.clone())
    };
    let seen = file.lines.iter().enumerate().skip(top).take(rows);
    seen.map(|(at, line)| of(at, line).unwrap_or_default())
        .collect()
}
