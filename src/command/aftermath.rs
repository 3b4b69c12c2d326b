//! The report of a sandbox when a command is over, as the status of a run stores it.

use serde::{Deserialize, Serialize};

/// What the sandbox has to say when a command is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Aftermath {
    /// Processes of the command that could not be ended in time. In records of older versions,
    /// those that it left running.
    pub survivors: u32,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub survivor_pids: Vec<Survivor>,
    /// Processes of the command that were ended with it.
    pub ended: u32,
    /// Protected files that it changed: the changes are undone as far as they could be.
    pub changed: Vec<String>,
    /// More were changed than are named.
    pub more_changed: u32,
    /// Protected files that were made or changed while a command in the background ran, by it or
    /// by somebody else. They are as they were found: what a person did meanwhile stays.
    pub found_changed: Vec<String>,
    /// The limit that it was ended for.
    pub limit: Option<String>,
}

/// A process that could not be ended with its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    pub pid: u32,
    /// When it was started, in the kernel's own unit: tells it from a later process with its pid.
    pub started: Option<u64>,
}
