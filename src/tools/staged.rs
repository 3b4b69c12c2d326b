//! Replacing a file so that a crash leaves either the old content or the new, and nothing that
//! another program writes into it is lost.
//!
//! The order: a temporary file beside the target is written and synced; the target is checked once
//! more; the two exchange their names; the file that came out is checked; it is removed, and the
//! folder is synced. If the file that came out is not the recorded one, or is open for writing, it
//! gets its name back. All of this happens in one open [`Folder`].
//!
//! The new file gets the permission bits of the old one (not setuid and setgid, which a write
//! clears too), its extended attributes and ACL, and its owner if the kernel allows it. Other names
//! of the old file (hard links) keep the old content, since a name is replaced and not an inode;
//! the result says so.
//!
//! A temporary file ends in `.tmp` and contains nobody else's data. Before the exchange it gets the
//! ending `.out`, and may then contain the file that came out. On a file system that cannot
//! exchange names (NFS, CIFS, 9p, many of FUSE), data written between the check and the rename is
//! lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use super::file::{FolderEntry, Kind, hash};
use crate::workspace::attributes::copy_attributes;
use crate::workspace::beside::move_to_free_name;
use crate::workspace::handle::{Folder, try_mode};
use crate::workspace::writers::{has_writer, is_open_for_writing};

/// Ending of a temporary file, which contains nobody else's data.
const TEMP: &str = ".tmp";
/// Ending of a complete file. After an exchange it is the target's old file.
const OUT: &str = ".out";

/// Maximum number of names that are tried for a temporary file.
const MAX_TEMP_NAMES: u32 = 1_000;

/// New content beside its target, synced, not yet under the target's name. Dropping it removes it.
pub(super) struct Staged {
    target: FolderEntry,
    beside: OsString,
    after: String,
    loss: Loss,
}

/// The properties that a file lost when it was replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// Whether the file has another owner or group than before.
    pub owner: bool,
    /// Number of names that still have the old content.
    pub hard_links: u64,
    /// Extended attributes that could not be copied.
    pub attributes: Vec<String>,
    /// Whether the file has other permission bits than before.
    pub mode: bool,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Under another name, it may be somebody else's file.
        if self.beside.as_bytes().ends_with(TEMP.as_bytes()) {
            let _ = self.target.folder().remove(&self.beside);
        }
    }
}

/// The reason why a commit failed, and the state of the target.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Somebody else changed the target, which is as they left it. When two did, the first one's
    /// file is beside it, under this name.
    Changed(Option<String>),
    /// Somebody has the target open for writing. It is unchanged.
    Open,
    /// The target is unchanged.
    NotReplaced(io::Error),
    /// The target has the new content, but a power cut may still undo it.
    NotSynced(io::Error),
}

/// Returns the prefix of temporary names: it contains the hash of the new content.
fn prefix(hash: &str) -> String {
    format!(".rewake-{}-", hash.get(..16).unwrap_or(hash))
}

/// Writes new content beside `target`, a path that [`FolderEntry::of`] accepts. Creates missing folders.
pub(super) fn stage(target: &Path, bytes: &[u8]) -> io::Result<Staged> {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let target = FolderEntry::in_folder(make_folders(folder)?, name, target);
    let old = match target.kind()? {
        Kind::Regular(stat) => Some(stat),
        Kind::Missing | Kind::Folder | Kind::Special(_) => None,
    };
    // A new file gets the mode that the umask leaves. The replacement of an old file is private
    // until it has the old file's mode.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let after = hash(bytes);
    let (mut file, beside) = temp_file(target.folder(), &after, Mode::from_raw_mode(mode))?;
    let mut staged = Staged {
        target,
        beside,
        after,
        loss: Loss::default(),
    };
    file.write_all(bytes)?;
    if let Some(stat) = &old {
        let mode = Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777);
        staged.loss = staged.resemble(&file, stat, mode)?;
        if staged.loss.mode {
            // Where no mode can be changed, a new file may still be given one.
            let folder = staged.target.folder();
            folder.remove(&staged.beside)?;
            file = folder.new_file(&staged.beside, mode)?;
            file.write_all(bytes)?;
            staged.loss = staged.resemble(&file, stat, mode)?;
        }
    }
    file.sync_all()?;
    Ok(staged)
}

