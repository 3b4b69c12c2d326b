//! Detection of whether this process is a command that an agent runs, or was started by one.
//!
//! In a sandbox the seccomp filter marks the process, and nobody can remove it. Without a sandbox
//! this is a precaution and no barrier: a command may remove the variable and detach from its
//! ancestors.

use rustix::process::Pid;

use crate::sandbox::has_terminal;

/// The first argument of a keeper of a command, and of that of a server.
pub(super) const KEEP: &str = "__keep";
pub(super) const SERVE: &str = "__serve";

/// Maximum number of ancestors that are visited, more than a process has.
#[cfg(target_os = "linux")]
const MAX_ANCESTORS: usize = 1_000;

/// Returns whether a keeper is an ancestor of this process. `run` is the value of
/// [`keeper::RUN_ENV`](super::keeper::RUN_ENV).
pub fn is_below_keeper(run: Option<&str>) -> bool {
    run.is_some() || crate::sandbox::is_inside() || has_keeper_above()
}

/// Returns whether a keeper is among the ancestors, or leads the process session of this process.
/// In a process namespace the first process is a copy of the keeper.
#[cfg(target_os = "linux")]
fn has_keeper_above() -> bool {
    if super::process::session_leader().is_some_and(is_keeper) {
        return true;
    }
    // `/proc` may list the processes of another namespace, where this one has another pid.
    let mut above = super::process::own_parent();
    for _ in 0..MAX_ANCESTORS {
        let Some(pid) = above.filter(|pid| *pid > 0) else {
            return false;
        };
        if is_keeper(pid) {
            return true;
        }
        above = super::process::parent(pid);
    }
    false
}

#[cfg(not(target_os = "linux"))]
fn has_keeper_above() -> bool {
    false
}

/// Returns whether a process is not part of the command that started it: a keeper, or one with a
/// terminal, such as what a person does in a tmux server that a command happened to start.
pub(super) fn is_spared(pid: Pid) -> bool {
    has_terminal(pid) || is_keeper(pid.as_raw_nonzero().get().unsigned_abs())
}

fn is_keeper(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let word = words.next();
    [KEEP, SERVE]
        .iter()
        .any(|keeper| word == Some(keeper.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_it() {
        assert!(is_below_keeper(Some("0197")));
    }
}
