//! Staging of the files of a restore, before anything is changed.
//!
//! All of them are staged in one folder in the workspace's root. A file on another file system is
//! staged beside its path, and so are all if the root is not writable. A name that ends in `.part`
//! is incomplete and has nobody else's data. Any other is complete and synced before it is placed,
//! and may be the file that came out of an exchange.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use super::{Contents, Done, Job, RestoreRoot, is_absent, is_folder, slot, staged_folder, why};
use crate::core::entry::KeptWhy;
use crate::core::path;
use crate::core::tree::{Item, PathBytes};
use crate::workspace::files::clock::device;
use crate::workspace::files::cover::STAGED;
use crate::workspace::handle::{Folder, try_mode};

/// Number of files from which one sync of the file system is faster than one for each file.
const MANY: usize = 64;

/// Two temporary names, with which the exchange is tried.
const TRIED: [&str; 2] = [".rewake-restore-tried-1", ".rewake-restore-tried-2"];

/// The staging folder.
pub(super) struct Bench {
    root: Folder,
    name: OsString,
    folder: Folder,
    device: u64,
    /// It existed, which means that a restore was interrupted.
    pub(super) is_left: bool,
    /// Whether the file system can exchange two names.
    can_exchange: bool,
    /// Whether names that differ only in case are the same.
    folds_case: bool,
}

impl Bench {
    /// Opens the folder. `None`: the root is not writable.
    pub(super) fn open(root: &Folder, path: &Path, id: &str) -> io::Result<Option<Bench>> {
        #[cfg(test)]
        if NO_BENCH.get() {
            return Ok(None);
        }
        let name = OsString::from(staged_folder(id));
        let is_left = match rustix::fs::mkdirat(root.as_fd(), &name, Mode::from_raw_mode(0o700)) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let stat = root.stat(&name)?;
        if !is_folder(&stat) || stat.st_uid != rustix::process::geteuid().as_raw() {
            let path = path.join(&name);
            let why = format!("{} is in the way", path.display());
            return Err(io::Error::other(why));
        }
        let folder = root.below(Path::new(&name))?;
        let upper = name.to_string_lossy().to_uppercase();
        let bench = Bench {
            can_exchange: can_exchange(&folder),
            folds_case: root.stat(OsStr::new(&upper)).is_ok(),
            root: root.below(Path::new(""))?,
            device: device(&stat),
            is_left,
            name,
            folder,
        };
        Ok(Some(bench))
    }

    /// Removes the staged files, except those of somebody else.
    pub(super) fn clear(&self) {
        for (name, _) in self.folder.list().unwrap_or_default() {
            if name.as_bytes().ends_with(PART.as_bytes()) {
                let _ = self.folder.remove(&name);
            }
        }
        let _ = self.root.remove_folder(&self.name);
        let _ = self.root.sync();
    }
}

