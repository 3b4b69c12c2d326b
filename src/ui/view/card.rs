//! The card that offers unfinished work.

use crate::core::text::count;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over::{asking_keys, boxed, centred, words_below};
use crate::core::entry::Mode;
use crate::session::{Details, Offer, ago, clock, short_id};
use crate::ui::app::{App, Overlay};
use crate::ui::text::{Break, clean_line, clip, wrap};
use crate::ui::theme::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::Card(card) = &app.overlay else {
        return;
    };
    let theme = &app.theme;
    let width = area.width.min(100);
    let columns = usize::from(width.saturating_sub(4));
    let mut lines = Vec::new();
    for (place, offer) in card.offers.iter().enumerate() {
        lines.extend(offer_lines(
            offer,
            place == card.at,
            app.now_ms,
            columns,
            theme,
        ));
        lines.push(Line::default());
    }
    let held = card.offer().is_some_and(|o| o.held_by.is_some());
    let keys = match held {
        true => "Enter watch it · t take it over · f go on in a copy · n new · h history · q quit",
        false => "Enter resume · n new · f copy · x dismiss · h history · q quit",
    };
    lines.extend(wrap(
        &[asking_keys(app, keys)],
        columns,
        &[],
        &[],
        Break::Words,
    ));
    lines.extend(words_below(app, columns));
    // The selected one stays in sight.
    let room = usize::from(area.height.saturating_sub(2));
    let skip = first_seen(card.at, &lines, room);
    let lines: Vec<Line<'static>> = lines.into_iter().skip(skip).collect();
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let at = centred(area, width, height);
    let count = card.offers.len();
    let title = match count {
        1 => " unfinished work here ".to_string(),
        n => format!(" unfinished work here: {n} sessions "),
    };
    let inner = boxed(frame, at, &title, theme);
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Lines to leave out above, so that the offer that is selected is seen with the keys.
fn first_seen(at: usize, lines: &[Line<'_>], room: usize) -> usize {
    let over = lines.len().saturating_sub(room);
    let starts: Vec<usize> = std::iter::once(0)
        .chain(
            lines
                .iter()
                .enumerate()
                .filter(|(_, line)| line.spans.is_empty())
                .map(|(n, _)| n + 1),
        )
        .collect();
    starts.get(at).copied().unwrap_or(0).min(over)
}

fn offer_lines(
    offer: &Offer,
    selected: bool,
    now_ms: i64,
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mark = if selected { "▸ " } else { "  " };
    let title = offer.info.title.as_deref().unwrap_or("untitled");
    let style = if selected { theme.accent } else { theme.text };
    let title = clip(&clean_line(title), columns.saturating_sub(2));
    let mut lines = vec![Line::from(vec![
        Span::styled(mark, theme.accent),
        Span::styled(title, style),
    ])];
    let age = ago((now_ms - offer.info.updated_ms).max(0));
    let how = match (&offer.held_by, &offer.details) {
        (Some(0), _) => "open in another process".to_string(),
        (Some(pid), _) => format!("open in process {pid}"),
        (None, Some(details)) => details.how.clone(),
        (None, None) => "unfinished".to_string(),
    };
    let id = short_id(&offer.info.id);
    let entries = count(offer.info.entries, "entry");
    let mode = match &offer.details {
        Some(details) => format!(" · mode {}", details.mode.name()),
        None => String::new(),
    };
    let facts = format!("{how} {age} ago · {entries} · {id}{mode}");
    let mut put = |text: String, style| {
        let spans = [Span::styled(clean_line(&text).into_owned(), style)];
        let before = [Span::raw("    ")];
        lines.extend(wrap(&spans, columns, &before, &before, Break::Words));
    };
    put(facts, theme.dim);
    if let Some(details) = &offer.details {
        for (text, style) in detail_lines(details, theme) {
            put(text, style);
        }
    }
    lines
}

fn detail_lines(details: &Details, theme: &Theme) -> Vec<(String, ratatui::style::Style)> {
    let mut lines = Vec::new();
    if details.mode == Mode::BypassPermissions {
        lines.push(("it runs without asking".to_string(), theme.warn));
    }
    if let Some(step) = &details.plan_step {
        lines.push((format!("plan: {step}"), theme.text));
    }
    if let Some(doing) = &details.doing {
        lines.push((format!("was at: {doing}"), theme.text));
    }
    for running in &details.running {
        let age = clock(running.age_ms);
        lines.push((
            format!("still running, {age}: {}", running.command),
            theme.running,
        ));
        if let Some(last) = &running.last_line {
            lines.push((format!("  its last line: {last}"), theme.dim));
        }
    }
    if !details.recovered.is_empty() {
        lines.push((format!("kept: {}", details.recovered.join(", ")), theme.ok));
    }
    for doubt in &details.in_doubt {
        lines.push((
            format!("in doubt: {doubt}; it is looked at, not repeated"),
            theme.warn,
        ));
    }
    lines
}
