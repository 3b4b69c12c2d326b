//! The last line: model, mode, folder, use of the context, cost, and the unsaved work that a power
//! failure would lose.
//!
//! Without enough room, parts are left out in this order: tokens, the provider before the model,
//! the branch, the folder, the cost, the mode. The model, the use of the context and the unsaved work
//! stay, and so does the mode in which nothing is asked.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::core::text::count;
use crate::session::clock;
use crate::ui::app::App;
use crate::ui::text::{clean_line, clip, clip_middle, dollars, short, width};

/// Columns for the reason why nothing is saved; the full text is in a notice.
const REASON_COLUMNS: usize = 24;
/// Minimum columns of a model's name.
const LEAST_MODEL: usize = 6;

/// Parts that may be left out, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StatusPart {
    Tokens,
    Provider,
    Branch,
    Folder,
    Cost,
    Mode,
    Full,
}

const PARTS: [StatusPart; 7] = [
    StatusPart::Tokens,
    StatusPart::Provider,
    StatusPart::Branch,
    StatusPart::Folder,
    StatusPart::Cost,
    StatusPart::Mode,
    StatusPart::Full,
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let columns = usize::from(area.width);
    let model_columns = width(&model(app, false));
    let mut line = (Vec::new(), Vec::new());
    for dropped in 0..=PARTS.len() {
        let has = |part: StatusPart| PARTS[dropped..].contains(&part);
        line = (left(app, has), right(app, has));
        let others = sum(&line.0) + sum(&line.1) - model_columns.min(sum(&line.0));
        // The model's name is cut before the last part is left out.
        let wanted = match has(StatusPart::Mode) {
            true => model_columns,
            false => model_columns.min(LEAST_MODEL),
        };
        if others + wanted + 2 <= columns {
            break;
        }
    }
    let (mut left, right) = line;
    let over = (sum(&left) + sum(&right) + 2).saturating_sub(columns);
    if let Some(model) = left.first_mut().filter(|_| over > 0) {
        let room = width(&model.content).saturating_sub(over);
        model.content = clip_middle(&model.content, room).into();
    }
    let gap = columns.saturating_sub(sum(&left) + sum(&right));
    let mut spans = left;
    spans.push(Span::raw(" ".repeat(gap)));
    spans.extend(right);
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn sum(spans: &[Span<'static>]) -> usize {
    spans.iter().map(Span::width).sum()
}

fn model(app: &App, with_provider: bool) -> String {
    let name = clean_line(&app.session.now.model).into_owned();
    let name = match name.rsplit_once('/') {
        Some((_, short)) if !with_provider => short.to_string(),
        _ => name,
    };
    match app.session.now.effort {
        Effort::Default => name,
        effort => format!("{name} {}", effort.name()),
    }
}

fn left(app: &App, has: impl Fn(StatusPart) -> bool) -> Vec<Span<'static>> {
    let theme = &app.look.theme;
    let dim = |text: String| Span::styled(text, theme.dim);
    let mut spans = vec![dim(model(app, has(StatusPart::Provider)))];
    let is_dangerous = app.session.now.mode == Mode::BypassPermissions;
    if is_dangerous || has(StatusPart::Mode) {
        let style = if is_dangerous { theme.warn } else { theme.dim };
        spans.push(dim(" · ".to_string()));
        spans.push(Span::styled(app.session.now.mode.name(), style));
    }
    let tasks = app.session.now.background_tasks;
    if tasks > 0 && has(StatusPart::Mode) {
        spans.push(dim(format!(" · {} at work", count(tasks as u64, "task"))));
    }
    let background = app.session.now.background.len().saturating_sub(tasks);
    if background > 0 && has(StatusPart::Mode) {
        let how = if has(StatusPart::Folder) {
            " (/ps)"
        } else {
            ""
        };
        spans.push(dim(format!(" · {background} running{how}")));
    }
    if has(StatusPart::Folder) {
        let folder = app.launch.shown(app.session.folder());
        let name = folder.rsplit('/').find(|part| !part.is_empty());
        let name = clean_line(name.unwrap_or("/")).into_owned();
        spans.push(dim(format!(" · {}", clip_middle(&name, 40))));
    }
    if let Some(branch) = app.branch.as_ref().filter(|_| has(StatusPart::Branch)) {
        let branch = clip_middle(&clean_line(branch), 40);
        spans.push(dim(format!(" {branch}")));
    }
    spans
}

fn right(app: &App, has: impl Fn(StatusPart) -> bool) -> Vec<Span<'static>> {
    let theme = &app.look.theme;
    let dim = |text: String| Span::styled(text, theme.dim);
    let usage = app.session.now.usage;
    let mut spans = Vec::new();
    let mut spent = Vec::new();
    if usage.all() > 0 && has(StatusPart::Tokens) {
        let (sent, got) = (short(usage.prompt()), short(usage.output));
        spent.push(format!("↑{sent} ↓{got}"));
    }
    let cost = app.session.cost_usd.filter(|cost| *cost > 0.0);
    spent.extend(cost.filter(|_| has(StatusPart::Cost)).map(dollars));
    if !spent.is_empty() {
        spans.push(dim(format!("{} · ", spent.join(" "))));
    }
    if let Some(gauge) = app
        .session
        .now
        .gauge
        .as_ref()
        .filter(|_| has(StatusPart::Full))
    {
        let percent = gauge.parts.all() * 100 / gauge.window.max(1);
        let style = if percent >= 80 { theme.warn } else { theme.dim };
        spans.push(Span::styled(format!("context {percent}%"), style));
        spans.push(dim(" · ".to_string()));
    }
    spans.push(saved(app));
    spans
}

/// Shows unsaved work. It does not change while nothing happens.
fn saved(app: &App) -> Span<'static> {
    let theme = &app.look.theme;
    let style: Style = theme.dim;
    let unsaved_ms = app.session.unsaved_ms(app.input.typed_ms, app.now_ms);
    match (&app.session.kept.trouble, unsaved_ms) {
        (Some(trouble), _) => {
            let why = clip(&clean_line(trouble), REASON_COLUMNS);
            let room = usize::from(app.look.size.0).saturating_sub(REASON_COLUMNS);
            match width(&why) <= room {
                true => Span::styled(format!("NOT SAVED: {why}"), theme.error),
                false => Span::styled("NOT SAVED", theme.error),
            }
        }
        (None, None) => Span::styled("saved", style),
        (None, Some(age)) if age < 10_000 => {
            Span::styled(format!("saved {:.1} s ago", age as f64 / 1000.0), style)
        }
        (None, Some(age)) => Span::styled(format!("saved {} ago", clock(age)), style),
    }
}
