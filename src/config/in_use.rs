//! Files that SQLite has open in this process. To open one beside it takes its locks away: see
//! `crate::store::database`, which is the one that names them. They are kept down here, so that
//! whatever opens a file that was named from outside, be it a link in a workspace, can ask.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// What is said of such a file instead of opening it.
pub const IN_USE: &str = "it is the session store, which is in use";

/// Device and inode.
type FileId = (u64, u64);

struct InUse {
    /// Files of a database that is being opened: they may not be there yet.
    opening: Vec<PathBuf>,
    /// For how many connections each is open.
    open: BTreeMap<FileId, u32>,
}

static IN_USE_HERE: RwLock<InUse> = RwLock::new(InUse {
    opening: Vec::new(),
    open: BTreeMap::new(),
});

/// Whether this is such a file, whatever name it is given: then it must not be opened, not
/// even to be read.
///
/// The last connection that closes removes `-wal` and `-shm` a moment before they are forgotten
/// here, and another file may have got their inode by then. So a yes is asked for again: nobody
/// waits for the answer but who was to be refused.
pub fn is_in_use(path: &Path) -> bool {
    let mut asked = 1;
    while is_known(path) {
        if asked == ASKED_AT_MOST {
            return true;
        }
        asked += 1;
        std::thread::sleep(ASKED_AGAIN_AFTER);
    }
    false
}

const ASKED_AT_MOST: u32 = 5;
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(4);

fn is_known(path: &Path) -> bool {
    let here = IN_USE_HERE.read().unwrap_or_else(PoisonError::into_inner);
    if here.opening.is_empty() && here.open.is_empty() {
        return false;
    }
    let is =
        |found| here.open.contains_key(&found) || here.opening.iter().any(|p| id(p) == Some(found));
    id(path).is_some_and(is)
}

/// The files of one connection, known to [`is_in_use`] while this lives. To be made before
/// the connection and dropped behind it.
pub struct FilesInUse {
    paths: Vec<PathBuf>,
    open: Vec<FileId>,
}

impl FilesInUse {
    /// Before SQLite opens them: what another thread opens now, it may close when they are
    /// locked.
    pub fn opening(paths: impl Iterator<Item = PathBuf>) -> FilesInUse {
        let paths: Vec<PathBuf> = paths.collect();
        let mut here = IN_USE_HERE.write().unwrap_or_else(PoisonError::into_inner);
        here.opening.extend(paths.iter().cloned());
        FilesInUse {
            paths,
            open: Vec::new(),
        }
    }

    /// All of them are there: from here on they are known without a look at their paths.
    pub fn opened(mut self) -> FilesInUse {
        self.open = self.paths.iter().filter_map(|path| id(path)).collect();
        let mut here = IN_USE_HERE.write().unwrap_or_else(PoisonError::into_inner);
        for file in &self.open {
            *here.open.entry(*file).or_insert(0) += 1;
        }
        forget(&mut here.opening, &mut self.paths);
        drop(here);
        self
    }
}

/// Another connection may be opening the same ones: each is taken out once.
fn forget(opening: &mut Vec<PathBuf>, paths: &mut Vec<PathBuf>) {
    for path in paths.drain(..) {
        if let Some(at) = opening.iter().position(|other| *other == path) {
            opening.swap_remove(at);
        }
    }
}

impl Drop for FilesInUse {
    fn drop(&mut self) {
        let mut here = IN_USE_HERE.write().unwrap_or_else(PoisonError::into_inner);
        forget(&mut here.opening, &mut self.paths);
        for file in &self.open {
            if let Some(connections) = here.open.get_mut(file) {
                *connections -= 1;
                if *connections == 0 {
                    here.open.remove(file);
                }
            }
        }
    }
}

fn id(path: &Path) -> Option<FileId> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_from_before_they_are_opened_until_they_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let files = || FilesInUse::opening([path.clone()].into_iter());
        let (first, second) = (files(), files());
        assert!(!is_in_use(&link), "it is not there");
        fs::write(&path, "").unwrap();
        assert!(is_in_use(&link), "SQLite made it");
        let first = first.opened();
        drop(second);
        assert!(is_in_use(&link));
        drop(first);
        assert!(!is_in_use(&link));
    }
}
