//! The form of a server for a person: who asks, the message, a row for each field, and a line of
//! keys. A bar is before all of it.
//!
//! A long form is scrolled. The line that names the server and the keys stay visible.
//!
//! A question of the model is drawn in [`question`].
//!
//! Invariant: the text of a server is to the right of the bar and below the line that names it, and
//! no row of it is wider than the screen. An address is shown whole, as a browser would read it.

mod question;

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use reqwest::Url;

use crate::core::form::{Field, FieldKind, takes};
use crate::core::text::{count, one_line};
use crate::core::visible::figure;
use crate::ui::app::{App, Readiness, ServerForm};
use crate::ui::overlay::{Filling, FormEntry, TextField, format_example};
use crate::ui::text::{Break, clean, clean_line, clip, clip_start, width, wrap};
use crate::ui::theme::Theme;

/// Rows that a form may always have, even if they are more than three quarters of the screen.
const FEW_ROWS: u16 = 10;
/// The line that names the server, and the keys.
const PINNED: u16 = 2;
const BAR: &str = "┃ ";
/// Minimum columns for a bar.
const BAR_COLUMNS: u16 = 24;
/// Minimum columns for a name and a value in one row.
const WIDE: usize = 44;
/// Maximum number of lines of a server's message.
const MAX_MESSAGE_LINES: usize = 200;
/// Maximum number of lines of a field's description.
const MAX_ABOUT_LINES: usize = 6;
/// Maximum length of a name, a label or a value in a row.
const NAME_CHARS: usize = 60;
const SHOWN_CHARS: usize = 1_000;

/// Returns the number of rows that the form wants of those that are left.
pub(super) fn height(app: &App, area: Rect, left: u16) -> u16 {
    let Some(form) = app.prompts.questions.form_in_front() else {
        return 0;
    };
    let body = body(&form.entry, inside(area.width), &app.look.theme)
        .lines
        .len();
    let wanted = u16::try_from(body)
        .unwrap_or(u16::MAX)
        .saturating_add(PINNED);
    let most = (area.height.saturating_mul(3) / 4).max(FEW_ROWS).min(left);
    wanted.min(most)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let (theme, readiness) = (app.look.theme.clone(), app.readiness());
    let room = inside(area.width);
    let Some(form) = &mut app.prompts.questions.form else {
        return;
    };
    let body = body(&form.entry, room, &theme);
    let rows = usize::from(area.height.saturating_sub(PINNED)).max(1);
    let entry = &mut form.entry;
    entry.drawn_with(rows, body.lines.len());
    if entry.follows {
        let (from, to) = (body.focus.start, body.focus.end);
        let top = entry.page.top.max(to.saturating_sub(rows)).min(from);
        entry.page.top = top.min(body.lines.len().saturating_sub(rows));
    }
    let title = Line::styled(title(form, room), theme.heading());
    let shown = body.lines.into_iter().skip(form.entry.page.top).take(rows);
    let style = match readiness {
        Readiness::Quiet | Readiness::Typed => theme.dim,
        Readiness::Armed | Readiness::Behind => theme.accent,
    };
    let keys = Line::styled(keys(&form.entry, readiness, room), style);
    let lines = std::iter::once(title)
        .chain(shown)
        .chain(std::iter::once(keys));
    let lines: Vec<Line<'static>> = match area.width < BAR_COLUMNS {
        true => lines.collect(),
        false => lines
            .map(|line| super::ask::set_in(line, Span::styled(BAR, theme.warn)))
            .collect(),
    };
    super::put(frame, area, &lines);
}

/// Returns the columns to the right of the bar.
fn inside(columns: u16) -> usize {
    let taken = if columns < BAR_COLUMNS { 0 } else { 4 };
    usize::from(columns.saturating_sub(taken).max(1))
}

