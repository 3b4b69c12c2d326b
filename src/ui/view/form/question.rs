//! A question of the model: which one it is, its text, and a row for each answer. The last step
//! lists the answers.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{clean_line, label, typed, words};
use crate::core::form::{Choice, FieldKind};
use crate::tools::OWN_WORDS_TITLE;
use crate::ui::overlay::{Filling, FormEntry, Step, Steps};
use crate::ui::text::{Break, clean, width, wrap};
use crate::ui::theme::Theme;

const SKIP: &str = "Skip this question";

/// Returns the lines, and the range of those that belong to the chosen row.
pub(super) fn lines(
    entry: &FormEntry,
    steps: &Steps,
    room: usize,
    theme: &Theme,
) -> (Vec<Line<'static>>, Range<usize>) {
    let mut lines = Vec::new();
    if steps.questions.len() > 1 {
        lines.extend(overview(entry, steps, room, theme));
    }
    let Some(step) = steps.now() else {
        lines.extend(answers(entry, steps, room, theme));
        return (lines, 0..0);
    };
    for line in text(entry, step).lines() {
        lines.extend(words(line, theme.text, room, ""));
    }
    let mut focus = 0..0;
    for row in 0..=step.skip_row() {
        let from = lines.len();
        lines.extend(row_lines(entry, step, row, room, theme));
        if step.row == Some(row) {
            focus = from..lines.len();
        }
    }
    if let Some((_, why)) = &entry.error {
        let from = if focus.is_empty() {
            lines.len()
        } else {
            focus.start
        };
        lines.extend(words(
            &format!("✗ {}", clean_line(why)),
            theme.error,
            room,
            "",
        ));
        focus = from..lines.len();
    }
    (lines, focus)
}

/// Returns the text of a question. Of the only one it is the text of the form.
fn text(entry: &FormEntry, step: &Step) -> String {
    let field = entry.fields().get(step.main);
    let about = field.map_or("", |field| field.description.trim());
    let text = if about.is_empty() {
        &entry.question.message
    } else {
        about
    };
    clean(text).into_owned()
}

fn name(entry: &FormEntry, step: &Step) -> String {
    entry.fields().get(step.main).map(label).unwrap_or_default()
}

/// `✓ Format · › Place · Tests · Send`
fn overview(entry: &FormEntry, steps: &Steps, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut spans = Vec::new();
    for (n, step) in steps.questions.iter().enumerate() {
        let mark = match (n == steps.at, entry.is_settled(step)) {
            (true, _) => "› ",
            (false, true) => "✓ ",
            (false, false) => "",
        };
        let style = if n == steps.at {
            theme.accent
        } else {
            theme.dim
        };
        spans.push(Span::styled(format!("{mark}{}", name(entry, step)), style));
        spans.push(Span::styled(" · ", theme.dim));
    }
    let (mark, style) = match steps.now() {
        None => ("› ", theme.accent),
        Some(_) => ("", theme.dim),
    };
    spans.push(Span::styled(format!("{mark}Send"), style));
    wrap(&spans, room, &[], &[], Break::Words)
}

fn answers(entry: &FormEntry, steps: &Steps, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for step in &steps.questions {
        let (answer, style) = match (step.is_skipped(), entry.is_settled(step)) {
            (true, _) => ("skipped".to_string(), theme.dim),
            (false, false) => ("not answered yet".to_string(), theme.warn),
            (false, true) => (entry.step_shown(step), theme.text),
        };
        let name = Span::styled(format!("{}: ", name(entry, step)), theme.accent);
        let rest = [Span::raw("  ")];
        let answer = Span::styled(clean_line(&answer.replace('\n', "↵")).into_owned(), style);
        lines.extend(wrap(&[name, answer], room, &[], &rest, Break::Words));
    }
    lines
}

fn row_lines(
    entry: &FormEntry,
    step: &Step,
    row: usize,
    room: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let has_keys = step.row == Some(row);
    let style = if has_keys { theme.accent } else { theme.text };
    let is_chosen = match entry.values.get(step.main) {
        Some(Filling::SomeOf { chosen, .. }) if row < step.options => {
            chosen.get(row).is_some_and(|is| *is)
        }
        _ if row == step.own_row() && step.several => !own_text(entry, step).trim().is_empty(),
        _ => has_keys,
    };
    let tick = match (step.several && row < step.skip_row(), is_chosen) {
        (true, true) => "[x]",
        (true, false) => "[ ]",
        (false, true) => "(•)",
        (false, false) => "( )",
    };
    let arrow = if has_keys { "› " } else { "  " };
    let mark = format!("{arrow}{}. {tick} ", row + 1);
    let rest = [Span::raw(" ".repeat(width(&mark).min(room / 2)))];
    let before = [Span::styled(mark, style)];
    let hung = |text: String, style: Style| {
        wrap(
            &[Span::styled(text, style)],
            room,
            &before,
            &rest,
            Break::Words,
        )
    };
    if row == step.skip_row() {
        return hung(SKIP.to_string(), style);
    }
    let choice = choices(entry, step).get(row);
    if let Some(choice) = choice {
        return hung(clean_line(&choice.label).into_owned(), style);
    }
    let own = format!("{OWN_WORDS_TITLE}: ");
    match entry.values.get(step.own) {
        Some(Filling::Text(field)) if has_keys => {
            let taken = width(&own) + width(&before[0].content);
            let mut spans = before.to_vec();
            spans.push(Span::styled(own, theme.accent));
            // A narrow screen has the words in the next row.
            if room < taken + 12 {
                let mut below = rest.to_vec();
                below.extend(typed(
                    field,
                    room.saturating_sub(width(&rest[0].content)),
                    theme,
                ));
                return vec![Line::from(spans), Line::from(below)];
            }
            spans.extend(typed(field, room - taken, theme));
            vec![Line::from(spans)]
        }
        _ => hung(
            format!("{own}{}", clean_line(&own_text(entry, step))),
            style,
        ),
    }
}

fn choices<'a>(entry: &'a FormEntry, step: &Step) -> &'a [Choice] {
    match entry.fields().get(step.main).map(|field| &field.kind) {
        Some(FieldKind::OneOf { choices } | FieldKind::SomeOf { choices, .. }) => choices,
        _ => &[],
    }
}

fn own_text(entry: &FormEntry, step: &Step) -> String {
    entry.shown(step.own).replace('\n', "↵")
}

/// Returns the effect of keys, the longest form first.
pub(super) fn keys(steps: &Steps) -> &'static [&'static str] {
    match steps.now() {
        None => &[
            "Enter sends these answers · ← goes back · Ctrl+D declines all · Esc later",
            "Enter sends · ← back · ^D declines · Esc later",
            "Enter · ← · ^D no · Esc",
        ],
        Some(step) if step.several => &[
            "Enter continues · Space or a digit ticks · ↑ ↓ moves · ← → other question · Esc later",
            "Enter continues · Space ticks · ↑ ↓ · ← → · Esc later",
            "Enter Space ↑ ↓ ← →",
        ],
        Some(_) if steps.questions.len() > 1 => &[
            "Enter continues · ↑ ↓ or a digit chooses · ← → other question · Esc later",
            "Enter continues · ↑ ↓ chooses · ← → · Esc later",
            "Enter ↑ ↓ ← →",
        ],
        Some(_) => &[
            "Enter sends · ↑ ↓ or a digit chooses · Ctrl+D declines · Esc later",
            "Enter sends · ↑ ↓ chooses · ^D no · Esc later",
            "Enter ↑ ↓ ^D Esc",
        ],
    }
}
