//! The overlays over the conversation: boxes with text, lists, questions.

use super::ask::answer_style;
use super::sheet;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use crate::core::visible;
use crate::ui::app::{App, Overlay, Readiness};
use crate::ui::overlay::{Extent, For, VIEWER_KEYS, Viewer};
use crate::ui::text::{Break, clean, clean_line, clip, clip_words, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::transcript::LayoutContext;

/// With fewer rows only the essential parts are shown.
const SMALL_ROWS: u16 = 8;

/// Minimum columns in which a question can be read.
const MIN_ROOM: usize = 4;

pub(super) fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

/// Draws an empty box. Returns the area for its content.
pub(super) fn boxed(frame: &mut Frame<'_>, at: Rect, title: &str, theme: &Theme) -> Rect {
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.border)
        .title(Span::styled(title.to_string(), theme.heading()));
    let inner = block.inner(at);
    frame.render_widget(Clear, at);
    frame.render_widget(block, at);
    // One free column at both sides.
    Rect {
        x: inner.x + u16::from(inner.width > 2),
        width: inner.width.saturating_sub(2).max(inner.width.min(1)),
        ..inner
    }
}

pub(super) fn history(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    if let Overlay::History(pane) = &mut app.prompts.overlay {
        let mut layout = LayoutContext {
            width: area.width,
            theme: &app.look.theme,
            code: &mut app.look.code,
            generation: app.look.generation,
            now_ms: app.now_ms,
            zone: &app.look.zone,
        };
        pane.draw(frame, area, &mut layout);
    }
}

pub(super) fn rewind(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let before = match app.readiness() {
        Readiness::Armed => None,
        readiness => Some(inactive_keys_text(readiness)),
    };
    let App { prompts, look, .. } = app;
    if let Overlay::Rewind(pane) = &mut prompts.overlay {
        crate::ui::rewind::draw(frame, area, pane, &look.theme, before);
    }
}

/// Returns the columns of a list on a screen of this width: most of a wide one.
pub(super) fn reading_columns(width: u16) -> u16 {
    width.min(100.max(width / 5 * 4))
}

pub(super) fn viewer(frame: &mut Frame<'_>, area: Rect, viewer: &mut Viewer, theme: &Theme) {
    let most = if viewer.sheet.is_empty() { 110 } else { 124 };
    let columns = area.width.saturating_sub(2).min(most);
    let room = usize::from(columns.saturating_sub(4));
    let lines: Vec<Line<'static>> = match viewer.sheet.as_slice() {
        [] => viewer
            .lines
            .iter()
            .flat_map(|line| wrap(&line.spans, room, &[], &[], Break::Words))
            .collect(),
        sheet => sheet::lines(sheet, room, theme),
    };
    let height = u16::try_from(lines.len() + 3).unwrap_or(u16::MAX);
    // A sheet takes every row, because nothing else is looked at.
    let left = u16::from(viewer.sheet.is_empty());
    let at = centred(area, columns, height.min(area.height.saturating_sub(left)));
    let title = format!(" {} ", clean_line(&viewer.title));
    let inner = boxed(frame, at, &title, theme);
    let seen = usize::from(inner.height.saturating_sub(1));
    viewer.top = viewer.top.min(lines.len().saturating_sub(seen));
    let mut shown: Vec<Line<'static>> = lines.iter().skip(viewer.top).take(seen).cloned().collect();
    shown.resize(seen, Line::default());
    let many = 1 + usize::from(lines.len() > seen);
    let keys: Vec<&str> = VIEWER_KEYS.split(" · ").take(many).collect();
    let keys = hints(&keys.join(" · "), usize::from(inner.width));
    shown.push(Line::styled(keys, theme.dim));
    super::put(frame, inner, &shown);
}

