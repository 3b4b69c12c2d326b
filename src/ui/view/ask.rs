//! The approval prompt: its title, which names the file of a change; all of the command, or of the
//! diff; the answers; the access of the command; the reason; and a line of keys. All of it is one
//! block, with a bar before each row.
//!
//! A long prompt is scrolled. The number of commands, the reason, the access and the answers stay
//! visible, except on a screen of a few rows, where they are scrolled too.
//!
//! Invariant: nothing of what would be done is left out, and nothing of it can hide the rest.

use std::cell::RefCell;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::core::access::Access;
use crate::core::rule::RuleScope;
use crate::core::shell;
use crate::core::visible::{self, figure};
use crate::tools::ShownBody;
use crate::ui::app::{App, Readiness};
use crate::ui::diff::{self, Shape};
use crate::ui::highlight::Highlighter;
use crate::ui::overlay::{Approval, Choice, Extent, Laid, Layout};
use crate::ui::text::{Break, clean, clean_line, clip, tail, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::transcript::change;

/// Minimum number of rows for a frame.
const FRAMED_ROWS: u16 = 8;
/// Minimum number of rows in which each answer has a separate row.
const ROOMY_ROWS: u16 = 12;
/// Rows that a question may always have, even if they are more than three quarters of the screen.
const FEW_ROWS: u16 = 10;
/// Maximum rows of the pinned reason. A longer reason is shown in full in the scrolled part.
const MAX_WHY_ROWS: usize = 2;
/// The row of the question itself.
const TITLE: u16 = 1;
/// The prefix of each row.
const BAR: &str = "┃ ";
/// Maximum rows of the long text about the access. A short text replaces a longer one.
const MAX_ACCESS_ROWS: usize = 2;

impl Layout {
    fn of(room: u16, asked: Option<&Approval>) -> Layout {
        // More answers, and the access of the command.
        let more = u16::from(asked.is_some_and(|asked| asked.rule.is_some())) * 2
            + u16::from(asked.is_some_and(|asked| asked.server_rule.is_some()))
            + u16::from(asked.is_some_and(|asked| asked.access.is_some())) * 2;
        Layout {
            framed: room >= FRAMED_ROWS,
            roomy: room >= ROOMY_ROWS + more,
        }
    }
}

/// Returns the number of rows that the question wants of those that are left.
pub(super) fn height(app: &mut App, area: Rect, left: u16) -> u16 {
    let most = (area.height.saturating_mul(3) / 4).max(FEW_ROWS).min(left);
    let layout = Layout::of(most, app.prompts.questions.asked.as_ref());
    lay(app, area.width, &layout);
    let theme = app.look.theme.clone();
    let Some(asked) = &app.prompts.questions.asked else {
        return 0;
    };
    let body = asked.laid.as_ref().map_or(0, |laid| laid.lines.len());
    let pinned = pinned(asked, app.readiness(), inside(area.width), &layout, &theme);
    let frame = if layout.framed { TITLE } else { 0 };
    let wanted = u16::try_from(body + pinned.len()).unwrap_or(u16::MAX);
    wanted.saturating_add(frame).min(most)
}

/// Draws the question in the area that [`height`] asked for. `left`: the value that it was given.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, left: u16) {
    let most = (frame.area().height.saturating_mul(3) / 4)
        .max(FEW_ROWS)
        .min(left);
    let layout = Layout::of(most, app.prompts.questions.asked.as_ref());
    lay(app, area.width, &layout);
    let (theme, readiness) = (app.look.theme.clone(), app.readiness());
    let Some(asked) = &mut app.prompts.questions.asked else {
        return;
    };
    let lines = asked.laid.as_ref().map_or(0, |laid| laid.lines.len());
    let (frame_rows, room) = match layout.framed {
        true => (TITLE, inside(area.width)),
        false => (0, usize::from(area.width)),
    };
    let taken = pinned(asked, readiness, room, &layout, &theme).len();
    let rows = usize::from(area.height.saturating_sub(frame_rows));
    let rows = rows.saturating_sub(taken).max(1);
    asked.extent = Extent { rows, lines };
    asked.top = asked.top.min(lines.saturating_sub(rows));
    let body: Vec<Line<'static>> = match &asked.laid {
        Some(laid) => laid
            .lines
            .iter()
            .skip(asked.top)
            .take(rows)
            .cloned()
            .collect(),
        None => Vec::new(),
    };
    let pinned = pinned(asked, readiness, room, &layout, &theme);
    let shown: Vec<Line<'static>> = if layout.framed {
        let title = Line::styled(title(asked, room, Some(asked.extent)), theme.text);
        std::iter::once(title)
            .chain(body)
            .chain(pinned)
            .map(|line| set_in(line, Span::styled(BAR, theme.warn)))
            .collect()
    } else {
        body.into_iter().chain(pinned).collect()
    };
    super::put(frame, area, &shown);
}