/// `The server everything asks · in the task "look it up" · 3 fields`
fn title(form: &ServerForm, room: usize) -> String {
    let entry = &form.entry;
    let server = one_line(&clean_line(&entry.question.server), NAME_CHARS);
    let [long, short, name] = match entry.question.is_of_model() {
        true => ["The agent"; 3].map(str::to_string),
        false => [
            format!("The server {server}"),
            format!("Server {server}"),
            server,
        ],
    };
    let fields = match (&entry.steps, entry.fields().len()) {
        (Some(steps), _) => format!(" · {}", count(steps.questions.len() as u64, "question")),
        (None, 0) => String::new(),
        (None, some) => format!(" · {}", count(some as u64, "field")),
    };
    let task = form.task.as_ref().map(|task| {
        let task = one_line(&clean_line(task), NAME_CHARS);
        format!(" · in the task \"{task}\"")
    });
    let task = task.unwrap_or_default();
    super::ask::fitting(
        &[
            &format!("{long} asks you{task}{fields}"),
            &format!("{long} asks you{fields}"),
            &format!("{short} asks"),
            &format!("{name} asks"),
        ],
        room,
    )
}

/// The scrolled lines, and the range of those that belong to the focused field.
struct FormBody {
    lines: Vec<Line<'static>>,
    focus: Range<usize>,
}

fn body(entry: &FormEntry, room: usize, theme: &Theme) -> FormBody {
    if let Some(steps) = &entry.steps {
        let (lines, focus) = question::lines(entry, steps, room, theme);
        return FormBody { lines, focus };
    }
    let mut lines = Vec::new();
    let message = clean(&entry.question.message);
    for line in message.lines().take(MAX_MESSAGE_LINES) {
        lines.extend(words(line, theme.text, room, ""));
    }
    if message.lines().count() > MAX_MESSAGE_LINES {
        lines.push(Line::styled("…", theme.dim));
    }
    let mut focus = 0..0;
    if entry.url().is_some() {
        lines.extend(visit(entry, room, theme));
        return FormBody { lines, focus };
    }
    let labels = label_columns(entry.fields(), room);
    for (place, field) in entry.fields().iter().enumerate() {
        let from = lines.len();
        lines.extend(field_lines(entry, place, field, labels, room, theme));
        if place == entry.at {
            focus = from..lines.len();
        }
    }
    if lines.is_empty() {
        lines.push(Line::styled(clip("It gives no reason.", room), theme.dim));
    }
    FormBody { lines, focus }
}

fn words(
    text: &str,
    style: ratatui::style::Style,
    room: usize,
    before: &str,
) -> Vec<Line<'static>> {
    let before = [Span::raw(before.to_string())];
    let spans = [Span::styled(text.to_string(), style)];
    wrap(&spans, room, &before, &before, Break::Words)
}

fn label(field: &Field) -> String {
    let name = match field.title.trim() {
        "" => &field.name,
        title => title,
    };
    one_line(&clean_line(name), NAME_CHARS)
}

/// Returns the columns of the names, if they are beside their values.
fn label_columns(fields: &[Field], room: usize) -> Option<usize> {
    let longest = fields.iter().map(|field| width(&label(field)) + 1).max();
    (room >= WIDE).then(|| longest.unwrap_or(0).min(room / 3))
}