pub(super) fn picker(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::Picker(picker) = &app.prompts.overlay else {
        return;
    };
    let theme = &app.look.theme;
    let columns = reading_columns(area.width.saturating_sub(2));
    let shown = picker.shown();
    let note = picker.note.as_deref().map(clean_line);
    let is_small = area.height < SMALL_ROWS;
    // The note and the keys are left out first; the typed text and the choices stay.
    let note = note.filter(|_| !is_small);
    let extra = 1 + u16::from(!is_small) + u16::from(note.is_some());
    let wanted = u16::try_from(shown.len().max(1)).unwrap_or(u16::MAX);
    let most = match is_small {
        true => area.height,
        false => area.height.saturating_sub(2),
    };
    let height = wanted.saturating_add(extra + 2).min(most);
    let at = centred(area, columns, height);
    // The typed text may hide most of the list.
    let is_cut = usize::from(at.height) < shown.len() + usize::from(extra) + 2;
    let title = match picker.typed.trim() {
        "" if is_cut => format!(" {} · {} ", picker.title, shown.len()),
        "" => format!(" {} ", picker.title),
        _ => format!(
            " {} · {} of {} ",
            picker.title,
            shown.len(),
            picker.items.len()
        ),
    };
    let inner = boxed(frame, at, &title, theme);
    let room = usize::from(inner.width);
    let seen = usize::from(inner.height.saturating_sub(extra)).max(1);
    let top = (picker.at + 1).saturating_sub(seen);
    let mut lines = vec![Line::from(vec![
        Span::styled("› ", theme.accent),
        Span::styled(clean_line(&picker.typed).into_owned(), theme.text),
        Span::styled("▏", theme.accent),
    ])];
    if let Some(note) = note {
        lines.push(Line::styled(clip_words(&note, room), theme.dim));
    }
    for (place, item) in shown.iter().enumerate().skip(top).take(seen) {
        let mark = if place == picker.at { "› " } else { "  " };
        // A long message leaves half of the row to the time and the changes.
        let detail = match picker.what {
            For::Rewind => (2 + width(&item.detail)).min(room / 2),
            _ => 0,
        };
        let label = clip_words(&clean_line(&item.label), room.saturating_sub(2 + detail));
        let left = room.saturating_sub(2 + width(&label) + 2);
        let mut line = Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(label, theme.text),
            Span::styled(
                format!("  {}", clip_words(&clean_line(&item.detail), left)),
                theme.dim,
            ),
        ]);
        if place == picker.at {
            line = line.patch_style(theme.accent);
        }
        lines.push(line);
    }
    if shown.is_empty() {
        let what = if picker.free {
            "Enter takes what is typed"
        } else {
            "nothing fits"
        };
        lines.push(Line::styled(what, theme.dim));
    }
    if !is_small {
        let keys = hints(&picker.keys(), room);
        lines.push(Line::styled(keys, theme.dim));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

pub(super) fn confirm(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    if let Overlay::Confirm {
        question,
        about,
        answers,
        ..
    } = &app.prompts.overlay
    {
        let (question, about, answers) = (question.clone(), about.clone(), *answers);
        question_box(frame, area, &question, &about, answers, app);
    }
}

pub(super) fn trust(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Overlay::Trust(project) = &app.prompts.overlay else {
        return;
    };
    let folder = clean_line(&app.launch.folder);
    let differences = project.differences();
    let (question, list) = if differences.is_empty() {
        let sources = project.content.files().join(" and ");
        (
            format!(
                "{folder} has its own config ({sources}). \
                 Do you trust this folder? It sets:"
            ),
            project.content.lines(usize::MAX),
        )
    } else {
        (
            format!(
                "The config of {folder} changed since it was trusted. Do you trust this \
                 folder now? It differs in:"
            ),
            differences.iter().map(ToString::to_string).collect(),
        )
    };
    let list = list
        .into_iter()
        .chain(project.sandbox_line())
        .collect::<Vec<_>>();
    let answers = (
        "trust it with this",
        "not now: only its [context] and theme count",
    );
    question_box(frame, area, &question, &list, answers, app);
}

/// Returns the text of the box, which a question hides.
pub(super) fn words_below(app: &App, columns: usize) -> Option<Line<'static>> {
    if app.input.composer.is_empty() {
        return None;
    }
    let words = format!("in the box: {}", clean_line(&app.input.composer.text()));
    Some(Line::styled(clip(&words, columns), app.look.theme.dim))
}

/// Returns the first hints of a list with ` · ` that fit.
pub(super) fn hints(hints: &str, columns: usize) -> String {
    let mut shown = hints;
    while width(shown) > columns {
        match shown.rsplit_once(" · ") {
            Some((before, _)) => shown = before,
            None => return clip(shown, columns),
        }
    }
    shown.to_string()
}

/// Returns the text before keys that do not count yet.
fn inactive_keys_text(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Armed => "",
        Readiness::Behind => "Tab first, then ",
        Readiness::Quiet | Readiness::Typed => "a moment … ",
    }
}