pub(super) fn set_in(mut line: Line<'static>, before: Span<'static>) -> Line<'static> {
    line.spans.insert(0, before);
    line
}

/// Returns the columns to the right of the bar.
fn inside(columns: u16) -> usize {
    usize::from(columns.saturating_sub(4).max(1))
}

/// Returns the title of a change with the whole path of its file. Empty: it changes no file.
fn title_with_path(asked: &Approval) -> String {
    match &asked.shown.body {
        ShownBody::Edits { path, .. } => format!("Change {}?", counted(path)),
        ShownBody::File { path, .. } => format!("Write {}?", counted(path)),
        _ => String::new(),
    }
}

/// `Run this command? · 1 of 3 · 3 commands · 64 lines`. If there is room for the path of a file, it is
/// never left out.
fn title(asked: &Approval, room: usize, extent: Option<Extent>) -> String {
    let mut parts = parts(asked, extent);
    let long = title_with_path(asked);
    let short = match &asked.shown.body {
        ShownBody::Edits { .. } => "Change this file?".to_string(),
        ShownBody::File { .. } => "Write this file?".to_string(),
        ShownBody::Command { background, .. } => {
            let place = if *background {
                " in the background"
            } else {
                ""
            };
            let without = match asked.access.map(|told| told.access) {
                Some(Access::Full) => " without the sandbox",
                _ => "",
            };
            format!("Run this command{place}{without}?")
        }
        ShownBody::Subject | ShownBody::Plan(_) | ShownBody::Served { .. } => {
            format!("Call {}?", counted(&asked.call.shown_name()))
        }
    };
    let title = if names_file(asked, room) { long } else { short };
    let with = |parts: &[String]| {
        let parts = parts.iter().map(|part| format!(" · {part}"));
        format!("{title}{}", parts.collect::<String>())
    };
    // Figures that do not fit are left out.
    while width(&with(&parts)) > room && parts.pop().is_some() {}
    with(&parts)
}

fn counted(path: &str) -> String {
    visible::counted(&clean_line(path), false).into_owned()
}

/// Returns figures about the size of the question.
fn parts(asked: &Approval, extent: Option<Extent>) -> Vec<String> {
    let many = |n: usize, what: &str| (n > 1).then(|| format!("{} {what}", figure(n)));
    let mut parts = Vec::new();
    let (place, of) = asked.place;
    if of > 1 {
        parts.push(format!("{place} of {of}"));
    }
    match &asked.shown.body {
        ShownBody::Command { line, .. } => {
            if let Ok(commands) = shell::split(line) {
                parts.extend(many(commands.len(), "commands"));
            }
        }
        ShownBody::Edits { edits, .. } => parts.extend(many(edits.len(), "edits")),
        ShownBody::File { .. } if asked.is_new_file => parts.push("new file".to_string()),
        ShownBody::Subject
        | ShownBody::Plan(_)
        | ShownBody::File { .. }
        | ShownBody::Served { .. } => {}
    }
    if let Some((added, removed)) = asked.laid.as_ref().and_then(|laid| laid.counts) {
        parts.push(format!("+{added} −{removed}"));
    }
    if let Some(extent) = extent.filter(|extent| extent.overflows()) {
        parts.push(format!("{} lines", figure(extent.lines)));
    }
    parts
}

