//! Tool calls as values: what the core knows of a call of an answer.
//!
//! The core knows no tool. What a call is, from its name and arguments, says the one
//! [`Describe`] that a state is made with; the program's is `crate::tools::describe`.

use std::borrow::Cow;

use super::entry::CallId;
use super::permission::{Permission, served_parts};
use super::text;

/// How a call that was begun and has no result is settled after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Idempotent: no effect, or one that may be repeated. Run it again.
    Idempotent,
    /// A file replaced as a whole: its hash says whether it was done.
    Checked,
    /// A command under a keeper: ask the keeper.
    Supervised,
    /// A tool of a server under a keeper: its journal says whether the server had the call.
    Served,
    /// Nobody can know: tell the model that it was interrupted.
    Opaque,
}

/// At most this many calls of one answer are run; the rest are closed with an error.
pub const MAX_CALLS: u32 = 64;

/// The length of a tool's name that a person reads. Names that can be called have at most 64 letters.
const SHOWN_NAME_BYTES: usize = 100;

/// What the core needs to know of a call that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// How it is settled after a crash.
    pub class: Class,
    /// One line that names what the call is about: a path, a command, a pattern.
    pub subject: String,
    /// What the rules have to permit before it runs.
    pub permission: Permission,
    /// Why it is not run though it is understood, in words the model can act on.
    pub objection: Option<String>,
}

/// From the name and the arguments of a call to what it is, or to what is wrong with them, in
/// words the model can act on. The same for the same, always: the log is folded with it.
pub type Describe = fn(&str, &str) -> Result<Described, String>;

/// One call of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    /// As the model wrote it.
    pub name: String,
    /// As the model wrote them.
    pub arguments: String,
    /// What it is, or what is wrong with the arguments, told to the model.
    pub described: Result<Described, String>,
}

impl ToolCall {
    /// Makes a call from what the model wrote. `describe` says what it is.
    pub fn new(id: CallId, name: &str, arguments: &str, describe: Describe) -> ToolCall {
        ToolCall {
            id,
            name: name.to_string(),
            arguments: arguments.to_string(),
            described: describe(name, arguments),
        }
    }

    /// What it is about; of a call that is not understood, its arguments as they are.
    pub fn subject(&self) -> &str {
        match &self.described {
            Ok(described) => &described.subject,
            Err(_) => &self.arguments,
        }
    }

    /// The tool that is called: of a server's tool its full name, whatever it is called through.
    pub fn full_name(&self) -> &str {
        match &self.described {
            Ok(Described {
                permission: Permission::Foreign { name },
                ..
            }) => name,
            _ => &self.name,
        }
    }

    /// Whether it calls a tool of a server.
    pub fn is_served(&self) -> bool {
        self.class() == Some(Class::Served)
    }

    /// Returns the name that a person reads: of a tool of a server, the server and the tool. A model
    /// may invent a name of any length, so it is cut.
    pub fn shown_name(&self) -> Cow<'_, str> {
        let full_name = text::clip(self.full_name(), SHOWN_NAME_BYTES);
        match served_parts(&full_name).filter(|_| self.is_served()) {
            Some((server, tool)) => format!("{server} · {tool}").into(),
            None => full_name,
        }
    }

    /// Its name and what it is about, for a person: every line of a command, as one line.
    pub fn in_one_line(&self, max_chars: usize) -> String {
        text::in_one_line(
            &format!("{} {}", self.shown_name(), self.subject()),
            max_chars,
        )
    }

    /// Whether it gives a task to a sub-agent.
    pub fn is_task(&self) -> bool {
        matches!(&self.described, Ok(described) if described.permission == Permission::Task)
    }

    /// `None` when the call cannot be understood: it is closed, never run.
    pub fn class(&self) -> Option<Class> {
        self.described.as_ref().ok().map(|d| d.class)
    }
}
