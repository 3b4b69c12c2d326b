//! The swap of a damaged database with the new one. The damaged one gets another name.
//!
//! The order:
//!
//! 1. The new database is complete and synced.
//! 2. The marker is written. It contains the suffix of the old files' names.
//! 3. The files beside the old database are renamed, because a write-ahead log is not tied to its
//!    database.
//! 4. The old database is renamed, then the new one.
//! 5. The marker is removed.
//!
//! A kill before step 2 leaves the old database. After it, the next process that opens the store
//! completes the swap. Each of these processes has the exclusive lock of the store, so no process
//! opens the database in between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::StoreError;
use super::database::{Names, names};
use super::error::io as io_error;
use super::lock::StoreLock;
use super::new_database::WHAT;

/// A callback before each step, with which a test simulates a kill.
type Step<'s> = dyn FnMut(&'static str) -> io::Result<()> + 's;

/// The first line of the marker. The second is the suffix of the old files' names.
const FORM: &str = "rewake rebuilt 1";

/// Returns whether a new database is complete, but the swap is not.
pub(crate) fn is_begun(data_dir: &Path) -> bool {
    names(data_dir).marker.exists()
}

/// Completes a swap that a kill interrupted, under the exclusive lock of the store.
pub(crate) fn finish(data_dir: &Path, lock: StoreLock) -> Result<StoreLock, StoreError> {
    let is_done = || Ok(!is_begun(data_dir));
    match lock.exclusive(data_dir, is_done)? {
        Some(alone) => {
            rest(&names(data_dir), &mut |_| Ok(())).map_err(|e| io_error(WHAT, e))?;
            alone.share(data_dir)
        }
        None => StoreLock::shared(data_dir),
    }
}

/// Gives the new database, which must be complete, its final name. `time` is the suffix of the old
/// files' names.
pub(crate) fn swap(names: &Names, time: &str) -> io::Result<()> {
    swap_with(names, time, &mut |_| Ok(()))
}

fn swap_with(names: &Names, time: &str, step: &mut Step<'_>) -> io::Result<()> {
    step("complete")?;
    File::open(&names.rebuilding)?.sync_all()?;
    let new = names.marker.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{FORM}\n{time}\n").as_bytes())?;
    file.sync_all()?;
    step("marker written")?;
    fs::rename(&new, &names.marker)?;
    sync(names)?;
    step("marker named")?;
    rest(names, step)
}

/// Performs the remaining steps after the marker was written.
fn rest(names: &Names, step: &mut Step<'_>) -> io::Result<()> {
    let Ok(text) = fs::read_to_string(&names.marker) else {
        return Ok(());
    };
    let mut lines = text.lines();
    let (Some(FORM), Some(time)) = (lines.next(), lines.next()) else {
        return Err(io::Error::other(format!(
            "{} is not understood: a newer version wrote it",
            names.marker.display()
        )));
    };
    // If the new file has its final name, only the marker is left to remove.
    if names.rebuilding.exists() {
        let [damaged, wal, shm] = names.damaged(time);
        step("before the files beside")?;
        rename(&names.beside[1], &shm)?;
        step("shared memory renamed")?;
        rename(&names.beside[0], &wal)?;
        sync(names)?;
        step("log renamed")?;
        // A killed run may have renamed the database already.
        rename(&names.database, &damaged)?;
        step("old database renamed")?;
        fs::rename(&names.rebuilding, &names.database)?;
        sync(names)?;
        step("new database named")?;
    }
    fs::remove_file(&names.marker)?;
    sync(names)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn sync(names: &Names) -> io::Result<()> {
    match names.database.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [(&str, &str); 3] = [
        ("rewake.db", "old"),
        ("rewake.db-wal", "old log"),
        ("rewake.db-shm", "old memory"),
    ];

    fn text(dir: &Path, name: &str) -> Option<String> {
        fs::read_to_string(dir.join(name)).ok()
    }

    /// A kill before the marker leaves the complete old database under its name. A kill after it
    /// leaves the next start with the complete new one, and never with the log of the old one
    /// beside it.
    #[test]
    fn a_kill_at_any_step_leaves_the_old_one_or_the_new_one() {
        let mut steps = 0;
        let mut last = 0;
        for kill in 0.. {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in OLD {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let names = names(dir.path());
            fs::write(&names.rebuilding, "new").unwrap();
            let mut at = 0;
            let swapped = swap_with(&names, "7", &mut |_| {
                at += 1;
                match at > kill {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(()),
                }
            });
            steps = steps.max(at);
            let was_named = is_begun(dir.path()) || swapped.is_ok();
            // A second kill during the remaining steps.
            let mut at = 0;
            let _ = rest(&names, &mut |_| {
                at += 1;
                match at > kill % 3 {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(()),
                }
            });
            let lock = StoreLock::shared(dir.path()).unwrap();
            if is_begun(dir.path()) {
                drop(finish(dir.path(), lock).unwrap());
            }
            match was_named {
                false => {
                    for (name, old) in OLD {
                        assert_eq!(text(dir.path(), name).as_deref(), Some(old), "{kill}");
                    }
                }
                true => {
                    assert_eq!(
                        text(dir.path(), "rewake.db").as_deref(),
                        Some("new"),
                        "{kill}"
                    );
                    for (name, old) in OLD {
                        let kept = name.replace("rewake.db", "rewake.db.damaged-7");
                        assert_eq!(text(dir.path(), &kept).as_deref(), Some(old), "{kill}");
                    }
                    assert_eq!(text(dir.path(), "rewake.db-wal"), None, "{kill}");
                    assert!(!names.rebuilding.exists() && !names.marker.exists());
                }
            }
            last = kill;
            if swapped.is_ok() {
                break;
            }
        }
        assert_eq!((steps, last), (8, 8));
    }
}
