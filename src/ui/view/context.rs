//! The content of the context window, as `/context` shows it.

use ratatui::text::{Line, Span};

use crate::ui::app::App;
use crate::ui::text::{clip, short};

/// Maximum columns for the names of the parts.
const NAME_COLUMNS: usize = 26;
/// Columns of the box around them.
const FRAME_COLUMNS: usize = 6;
/// Columns of the glyph before a name, and of the figures after it.
const FIGURE_COLUMNS: usize = 18;

/// Returns the use of the context as lines, for `/context`.
pub fn context_lines(app: &App) -> Vec<Line<'static>> {
    let theme = &app.look.theme;
    let Some(gauge) = &app.session.now.gauge else {
        return vec![Line::styled("no session is open", theme.dim)];
    };
    // Each part has one row, also on a narrow screen.
    let room = usize::from(app.look.size.0).saturating_sub(FRAME_COLUMNS + FIGURE_COLUMNS);
    let name_columns = room.min(NAME_COLUMNS);
    let row = |style, cell: &'static str, name: &str, tokens: u64| {
        let percent = tokens * 100 / gauge.window.max(1);
        let name = clip(name, name_columns);
        Line::from(vec![
            Span::styled(format!(" {cell} "), style),
            Span::styled(
                format!("{name:<name_columns$}{:>9}  {percent:>3}%", short(tokens)),
                theme.text,
            ),
        ])
    };
    let parts = gauge.parts;
    let free = gauge.window.saturating_sub(parts.all());
    let mut lines = vec![
        Line::styled(app.session.now.model.clone(), theme.heading()),
        row(theme.text, "▓", "system prompt and tools", parts.system),
        row(theme.text, "▓", "instructions", parts.instructions),
        row(theme.dim, "▒", "summary or note", parts.summary),
        row(theme.text, "█", "recent, in full", parts.recent),
        row(theme.border, "·", "free, the answer included", free),
        Line::default(),
    ];
    let said = gauge.lines();
    lines.extend(said.into_iter().map(|line| Line::styled(line, theme.dim)));
    lines.push(Line::default());
    lines.push(Line::styled(
        "/compact summarises all but the newest exchange now",
        theme.dim,
    ));
    lines
}
