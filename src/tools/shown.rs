//! How a call is shown to a person, besides its name and what it is about. Plain data: the
//! screen draws it.

use super::replace::Replacement;
use crate::core::entry::Plan;

/// A call that is not understood is shown as the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    pub verb: Verb,
    pub body: Body,
    pub result: ShownResult,
    /// It changes nothing, whatever the verb is: a command that only looks.
    pub only_looks: bool,
}

/// What the call does, in the words of a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verb {
    /// Nothing is known of it but its name.
    #[default]
    Call,
    /// It changes nothing, and what it finds is for the model.
    Look,
    Run,
    Edit,
    Write,
    Plan,
    Remember,
    Stop,
    /// Gives a task to a sub-agent.
    Task,
}

impl Verb {
    /// Before it is done: `run`.
    pub fn to_do(self) -> &'static str {
        match self {
            Verb::Call => "call",
            Verb::Look => "read",
            Verb::Run => "run",
            Verb::Edit => "edit",
            Verb::Write => "write",
            Verb::Plan => "plan",
            Verb::Remember => "remember",
            Verb::Stop => "stop",
            Verb::Task => "give a task",
        }
    }

    /// While it is done: `running`.
    pub fn doing(self) -> &'static str {
        match self {
            Verb::Call => "calling",
            Verb::Look => "reading",
            Verb::Run => "running",
            Verb::Edit => "editing",
            Verb::Write => "writing",
            Verb::Plan => "planning",
            Verb::Remember => "keeping",
            Verb::Stop => "stopping",
            Verb::Task => "task at work",
        }
    }

    /// When it was done: `ran`.
    pub fn done(self) -> &'static str {
        match self {
            Verb::Call => "called",
            Verb::Look => "read",
            Verb::Run => "ran",
            Verb::Edit => "edited",
            Verb::Write => "wrote",
            Verb::Plan => "planned",
            Verb::Remember => "remembered",
            Verb::Stop => "stopped",
            Verb::Task => "task",
        }
    }
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
    /// A call of a server's tool.
    Served {
        /// Its full name.
        name: String,
        /// All that it is given, as JSON over lines.
        arguments: String,
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
    /// How many places a search found: see [`super::hits`].
    HitCount,
    /// Nothing, unless it is an error: the body says it.
    InTheBody,
}
