//! File descriptors: closing those that were inherited, and the limit of open files, which is
//! raised for this program alone.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of open files that this program asks for.
const MOST_OPEN: u64 = 65_536;

/// The soft limit that macOS accepts although the hard limit is higher.
const OPEN_MAX: u64 = 10_240;

/// The limit of open files that this program was started with, once it was raised.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Closes every descriptor above 2 but those in `keep`. The agent's own close at exec by
/// themselves; these are inherited from other programs. They would stay open as long as a command
/// runs, and the command could use them. On a system that does not list them, none is closed.
///
/// Call this first in a process, on its only thread, before anything in it owns a descriptor.
#[allow(unsafe_code)]
pub fn close_inherited(keep: &[i32]) {
    let list = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    let Ok(names) = std::fs::read_dir(list) else {
        return;
    };
    let open: Vec<i32> = names
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && !keep.contains(fd))
        .collect();
    for fd in open {
        // The descriptor of the listing itself is closed already.
        if Path::new(list)
            .join(fd.to_string())
            .symlink_metadata()
            .is_ok()
        {
            // SAFETY: this is the first thing the process does, on its only thread: nothing in
            // it owns a descriptor above 2 yet but those in `keep`.
            unsafe { rustix::io::close(fd) };
        }
    }
}

/// Sets the soft limit of open files to the smallest of the hard limit, [`MOST_OPEN`], and what the
/// system accepts. Programs that [`child`] starts get the limit from before. Call this once, at the
/// start.
pub fn raise_limit() {
    let given = getrlimit(Resource::Nofile);
    for most in [MOST_OPEN, OPEN_MAX] {
        let wanted = given.maximum.map_or(most, |hard| hard.min(most));
        let raised = Rlimit {
            current: Some(wanted),
            maximum: given.maximum,
        };
        if given.current.is_none_or(|now| now >= wanted) {
            return;
        }
        if setrlimit(Resource::Nofile, raised).is_ok() {
            let _ = GIVEN.set(given);
            return;
        }
    }
}

/// Returns the number of descriptors that this process may have open.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST_OPEN)
}

/// Returns the command line of another program, with the limit of open files that this program was
/// started with: programs that use `select` break with more.
pub fn child(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    give_back_limit(&mut command);
    command
}

/// Gives a command the limit of open files that this program was started with.
#[allow(unsafe_code)]
pub fn give_back_limit(command: &mut Command) {
    let Some(given) = GIVEN.get() else {
        return;
    };
    let set = || setrlimit(Resource::Nofile, *given).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(set) };
}
