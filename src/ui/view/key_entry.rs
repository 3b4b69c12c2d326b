//! The field in which a key is typed: a dot for each character.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over::{boxed, centred};
use crate::ui::app::{App, Overlay};
use crate::ui::overlay::KEY_ENTRY_KEYS;
use crate::ui::text::{Break, clean_line, wrap};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let Overlay::Key(entry) = &app.prompts.overlay else {
        return;
    };
    let theme = &app.look.theme;
    let width = area.width.min(76);
    let columns = usize::from(width.saturating_sub(4)).max(1);
    let provider = clean_line(&entry.provider);
    // The end of the typed text is visible.
    let dots = "•".repeat(entry.chars().min(columns.saturating_sub(3)));
    let mut lines = vec![Line::from(vec![
        Span::styled("› ", theme.accent),
        Span::styled(dots, theme.text),
        Span::styled("▏", theme.accent),
    ])];
    let mut put = |text: &str, style| {
        let spans = [Span::styled(text.to_string(), style)];
        lines.extend(wrap(&spans, columns, &[], &[], Break::Words));
    };
    put(
        &format!(
            "It is kept in a file that you alone can read, and sent to {provider} and nowhere else."
        ),
        theme.dim,
    );
    if let Some(hint) = &app.hint {
        put(&clean_line(hint), theme.warn);
    }
    put(KEY_ENTRY_KEYS, theme.accent);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let title = format!(" type or paste the key for {provider} ");
    let inner = boxed(frame, centred(area, width, height), &title, theme);
    frame.render_widget(Paragraph::new(lines), inner);
}