#[cfg(test)]
thread_local! {
    /// Simulates a file system that cannot exchange names (NFS, CIFS, 9p, many of FUSE).
    pub(super) static NO_EXCHANGE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    /// Simulates a root that belongs to another user.
    pub(super) static NO_BENCH: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn can_exchange(folder: &Folder) -> bool {
    #[cfg(test)]
    if NO_EXCHANGE.get() {
        return false;
    }
    let [one, other] = TRIED.map(OsStr::new);
    for name in [one, other] {
        let _ = folder.remove(name);
        if folder.make_link(name, name).is_err() {
            return false;
        }
    }
    let can = folder.exchange(one, folder, other).is_ok();
    for name in [one, other] {
        let _ = folder.remove(name);
    }
    can
}

/// Ending of an incomplete file.
const PART: &str = ".part";
/// Ending of a file that was moved away to be removed.
const OUT: &str = ".out";

/// The staging place of one path.
pub(super) struct StagingPlace {
    pub(super) folder: Folder,
    pub(super) staged: OsString,
    pub(super) out: OsString,
    part: OsString,
    is_beside: bool,
}

impl RestoreRoot<'_> {
    /// Returns the staging place of a path. `make` as for [`RestoreRoot::spot`].
    pub(super) fn slot(&self, path: &PathBytes, make: bool) -> io::Result<StagingPlace> {
        let name = slot(path);
        let spot = self.spot(path, make);
        let is_there = |bench: &&Bench| match &spot {
            Ok(spot) => {
                let stat = spot.folder.stat(OsStr::new("."));
                stat.is_ok_and(|stat| device(&stat) == bench.device)
            }
            Err(_) => self.below(path).is_some(),
        };
        let (folder, name, is_beside) = match self.bench.as_ref().filter(is_there) {
            Some(bench) => (bench.folder.below(Path::new(""))?, name, false),
            None => (spot?.folder, format!("{STAGED}{name}"), true),
        };
        Ok(StagingPlace {
            folder,
            out: OsString::from(format!("{name}{OUT}")),
            part: OsString::from(format!("{name}{PART}")),
            staged: OsString::from(name),
            is_beside,
        })
    }

    /// Stages all files that will be written. Removes the jobs of paths that must stay unchanged.
    ///
    /// # Errors
    /// The reason why nothing can be restored.
    pub(super) fn stage(
        &mut self,
        jobs: &mut Vec<Job>,
        content: &mut Contents<'_>,
        done: &mut Done,
    ) -> Result<(), String> {
        if self.bench.as_ref().is_some_and(|bench| bench.folds_case) {
            without_other_case(jobs, done);
        }
        let files = jobs.iter().filter(|job| job.target.is_some()).count();
        let sync_each = files < MANY || !cfg!(target_os = "linux");
        let mut laid_out: Vec<Job> = Vec::with_capacity(jobs.len());
        for job in std::mem::take(jobs) {
            match self.lay_out(&job, content, sync_each) {
                Ok(None) => laid_out.push(job),
                Ok(Some(why)) => {
                    done.kept.insert(job.path, why);
                }
                Err(why) => {
                    self.take_up(&laid_out);
                    return Err(why);
                }
            }
        }
        let synced = self.complete(&mut laid_out, sync_each, done);
        if let Err(error) = synced {
            self.take_up(&laid_out);
            return Err(cannot_stage(&error));
        }
        *jobs = laid_out;
        Ok(())
    }

    /// Stages one file. Nothing stays open: a restore may have more files than this process may
    /// open. Returns the reason if the path must stay unchanged.
    fn lay_out(
        &self,
        job: &Job,
        content: &mut Contents<'_>,
        sync: bool,
    ) -> Result<Option<KeptWhy>, String> {
        let Some(target) = &job.target else {
            return Ok(None);
        };
        let bytes = match target {
            Item::File { hash, .. } => match content(hash)? {
                Some(bytes) => Some(bytes),
                None => return Ok(Some(KeptWhy::Lost)),
            },
            Item::Link { .. } | Item::Marker { .. } => None,
        };
        // No folder is created in the workspace before everything is staged, unless in it.
        let make = self.bench.is_none() || self.below(&job.path).is_none();
        let slot = match self.slot(&job.path, make) {
            Ok(slot) => slot,
            // The folders of the path changed.
            Err(e) => return Ok(Some(why(&e))),
        };
        let written = match (target, &bytes) {
            (Item::File { mode, .. }, Some(bytes)) => slot
                .write(*mode, bytes, sync)
                .map(|has_mode| self.refuses_mode.set(self.refuses_mode.get() || !has_mode)),
            (Item::Link { target }, _) => slot.link(target),
            _ => Ok(()),
        };
        match written {
            Ok(()) => Ok(None),
            Err(e) if slot.is_beside => {
                let _ = slot.folder.remove(&slot.part);
                Ok(Some(why(&e)))
            }
            Err(e) => Err(cannot_stage(&e)),
        }
    }

    /// Syncs all staged files, and then gives them their final names. Removes the jobs of files
    /// that are not there any more, since the folders of their paths changed.
    fn complete(&self, jobs: &mut Vec<Job>, is_synced: bool, done: &mut Done) -> io::Result<()> {
        let bench = self.bench.as_ref().map(|bench| &bench.folder);
        if let (Some(folder), false) = (bench, is_synced) {
            sync_all(folder)?;
        }
        let mut gone = BTreeSet::new();
        let is_file = |job: &&Job| matches!(job.target, Some(Item::File { .. }));
        for job in jobs.iter().filter(is_file) {
            let slot = self.slot(&job.path, false)?;
            match slot.folder.rename(&slot.part, &slot.staged) {
                Err(e) if is_absent(&e) => {
                    gone.insert(job.path.clone());
                }
                renamed => renamed?,
            }
            if slot.is_beside {
                slot.folder.sync()?;
            }
        }
        jobs.retain(|job| !gone.contains(&job.path));
        done.kept
            .extend(gone.into_iter().map(|path| (path, KeptWhy::Way)));
        bench.map_or(Ok(()), Folder::sync)
    }

    /// Returns whether the file system of a staging place can exchange two names.
    pub(super) fn can_exchange(&self, slot: &StagingPlace) -> bool {
        let bench = self.bench.as_ref();
        bench.map_or_else(|| can_exchange(&slot.folder), |bench| bench.can_exchange)
    }

    /// Removes all staged files: nothing was placed, so they are rewake's own.
    fn take_up(&self, jobs: &[Job]) {
        for job in jobs.iter().filter(|job| job.target.is_some()) {
            if let Ok(slot) = self.slot(&job.path, false) {
                let _ = slot.folder.remove(&slot.part);
                let _ = slot.folder.remove(&slot.staged);
            }
        }
    }
}

