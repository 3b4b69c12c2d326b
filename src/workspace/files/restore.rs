//! The restore of files from the state of one tree to that of another.
//!
//! All new content is staged and synced first, so a full disk changes nothing. Then each path gets
//! its content by one exchange of names, and the file that came out is checked. Either it is the
//! recorded one, or somebody changed it in that instant and gets it back. So at any instant, every
//! path has its old or its new state. An interrupted restore is completed by running it again.
//!
//! Invariants: no link is followed, nothing below version control's folders is touched, and nothing
//! is removed unless its content is known to be stored.

mod access;
mod place;
mod stage;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::cover::STAGED;
use super::read::{self, ReadResult};
use crate::core::entry::KeptWhy;
use crate::core::rewind::is_never_written;
use crate::core::tree::{Change, ContentHash, Item, Marked, PathBytes, Tree, below, diff, to_root};
use crate::workspace::handle::Folder;
use stage::Bench;

/// The points at which a process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    BeforeStage,
    AfterStage,
    BeforePlace,
    /// The file has its new name, and the file that came out was not checked yet.
    InPlace,
    AfterPlace,
    BeforeFolders,
}

/// The error for a restore that was interrupted from outside and left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutShort;

/// Returns a stored content, or `None` if it is no longer stored.
pub type Contents<'a> = dyn FnMut(&ContentHash) -> Result<Option<Vec<u8>>, String> + 'a;

/// The input of a restore.
pub struct Order<'a> {
    /// The workspace's root: absolute, with links followed.
    pub root: &'a Path,
    pub before: &'a Tree,
    pub target: &'a Tree,
    /// The ID of the restore, the same for each attempt: staged files are found by it.
    pub id: &'a str,
    pub content: &'a mut Contents<'a>,
    /// Called at each point: an error interrupts the restore.
    pub at: &'a mut dyn FnMut(Point) -> Result<(), CutShort>,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Paths that have the target state.
    pub written: BTreeSet<PathBytes>,
    /// Paths that do not exist any more.
    pub removed: BTreeSet<PathBytes>,
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// The reason why nothing was done.
    pub why: Option<String>,
}

/// One path to restore.
#[derive(Debug, Clone)]
struct Job {
    path: PathBytes,
    before: Option<Item>,
    target: Option<Item>,
    /// The content at the path is not stored, so it is moved beside the path.
    puts_aside: bool,
}

/// The reason why a restore ended early.
enum RestoreStop {
    CutShort,
    /// Nothing was placed, for this reason.
    Nothing(String),
}

impl From<CutShort> for RestoreStop {
    fn from(_: CutShort) -> RestoreStop {
        RestoreStop::CutShort
    }
}

/// Restores all paths that differ between the two trees.
///
/// # Errors
/// [`CutShort`] when [`Order::at`] returns it.
pub fn restore(order: &mut Order<'_>) -> Result<Done, CutShort> {
    let mut done = Done::default();
    match work(order, &mut done) {
        Ok(()) => Ok(done),
        Err(RestoreStop::CutShort) => Err(CutShort),
        Err(RestoreStop::Nothing(why)) => Ok(Done {
            why: Some(why),
            ..Done::default()
        }),
    }
}

fn work(order: &mut Order<'_>, done: &mut Done) -> Result<(), RestoreStop> {
    let mut jobs = jobs(order, done);
    let failed = |what: &str, e: &io::Error| RestoreStop::Nothing(format!("{what}: {e}"));
    if jobs.is_empty() {
        return Ok(());
    }
    let root = Folder::open(order.root).map_err(|e| failed("the workspace", &e))?;
    let mut ground = RestoreRoot {
        root: &root,
        root_path: order.root,
        bench: None,
        lent: BTreeMap::new(),
        touched: BTreeSet::new(),
        refuses_mode: Cell::new(false),
    };
    ground.open_folders(&jobs, order.before);
    let opened = Bench::open(&root, order.root, order.id).map(|bench| ground.bench = bench);
    if let Err(error) = opened {
        ground.close_folders();
        return Err(failed("no folder for what is set back", &error));
    }
    jobs.retain(|job| ground.leftovers(job, done));
    (order.at)(Point::BeforeStage)?;
    if let Err(why) = ground.stage(&mut jobs, order.content, done) {
        ground.close_folders();
        return Err(RestoreStop::Nothing(why));
    }
    (order.at)(Point::AfterStage)?;
    for job in in_order(&jobs) {
        (order.at)(Point::BeforePlace)?;
        ground.place(job, order.at, done)?;
        (order.at)(Point::AfterPlace)?;
    }
    (order.at)(Point::BeforeFolders)?;
    ground.remove_empty(done.removed.iter().cloned().collect());
    if ground.refuses_mode.get() {
        ground.name_other_modes(&jobs, done);
    }
    ground.sync();
    ground.close_folders();
    Ok(())
}

