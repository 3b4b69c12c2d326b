//! Open questions in words: their full text, and the lines that answer them.

use ratatui::text::Line;

use super::Printer;
use crate::core::access::Access;
use crate::core::rule::RuleScope;
use crate::core::text::count;
use crate::core::tool::ToolCall;
use crate::core::visible::{command, visible};
use crate::session::{Offer, ago};
use crate::tools::{self, Shown, ShownBody};
use crate::ui::app::{App, Overlay};
use crate::ui::changes::{FileChange, Side};
use crate::ui::commands::COMMANDS;
use crate::ui::overlay::{Approval, Card, Extent, FirstRun, Picker, SetupRow, WHAT_IT_IS};
use crate::ui::theme::Theme;
use crate::ui::transcript::change_lines;

/// Columns of a diff: a terminal wraps it where it likes.
const COLUMNS: u16 = 400;
/// Maximum number of lines of a shown text.
const MAX_LINES: usize = 500;

impl Printer {
    /// Prints the open question when it is a new one.
    pub(super) fn asks(&mut self, app: &mut App) {
        self.echo(!matches!(app.prompts.overlay, Overlay::Key(_)));
        if app.prompts.help.take().is_some() {
            self.help();
        }
        if let Overlay::Viewer(viewer) = &app.prompts.overlay {
            let title = viewer.title.clone();
            let lines: Vec<String> = viewer.lines.iter().take(MAX_LINES).map(plain).collect();
            let is_of_run = viewer.run.is_some() && lines.is_empty();
            if is_of_run {
                // The output arrives in a moment.
                return;
            }
            app.prompts.overlay = Overlay::None;
            self.line(&format!("{title}:"));
            self.line(&lines.join("\n"));
        }
        if let Overlay::Review(review) = &app.prompts.overlay {
            let mut lines = changes(&review.files);
            let more = lines.len().saturating_sub(MAX_LINES);
            lines.truncate(MAX_LINES);
            if more > 0 {
                lines.push(format!("{} more", count(more as u64, "line")));
            }
            app.prompts.overlay = Overlay::None;
            self.line(&lines.join("\n"));
        }
        if matches!(app.prompts.overlay, Overlay::Rewind(_)) {
            app.prompts.overlay = Overlay::None;
            app.hint = Some(
                "files can be rewound on the screen, or with rewake rewind ID ENTRY --files".into(),
            );
        }
        if matches!(
            app.prompts.overlay,
            Overlay::History(_) | Overlay::Search { .. }
        ) {
            app.prompts.overlay = Overlay::None;
            app.hint = Some(
                "that works only on the screen; /resume lists the sessions of this folder".into(),
            );
        }
        let text = overlay(&app.prompts.overlay);
        let overlay = match &app.prompts.overlay {
            // The ages of the offers change, which is not a new question.
            Overlay::Card(card) => Some(offered(card)),
            _ => text.clone(),
        };
        // All of it is printed.
        app.prompts.page.end_seen |= matches!(
            app.prompts.overlay,
            Overlay::Trust(_) | Overlay::Confirm { .. }
        );
        if overlay != self.overlay {
            if let Some(text) = text {
                self.line(&text);
            }
            self.overlay = overlay;
        }
        self.offer_details(&app.prompts.overlay);
        let is_under = !app.prompts.is_clear();
        if !is_under {
            self.form(app);
        }
        let Some(asked) = app.prompts.questions.asked.as_mut().filter(|_| !is_under) else {
            if app.prompts.questions.asked.is_none() {
                self.asked = None;
            }
            return;
        };
        // All of it is printed.
        asked.extent = Extent { rows: 1, lines: 1 };
        if self.asked != Some(asked.number) {
            self.asked = Some(asked.number);
            let text = question(asked, &app.look.theme);
            self.line(&text);
        }
    }

    fn help(&mut self) {
        self.line("keys and commands:");
        self.line(
            "Type a line to send it; while it works, the line is queued. !COMMAND runs a shell command.",
        );
        self.line("A backslash at the end of a line continues the message in the next line.");
        self.line("Ctrl+C stops the work; twice, or Ctrl+D, quits.");
        for entry in COMMANDS {
            let gap = if entry.argument.is_empty() { "" } else { " " };
            self.line(&format!(
                "/{}{gap}{}: {}",
                entry.name, entry.argument, entry.help
            ));
        }
    }

    /// Prints details from the logs of the offers, which arrive after the offers.
    fn offer_details(&mut self, overlay: &Overlay) {
        let Overlay::Card(card) = overlay else {
            self.details.clear();
            return;
        };
        for (place, offer) in card.offers.iter().enumerate() {
            let Some(details) = details(offer) else {
                continue;
            };
            if !self.details.contains(&offer.info.id) {
                self.line(&format!("Offer {}: {details}", place + 1));
                self.details.push(offer.info.id.clone());
            }
        }
    }
}