/// Makes the lines of the scrolled part, once for each look.
fn lay(app: &mut App, columns: u16, layout: &Layout) {
    let (generation, theme) = (app.look.generation, app.look.theme.clone());
    let highlighter = &mut app.look.code;
    let Some(asked) = &mut app.prompts.questions.asked else {
        return;
    };
    let whole = !layout.framed;
    let is_laid =
        |laid: &Laid| (laid.width, laid.generation, laid.layout) == (columns, generation, *layout);
    if asked.laid.as_ref().is_some_and(is_laid) {
        return;
    }
    let width = if whole {
        columns.max(1)
    } else {
        columns.saturating_sub(4).max(1)
    };
    let room = usize::from(width);
    let mut lines = Vec::new();
    if whole {
        // The number of lines is known after the layout: the line of keys shows it.
        lines.extend(words(&title(asked, room, None), theme.text, room));
        lines.extend(words(&asked.because, theme.dim, room));
        lines.extend(access_lines(asked, room, &theme));
    }
    let with_head = whole || !names_file(asked, room);
    let (asked_lines, counts) = asked_lines(asked, width, with_head, &theme, highlighter);
    lines.extend(asked_lines);
    if !whole && why(asked, room, &theme).len() > MAX_WHY_ROWS {
        lines.extend(why(asked, room, &theme));
    }
    if let Some(rule) = &asked.rule
        && (!layout.roomy || with_rule(asked, RuleScope::Project, room).is_none())
    {
        lines.extend(words(
            "s for this session, a always in this project, e everywhere allow:",
            theme.dim,
            room,
        ));
        let in_words = asked.rule_in_words();
        lines.extend(code(in_words.as_ref().unwrap_or(rule), theme.code, room));
        if asked.server_rule.is_some() {
            let server = "t for this session allows all tools of this server";
            lines.extend(words(server, theme.dim, room));
        }
    }
    asked.laid = Some(Laid {
        width: columns,
        generation,
        layout: *layout,
        lines,
        counts: counts.filter(|_| !with_head),
    });
}

/// Returns whether the title names the whole file.
fn names_file(asked: &Approval, room: usize) -> bool {
    let title = title_with_path(asked);
    !title.is_empty() && width(&title) <= room
}

/// Returns the lines of the command, or of the diff of the change with its numbers of lines. The
/// diff names the file, unless the title does.
fn asked_lines(
    asked: &Approval,
    columns: u16,
    with_head: bool,
    theme: &Theme,
    highlighter: &mut Highlighter,
) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let room = usize::from(columns);
    let mut lines = match &asked.shown.body {
        ShownBody::Command { line, .. } => command(line, room, theme, highlighter),
        // The diff names the file.
        ShownBody::Edits { .. } | ShownBody::File { .. } => Vec::new(),
        ShownBody::Served { arguments, .. } => code(arguments, theme.text, room),
        ShownBody::Subject | ShownBody::Plan(_) => code(asked.call.subject(), theme.text, room),
    };
    // If the file is known, the change has line numbers and the lines around it.
    let (ShownBody::Edits { path, .. } | ShownBody::File { path, .. }) = &asked.shown.body else {
        return (lines, None);
    };
    let shape = Shape {
        width: columns,
        max_lines: None,
        theme,
        code: Some(RefCell::new(highlighter)),
        path,
    };
    let changed = match &asked.edit {
        Some((before, after)) => Some(diff::file(Some(before), after, &shape)),
        None => change(&asked.shown, &shape),
    };
    let counts = changed
        .as_ref()
        .map(|changed| (changed.added, changed.removed));
    lines.extend(changed.into_iter().flat_map(|changed| match with_head {
        true => changed.with_head(path, &shape),
        false => changed.lines,
    }));
    (lines, counts)
}

