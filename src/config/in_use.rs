//! Files that SQLite has open in this process. To open one beside it takes its locks away: see
//! `crate::store::database`, which is the one that names them. They are kept down here, so that
//! whatever opens a file that was named from outside, be it a link in a workspace, can ask.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is said of such a file instead of opening it.
pub const IN_USE: &str = "it is the session store, which is in use";

/// Device and inode.
type FileId = (u64, u64);

struct InUse {
    /// Files of a database that is being opened: they may not be there yet.
    opening: Vec<PathBuf>,
    /// For how many connections each is open.
    open: BTreeMap<FileId, u32>,
    /// So many connections are being closed.
    closing: u32,
}

static IN_USE_HERE: Mutex<InUse> = Mutex::new(InUse {
    opening: Vec::new(),
    open: BTreeMap::new(),
    closing: 0,
});

static CLOSED: Condvar = Condvar::new();

/// A connection that takes longer to be closed is not waited for.
const MAX_CLOSING: Duration = Duration::from_secs(5);

fn in_use_here() -> MutexGuard<'static, InUse> {
    IN_USE_HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is such a file, whatever name it is given: then it must not be opened, not
/// even to be read.
///
/// The last connection that closes removes `-wal` and `-shm` before they are forgotten here, and
/// another file may have got their inode by then. So while one is being closed, a yes waits for
/// the end of that.
pub fn is_in_use(path: &Path) -> bool {
    let until = Instant::now() + MAX_CLOSING;
    while let Some(found) = id(path) {
        let here = in_use_here();
        if !here.knows(found) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if here.closing == 0 || left.is_zero() {
            return true;
        }
        // Asked again from the begin: another file may lie there by then.
        drop(CLOSED.wait_timeout(here, left));
    }
    false
}

impl InUse {
    fn knows(&self, found: FileId) -> bool {
        self.open.contains_key(&found) || self.opening.iter().any(|p| id(p) == Some(found))
    }
}

/// The files of one connection, known to [`is_in_use`] while this lives. To be made before
/// the connection and dropped behind it.
pub struct FilesInUse {
    paths: Vec<PathBuf>,
    open: Vec<FileId>,
    /// Its connection is being closed.
    is_closing: Arc<AtomicBool>,
}

/// To be dropped right before the connection: from then on, until its [`FilesInUse`] is dropped
/// too, it is being closed.
pub struct BeforeClosing(Arc<AtomicBool>);

impl Drop for BeforeClosing {
    fn drop(&mut self) {
        let mut here = in_use_here();
        here.closing += 1;
        self.0.store(true, Ordering::Relaxed);
    }
}

impl FilesInUse {
    /// Before SQLite opens them: what another thread opens now, it may close when they are
    /// locked.
    pub fn opening(paths: impl Iterator<Item = PathBuf>) -> FilesInUse {
        let paths: Vec<PathBuf> = paths.collect();
        let mut here = in_use_here();
        here.opening.extend(paths.iter().cloned());
        FilesInUse {
            paths,
            open: Vec::new(),
            is_closing: Arc::default(),
        }
    }

    /// All of them are there: from here on they are known without a look at their paths.
    pub fn opened(mut self) -> FilesInUse {
        self.open = self.paths.iter().filter_map(|path| id(path)).collect();
        let mut here = in_use_here();
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
        let mut here = in_use_here();
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
