//! Closing of file descriptors that were inherited.

use std::path::Path;

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