#[allow(
    clippy::unnecessary_cast,
    reason = "it has another type on other systems"
)]
fn hard_links(stat: &Stat) -> u64 {
    (stat.st_nlink as u64).saturating_sub(1)
}

/// Creates a temporary file in the folder and returns it with its name.
fn temp_file(folder: &Folder, hash: &str, mode: Mode) -> io::Result<(File, OsString)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    for _ in 0..MAX_TEMP_NAMES {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{}{process}-{count}{TEMP}", prefix(hash)));
        match folder.new_file(&name, mode) {
            // Left by an earlier process with this pid.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, name)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Gives the file the owner and the group of the old one. Returns whether it has both.
fn copy_owner(file: &File, old: &Stat) -> io::Result<bool> {
    let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    let is_same = || {
        let new = file.metadata()?;
        io::Result::Ok((new.uid(), new.gid()) == (old.st_uid, old.st_gid))
    };
    // Only root may change the owner; the group can often be kept.
    if !is_same()? && rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
        let _ = rustix::fs::fchown(file, None, Some(gid));
    }
    is_same()
}

impl Staged {
    /// Gives the new file the properties of the old one. Returns those that it did not get.
    fn resemble(&self, file: &File, old: &Stat, mode: Mode) -> io::Result<Loss> {
        Ok(Loss {
            owner: !copy_owner(file, old)?,
            hard_links: hard_links(old),
            attributes: copy_attributes(&self.target.open()?, file)?,
            mode: !try_mode(file, mode)?,
        })
    }

    /// Replaces the target if it still has the hash `before` and nobody has it open for writing.
    pub(super) fn commit(self, before: Option<&str>) -> Result<Loss, CommitError> {
        self.commit_with(before, || {})
    }

    /// Does the same, and calls `in_place` as soon as the new content has the target's name.
    fn commit_with(
        mut self,
        before: Option<&str>,
        in_place: impl FnOnce(),
    ) -> Result<Loss, CommitError> {
        let now = self.target.hash().map_err(CommitError::NotReplaced)?;
        if now.as_deref() != before {
            return Err(CommitError::Changed(None));
        }
        match before {
            None => {
                let named = self
                    .target
                    .folder()
                    .rename_new(&self.beside, self.target.name());
                named.map_err(|e| match e.kind() {
                    ErrorKind::AlreadyExists => CommitError::Changed(None),
                    _ => CommitError::NotReplaced(e),
                })?;
            }
            Some(before) => self.replace(before, in_place)?,
        }
        self.target
            .folder()
            .sync()
            .map_err(CommitError::NotSynced)?;
        Ok(std::mem::take(&mut self.loss))
    }

    fn replace(&mut self, before: &str, in_place: impl FnOnce()) -> Result<(), CommitError> {
        let failed = CommitError::NotReplaced;
        if has_writer(&self.target.open().map_err(failed)?) {
            return Err(CommitError::Open);
        }
        let beside = self.as_out().map_err(failed)?;
        let (folder, name) = (self.target.folder(), self.target.name());
        match folder.exchange(&beside, folder, name) {
            Ok(()) => in_place(),
            Err(e) => {
                let placed = match cannot_exchange(&e) {
                    true => folder.rename(&beside, name),
                    false => Err(e),
                };
                return placed.map_err(|e| {
                    let _ = folder.remove(&beside);
                    match e.kind() {
                        ErrorKind::NotFound => CommitError::Changed(None),
                        _ => CommitError::NotReplaced(e),
                    }
                });
            }
        }
        let out = Out {
            target: &self.target,
            name: &beside,
        };
        match out.is_spare(&[before]) {
            Ok(None) => {
                // The target is replaced, even if this fails.
                let _ = folder.remove(&beside);
                Ok(())
            }
            found => {
                let kept = out.give_back(&self.after).map_err(failed)?;
                match (found, kept) {
                    (Ok(Some(KeepReason::Open)), None) => Err(CommitError::Open),
                    (Err(e), None) => Err(CommitError::NotReplaced(e)),
                    (_, kept) => Err(CommitError::Changed(kept)),
                }
            }
        }
    }

    /// Gives the temporary file the ending of a file that may take part in an exchange.
    fn as_out(&mut self) -> io::Result<OsString> {
        let bytes = self.beside.as_bytes();
        let stem = bytes.strip_suffix(TEMP.as_bytes()).unwrap_or(bytes);
        let out = OsString::from_vec([stem, OUT.as_bytes()].concat());
        self.target.folder().rename(&self.beside, &out)?;
        self.beside.clone_from(&out);
        Ok(out)
    }
}

/// Returns whether the file system, and not this file, is the cause of the error.
fn cannot_exchange(error: &io::Error) -> bool {
    let unable = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP];
    unable
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The reason why the file that came out of an exchange must not be removed.
enum KeepReason {
    Changed,
    Open,
}

/// The file under a name that ends in [`OUT`], beside its target.
struct Out<'a> {
    target: &'a FolderEntry,
    name: &'a OsStr,
}

