//! The scan that finds the changes in a workspace since the last one.
//!
//! The stamp of every covered path is checked. The file is read only when the stamp differs or
//! proves nothing ([`super::cache`]). A folder whose own stamp is the same is not listed again, and
//! the ignore rules are read only where a folder is listed.
//!
//! Invariant: a state of a path is in the cache exactly when it was reported, so the next scan
//! completes an interrupted one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::cache::{Cache, CachedName, FileState, FolderState, Stamp, joined};
use super::cover::Coverage;
use super::read::{self, ReadResult, bare};
use super::watch::{Dirty, Watch};
use crate::core::tree::{Change, ContentHash, Item, Marked, PathBytes};
use crate::workspace::handle::Folder;
use part::PartialScan;
use rules::{Rules, collect_excludes, rules_above};

pub use one::one;

mod names;
mod one;
mod part;
mod rules;

/// Maximum depth. Each open folder uses a descriptor; a deeper one is only a marker.
const MAX_DEPTH: usize = 200;

/// Maximum number of times that a folder is listed if it changes meanwhile.
const TRIES: u32 = 2;

/// The newest change of each path that was reported and not recorded yet.
pub type Pending = BTreeMap<PathBytes, Change>;

/// A content that was read and may need to be stored.
#[derive(Debug)]
pub struct Content<'a> {
    pub hash: ContentHash,
    pub bytes: &'a [u8],
    /// The previous content of the path, to which this one may be similar.
    pub before: Option<ContentHash>,
}

/// The progress of a scan, shared with the waiting side.
#[derive(Debug, Default)]
pub struct Progress {
    /// Set from outside to end the scan soon.
    pub cancel: AtomicBool,
    /// Number of covered paths that were visited.
    pub files: AtomicU64,
}

/// The reason why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    #[error("it was stopped")]
    Cancelled,
    #[error("there are over {0} files")]
    TooMany(u64),
    #[error("{path}: {error}")]
    Failed { path: String, error: io::Error },
    /// A content could not be stored, for this reason.
    #[error("{0}")]
    NotKept(String),
}

/// The times of a scan, which decide whether a path with an unchanged stamp is read.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// The start of the scan, less the grain of the file system's clock.
    since_ns: i64,
    now_ns: i64,
}

impl Clock {
    fn now(grain: Duration) -> Clock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let now_ns = ns(now.unwrap_or_default());
        Clock {
            since_ns: now_ns.saturating_sub(ns(grain)),
            now_ns,
        }
    }

    fn is_racy(self, stamp: &Stamp) -> bool {
        stamp.is_racy(self.since_ns, self.now_ns)
    }
}

/// The settings of a scan.
#[derive(Debug)]
pub struct ScanSettings<'a> {
    pub coverage: &'a Coverage,
    /// Minimum distance of two changes with different times.
    pub grain: Duration,
    pub progress: &'a Progress,
    /// The watch, which is given the folders, so that it can report later changes.
    pub watch: Option<&'a mut Watch>,
    /// The paths that changed since the last scan, according to the watch.
    pub dirty: Dirty,
    /// Scan every covered path, whatever the watch reports.
    pub is_whole: bool,
}

/// Scans every covered path, or those that may have changed. Changes since `cache` was made are
/// added to `pending`, and their contents are given to `keep`. `None` for `pending` means that
/// everything in `cache` will be new, so there is no need to report changes.
///
/// # Errors
/// [`Stopped`]; the changes found until then are in `cache` and in `pending`.
pub fn verify(
    wanted: ScanSettings<'_>,
    cache: &mut Cache,
    pending: Option<&mut Pending>,
    keep: &mut dyn FnMut(Content<'_>) -> Result<(), String>,
) -> Result<(), Stopped> {
    let coverage = wanted.coverage;
    wanted.progress.files.store(0, Ordering::Relaxed);
    let failed = |error: io::Error| failed(&coverage.root, error);
    let root = Folder::open(&coverage.root).map_err(failed)?;
    let stat = sys::fstat(root.as_fd()).map_err(|e| failed(e.into()))?;
    let mut look = Scan {
        coverage,
        clock: Clock::now(wanted.grain),
        device: stat.st_dev,
        pending,
        keep,
        progress: wanted.progress,
        rules: Rules::new(&coverage.root),
        watch: wanted.watch,
        has_listed: false,
    };
    let above = look.rule_files(rules_above(&coverage.root), &cache.above);
    cache.root.is_stale |= above != cache.above;
    cache.above = above;
    let fd = root.as_fd().try_clone_to_owned().map_err(failed)?;
    if let Dirty::Paths(paths) = &wanted.dirty {
        part::distrust(cache, paths);
    }
    let part = match wanted.dirty {
        Dirty::Paths(mut paths) if !wanted.is_whole && look.may_trust(cache, &stat) => {
            paths.extend(look.changed_excludes(cache));
            PartialScan::of(&paths)
        }
        Dirty::Paths(_) | Dirty::All => None,
    };
    let root = OpenFolder {
        fd: &fd,
        path: &[],
        depth: 0,
    };
    let looked = match part {
        Some(part) => look.part(root, &mut cache.root, &part),
        None => look.folder(root, &mut cache.root),
    };
    if look.has_listed {
        cache.excludes.clear();
        collect_excludes(&cache.root, &[], &mut cache.excludes);
    }
    looked
}

fn failed(path: &Path, error: io::Error) -> Stopped {
    Stopped::Failed {
        path: path.display().to_string(),
        error,
    }
}

/// A folder that is scanned.
#[derive(Clone, Copy)]
struct OpenFolder<'a> {
    fd: &'a OwnedFd,
    path: &'a [u8],
    depth: usize,
}

