//! A tool call as lines: the call, its state, and its result.
//!
//! ```text
//! ✗ ran        python3 test_tally.py                  exit 1 · 0.1 s
//!              AssertionError: expected 0.3
//!              + 5 lines
//! ```

use std::cell::RefCell;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::block::{Call, Changes, EditLocation, Exit, Status};
use super::paragraph::{LayoutContext, code, paragraph};
use crate::core::cut::lines_represented;
use crate::core::entry::{Outcome, Plan, StepState};
use crate::core::text::{count, in_one_line, large_count};
use crate::core::to_person::result_to_person;
use crate::core::tool::ToolCall;
use crate::session::{ChangedFiles, clock};
use crate::tools::bash::{Printed, printed_of};
use crate::tools::{self, Shown, ShownBody, ShownResult, Verb, hits};
use crate::ui::text::{self, clean, clean_line};
use crate::ui::theme::Theme;
use crate::ui::{ansi, diff};

/// Columns of the verb.
const VERB_COLUMNS: usize = 10;
/// Column of the subject: after glyph and verb, with a blank after each.
const ARGUMENT_AT: usize = 2 + VERB_COLUMNS + 1;
/// Minimum columns of the subject, including the gap after it.
const LEAST_SUBJECT: usize = 14;
/// Minimum width for aligned verbs. In fewer columns a verb takes only its own length.
const WITH_COLUMNS: u16 = 44;
/// Minimum width for the long text about a background command.
const WIDE: u16 = 60;

/// Number of the last lines of a folded output.
const FOLDED_LINES: usize = 3;
/// The same for a call that failed.
const FOLDED_LINES_OF_FAILURE: usize = 10;
/// Maximum rows of one line of a folded output.
const FOLDED_ROWS: usize = 2;
/// Maximum lines of a folded diff.
const FOLDED_DIFF: usize = 24;
/// The verb for a shell command of the user (`!`).
const YOU_RAN: &str = "you ran";
/// The recorded reason of a call that the user stopped.
const STOPPED: &str = "stopped";
/// Unfolded, no more than this is shown; all of it is in the store.
const MAX_LINES: usize = 2_000;

pub(super) fn lines(
    call: &Call,
    unfolded: bool,
    layout: &mut LayoutContext<'_>,
) -> Vec<Line<'static>> {
    // The question shows all of it. Calls that wait are shown when it is their turn.
    let is_to_come = matches!(
        call.status,
        Status::Waiting | Status::Asked | Status::Allowed
    );
    if matches!(call.status, Status::Asked) && !matches!(call.shown.body, ShownBody::Plan(_)) {
        return Vec::new();
    }
    let before = before(layout);
    let changed = changed(call, unfolded, layout);
    let mut lines = vec![head(call, changed.as_ref(), layout)];
    if let ShownBody::Plan(plan) = &call.shown.body
        && !is_refused(call)
    {
        lines.extend(plan_lines(call.plan.as_ref().unwrap_or(plan), layout));
        return lines;
    }
    if let ShownBody::Command { line, .. } = &call.shown.body
        && unfolded
        && (line.contains('\n') || text::width(line) > layout.edge() / 2)
    {
        let whole = code(line, layout.theme.text, &before, layout);
        lines.extend(bounded(whole, MAX_LINES, &before, layout.theme));
    }
    if let Some(changed) = changed
        && !is_refused(call)
        && !is_to_come
    {
        lines.extend(changed.lines.into_iter().map(|mut line| {
            line.spans.insert(0, Span::raw(before.clone()));
            line
        }));
    }
    lines.extend(output(call, unfolded, layout));
    if let Changes::Known(files) = &call.changes {
        lines.extend(changed_files(files, unfolded, layout));
    }
    lines
}

/// `changed 3 files`; unfolded, which they are.
fn changed_files(
    files: &ChangedFiles,
    unfolded: bool,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    if files.count == 0 {
        return Vec::new();
    }
    let (before, dim) = (before(layout), layout.theme.dim);
    let room = layout.edge().saturating_sub(before.len());
    let line = |text: &str| {
        let text = text::clip(&clean_line(text), room);
        Line::styled(format!("{before}{text}"), dim)
    };
    let mut lines = vec![line(&format!("changed {}", count(files.count, "file")))];
    if unfolded {
        let named = files.files.iter();
        lines.extend(named.map(|(name, figures)| line(&format!("  {name}  {figures}"))));
    }
    lines
}

