//! Shell commands with access to the terminal. Such a command has no keeper: it is a child of this
//! program, in the same process group, so that the terminal's own keys stop and continue both.
//!
//! The command ends with the agent, however that dies. This program runs between the two with a
//! hidden first argument: it asks the kernel for a hang-up at the death of its parent and then
//! becomes the shell. On a kernel without that, only the end of the terminal ends the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode};

use super::process::{arguments_after, own_exe};
use crate::sandbox::child;

/// The hidden first argument. It is followed by the shell and the command.
pub const WORD: &str = "__on_terminal";

/// Runs the command to its end. Returns its exit code, and in words how it ended.
///
/// # Errors
/// The command could not be started.
pub fn run(
    shell: &Path,
    folder: &Path,
    unseen: &[String],
    command: &str,
) -> io::Result<(Option<i32>, String)> {
    let mut process = child(own_exe()?);
    process.arg0("rewake").arg(WORD).arg(shell).arg(command);
    for name in unseen {
        process.env_remove(name);
    }
    let status = process.current_dir(folder).status()?;
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended by a signal".to_string(),
    };
    Ok((status.code(), how))
}

/// Becomes such a command if this process was started for that. Returns `None` for an ordinary
/// start.
pub fn become_if_asked() -> Option<ExitCode> {
    let words: Vec<OsString> = arguments_after(WORD)?.collect();
    let [shell, command] = &words[..] else {
        return Some(ExitCode::FAILURE);
    };
    hang_up_with_parent();
    let error = Command::new(shell).arg("-c").arg(command).exec();
    let _ = io::Write::write_all(
        &mut io::stderr(),
        format!("cannot start {}: {error}\n", shell.display()).as_bytes(),
    );
    Some(ExitCode::from(127))
}

#[cfg(target_os = "linux")]
fn hang_up_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // If this fails, the end of the terminal still ends the command.
    let _ = set_parent_process_death_signal(Some(Signal::HUP));
}

#[cfg(not(target_os = "linux"))]
fn hang_up_with_parent() {}
