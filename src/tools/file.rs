//! Reading and hashing of whole files, without blocking. [`super::staged`] replaces them.
//!
//! Invariant: nothing here is ever opened that is not a regular file, so nothing blocks on
//! a FIFO or wakes a device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, Stat};

use crate::workspace::handle::Folder;
pub use crate::workspace::regular::load;
pub use crate::workspace::regular::{Kind, kind_of, load_from, open_in};
use crate::workspace::writers::has_writer;

/// Maximum size of a file that is edited or overwritten.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The error for a file that another program has open for writing.
pub(super) const HAS_WRITER: &str = "another program has it open for writing, and what it writes next would be lost\n\
                                     hint: end that program first, or append with a command (`>>`)";

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A name in an open folder.
pub(super) struct FolderEntry {
    folder: Folder,
    name: OsString,
    path: PathBuf,
}

impl FolderEntry {
    /// Opens the folder of `path`, which is absolute, with its links followed. No part of it may be
    /// a link now. Returns `None` when the folder does not exist.
    pub(super) fn of(path: &Path) -> io::Result<Option<FolderEntry>> {
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (folder, name),
            _ => (path, OsStr::new(".")),
        };
        match Folder::open(folder) {
            Ok(folder) => Ok(Some(FolderEntry::in_folder(folder, name, path))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the place of `name` in `folder`. `path` leads to it.
    pub(super) fn in_folder(folder: Folder, name: &OsStr, path: &Path) -> FolderEntry {
        FolderEntry {
            folder,
            name: name.to_os_string(),
            path: path.to_path_buf(),
        }
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(super) fn kind(&self) -> io::Result<Kind> {
        match self.folder.stat(&self.name) {
            Ok(stat) => Ok(kind_of(stat)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Kind::Missing),
            Err(e) => Err(e),
        }
    }

    /// Opens the file without following a link.
    pub(super) fn open(&self) -> io::Result<File> {
        open_in(&self.folder, Path::new(&self.name), &self.path)
    }

    /// Opens another file of the folder without following a link.
    pub(super) fn open_sibling(&self, name: &OsStr) -> io::Result<File> {
        open_in(
            &self.folder,
            Path::new(name),
            &self.path.with_file_name(name),
        )
    }

    /// Reads the file as [`load`] does.
    pub(super) fn load(&self, max_bytes: u64) -> io::Result<Vec<u8>> {
        load_from(self.open()?, max_bytes)
    }

    /// Opens the place as a folder.
    pub(super) fn as_folder(&self) -> io::Result<Folder> {
        self.folder.below(Path::new(&self.name))
    }

    /// Returns the hash of the file's content, or `None` when the file does not exist. The file is
    /// streamed, not loaded.
    pub(super) fn hash(&self) -> io::Result<Option<String>> {
        match self.kind()? {
            Kind::Missing => Ok(None),
            Kind::Folder => Err(io::Error::other("it is a folder")),
            Kind::Special(what) => Err(io::Error::other(format!("it is {what}"))),
            Kind::Regular(_) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(self.open()?)?;
                Ok(Some(hasher.finalize().to_hex().to_string()))
            }
        }
    }

    fn replaceable(&self) -> Result<(), String> {
        let said = |e: io::Error| e.to_string();
        match self.kind().map_err(said)? {
            Kind::Missing => Ok(()),
            Kind::Folder => Err("it is a folder".to_string()),
            Kind::Special(what) => Err(format!("it is {what}")),
            Kind::Regular(stat) => {
                let mode = Mode::from_raw_mode(stat.st_mode);
                // Also refused to root, who could write: somebody made the file read-only on
                // purpose.
                if !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH) {
                    let mode = mode.bits() & 0o777;
                    return Err(format!("it is read-only (mode {mode:04o})"));
                }
                self.folder
                    .may(&self.name, Access::WRITE_OK)
                    .map_err(said)?;
                match self.open() {
                    Ok(file) if has_writer(&file) => Err(HAS_WRITER.to_string()),
                    // A file that cannot be opened here fails again where it is read.
                    Ok(_) | Err(_) => Ok(()),
                }
            }
        }
    }
}

/// Returns the hash of the content at a path that [`FolderEntry::of`] accepts, or `None` when the file
/// does not exist.
pub(super) fn hash_at(path: &Path) -> io::Result<Option<String>> {
    match FolderEntry::of(path)? {
        Some(place) => place.hash(),
        None => Ok(None),
    }
}

/// Checks that the file (or, for a new one, its folder) can be replaced. The error says why not.
pub(super) fn replaceable(path: &Path) -> Result<(), String> {
    let said = |e: io::Error| e.to_string();
    if let Some(place) = FolderEntry::of(path).map_err(said)? {
        place.replaceable()?;
    }
    let folder = path.parent().ok_or("it has no folder")?;
    let (open, missing) = Folder::deepest(folder).map_err(said)?;
    let is = folder.ancestors().nth(missing.components().count());
    let is = is.unwrap_or(folder).display();
    open.may(OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|e| format!("the folder {is}: {e}"))
}

/// Makes the file's name durable by syncing its folder.
pub(super) fn sync_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), |p| Folder::open(p)?.sync())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::super::test_support::ResultRoom;
    use super::*;
    use crate::workspace::regular::open;

    #[test]
    fn a_file_that_cannot_be_replaced_is_refused_before_the_write() {
        let room = ResultRoom::new();
        let path = room.put("locked", "x");
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let refused = |name: &str| replaceable(&room.path(name)).unwrap_err();
        assert!(refused("locked").contains("read-only (mode 0444)"));
        assert!(refused("locked/below").contains("ot a directory"));
        assert!(refused("").contains("folder"));
        assert!(
            replaceable(Path::new("/dev/null"))
                .unwrap_err()
                .contains("device")
        );
        replaceable(&room.path("new/folder/file")).unwrap();
    }

    #[test]
    fn a_fifo_that_took_the_place_of_a_file_does_not_block() {
        let room = ResultRoom::new();
        let fifo = room.path("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        assert!(
            open(&fifo)
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
    }

    #[test]
    fn a_file_over_the_limit_is_not_loaded() {
        let room = ResultRoom::new();
        let path = room.put("a", "12345");
        assert_eq!(load(&path, 5).unwrap(), b"12345");
        assert_eq!(load(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
