//! What the context window is filled with, as `/context` shows it.

use ratatui::text::{Line, Span};

use super::status::short;
use crate::ui::app::App;

pub fn context_lines(app: &App) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let gauge = app.now.gauge;
    let usage = app.now.usage;
    let row = |style, cell: &'static str, name: &str, tokens: u64| {
        let percent = tokens * 100 / gauge.window.max(1);
        Line::from(vec![
            Span::styled(format!(" {cell} "), style),
            Span::styled(format!("{name:<34}{:>9}  {percent:>3}%", short(tokens)), theme.text),
        ])
    };
    let free = gauge.window.saturating_sub(gauge.used());
    let cached = match usage.prompt() {
        0 => 0,
        all => usage.cached * 100 / all,
    };
    vec![
        Line::styled(
            format!("{}: {} tokens", app.now.model, short(gauge.window)),
            theme.heading,
        ),
        row(theme.gauge_system, "▓", "system prompt, tools, instructions", gauge.system),
        row(theme.gauge_summary, "▒", "summary or note", gauge.summary),
        row(theme.gauge_recent, "█", "recent, in full", gauge.recent),
        row(theme.gauge_free, "·", "free, the answer included", free),
        Line::default(),
        Line::styled(
            format!(
                "in all: {} sent, {cached}% of it from the cache, {} answered",
                short(usage.prompt()),
                short(usage.output)
            ),
            theme.dim,
        ),
        Line::styled("/compact summarises all but the newest exchange now", theme.dim),
    ]
}
