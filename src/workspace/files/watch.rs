//! Which paths changed since the last look, as the kernel tells it: inotify, on Linux.
//!
//! Each covered folder has a watch of its own, made on the folder that was opened to be listed,
//! before it is listed. So what is ignored costs nothing, and what is new in a folder is either
//! listed or told. Events say nothing but where to look: [`super::verify()`] looks.
//!
//! The kernel queues an event before the call that changed something returns. So whoever has
//! read the queue to its end knows of every change that was made before: no thread, and no file
//! that would have to be changed to be told of.
//!
//! Invariant: what is not known for sure (a full queue, a folder that went away under its watch)
//! is told as "anything may have changed".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::core::text::large_count;
use crate::core::tree::PathBytes;

/// More changed paths than this, and everything is looked at.
const MAX_PATHS: usize = 4_096;

/// Where something may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dirty {
    /// Anywhere.
    All,
    /// At these paths and below them, and nowhere else.
    Paths(BTreeSet<PathBytes>),
}

impl Default for Dirty {
    fn default() -> Dirty {
        Dirty::Paths(BTreeSet::new())
    }
}

impl Dirty {
    fn add(&mut self, path: PathBytes) {
        if let Dirty::Paths(paths) = self {
            paths.insert(path);
            if paths.len() > MAX_PATHS {
                *self = Dirty::All;
            }
        }
    }
}

/// Why changes are not told: every look looks at everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwatched {
    /// Asked for.
    Off,
    /// The system has no inotify.
    System,
    /// The file system may be changed from elsewhere, or is not known.
    FileSystem,
    /// It would take more watches than it may.
    Limit(usize),
    /// The kernel refused it.
    Refused(String),
}

impl fmt::Display for Unwatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwatched::Off => write!(f, "files.watch is off"),
            Unwatched::System => write!(f, "this system has no inotify"),
            Unwatched::FileSystem => write!(f, "the file system does not tell of every change"),
            Unwatched::Limit(most) => write!(f, "it has over {}", large_count(*most, "folder")),
            Unwatched::Refused(why) => write!(f, "inotify: {why}"),
        }
    }
}

impl Unwatched {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Unwatched::Limit(_) => Some(
                "leave folders out (files.exclude, .ignore), or raise the limit: \
                 sysctl fs.inotify.max_user_watches",
            ),
            Unwatched::Refused(_) => Some(
                "other programs may use up what the system allows: sysctl \
                 fs.inotify.max_user_watches and fs.inotify.max_user_instances",
            ),
            Unwatched::Off | Unwatched::System | Unwatched::FileSystem => None,
        }
    }
}

/// The watches of a workspace.
#[derive(Debug)]
pub struct Watch {
    queue: Queue,
    /// Not more than so many.
    most: usize,
    /// The folder of each watch, by the kernel's number of it.
    folders: HashMap<i32, PathBytes>,
    /// The folders, each with its watch, and what it was then: device and inode.
    watches: BTreeMap<PathBytes, (i32, FolderId)>,
    dirty: Dirty,
    /// Why not all folders could be watched.
    failed: Option<Unwatched>,
}

/// Device and inode.
pub(super) type FolderId = (u64, u64);

/// What the kernel told.
struct Event {
    /// The number of the watch.
    watch: i32,
    /// What changed in its folder. `None`: the folder itself.
    name: Option<Vec<u8>>,
    of: EventKind,
}

/// The queue was read to its end.
struct IsEmpty(bool);

#[derive(Debug, PartialEq, Eq)]
enum EventKind {
    Changed,
    /// The watch is gone: so is the folder, or its file system.
    Ended,
    /// Events were lost.
    Overflow,
}

impl Watch {
    /// Watches nothing yet. `most`: more folders than this are not watched.
    ///
    /// # Errors
    /// [`Unwatched`], when the system does not let it.
    pub fn new(most: usize) -> Result<Watch, Unwatched> {
        Ok(Watch {
            queue: Queue::new()?,
            most,
            folders: HashMap::new(),
            watches: BTreeMap::new(),
            dirty: Dirty::default(),
            failed: None,
        })
    }

    /// What changed since this was asked last. Whatever was changed before this call is in it.
    pub fn changed(&mut self) -> Dirty {
        let mut events = Vec::new();
        match self.queue.read(&mut events) {
            // More is made than is read: what comes behind is for the next time.
            Ok(IsEmpty(false)) => self.dirty = Dirty::All,
            Ok(IsEmpty(true)) => {}
            Err(why) => self.failed = Some(Unwatched::Refused(why)),
        }
        for event in events {
            self.told(event);
        }
        match self.failed {
            Some(_) => Dirty::All,
            None => std::mem::take(&mut self.dirty),
        }
    }

    /// Why it is of no use any more.
    pub fn failed(&self) -> Option<&Unwatched> {
        self.failed.as_ref()
    }

    /// How many folders are watched.
    pub fn count(&self) -> usize {
        self.watches.len()
    }

    fn told(&mut self, event: Event) {
        if event.of == EventKind::Overflow {
            self.dirty = Dirty::All;
            return;
        }
        // One that was given up meanwhile.
        let Some(folder) = self.folders.get(&event.watch).cloned() else {
            return;
        };
        if event.of == EventKind::Ended {
            self.folders.remove(&event.watch);
            self.watches.remove(&folder);
        }
        self.dirty.add(match &event.name {
            Some(name) => super::cache::joined(&folder, name),
            None => folder,
        });
    }

