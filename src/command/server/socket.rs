//! The socket of a server's keeper: its path, and who may connect.
//!
//! The socket is in the run folder, which only its owner may enter. The path of a socket has a
//! limit of about a hundred bytes. If the folder's path is longer, the socket is named through a
//! descriptor of its folder; without `/proc`, it is in `$XDG_RUNTIME_DIR`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum length of a socket's path with its final zero: 108 on Linux, 104 elsewhere.
const ADDRESS_BYTES: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

pub(super) const SOCKET: &str = "socket";

/// The descriptors of this process, by which Linux opens files too.
const DESCRIPTORS: &str = "/proc/self/fd";

fn fits(path: &Path) -> bool {
    path.as_os_str().len() < ADDRESS_BYTES
}

/// Does something with a path of a socket that is short enough.
fn with_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !fits(path) => {
            let folder = File::open(parent)?;
            let folder_path = Path::new(DESCRIPTORS).join(folder.as_raw_fd().to_string());
            act(&folder_path.join(name))
        }
        _ => act(path),
    }
}

/// Returns the other path of the socket, or `None` if it can be in the run folder.
///
/// # Errors
/// No usable path exists.
pub(super) fn short_name(
    folder: &Path,
    run: &str,
    runtime_dir: Option<&Path>,
) -> io::Result<Option<PathBuf>> {
    let inside = folder.join(SOCKET);
    if fits(&inside) || Path::new(DESCRIPTORS).is_dir() {
        return Ok(None);
    }
    let short = runtime_dir.map(|dir| dir.join(format!("rewake-{run}.sock")));
    match short {
        Some(short) if fits(&short) => Ok(Some(short)),
        Some(_) | None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} is too long for the name of a socket; set XDG_RUNTIME_DIR to a folder of yours \
                 with a short name",
                inside.display()
            ),
        )),
    }
}

/// Listens on a socket that nobody else may write to: only the owner may enter its folder.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = with_short_path(path, |path| UnixListener::bind(path))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = with_short_path(path, |path| UnixStream::connect(path))?;
    if is_of_us(&stream)? {
        Ok(stream)
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the socket {} is another user's", path.display()),
        ))
    }
}

/// Returns whether the process at the other end has the same user as this one.
#[cfg(target_os = "linux")]
pub(super) fn is_of_us(stream: impl AsFd) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid == rustix::process::geteuid())
}

/// Always accepts: safe code cannot ask this system for the user. The mode of the folder keeps
/// others out.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_of_us(_stream: impl AsFd) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_can_be_used() {
        let place = tempfile::tempdir().unwrap();
        let long = place.path().join("x".repeat(200));
        std::fs::create_dir(&long).unwrap();
        let dir = Some(Path::new("/run/user/7"));
        assert_eq!(short_name(Path::new("/data/r"), "r", dir).unwrap(), None);
        match short_name(&long, "r", dir).unwrap() {
            None => {
                let path = long.join(SOCKET);
                let _listener = listen(&path).unwrap();
                assert!(connect(&path).is_ok());
            }
            Some(short) => assert_eq!(short, Path::new("/run/user/7/rewake-r.sock")),
        }
    }

    #[test]
    fn only_the_owner_may_speak() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(SOCKET);
        let _listener = listen(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(is_of_us(connect(&path).unwrap()).unwrap());
    }
}