/// Removes the staged files of a restore that never placed any. Do not use it otherwise: a staged
/// name may then be the file that came out of an exchange.
pub fn forget_staged(root: &Path, id: &str) {
    if let Ok(root) = Folder::open(root) {
        let _ = root.remove_all(OsStr::new(&staged_folder(id)));
    }
}

/// Returns the paths that differ and may be touched.
fn jobs(order: &Order<'_>, done: &mut Done) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (path, change) in diff(order.before, order.target).0 {
        let before = order.before.0.get(&path).cloned();
        let target = match change {
            Change::Put { item, .. } => Some(item),
            Change::Gone { .. } => None,
        };
        let has_marker = |tree: &Tree| to_root(&path).any(|at| is_marker(tree, at));
        let puts_aside = has_marker(order.before);
        // What is there without a stored content only makes room for others.
        let is_needed = target.is_some() || below(&order.target.0, &path).next().is_some();
        if is_never_written(&path) {
            done.kept.insert(path, KeptWhy::VersionControl);
        } else if has_marker(order.target) || (puts_aside && !is_needed) {
            done.kept.insert(path, KeptWhy::Marker);
        } else {
            jobs.push(Job {
                path,
                before,
                target,
                puts_aside,
            });
        }
    }
    jobs
}

fn is_marker(tree: &Tree, path: &[u8]) -> bool {
    matches!(tree.0.get(path), Some(Item::Marker { .. }))
}

/// Returns the jobs in order: first removals that make room, then writes, then other removals,
/// deepest first.
fn in_order(jobs: &[Job]) -> Vec<&Job> {
    let put: BTreeSet<&[u8]> = jobs
        .iter()
        .filter(|job| job.target.is_some())
        .map(|job| job.path.as_slice())
        .collect();
    let makes_room = |job: &&Job| {
        let below = [job.path.as_slice(), b"/"].concat();
        let is_above = put.range(below.as_slice()..).next();
        to_root(&job.path)
            .skip(1)
            .any(|folder| put.contains(folder))
            || is_above.is_some_and(|path| path.starts_with(&below))
    };
    let gone = || jobs.iter().rev().filter(|job| job.target.is_none());
    let mut ordered: Vec<&Job> = gone().filter(makes_room).collect();
    ordered.extend(jobs.iter().filter(|job| job.target.is_some()));
    ordered.extend(gone().filter(|job| !makes_room(job)));
    ordered
}

/// The workspace of a restore.
struct RestoreRoot<'a> {
    root: &'a Folder,
    root_path: &'a Path,
    /// `None`: the root is not writable, so each file is staged beside its path.
    bench: Option<Bench>,
    /// Folders whose mode is changed meanwhile, and their modes.
    lent: BTreeMap<PathBuf, u32>,
    /// Folders in which names changed, by their paths.
    touched: BTreeSet<PathBytes>,
    /// The file system refused the mode of a staged file.
    refuses_mode: Cell<bool>,
}

/// A name in an open folder.
struct FolderEntry {
    folder: Folder,
    name: OsString,
    /// The path, for the rules and for messages.
    path: PathBuf,
}

