//! Yes-or-no questions at a terminal.

use std::io::{BufRead, IsTerminal};

use crate::report::note;

/// Returns whether a person can see a question and answer it.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(super) fn is_yes(question: &str) -> bool {
    matches!(
        answer_to(&format!("{question} [y/N]")).as_str(),
        "y" | "yes"
    )
}

/// Returns the answer to a question, in lower case. Empty at the end of the input.
pub(super) fn answer_to(question: &str) -> String {
    note(question);
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(_) => answer.trim().to_lowercase(),
        Err(_) => String::new(),
    }
}