/// Returns the lines of a command in the colours of the shell's language. No part is dimmed: the
/// grammar may take a part for a comment that would run.
fn command(
    text: &str,
    room: usize,
    theme: &Theme,
    highlighter: &mut Highlighter,
) -> Vec<Line<'static>> {
    let colours = Theme {
        syntax_comment: theme.text,
        ..theme.clone()
    };
    let shown = visible::command(text);
    let coloured = highlighter.lines(&clean(&shown), 0, "bash", &colours);
    let lines = coloured.lines.into_iter().flat_map(|parts| {
        let spans: Vec<Span<'static>> = parts
            .into_iter()
            .map(|(style, text)| Span::styled(text, theme.text.patch(style)))
            .collect();
        wrap(&spans, room, &[], &[], Break::Anywhere)
    });
    lines.collect()
}

fn code(text: &str, style: ratatui::style::Style, room: usize) -> Vec<Line<'static>> {
    let shown = visible::command(text);
    let line = |line: &str| {
        let spans = [Span::styled(line.to_string(), style)];
        wrap(&spans, room, &[], &[], Break::Anywhere)
    };
    clean(&shown).lines().flat_map(line).collect()
}

fn words(text: &str, style: ratatui::style::Style, room: usize) -> Vec<Line<'static>> {
    let text = clean_line(text);
    let spans = [Span::styled(
        visible::counted(&text, false).into_owned(),
        style,
    )];
    wrap(&spans, room, &[], &[], Break::Words)
}

fn why(asked: &Approval, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    words(&asked.because, theme.dim, room)
}

/// Describes the access: the long text, or a short one where the long one takes too many rows.
fn access_lines(asked: &Approval, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(told) = asked.access else {
        return Vec::new();
    };
    let style = match told.access {
        Access::Read | Access::Workspace => theme.dim,
        Access::Network | Access::Full => theme.warn,
    };
    let long = words(&told.named(told.long), style, room);
    match long.len() > MAX_ACCESS_ROWS {
        true => words(&told.named(told.short), style, room),
        false => long,
    }
}

/// Returns the pinned lines below the scrolled part.
fn pinned(
    asked: &Approval,
    readiness: Readiness,
    room: usize,
    layout: &Layout,
    theme: &Theme,
) -> Vec<Line<'static>> {
    if !layout.framed {
        return match &asked.reason {
            Some(reason) => vec![reason_line(reason, room, theme)],
            None => vec![Line::styled(
                short_keys(asked, readiness, room),
                theme.accent,
            )],
        };
    }
    let mut lines = why(asked, room, theme);
    if lines.len() > MAX_WHY_ROWS {
        lines.truncate(MAX_WHY_ROWS);
        let last = clip(&lines[MAX_WHY_ROWS - 1].to_string(), room.saturating_sub(2));
        lines[MAX_WHY_ROWS - 1] = Line::styled(format!("{last} …"), theme.dim);
    }
    let access = access_lines(asked, room, theme);
    if let Some(reason) = &asked.reason {
        lines.splice(..0, access);
        lines.push(Line::styled(
            clip(
                "type a reason for the model (Enter denies, Esc goes back)",
                room,
            ),
            theme.dim,
        ));
        lines.push(reason_line(reason, room, theme));
        return lines;
    }
    let is_armed = matches!(readiness, Readiness::Armed | Readiness::Typed);
    let answers = match layout.roomy {
        true => answers(asked, is_armed, room, theme),
        false => vec![answers_in_a_row(asked, is_armed, room, theme)],
    };
    // The subject of the decision is first, and the reason is last.
    lines.splice(..0, answers.into_iter().chain(access));
    let style = match (readiness, asked.end_seen) {
        (Readiness::Armed, false) if asked.extent.overflows() => theme.warn,
        (Readiness::Behind, _) => theme.accent,
        _ => theme.dim,
    };
    lines.push(Line::styled(keys(asked, readiness, room), style));
    lines
}

