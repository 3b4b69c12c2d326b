//! What there is to do of a call, for the world to do.
//!
//! Invariant: how a call is run is its effect class, so the two cannot disagree.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::checked::FileChange;
use super::past::LookBack;
use super::{Ran, ToolContext};
use crate::command::Runs;
use crate::core::tool::Class;

/// A look at files or at what is known.
pub type Look = Box<dyn FnOnce(&ToolContext, &AtomicBool) -> Ran + Send>;
pub(super) type ActOnCommands = Box<dyn FnOnce(&Runs, &str) -> Ran + Send>;

/// What there is to do of a call. Its variant decides the effect class.
pub enum Work {
    /// Looks at files or at nothing; ends soon after the flag is set.
    Look(Look),
    /// Looks for tools of servers. Those that are not known yet are waited for.
    FindServed(Look),
    /// Looks at the store.
    LookBack(LookBack),
    /// Does to the background commands of the session, given by its id, what may be repeated.
    Commands(ActOnCommands),
    /// Replaces one file as a whole.
    Replace(FileChange),
    /// Runs a command under a keeper.
    Run(ShellCommand),
    /// Gives a task to a sub-agent.
    Task(TaskOrder),
    /// Calls a tool of a server.
    Served(ServedCall),
}

/// A call of a tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedCall {
    /// Its full name, `mcp__server__tool`.
    pub name: String,
    /// An object.
    pub arguments: Value,
}

/// What a sub-agent is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOrder {
    pub prompt: String,
    /// The agent that is named.
    pub agent: Option<String>,
    /// The model is asked again while it works.
    pub background: bool,
    /// The session of an earlier task that goes on.
    pub resume: Option<String>,
    /// It works in a git worktree of its own.
    pub worktree: bool,
}

/// What a keeper is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// The line for the shell.
    pub line: String,
    /// The model is asked again while it runs.
    pub background: bool,
    /// `None`: as long as the config says.
    pub limit_ms: Option<u64>,
}

impl Work {
    /// How the call is settled after a crash.
    pub fn class(&self) -> Class {
        match self {
            Work::Look(_) | Work::FindServed(_) | Work::LookBack(_) | Work::Commands(_) => {
                Class::Idempotent
            }
            Work::Replace(_) => Class::Checked,
            Work::Run(_) | Work::Task(_) => Class::Supervised,
            Work::Served(_) => Class::Served,
        }
    }
}
