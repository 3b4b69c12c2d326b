//! Files as wholes: opened without blocking, hashed, and replaced so that a crash leaves
//! either the old content or the new.
//!
//! The order of a replacement: a file beside, written and synced; the target looked at once
//! more; rename; the folder synced. All of it happens in one open [`Folder`]. What is kept: the
//! permission bits (not setuid and setgid, which a write takes away too), and the owner where
//! the kernel lets us. What is not: extended attributes, ACLs, and the other names of a file
//! with hard links, which go on naming the old content, since a rename replaces a name and not
//! an inode.
//!
//! Invariant: nothing here is ever opened that is not a regular file, so nothing blocks on
//! a FIFO or wakes a device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, Gid, Mode, Stat, Uid};

use crate::workspace::handle::Folder;
pub use crate::workspace::regular::load;
pub(super) use crate::workspace::regular::{Kind, kind_of, load_from, open_in};

/// Files over this are not edited or overwritten as a whole.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A name in an open folder.
pub(super) struct Place {
    folder: Folder,
    name: OsString,
    path: PathBuf,
}

impl Place {
    /// `path` is absolute, its links followed; no part of it may be a link now. `None` when its
    /// folder does not exist.
    pub(super) fn of(path: &Path) -> io::Result<Option<Place>> {
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (folder, name),
            _ => (path, OsStr::new(".")),
        };
        match Folder::open(folder) {
            Ok(folder) => Ok(Some(Place {
                folder,
                name: name.to_os_string(),
                path: path.to_path_buf(),
            })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn kind(&self) -> io::Result<Kind> {
        match self.folder.stat(&self.name) {
            Ok(stat) => Ok(kind_of(stat)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Kind::Missing),
            Err(e) => Err(e),
        }
    }

    /// The file, no link followed.
    pub(super) fn open(&self) -> io::Result<File> {
        open_in(&self.folder, Path::new(&self.name), &self.path)
    }

    /// As [`load`].
    pub(super) fn load(&self, max_bytes: u64) -> io::Result<Vec<u8>> {
        load_from(self.open()?, max_bytes)
    }

    /// When it is a folder.
    pub(super) fn as_folder(&self) -> io::Result<Folder> {
        self.folder.below(Path::new(&self.name))
    }

    /// The hash of the file's content; `None` when there is no file. Memory stays flat.
    fn hash(&self) -> io::Result<Option<String>> {
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
                // Said also to root, who could: the mode is somebody's wish.
                if !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH) {
                    let mode = mode.bits() & 0o777;
                    return Err(format!("it is read-only (mode {mode:04o})"));
                }
                self.folder.may(&self.name, Access::WRITE_OK).map_err(said)
            }
        }
    }
}

/// The hash of the content at a path as [`Place::of`] takes it; `None` when there is no file.
pub(super) fn hash_at(path: &Path) -> io::Result<Option<String>> {
    match Place::of(path)? {
        Some(place) => place.hash(),
        None => Ok(None),
    }
}

/// Why the file (or, for a new one, its folder) cannot be replaced; `Ok` when it can.
pub(super) fn replaceable(path: &Path) -> Result<(), String> {
    let said = |e: io::Error| e.to_string();
    if let Some(place) = Place::of(path).map_err(said)? {
        place.replaceable()?;
    }
    let Some(folder) = path.parent() else {
        return Err("it has no folder".to_string());
    };
    let (open, missing) = Folder::deepest(folder).map_err(said)?;
    let is = folder.ancestors().nth(missing.components().count());
    let is = is.unwrap_or(folder).display();
    open.may(OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|e| format!("the folder {is}: {e}"))
}

/// New content beside its target, synced, not yet in its place. Dropped, it leaves nothing.
pub(super) struct Staged {
    target: Place,
    temp: OsString,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // In its place it has this name no more.
        let _ = self.target.folder.remove(&self.temp);
    }
}

/// How a commit failed, and what is true of the target then.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Somebody else changed the target: it is as they left it.
    Changed,
    /// The target is as it was.
    NotReplaced(io::Error),
    /// The target has the new content, but a power cut may still undo it.
    NotSynced(io::Error),
}

/// So many names of a file beside its target are tried.
const MAX_TEMP_NAMES: u32 = 1_000;

/// Names begin so, and go on with the hash of what they were to become.
fn temp_prefix(hash: &str) -> String {
    format!(".rewake-{}-", hash.get(..16).unwrap_or(hash))
}

/// `target` is as [`Place::of`] takes it. Folders that are missing are made.
pub(super) fn stage(target: &Path, bytes: &[u8]) -> io::Result<Staged> {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let target = Place {
        folder: make_folders(folder)?,
        name: name.to_os_string(),
        path: target.to_path_buf(),
    };
    let old = match target.kind()? {
        Kind::Regular(stat) => Some(stat),
        Kind::Missing | Kind::Folder | Kind::Special(_) => None,
    };
    // A new file gets what the umask leaves; the successor of an old one is nobody's but
    // ours until it has the old one's mode.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let (mut file, temp) = temp_file(&target.folder, &hash(bytes), Mode::from_raw_mode(mode))?;
    let staged = Staged { target, temp };
    file.write_all(bytes)?;
    if let Some(old) = &old {
        keep_owner_and_mode(&file, old)?;
    }
    file.sync_all()?;
    Ok(staged)
}