/// Returns the prefix of the lines below the head of a call.
fn before(layout: &LayoutContext<'_>) -> String {
    let columns = match layout.width >= WITH_COLUMNS {
        true => ARGUMENT_AT,
        false => 4,
    };
    " ".repeat(columns)
}

/// Returns the heading: a glyph, the verb and the subject; the result at the right edge.
pub(super) fn head_line(
    (glyph, glyph_style): (&str, Style),
    verb: &str,
    subject: Vec<Span<'static>>,
    result: Vec<Span<'static>>,
    layout: &LayoutContext<'_>,
) -> Line<'static> {
    let theme = layout.theme;
    let columns = match layout.width >= WITH_COLUMNS {
        true => VERB_COLUMNS,
        false => text::width(verb),
    };
    let result_columns: usize = result.iter().map(Span::width).sum();
    let taken = 2 + columns.max(text::width(verb)) + 1;
    let left = layout.edge().saturating_sub(taken);
    // The result is left out if the subject would not fit.
    let (result, result_columns) = match result_columns + LEAST_SUBJECT > left {
        true => (Vec::new(), 0),
        false => (result, result_columns),
    };
    let gap = if result_columns > 0 { 2 } else { 0 };
    let room = left.saturating_sub(result_columns + gap);
    let mut spans = vec![
        Span::styled(format!("{glyph} "), glyph_style),
        Span::styled(format!("{verb:<columns$} "), theme.dim),
    ];
    let mut used = 0;
    for span in subject {
        let shown = text::clip(&span.content, room.saturating_sub(used));
        used += text::width(&shown);
        spans.push(Span::styled(shown, span.style));
    }
    if result_columns > 0 {
        spans.push(Span::raw(" ".repeat(room.saturating_sub(used) + gap)));
        spans.extend(result);
    }
    Line::from(spans)
}

fn is_refused(call: &Call) -> bool {
    matches!(
        &call.status,
        Status::Over {
            outcome: Outcome::Denied { .. } | Outcome::Error { .. },
            ..
        }
    )
}

