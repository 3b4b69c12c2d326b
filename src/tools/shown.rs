//! The display of a call for a person, besides its name and subject. Plain data, which the screen
//! draws.

use super::line_ends::as_written;
use super::replace::{Replacement, edited_text};
use crate::core::entry::Plan;

/// The display of a call. The default is for a call that cannot be parsed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    pub verb: Verb,
    pub body: ShownBody,
    pub result: ShownResult,
    /// Whether the call changes nothing, for any verb, such as a command that only reads.
    pub only_looks: bool,
}

/// The action of a call, in words for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verb {
    /// Only the name of the call is known.
    #[default]
    Call,
    /// The call changes nothing, and its result is for the model.
    Look,
    Run,
    Edit,
    Write,
    Plan,
    Remember,
    Stop,
    /// Asks the person.
    Ask,
    Wait,
    /// Gives a task to a subagent.
    Task,
}

impl Verb {
    /// Returns the words for a call that has not started, that runs, and that ended.
    fn words(self) -> [&'static str; 3] {
        match self {
            Verb::Call => ["call", "calling", "called"],
            Verb::Look => ["read", "reading", "read"],
            Verb::Run => ["run", "running", "ran"],
            Verb::Edit => ["edit", "editing", "edited"],
            Verb::Write => ["write", "writing", "wrote"],
            Verb::Plan => ["plan", "planning", "planned"],
            Verb::Remember => ["remember", "keeping", "remembered"],
            Verb::Stop => ["stop", "stopping", "stopped"],
            Verb::Ask => ["ask", "asking", "asked"],
            Verb::Wait => ["wait for", "waiting for", "waited for"],
            Verb::Task => ["give a task", "task at work", "task"],
        }
    }

    /// Returns the word for a call that has not started: `run`.
    pub fn to_do(self) -> &'static str {
        self.words()[0]
    }

    /// Returns the word for a call that runs: `running`.
    pub fn doing(self) -> &'static str {
        self.words()[1]
    }

    /// Returns the word for a call that ended: `ran`.
    pub fn done(self) -> &'static str {
        self.words()[2]
    }
}

/// The content of a call, where that is more than its subject.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ShownBody {
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
        /// Its arguments, as JSON over several lines.
        arguments: String,
    },
    /// A file with this content.
    File {
        path: String,
        content: String,
    },
}

impl ShownBody {
    /// Returns the text of a file after the call, if it is `before` now. `None`: the call writes none,
    /// or its edits do not match.
    pub fn text_after(&self, before: &str) -> Option<String> {
        match self {
            ShownBody::Edits { edits, .. } => edited_text(edits, before),
            ShownBody::File { content, .. } => Some(as_written(before, content)),
            ShownBody::Subject
            | ShownBody::Plan(_)
            | ShownBody::Command { .. }
            | ShownBody::Served { .. } => None,
        }
    }
}

/// The part of a collapsed result that is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShownResult {
    /// Its last lines.
    #[default]
    LastLines,
    /// Its last lines as a command printed them, with colours.
    Printed,
    /// The number of its lines.
    LineCount,
    /// The number of places that a search found: see [`super::hits`].
    HitCount,
    /// Only an error: the body shows a success.
    InTheBody,
}