impl OpenFolder<'_> {
    /// Returns a folder in this one.
    fn below<'a>(self, fd: &'a OwnedFd, path: &'a [u8]) -> OpenFolder<'a> {
        let depth = self.depth + 1;
        OpenFolder { fd, path, depth }
    }
}

struct Scan<'a> {
    coverage: &'a Coverage,
    clock: Clock,
    /// The device of the root.
    device: sys::Dev,
    pending: Option<&'a mut Pending>,
    keep: &'a mut dyn FnMut(Content<'_>) -> Result<(), String>,
    progress: &'a Progress,
    rules: Rules,
    watch: Option<&'a mut Watch>,
    /// Whether a folder was listed, so that there may be new rules.
    has_listed: bool,
}

impl Scan<'_> {
    /// Returns whether paths that are not dirty can be trusted: the watched folders are the
    /// existing ones, and no rules changed where nothing is watched.
    fn may_trust(&self, cache: &Cache, root: &Stat) -> bool {
        let is_known = |watch: &&mut Watch| watch.knows(&[], folder_id(root));
        self.watch.as_ref().is_some_and(is_known) && cache.root.is_listed && !cache.root.is_stale
    }

    fn report(&mut self, at: &[u8], change: impl FnOnce() -> Change) {
        if let Some(pending) = &mut self.pending {
            pending.insert(at.to_vec(), change());
        }
    }

    fn absolute(&self, path: &[u8]) -> PathBuf {
        self.coverage.root.join(OsStr::from_bytes(path))
    }

    fn count(&self) -> Result<(), Stopped> {
        let files = self.progress.files.fetch_add(1, Ordering::Relaxed) + 1;
        if files > self.coverage.max_files {
            return Err(Stopped::TooMany(self.coverage.max_files));
        }
        if self.progress.cancel.load(Ordering::Relaxed) {
            return Err(Stopped::Cancelled);
        }
        Ok(())
    }

    fn folder(&mut self, open: OpenFolder<'_>, state: &mut FolderState) -> Result<(), Stopped> {
        self.rules.enter(self.absolute(open.path));
        let looked = self.folder_entered(open, state);
        self.rules.leave();
        looked
    }

    fn folder_entered(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
    ) -> Result<(), Stopped> {
        let OpenFolder { fd, path, .. } = open;
        // A rule that was changed in place, which the folder's own stamp does not show.
        if let Some(watch) = &mut self.watch {
            let stat = sys::fstat(fd).map_err(|e| failed(&self.coverage.root, e.into()))?;
            watch.enter(fd.as_fd(), path, folder_id(&stat));
        }
        let paths = state.rules.iter().map(|file| file.path.clone()).collect();
        let rules = self.rule_files(paths, &state.rules);
        let changed = rules != state.rules;
        for _ in 0..TRIES {
            let stat = sys::fstat(fd).map_err(|e| failed(&self.absolute(path), e.into()))?;
            let stamp = Stamp::of(&stat);
            if changed || state.is_stale || state.stamp != Some(stamp) {
                self.list(open, state)?;
                state.stamp = (!self.clock.is_racy(&stamp)).then_some(stamp);
            }
            let is_steady = self.files(open, state)?;
            if is_steady {
                break;
            }
            state.stamp = None;
        }
        self.folders(open, state)
    }

    /// Checks each file of a folder. Returns false when its names changed.
    fn files(&mut self, open: OpenFolder<'_>, state: &mut FolderState) -> Result<bool, Stopped> {
        let OpenFolder { fd, path, .. } = open;
        let mut gone = Vec::new();
        for (name, slot) in &mut state.files {
            self.count()?;
            let stat = match sys::statat(fd, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    gone.push(name.clone());
                    continue;
                }
                Err(e) => return Err(failed(&self.absolute(&joined(path, name)), e.into())),
            };
            let stamp = Stamp::of(&stat);
            if is_folder(&stamp) {
                // A folder that is only a marker, because it could not be entered; it may be
                // possible now.
                gone.push(name.clone());
                continue;
            }
            match slot {
                CachedName::Known(known) if known.stamp == stamp && !known.is_racy => {}
                slot => {
                    if !self.file(fd, name, &joined(path, name), &stat, slot)? {
                        gone.push(name.clone());
                    }
                }
            }
        }
        let is_steady = gone.is_empty();
        for name in gone {
            self.forget(state, &name, &joined(path, &name), false);
        }
        Ok(is_steady)
    }

    /// Reads one file again. Returns false when it is gone.
    fn file(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        at: &[u8],
        stat: &Stat,
        slot: &mut CachedName,
    ) -> Result<bool, Stopped> {
        let path = self.absolute(at);
        let limit = self.coverage.max_file_bytes;
        let found = read::read(fd.as_fd(), name, &path, stat, limit, false);
        let (stamp, item, content) = match found.map_err(|e| failed(&path, e))? {
            ReadResult::Item {
                stamp,
                item,
                content,
            } => (stamp, item, content),
            ReadResult::Gone => return Ok(false),
            ReadResult::Unsteady(stamp) => match slot {
                // Its known state stays; it is read again next time.
                CachedName::Known(known) => {
                    known.is_racy = true;
                    return Ok(true);
                }
                CachedName::New { .. } => (stamp, read::marker(Marked::Unsteady, &stamp), None),
            },
        };
        let (before, entered) = match &*slot {
            CachedName::Known(known) => (Some(&known.item), false),
            CachedName::New { entered } => (None, *entered),
        };
        if before != Some(&item) {
            let old = before.and_then(Item::content).copied();
            if let (Some(bytes), Some(hash)) = (content, item.content())
                && old != Some(*hash)
            {
                let content = Content {
                    hash: *hash,
                    bytes: &bytes,
                    before: old,
                };
                (self.keep)(content).map_err(Stopped::NotKept)?;
            }
            self.report(at, || Change::Put {
                item: item.clone(),
                entered,
            });
        }
        // It may become readable a moment later, with the same stamp.
        let is_unsteady = matches!(
            &item,
            Item::Marker {
                why: Marked::Unsteady | Marked::Unreadable,
                ..
            }
        );
        *slot = CachedName::Known(FileState {
            stamp,
            is_racy: is_unsteady || self.clock.is_racy(&stamp),
            item,
        });
        Ok(true)
    }

    fn folders(&mut self, open: OpenFolder<'_>, state: &mut FolderState) -> Result<(), Stopped> {
        let mut named = Vec::new();
        for (name, below) in &mut state.folders {
            let at = joined(open.path, name);
            match self.enter(open, name) {
                Ok(Entered::Folder(fd)) => self.folder(open.below(&fd, &at), below)?,
                Ok(Entered::Named(why, stamp)) => named.push((name.clone(), at, why, stamp)),
                // The next scan finds the current state.
                Ok(Entered::Gone) => state.stamp = None,
                Err(e) => return Err(failed(&self.absolute(&at), e)),
            }
        }
        for (name, at, why, stamp) in named {
            self.only_named(state, &name, at, why, stamp);
        }
        Ok(())
    }

    /// Records a folder that cannot be entered among the files.
    fn only_named(
        &mut self,
        state: &mut FolderState,
        name: &[u8],
        at: PathBytes,
        why: Marked,
        stamp: Stamp,
    ) {
        self.forget(state, name, &at, false);
        let item = bare(why);
        self.report(&at, || Change::put(item.clone()));
        let known = FileState {
            stamp,
            is_racy: false,
            item,
        };
        state.files.insert(name.to_vec(), CachedName::Known(known));
    }

    fn enter(&self, folder: OpenFolder<'_>, name: &[u8]) -> io::Result<Entered> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = OsStr::from_bytes(name);
        let stat = match sys::statat(folder.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Entered::Gone),
            Err(e) => return Err(e.into()),
        };
        let stamp = Stamp::of(&stat);
        if !is_folder(&stamp) {
            return Ok(Entered::Gone);
        }
        if stat.st_dev != self.device {
            return Ok(Entered::Named(Marked::Mount, stamp));
        }
        if folder.depth >= MAX_DEPTH {
            return Ok(Entered::Named(Marked::Unreadable, stamp));
        }
        match sys::openat(folder.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Entered::Folder(fd)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Entered::Gone),
            Err(Errno::ACCESS | Errno::PERM | Errno::IO) => {
                Ok(Entered::Named(Marked::Unreadable, stamp))
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// The result of entering a folder.
enum Entered {
    Folder(OwnedFd),
    /// The folder is only a marker.
    Named(Marked, Stamp),
    Gone,
}

fn is_folder(stamp: &Stamp) -> bool {
    #[allow(
        clippy::unnecessary_cast,
        reason = "it has another type on other systems"
    )]
    FileType::from_raw_mode(stamp.mode as sys::RawMode).is_dir()
}

#[allow(
    clippy::unnecessary_cast,
    reason = "these have other types on other systems"
)]
fn folder_id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[cfg(test)]
mod tests;