fn head(call: &Call, changed: Option<&diff::Changed>, layout: &LayoutContext<'_>) -> Line<'static> {
    let theme = layout.theme;
    let (glyph, verb, result) = status(call, layout);
    let mut spans = vec![Span::styled(subject(call, layout), theme.text)];
    // Whether a file is there that would be written over is not known before it is done.
    let is_to_come = matches!(
        call.status,
        Status::Waiting | Status::Asked | Status::Allowed
    );
    let is_known = !is_to_come || !matches!(call.shown.body, ShownBody::File { .. });
    if let Some(changed) = changed.filter(|_| is_known) {
        spans.push(Span::raw("  "));
        spans.extend(changed.counts(theme));
    }
    head_line(glyph, verb, spans, result, layout)
}

/// Returns the subject in one line. A tool without a known verb has its name before it.
pub(super) fn subject(call: &Call, layout: &LayoutContext<'_>) -> String {
    // No more than a line of it is seen.
    let subject = in_one_line(call.subject(), 4 * layout.columns());
    let subject = clean_line(&subject).into_owned();
    match call.shown.verb {
        Verb::Call => format!("{}{subject}", name_before_subject(&call.call)),
        _ => subject,
    }
}

/// Returns the name before the subject: `mcp `, or for a server's tool `files · read_file  `.
fn name_before_subject(call: &ToolCall) -> String {
    let gap = if call.is_served() { "  " } else { " " };
    format!("{}{gap}", clean_line(&call.shown_name()))
}

type CallHeader = ((&'static str, Style), &'static str, Vec<Span<'static>>);

fn status(call: &Call, layout: &LayoutContext<'_>) -> CallHeader {
    let theme = layout.theme;
    let verb = call.shown.verb;
    let dim = |text: String| vec![Span::styled(text, theme.dim)];
    match &call.status {
        Status::Waiting | Status::Allowed => ((" ", theme.dim), verb.to_do(), Vec::new()),
        Status::Asked => (("?", theme.warn), verb.to_do(), Vec::new()),
        Status::Running { since_ms, .. } => {
            let age = (layout.now_ms - since_ms).max(0);
            let glyph = (spinner(age), theme.running);
            (glyph, verb.doing(), dim(clock(age)))
        }
        Status::Over { outcome, .. } => {
            let result = result(call, layout.width >= WIDE, theme);
            match outcome {
                Outcome::Denied { .. } => (("◌", theme.dim), "denied", result),
                Outcome::Interrupted { .. } => (("◌", theme.dim), verb.to_do(), result),
                _ if call.has_failed() && call.is_of_user => (("✗", theme.error), YOU_RAN, result),
                _ if call.has_failed() => (("✗", theme.error), verb.done(), result),
                Outcome::Error { .. } | Outcome::Done { .. } => match call.is_in_background() {
                    true => (("◐", theme.running), "started", result),
                    false if call.is_of_user => (("·", theme.dim), YOU_RAN, result),
                    false => (("·", theme.dim), verb.done(), result),
                },
            }
        }
    }
}

/// Returns one of four glyphs, another each second.
pub fn spinner(age_ms: i64) -> &'static str {
    const SPIN: [&str; 4] = ["◐", "◓", "◑", "◒"];
    let at = usize::try_from(age_ms / 1000).unwrap_or(0) % SPIN.len();
    SPIN[at]
}

/// `exit 1 · 0.1 s`
fn result(call: &Call, is_wide: bool, theme: &Theme) -> Vec<Span<'static>> {
    let Status::Over {
        outcome,
        took_ms,
        exit,
    } = &call.status
    else {
        return Vec::new();
    };
    let failed = match (outcome, exit.code()) {
        (Outcome::Denied { .. }, _) => None,
        (_, Some(code)) if code != 0 => Some(format!("exit {code}")),
        (Outcome::Error { .. }, _) => Some("failed".to_string()),
        (Outcome::Done { output }, None) if call.has_failed() => {
            Some(ended_by(&output.text).to_string())
        }
        _ => None,
    };
    let found = match outcome {
        Outcome::Interrupted { .. } => Some("interrupted".to_string()),
        Outcome::Done { output } => match call.shown.result {
            ShownResult::LineCount => {
                let lines = output.text.trim_end().lines().count();
                Some(count(lines, "line"))
            }
            ShownResult::HitCount => Some(count(hits(&output.text), "hit")),
            _ => None,
        },
        _ => None,
    };
    let background = match (exit, is_wide) {
        (Exit::InBackground, true) => Some("still running in the background".to_string()),
        (Exit::InBackground, false) => Some("still running".to_string()),
        (Exit::EndedInBackground(_), true) => Some("ended in the background".to_string()),
        (Exit::EndedInBackground(_), false) => Some("ended".to_string()),
        _ => None,
    };
    let took = took_ms.and_then(duration);
    let rest: Vec<String> = [found, background, took].into_iter().flatten().collect();
    let mut spans = Vec::new();
    if let Some(failed) = failed {
        spans.push(Span::styled(failed, theme.error));
        if !rest.is_empty() {
            spans.push(Span::styled(" · ", theme.dim));
        }
    }
    if !rest.is_empty() {
        spans.push(Span::styled(rest.join(" · "), theme.dim));
    }
    spans
}

/// Describes in few words how a command ended that did not exit by itself.
fn ended_by(result: &str) -> &'static str {
    match printed_of(result).ended {
        Some(ended) if ended.starts_with("ended by rewake: ") => "time limit",
        Some(_) => "by a signal",
        None => "no exit code",
    }
}

/// Formats a duration: `0.1 s`, `42 s`. `None`: it is too short to be shown.
pub(super) fn duration(ms: u64) -> Option<String> {
    match ms {
        ..50 => None,
        50..10_000 => Some(format!("{:.1} s", ms as f64 / 1000.0)),
        _ => Some(clock(i64::try_from(ms).unwrap_or(i64::MAX))),
    }
}

