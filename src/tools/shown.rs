//! How a call is shown to a person, besides its name and what it is about. Plain data: the
//! screen draws it.

use super::replace::Replacement;
use crate::core::entry::Plan;

/// A call that is not understood is shown as the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    pub body: Body,
    pub result: ShownResult,
}

/// What the call is made of, where that is more than its subject.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Body {
    #[default]
    Subject,
    Plan(Plan),
    Command {
        line: String,
        background: bool,
    },
    /// A diff of each edit.
    Edits {
        path: String,
        edits: Vec<Replacement>,
    },
    /// A file with this content.
    File {
        path: String,
        content: String,
    },
}

/// What is shown of a result that is folded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShownResult {
    /// Its last lines.
    #[default]
    LastLines,
    /// Its last lines as a command printed them, with colours.
    Printed,
    /// How many lines it has.
    LineCount,
    /// Nothing, unless it is an error: the body says it.
    InTheBody,
}
