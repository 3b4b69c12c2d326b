//! Whether this process is a command that an agent runs, or was started by one.
//!
//! In the sandbox the filter of system calls says so, which nobody can take off. Without a sandbox
//! this is a fence, not a wall: such a command may take the variable away and leave its ancestors
//! behind.

/// More ancestors than this nobody has.
#[cfg(target_os = "linux")]
const MAX_ANCESTORS: usize = 1_000;

/// `run` is the value of [`keeper::RUN_ENV`](super::keeper::RUN_ENV).
pub fn is_below_keeper(run: Option<&str>) -> bool {
    run.is_some() || crate::sandbox::is_inside() || has_keeper_above()
}

/// A keeper is among the ancestors, or leads the session of processes that this one is in. In a
/// process namespace the first process is a copy of the keeper.
#[cfg(target_os = "linux")]
fn has_keeper_above() -> bool {
    if super::process::session_leader().is_some_and(is_keeper) {
        return true;
    }
    // The list of processes may be that of another namespace, in which this one has another number.
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

#[cfg(target_os = "linux")]
fn is_keeper(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let word = words.next();
    [super::keeper::WORD, super::server::WORD]
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
