//! Detection of whether anybody has a file open for writing: data that they write after the file
//! was replaced or removed is lost.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::io;
use std::thread;
use std::time::Duration;

/// Number of checks, since a writer that has the file open now may be about to close it.
const WRITER_LOOKS: u32 = 10;
const WRITER_PAUSE: Duration = Duration::from_millis(20);

/// A signal that a process ignores unless it asks for it.
#[cfg(target_os = "linux")]
const IGNORED: libc::c_int = libc::SIGURG;

/// The `fcntl` that sets the signal of a descriptor. The same number on all architectures of Linux
/// but PA-RISC.
#[cfg(target_os = "linux")]
const F_SETSIG: libc::c_int = 10;

/// Asks the kernel for a lease, which it refuses while somebody may write. If it never gives one
/// (another user's file, a file system without leases), the answer is unknown.
#[cfg(target_os = "linux")]
pub fn is_open_for_writing(file: &File) -> bool {
    match lease(file) {
        Ok(()) => {
            // The lease would end with the descriptor anyway.
            let _ = fcntl(file, libc::F_SETLEASE, libc::F_UNLCK);
            false
        }
        Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
    }
}

/// Takes a lease. A process that opens the file for writing waits until the lease ends, and the
/// kernel sends the holder a signal. By default this is `SIGIO`, which would end the process, so
/// another signal is set.
#[cfg(target_os = "linux")]
fn lease(file: &File) -> io::Result<()> {
    fcntl(file, F_SETSIG, IGNORED)?;
    fcntl(file, libc::F_SETLEASE, libc::F_RDLCK)?;
    Ok(())
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn fcntl(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open as long as `file` is, and no memory is given.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        given => Ok(given),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn is_open_for_writing(_: &File) -> bool {
    false
}

/// Returns whether somebody has a file open for writing for more than an instant.
pub fn has_writer(file: &File) -> bool {
    for look in 0..WRITER_LOOKS {
        if look > 0 {
            thread::sleep(WRITER_PAUSE);
        }
        if !is_open_for_writing(file) {
            return false;
        }
    }
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_writer_is_seen_for_as_long_as_it_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        assert!(!is_open_for_writing(&file));
        let writer = File::options().append(true).open(&path).unwrap();
        assert!(is_open_for_writing(&file));
        drop(writer);
        assert!(!is_open_for_writing(&file));
    }

    /// By default the kernel ends the process that has a lease with `SIGIO`.
    #[test]
    fn opening_a_leased_file_does_not_end_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        lease(&file).unwrap();
        let append = "echo y >> \"$0\"";
        let mut writer = Command::new("sh")
            .args(["-c", append])
            .arg(&path)
            .spawn()
            .unwrap();
        // Waits until the writer waits for the lease, which the kernel then reports as broken.
        while fcntl(&file, libc::F_GETLEASE, 0).unwrap() != libc::F_UNLCK {
            std::thread::yield_now();
        }
        drop(file);
        assert!(writer.wait().unwrap().success());
        assert_eq!(fs::read_to_string(&path).unwrap(), "xy\n");
    }
}