/// Returns the change of an edit, or of a file that is written.
fn changed(call: &Call, unfolded: bool, layout: &mut LayoutContext<'_>) -> Option<diff::Changed> {
    let inside = layout.edge().saturating_sub(before(layout).len()).max(1);
    let max = if unfolded { MAX_LINES } else { FOLDED_DIFF };
    let inside = u16::try_from(inside).unwrap_or(u16::MAX);
    let (ShownBody::Edits { path, .. } | ShownBody::File { path, .. }) = &call.shown.body else {
        return None;
    };
    let shape = diff::Shape {
        code: Some(RefCell::new(&mut *layout.code)),
        path,
        ..shape(inside, Some(max), layout.theme)
    };
    let mut changed = match &call.place {
        EditLocation::Known(place) => diff::part(place.first, &place.before, &place.after, &shape),
        _ => change(&call.shown, &shape)?,
    };
    if let Some((added, removed)) = counted(call) {
        (changed.added, changed.removed) = (added, removed);
    }
    Some(changed)
}

/// Returns the numbers of added and removed lines that the call reports.
fn counted(call: &Call) -> Option<(usize, usize)> {
    match &call.status {
        Status::Over {
            outcome: Outcome::Done { output },
            ..
        } => tools::line_counts(&output.text),
        _ => None,
    }
}

fn shape(width: u16, max_lines: Option<usize>, theme: &Theme) -> diff::Shape<'_> {
    diff::Shape {
        width,
        max_lines,
        theme,
        code: None,
        path: "",
    }
}

/// Returns the change of an edit, or of a file that is written. `None`: the call is neither.
pub(crate) fn change(shown: &Shown, shape: &diff::Shape<'_>) -> Option<diff::Changed> {
    match &shown.body {
        ShownBody::Edits { edits, .. } => Some(diff::edits(edits, shape)),
        ShownBody::File { content, .. } => Some(diff::file(None, content, shape)),
        ShownBody::Subject
        | ShownBody::Plan(_)
        | ShownBody::Command { .. }
        | ShownBody::Served { .. } => None,
    }
}

/// Returns the number of lines that a call adds and removes.
pub(super) fn counts(call: &Call, theme: &Theme) -> (usize, usize) {
    counted(call).unwrap_or_else(|| {
        let changed = change(&call.shown, &shape(40, Some(0), theme));
        changed.map_or((0, 0), |changed| (changed.added, changed.removed))
    })
}

/// Returns the full change that a person is asked about, with the name of the file.
pub fn change_lines(shown: &Shown, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let shape = shape(width, None, theme);
    match (&shown.body, change(shown, &shape)) {
        (ShownBody::Edits { path, .. } | ShownBody::File { path, .. }, Some(changed)) => {
            changed.with_head(path, &shape)
        }
        _ => Vec::new(),
    }
}

fn plan_lines(plan: &Plan, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let before = before(layout);
    let mut lines = Vec::new();
    for step in &plan.steps {
        let (mark, mark_style, style) = match step.state {
            StepState::Done => ("✓ ", theme.ok, theme.dim),
            StepState::Current => ("▸ ", theme.text, theme.text),
            StepState::Left => ("· ", theme.dim, theme.text),
        };
        let spans = [Span::styled(clean_line(&step.text).into_owned(), style)];
        let first = [Span::raw(before.clone()), Span::styled(mark, mark_style)];
        let rest = [Span::raw(format!("{before}  "))];
        let columns = layout.prose();
        let at = text::Break::Words;
        lines.extend(text::wrap(&spans, columns, &first, &rest, at));
    }
    for goal in &plan.goals {
        lines.extend(paragraph(goal, theme.dim, &format!("{before}◎ "), layout));
    }
    lines
}

