//! Setting files back: from what a tree says they were until now to what another says.
//!
//! All new content is laid out and synced first, so a full disk changes nothing. Then each path
//! gets it by one exchange of names, and what came out is looked at: it is what was recorded, or
//! somebody changed it in that instant and gets it back. So every path is, at any instant, as it was
//! or as it is to be. A restore that was cut short is done on by doing it again.
//!
//! Invariants: no link is followed, nothing below version control's folders is touched, and nothing
//! is removed but what is known to be kept.

mod place;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::cover::STAGED;
use super::read::{self, Found};
use crate::core::entry::KeptWhy;
use crate::core::rewind::is_never_written;
use crate::core::tree::{Change, ContentHash, Item, Marked, PathBytes, Tree, diff};
use crate::workspace::handle::Folder;
use stage::Bench;

/// Where a process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    BeforeStage,
    AfterStage,
    BeforePlace,
    /// It has its new name, and what came out was not looked at.
    InPlace,
    AfterPlace,
    BeforeFolders,
}

/// It was cut short from outside, with all left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutShort;

/// A content that is kept. `None`: not any more.
pub type Contents<'a> = dyn FnMut(&ContentHash) -> Result<Option<Vec<u8>>, String> + 'a;

/// What is to be set back.
pub struct Order<'a> {
    /// The workspace's root: absolute, its links followed.
    pub root: &'a Path,
    pub before: &'a Tree,
    pub target: &'a Tree,
    /// The same each time this is done: what was laid out is known by it.
    pub id: &'a str,
    pub content: &'a mut Contents<'a>,
    /// Asked at each point: whether to go on.
    pub at: &'a mut dyn FnMut(Point) -> Result<(), CutShort>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Paths that are as they are to be.
    pub written: BTreeSet<PathBytes>,
    /// Paths at which nothing lies any more.
    pub removed: BTreeSet<PathBytes>,
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// Why nothing was done.
    pub why: Option<String>,
}

/// One path to be set back.
#[derive(Debug, Clone)]
struct Job {
    path: PathBytes,
    before: Option<Item>,
    target: Option<Item>,
}

/// Why it ended before its end.
enum Ended {
    CutShort,
    /// Nothing was placed: why.
    Nothing(String),
}

impl From<CutShort> for Ended {
    fn from(_: CutShort) -> Ended {
        Ended::CutShort
    }
}

/// Sets back what differs between the two trees.
///
/// # Errors
/// [`CutShort`] when [`Order::at`] says so.
pub fn restore(order: &mut Order<'_>) -> Result<Done, CutShort> {
    let mut done = Done::default();
    match work(order, &mut done) {
        Ok(()) => Ok(done),
        Err(Ended::CutShort) => Err(CutShort),
        Err(Ended::Nothing(why)) => Ok(Done {
            why: Some(why),
            ..Done::default()
        }),
    }
}

fn work(order: &mut Order<'_>, done: &mut Done) -> Result<(), Ended> {
    let mut jobs = jobs(order, done);
    if jobs.is_empty() {
        return Ok(());
    }
    let failed = |what: &str, e: &io::Error| Ended::Nothing(format!("{what}: {e}"));
    let root = Folder::open(order.root).map_err(|e| failed("the workspace", &e))?;
    let (mut bench, is_left) = Bench::open(&root, order.root, order.id)
        .map_err(|e| failed("no folder for what is set back", &e))?;
    let mut ground = Ground {
        root: &root,
        root_path: order.root,
        bench: &mut bench,
        touched: BTreeSet::new(),
    };
    jobs.retain(|job| ground.leftovers(job, is_left, done));
    (order.at)(Point::BeforeStage)?;
    if let Err(why) = ground.stage(&mut jobs, order.content, done) {
        ground.bench.clear();
        return Err(Ended::Nothing(why));
    }
    (order.at)(Point::AfterStage)?;
    for job in in_order(&jobs) {
        (order.at)(Point::BeforePlace)?;
        ground.place(job, order.at, done)?;
        (order.at)(Point::AfterPlace)?;
    }
    (order.at)(Point::BeforeFolders)?;
    ground.remove_empty(done.removed.iter().cloned().collect());
    ground.sync();
    ground.bench.clear();
    Ok(())
}

/// Removes what was laid out for a restore that never placed any of it. What differs from that is not
/// for this: it may hold what came out of its place.
pub fn forget_staged(root: &Path, id: &str) {
    if let Ok(root) = Folder::open(root) {
        let _ = root.remove_all(OsStr::new(&staged_folder(id)));
    }
}

/// What differs, and may be touched.
fn jobs(order: &Order<'_>, done: &mut Done) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (path, change) in diff(order.before, order.target).0 {
        let before = order.before.0.get(&path).cloned();
        let target = match change {
            Change::Put { item, .. } => Some(item),
            Change::Gone { .. } => None,
        };
        let is_marker = |item: &Option<Item>| matches!(item, Some(Item::Marker { .. }));
        if is_never_written(&path) {
            done.kept.insert(path, KeptWhy::VersionControl);
        } else if is_marker(&before) || is_marker(&target) {
            done.kept.insert(path, KeptWhy::Marker);
        } else {
            jobs.push(Job {
                path,
                before,
                target,
            });
        }
    }
    jobs
}

