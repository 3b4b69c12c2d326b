//! The specification of a run: the part of a run folder that the agent writes.
//!
//! Invariant: a spec is stored in clear text, so it names the variables that are removed from the
//! command's environment and never contains their values.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Profile;

/// Variables that keep programs from waiting for a person and from drawing on the terminal.
pub const QUIET: [(&str, &str); 4] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("TERM", "dumb"),
];

/// Maximum size of a command. A longer script should be a file.
pub const COMMAND_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of a command that is passed as an argument; a longer one becomes a script. Linux
/// accepts no argument above 128 KiB.
pub(super) const ARGUMENT_MAX_BYTES: usize = 100 * 1024;

/// The command that a keeper runs, and its settings. Stored as a file in the run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The command line.
    pub command: String,
    /// The folder the command starts in.
    pub folder: PathBuf,
    /// Time limit in milliseconds; `u64::MAX` for none.
    pub timeout_ms: u64,
    /// Number of bytes of the head of the output that are stored. The end is stored as well.
    pub output_cap_bytes: u64,
    /// The shell, which runs as `shell -c command`.
    pub shell: PathBuf,
    /// Names of variables that are removed from the environment, since they hold keys.
    pub env_remove: Vec<String>,
    /// Variables set for the command. Stored in clear text: never secrets.
    pub env_set: Vec<(String, String)>,
    /// The session of the command, for display.
    pub session: String,
    /// The call that started the command, under the name that the model uses: `bg_3_0`.
    pub call: String,
    /// Whether the agent does not wait for the end.
    pub background: bool,
    /// The sandbox. `None` for a command without one, as at level `full` and for every command of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Profile>>,
    /// The session that this program runs as a subagent, if the run is one. `command` is then the
    /// task, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// Set if the command is a hook. It reads the file `input` of the run folder, and its errors go
    /// to the file `err`. It has ended when nothing has its output open any more. More output than
    /// the cap ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookSpec>,
    /// The file with the lease of the session, if the session is shared: the command is not started
    /// after the end of the lease, and ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<PathBuf>,
}

/// The files that a hook needs. They are compared again right before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    pub files: Vec<NeededFile>,
}

/// A file that a hook needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededFile {
    /// Absolute.
    pub path: PathBuf,
    /// It is a program, so it must be executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
    /// The trusted hash of the file or of the folder. `None`: any content is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Value of [`Spec::call`] for a command that the user typed.
pub const OF_USER: &str = "user";

/// Value of [`Spec::call`] for a check.
pub const OF_CHECK: &str = "check";

/// Value of [`Spec::call`] for a hook.
pub const OF_HOOK: &str = "hook";

/// Value of [`Spec::call`] for a hook for which nobody waits. Its run folder is in no log.
pub const OF_UNAWAITED_HOOK: &str = "hook, not waited for";

impl Spec {
    /// Returns whether the user typed the command with `!`.
    pub fn is_of_user(&self) -> bool {
        self.call == OF_USER
    }

    /// Refuses a command that cannot be given to a shell.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_that_an_older_version_wrote_is_read() {
        let older = r#"{"command":"true","folder":"/","timeout_ms":1,"output_cap_bytes":2,"shell":"/bin/sh","env_remove":[],"env_set":[],"session":"s","call":"bg_1_0","background":true}"#;
        let spec: Spec = serde_json::from_str(older).unwrap();
        assert_eq!(spec.lease, None);
        // A session that is not shared has no new field.
        assert_eq!(serde_json::to_string(&spec).unwrap(), older);
    }
}