fn field_lines(
    entry: &FormEntry,
    place: usize,
    field: &Field,
    labels: Option<usize>,
    room: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let has_keys = place == entry.at;
    let mark = Span::styled(if has_keys { "› " } else { "  " }, theme.accent);
    let needed = if field.is_required { "*" } else { " " };
    let name_room = labels.unwrap_or(room.saturating_sub(2)).saturating_sub(1);
    let name = clip(&label(field), name_room);
    let gap = name_room.saturating_sub(width(&name));
    let name = vec![
        mark,
        Span::styled(name, if has_keys { theme.accent } else { theme.text }),
        Span::styled(needed, theme.warn),
    ];
    let mut lines = Vec::new();
    match labels {
        Some(columns) => {
            let mut spans = name;
            spans.push(Span::raw(" ".repeat(gap + 2)));
            spans.extend(value(entry, place, room.saturating_sub(columns + 4), theme));
            lines.push(Line::from(spans));
        }
        None => {
            lines.push(Line::from(name));
            let mut spans = vec![Span::raw("  ")];
            spans.extend(value(entry, place, room.saturating_sub(2), theme));
            lines.push(Line::from(spans));
        }
    }
    let before = " ".repeat(labels.map_or(2, |columns| columns + 4).min(room / 2));
    if let Some((_, why)) = entry.error.as_ref().filter(|(wrong, _)| *wrong == place) {
        lines.extend(words(
            &format!("✗ {}", clean_line(why)),
            theme.error,
            room,
            &before,
        ));
    }
    if !has_keys {
        return lines;
    }
    if let (Some(Filling::SomeOf { chosen, at, .. }), FieldKind::SomeOf { choices, .. }) =
        (entry.values.get(place), &field.kind)
    {
        for (n, (choice, is)) in choices.iter().zip(chosen).enumerate() {
            let (mark, style) = match n == *at {
                true => ("› ", theme.accent),
                false => ("  ", theme.text),
            };
            let tick = if *is { "[x]" } else { "[ ]" };
            let label = one_line(&clean_line(&choice.label), SHOWN_CHARS);
            let text = format!("{before}{mark}{tick} {label}");
            lines.push(Line::styled(clip(&text, room), style));
        }
    }
    let whole = label(field);
    if width(&whole) > name_room {
        lines.extend(words(&whole, theme.text, room, &before));
    }
    let about = clean_line(&field.description);
    let mut about = match about.trim() {
        "" => Vec::new(),
        about => words(about, theme.dim, room, &before),
    };
    if about.len() > MAX_ABOUT_LINES {
        about.truncate(MAX_ABOUT_LINES);
        about.push(Line::styled(format!("{before}…"), theme.dim));
    }
    lines.extend(about);
    let is_wrong = entry
        .error
        .as_ref()
        .is_some_and(|(wrong, _)| *wrong == place);
    // The error describes the valid values.
    let kind = if is_wrong { String::new() } else { hint(field) };
    if !kind.is_empty() {
        lines.extend(words(&kind, theme.dim, room, &before));
    }
    lines
}

/// Describes the valid values of a field, where its value does not show them.
fn hint(field: &Field) -> String {
    let needed = if field.is_required { "required" } else { "" };
    let takes = match &field.kind {
        FieldKind::Text {
            min_chars: None,
            max_chars: None,
            format: None,
        }
        | FieldKind::YesNo
        | FieldKind::OneOf { .. } => String::new(),
        FieldKind::SomeOf { min, max, .. } => match (min, max) {
            (Some(min), Some(max)) => format!("{min} to {max} of these"),
            (Some(min), None) => format!("{min} or more of these"),
            (None, Some(max)) => format!("up to {max} of these"),
            (None, None) => String::new(),
        },
        FieldKind::Text {
            format: Some(format),
            min_chars: None,
            max_chars: None,
        } => match format_example(format) {
            Some(example) => example.to_string(),
            None => one_line(&clean_line(format), SHOWN_CHARS),
        },
        kind => one_line(&clean_line(&takes(kind)), SHOWN_CHARS),
    };
    match (needed, takes.is_empty()) {
        ("", _) => takes,
        (needed, true) => needed.to_string(),
        (needed, false) => format!("{needed} · {takes}"),
    }
}