/// Returns the keys of a question in one row, dim until they count.
pub(super) fn asking_keys_in(app: &App, keys: &str, columns: usize) -> Span<'static> {
    let before = inactive_keys_text(app.readiness());
    let style = match app.readiness() {
        Readiness::Armed => app.look.theme.accent,
        _ => app.look.theme.dim,
    };
    let first = keys.split(" · ").next().unwrap_or_default();
    // The dim style shows it too.
    let before = match width(before) + width(first) <= columns {
        true => before,
        false if app.readiness() == Readiness::Behind => "Tab first",
        false => "",
    };
    let words = match before {
        "Tab first" => before.to_string(),
        before => hints(&format!("{before}{keys}"), columns),
    };
    Span::styled(words, style)
}

/// Returns the answers yes and no, the one that Enter confirms marked, and the keys.
fn answer_lines(
    app: &App,
    (yes, no): (&str, &str),
    room: usize,
    is_small: bool,
) -> Vec<Line<'static>> {
    let is_yes = app.prompts.page.is_yes;
    if is_small {
        let answers = match is_yes {
            true => "› y yes · n no",
            false => "› n no · y yes",
        };
        return vec![Line::from(asking_keys_in(app, answers, room))];
    }
    let mark = |is_chosen| if is_chosen { "› " } else { "  " };
    let theme = &app.look.theme;
    let is_armed = matches!(app.readiness(), Readiness::Armed | Readiness::Typed);
    let mut lines = Vec::new();
    for (is_chosen, answer) in [(is_yes, format!("y  {yes}")), (!is_yes, format!("n  {no}"))] {
        let style = answer_style(is_armed, is_chosen, theme);
        let first = [Span::styled(mark(is_chosen), style)];
        let words = [Span::styled(answer, style)];
        lines.extend(wrap(
            &words,
            room,
            &first,
            &[Span::raw("     ")],
            Break::Words,
        ));
    }
    lines.push(Line::from(asking_keys_in(app, "Enter chooses", room)));
    lines
}

/// Draws a question, its details and the answers. The answers stay visible during scrolling.
/// Nothing is left out: a yes counts only when the end was on the screen.
fn question_box(
    frame: &mut Frame<'_>,
    area: Rect,
    question: &str,
    about: &[String],
    answers: (&str, &str),
    app: &mut App,
) {
    let theme = &app.look.theme;
    let columns = area.width.saturating_sub(2).min(76);
    let room = usize::from(columns.saturating_sub(4));
    let in_rows = |text: &str, style| {
        let spans = [Span::styled(text.to_string(), style)];
        wrap(&spans, room, &[], &[], Break::Words)
    };
    let mut lines = in_rows(&visible::counted(&clean_line(question), false), theme.text);
    if !about.is_empty() {
        let about = visible::command(&about.join("\n"));
        let about = clean(&about);
        lines.extend(
            about
                .split('\n')
                .flat_map(|line| in_rows(line, theme.heading())),
        );
    }
    let is_small = area.height < SMALL_ROWS;
    let keys = answer_lines(app, answers, room, is_small);
    let words = words_below(app, room).filter(|_| !is_small);
    let gap = usize::from(!is_small);
    let fixed = gap + keys.len() + usize::from(words.is_some());
    let most = usize::from(area.height).saturating_sub(2);
    let rows = match lines.len() + fixed <= most {
        true => lines.len(),
        // A row shows the scroll position.
        false => most.saturating_sub(fixed + 1),
    };
    let mut page = app.prompts.page;
    page.extent = Extent {
        // Text that is cut at the right would not be seen.
        rows: if room < MIN_ROOM { 0 } else { rows },
        lines: lines.len(),
    };
    page.top = page.top.min(lines.len() - rows);
    let mut shown: Vec<Line<'static>> = lines.iter().skip(page.top).take(rows).cloned().collect();
    if rows < lines.len() {
        let (first, last, all) = (page.top + 1, page.top + rows, lines.len());
        let (what, style) = match page.end_seen {
            true => ("scroll", theme.dim),
            false => ("scroll to the end", theme.warn),
        };
        let text = format!("↑↓ {what} · {first}–{last} of {all}");
        shown.push(Line::styled(clip(&text, room), style));
    }
    shown.extend((gap > 0).then(Line::default));
    shown.extend(keys);
    shown.extend(words);
    let height = u16::try_from(shown.len() + 2).unwrap_or(u16::MAX);
    let inner = boxed(frame, centred(area, columns, height), "", theme);
    frame.render_widget(Paragraph::new(shown), inner);
    app.prompts.page = page;
}