fn reason_line(reason: &str, room: usize, theme: &Theme) -> Line<'static> {
    let reason = clean_line(reason);
    // The end of the typed text stays visible.
    let shown = tail(&reason, room.saturating_sub(3));
    Line::from(vec![
        Span::styled("› ", theme.accent),
        Span::styled(shown.to_string(), theme.text),
        Span::styled("▏", theme.accent),
    ])
}

/// Returns the text of an answer with its rules in words, if there is room for all of it.
fn with_rule(asked: &Approval, scope: RuleScope, room: usize) -> Option<String> {
    let shown = visible::command(&asked.rule_in_words()?);
    let words = scoped(&format!("allows {}", clean_line(&shown)), scope);
    // Either all answers name the scope, or none does.
    let longest = scoped(
        &format!("allows {}", clean_line(&shown)),
        RuleScope::Project,
    );
    (!shown.contains('\n') && width(&longest) + 2 <= room).then_some(words)
}

fn scoped(rule: &str, scope: RuleScope) -> String {
    match scope {
        RuleScope::Session => format!("s  for this session        {rule}"),
        RuleScope::Project => format!("a  always in this project  {rule}"),
        RuleScope::Everywhere => format!("e  always, everywhere      {rule}"),
    }
}

fn answers(asked: &Approval, is_armed: bool, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let line = |choice: &Choice| {
        let words = match (choice, &asked.rule) {
            (Choice::Once, _) => "y  once".to_string(),
            (Choice::Rule(scope), Some(_)) => with_rule(asked, *scope, room)
                .unwrap_or_else(|| scoped("allows what stands above", *scope)),
            (Choice::Rule(_), None) => String::new(),
            (Choice::Server, _) => {
                "t  for this session        allows all tools of this server".to_string()
            }
            (Choice::Deny, _) => "n  no, and say why".to_string(),
        };
        let words = clip(&words, room.saturating_sub(2));
        let is_chosen = *choice == asked.at;
        let style = answer_style(is_armed, is_chosen, theme);
        Line::from(vec![
            Span::styled(if is_chosen { "› " } else { "  " }, style),
            Span::styled(words, style),
        ])
    };
    asked.choices().iter().map(line).collect()
}

/// Returns the style of an answer. `is_armed`: a key may give it.
pub(super) fn answer_style(
    is_armed: bool,
    is_chosen: bool,
    theme: &Theme,
) -> ratatui::style::Style {
    match (is_armed, is_chosen) {
        (false, _) => theme.dim,
        (true, true) => theme.accent,
        (true, false) => theme.text,
    }
}

fn answers_in_a_row(asked: &Approval, is_armed: bool, room: usize, theme: &Theme) -> Line<'static> {
    let choices = asked.choices();
    // Each has a mark before it and a blank after it.
    let wide: usize = choices.iter().map(|c| width(in_a_row(*c).0) + 3).sum();
    let span = |choice: &Choice| {
        let (long, short) = in_a_row(*choice);
        let words = if wide <= room { long } else { short };
        let is_chosen = *choice == asked.at;
        let mark = if is_chosen { "› " } else { "  " };
        let style = answer_style(is_armed, is_chosen, theme);
        Span::styled(format!("{mark}{words} "), style)
    };
    Line::from(choices.iter().map(span).collect::<Vec<_>>())
}

/// Returns the long and the short label of an answer. The row of the rule explains the letters.
fn in_a_row(choice: Choice) -> (&'static str, &'static str) {
    match choice {
        Choice::Once => ("y once", "y once"),
        Choice::Rule(RuleScope::Session) => ("s session", "s"),
        Choice::Rule(RuleScope::Project) => ("a always", "a"),
        Choice::Rule(RuleScope::Everywhere) => ("e everywhere", "e"),
        Choice::Server => ("t all tools", "t"),
        Choice::Deny => ("n no", "n no"),
    }
}