/// Returns the value of a field in `room` columns.
fn value(entry: &FormEntry, place: usize, room: usize, theme: &Theme) -> Vec<Span<'static>> {
    let has_keys = place == entry.at;
    match entry.values.get(place) {
        Some(Filling::Text(field)) if has_keys => typed(field, room, theme),
        Some(Filling::SomeOf { chosen, .. }) if has_keys => {
            let some = chosen.iter().filter(|is| **is).count();
            let text = format!("{} of {} chosen", figure(some), figure(chosen.len()));
            vec![Span::styled(clip(&text, room), theme.dim)]
        }
        filling => {
            let shown = one_line(
                &clean_line(&entry.shown(place).replace('\n', "↵")),
                SHOWN_CHARS,
            );
            let arrows = match filling {
                Some(Filling::YesNo(_) | Filling::OneOf(_)) => has_keys,
                _ => false,
            };
            let (text, style) = match shown.as_str() {
                "" if arrows => ("choose".to_string(), theme.dim),
                "" => ("-".to_string(), theme.dim),
                shown => (shown.to_string(), theme.text),
            };
            let room = room.saturating_sub(if arrows { 4 } else { 0 });
            let text = Span::styled(clip(&text, room), style);
            if arrows {
                let arrow = |arrow| Span::styled(arrow, theme.accent);
                let place = choice_place(entry, place, room, width(&text.content), theme);
                let mut spans = vec![arrow("‹ "), text, arrow(" ›")];
                spans.extend(place);
                spans
            } else {
                vec![text]
            }
        }
    }
}

/// `  2 of 5`
fn choice_place(
    entry: &FormEntry,
    place: usize,
    room: usize,
    taken: usize,
    theme: &Theme,
) -> Option<Span<'static>> {
    let Some(FieldKind::OneOf { choices }) = entry.fields().get(place).map(|field| &field.kind)
    else {
        return None;
    };
    let text = match entry.values.get(place) {
        Some(Filling::OneOf(Some(one))) => format!("  {} of {}", one + 1, choices.len()),
        _ => format!("  {}", count(choices.len() as u64, "choice")),
    };
    (taken + width(&text) <= room).then(|| Span::styled(text, theme.dim))
}

/// Returns the text around the cursor. Text after the cursor is visible where there is room.
fn typed(field: &TextField, room: usize, theme: &Theme) -> Vec<Span<'static>> {
    let line = |text: &str| clean_line(&text.replace('\n', "↵")).into_owned();
    let (before, behind) = field.parts();
    let (before, behind) = (line(before), line(behind));
    let room = room.saturating_sub(1);
    let least = width(&behind).min(room / 3);
    let before = clip_start(&before, room.saturating_sub(least));
    let behind = clip(&behind, room.saturating_sub(width(&before)));
    vec![
        Span::styled(before, theme.text),
        Span::styled("▏", theme.accent),
        Span::styled(behind, theme.text),
    ]
}

/// Returns the lines for the whole address, with its host marked.
fn visit(entry: &FormEntry, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = words("It asks you to open this address:", theme.dim, room, "");
    let strong = theme.accent.add_modifier(Modifier::BOLD);
    let Some(url) = entry.address() else {
        let spans = [Span::styled(
            clean_line(entry.url().unwrap_or_default()).into_owned(),
            theme.text,
        )];
        lines.extend(wrap(&spans, room, &[], &[], Break::Anywhere));
        lines.extend(words(
            "This address cannot be opened in a browser here.",
            theme.warn,
            room,
            "",
        ));
        return lines;
    };
    let (before, host, behind) = url_parts(&url);
    let spans = [
        Span::styled(clean_line(before).into_owned(), theme.dim),
        Span::styled(clean_line(host).into_owned(), strong),
        Span::styled(clean_line(behind).into_owned(), theme.text),
    ];
    lines.extend(wrap(&spans, room, &[], &[], Break::Anywhere));
    let host = vec![
        Span::styled("It leads to ", theme.dim),
        Span::styled(clean_line(host).into_owned(), strong),
    ];
    lines.extend(wrap(&host, room, &[], &[], Break::Words));
    if url.scheme() == "http" {
        lines.extend(words(
            "It is not encrypted (http): others on the way can read and change it.",
            theme.warn,
            room,
            "",
        ));
    }
    lines
}

