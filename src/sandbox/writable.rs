//! The folders that a command may write to, opened before it starts, and names below them.
//!
//! A process of the command may replace a folder below them with a symbolic link at any time. The
//! keeper runs outside of the sandbox, so it never uses a path there. It opens the parent folder of
//! a name without following links, and acts on that name in the open folder.
//!
//! Invariant: nothing outside of these folders is read or changed from here.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use crate::workspace::handle::{self, Folder};

/// The open folders, by their paths.
#[derive(Debug)]
pub(super) struct WritableRoots(Vec<(PathBuf, Folder)>);

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct FolderEntry {
    pub folder: Folder,
    pub name: OsString,
}

impl WritableRoots {
    /// Opens these folders. A path that is a file or does not exist has nothing below it.
    pub(super) fn open(paths: &[PathBuf]) -> WritableRoots {
        let opened = paths
            .iter()
            .filter_map(|path| Some((path.clone(), Folder::open(path).ok()?)));
        WritableRoots(opened.collect())
    }

    /// Opens the parent folder of this path.
    pub(super) fn spot(&self, path: &Path) -> io::Result<FolderEntry> {
        let (root, parent, name) = self.parts(path)?;
        let folder = root.below(parent)?;
        Ok(FolderEntry::new(folder, name))
    }

    /// Does the same, and creates missing folders.
    pub(super) fn make_spot(&self, path: &Path) -> io::Result<FolderEntry> {
        let (root, parent, name) = self.parts(path)?;
        let folder = root.make_below(parent)?;
        Ok(FolderEntry::new(folder, name))
    }

    /// Returns the topmost folder of a path that is a link now.
    pub(super) fn topmost_link(&self, path: &Path) -> Option<(PathBuf, FolderEntry)> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut below = above.into_iter().rev();
        below.find_map(|folder| {
            let spot = self.spot(folder).ok()?;
            spot.is_link().then(|| (folder.to_path_buf(), spot))
        })
    }

    /// Returns whether the path exists, or one of its folders is a link.
    pub(super) fn has(&self, path: &Path) -> bool {
        match self.spot(path) {
            Ok(spot) => spot.stat().is_ok(),
            Err(_) => self.topmost_link(path).is_some(),
        }
    }

    /// Splits a path into its open root folder, the path from there to its parent, and its name.
    fn parts<'a>(&self, path: &'a Path) -> io::Result<(&Folder, &'a Path, &'a OsStr)> {
        let above = self.0.iter().filter(|(root, _)| path.starts_with(root));
        let nearest = above.max_by_key(|(root, _)| root.as_os_str().len());
        let (root, folder) = nearest.ok_or(ErrorKind::NotFound)?;
        let below = path.strip_prefix(root).map_err(io::Error::other)?;
        match (below.parent(), below.file_name()) {
            (Some(parent), Some(name)) => Ok((folder, parent, name)),
            // The parent of the root itself is not writable.
            _ => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl FolderEntry {
    fn new(folder: Folder, name: &OsStr) -> FolderEntry {
        #[cfg(test)]
        between();
        let name = name.to_os_string();
        FolderEntry { folder, name }
    }

    /// Returns the metadata of the name; of a link, its own.
    pub(super) fn stat(&self) -> io::Result<Stat> {
        self.folder.stat(&self.name)
    }

    pub(super) fn is_link(&self) -> bool {
        self.stat()
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
    }

    /// Makes an entry of ours movable, if a command has removed the permissions that this needs.
    pub(super) fn open_up(&self) {
        let own = self.folder.below(Path::new(&self.name));
        for folder in [Some(&self.folder), own.as_ref().ok()]
            .into_iter()
            .flatten()
        {
            if let Ok(mode) = handle::mode(folder) {
                // A folder of another user, and everything in it, stays unchanged.
                let _ = handle::set_mode(folder, mode | 0o700);
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Called after a folder was opened and before anything is done in it.
    pub(super) static BETWEEN: std::cell::RefCell<Option<Box<dyn FnMut()>>> =
        const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn between() {
    BETWEEN.with_borrow_mut(|act| {
        if let Some(act) = act {
            act();
        }
    });
}