impl Out<'_> {
    /// Returns `None` when the file has one of these hashes and nobody can write into it: it may be
    /// removed.
    fn is_spare(&self, hashes: &[&str]) -> io::Result<Option<KeepReason>> {
        let file = self.target.open_sibling(self.name)?;
        // Checked before the hash: in the other order, somebody could write after the hash is
        // computed and close the file before this check.
        if is_open_for_writing(&file) {
            return Ok(Some(KeepReason::Open));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        let now = hasher.finalize().to_hex();
        match hashes.contains(&now.as_str()) {
            true => Ok(None),
            false => Ok(Some(KeepReason::Changed)),
        }
    }

    /// Gives the file its name back. When somebody also changed the file that has the name now,
    /// which had the hash `after`, that one stays. This file is then beside it, under the returned
    /// name.
    fn give_back(&self, after: &str) -> io::Result<Option<String>> {
        let (folder, name) = (self.target.folder(), self.target.name());
        match folder.exchange(self.name, folder, name) {
            Ok(()) => {}
            // Somebody removed the target meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match folder.move_new(self.name, folder, name) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                        return self.keep_under_other_name();
                    }
                    moved => moved?,
                }
                folder.sync()?;
                return Ok(None);
            }
            Err(_) => return self.keep_under_other_name(),
        }
        if let Ok(None) = self.is_spare(&[after]) {
            folder.remove(self.name)?;
            folder.sync()?;
            return Ok(None);
        }
        // The newer of the two keeps the name.
        folder.exchange(self.name, folder, name)?;
        self.keep_under_other_name()
    }

    fn keep_under_other_name(&self) -> io::Result<Option<String>> {
        let folder = self.target.folder();
        let beside = move_to_free_name(folder, self.name, folder, self.target.name())?;
        Ok(Some(beside.to_string_lossy().into_owned()))
    }
}

/// Opens the folder of this path. Creates missing folders, each name durable in its parent.
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

/// Removes the files that a killed process left beside the target, which was to change from one
/// hash to the other. A file that came out of an exchange and belongs to somebody else gets its
/// name back, or stays beside the target under the returned name. If another process writes the
/// same content right now, its commit fails with an error; nothing is lost.
pub(super) fn settle_leftovers(
    target: &Path,
    before: Option<&str>,
    after: &str,
) -> io::Result<Option<String>> {
    let prefix = prefix(after);
    let Some(target) = FolderEntry::of(target)? else {
        return Ok(None);
    };
    let mut kept = None;
    for entry in target.folder().names(Path::new(""))?.flatten() {
        let name = entry.file_name().to_bytes();
        if !name.starts_with(prefix.as_bytes()) {
            continue;
        }
        let name = OsStr::from_bytes(name);
        if name.as_bytes().ends_with(TEMP.as_bytes()) {
            let _ = target.folder().remove(name);
        } else if name.as_bytes().ends_with(OUT.as_bytes()) {
            let out = Out {
                target: &target,
                name,
            };
            let spare: Vec<&str> = before.into_iter().chain([after]).collect();
            match out.is_spare(&spare)? {
                None => target.folder().remove(name)?,
                Some(_) => kept = kept.or(out.give_back(after)?),
            }
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
