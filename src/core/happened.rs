//! The outcome of a call in one line, for freed results, digests and notes. The arguments of the
//! call are left out.

use std::collections::BTreeMap;

use super::entry::{Block, CallId, Entry, Fact, Outcome, Record};
use super::permission::Permission;
use super::plain_text::plain_text;
use super::text::one_line;
use super::tool::{Describe, Described, ToolCall};

const SUBJECT_CHARS: usize = 100;

/// Returns the calls of all answers among these records.
pub(crate) fn calls(records: &[Record], describe: Describe) -> BTreeMap<CallId, ToolCall> {
    let mut calls = BTreeMap::new();
    for record in records {
        let Entry::Replied { blocks, .. } = &record.entry else {
            continue;
        };
        for (id, name, arguments) in Block::calls(record.seq, blocks) {
            calls.insert(id, ToolCall::new(id, name, arguments, describe));
        }
    }
    calls
}

/// Describes a call: the subject, how it ended, and the most informative line of its output.
pub(crate) fn line(
    call: Option<&ToolCall>,
    outcome: &Outcome,
    fact: Option<&Fact>,
    max_chars: usize,
) -> String {
    let name = call.map_or_else(|| "a call".to_string(), name);
    let came = match (outcome, fact) {
        (Outcome::Done { output }, Some(Fact::Ran { exit_code, .. })) => {
            let text = plain_text(&output.text);
            let said = most_telling_line(&text, *exit_code != Some(0));
            format!("{}{}", ended(&name, *exit_code), quoted(said))
        }
        // The result of a change says which file was changed, and what of it.
        (Outcome::Done { output }, Some(Fact::Wrote { .. })) => {
            return one_line(&output.text, max_chars);
        }
        (Outcome::Done { output }, _) => format!("{} bytes", output.text.len()),
        (other, _) => {
            let (text, _) = other.to_model_text();
            let text = plain_text(&text);
            format!("failed: {}", most_telling_line(&text, true).unwrap_or(""))
        }
    };
    // The outcome says more than the end of a long command.
    let room = max_chars.saturating_sub(came.chars().count() + 2);
    let name = one_line(&name, room.max(max_chars / 2));
    one_line(&format!("{name}: {came}"), max_chars)
}

/// Returns the command itself, else tool and subject.
pub(crate) fn name(call: &ToolCall) -> String {
    match &call.described {
        Ok(Described {
            permission: Permission::Command { line, .. },
            ..
        }) => one_line(line, SUBJECT_CHARS),
        Ok(described) => one_line(
            &format!("{} {}", call.full_name(), described.subject),
            SUBJECT_CHARS,
        ),
        Err(_) => one_line(&call.name, SUBJECT_CHARS),
    }
}

/// Describes how a command ended. The exit code of a pipe is that of its last part alone.
pub(crate) fn ended(line: &str, exit_code: Option<i32>) -> String {
    let is_pipe = line.replace("||", "").contains('|');
    match exit_code {
        Some(0) if is_pipe => "exit 0 of the last part".to_string(),
        Some(code) => format!("exit {code}"),
        None => "ended without an exit code".to_string(),
    }
}

fn quoted(said: Option<&str>) -> String {
    said.map_or(String::new(), |said| format!(", \"{}\"", said.trim()))
}

/// Returns the first line about an error if the call failed, else the last line with text. Lines in
/// brackets come from rewake and are skipped if there are others.
pub fn most_telling_line(text: &str, failed: bool) -> Option<&str> {
    const SIGNS: [&str; 6] = [
        "error",
        "failed",
        "panicked",
        "exception",
        "fatal",
        "not found",
    ];
    let is_own = |line: &str| line.starts_with('[') && line.ends_with(']');
    let lines = || text.lines().map(str::trim).filter(|l| !l.is_empty());
    let said = || lines().filter(|l| !is_own(l));
    let speaks_of_error = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        SIGNS.iter().any(|sign| lower.contains(sign))
    };
    let error = failed.then(|| said().find(speaks_of_error)).flatten();
    error
        .or_else(|| said().next_back())
        .or_else(|| lines().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tool::Class;

    fn command(line: &str) -> ToolCall {
        let id = CallId { reply: 1, index: 0 };
        let mut call = ToolCall::new(id, "bash", "{}", |_, _| Err(String::new()));
        call.described = Ok(Described {
            class: Class::Supervised,
            subject: line.into(),
            permission: Permission::Command {
                line: line.into(),
                access: None,
                background: false,
            },
            objection: None,
            arguments: Default::default(),
        });
        call
    }

    #[test]
    fn a_command_says_how_it_ended_and_what_it_printed_last() {
        let ran = |code| {
            Some(Fact::Ran {
                exit_code: code,
                took_ms: 1,
                refused: false,
            })
        };
        let said = |line: &str, text: &str, code| {
            let call = command(line);
            super::line(Some(&call), &Outcome::done(text), ran(code).as_ref(), 200)
        };
        assert_eq!(
            said("python -m unittest", "..\n\nOK\n[exit code 0]\n", Some(0)),
            "python -m unittest: exit 0, \"OK\""
        );
        assert_eq!(
            said("cargo t", "a\nerror[E1]: no\nb\n", Some(101)),
            "cargo t: exit 101, \"error[E1]: no\""
        );
        assert_eq!(
            said("cargo t | tail", "1 failed", Some(0)),
            "cargo t | tail: exit 0 of the last part, \"1 failed\""
        );
        assert_eq!(said("true", "", None), "true: ended without an exit code");
    }

    #[test]
    fn a_long_command_is_shortened_and_its_result_is_kept() {
        let ran = Fact::Ran {
            exit_code: Some(3),
            took_ms: 1,
            refused: false,
        };
        let call = command(&format!("make {}", "target ".repeat(20)));
        let outcome = Outcome::done(format!("error: {}", "no rule ".repeat(20)));
        let line = super::line(Some(&call), &outcome, Some(&ran), 90);
        assert!(line.starts_with("make target target"), "{line}");
        assert!(line.contains("…: exit 3, \"error: no rule"), "{line}");
        assert!(line.chars().count() <= 90, "{line}");
    }
}
