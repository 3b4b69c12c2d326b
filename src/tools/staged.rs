//! Replacing a file so that a crash leaves either the old content or the new, and nothing that
//! another program writes into it is lost.
//!
//! The order: a file beside, written and synced; the target looked at once more; the two exchange
//! their names; what came out is looked at; it is removed, and the folder synced. What came out and
//! is not what was recorded, or is open for writing, gets its name back. All of it happens in one
//! open [`Folder`].
//!
//! The new file gets the permission bits of the old one (not setuid and setgid, which a write takes
//! away too), its extended attributes and ACL, and its owner where the kernel lets us. Other names
//! of the old file (hard links) go on naming the old content, since a name is replaced and not an
//! inode: the result says so.
//!
//! A file beside ends in `.tmp`, and holds nothing of anybody's. Before the exchange it gets the end
//! `.out`, and may hold what came out. On a file system that cannot exchange names (NFS, CIFS, 9p,
//! many of FUSE), what is written between the look and the rename is lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use super::file::{Kind, Place, hash};
use crate::workspace::attributes::copy_attributes;
use crate::workspace::beside::lay_beside;
use crate::workspace::handle::Folder;
use crate::workspace::writers::{has_writer, is_open_for_writing};

/// Holds nothing of anybody's.
const TEMP: &str = ".tmp";
/// Is complete, and may hold what came out of an exchange.
const OUT: &str = ".out";

/// So many names of a file beside its target are tried.
const MAX_TEMP_NAMES: u32 = 1_000;

/// New content beside its target, synced, not yet in its place. Dropped, it leaves nothing.
pub(super) struct Staged {
    target: Place,
    beside: OsString,
    after: String,
    loss: Loss,
}

/// What a file lost when it was replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// Names that still stand for the old content.
    pub hard_links: u64,
    /// Extended attributes that could not be copied.
    pub attributes: Vec<String>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Once it has another name, it is not ours to remove.
        if self.beside.as_bytes().ends_with(TEMP.as_bytes()) {
            let _ = self.target.folder().remove(&self.beside);
        }
    }
}

/// How a commit failed, and what is true of the target then.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Somebody else changed the target: it is as they left it. When two did, what the first left
    /// lies beside it, under this name.
    Changed(Option<String>),
    /// Somebody has the target open for writing. It is as it was.
    Open,
    /// The target is as it was.
    NotReplaced(io::Error),
    /// The target has the new content, but a power cut may still undo it.
    NotSynced(io::Error),
}

/// Names begin so, and go on with the hash of what they were to become.
fn prefix(hash: &str) -> String {
    format!(".rewake-{}-", hash.get(..16).unwrap_or(hash))
}

/// `target` is as [`Place::of`] takes it. Folders that are missing are made.
pub(super) fn stage(target: &Path, bytes: &[u8]) -> io::Result<Staged> {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let target = Place::in_folder(make_folders(folder)?, name, target);
    let old = match target.kind()? {
        Kind::Regular(stat) => Some(stat),
        Kind::Missing | Kind::Folder | Kind::Special(_) => None,
    };
    // A new file gets what the umask leaves; the successor of an old one is nobody's but
    // ours until it has the old one's mode.
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
        keep_owner(&file, stat)?;
        staged.loss = Loss {
            hard_links: hard_links(stat),
            attributes: copy_attributes(&staged.target.open()?, &file)?,
        };
        let mode = Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777);
        rustix::fs::fchmod(&file, mode)?;
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

/// A new file in the folder, and its name.
fn temp_file(folder: &Folder, hash: &str, mode: Mode) -> io::Result<(File, OsString)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    for _ in 0..MAX_TEMP_NAMES {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{}{process}-{count}{TEMP}", prefix(hash)));
        match folder.new_file(&name, mode) {
            // Left by a process that had this number before.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, name)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn keep_owner(file: &File, old: &Stat) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.st_uid, old.st_gid) {
        // Only root may give a file away; the group can often be kept.
        if rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(gid));
        }
    }
    Ok(())
}

