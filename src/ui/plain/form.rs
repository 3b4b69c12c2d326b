//! The question of a server in words: who asks and for what, then one field after the other.

use super::Printer;
use crate::core::form::{Choice, FieldKind, takes};
use crate::core::text::{count, one_line};
use crate::core::visible::{command, visible};
use crate::ui::app::{App, ServerForm};
use crate::ui::overlay::{Extent, FormEntry, Step, Steps};

/// Maximum number of lines of a server's message.
const MAX_MESSAGE_LINES: usize = 200;
/// Maximum length of a name, a description or a value.
const MAX_CHARS: usize = 1_000;
/// Maximum number of choices of a field.
const MAX_CHOICES: usize = 500;

impl Printer {
    /// Prints the form when it is a new one, and the field that the next line is for.
    pub(super) fn form(&mut self, app: &mut App) {
        if app.prompts.questions.form_in_front().is_none() {
            self.form = None;
            return;
        }
        let Some(form) = &mut app.prompts.questions.form else {
            return;
        };
        let now = (form.number, form.entry.line_at);
        let before = self.form.replace(now);
        if before == Some(now) {
            return;
        }
        let mut lines = Vec::new();
        if before.map(|(number, _)| number) != Some(form.number) {
            lines.extend(heading(form));
        }
        lines.push(match form.entry.url() {
            Some(_) => {
                "Answer with a line: y when it is done; o opens the address in your browser; n \
                        declines; /later puts it aside"
                    .to_string()
            }
            None => field(&form.entry),
        });
        // All of it is printed.
        form.entry.page.extent = Extent { rows: 1, lines: 1 };
        self.line(&lines.join("\n"));
    }
}

fn heading(form: &ServerForm) -> Vec<String> {
    let entry = &form.entry;
    let asker = shown(&entry.question.the_asker()).to_string();
    let task = form
        .task
        .as_ref()
        .map(|task| format!(" in the task \"{}\"", shown(task)));
    let fields = match (&entry.steps, entry.fields().len()) {
        (Some(steps), _) => format!(", {}", count(steps.questions.len() as u64, "question")),
        (None, 0) => String::new(),
        (None, some) => format!(", {}", count(some as u64, "field")),
    };
    let mut lines = vec![format!(
        "Question: {asker} asks you{}{fields}:",
        task.unwrap_or_default()
    )];
    let message = command(&entry.question.message);
    let message = message.lines().take(MAX_MESSAGE_LINES);
    lines.extend(message.map(|line| format!("  {line}")));
    match (entry.url(), entry.address()) {
        (Some(_), Some(url)) => {
            lines.push(format!("  It asks you to open this address: {url}"));
            lines.push(format!(
                "  It leads to {}",
                url.host_str().unwrap_or_default()
            ));
        }
        (Some(url), None) => lines.push(format!(
            "  It asks you to open this, which is not an address for a browser: {}",
            visible(url)
        )),
        (None, _) if entry.steps.is_some() => lines.push(
            "Answer each question with a line: a number, or your own words; skip skips it. /back \
             goes back, /decline declines all, /later puts it aside, Ctrl+C stops the turn."
                .to_string(),
        ),
        (None, _) => lines.push(
            "Answer each field with a line; an empty line leaves it as it is. /back goes back, \
             /decline declines all of it, /later puts it aside, Ctrl+C stops the turn."
                .to_string(),
        ),
    }
    lines
}

fn shown(text: &str) -> String {
    visible(&one_line(text, MAX_CHARS)).into_owned()
}

/// Describes the field that the next line is for. After the last one, lists all values to send.
fn field(entry: &FormEntry) -> String {
    if let Some(steps) = &entry.steps {
        return question(entry, steps);
    }
    let fields = entry.fields();
    let name = |place| name(entry, place);
    let Some(field) = fields.get(entry.line_at) else {
        let mut lines: Vec<String> = (0..fields.len())
            .map(|place| format!("  {}: {}", name(place), shown(&entry.shown(place))))
            .collect();
        let again = match fields.is_empty() {
            true => "/decline declines it",
            false => "n begins again; /decline declines it",
        };
        lines.push(format!(
            "Send this? Answer with a line: y sends it; {again}"
        ));
        return lines.join("\n");
    };
    let needed = if field.is_required { "required; " } else { "" };
    let mut line = format!(
        "Field {} of {}: {} ({needed}{})",
        entry.line_at + 1,
        fields.len(),
        name(entry.line_at),
        shown(&takes(&field.kind))
    );
    if !field.description.is_empty() {
        line.push_str(&format!("\n  {}", shown(&field.description)));
    }
    if let FieldKind::OneOf { choices } | FieldKind::SomeOf { choices, .. } = &field.kind {
        let choice =
            |(n, choice): (usize, &Choice)| format!("\n  {}. {}", n + 1, shown(&choice.label));
        line.extend(choices.iter().enumerate().take(MAX_CHOICES).map(choice));
        if matches!(field.kind, FieldKind::SomeOf { .. }) {
            line.push_str("\n  Some of them with commas between, or none");
        }
    }
    let now = shown(&entry.shown(entry.line_at));
    if !now.is_empty() {
        line.push_str(&format!("\n  now: {now}"));
    }
    line
}

fn name(entry: &FormEntry, place: usize) -> String {
    match entry.fields().get(place) {
        Some(field) if field.title.trim().is_empty() => shown(&field.name),
        Some(field) => shown(&field.title),
        None => String::new(),
    }
}

/// Describes the question that the next line answers. After the last one, lists all answers.
fn question(entry: &FormEntry, steps: &Steps) -> String {
    let Some(step) = steps.questions.get(entry.line_at) else {
        let answer = |step: &Step| match entry.step_shown(step) {
            none if none.is_empty() => "skipped".to_string(),
            answer => shown(&answer),
        };
        let line = |step: &Step| format!("  {}: {}", name(entry, step.main), answer(step));
        let mut lines: Vec<String> = steps.questions.iter().map(line).collect();
        let again =
            "Send this? Answer with a line: y sends it; n begins again; /decline declines all";
        lines.push(again.to_string());
        return lines.join("\n");
    };
    let mut line = format!(
        "Question {} of {}: {}",
        entry.line_at + 1,
        steps.questions.len(),
        name(entry, step.main)
    );
    let Some(field) = entry.fields().get(step.main) else {
        return line;
    };
    if !field.description.is_empty() {
        line.push_str(&format!("\n  {}", shown(&field.description)));
    }
    if let FieldKind::OneOf { choices } | FieldKind::SomeOf { choices, .. } = &field.kind {
        let choice =
            |(n, choice): (usize, &Choice)| format!("\n  {}. {}", n + 1, shown(&choice.label));
        line.extend(choices.iter().enumerate().map(choice));
    }
    line.push_str(if step.several {
        "\n  One or more numbers with commas between, your own words, or skip"
    } else if step.options > 0 {
        "\n  A number, your own words, or skip"
    } else {
        "\n  Your own words, or skip"
    });
    let now = shown(&entry.step_shown(step));
    if !now.is_empty() {
        line.push_str(&format!("\n  now: {now}"));
    }
    line
}
