//! Reading of one path: its item, and its content if it did not change meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::cache::Stamp;
use super::cover::is_secret;
use crate::config::{is_in_use, is_linked_key};
use crate::core::tree::{ContentHash, Item, Marked};
use crate::workspace::handle::Folder;

/// Maximum number of reads of a file that changes each time.
const TRIES: u32 = 3;

#[cfg(test)]
type WhileRead = Option<Box<dyn FnMut()>>;

#[cfg(test)]
thread_local! {
    /// Called between the read of the content and the second check of the stamp, to simulate a
    /// writer.
    pub(super) static WHILE_READ: std::cell::RefCell<WhileRead> = const { std::cell::RefCell::new(None) };
}

/// The result of reading a path.
pub(super) enum ReadResult {
    /// The item. `content` is set for a file whose content must be stored.
    Item {
        stamp: Stamp,
        item: Item,
        content: Option<Vec<u8>>,
    },
    /// The file changed during each read.
    Unsteady(Stamp),
    /// The path no longer exists, or is a folder.
    Gone,
}

/// Reads a name in an open folder. `path` is its whole path, for the rules.
pub(super) fn read(
    folder: BorrowedFd<'_>,
    name: &[u8],
    path: &Path,
    stat: &Stat,
    max_bytes: u64,
    with_secrets: bool,
) -> io::Result<ReadResult> {
    let stamp = Stamp::of(stat);
    let found = |item| ReadResult::Item {
        stamp,
        item,
        content: None,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stamp.size > max_bytes => {
            Ok(found(marker(Marked::TooBig, &stamp)))
        }
        FileType::RegularFile if is_in_use(path) => Ok(found(bare(Marked::Unreadable))),
        FileType::RegularFile => steady(folder, name, path, stamp, max_bytes, with_secrets),
        FileType::Symlink => match sys::readlinkat(folder, OsStr::from_bytes(name), Vec::new()) {
            Ok(target) => Ok(found(Item::Link {
                target: target.into_bytes(),
            })),
            // The path became another kind of file.
            Err(Errno::NOENT | Errno::INVAL) => Ok(ReadResult::Gone),
            Err(e) => Err(e.into()),
        },
        FileType::Fifo => Ok(found(bare(Marked::Fifo))),
        FileType::Socket => Ok(found(bare(Marked::Socket))),
        FileType::Directory => Ok(ReadResult::Gone),
        _ => Ok(found(bare(Marked::Device))),
    }
}

/// Reads a file between two checks that find the same stamp.
fn steady(
    folder: BorrowedFd<'_>,
    name: &[u8],
    path: &Path,
    mut stamp: Stamp,
    max_bytes: u64,
    with_secrets: bool,
) -> io::Result<ReadResult> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        let file = match sys::openat(folder, OsStr::from_bytes(name), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(ReadResult::Gone),
            Err(Errno::ACCESS | Errno::PERM | Errno::IO) => {
                return Ok(ReadResult::Item {
                    stamp,
                    item: marker(Marked::Unreadable, &stamp),
                    content: None,
                });
            }
            Err(e) => return Err(e.into()),
        };
        let before = sys::fstat(&file)?;
        if !FileType::from_raw_mode(before.st_mode).is_file() {
            return Ok(ReadResult::Gone);
        }
        if is_linked_key(&file) {
            return Ok(ReadResult::Item {
                stamp,
                item: marker(Marked::Secret, &stamp),
                content: None,
            });
        }
        stamp = Stamp::of(&before);
        let mut content =
            Vec::with_capacity(usize::try_from(stamp.size.min(max_bytes)).unwrap_or(0));
        match (&file)
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut content)
        {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::OutOfMemory => return Err(e),
            Err(_) => {
                return Ok(ReadResult::Item {
                    stamp,
                    item: marker(Marked::Unreadable, &stamp),
                    content: None,
                });
            }
        }
        #[cfg(test)]
        WHILE_READ.with_borrow_mut(|write| write.iter_mut().for_each(|write| write()));
        let after = Stamp::of(&sys::fstat(&file)?);
        if after != stamp || content.len() as u64 != stamp.size {
            continue;
        }
        return Ok(kept(stamp, path, content, with_secrets));
    }
    Ok(ReadResult::Unsteady(stamp))
}

fn kept(stamp: Stamp, path: &Path, content: Vec<u8>, with_secrets: bool) -> ReadResult {
    let hash: ContentHash = *blake3::hash(&content).as_bytes();
    if !with_secrets && is_secret(path.as_os_str().as_bytes()) {
        return ReadResult::Item {
            stamp,
            item: Item::Marker {
                why: Marked::Secret,
                bytes: stamp.size,
                mtime_ms: 0,
                hash: Some(hash),
            },
            content: None,
        };
    }
    ReadResult::Item {
        stamp,
        item: Item::File {
            mode: (stamp.mode & 0o777) as u16,
            hash,
            bytes: content.len() as u64,
        },
        content: Some(content),
    }
}

/// Returns the marker of a file whose content is not stored.
pub(super) fn marker(why: Marked, stamp: &Stamp) -> Item {
    Item::Marker {
        why,
        bytes: stamp.size,
        mtime_ms: stamp.mtime_ns / 1_000_000,
        hash: None,
    }
}

/// Returns the marker of a special file. It has no times, since those change with each use.
pub(super) fn bare(why: Marked) -> Item {
    Item::Marker {
        why,
        bytes: 0,
        mtime_ms: 0,
        hash: None,
    }
}

/// Returns the item at a path that a tool wrote, inside or outside of the workspace, and its
/// content, even of a secret file. `None` if the path does not exist or is a folder.
///
/// # Errors
/// The item cannot be read. `path` is absolute, with its links followed.
pub fn item_at(path: &Path, max_bytes: u64) -> io::Result<Option<(Item, Option<Vec<u8>>)>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(None);
    };
    let folder = match Folder::open(parent) {
        Ok(folder) => folder,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let stat = match sys::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    match read(
        folder.as_fd(),
        name.as_bytes(),
        path,
        &stat,
        max_bytes,
        true,
    )? {
        ReadResult::Item { item, content, .. } => Ok(Some((item, content))),
        ReadResult::Unsteady(stamp) => Ok(Some((marker(Marked::Unsteady, &stamp), None))),
        ReadResult::Gone => Ok(None),
    }
}
