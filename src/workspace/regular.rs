//! Regular files: told from what else has a name, and opened without blocking.
//!
//! Invariant: nothing here is ever opened that is not a regular file, so nothing blocks on a
//! FIFO or wakes a device.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags, Stat};

use super::handle::Folder;
use crate::config::{IN_USE, is_in_use};

pub(crate) enum Kind {
    Missing,
    Folder,
    Regular(Stat),
    /// With its name for people.
    Special(&'static str),
}

/// Links are followed.
pub(crate) fn kind(path: &Path) -> io::Result<Kind> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(kind_of(stat)),
        Err(rustix::io::Errno::NOENT) => Ok(Kind::Missing),
        Err(e) => Err(e.into()),
    }
}

pub(crate) fn kind_of(stat: Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::Regular(stat),
        FileType::Symlink => Kind::Special("a symbolic link now"),
        FileType::Fifo => Kind::Special("a FIFO"),
        FileType::Socket => Kind::Special("a socket"),
        _ => Kind::Special("a device"),
    }
}

/// Opens a regular file for reading, links followed. Without blocking, should it just have
/// become a FIFO. The open session store is never opened: see `crate::store::database`.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if is_in_use(path) {
        return Err(io::Error::other(IN_USE));
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    regular(file)
}

/// As [`open`], no link followed. `path` is where `below` lies in this folder.
pub(crate) fn open_in(folder: &Folder, below: &Path, path: &Path) -> io::Result<File> {
    if is_in_use(path) {
        return Err(io::Error::other(IN_USE));
    }
    regular(folder.file(below)?)
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// The whole content, or `FileTooLarge` when it is over `max_bytes`. Links are followed.
pub fn load(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    load_from(open(path)?, max_bytes)
}

pub(crate) fn load_from(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
