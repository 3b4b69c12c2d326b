//! A tool call as lines: what it is about, how it goes, and what it gave.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::block::{Call, Status};
use super::paragraph::{LayoutContext, code, paragraph};
use crate::core::cut::lines_behind;
use crate::core::entry::{Outcome, Plan, StepState};
use crate::core::text::{count, in_one_line};
use crate::session::clock;
use crate::tools::{Body, Shown, ShownResult};
use crate::ui::text::{self, clean, clean_line};
use crate::ui::theme::Theme;
use crate::ui::{ansi, diff};

/// What belongs to a call stands so far in.
const INDENT: u16 = 2;

/// Of an output, folded: its last lines.
const FOLDED_LINES: usize = 4;
/// Of a diff, folded.
const FOLDED_DIFF: usize = 24;
/// Unfolded, no more than this is shown; all of it is in the store.
const MAX_LINES: usize = 2_000;

pub(super) fn lines(
    call: &Call,
    unfolded: bool,
    layout: &mut LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let mut lines = vec![head(call, layout)];
    if let Body::Plan(plan) = &call.shown.body
        && !is_refused(call)
    {
        lines.extend(plan_lines(call.plan.as_ref().unwrap_or(plan), layout));
        return lines;
    }
    if let Body::Command { line, .. } = &call.shown.body
        && (unfolded || line.contains('\n'))
    {
        lines.extend(bounded(
            code(line, layout.theme.code, "  $ ", layout),
            unfolded,
            FOLDED_LINES,
            layout.theme,
        ));
    }
    if !is_refused(call) {
        lines.extend(changes(call, unfolded, layout));
    }
    lines.extend(output(call, unfolded, layout));
    lines
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

/// `● bash  cargo test                        4.2 s · exit 101`
fn head(call: &Call, layout: &LayoutContext<'_>) -> Line<'static> {
    let theme = layout.theme;
    let (mark, style, ending) = status(call, layout);
    let name = clean_line(&call.call.name).into_owned();
    // No more than a line of it is seen.
    let subject = in_one_line(call.subject(), 4 * layout.columns());
    let subject = clean_line(&subject).into_owned();
    let room = layout
        .columns()
        .saturating_sub(2 + text::width(&name) + 2 + text::width(&ending) + 2);
    let subject = text::clip(&subject, room);
    let gap = room.saturating_sub(text::width(&subject)) + 2;
    Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::styled(name, theme.accent),
        Span::raw("  "),
        Span::styled(subject, theme.text),
        Span::raw(" ".repeat(gap.min(room + 2))),
        Span::styled(ending, theme.dim),
    ])
}

fn status(call: &Call, layout: &LayoutContext<'_>) -> (&'static str, Style, String) {
    let theme = layout.theme;
    match &call.status {
        Status::Waiting | Status::Allowed => ("○", theme.dim, String::new()),
        Status::Asked => ("?", theme.warn, "asks".into()),
        Status::Running { since_ms, .. } => {
            const SPIN: [&str; 4] = ["◐", "◓", "◑", "◒"];
            let age = (layout.now_ms - since_ms).max(0);
            let at = usize::try_from(age / 1000).unwrap_or(0) % SPIN.len();
            (SPIN[at], theme.running, clock(age))
        }
        Status::Over {
            outcome,
            took_ms,
            exit_code,
            in_background,
        } => {
            let (mark, style, word) = match outcome {
                Outcome::Done { .. } => ("●", theme.ok, None),
                Outcome::Error { .. } => ("●", theme.error, exit_code.is_none().then_some("error")),
                Outcome::Denied { .. } => ("⊘", theme.warn, Some("denied")),
                Outcome::Interrupted { .. } => ("◌", theme.warn, Some("interrupted")),
            };
            let took = took_ms.filter(|ms| *ms >= 100).map(duration);
            let exit = exit_code.map(|code| format!("exit {code}"));
            let background = in_background.then(|| "in the background".to_string());
            let parts: Vec<String> = [took, exit, background, word.map(str::to_string)]
                .into_iter()
                .flatten()
                .collect();
            (mark, style, parts.join(" · "))
        }
    }
}

