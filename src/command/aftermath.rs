//! The report on a command that ended, as the status of a run stores it: what its sandbox ended and
//! undid, and the processes that outlive it.

use serde::{Deserialize, Serialize};

/// The report on a command that ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Aftermath {
    /// Number of processes of the command that could not be ended in time, or that a command without
    /// a sandbox left running.
    pub survivors: u32,
    /// The first of these processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub survivor_pids: Vec<Survivor>,
    /// Number of processes of the command that were ended with it.
    pub ended: u32,
    /// Protected files that the command changed. The changes are undone as far as possible.
    pub changed: Vec<String>,
    /// Number of changed files that are not named.
    pub more_changed: u32,
    /// Protected files that were created or changed during a background command, by it or by
    /// somebody else. They are not restored, so that changes of the user stay.
    pub found_changed: Vec<String>,
    /// Protected files that git checked out and could not write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The limit for which the command was ended.
    pub limit: Option<String>,
    /// The kernel killed a process for lack of memory while the command ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
}

/// A process that outlives its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    pub pid: u32,
    /// Start time in the kernel's unit, which distinguishes the process from a later one with its
    /// pid.
    pub started: Option<u64>,
    /// The start of its command line, if that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}
