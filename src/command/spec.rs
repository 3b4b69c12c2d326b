//! What is to be run: the part of a run folder that the agent writes.
//!
//! Invariant: a spec is stored in clear, so it names the variables that are taken away from
//! the command and never holds their values.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sandbox::Profile;

/// Longer commands are refused. A script of this size should be a file.
pub const COMMAND_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Linux takes no single argument above 128 KiB; beyond this, the command becomes a script.
pub(super) const ARGUMENT_MAX_BYTES: usize = 100 * 1024;

/// What a keeper is to run, and how. Kept as a file in the run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The line for the shell.
    pub command: String,
    /// The folder the command starts in.
    pub folder: PathBuf,
    /// `u64::MAX`: no limit.
    pub timeout_ms: u64,
    /// How much of the head of the output is kept on disk. The end is kept besides.
    pub output_cap_bytes: u64,
    /// Run as `shell -c command`.
    pub shell: PathBuf,
    /// Names of variables the command must not see: those that hold keys.
    pub env_remove: Vec<String>,
    /// Variables set for the command. Stored in clear: never secrets.
    pub env_set: Vec<(String, String)>,
    /// Whose command it is, for display.
    pub session: String,
    /// The call that asked for it, by the name that the model has for it: `bg_3_0`.
    pub call: String,
    /// The agent does not wait for its end.
    pub background: bool,
    /// What the system keeps the command from doing. None: it runs without a sandbox, as level
    /// `full` and every command of older versions does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Profile>>,
    /// It is no command: this program works in this session, as a sub-agent. `command` says what
    /// the task is, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
}

/// What [`Spec::call`] is of a command that no call asked for: the user typed it.
pub const OF_USER: &str = "user";

impl Spec {
    /// The user typed it with `!`.
    pub fn is_of_user(&self) -> bool {
        self.call == OF_USER
    }

    /// What no shell could be given.
    pub(super) fn check(&self) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.command.len() > COMMAND_MAX_BYTES {
            return refuse(format!(
                "the command is {} bytes long, more than {COMMAND_MAX_BYTES}",
                self.command.len()
            ));
        }
        if self.command.contains('\0') {
            return refuse("the command holds a NUL byte".to_string());
        }
        Ok(())
    }

    pub(super) fn needs_script(&self) -> bool {
        self.command.len() > ARGUMENT_MAX_BYTES
    }
}

/// bash where there is one: it is what models write for.
pub fn default_shell() -> PathBuf {
    const PLACES: [&str; 5] = [
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/opt/homebrew/bin/bash",
        "/run/current-system/sw/bin/bash",
    ];
    PLACES
        .iter()
        .find(|place| Path::new(place).exists())
        .map_or_else(|| PathBuf::from("/bin/sh"), PathBuf::from)
}
