//! The assignment of a subagent: its parent, and the limits on what it may do.

use serde::{Deserialize, Serialize};

use super::CallId;

/// The task data that makes a session a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The session that gave the task.
    pub parent: String,
    /// The call of the parent that gave the task.
    pub call: CallId,
    /// Name of the requested agent. `None`: the task is done as the parent would do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Instructions from the agent's file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// Names of the only tools that it has. `None`: all but `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Rules that a person allowed for the session of the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The branch of the git worktree that was made for it. `None`: it works in its parent's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
