//! Parts of the conversation in words.

use jiff::tz::TimeZone;

use crate::core::entry::Outcome;
use crate::core::text::{count, one_line};
use crate::core::to_person::result_to_person;
use crate::tools::ShownBody;
use crate::ui::text::with_hint;
use crate::ui::transcript::{Call, Kind, Status, Tone};

/// Maximum number of the last lines of a call's output.
const OUTPUT_LINES: usize = 12;
const NAME_CHARS: usize = 300;

/// Returns the speaker and the text. `None`: nothing is printed.
pub(super) fn text(kind: &Kind) -> Option<(&'static str, String)> {
    Some(match kind {
        Kind::Said { text, images: 0 } => ("You", text.clone()),
        Kind::Said { text, images } => ("You", format!("{text} [{}]", count(*images, "image"))),
        Kind::Noted { text } => ("Note", last_lines(text)),
        Kind::Marker { tone, text } | Kind::Notice { tone, text } => (of_tone(*tone), text.clone()),
        Kind::Failed { message, hint } => ("Error", with_hint(message, hint.as_ref())),
        Kind::TurnSummary(end) => ("Note", end.to_text(&TimeZone::system())),
        Kind::Words { .. } | Kind::Thinking { .. } | Kind::Call(_) => return None,
    })
}

fn of_tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Calm => "Note",
        Tone::Warn => "Warning",
        Tone::Bad => "Error",
    }
}

/// `bash cargo test`
pub(super) fn call_name(call: &Call) -> String {
    let background = match &call.shown.body {
        ShownBody::Command {
            background: true, ..
        } => ", in the background",
        _ => "",
    };
    let subject = one_line(call.subject(), NAME_CHARS);
    format!("{} {subject}{background}", call.call.shown_name())
}

pub(super) fn call_over(call: &Call) -> String {
    let Status::Over {
        outcome,
        took_ms,
        exit,
    } = &call.status
    else {
        return String::new();
    };
    let word = match outcome {
        Outcome::Done { .. } if call.is_in_background() => "In the background",
        Outcome::Done { .. } => "Done",
        Outcome::Error { .. } => "Failed",
        Outcome::Denied { .. } => "Denied",
        Outcome::Interrupted { .. } => "Interrupted",
    };
    let code = exit.code();
    let exit = code.map(|code| format!(", exit code {code}"));
    let took = took_ms
        .filter(|ms| *ms >= 1_000)
        .map(|ms| format!(", {} s", ms / 1_000));
    let head = format!(
        "{word}: {}{}{}",
        call_name(call),
        exit.unwrap_or_default(),
        took.unwrap_or_default()
    );
    // The heading shows these already, and the end of the turn shows who stopped it.
    let is_said =
        |line: &&str| !exit_line(line, code) && !line.starts_with("[interrupted: stopped");
    let output = result_to_person(outcome).0;
    let output: Vec<&str> = output.lines().filter(is_said).collect();
    let output = last_lines(&output.join("\n"));
    match output.is_empty() {
        true => head,
        false => format!("{head}\n{output}"),
    }
}

/// `[exit code 3]`
fn exit_line(line: &str, code: Option<i32>) -> bool {
    let said = line
        .strip_prefix("[exit code ")
        .and_then(|rest| rest.strip_suffix(']'));
    said.is_some_and(|said| code.is_some_and(|code| said == code.to_string()))
}

pub(super) fn call_running(call: &Call, now_ms: i64) -> Option<String> {
    let Status::Running { since_ms, .. } = &call.status else {
        return None;
    };
    let seconds = (now_ms - since_ms).max(0) / 1_000;
    Some(running(&call_name(call), seconds, &call.tail))
}

pub(super) fn running(name: &str, seconds: i64, tail: &str) -> String {
    let name = one_line(name, 100);
    let last = tail.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(last) => format!("Running for {seconds} s: {name}: {}", one_line(last, 200)),
        None => format!("Running for {seconds} s: {name}"),
    }
}

fn last_lines(text: &str) -> String {
    let text = text.trim_end();
    let lines: Vec<&str> = text.lines().collect();
    let before = lines.len().saturating_sub(OUTPUT_LINES);
    let shown = lines[before..].iter().map(|line| format!("  {line}"));
    let left_out = (before > 0).then(|| format!("  ({} before)", count(before, "line")));
    left_out
        .into_iter()
        .chain(shown)
        .collect::<Vec<_>>()
        .join("\n")
}
