//! The drawing of the resume prompt.

use crate::core::marks::title_line;
use crate::core::text::{count, session_name};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over::{asking_keys_in, centred, reading_columns, words_below};
use crate::core::entry::Mode;
use crate::session::{Details, Offer, ago, clock, short_id};
use crate::ui::app::{App, Overlay, Readiness};
use crate::ui::text::{Break, clean_line, clip_words, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::transcript::spinner;

/// Columns for the names of an offer's details.
const NAME_COLUMNS: usize = 13;
/// Maximum number of characters of a title that are read.
const TITLE_CHARS: usize = 200;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::Card(card) = &app.prompts.overlay else {
        return;
    };
    let theme = &app.look.theme;
    let width = reading_columns(area.width);
    let columns = usize::from(width.saturating_sub(4));
    let title = match card.offers.len() {
        1 => "Unfinished sessions in this folder".to_string(),
        n => format!("Unfinished sessions in this folder: {n}"),
    };
    let mut lines = vec![Line::styled(title, theme.dim), Line::default()];
    let since_look = (app.now_ms - card.looked_ms).max(0);
    for (place, offer) in card.offers.iter().enumerate() {
        let mark = match (card.offers.len(), place == card.at) {
            (1, _) => "",
            (_, true) => "› ",
            (_, false) => "  ",
        };
        let times = (app.now_ms, since_look);
        lines.extend(offer_lines(offer, mark, times, columns, theme));
        lines.push(Line::default());
    }
    let held = card.offer().is_some_and(|o| o.held_by.is_some());
    let mut keys = if held { HELD_KEYS } else { KEYS };
    keys[0][0].1 = enter_does(card.letter, &keys);
    let mut below = key_lines(app, &keys, columns);
    if columns >= GRID_COLUMNS {
        // The first line of the keys takes the place of the last line.
        lines.pop();
    }
    below.extend(words_below(app, columns));
    // The selected offer and the keys stay visible.
    let room = usize::from(area.height).saturating_sub(below.len());
    let skip = first_seen(card.at, &lines, room);
    let seen = lines.into_iter().skip(skip).take(room);
    let lines: Vec<Line<'static>> = seen.chain(below).collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let at = centred(area, width.saturating_sub(4), height);
    frame.render_widget(Paragraph::new(lines), at);
}

type Key = (&'static str, &'static str);

/// The keys in columns, top to bottom.
const KEYS: [[Key; 2]; 4] = [
    [("Enter", "resume"), ("x", "dismiss")],
    [("n", "new session"), ("f", "fork")],
    [("h", "history"), ("q", "leave")],
    [("?", "keys"), ("", "")],
];
const HELD_KEYS: [[Key; 2]; 4] = [
    [("Enter", "watch it"), ("t", "take it over")],
    [("n", "new session"), ("f", "fork")],
    [("h", "history"), ("q", "leave")],
    [("?", "keys"), ("", "")],
];
/// Returns the effect of Enter after this letter.
fn enter_does(letter: Option<char>, keys: &[[Key; 2]; 4]) -> &'static str {
    let typed = keys.iter().flatten().find(|(key, _)| {
        let mut chars = key.chars();
        letter.is_some() && chars.next() == letter && chars.next().is_none()
    });
    typed.map_or(keys[0][0].1, |(_, what)| *what)
}

const KEY_COLUMNS: [(usize, usize); 4] = [(7, 19), (3, 21), (3, 12), (3, 4)];
const GRID_COLUMNS: usize = 72;

/// Returns the lines of the keys: a grid below a line that tells why they do not count yet, or a
/// list on a narrow screen.
fn key_lines(app: &App, keys: &[[Key; 2]; 4], columns: usize) -> Vec<Line<'static>> {
    let theme = &app.look.theme;
    if columns < GRID_COLUMNS {
        // Keys that continue come first: the last ones are cut.
        let order = [(0, 0), (1, 0), (2, 1), (2, 0), (1, 1), (0, 1), (3, 0)];
        let keys = order.map(|(column, row)| keys[column][row]);
        let keys = keys.map(|(key, what)| format!("{key} {what}"));
        return vec![Line::from(asking_keys_in(app, &keys.join(" · "), columns))];
    }
    let (why, key_style) = match app.readiness() {
        Readiness::Armed => ("", theme.accent),
        Readiness::Behind => ("Tab first, then", theme.dim),
        Readiness::Quiet | Readiness::Typed => ("a moment …", theme.dim),
    };
    let mut lines = vec![Line::styled(why, theme.dim)];
    for row in 0..2 {
        let mut spans = Vec::new();
        for (of_column, (key_columns, what_columns)) in keys.iter().zip(KEY_COLUMNS) {
            let (key, what) = of_column[row];
            spans.push(Span::styled(format!("{key:<key_columns$}"), key_style));
            spans.push(Span::styled(format!("{what:<what_columns$}"), theme.dim));
        }
        lines.push(Line::from(spans));
    }
    lines
}