    /// Watches a folder that is about to be looked at.
    #[cfg(target_os = "linux")]
    pub(super) fn enter(&mut self, folder: std::os::fd::BorrowedFd<'_>, path: &[u8], id: FolderId) {
        if self.failed.is_some() {
            return;
        }
        match self.watches.get(path) {
            Some((_, known)) if *known == id => return,
            // Another folder lies there now.
            Some(_) => self.leave(path),
            None => {}
        }
        if self.watches.len() >= self.most {
            self.failed = Some(Unwatched::Limit(self.most));
            return;
        }
        let watch = match self.queue.add(folder) {
            Ok(watch) => watch,
            Err(rustix::io::Errno::NOSPC) => {
                self.failed = Some(Unwatched::Refused("no watch is left".to_string()));
                return;
            }
            Err(e) => {
                self.failed = Some(Unwatched::Refused(e.to_string()));
                return;
            }
        };
        // The kernel knows the folder by another path: it was moved, or is mounted twice.
        if let Some(before) = self.folders.insert(watch, path.to_vec())
            && before != path
        {
            self.watches.remove(&before);
            self.dirty.add(before);
        }
        self.watches.insert(path.to_vec(), (watch, id));
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn enter(&mut self, _: std::os::fd::BorrowedFd<'_>, _: &[u8], _: FolderId) {}

    /// The folder is gone, or not covered any more.
    pub(super) fn leave(&mut self, path: &[u8]) {
        if let Some((watch, _)) = self.watches.remove(path) {
            self.folders.remove(&watch);
            self.queue.remove(watch);
        }
    }

    /// The folder that lies at a path now is the one that is watched there.
    pub(super) fn knows(&self, path: &[u8], id: FolderId) -> bool {
        matches!(self.watches.get(path), Some((_, known)) if *known == id)
    }

    /// What was found at a path was not steady: it is looked at again.
    pub(super) fn again(&mut self, path: &[u8]) {
        self.dirty.add(path.to_vec());
    }
}

#[cfg(target_os = "linux")]
use linux::Queue;
#[cfg(target_os = "linux")]
pub use linux::max_watches;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;

    use super::{Event, EventKind, IsEmpty, Unwatched};

    /// Of the watches that the system gives a user, this part is left to other programs.
    const OTHERS: usize = 2;

    /// The system's queue has room for a fourth of it.
    const MAX_EVENTS: usize = 65_536;

    /// A read takes so much of the queue.
    const READ_BYTES: usize = 64 * 1024;

    /// How many folders may be watched.
    pub fn max_watches() -> usize {
        let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
        let most: Option<usize> = most.ok().and_then(|most| most.trim().parse().ok());
        most.unwrap_or(8_192) / OTHERS
    }

    /// What the kernel tells, in the order in which it happened.
    #[derive(Debug)]
    pub(super) struct Queue(OwnedFd);

    impl Queue {
        pub(super) fn new() -> Result<Queue, Unwatched> {
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
            queue.map(Queue).map_err(|e| match e {
                Errno::MFILE => Unwatched::Refused("no instance is left".to_string()),
                e => Unwatched::Refused(e.to_string()),
            })
        }

        /// The open folder itself, whatever lies at its path by now.
        pub(super) fn add(&self, folder: BorrowedFd<'_>) -> Result<i32, Errno> {
            // That a file was closed is the one sign of who wrote to its mapped memory.
            let all = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ATTRIB
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::EXCL_UNLINK;
            let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
            inotify::add_watch(&self.0, path, all)
        }

        pub(super) fn remove(&self, watch: i32) {
            // The kernel has done it when the folder is gone.
            let _ = inotify::remove_watch(&self.0, watch);
        }

        /// All that is in the queue.
        pub(super) fn read(&self, events: &mut Vec<Event>) -> Result<IsEmpty, String> {
            let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
            let mut reader = Reader::new(&self.0, &mut bytes);
            while events.len() < MAX_EVENTS {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::AGAIN) => return Ok(IsEmpty(true)),
                    Err(Errno::INTR) => continue,
                    Err(e) => return Err(e.to_string()),
                };
                let told = event.events();
                let of = if told.contains(ReadFlags::QUEUE_OVERFLOW) {
                    EventKind::Overflow
                } else if told.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
                    EventKind::Ended
                } else {
                    EventKind::Changed
                };
                let name = event.file_name().map(|name| name.to_bytes().to_vec());
                let watch = event.wd();
                events.push(Event { watch, name, of });
            }
            Ok(IsEmpty(false))
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::Queue;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::max_watches;

/// Other systems tell in no order that could be relied on.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Event, IsEmpty, Unwatched};

    pub fn max_watches() -> usize {
        0
    }

    #[derive(Debug)]
    pub(super) struct Queue;

    impl Queue {
        pub(super) fn new() -> Result<Queue, Unwatched> {
            Err(Unwatched::System)
        }

        pub(super) fn remove(&self, _: i32) {}

        pub(super) fn read(&self, _: &mut Vec<Event>) -> Result<IsEmpty, String> {
            Ok(IsEmpty(true))
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
