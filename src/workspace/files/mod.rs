//! The files of a workspace as they are now, found by comparing with what was found last time.
//!
//! [`Coverage`] says which files count, [`guard`] whether a folder can be looked after at all,
//! [`Cache`] is what was found last time, and [`verify()`] finds what changed since. What the
//! contents are kept in is not known here: they are handed out as they are read. A [`Watch`] in front of
//! it says where to look, so that a look costs nothing where nothing changed.
//!
//! Invariant: nothing is written but by [`restore()`], nothing removed but by it and [`forget_staged`], no link is followed below the root, nothing is opened but
//! regular files and folders, and nothing below `.git` is looked at but its `info/exclude`.

mod cache;
mod cover;
pub mod guard;
mod merge;
mod read;
mod restore;
mod verify;
mod watch;

pub use cache::Cache;
pub use cover::{Coverage, CoverageError, is_secret};
pub use merge::merge3;
pub use read::item_at;
pub use restore::{CutShort, Done, Order, Point, forget_staged, restore};
pub use verify::{Content, Pending, Progress, Stopped, Wanted, one, verify};
pub use watch::{Dirty, Unwatched, Watch, max_watches};