impl FolderEntry {
    /// Returns the item at this name.
    fn item(&self, like: &Job) -> io::Result<Option<Item>> {
        item_in(&self.folder, &self.name, &self.path, like)
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        match self.folder.stat(&self.name) {
            Ok(stat) => Ok(Some(stat)),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

/// Returns the item of a name in an open folder. A file that is larger than both sides of the job
/// is not read, since it equals neither.
fn item_in(folder: &Folder, name: &OsStr, path: &Path, like: &Job) -> io::Result<Option<Item>> {
    let stat = match folder.stat(name) {
        Ok(stat) => stat,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    let bytes = |item: &Option<Item>| match item {
        Some(Item::File { bytes, .. }) => *bytes,
        // Its size must not hide that it cannot be read.
        Some(Item::Marker { why, bytes, .. }) if *why == Marked::Unreadable => *bytes,
        _ => 0,
    };
    let limit = bytes(&like.before).max(bytes(&like.target));
    let other = Some(read::bare(Marked::Unsteady));
    if is_folder(&stat) {
        return Ok(other);
    }
    match read::read(folder.as_fd(), name.as_bytes(), path, &stat, limit, true)? {
        ReadResult::Item { item, .. } => Ok(Some(item)),
        ReadResult::Unsteady(_) => Ok(other),
        ReadResult::Gone => Ok(None),
    }
}

impl RestoreRoot<'_> {
    /// Returns a path of a tree relative to the root, whether it is absolute or not. `None` for a
    /// path outside of the root.
    fn below(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        if path.is_absolute() {
            path.strip_prefix(self.root_path)
                .ok()
                .map(Path::to_path_buf)
        } else {
            Some(path.to_path_buf())
        }
    }

    /// Returns the open folder and the name of a path. With `make`, missing folders are created.
    fn spot(&self, path: &[u8], make: bool) -> io::Result<FolderEntry> {
        let whole = Path::new(OsStr::from_bytes(path));
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let folder = match self.below(path) {
            Some(below) => {
                let parent = below.parent().unwrap_or(Path::new("")).to_path_buf();
                match self.root.below(&parent) {
                    Err(e) if make && e.kind() == ErrorKind::NotFound => {
                        open_or_make_below(self.root, &parent)?
                    }
                    opened => opened?,
                }
            }
            None => match Folder::open(parent) {
                Err(e) if make && e.kind() == ErrorKind::NotFound => {
                    let (deepest, missing) = Folder::deepest(parent)?;
                    open_or_make_below(&deepest, &missing)?
                }
                opened => opened?,
            },
        };
        Ok(FolderEntry {
            folder,
            name: name.to_os_string(),
            path: self.root_path.join(whole),
        })
    }

    /// Names the restored files that did not get their permission bits.
    fn name_other_modes(&self, jobs: &[Job], done: &mut Done) {
        for job in jobs.iter().filter(|job| done.written.contains(&job.path)) {
            let Some(Item::File { mode, .. }) = job.target else {
                continue;
            };
            let stat = self.spot(&job.path, false).and_then(|spot| spot.stat());
            #[allow(
                clippy::unnecessary_cast,
                reason = "it has another type on other systems"
            )]
            let now = stat.ok().flatten().map(|stat| stat.st_mode as u32 & 0o777);
            if now.is_some_and(|now| now != u32::from(mode) & 0o777) {
                let why = done.kept.entry(job.path.clone());
                why.or_insert(KeptWhy::Mode);
            }
        }
    }

    fn touch(&mut self, path: &[u8]) {
        let folder = to_root(path).nth(1).unwrap_or(b"");
        self.touched.insert(folder.to_vec());
    }

    /// Makes the changed names durable.
    fn sync(&mut self) {
        for folder in std::mem::take(&mut self.touched) {
            let opened = match self.below(&folder) {
                Some(below) => self.root.below(&below),
                None => Folder::open(Path::new(OsStr::from_bytes(&folder))),
            };
            // A removed folder has no names.
            if let Ok(folder) = opened {
                let _ = folder.sync();
            }
        }
    }

    /// Removes the folders that contained nothing but removed files.
    fn remove_empty(&mut self, removed: Vec<PathBytes>) {
        let mut folders: BTreeSet<PathBytes> = BTreeSet::new();
        for path in removed.iter().filter(|path| self.below(path).is_some()) {
            let root = self.root_path.as_os_str().len();
            let inside = |folder: &&[u8]| !folder.starts_with(b"/") || folder.len() > root;
            folders.extend(to_root(path).skip(1).take_while(inside).map(<[u8]>::to_vec));
        }
        // Deepest first: a folder has a longer path than its parent.
        let mut folders: Vec<PathBytes> = folders.into_iter().collect();
        folders.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for folder in folders {
            if let Ok(spot) = self.spot(&folder, false)
                && spot.folder.remove_folder(&spot.name).is_ok()
            {
                self.touch(&folder);
            }
        }
    }
}

/// Opens the folder at `path` below another. Creates missing parts.
fn open_or_make_below(folder: &Folder, path: &Path) -> io::Result<Folder> {
    let mut at = folder.below(Path::new(""))?;
    for name in path {
        match at.make_folder(name) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            Ok(()) => at.sync()?,
            Err(_) => {}
        }
        at = at.below(Path::new(name))?;
    }
    Ok(at)
}

/// Returns the staging name of a path.
fn slot(path: &[u8]) -> String {
    let hash = blake3::hash(path);
    hash.to_hex()[..32].to_string()
}

fn staged_folder(id: &str) -> String {
    let id: String = id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(32)
        .collect();
    format!("{STAGED}{id}")
}

/// Returns the reason that an error gives for leaving the path unchanged.
fn why(error: &io::Error) -> KeptWhy {
    // `handle` reports a link instead of a folder as `Other`.
    match error.kind() {
        ErrorKind::NotADirectory | ErrorKind::NotFound | ErrorKind::Other => KeptWhy::Way,
        ErrorKind::PermissionDenied => KeptWhy::Unwritable,
        _ => KeptWhy::Refused,
    }
}

#[cfg(test)]
mod tests;
