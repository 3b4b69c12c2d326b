//! The new database takes the place of the damaged one, which keeps another name.
//!
//! The order: the new one is complete and synced; the marker says so, and how the old one is to be
//! called; the files beside the old one are renamed, since a write-ahead log is not tied to its
//! database; the old one, then the new one; the marker goes. A kill before the marker leaves the
//! old database; behind it the next one that opens the store does the rest. Nobody opens it
//! between, for all of it is done by who has the store alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::WHAT;
use crate::store::StoreError;
use crate::store::database::{Names, names};
use crate::store::error::io as io_error;
use crate::store::lock::StoreLock;

/// What a test stops at, to be killed there.
pub(super) type Step<'s> = dyn FnMut(&'static str) -> io::Result<()> + 's;

/// The first line of the marker. The second is what the old files are called by.
const FORM: &str = "rewake rebuilt 1";

/// Whether a new database is complete and has not got its name yet.
pub(in crate::store) fn is_begun(data_dir: &Path) -> bool {
    names(data_dir).marker.exists()
}

/// The rest of what a kill interrupted; the store is had alone meanwhile.
pub(in crate::store) fn finish(data_dir: &Path, lock: StoreLock) -> Result<StoreLock, StoreError> {
    let is_done = || Ok(!is_begun(data_dir));
    match lock.alone(data_dir, is_done)? {
        Some(alone) => {
            rest(&names(data_dir), &mut |_| Ok(())).map_err(|e| io_error(WHAT, e))?;
            alone.share(data_dir)
        }
        None => StoreLock::shared(data_dir),
    }
}

/// The new database is complete: it gets the name. `time` tells the old files from others.
pub(super) fn swap(names: &Names, time: &str, step: &mut Step<'_>) -> io::Result<()> {
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

/// What is not done yet of it.
pub(super) fn rest(names: &Names, step: &mut Step<'_>) -> io::Result<()> {
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
    // Without the new one all is done but the marker.
    if names.rebuilding.exists() {
        let [damaged, wal, shm] = names.damaged(time);
        step("before the files beside")?;
        rename(&names.beside[1], &shm)?;
        step("shared memory renamed")?;
        rename(&names.beside[0], &wal)?;
        sync(names)?;
        step("log renamed")?;
        // Behind a kill the database may be gone from its name already.
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

    /// Whatever instant a kill comes at: before the marker all of the old one is there under its
    /// name; behind it the next start has all of the new one, and never a log of the old beside it.
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
            let swapped = swap(&names, "7", &mut |_| {
                at += 1;
                match at > kill {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(()),
                }
            });
            steps = steps.max(at);
            let was_named = is_begun(dir.path()) || swapped.is_ok();
            // A second kill while the rest is done, at the same step.
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
