//! Yes-or-no questions at a terminal.

use std::io::{BufRead, IsTerminal};

use crate::report::note;

/// Returns whether a person can see a question and answer it.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(super) fn is_yes(question: &str) -> bool {
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
