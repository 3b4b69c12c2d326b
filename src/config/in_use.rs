//! Files that SQLite has open in this process. Opening and closing such a file elsewhere would
//! release SQLite's locks: see `crate::store::database`, which registers them. The list is in this
//! lower room so that all code that opens a file by a name from outside, even a link in a
//! workspace, can ask.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Error text for such a file.
pub const IN_USE: &str = "it is the session store, which is in use";

/// Device and inode.
type FileId = (u64, u64);

struct InUse {
    /// Files of a database that is being opened. They may not exist yet.
    opening: Vec<PathBuf>,
    /// Number of connections that each file is open for.
    open: BTreeMap<FileId, u32>,
    /// Number of connections that are being closed.
    closing: u32,
}

static IN_USE_HERE: Mutex<InUse> = Mutex::new(InUse {
    opening: Vec::new(),
    open: BTreeMap::new(),
    closing: 0,
});

static CLOSED: Condvar = Condvar::new();

/// Maximum time to wait for a connection to be closed.
const MAX_CLOSING: Duration = Duration::from_secs(5);

fn files_in_use_here() -> MutexGuard<'static, InUse> {
    IN_USE_HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this is such a file, under any name. Then it must not be opened, not even for
/// reading.
///
/// The last connection that closes removes `-wal` and `-shm` before they are forgotten here, and
/// another file may have got their inode by then. So while a connection is being closed, a
/// positive answer waits for its end.
pub fn is_in_use(path: &Path) -> bool {
    let until = Instant::now() + MAX_CLOSING;
    while let Some(found) = id(path) {
        let here = files_in_use_here();
        if !here.knows(found) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if here.closing == 0 || left.is_zero() {
            return true;
        }
        // Starts again, because another file may be there now.
        drop(CLOSED.wait_timeout(here, left));
    }
    false
}

impl InUse {
    fn knows(&self, found: FileId) -> bool {
        self.open.contains_key(&found) || self.opening.iter().any(|p| id(p) == Some(found))
    }
}

/// The files of one connection. [`is_in_use`] knows them while this value lives. Create it before
/// the connection, and drop it after the connection.
pub struct FilesInUse {
    paths: Vec<PathBuf>,
    open: Vec<FileId>,
    /// Whether the connection is being closed.
    is_closing: Arc<AtomicBool>,
}

/// Marks a connection as being closed, until its [`FilesInUse`] is dropped too. Drop this value
/// right before the connection.
pub struct BeforeClosing(Arc<AtomicBool>);

impl Drop for BeforeClosing {
    fn drop(&mut self) {
        let mut here = files_in_use_here();
        here.closing += 1;
        self.0.store(true, Ordering::Relaxed);
    }
}

impl FilesInUse {
    /// Registers the files before SQLite opens them. Otherwise another thread could open one now,
    /// and close it when it is locked.
    pub fn opening(paths: impl Iterator<Item = PathBuf>) -> FilesInUse {
        let paths: Vec<PathBuf> = paths.collect();
        let mut here = files_in_use_here();
        here.opening.extend(paths.iter().cloned());
        FilesInUse {
            paths,
            open: Vec::new(),
            is_closing: Arc::default(),
        }
    }

    /// Records that all files exist. From now on they are recognised without their paths.
    pub fn opened(mut self) -> FilesInUse {
        self.open = self.paths.iter().filter_map(|path| id(path)).collect();
        let mut here = files_in_use_here();
        for file in &self.open {
            *here.open.entry(*file).or_insert(0) += 1;
        }
        forget(&mut here.opening, &mut self.paths);
        drop(here);
        self
    }

    pub fn before_closing(&self) -> BeforeClosing {
        BeforeClosing(Arc::clone(&self.is_closing))
    }
}

/// Removes paths from the list, one occurrence each: another connection may be opening the same
/// files.
fn forget(opening: &mut Vec<PathBuf>, paths: &mut Vec<PathBuf>) {
    for path in paths.drain(..) {
        if let Some(at) = opening.iter().position(|other| *other == path) {
            opening.swap_remove(at);
        }
    }
}

impl Drop for FilesInUse {
    fn drop(&mut self) {
        let mut here = files_in_use_here();
        forget(&mut here.opening, &mut self.paths);
        for file in &self.open {
            if let Some(connections) = here.open.get_mut(file) {
                *connections -= 1;
                if *connections == 0 {
                    here.open.remove(file);
                }
            }
        }
        if self.is_closing.load(Ordering::Relaxed) {
            here.closing -= 1;
            CLOSED.notify_all();
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

    #[test]
    fn while_a_connection_is_closed_a_yes_waits_for_the_end_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "").unwrap();
        let files = FilesInUse::opening([path.clone()].into_iter()).opened();
        drop(files.before_closing());
        // As a new file that has the inode of one that SQLite removed.
        let asked = std::thread::spawn(move || is_in_use(&path));
        std::thread::sleep(Duration::from_millis(100));
        drop(files);
        assert!(!asked.join().unwrap());
    }
}