/// First what makes room, then what is written, then what is removed, the deepest first.
fn in_order(jobs: &[Job]) -> Vec<&Job> {
    let put: BTreeSet<&[u8]> = jobs
        .iter()
        .filter(|job| job.target.is_some())
        .map(|job| job.path.as_slice())
        .collect();
    let makes_room = |job: &&Job| {
        let below = [job.path.as_slice(), b"/"].concat();
        let is_above = put.range(below.as_slice()..).next();
        above(&job.path).any(|folder| put.contains(folder))
            || is_above.is_some_and(|path| path.starts_with(&below))
    };
    let gone = || jobs.iter().rev().filter(|job| job.target.is_none());
    let mut ordered: Vec<&Job> = gone().filter(makes_room).collect();
    ordered.extend(jobs.iter().filter(|job| job.target.is_some()));
    ordered.extend(gone().filter(|job| !makes_room(job)));
    ordered
}

/// The folders on the way to a path, the deepest first.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
    slashes.map(|at| &path[..at])
}

/// Where it happens.
struct Ground<'a> {
    root: &'a Folder,
    root_path: &'a Path,
    bench: &'a mut Bench,
    /// Folders in which names changed, by their paths.
    touched: BTreeSet<PathBytes>,
}

/// A name in an open folder.
struct Spot {
    folder: Folder,
    name: OsString,
    /// To be judged and named by.
    path: PathBuf,
}

impl Spot {
    /// What lies there.
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

/// What a name stands for in an open folder. What is larger than either side of the job is neither.
fn item_in(folder: &Folder, name: &OsStr, path: &Path, like: &Job) -> io::Result<Option<Item>> {
    let stat = match folder.stat(name) {
        Ok(stat) => stat,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    let bytes = |item: &Option<Item>| match item {
        Some(Item::File { bytes, .. }) => *bytes,
        _ => 0,
    };
    let limit = bytes(&like.before).max(bytes(&like.target));
    let other = Some(read::bare(Marked::Unsteady));
    if is_folder(&stat) {
        return Ok(other);
    }
    match read::read(folder.as_fd(), name.as_bytes(), path, &stat, limit, true)? {
        Found::Item { item, .. } => Ok(Some(item)),
        Found::Unsteady(_) => Ok(other),
        Found::Gone => Ok(None),
    }
}

impl Ground<'_> {
    /// A path below the root as it is in trees, or absolute.
    fn below(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        match path.is_absolute() {
            false => Some(path.to_path_buf()),
            true => path
                .strip_prefix(self.root_path)
                .ok()
                .map(Path::to_path_buf),
        }
    }

    /// The name that a path is of. `make`: folders that are missing are made.
    fn spot(&self, path: &[u8], make: bool) -> io::Result<Spot> {
        let whole = Path::new(OsStr::from_bytes(path));
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let folder = match self.below(path) {
            Some(below) => {
                let parent = below.parent().unwrap_or(Path::new("")).to_path_buf();
                match self.root.below(&parent) {
                    Err(e) if make && e.kind() == ErrorKind::NotFound => {
                        made_below(self.root, &parent)?
                    }
                    opened => opened?,
                }
            }
            None => match Folder::open(parent) {
                Err(e) if make && e.kind() == ErrorKind::NotFound => {
                    let (deepest, missing) = Folder::deepest(parent)?;
                    made_below(&deepest, &missing)?
                }
                opened => opened?,
            },
        };
        Ok(Spot {
            folder,
            name: name.to_os_string(),
            path: self.root_path.join(whole),
        })
    }

    fn touch(&mut self, path: &[u8]) {
        let folder = above(path).next().unwrap_or(b"");
        self.touched.insert(folder.to_vec());
    }

    /// Names that changed are durable.
    fn sync(&mut self) {
        for folder in std::mem::take(&mut self.touched) {
            let opened = match self.below(&folder) {
                Some(below) => self.root.below(&below),
                None => Folder::open(Path::new(OsStr::from_bytes(&folder))),
            };
            // One that is gone has no names.
            if let Ok(folder) = opened {
                let _ = folder.sync();
            }
        }
    }

    /// Folders that held nothing but what was removed.
    fn remove_empty(&mut self, removed: Vec<PathBytes>) {
        let mut folders: BTreeSet<PathBytes> = BTreeSet::new();
        for path in removed.iter().filter(|path| self.below(path).is_some()) {
            let root = self.root_path.as_os_str().len();
            let inside = |folder: &&[u8]| !folder.starts_with(b"/") || folder.len() > root;
            folders.extend(above(path).take_while(inside).map(<[u8]>::to_vec));
        }
        // The deepest first: a folder has a longer path than the one it is in.
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

/// The folder at `path` below another; what is missing of it is made.
fn made_below(folder: &Folder, path: &Path) -> io::Result<Folder> {
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

/// The name that a path's content is laid out under.
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

#[cfg(test)]
mod tests;
