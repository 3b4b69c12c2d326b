//! Texts of the log in the form that a person reads. Notes are written and stored for the model; a
//! person reads about themselves as "you".

use std::borrow::Cow;

use super::check;
use super::entry::{About, CheckEnding, Outcome};
use super::quoted::without_fences;
use super::visible::{visible, without_cosmetics};

/// Beginning of the note about a command of the user (`!`).
pub const RAN: &str = "the user ran a command: ";
/// The same for a command that had the terminal.
pub const RAN_ON_TERMINAL: &str = "the user ran a command on the terminal: ";
/// The same for a command that was recorded and not started.
pub const NOT_BEGUN: &str = "the user ran a command that was not begun: ";
/// Beginning of the note as the user reads it.
pub const YOU_RAN: &str = "you ran: ";
/// The consequence for such a command.
pub const TYPE_AGAIN: &str = "it is not run now; the user types it again if it is still wanted";

/// Advice to the model at the end of the reason why a call did not run.
pub const DO_WITHOUT: &str = "; do without it, or say what is needed";
/// The same in plan mode.
pub(crate) const FINISH_THE_PLAN: &str = "; finish the plan, and ask the user to leave plan mode";
/// The same for calls beyond the limit of one answer.
pub(crate) const SEND_THE_REST: &str = "; send the rest again";
/// The same for a call that the output limit cut.
pub(crate) const SEND_SMALLER: &str = "; send it again, in smaller pieces";
/// Beginning of the result of a call that did not run.
pub(crate) const NOT_RUN: &str = "not run: ";

/// Returns the result of a call as a person reads it, and whether it is an error. The advice to the
/// model is removed; the output of a tool is not changed.
pub fn result_to_person(outcome: &Outcome) -> (String, bool) {
    let (text, is_error) = outcome.to_model_text();
    let is_reason = match outcome {
        Outcome::Denied { .. } => true,
        Outcome::Error { output } => output.text.starts_with(NOT_RUN),
        Outcome::Done { .. } | Outcome::Interrupted { .. } => false,
    };
    if is_reason {
        (without_advice(&text), is_error)
    } else {
        (text, is_error)
    }
}

/// Returns a reason without the advice to the model.
pub fn without_advice(reason: &str) -> String {
    let advice = [DO_WITHOUT, FINISH_THE_PLAN, SEND_THE_REST, SEND_SMALLER];
    advice
        .iter()
        .fold(reason.to_string(), |text, advice| text.replace(advice, ""))
}

/// Returns a note as the screen, `show` and `export` display it. Fences around output, which are
/// for the model, are removed. Other notes stay as they were recorded.
pub fn to_person<'a>(note: &'a str, about: Option<&About>) -> Cow<'a, str> {
    match about {
        Some(About::UserCommandEnded { .. }) => {
            let note = without_fences(note);
            let note = visible(&without_cosmetics(&note)).into_owned();
            of_command(&note).into_owned().into()
        }
        Some(About::BackgroundEnded { .. }) => without_fences(note),
        Some(about @ About::CheckEnded { ending, .. })
            if note.is_empty() || !matches!(ending, CheckEnding::Exited { .. }) =>
        {
            check::line(about).unwrap_or_default().into()
        }
        Some(About::CheckEnded { .. }) => without_fences(note),
        Some(About::Mode { .. }) => note
            .lines()
            .next()
            .unwrap_or_default()
            .replace(
                "the user can be asked now",
                "the model can ask you questions again",
            )
            .replace("the user cannot be asked", "the model cannot ask you")
            .into(),
        _ => note.into(),
    }
}

fn of_command(note: &str) -> Cow<'_, str> {
    let begins = [
        (RAN, YOU_RAN),
        (RAN_ON_TERMINAL, "you ran on the terminal: "),
        (NOT_BEGUN, "not run: "),
    ];
    let rest = |(begin, yours): (&str, &str)| Some(format!("{yours}{}", note.strip_prefix(begin)?));
    let Some(text) = begins.into_iter().find_map(rest) else {
        return note.into();
    };
    match text.strip_suffix(TYPE_AGAIN) {
        Some(text) => format!("{text}it was not begun; type it again if you still want it").into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::Mode;

    #[test]
    fn a_person_reads_of_their_own_command_as_theirs() {
        let ended = About::UserCommandEnded {
            entry: 3,
            exit_code: Some(0),
        };
        let read = |note: &str| to_person(note, Some(&ended)).into_owned();
        assert_eq!(
            read("the user ran a command: ls\n```\n\u{1b}[31ma.rs\u{1b}[0m\n```"),
            "you ran: ls\na.rs"
        );
        assert_eq!(
            read(&format!("{RAN_ON_TERMINAL}vim\nexit code 0")),
            "you ran on the terminal: vim\nexit code 0"
        );
        assert_eq!(
            read(&format!("{NOT_BEGUN}make\n{TYPE_AGAIN}")),
            "not run: make\nit was not begun; type it again if you still want it"
        );
        // The output of a command is not a note of rewake.
        assert_eq!(
            to_person("the user ran a command: ls", None),
            "the user ran a command: ls"
        );
    }

    #[test]
    fn advice_to_the_model_is_not_shown_and_what_a_tool_found_is_unchanged() {
        let denied = Outcome::Denied {
            reason: format!("it writes, and nobody is there to be asked{DO_WITHOUT}"),
        };
        let (text, is_error) = result_to_person(&denied);
        assert_eq!(text, "denied: it writes, and nobody is there to be asked");
        assert!(is_error);
        let cut = Outcome::error(format!("{NOT_RUN}the answer was cut{SEND_SMALLER}"));
        assert_eq!(result_to_person(&cut).0, "not run: the answer was cut");
        let found = format!("a.rs:1: x{SEND_THE_REST}");
        for outcome in [Outcome::done(&*found), Outcome::error(&*found)] {
            assert_eq!(result_to_person(&outcome).0, found);
        }
    }

    #[test]
    fn a_person_reads_that_they_can_be_asked() {
        let mode = About::Mode {
            mode: Mode::Default,
            is_attended: true,
        };
        let read = |note| to_person(note, Some(&mode)).into_owned();
        assert_eq!(
            read("the mode is plan now; the user can be asked now"),
            "the mode is plan now; the model can ask you questions again"
        );
        // The rest is for the model.
        assert_eq!(
            read("the mode is plan now\nedits: are denied in plan mode."),
            "the mode is plan now"
        );
        assert_eq!(
            read("the user cannot be asked now: what would be asked is denied"),
            "the model cannot ask you now: what would be asked is denied"
        );
    }
}
