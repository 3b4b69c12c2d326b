//! Files as wholes: opened without blocking, hashed, and replaced so that a crash leaves
//! either the old content or the new.
//!
//! The order of a replacement: a file beside, written and synced; the target looked at once
//! more; rename; the folder synced. What is kept: the permission bits (not setuid and
//! setgid, which a write takes away too), and the owner where the kernel lets us. What is
//! not: extended attributes, ACLs, and the other names of a file with hard links, which go
//! on naming the old content, since a rename replaces a name and not an inode.
//!
//! Invariant: nothing here is ever opened that is not a regular file, so nothing blocks on
//! a FIFO or wakes a device.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Gid, OFlags, Uid};
use tempfile::NamedTempFile;

use crate::config::IN_USE;
use crate::store::database;

/// Files over this are not edited or overwritten as a whole.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

pub(super) enum Kind {
    Missing,
    Folder,
    Regular(Metadata),
    /// With its name for people.
    Special(&'static str),
}

pub(super) fn kind(path: &Path) -> io::Result<Kind> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Kind::Missing),
        Err(e) => return Err(e),
    };
    let of = metadata.file_type();
    Ok(if of.is_dir() {
        Kind::Folder
    } else if of.is_file() {
        Kind::Regular(metadata)
    } else if of.is_fifo() {
        Kind::Special("a FIFO")
    } else if of.is_socket() {
        Kind::Special("a socket")
    } else {
        Kind::Special("a device")
    })
}

/// Opens a regular file for reading. Without blocking, should it just have become a FIFO. The
/// open session store is never opened: see [`database`].
pub(super) fn open(path: &Path) -> io::Result<File> {
    if database::is_open_here(path) {
        return Err(io::Error::other(IN_USE));
    }
    let file = File::options()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The hash of the file's content; `None` when there is no file. Memory stays flat.
pub(super) fn hash_at(path: &Path) -> io::Result<Option<String>> {
    match kind(path)? {
        Kind::Missing => Ok(None),
        Kind::Folder => Err(io::Error::other("it is a folder")),
        Kind::Special(what) => Err(io::Error::other(format!("it is {what}"))),
        Kind::Regular(_) => {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(open(path)?)?;
            Ok(Some(hasher.finalize().to_hex().to_string()))
        }
    }
}

/// The whole content, or `FileTooLarge` when it is over `max_bytes`.
pub fn load(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Why the file (or, for a new one, its folder) cannot be replaced; `Ok` when it can.
pub(super) fn replaceable(path: &Path) -> Result<(), String> {
    match kind(path) {
        Err(e) => return Err(e.to_string()),
        Ok(Kind::Folder) => return Err("it is a folder".to_string()),
        Ok(Kind::Special(what)) => return Err(format!("it is {what}")),
        Ok(Kind::Regular(metadata)) => {
            let mode = metadata.mode() & 0o777;
            // Said also to root, who could: the mode is somebody's wish.
            if mode & 0o222 == 0 {
                return Err(format!("it is read-only (mode {mode:04o})"));
            }
            rustix::fs::access(path, Access::WRITE_OK)
                .map_err(|e| io::Error::from(e).to_string())?;
        }
        Ok(Kind::Missing) => {}
    }
    let Some(folder) = path.ancestors().skip(1).find(|p| p.exists()) else {
        return Err("it has no folder".to_string());
    };
    if !folder.is_dir() {
        return Err(format!("{} is not a folder", folder.display()));
    }
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|e| format!("the folder {}: {}", folder.display(), io::Error::from(e)))
}

/// New content beside its target, synced, not yet in its place. Dropped, it leaves nothing.
pub(super) struct Staged {
    temp: NamedTempFile,
    target: PathBuf,
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

/// Names begin so, and go on with the hash of what they were to become.
fn temp_prefix(hash: &str) -> String {
    format!(".rewake-{}-", hash.get(..16).unwrap_or(hash))
}

pub(super) fn stage(target: &Path, bytes: &[u8]) -> io::Result<Staged> {
    let folder = target.parent().ok_or(ErrorKind::InvalidInput)?;
    make_folders(folder)?;
    let old = match kind(target)? {
        Kind::Regular(metadata) => Some(metadata),
        Kind::Missing | Kind::Folder | Kind::Special(_) => None,
    };
    // A new file gets what the umask leaves; the successor of an old one is nobody's but
    // ours until it has the old one's mode.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let mut temp = tempfile::Builder::new()
        .prefix(&temp_prefix(&hash(bytes)))
        .suffix(".tmp")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    temp.write_all(bytes)?;
    if let Some(old) = &old {
        keep_owner_and_mode(temp.as_file(), old)?;
    }
    temp.as_file().sync_all()?;
    Ok(Staged {
        temp,
        target: target.to_path_buf(),
    })
}

fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        // Only root may give a file away; the group can often be kept.
        if rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(gid));
        }
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

impl Staged {
    /// Puts the content in its place if the target still has the hash `before`.
    pub(super) fn commit(self, before: Option<&str>) -> Result<(), CommitError> {
        let now = hash_at(&self.target).map_err(CommitError::NotReplaced)?;
        if now.as_deref() != before {
            return Err(CommitError::Changed);
        }
        if before.is_none() {
            // Not every file system can refuse to overwrite; those that can, do.
            match self.temp.persist_noclobber(&self.target) {
                Ok(_) => return sync_parent(&self.target).map_err(CommitError::NotSynced),
                Err(e) if e.error.kind() == ErrorKind::AlreadyExists => {
                    return Err(CommitError::Changed);
                }
                Err(e) => persist(e.file, &self.target)?,
            }
        } else {
            persist(self.temp, &self.target)?;
        }
        sync_parent(&self.target).map_err(CommitError::NotSynced)
    }
}

fn persist(temp: NamedTempFile, target: &Path) -> Result<(), CommitError> {
    match temp.persist(target) {
        Ok(_) => Ok(()),
        Err(e) => Err(CommitError::NotReplaced(e.error)),
    }
}

/// Makes the file's name durable.
pub(super) fn sync_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network file systems have no sync of folders; there is nothing more to do.
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Makes the folders that are missing, each one's name made durable in its parent.
fn make_folders(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|p| !p.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        if let Some(parent) = folder.parent() {
            sync_folder(parent)?;
        }
    }
    Ok(())
}

/// Removes what a killed process left beside the target on the way to content `after`.
/// Should another one be writing that same content there just now, its commit fails and
/// says so; nothing is harmed.
pub(super) fn remove_leftovers(target: &Path, after: &str) {
    let prefix = temp_prefix(after);
    let Some(Ok(entries)) = target.parent().map(Path::read_dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{Room, hash as hash_of};
    use super::*;

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