fn output(call: &Call, unfolded: bool, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    // Only the output of commands has colours; other text is from files or the program.
    let is_printed = call.shown.result == ShownResult::Printed;
    let (outcome, exit) = match &call.status {
        Status::Running { .. } => {
            let max = if unfolded { MAX_LINES } else { FOLDED_LINES };
            return tail_of(call.tail.trim_end(), is_printed, false, max, layout);
        }
        Status::Over { outcome, exit, .. } => (outcome, *exit),
        Status::Waiting | Status::Asked | Status::Allowed => return Vec::new(),
    };
    let is_background = matches!(exit, Exit::InBackground | Exit::EndedInBackground(_));
    let is_told = is_background || (call.shown.result != ShownResult::LastLines && !is_printed);
    let (words, is_error) = match outcome {
        // The right edge shows that it was interrupted.
        Outcome::Interrupted { output, .. } => (output.text.clone(), true),
        _ => result_to_person(outcome),
    };
    let why = match outcome {
        // A separate line gives the reason.
        Outcome::Interrupted { why, .. } if why != STOPPED => Some(why.clone()),
        _ => None,
    };
    if is_told && !is_error && !unfolded {
        return Vec::new();
    }
    // The output of a command ends with notes to the model.
    let printed = match is_printed && !is_background {
        true => printed_of(&words),
        false => Printed {
            text: words.trim_end(),
            ended: None,
            notes: Vec::new(),
        },
    };
    let max = match (unfolded, call.has_failed()) {
        (true, _) => MAX_LINES,
        (false, true) => FOLDED_LINES_OF_FAILURE,
        (false, false) => FOLDED_LINES,
    };
    let mut lines = tail_of(printed.text, is_printed, true, max, layout);
    let ended = printed.ended.map(str::to_string);
    for note in ended.into_iter().chain(printed.notes).chain(why) {
        let before = before(layout);
        lines.extend(paragraph(&note, layout.theme.dim, &before, layout));
    }
    lines
}

/// Returns the number of earlier lines, and at most `max` last lines. Only the end of a running
/// command's output is known, so its lines are not counted.
fn tail_of(
    words: &str,
    is_printed: bool,
    is_whole: bool,
    max: usize,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let theme = layout.theme;
    if words.is_empty() {
        return Vec::new();
    }
    let unfolded = max == MAX_LINES;
    let all: Vec<&str> = words.lines().collect();
    let mut skipped = all.len().saturating_sub(max);
    // Blank lines at the cut say nothing.
    if skipped > 0 {
        skipped += all[skipped..]
            .iter()
            .take_while(|l| l.trim().is_empty())
            .count();
    }
    let before_text = before(layout);
    let before = [Span::raw(before_text.clone())];
    let shown = all[skipped..].join("\n");
    let shown: Vec<Line<'static>> = match is_printed {
        true => ansi::lines(&shown, max, theme),
        false => clean(&shown)
            .lines()
            .map(|l| Line::raw(l.to_string()))
            .collect(),
    };
    let mut lines = Vec::new();
    if skipped > 0 && is_whole {
        // A single line may represent several hidden lines.
        let earlier = &all[..skipped];
        let earlier: usize = earlier.iter().map(|line| lines_represented(line)).sum();
        let key = if unfolded { "" } else { " (Ctrl+O)" };
        let more = format!("… {}{key}", large_count(earlier, "earlier line"));
        let room = layout.edge().saturating_sub(before_text.len());
        let more = format!("{before_text}{}", text::clip(&more, room));
        lines.push(Line::styled(more, theme.dim));
    }
    let columns = layout.edge();
    for line in shown {
        let quiet = theme.dim.patch(line.style);
        let spans = line.spans.into_iter();
        let spans: Vec<Span<'static>> = spans
            .map(|span| Span::styled(span.content, quiet.patch(span.style)))
            .collect();
        let at = text::Break::Words;
        let mut wrapped = text::wrap(&spans, columns, &before, &before, at);
        // One line of a folded output must not fill the screen.
        if !unfolded && wrapped.len() > FOLDED_ROWS {
            wrapped.truncate(FOLDED_ROWS);
            if let Some(last) = wrapped.last_mut() {
                let cut = text::clip(&last.to_string(), columns.saturating_sub(2));
                *last = Line::styled(format!("{cut} …"), theme.dim);
            }
        }
        lines.extend(wrapped);
    }
    lines
}

/// Limits the rows. The number of hidden rows is not shown, since it differs from that of lines.
fn bounded(
    mut lines: Vec<Line<'static>>,
    max: usize,
    before: &str,
    theme: &Theme,
) -> Vec<Line<'static>> {
    if lines.len() > max {
        lines.truncate(max);
        lines.push(Line::styled(format!("{before}…"), theme.dim));
    }
    lines
}
