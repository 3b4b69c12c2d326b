//! The paths that changed since the last scan, as reported by the kernel: inotify, on Linux.
//!
//! Each covered folder has its own watch, created on the folder that was opened to be listed,
//! before it is listed. So ignored folders cost nothing, and a new file in a folder is either
//! listed or reported. Events only name the places to check: [`super::verify()`] checks them.
//!
//! The kernel queues an event before the call that changed something returns. So a reader that has
//! read the queue to its end knows of every earlier change. No thread is needed, and no file that
//! must be changed to get an event.
//!
//! Invariant: anything uncertain (a full queue, a folder that was removed under its watch) is
//! reported as "anything may have changed".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::core::text::large_count;
use crate::core::tree::PathBytes;

/// Maximum number of changed paths. With more, everything is scanned.
const MAX_PATHS: usize = 4_096;

/// The places where something may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dirty {
    /// Anywhere.
    All,
    /// At these paths and below them only.
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

/// The reason why changes are not reported, so that every scan is a full one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwatched {
    /// The user turned the watch off.
    Off,
    /// The system has no inotify.
    System,
    /// The file system may be changed by other machines, or is not known.
    FileSystem,
    /// It would need more watches than this limit.
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
    /// Returns advice for a person, if there is any.
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
    /// Maximum number of watches.
    most: usize,
    /// The folder of each watch, by the kernel's number of the watch.
    folders: HashMap<i32, PathBytes>,
    /// The folders, each with its watch, and with the device and inode that it had then.
    watches: BTreeMap<PathBytes, (i32, FolderId)>,
    dirty: Dirty,
    /// The reason why not all folders could be watched.
    failed: Option<Unwatched>,
}

/// Device and inode.
pub(super) type FolderId = (u64, u64);

/// An event of the kernel.
struct Event {
    /// The number of the watch.
    watch: i32,
    /// The name that changed in the folder; `None` for the folder itself.
    name: Option<Vec<u8>>,
    of: EventKind,
}

/// Whether the queue was read to its end.
struct IsEmpty(bool);

#[derive(Debug, PartialEq, Eq)]
enum EventKind {
    Changed,
    /// The watch is gone, because its folder or its file system is gone.
    Ended,
    /// Events were lost.
    Overflow,
}

impl Watch {
    /// Returns a watch without folders. It watches at most `most` folders.
    ///
    /// # Errors
    /// [`Unwatched`] when the system does not allow it.
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

    /// Returns the changes since the last call. They include every change that was made before this
    /// call.
    pub fn changed(&mut self) -> Dirty {
        let mut events = Vec::new();
        match self.queue.read(&mut events) {
            // More events arrive than are read; later ones are left for the next call.
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

    /// Returns the reason why the watch has become useless.
    pub fn failed(&self) -> Option<&Unwatched> {
        self.failed.as_ref()
    }

    fn told(&mut self, event: Event) {
        if event.of == EventKind::Overflow {
            self.dirty = Dirty::All;
            return;
        }
        // The watch was removed meanwhile.
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

    /// Watches a folder that is about to be scanned.
    #[cfg(target_os = "linux")]
    pub(super) fn enter(&mut self, folder: std::os::fd::BorrowedFd<'_>, path: &[u8], id: FolderId) {
        if self.failed.is_some() {
            return;
        }
        match self.watches.get(path) {
            Some((_, known)) if *known == id => return,
            // Another folder has this path now.
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
        // The kernel already watches the folder under another path: it was moved, or is mounted
        // twice.
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

    /// Removes the watch of a folder that is gone or not covered any more.
    pub(super) fn leave(&mut self, path: &[u8]) {
        if let Some((watch, _)) = self.watches.remove(path) {
            self.folders.remove(&watch);
            self.queue.remove(watch);
        }
    }

    /// Returns whether the current folder at a path is the one that is watched.
    pub(super) fn knows(&self, path: &[u8], id: FolderId) -> bool {
        matches!(self.watches.get(path), Some((_, known)) if *known == id)
    }

    /// Marks a path as changed, because its file changed while it was read.
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

    /// Divisor of the system's limit for a user: the remaining part is left to other programs.
    const OTHERS: usize = 2;

    /// Maximum number of events; the system's queue has space for a fourth of it.
    const MAX_EVENTS: usize = 65_536;

    /// Number of bytes of the queue that one read takes.
    const READ_BYTES: usize = 64 * 1024;

    /// Returns how many folders may be watched.
    pub fn max_watches() -> usize {
        let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
        let most: Option<usize> = most.ok().and_then(|most| most.trim().parse().ok());
        most.unwrap_or(8_192) / OTHERS
    }

    /// The kernel's queue of events, in the order in which they happened.
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

        /// Watches the open folder itself, even if its path leads elsewhere by now.
        pub(super) fn add(&self, folder: BorrowedFd<'_>) -> Result<i32, Errno> {
            // The close of a file is the only sign of a write to its mapped memory.
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
            // The kernel has already removed the watch if the folder is gone.
            let _ = inotify::remove_watch(&self.0, watch);
        }

        /// Reads all events in the queue.
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

/// Other systems do not report events in a reliable order.
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
mod test_model;
#[cfg(test)]
mod tests;