fn plain(line: &Line<'_>) -> String {
    let text: String = line
        .spans
        .iter()
        .map(|span| span.content.as_ref())
        .collect();
    text.trim_end().to_string()
}

/// Returns the changes since the last commit, file by file.
fn changes(files: &[FileChange]) -> Vec<String> {
    let mut lines = vec![format!(
        "{} changed since the last commit:",
        count(files.len() as u64, "file")
    )];
    for file in files {
        let notes: String = file.notes.iter().map(|note| format!(", {note}")).collect();
        lines.push(format!(
            "File {}: {} added, {} removed{notes}",
            visible(&file.path),
            count(file.added as u64, "line"),
            count(file.removed as u64, "line")
        ));
        lines.extend(file.lines.iter().map(|line| {
            let mark = match line.side {
                Side::Hunk | Side::Same => ' ',
                Side::Added => '+',
                Side::Removed => '-',
            };
            format!("  {mark} {}", visible(&line.text))
        }));
    }
    lines
}

fn question(asked: &Approval, theme: &Theme) -> String {
    let (place, of) = asked.place;
    let place = match of {
        0 | 1 => String::new(),
        of => format!(" {place} of {of}"),
    };
    let (what, about) = in_words(&asked.call, &asked.shown, theme);
    let without = match asked.access.map(|told| told.access) {
        Some(Access::Full) => " without the sandbox",
        _ => "",
    };
    let mut lines = vec![format!("Question{place}: {what}{without}")];
    lines.extend(about.iter().map(|line| format!("  {line}")));
    lines.push(format!("Why it asks: {}", asked.why));
    match asked.access {
        Some(told) if told.access == Access::Full => lines.push(told.long.to_string()),
        Some(told) => lines.push(format!("Access {}: {}", told.access, told.long)),
        None => {}
    }
    let mut answers = vec!["y yes, this once".to_string()];
    if let Some(rule) = asked.rule_in_words() {
        for (letter, scope) in [
            ("s", RuleScope::Session),
            ("a", RuleScope::Project),
            ("e", RuleScope::Everywhere),
        ] {
            let words = match scope {
                RuleScope::Session => "for this session",
                RuleScope::Project => "always in this project",
                RuleScope::Everywhere => "always, everywhere",
            };
            answers.push(format!("{letter} yes, and {rule} {words}"));
        }
    }
    if asked.server_rule.is_some() {
        answers.push("t yes, and all tools of this server for this session".to_string());
    }
    answers.push("n no; a reason may follow".to_string());
    lines.push(format!("Answer with a line: {}", answers.join("; ")));
    lines.push(
        "Ctrl+C stops the turn, and nothing of this runs. Any other line is queued as a message."
            .to_string(),
    );
    lines.join("\n")
}

/// Describes a call in full: its action, and the whole command or the whole change.
fn in_words(call: &ToolCall, shown: &Shown, theme: &Theme) -> (String, Vec<String>) {
    let (what, about) = match &shown.body {
        ShownBody::Command {
            line,
            background: true,
        } => ("runs a command in the background", command(line)),
        ShownBody::Command { line, .. } => ("runs a command", command(line)),
        ShownBody::Edits { .. } | ShownBody::File { .. } => ("changes a file", String::new()),
        ShownBody::Served { arguments, .. } => ("is called", command(arguments)),
        ShownBody::Subject | ShownBody::Plan(_) => {
            ("is called", visible(call.subject()).into_owned())
        }
    };
    let mut lines: Vec<String> = about.lines().map(str::to_string).collect();
    let changes = change_lines(shown, COLUMNS, theme);
    lines.extend(changes.iter().map(plain));
    (format!("{} {what}", visible(&call.shown_name())), lines)
}

/// Describes a call for a person without a screen.
pub fn call_in_words(call: &ToolCall) -> Vec<String> {
    let (what, about) = in_words(call, &tools::shown(call), &Theme::plain());
    let about = about.into_iter().map(|line| format!("  {line}"));
    std::iter::once(what).chain(about).collect()
}

