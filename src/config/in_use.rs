//! Files that SQLite has open in this process. To open one beside it takes its locks away: see
//! `crate::store::database`, which is the one that names them. They are kept down here, so that
//! whatever opens a file that was named from outside, be it a link in a workspace, can ask.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// What is said of such a file instead of opening it.
pub const IN_USE: &str = "it is the session store, which is in use";

/// Device and inode.
type FileId = (u64, u64);

/// For how many connections each is open.
static OPEN: RwLock<BTreeMap<FileId, u32>> = RwLock::new(BTreeMap::new());

/// Whether this is such a file, whatever name it is given: then it must not be opened, not
/// even to be read.
pub fn is_in_use(path: &Path) -> bool {
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    !open.is_empty() && id(path).is_some_and(|id| open.contains_key(&id))
}

/// The files of one connection, known to [`is_in_use`] while this lives. To be dropped behind
/// the connection.
pub struct FilesInUse(Vec<FileId>);

impl FilesInUse {
    pub fn of(paths: impl Iterator<Item = PathBuf>) -> FilesInUse {
        let files: Vec<FileId> = paths.filter_map(|path| id(&path)).collect();
        let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
        for file in &files {
            *open.entry(*file).or_insert(0) += 1;
        }
        FilesInUse(files)
    }
}

impl Drop for FilesInUse {
    fn drop(&mut self) {
        let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
        for file in &self.0 {
            if let Some(connections) = open.get_mut(file) {
                *connections -= 1;
                if *connections == 0 {
                    open.remove(file);
                }
            }
        }
    }
}

fn id(path: &Path) -> Option<FileId> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
