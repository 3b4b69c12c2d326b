//! Regular files: distinguished from other entries, and opened without blocking.
//!
//! Invariant: nothing here is ever opened that is not a regular file, so nothing blocks on a
//! FIFO or wakes a device.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags, Stat};

use super::handle::Folder;
use crate::config::{IN_USE, IS_KEPT_KEY, is_in_use, is_linked_key, is_stored_key};

const NOT_REGULAR: &str = "not a regular file";
const MADE_UP: &str = "it is not a file on a disk: what lies below /proc, /sys and /dev is made up by \
                       the system, and may hold keys";

pub enum Kind {
    Missing,
    Folder,
    Regular(Stat),
    /// Another kind of file, with its name for people.
    Special(&'static str),
}

/// Returns the kind of a path. Links are followed.
pub(crate) fn kind(path: &Path) -> io::Result<Kind> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(kind_of(stat)),
        Err(rustix::io::Errno::NOENT) => Ok(Kind::Missing),
        Err(e) => Err(e.into()),
    }
}

pub fn kind_of(stat: Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::Regular(stat),
        FileType::Symlink => Kind::Special("a symbolic link now"),
        FileType::Fifo => Kind::Special("a FIFO"),
        FileType::Socket => Kind::Special("a socket"),
        _ => Kind::Special("a device"),
    }
}

/// Opens a regular file for reading. Links are followed. Does not block, even if the file became a
/// FIFO just now. The open session store is never opened: see `crate::store::database`.
pub fn open(path: &Path) -> io::Result<File> {
    if is_in_use(path) {
        return Err(io::Error::other(IN_USE));
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    not_a_key(regular(file)?, is_stored_key)
}

/// Does the same as [`open`] without following links. `path` is the path of `below` in this folder.
pub fn open_in(folder: &Folder, below: &Path, path: &Path) -> io::Result<File> {
    if is_in_use(path) {
        return Err(io::Error::other(IN_USE));
    }
    not_a_key(regular(folder.file(below)?)?, is_linked_key)
}

/// Opens a file on a disk by its real path. A part of the path that is a link now is an error. So
/// are a device and a file that the kernel generates when it is read: those describe the machine
/// and this process, with the keys in its environment.
pub fn open_on_disk(path: &Path) -> io::Result<File> {
    let is_below = |folder: &&str| path.starts_with(folder);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(NOT_REGULAR));
    };
    if ["/proc", "/sys", "/dev"].iter().any(is_below) {
        return Err(io::Error::other(MADE_UP));
    }
    let file = open_in(&Folder::open(folder)?, Path::new(name), path)?;
    if is_of_kernel(&file) {
        return Err(io::Error::other(MADE_UP));
    }
    Ok(file)
}

/// Detects such a file system wherever it is mounted.
#[cfg(target_os = "linux")]
fn is_of_kernel(file: &File) -> bool {
    const SYSFS_MAGIC: u64 = 0x6265_6572;
    let kinds = [rustix::fs::PROC_SUPER_MAGIC as u64, SYSFS_MAGIC];
    rustix::fs::fstatfs(file).is_ok_and(|found| kinds.contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn is_of_kernel(_: &File) -> bool {
    false
}

fn not_a_key(file: File, is_key: impl Fn(&File) -> bool) -> io::Result<File> {
    if is_key(&file) {
        return Err(io::Error::other(IS_KEPT_KEY));
    }
    Ok(file)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(NOT_REGULAR))
    }
}

/// Returns the whole content, or `FileTooLarge` when it is over `max_bytes`. Links are followed.
pub fn load(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    load_from(open(path)?, max_bytes)
}

pub fn load_from(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