fn overlay(overlay: &Overlay) -> Option<String> {
    match overlay {
        Overlay::Card(card) => Some(card_text(&card.offers)),
        Overlay::FirstRun(first) => Some(first_run(first)),
        Overlay::Picker(picker) => Some(picker_text(picker)),
        Overlay::Key(entry) => Some(format!(
            "Question: type or paste the key for {0} and press Enter. It is not shown, is kept in a file \
             that you alone can read, and is sent to {0} and nowhere else. An empty line goes back.",
            entry.provider
        )),
        Overlay::Trust(project) => {
            let mut lines = vec![
                "Question: do you trust this folder? Its own config may choose models, servers, rules \
                 and commands:"
                    .to_string(),
            ];
            lines.push(about(&project.content.lines(usize::MAX)));
            lines.extend(project.sandbox_line());
            lines.push("Answer with a line: y trusts what it says now; n does not use it".into());
            Some(lines.join("\n"))
        }
        Overlay::Confirm {
            question,
            about: said,
            ..
        } => {
            let mut lines = vec![format!("Question: {}", visible(question))];
            if !said.is_empty() {
                lines.push(about(said));
            }
            lines.push("Answer with a line: y continues; n does not".into());
            Some(lines.join("\n"))
        }
        Overlay::None
        | Overlay::Viewer(_)
        | Overlay::Review(_)
        | Overlay::Rewind(_)
        | Overlay::History(_)
        | Overlay::Search { .. } => None,
    }
}

/// Returns the details of a question in full. Invisible characters are marks, and long runs of
/// blanks are counts.
fn about(said: &[String]) -> String {
    let said = command(&said.join("\n"));
    let lines: Vec<String> = said.split('\n').map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Identifies the offered sessions, and those that another process has.
fn offered(card: &Card) -> String {
    let offers = card
        .offers
        .iter()
        .map(|offer| format!("{} {:?}", offer.info.id, offer.held_by));
    offers.collect::<Vec<_>>().join("\n")
}

fn card_text(offers: &[Offer]) -> String {
    let mut lines = vec![
        "Question: unfinished sessions in this folder. Which one do you want to resume?"
            .to_string(),
    ];
    for (place, offer) in offers.iter().enumerate() {
        let title = crate::core::text::session_name(offer.info.title.as_deref());
        let title = crate::core::marks::title_line(title, 200);
        let age = ago(crate::session::now_ms() - offer.info.updated_ms);
        let held = match offer.held_by {
            Some(pid) => {
                let n = place + 1;
                format!(", open in process {pid}: w{n} watches it, t{n} takes it over")
            }
            None => String::new(),
        };
        lines.push(format!("  {}. {title} ({age} ago{held})", place + 1));
    }
    lines.push(
        "Answer with a line: a number resumes that session, f1 continues in a fork of it, x1 dismisses \
         it (it is not offered again), n starts a new session, q quits; an empty line resumes the first. \
         Anything longer is a message: it is kept, and sent to the session that you choose"
            .to_string(),
    );
    lines.join("\n")
}

fn details(offer: &Offer) -> Option<String> {
    let details = offer.details.as_ref()?;
    let mut parts = vec![match &details.failure {
        Some(failure) => format!("{}: {failure}", details.how),
        None => details.how.clone(),
    }];
    parts.extend(
        details
            .doing
            .iter()
            .map(|doing| format!("it stopped while {doing}")),
    );
    parts.extend(details.plan_step.iter().map(|step| format!("plan: {step}")));
    parts.extend(details.typed.iter().map(|typed| format!("typed: {typed}")));
    for run in &details.running {
        let last = run.last_line.as_deref().unwrap_or("no output yet");
        parts.push(format!("still runs: {}: {last}", run.command));
    }
    parts.extend(
        details
            .recovered
            .iter()
            .map(|words| format!("kept: {words}")),
    );
    parts.extend(details.in_doubt.iter().cloned());
    let parts = parts
        .iter()
        .map(|part| crate::core::text::one_line(part, 300));
    Some(parts.collect::<Vec<_>>().join("; "))
}

fn first_run(first: &FirstRun) -> String {
    let why = match first.why.as_str() {
        "" => WHAT_IT_IS,
        why => why,
    };
    let mut lines = vec![
        "Question: rewake has no model yet. Which one do you want to use?".to_string(),
        format!("  {why}"),
    ];
    for (place, row) in first.rows().iter().enumerate() {
        let text = match row {
            SetupRow::Model(model) => format!("use {model}"),
            SetupRow::Key(provider, _) => {
                format!("type a key for {}, {}", provider.name, provider.found)
            }
            SetupRow::Demo => "see the demo: no key, no network".to_string(),
        };
        lines.push(format!("  {}. {text}", place + 1));
    }
    lines.push("Answer with a number, or q to quit".to_string());
    lines.join("\n")
}

fn picker_text(picker: &Picker) -> String {
    let mut lines = vec![format!("Question: {}", picker.title)];
    lines.extend(picker.note.iter().map(|note| format!("  {note}")));
    for (place, item) in picker.items.iter().enumerate().take(MAX_LINES) {
        lines.push(
            format!("  {}. {}  {}", place + 1, item.label, item.detail)
                .trim_end()
                .to_string(),
        );
    }
    let free = match picker.free {
        true => ", or type its name",
        false => "",
    };
    lines.push(format!(
        "Answer with a number{free}; an empty line chooses nothing"
    ));
    lines.join("\n")
}
