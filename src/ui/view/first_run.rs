//! The screen of a start without a model.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over::{asking_keys, boxed, centred, words_below};
use crate::ui::app::{App, Overlay};
use crate::ui::text::{Break, clean_line, wrap};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::FirstRun(first) = &app.overlay else {
        return;
    };
    let theme = &app.theme;
    let width = area.width.min(90);
    let columns = usize::from(width.saturating_sub(4));
    let mut lines = Vec::new();
    let mut put = |text: &str, style, before: &'static str| {
        let spans = [Span::styled(clean_line(text).into_owned(), style)];
        let first = [Span::styled(before, style)];
        let rest = [Span::raw(" ".repeat(before.chars().count()))];
        lines.extend(wrap(&spans, columns, &first, &rest, Break::Words));
    };
    put(&first.why, theme.warn, "");
    let title = match first.shows_others {
        false => "This was looked for:",
        true => "These are known by name too:",
    };
    put(title, theme.text, "");
    for provider in first.shown() {
        let (mark, style) = match provider.is_ready {
            true => ("✓ ", theme.ok),
            false => ("· ", theme.dim),
        };
        let said = match first.shows_others {
            false => &provider.found,
            true => &provider.hint,
        };
        put(&format!("{}: {said}", provider.name), style, mark);
        if !provider.is_ready && !first.shows_others {
            put(&provider.hint, theme.dim, "    ");
        }
    }
    lines.push(Line::default());
    let models = first.models();
    let rows = models
        .iter()
        .map(|model| format!("use {model}"))
        .chain(["see the demo: no key, no network".to_string()]);
    let choices = lines.len();
    for (place, row) in rows.enumerate() {
        let (mark, style) = match place == first.at {
            true => ("▸ ", theme.accent),
            false => ("  ", theme.text),
        };
        lines.push(Line::styled(format!("{mark}{}", clean_line(&row)), style));
    }
    lines.push(Line::default());
    let keys = match (first.has_others(), first.shows_others) {
        (false, _) => "Enter chooses · q quits",
        (true, false) => "Enter chooses · m more providers · q quits",
        (true, true) => "Enter chooses · m back · q quits",
    };
    lines.push(Line::from(asking_keys(app, keys)));
    lines.extend(words_below(app, columns));
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    // The choice that is made and the keys stay in sight.
    let over = lines
        .len()
        .saturating_sub(usize::from(area.height.saturating_sub(2)));
    lines.drain(..over.min(choices + first.at));
    let inner = boxed(
        frame,
        centred(area, width, height),
        " rewake has no model yet ",
        theme,
    );
    frame.render_widget(Paragraph::new(lines), inner);
}
