//! The current files of a workspace, found by comparison with the last scan.
//!
//! [`Coverage`] decides which files count, and [`guard`] whether a folder can be snapshotted at
//! all. [`Cache`] is the result of the last scan, and [`verify()`] finds the changes since then.
//! Contents are handed out as they are read; this module does not know how they are stored. A
//! [`Watch`] names the changed paths, so that a scan of an unchanged workspace costs nothing.
//!
//! Invariant: nothing is written but by [`restore()`], and by [`measure()`] a file that it removes; nothing removed but by it and
//! [`forget_staged`], no link is followed below the root, nothing is opened but regular files and
//! folders, and nothing below `.git` is looked at but its `info/exclude`.

mod cache;
mod clock;
mod cover;
pub mod guard;
mod merge;
mod read;
mod restore;
mod verify;
mod watch;

pub use cache::Cache;
pub use clock::{FileTimes, measure};
pub use cover::{Coverage, CoverageError, is_secret};
pub use merge::merge3;
pub use read::item_at;
pub use restore::{CutShort, Done, Order, Point, forget_staged, restore};
pub use verify::{Content, Pending, Progress, ScanSettings, Stopped, one, verify};
pub use watch::{Dirty, Unwatched, Watch, max_watches};
