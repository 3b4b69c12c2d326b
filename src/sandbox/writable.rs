//! The folders that a command may write to, opened before it starts, and names below them.
//!
//! A process of the command may exchange a folder below them for a symbolic link at any time. The
//! keeper is in no sandbox, so it never acts there by a path: it opens the folder that holds a name,
//! no link followed, and acts by that name in the open folder.
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
pub(super) struct Spot {
    pub folder: Folder,
    pub name: OsString,
}

impl WritableRoots {
    /// Opens these folders. Below a file, and below what is not there, is nothing.
    pub(super) fn open(paths: &[PathBuf]) -> WritableRoots {
        let opened = paths
            .iter()
            .filter_map(|path| Some((path.clone(), Folder::open(path).ok()?)));
        WritableRoots(opened.collect())
    }

    /// Opens the folder that holds this path.
    pub(super) fn spot(&self, path: &Path) -> io::Result<Spot> {
        let (root, parent, name) = self.parts(path)?;
        let folder = root.below(parent)?;
        Ok(Spot::new(folder, name))
    }

    /// The same; folders that are missing on the way are made.
    pub(super) fn make_spot(&self, path: &Path) -> io::Result<Spot> {
        let (root, parent, name) = self.parts(path)?;
        let folder = root.make_below(parent)?;
        Ok(Spot::new(folder, name))
    }

    /// Returns the topmost folder on the way to a path that is a link now.
    pub(super) fn link_on_the_way(&self, path: &Path) -> Option<(PathBuf, Spot)> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut below = above.into_iter().rev();
        below.find_map(|folder| {
            let spot = self.spot(folder).ok()?;
            spot.is_link().then(|| (folder.to_path_buf(), spot))
        })
    }

    /// Whether something has this name, or a link is on the way to it.
    pub(super) fn has(&self, path: &Path) -> bool {
        match self.spot(path) {
            Ok(spot) => spot.stat().is_ok(),
            Err(_) => self.link_on_the_way(path).is_some(),
        }
    }

    /// The folder that a path lies below, the way from there to its parent, and its name.
    fn parts<'a>(&self, path: &'a Path) -> io::Result<(&Folder, &'a Path, &'a OsStr)> {
        let above = self.0.iter().filter(|(root, _)| path.starts_with(root));
        let nearest = above.max_by_key(|(root, _)| root.as_os_str().len());
        let (root, folder) = nearest.ok_or(ErrorKind::NotFound)?;
        let below = path.strip_prefix(root).map_err(io::Error::other)?;
        match (below.parent(), below.file_name()) {
            (Some(parent), Some(name)) => Ok((folder, parent, name)),
            // The root itself lies in a folder that is nobody's to write to.
            _ => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl Spot {
    fn new(folder: Folder, name: &OsStr) -> Spot {
        #[cfg(test)]
        between();
        let name = name.to_os_string();
        Spot { folder, name }
    }

    /// Of a link: of itself.
    pub(super) fn stat(&self) -> io::Result<Stat> {
        self.folder.stat(&self.name)
    }

    pub(super) fn is_link(&self) -> bool {
        self.stat()
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
    }

    /// Lets us move what has this name: a command may have taken the leave to it from us, who own it.
    pub(super) fn open_up(&self) {
        let own = self.folder.below(Path::new(&self.name));
        for folder in [Some(&self.folder), own.as_ref().ok()]
            .into_iter()
            .flatten()
        {
            if let Ok(mode) = handle::mode(folder) {
                // A folder of somebody else stays as it is, and so does what is in it.
                let _ = handle::set_mode(folder, mode | 0o700);
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Called when a folder is open and nothing was done in it yet.
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