/// A new file in the folder, and its name.
fn temp_file(folder: &Folder, hash: &str, mode: Mode) -> io::Result<(File, OsString)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    for _ in 0..MAX_TEMP_NAMES {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{}{process}-{count}.tmp", temp_prefix(hash)));
        match folder.new_file(&name, mode) {
            // Left by a process that had this number before.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, name)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn keep_owner_and_mode(file: &File, old: &Stat) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.st_uid, old.st_gid) {
        // Only root may give a file away; the group can often be kept.
        if rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(gid));
        }
    }
    let mode = Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o777);
    Ok(rustix::fs::fchmod(file, mode)?)
}

impl Staged {
    /// Puts the content in its place if the target still has the hash `before`.
    pub(super) fn commit(self, before: Option<&str>) -> Result<(), CommitError> {
        let Place { folder, name, .. } = &self.target;
        let now = self.target.hash().map_err(CommitError::NotReplaced)?;
        if now.as_deref() != before {
            return Err(CommitError::Changed);
        }
        let renamed = match before {
            None => folder.rename_new(&self.temp, name),
            Some(_) => folder.rename(&self.temp, name),
        };
        renamed.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => CommitError::Changed,
            _ => CommitError::NotReplaced(e),
        })?;
        folder.sync().map_err(CommitError::NotSynced)
    }
}

/// Makes the file's name durable.
pub(super) fn sync_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), |p| Folder::open(p)?.sync())
}

/// The folder of this path; what is missing of it is made, each name durable in its parent.
fn make_folders(path: &Path) -> io::Result<Folder> {
    let (mut folder, missing) = Folder::deepest(path)?;
    for name in &missing {
        match folder.make_folder(name) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        folder.sync()?;
        folder = folder.below(Path::new(name))?;
    }
    Ok(folder)
}

/// Removes what a killed process left beside the target on the way to content `after`.
/// Should another one be writing that same content there just now, its commit fails and
/// says so; nothing is harmed.
pub(super) fn remove_leftovers(target: &Path, after: &str) {
    let prefix = temp_prefix(after);
    let Some(Ok(folder)) = target.parent().map(Folder::open) else {
        return;
    };
    let Ok(names) = folder.names(Path::new("")) else {
        return;
    };
    for entry in names.flatten() {
        let name = entry.file_name().to_bytes();
        if name.starts_with(prefix.as_bytes()) && name.ends_with(b".tmp") {
            let _ = folder.remove(OsStr::from_bytes(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::super::support::{Room, hash as hash_of};
    use super::*;
    use crate::workspace::regular::open;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_replacement_keeps_the_mode() {
        let room = Room::new();
        let path = room.put("run.sh", "old");
        fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
        let staged = stage(&path, b"new").unwrap();
        assert_eq!(room.get("run.sh"), "old");
        staged.commit(Some(&hash_of("old"))).unwrap();
        assert_eq!(room.get("run.sh"), "new");
        assert_eq!(mode(&path), 0o751);
        assert_eq!(room.names(), ["run.sh"]);
    }

    #[test]
    fn a_new_file_has_the_mode_that_any_program_would_give_it() {
        let room = Room::new();
        let theirs = room.put("theirs", "");
        let ours = room.path("ours");
        stage(&ours, b"x").unwrap().commit(None).unwrap();
        assert_eq!(mode(&ours), mode(&theirs));
    }

    #[test]
    fn a_target_that_changed_meanwhile_is_left_alone() {
        let room = Room::new();
        let path = room.put("a", "old");
        let staged = stage(&path, b"new").unwrap();
        room.put("a", "theirs");
        let failed = staged.commit(Some(&hash_of("old")));
        assert!(matches!(failed, Err(CommitError::Changed)));
        let staged = stage(&room.path("b"), b"new").unwrap();
        room.put("b", "theirs");
        assert!(matches!(staged.commit(None), Err(CommitError::Changed)));
        assert_eq!(
            (room.get("a"), room.get("b")),
            ("theirs".into(), "theirs".into())
        );
        assert_eq!(room.names(), ["a", "b"]);
    }

    #[test]
    fn folders_are_made_on_the_way() {
        let room = Room::new();
        let path = room.path("a/b/c");
        stage(&path, b"x").unwrap().commit(None).unwrap();
        assert_eq!(room.get("a/b/c"), "x");
    }

    #[test]
    fn what_cannot_be_replaced_is_known_before() {
        let room = Room::new();
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
        let room = Room::new();
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
        let room = Room::new();
        let path = room.put("a", "12345");
        assert_eq!(load(&path, 5).unwrap(), b"12345");
        assert_eq!(load(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
