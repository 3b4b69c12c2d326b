//! The content of the context window, as `/context` shows it, and the cost of the session, as
//! `/cost` shows it.

use ratatui::text::{Line, Span};

use crate::ui::app::App;
use crate::ui::text::{clip, dollars, short};

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

/// Returns the cost of the session and its tokens as lines, for `/cost`.
pub fn cost_lines(app: &App) -> Vec<Line<'static>> {
    let theme = &app.look.theme;
    let session = &app.session;
    let usage = session.now.usage;
    let row = |name: &str, figure: String| {
        Line::from(vec![
            Span::styled(format!("{name:<14}"), theme.dim),
            Span::styled(figure, theme.text),
        ])
    };
    let cached = match usage.cached {
        0 => String::new(),
        cached => format!(", {} of them from the cache", short(cached)),
    };
    let money = match session.cost_usd {
        Some(0.0) if usage.all() > 0 => "free of charge".to_string(),
        Some(0.0) => "nothing yet".to_string(),
        Some(cost) => dollars(cost),
        None => "not known".to_string(),
    };
    let mut lines = vec![
        Line::styled(session.now.model.clone(), theme.heading()),
        row("this session", money),
        row("sent", format!("{} tokens{cached}", short(usage.prompt()))),
        row("received", format!("{} tokens", short(usage.output))),
    ];
    if let Some(end) = app.conversation.transcript.last_turn() {
        lines.push(row("last turn", end.spent()));
    }
    if session.cost_usd.is_none() {
        let how =
            "no price is known: set input_price and output_price in [models.\"provider/model\"]";
        lines.extend([Line::default(), Line::styled(how, theme.dim)]);
    }
    lines
}
