//! The screen of a start without a model.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over::{asking_keys_in, boxed, centred, words_below};
use crate::ui::app::{App, Overlay};
use crate::ui::overlay::{Provider, SetupRow, WHAT_IT_IS};
use crate::ui::text::{Break, clean_line, clip, wrap};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::FirstRun(first) = &app.prompts.overlay else {
        return;
    };
    let theme = &app.look.theme;
    let width = area.width.saturating_sub(2).min(90);
    let columns = usize::from(width.saturating_sub(4));
    let mut lines = Vec::new();
    let mut put = |text: &str, style, before: &'static str| {
        let spans = [Span::styled(clean_line(text).into_owned(), style)];
        let first = [Span::styled(before, style)];
        let rest = [Span::raw(" ".repeat(before.chars().count()))];
        lines.extend(wrap(&spans, columns, &first, &rest, Break::Words));
    };
    match first.why.as_str() {
        "" => put(WHAT_IT_IS, theme.text, ""),
        why => put(why, theme.warn, ""),
    }
    if first.shows_others {
        put("These are known by name too:", theme.text, "");
    }
    // A provider whose key can be typed says all of it in its row.
    let is_row = |p: &&Provider| !p.is_ready && p.with_key.is_some();
    for provider in first.shown().filter(|p| !is_row(p)) {
        let (mark, style) = match provider.is_ready {
            true => ("✓ ", theme.ok),
            false => ("· ", theme.dim),
        };
        let said = match first.shows_others {
            false => &provider.found,
            true => &provider.hint,
        };
        put(&format!("{}: {said}", provider.name), style, mark);
        if !provider.is_ready && !first.shows_others && !provider.hint.is_empty() {
            put(&provider.hint, theme.dim, "    ");
        }
    }
    lines.push(Line::default());
    let rows = first.rows();
    let rows = rows.iter().map(row_text);
    let choices = lines.len();
    for (place, row) in rows.enumerate() {
        let (mark, style) = match place == first.at {
            true => ("› ", theme.accent),
            false => ("  ", theme.text),
        };
        lines.push(Line::styled(
            clip(&format!("{mark}{}", clean_line(&row)), columns),
            style,
        ));
    }
    let mut below = vec![Line::from(asking_keys_in(app, first.keys(), columns))];
    below.extend(words_below(app, columns));
    // The choice that is made and the keys stay in sight.
    let room = usize::from(area.height).saturating_sub(2 + below.len());
    if lines.len() < room {
        lines.push(Line::default());
    }
    let over = lines.len().saturating_sub(room);
    lines.drain(..over.min(choices + first.at));
    lines.truncate(room);
    lines.extend(below);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let inner = boxed(
        frame,
        centred(area, width, height),
        " rewake has no model yet ",
        theme,
    );
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Columns for the names of providers.
const NAME: usize = 12;

fn row_text(row: &SetupRow<'_>) -> String {
    match row {
        SetupRow::Model(model) => format!("use {model}"),
        SetupRow::Key(provider, _) => {
            format!("type a key for {:<NAME$} {}", provider.name, provider.found)
        }
        SetupRow::Demo => "see the demo: no key, no network".to_string(),
    }
}
