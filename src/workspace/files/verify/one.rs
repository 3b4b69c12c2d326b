//! A scan of one path, without a scan of the others.

use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags};
use rustix::io::Errno;

use super::rules::Rules;
use super::{MAX_DEPTH, Stopped, failed, is_folder};
use crate::core::tree::{Item, PathBytes};
use crate::workspace::files::cache::Stamp;
use crate::workspace::files::cover::Coverage;
use crate::workspace::files::read::{self, ReadResult};
use crate::workspace::handle::Folder;

/// A path below the root, and its current item with its content; `None` if it does not exist.
pub type PathState = (PathBytes, Option<(Item, Option<Vec<u8>>)>);

/// Scans one path, which is absolute, with its links followed. Returns `None` if it is not covered,
/// or if its state is not certain yet.
///
/// # Errors
/// [`Stopped::Failed`].
pub fn one(coverage: &Coverage, path: &Path) -> Result<Option<PathState>, Stopped> {
    let Ok(below) = path.strip_prefix(&coverage.root) else {
        return Ok(None);
    };
    let (Some(parent), Some(name)) = (path.parent(), below.file_name()) else {
        return Ok(None);
    };
    let at = below.as_os_str().as_bytes().to_vec();
    if !is_covered(coverage, below) {
        return Ok(None);
    }
    let failed = |error: io::Error| failed(path, error);
    let folder = match Folder::open(parent) {
        Ok(folder) => folder,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Some((at, None)));
        }
        Err(e) => return Err(failed(e)),
    };
    let stat = match sys::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Some((at, None))),
        Err(e) => return Err(failed(e.into())),
    };
    if is_folder(&Stamp::of(&stat)) {
        return Ok(None);
    }
    let (fd, limit) = (folder.as_fd(), coverage.max_file_bytes);
    match read::read(fd, name.as_bytes(), path, &stat, limit, false).map_err(failed)? {
        ReadResult::Item { item, content, .. } => Ok(Some((at, Some((item, content))))),
        ReadResult::Unsteady(_) => Ok(None),
        ReadResult::Gone => Ok(Some((at, None))),
    }
}

/// Returns whether a path and all its parent folders are covered.
fn is_covered(coverage: &Coverage, below: &Path) -> bool {
    let mut rules = Rules::new(&coverage.root);
    let mut way: Vec<&Path> = below.ancestors().collect();
    way.pop();
    way.reverse();
    if way.len() > MAX_DEPTH {
        return false;
    }
    rules.enter(coverage.root.clone());
    for (place, at) in way.iter().enumerate() {
        let is_folder = place + 1 < way.len();
        let absolute = coverage.root.join(at);
        let ignored = rules.is_ignored(&absolute, is_folder);
        if !coverage.covers(at.as_os_str().as_bytes(), ignored) {
            return false;
        }
        rules.enter(absolute);
    }
    true
}
