//! Who gave a sub-agent its task, and what it may not do itself.

use serde::{Deserialize, Serialize};

use super::CallId;

/// What makes a session that of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The session that gave the task.
    pub parent: String,
    /// The call of that session that it was given with.
    pub call: CallId,
    /// The agent that was named. `None`: the task is done as the parent would do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the file of the agent says to the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// The only tools that it has. `None`: all but `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Rules that were allowed for the session of the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The branch of the git worktree that was made for it. `None`: it works in its parent's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
