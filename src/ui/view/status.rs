//! The last line: model, mode, place, how full the context is, what it costs, and what would
//! be lost if the power went now.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::session::context::Gauge;
use crate::ui::app::App;
use crate::ui::text::{clean_line, clip_middle, width};

const CELLS: u64 = 10;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let columns = usize::from(area.width);
    let mut left = left(app);
    let mut right = right(app);
    // What matters least goes first where there is no room.
    while sum(&left) + sum(&right) + 1 > columns && left.len() + right.len() > 3 {
        if right.len() > 1 {
            right.remove(0);
        } else {
            left.pop();
        }
    }
    // Of the model, as much as there is room for beside the mode.
    if let [model, mode] = left.as_mut_slice()
        && let [name] = model.as_mut_slice()
    {
        let others = sum(std::slice::from_ref(mode)) + sum(&right) + 1;
        name.content = clip_middle(&name.content, columns.saturating_sub(others)).into();
    }
    let gap = columns.saturating_sub(sum(&left) + sum(&right));
    let mut spans: Vec<Span<'static>> = left.into_iter().flatten().collect();
    spans.push(Span::raw(" ".repeat(gap)));
    spans.extend(right.into_iter().flatten());
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

type Part = Vec<Span<'static>>;

fn sum(parts: &[Part]) -> usize {
    parts.iter().flatten().map(|s| width(&s.content)).sum()
}

fn left(app: &App) -> Vec<Part> {
    let theme = &app.theme;
    let mode_style = match app.now.mode {
        Mode::Default => theme.dim,
        Mode::AcceptEdits => theme.ok,
        Mode::Plan => theme.accent,
        Mode::BypassPermissions => theme.error,
    };
    let effort = match app.now.effort {
        Effort::Default => String::new(),
        effort => format!(" {}", effort.name()),
    };
    let mut parts = vec![
        vec![Span::styled(
            format!(" {}{effort}", clean_line(&app.now.model)),
            theme.text,
        )],
        vec![Span::styled(
            format!(" · {}", app.now.mode.name()),
            mode_style,
        )],
    ];
    let folder = match app.now.folder.as_str() {
        "" => app.launch.shown(&app.launch.folder),
        folder => app.launch.shown(folder),
    };
    let branch = match &app.branch {
        Some(branch) => format!(" ({})", clean_line(branch)),
        None => String::new(),
    };
    let background = app.now.background.len();
    if background > 0 {
        let what = format!(" · {background} running (/ps)");
        parts.push(vec![Span::styled(what, theme.running)]);
    }
    let place = format!(" · {}{branch}", clip_middle(&clean_line(&folder), 40));
    parts.push(vec![Span::styled(place, theme.dim)]);
    parts
}

fn right(app: &App) -> Vec<Part> {
    let theme = &app.theme;
    let usage = app.now.usage;
    let mut parts = Vec::new();
    if usage.all() > 0 {
        let cost = match app.cost_usd {
            Some(cost) if cost > 0.0 => format!(" ${cost:.2}"),
            _ => String::new(),
        };
        let tokens = format!("↑{} ↓{}{cost} ", short(usage.prompt()), short(usage.output));
        parts.push(vec![Span::styled(tokens, theme.dim)]);
    }
    if let Some(full) = &app.now.gauge {
        parts.push(gauge(full, app));
    }
    parts.push(vec![saved(app)]);
    parts
}

/// `▓▓▒░······ 34%`: system, summary, recent, free.
fn gauge(gauge: &Gauge, app: &App) -> Part {
    let theme = &app.theme;
    let cells = |tokens: u64| (tokens * CELLS).div_ceil(gauge.window.max(1));
    let parts = &gauge.parts;
    let system = cells(parts.system + parts.instructions).min(CELLS);
    let summary = cells(parts.summary).min(CELLS - system);
    let recent = cells(parts.recent).min(CELLS - system - summary);
    let free = CELLS - system - summary - recent;
    let bar = |cell: &str, n: u64, style: Style| {
        Span::styled(cell.repeat(usize::try_from(n).unwrap_or(0)), style)
    };
    let percent = parts.all() * 100 / gauge.window.max(1);
    let style = if percent >= 80 { theme.warn } else { theme.dim };
    vec![
        bar("▓", system, theme.text),
        bar("▒", summary, theme.dim),
        bar("█", recent, theme.text),
        bar("·", free, theme.border),
        Span::styled(format!(" {percent}% "), style),
    ]
}

/// The live loss bound.
fn saved(app: &App) -> Span<'static> {
    let theme = &app.theme;
    match (&app.kept.trouble, app.kept.at_ms) {
        (Some(_), _) => Span::styled("not saved ", theme.error),
        (None, None) => Span::styled("nothing to save ", theme.dim),
        (None, Some(at)) => {
            let age = (app.now_ms - at).max(0);
            let text = match age {
                ..10_000 => format!("saved {:.1} s ago ", age as f64 / 1000.0),
                10_000..60_000 => format!("saved {} s ago ", age / 1000),
                _ => "saved ".to_string(),
            };
            Span::styled(text, theme.ok)
        }
    }
}

/// `12.3k`
pub(super) fn short(n: u64) -> String {
    match n {
        ..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}