impl Staged {
    /// Puts the content in its place if the target still has the hash `before`, and nobody has it
    /// open for writing.
    pub(super) fn commit(self, before: Option<&str>) -> Result<Loss, CommitError> {
        self.commit_with(before, || {})
    }

    /// `in_place` is called when the new content has its name.
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
                // It is replaced, whatever becomes of this.
                let _ = folder.remove(&beside);
                Ok(())
            }
            found => {
                let kept = out.give_back(&self.after).map_err(failed)?;
                match (found, kept) {
                    (Ok(Some(Somebodys::Open)), None) => Err(CommitError::Open),
                    (Err(e), None) => Err(CommitError::NotReplaced(e)),
                    (_, kept) => Err(CommitError::Changed(kept)),
                }
            }
        }
    }

    /// Gives the file beside the name under which it may hold what came out.
    fn as_out(&mut self) -> io::Result<OsString> {
        let bytes = self.beside.as_bytes();
        let stem = bytes.strip_suffix(TEMP.as_bytes()).unwrap_or(bytes);
        let out = OsString::from_vec([stem, OUT.as_bytes()].concat());
        self.target.folder().rename(&self.beside, &out)?;
        self.beside.clone_from(&out);
        Ok(out)
    }
}

/// The file system, and not this file, is why.
fn cannot_exchange(error: &io::Error) -> bool {
    let unable = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP];
    unable
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Why what came out of an exchange is not to be removed.
enum Somebodys {
    Changed,
    Open,
}

/// What lies under a name that ends in [`OUT`], beside its target.
struct Out<'a> {
    target: &'a Place,
    name: &'a OsStr,
}

impl Out<'_> {
    /// `None` when it has one of these hashes and nobody can write into it: it may be removed.
    fn is_spare(&self, hashes: &[&str]) -> io::Result<Option<Somebodys>> {
        let file = self.target.open_beside(self.name)?;
        // The other way round, somebody could write after the look and before they close it.
        if is_open_for_writing(&file) {
            return Ok(Some(Somebodys::Open));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        let now = hasher.finalize().to_hex();
        match hashes.contains(&now.as_str()) {
            true => Ok(None),
            false => Ok(Some(Somebodys::Changed)),
        }
    }

    /// Gives it its name back. When somebody also changed what has the name now, which had the
    /// hash `after`, that stays, and this lies beside it: under the name that is returned.
    fn give_back(&self, after: &str) -> io::Result<Option<String>> {
        let (folder, name) = (self.target.folder(), self.target.name());
        match folder.exchange(self.name, folder, name) {
            Ok(()) => {}
            // Somebody removed it meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match folder.move_new(self.name, folder, name) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => return self.lay_beside(),
                    moved => moved?,
                }
                folder.sync()?;
                return Ok(None);
            }
            Err(_) => return self.lay_beside(),
        }
        if let Ok(None) = self.is_spare(&[after]) {
            folder.remove(self.name)?;
            folder.sync()?;
            return Ok(None);
        }
        // The newer of the two has the name.
        folder.exchange(self.name, folder, name)?;
        self.lay_beside()
    }

    fn lay_beside(&self) -> io::Result<Option<String>> {
        let folder = self.target.folder();
        let beside = lay_beside(folder, self.name, folder, self.target.name())?;
        Ok(Some(beside.to_string_lossy().into_owned()))
    }
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

/// Clears away what a killed process left beside the target, which was to go from one hash to the
/// other. What came out of an exchange and is somebody's gets its name back, or lies beside the
/// target under the name that is returned. Should another process be writing that same content
/// there just now, its commit fails and says so; nothing is harmed.
pub(super) fn settle_leftovers(
    target: &Path,
    before: Option<&str>,
    after: &str,
) -> io::Result<Option<String>> {
    let prefix = prefix(after);
    let Some(target) = Place::of(target)? else {
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
