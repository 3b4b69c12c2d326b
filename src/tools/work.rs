//! The work of a call, which the world does.
//!
//! Invariant: the way in which a call runs is its effect class, so the two cannot disagree.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use super::checked::FileChange;
use super::history_view::LookBack;
use super::{ToolContext, ToolResult};
use crate::command::Runs;
use crate::core::form::ServerQuestion;
use crate::core::tool::Class;

/// A function that reads files or data in memory.
pub type ReadWork = Box<dyn FnOnce(&ToolContext, &AtomicBool) -> ToolResult + Send>;
pub(super) type ActOnCommands = Box<dyn FnOnce(&Runs, &str) -> ToolResult + Send>;

/// The work of a call. Its variant decides the effect class.
pub enum Work {
    /// Reads files or data in memory, and returns soon after the flag is set.
    Look(ReadWork),
    /// Searches the tools of servers. Waits for servers whose tools are not known yet.
    FindServed(ReadWork),
    /// Reads the store.
    LookBack(LookBack),
    /// Acts on the background commands of the session, which is given by its ID. The action may be
    /// repeated.
    Commands(ActOnCommands),
    /// Fetches the page of this address.
    Fetch(String),
    /// Searches the web.
    Search(String),
    /// Waits for background commands and tasks of the session.
    WaitCommands(CommandWait),
    /// Replaces one file as a whole.
    Replace(FileChange),
    /// Runs a command under a keeper.
    Run(ShellCommand),
    /// Gives a task to a subagent.
    Task(TaskOrder),
    /// Calls a tool of a server.
    Served(ServedCall),
    /// Asks the person.
    Ask(Box<ServerQuestion>),
}

/// A call of a tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedCall {
    /// Its full name, `mcp__server__tool`.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: Value,
}

/// The task of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOrder {
    pub prompt: String,
    /// The name of the agent file.
    pub agent: Option<String>,
    /// Whether the model continues while the subagent works.
    pub background: bool,
    /// The session of an earlier task to continue.
    pub resume: Option<String>,
    /// Whether the subagent works in a separate git worktree.
    pub worktree: bool,
}

/// A wait for background commands and tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandWait {
    /// The ids to wait for. Empty: all that run.
    pub ids: Vec<String>,
    /// A regular expression. A new line of output that it matches ends the wait.
    pub until: Option<String>,
    pub timeout: Duration,
}

/// A command that a keeper runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// The command line.
    pub line: String,
    /// Whether the model continues while the command runs.
    pub background: bool,
    /// The time limit; `None` for that of the config.
    pub limit_ms: Option<u64>,
}

impl Work {
    /// Returns the class, which decides how the call is settled after a crash.
    pub fn class(&self) -> Class {
        match self {
            Work::Look(_)
            | Work::FindServed(_)
            | Work::LookBack(_)
            | Work::Commands(_)
            | Work::Fetch(_)
            | Work::Search(_)
            | Work::WaitCommands(_) => Class::Idempotent,
            Work::Replace(_) => Class::Checked,
            Work::Run(_) | Work::Task(_) => Class::Supervised,
            Work::Served(_) => Class::Served,
            Work::Ask(_) => Class::Asked,
        }
    }
}