/// Returns the number of lines to skip, so that the selected offer is visible with the keys.
fn first_seen(at: usize, lines: &[Line<'_>], room: usize) -> usize {
    let over = lines.len().saturating_sub(room);
    let starts: Vec<usize> = std::iter::empty()
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
    mark: &'static str,
    (now_ms, since_look): (i64, i64),
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let details = offer.details.as_ref();
    let indent = if mark.is_empty() { "" } else { "  " };
    // A name from the user is more useful than the last message.
    let request = details.and_then(|details| details.request.as_deref());
    let title = offer.info.title.as_deref().or(request);
    let shown = title_line(session_name(title), TITLE_CHARS);
    let title = clip_words(&clean_line(&shown), columns.saturating_sub(2));
    let mut lines = vec![Line::from(vec![
        Span::styled(mark, theme.accent),
        Span::styled(title, theme.text),
    ])];
    let since = |at_ms: i64| ago((now_ms - at_ms).max(0));
    let how = match (&offer.held_by, details) {
        (Some(0), _) => "open in another process".to_string(),
        (Some(pid), _) => format!("open in process {pid}"),
        (None, Some(details)) => {
            let why = details.failure.as_ref();
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("{} {} ago{why}", details.how, since(details.since_ms))
        }
        (None, None) => format!("unfinished {} ago", since(offer.info.updated_ms)),
    };
    let mut facts = vec![how];
    match details {
        Some(details) if details.mode != Mode::Default => {
            facts.push(details.mode.name().to_string());
        }
        _ => {}
    }
    facts.push(count(offer.info.entries, "entry"));
    facts.push(short_id(&offer.info.id).to_string());
    let facts = clean_line(&facts.join(" · ")).into_owned();
    let before = [Span::raw(indent)];
    let facts = [Span::styled(facts, theme.dim)];
    lines.extend(wrap(&facts, columns, &before, &before, Break::Words));
    if let Some(details) = details {
        lines.extend(
            detail_lines(details, &shown, since_look, columns, theme)
                .into_iter()
                .map(|mut line| {
                    line.spans.insert(0, Span::raw(indent));
                    line
                }),
        );
    }
    lines
}

/// Returns the lines for a glyph, a name, and text.
fn text_lines(
    (glyph, glyph_style): (&'static str, Style),
    name: &str,
    (words, style): (&str, Style),
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let first = [
        Span::styled(format!("{glyph} "), glyph_style),
        Span::styled(format!("{name:<NAME_COLUMNS$} "), theme.dim),
    ];
    let rest = [Span::raw(" ".repeat(NAME_COLUMNS + 3))];
    let spans = [Span::styled(clean_line(words).into_owned(), style)];
    let columns = columns.saturating_sub(2);
    wrap(&spans, columns, &first, &rest, Break::Words)
}

/// Returns one line with a glyph, a name, text, and a time at its end.
fn single_line_of(
    glyph: Span<'static>,
    name: &str,
    (words, style): (&str, Style),
    time: &str,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let before = format!(" {name:<NAME_COLUMNS$} ");
    let taken = 1 + width(&before) + width(time) + 1 + 2;
    let room = columns.saturating_sub(taken);
    let words = clip_words(&clean_line(words), room);
    let blank = " ".repeat((room + 1).saturating_sub(width(&words)));
    Line::from(vec![
        glyph,
        Span::styled(before, theme.dim),
        Span::styled(words, style),
        Span::styled(format!("{blank}{time}"), theme.dim),
    ])
}

fn detail_lines(
    details: &Details,
    title: &str,
    since_look: i64,
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (text, dim) = (theme.text, theme.dim);
    let blank = (" ", dim);
    let all = |glyph, name: &str, words: &str, style| {
        text_lines(glyph, name, (words, style), columns, theme)
    };
    let mut lines = Vec::new();
    if details.mode == Mode::BypassPermissions {
        let words = "it runs without asking";
        lines.extend(all(("!", theme.warn), "mode", words, text));
    }
    // Without a new message, the title is the same text.
    if let Some(request) = details.request.as_ref().filter(|r| r.as_str() != title) {
        lines.extend(all(blank, "last message", request, text));
    }
    for running in &details.running {
        let age = running.age_ms + since_look;
        let glyph = Span::styled(spinner(age), theme.running);
        let command = (running.command.as_str(), text);
        let line = single_line_of(glyph, "still running", command, &clock(age), columns, theme);
        lines.push(line);
        if let Some(last) = &running.last_line {
            let glyph = Span::raw(" ");
            lines.push(single_line_of(glyph, "", (last, dim), "", columns, theme));
        }
    }
    let mut tell = |glyph, name: &str, words: &str, style| {
        lines.extend(all(glyph, name, words, style));
    };
    if let Some(doing) = details
        .doing
        .as_ref()
        .filter(|_| details.running.is_empty())
    {
        tell(blank, "stopped while", doing, text);
    }
    if let Some(step) = &details.plan_step {
        let name = match details.plan_at {
            Some((at, of)) => format!("plan {at}/{of}"),
            None => "plan".to_string(),
        };
        tell(("▸", text), &name, step, text);
    }
    if let Some(typed) = &details.typed {
        tell(("✎", text), "typed", typed, text);
    }
    if !details.recovered.is_empty() {
        tell(blank, "kept", &details.recovered.join(", "), dim);
    }
    for doubt in &details.in_doubt {
        let words = format!("{doubt}; it will be checked, not repeated");
        tell(("?", theme.warn), "in doubt", &words, text);
    }
    lines
}
