//! Helpers for the paths of a profile: which exist, where they lead, and which are below others.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Resolves the links of a path's folder, but not of its last component. `None` if it does not
/// exist.
pub(super) fn real_parent(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?.canonicalize().ok()?;
    let path = parent.join(path.file_name()?);
    std::fs::symlink_metadata(&path).ok().map(|_| path)
}

/// Returns the real path of a path whose folder is a link: tools obey the file there too.
pub(super) fn below_link(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| folder.is_symlink())?;
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

/// Returns whether this user may read the file; others need no hiding. Opening it asks the kernel.
pub(super) fn may_be_read(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::read_dir(path).is_ok(),
        // It may just have become a FIFO.
        Ok(found) if found.is_file() => std::fs::File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .is_ok(),
        Ok(_) | Err(_) => false,
    }
}

pub(super) fn below<'a>(names: &'a [&'a str]) -> impl Fn(&Path) -> Vec<PathBuf> + 'a {
    |folder| names.iter().map(|name| folder.join(name)).collect()
}

/// Returns the existing paths, with links resolved.
pub(super) fn existing(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let paths = paths.into_iter();
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}

/// Returns the sorted paths, without those below another one.
pub(super) fn without_nested(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

pub(super) fn is_below_any(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}
