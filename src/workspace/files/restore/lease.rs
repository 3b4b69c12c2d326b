//! Whether anybody has a file open for writing: what they write into it when it is removed is lost.

use std::fs::File;

/// Asks the kernel for a lease, which it does not give while somebody may write. Where it gives
/// none at all (another's file, a file system without leases), nothing is known.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn is_open_for_writing(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open as long as `file` is, and no memory is given.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if taken == 0 {
        // SAFETY: as above. It would end with the file anyway.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        return false;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_open_for_writing(_: &File) -> bool {
    false
}