/// Describes the current effect of keys.
fn keys(asked: &Approval, readiness: Readiness, room: usize) -> String {
    let below_count = asked
        .extent
        .lines
        .saturating_sub(asked.top + asked.extent.rows);
    let lines = if below_count == 1 { "line" } else { "lines" };
    let below = figure(below_count);
    let is_read = asked.end_seen || !asked.extent.overflows();
    let words: &[&str] = match (readiness, is_read) {
        (Readiness::Behind, _) => &[
            "Tab puts your words aside, to answer here; Enter sends them",
            "Tab puts your words aside to answer",
            "Tab to answer",
        ],
        (_, false) => {
            let long = format!("scroll to the end first: {below} more {lines} · PgDn ↓ End · n no");
            let short = format!("scroll to the end first: {below} ↓ PgDn");
            return fitting(&[&long, &short, "to the end first: ↓"], room);
        }
        (Readiness::Quiet, true) => &["wait a moment before you answer", "a moment …"],
        (Readiness::Typed, true) => &["wait a moment, then press Enter", "a moment …"],
        (Readiness::Armed, true) if asked.is_new_file && below_count > 0 => {
            let long =
                format!("{below} more {lines} · Enter chooses · ↑ ↓ scroll · Esc stops the model");
            let short = format!("{below} more {lines} · Enter chooses");
            return fitting(&[&long, &short, "Enter chooses"], room);
        }
        (Readiness::Armed, true) if asked.extent.overflows() => &[
            "Enter chooses · ← → · ↑ ↓ scroll · Esc stops the model",
            "Enter chooses · ↑ ↓ scroll",
        ],
        (Readiness::Armed, true) => &["Enter chooses · ↑ ↓ · Esc stops the model", "Enter chooses"],
    };
    fitting(words, room)
}

/// Describes the keys in one row, with the answers.
fn short_keys(asked: &Approval, readiness: Readiness, room: usize) -> String {
    let is_read = asked.end_seen || !asked.extent.overflows();
    match (readiness, is_read, &asked.rule) {
        (Readiness::Behind, ..) => fitting(&["Tab to answer"], room),
        (_, false, _) => {
            let below = asked
                .extent
                .lines
                .saturating_sub(asked.top + asked.extent.rows);
            let long = format!("scroll to the end first: {below} ↓ PgDn · n no");
            let short = format!("first ↓ {below} · n no");
            fitting(&[&long, &short, "↓ first"], room)
        }
        (Readiness::Quiet, ..) => fitting(&["a moment …"], room),
        (Readiness::Armed | Readiness::Typed, ..) => {
            let rows = [0, 1, 2].map(|brevity| short_answers(asked, brevity));
            fitting(&rows.each_ref().map(String::as_str), room)
        }
    }
}

/// Returns all answers, with a mark at the one that Enter confirms. `brevity`: 0 for words, 1 for
/// fewer words, 2 for letters.
fn short_answers(asked: &Approval, brevity: usize) -> String {
    let answer = |choice: &Choice| {
        let names = match choice {
            Choice::Once => ["y yes", "y yes", "y"],
            Choice::Rule(RuleScope::Session) => ["s session", "s", "s"],
            Choice::Rule(RuleScope::Project) => ["a always", "a", "a"],
            Choice::Rule(RuleScope::Everywhere) => ["e everywhere", "e", "e"],
            Choice::Server => ["t all tools", "t", "t"],
            Choice::Deny => ["n no", "n no", "n"],
        };
        let mark = if *choice == asked.at { "›" } else { "" };
        format!("{mark}{}", names[brevity])
    };
    let answers = asked.choices();
    answers.iter().map(answer).collect::<Vec<_>>().join(" ")
}

/// Returns the first text that fits, else the last one cut.
pub(super) fn fitting(words: &[&str], room: usize) -> String {
    let fits = words.iter().find(|words| width(words) <= room);
    match (fits, words.last()) {
        (Some(words), _) => words.to_string(),
        (None, last) => clip(last.copied().unwrap_or_default(), room),
    }
}