fn duration(ms: u64) -> String {
    match ms {
        ..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => clock(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}

/// The change that an edit makes, or a file that is written.
fn changes(call: &Call, unfolded: bool, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let inside = layout.width.saturating_sub(INDENT).max(1);
    let max = if unfolded { MAX_LINES } else { FOLDED_DIFF };
    let mut lines = change_lines(&call.shown, inside, Some(max), layout.theme);
    for line in &mut lines {
        line.spans.insert(0, Span::raw("  "));
    }
    lines
}

/// Also what a person is asked about, and then all of it.
pub fn change_lines(
    shown: &Shown,
    width: u16,
    max_lines: Option<usize>,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let shape = diff::Shape {
        width,
        max_lines,
        theme,
    };
    match &shown.body {
        Body::Edits { path, edits } => diff::edits(path, edits, &shape),
        Body::File { path, content } => diff::file(path, None, content, &shape),
        Body::Subject | Body::Plan(_) | Body::Command { .. } => Vec::new(),
    }
}

fn plan_lines(plan: &Plan, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let mut lines = Vec::new();
    for step in &plan.steps {
        let (mark, mark_style, style) = match step.state {
            StepState::Done => ("  ✓ ", theme.ok, theme.dim),
            StepState::Current => ("  ▸ ", theme.accent, theme.text),
            StepState::Left => ("  · ", theme.dim, theme.text),
        };
        let spans = [Span::styled(clean_line(&step.text).into_owned(), style)];
        let first = [Span::styled(mark, mark_style)];
        let rest = [Span::raw("    ")];
        lines.extend(text::wrap(
            &spans,
            layout.columns(),
            &first,
            &rest,
            text::Break::Words,
        ));
    }
    for goal in &plan.goals {
        lines.extend(paragraph(goal, theme.dim, "  ◎ ", layout));
    }
    lines
}

fn output(call: &Call, unfolded: bool, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let (words, style) = match &call.status {
        Status::Running { .. } => (call.tail.clone(), theme.dim),
        Status::Over { outcome, .. } => {
            let (words, is_error) = outcome.to_model_text();
            let says_nothing = call.shown.result == ShownResult::InTheBody && !is_error;
            if says_nothing && !unfolded {
                return Vec::new();
            }
            (words, theme.dim)
        }
        Status::Waiting | Status::Asked | Status::Allowed => return Vec::new(),
    };
    let shown = words.trim_end();
    if shown.is_empty() {
        return Vec::new();
    }
    let quiet = call.shown.result == ShownResult::LineCount;
    if quiet && !unfolded && !is_refused(call) {
        let count: usize = shown.lines().map(lines_behind).sum();
        let what = format!("  └ {count} line{}", if count == 1 { "" } else { "s" });
        return vec![Line::styled(what, theme.dim)];
    }
    // Only what a command printed has colours; all else is text of files and of the program.
    let is_printed = call.shown.result == ShownResult::Printed;
    tail_of(shown, is_printed, style, unfolded, layout)
}

/// The last lines, with how many come before.
fn tail_of(
    words: &str,
    is_printed: bool,
    style: Style,
    unfolded: bool,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let max = if unfolded { MAX_LINES } else { FOLDED_LINES };
    let all = words.lines().count();
    let skipped = all.saturating_sub(max);
    let mut lines = Vec::new();
    if skipped > 0 {
        let behind: usize = words.lines().take(skipped).map(lines_behind).sum();
        let hint = match (unfolded, behind) {
            (true, _) => "",
            (false, 1) => " (ctrl+o shows it)",
            (false, _) => " (ctrl+o shows them)",
        };
        let what = format!("  │ … {}{hint}", count(behind, "more line"));
        lines.push(Line::styled(what, layout.theme.dim));
    }
    let shown: Vec<&str> = words.lines().skip(skipped).collect();
    let bar = [Span::styled("  │ ", layout.theme.dim)];
    let shown = shown.join("\n");
    let shown: Vec<Line<'static>> = match is_printed {
        true => ansi::lines(&shown, max, layout.theme),
        false => clean(&shown)
            .lines()
            .map(|l| Line::raw(l.to_string()))
            .collect(),
    };
    for line in shown {
        let line = line.patch_style(style);
        let mut wrapped = text::wrap(
            &line.spans,
            layout.columns(),
            &bar,
            &bar,
            text::Break::Anywhere,
        );
        // One line of a folded output must not fill the screen.
        if !unfolded && wrapped.len() > 3 {
            wrapped.truncate(3);
        }
        lines.extend(wrapped);
    }
    lines
}

fn bounded(
    mut lines: Vec<Line<'static>>,
    unfolded: bool,
    folded_max: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let max = if unfolded { MAX_LINES } else { folded_max };
    let more = lines.len().saturating_sub(max);
    if more > 0 {
        lines.truncate(max);
        lines.push(Line::styled(
            format!("  … {}", count(more, "more line")),
            theme.dim,
        ));
    }
    lines
}
