//! Whether this process is a command that an agent runs, or was started by one.
//!
//! A fence, not a wall: a command without a sandbox may take the variable away and leave its
//! ancestors behind.

/// More ancestors than this nobody has.
#[cfg(target_os = "linux")]
const MAX_ANCESTORS: usize = 1_000;

/// `run` is the value of [`keeper::RUN_ENV`](super::keeper::RUN_ENV).
pub fn is_below_keeper(run: Option<&str>) -> bool {
    run.is_some() || has_keeper_above()
}

/// A keeper is among the ancestors, or leads the session of processes that this one is in.
#[cfg(target_os = "linux")]
fn has_keeper_above() -> bool {
    if super::process::session_leader().is_some_and(is_keeper) {
        return true;
    }
    let mut pid = std::process::id();
    for _ in 0..MAX_ANCESTORS {
        match super::process::parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
        if is_keeper(pid) {
            return true;
        }
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
