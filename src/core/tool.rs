//! Tool calls as values, with what the core knows of each call.
//!
//! The core knows no tool. The [`Describe`] of a state derives a call's meaning from its name and
//! arguments; the program's is `crate::tools::describe`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::entry::CallId;
use super::permission::{Permission, served_parts};
use super::text;

/// How a started call without a result is settled after a crash.
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
    /// A question to the person: use the recorded answer, or show the question again.
    Asked,
}

/// At most this many calls of one answer are run; the rest are closed with an error.
pub const MAX_CALLS: u32 = 64;

/// Maximum length in bytes of a tool's name that a person reads. Names that can be called have at
/// most 64 letters.
const SHOWN_NAME_BYTES: usize = 100;

/// The description of a call that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// How it is settled after a crash.
    pub class: Class,
    /// One line that names what the call is about: a path, a command, a pattern.
    pub subject: String,
    /// The permission that the rules must grant before it runs.
    pub permission: Permission,
    /// Why it does not run although it is understood, in words the model can act on.
    pub objection: Option<String>,
    /// The arguments, parsed: an object, under the tool's own names.
    pub arguments: Arc<Value>,
}

/// A function from the name and the arguments of a call to its description, or to an error in words
/// the model can act on. It must always return the same for the same call, because the log is
/// folded with it.
pub type Describe = fn(&str, &str) -> Result<Described, String>;

/// One call of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    /// As the model wrote it.
    pub name: String,
    /// As the model wrote them.
    pub arguments: String,
    /// The description, or an error about the arguments for the model.
    pub described: Result<Described, String>,
}

impl ToolCall {
    /// Makes a call from the model's text. `describe` derives its description.
    pub fn new(id: CallId, name: &str, arguments: &str, describe: Describe) -> ToolCall {
        ToolCall {
            id,
            name: name.to_string(),
            arguments: arguments.to_string(),
            described: describe(name, arguments),
        }
    }

    /// Returns the subject of the call, or the raw arguments if the call is not understood.
    pub fn subject(&self) -> &str {
        match &self.described {
            Ok(described) => &described.subject,
            Err(_) => &self.arguments,
        }
    }

    /// Returns the name of the tool. For a server's tool it is the full name, whichever tool calls
    /// it.
    pub fn full_name(&self) -> &str {
        match &self.described {
            Ok(Described {
                permission: Permission::Foreign { name },
                ..
            }) => name,
            _ => &self.name,
        }
    }

    /// Returns whether it calls a tool of a server.
    pub fn is_served(&self) -> bool {
        self.class() == Some(Class::Served)
    }

    /// Returns the name that a person reads; for a server's tool, the server and the tool. A model
    /// may invent a name of any length, so it is cut.
    pub fn shown_name(&self) -> Cow<'_, str> {
        let full_name = text::clip(self.full_name(), SHOWN_NAME_BYTES);
        match served_parts(&full_name).filter(|_| self.is_served()) {
            Some((server, tool)) => format!("{server} · {tool}").into(),
            None => full_name,
        }
    }

    /// Returns its name and subject for a person: every line of a command, joined to one line.
    pub fn in_one_line(&self, max_chars: usize) -> String {
        text::in_one_line(
            &format!("{} {}", self.shown_name(), self.subject()),
            max_chars,
        )
    }

    /// Returns whether it gives a task to a subagent.
    pub fn is_task(&self) -> bool {
        matches!(&self.described, Ok(described) if described.permission == Permission::Task)
    }

    /// Returns whether it waits for background work.
    pub fn is_wait(&self) -> bool {
        matches!(&self.described, Ok(described) if described.permission == Permission::Wait)
    }

    /// Returns whether it needs a permission to read: files, or records of sessions.
    pub fn reads_outside(&self) -> bool {
        matches!(&self.described, Ok(described) if !matches!(described.permission, Permission::None | Permission::Wait))
    }

    /// Returns whether it is a command that does not need the `$TMPDIR` of the session's other
    /// commands: it runs in the foreground, and its text does not name the folder.
    pub fn may_have_private_tmp(&self) -> bool {
        match &self.described {
            Ok(Described {
                permission:
                    Permission::Command {
                        line,
                        background: false,
                        ..
                    },
                ..
            }) => !line.contains("TMP") && !line.contains("TEMP"),
            _ => false,
        }
    }

    /// Returns the effect class. `None`: the call cannot be understood, and is closed without
    /// running.
    pub fn class(&self) -> Option<Class> {
        self.described.as_ref().ok().map(|d| d.class)
    }
}