fn cannot_stage(error: &io::Error) -> String {
    format!("what is set back cannot be laid out: {error}")
}

impl StagingPlace {
    /// Returns whether the file got its mode.
    fn write(&self, mode: u16, bytes: &[u8], sync: bool) -> io::Result<bool> {
        let mode = Mode::from_raw_mode((mode & 0o777).into());
        let new = |mode| {
            self.remove_part();
            let mut file = self.folder.new_file(&self.part, mode)?;
            file.write_all(bytes)?;
            Ok::<File, io::Error>(file)
        };
        let mut file = new(Mode::from_raw_mode(0o600))?;
        let mut has_mode = try_mode(&file, mode)?;
        if !has_mode {
            // Where no mode can be changed, a new file may still be given one.
            file = new(mode)?;
            has_mode = try_mode(&file, mode)?;
        }
        // A file that is staged beside its path is on another file system than the one that is
        // synced as a whole.
        if sync || self.is_beside {
            file.sync_all()?;
        }
        Ok(has_mode)
    }

    fn link(&self, target: &[u8]) -> io::Result<()> {
        self.folder
            .make_link(OsStr::from_bytes(target), &self.staged)
    }

    /// Gives the staged file the owner of the old one, if the kernel allows it.
    pub(super) fn copy_owner(&self, old: &Stat) {
        let Ok(new) = self.folder.stat(&self.staged) else {
            return;
        };
        if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid) {
            return;
        }
        let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let own =
            |uid| rustix::fs::chownat(self.folder.as_fd(), &self.staged, uid, Some(gid), flags);
        // Only root may change the owner; the group can often be kept.
        if own(Some(uid)).is_err() {
            let _ = own(None);
        }
    }

    /// Removes an incomplete staged file.
    pub(super) fn remove_part(&self) {
        let _ = self.folder.remove(&self.part);
    }
}

#[cfg(target_os = "linux")]
fn sync_all(folder: &Folder) -> io::Result<()> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let opened = rustix::fs::openat(folder.as_fd(), ".", flags, Mode::empty())?;
    Ok(rustix::fs::syncfs(File::from(opened))?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_: &Folder) -> io::Result<()> {
    Ok(())
}

/// Removes the jobs of names that differ only in case, if the file system treats them as one.
fn without_other_case(jobs: &mut Vec<Job>, done: &mut Done) {
    let folded = |path: &PathBytes| path::fold(&String::from_utf8_lossy(path));
    let mut times = std::collections::BTreeMap::new();
    for job in jobs.iter() {
        *times.entry(folded(&job.path)).or_insert(0_u32) += 1;
    }
    jobs.retain(|job| {
        let is_alone = times.get(&folded(&job.path)) == Some(&1);
        if !is_alone {
            done.kept.insert(job.path.clone(), KeptWhy::Case);
        }
        is_alone
    });
}