/// Splits an address into the part before the host, the host, and the part after it.
fn url_parts(url: &Url) -> (&str, &str, &str) {
    let whole = url.as_str();
    let host = url.host_str().unwrap_or_default();
    let from = whole.find("://").map_or(0, |at| at + 3);
    let end = whole[from..].find(['/', '?', '#']);
    let end = end.map_or(whole.len(), |at| from + at);
    // The host starts after the user and the password.
    let from = whole[from..end].rfind('@').map_or(from, |at| from + at + 1);
    match whole[from..].starts_with(host) {
        true => (&whole[..from], host, &whole[from + host.len()..]),
        false => (whole, "", ""),
    }
}

/// Describes the current effect of keys.
fn keys(entry: &FormEntry, readiness: Readiness, room: usize) -> String {
    let page = &entry.page;
    let below = page
        .extent
        .lines
        .saturating_sub(page.top + page.extent.rows);
    let more = format!("{} more below · PgDn", figure(below));
    let first = format!("scroll to the end first: {more}");
    let is_read = entry.is_read() || !page.extent.overflows();
    if let (Readiness::Armed, true, Some(steps)) = (readiness, is_read, &entry.steps) {
        return super::ask::fitting(question::keys(steps), room);
    }
    let words: Vec<&str> = match (readiness, is_read, entry.url()) {
        (Readiness::Behind, ..) => vec![
            "Tab puts your words aside, to answer here; Enter sends them",
            "Tab puts your words aside to answer",
            "Tab to answer",
        ],
        (Readiness::Quiet, ..) => vec!["wait a moment before you answer", "a moment …"],
        (Readiness::Typed, ..) => vec!["wait a moment, then press Enter", "a moment …"],
        (Readiness::Armed, false, _) => vec![&first, &more, "PgDn first"],
        (Readiness::Armed, true, Some(_)) => match entry.letter {
            Some('o') => vec!["Enter opens it · Esc later", "Enter opens"],
            Some('c') => vec!["Enter copies it · Esc later", "Enter copies"],
            Some('n') => vec!["Enter declines · Esc later", "Enter declines"],
            _ => vec![
                "Enter done, continue · o opens it · c copies it · n declines · Esc later",
                "Enter done · o open · c copy · n no · Esc later",
                "Enter o c n Esc",
            ],
        },
        (Readiness::Armed, true, None) => match entry.values.get(entry.at) {
            Some(Filling::SomeOf { .. }) => vec![
                "Enter sends · Space ticks · ↑ ↓ moves · Tab next · Ctrl+D declines · Esc later",
                "Enter sends · Space ticks · ^D declines · Esc later",
                "Enter · Space · Tab · ^D no · Esc",
                "Enter Space ^D",
            ],
            Some(Filling::YesNo(_) | Filling::OneOf(_)) => vec![
                "Enter sends · ← → chooses · Tab next · Ctrl+D declines · Esc later",
                "Enter sends · ← → · ^D declines · Esc later",
                "Enter · ← → · Tab · ^D no · Esc",
                "Enter ← → ^D",
            ],
            Some(Filling::Text(_)) => vec![
                "Enter sends · Tab next · Ctrl+D declines · Esc later",
                "Enter · Tab · ^D declines · Esc later",
                "Enter · Tab · ^D no · Esc",
                "Enter Tab ^D Esc",
            ],
            None => vec![
                "Enter accepts · Ctrl+D declines · Esc later",
                "Enter yes · ^D no · Esc",
                "Enter ^D Esc",
            ],
        },
    };
    super::ask::fitting(&words, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_where_it_leads() {
        for (address, host) in [
            ("https://example.com/a?b#c", "example.com"),
            ("https://good.example@evil.example:80/@x", "evil.example"),
            ("https://evil.example\\@good.example/", "evil.example"),
            ("https://u:p%40x@evil.example?@y", "evil.example"),
            ("http://[::1]:8/x", "[::1]"),
            ("https://аррӏе.com/", "xn--80ak6aa92e.com"),
        ] {
            let url = Url::parse(address).unwrap();
            let (before, found, behind) = url_parts(&url);
            assert_eq!(found, host, "{address}");
            assert_eq!(format!("{before}{found}{behind}"), url.as_str());
        }
    }
}
