//! What must be on the disk before what while files are set back, and while a fork gets files of
//! its own. After a power cut at any instant a path is as it was or as it is to be, and what is
//! not done is known to the next start:
//!
//! 1. A path changes only when the log has no write that is not synced, and at least one that is:
//!    what is to be done and what the files are now is there. So are all packs.
//! 2. A path gets only content that is synced, from a name that is.
//! 3. The log is written again (`Restored`) only when each folder in which a name changed is synced.
//! 4. Nothing is made for a fork before there is a note of it on the disk.

use std::collections::HashSet;
use std::path::Path;

use crate::power::trace::{Op, What};

const BENCH: &str = "/.rewake-restore-";
const LOG: &str = "rewake.db-wal";

/// How often the rules had something to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub placed: usize,
    pub removed: usize,
}

#[derive(Default)]
struct Watch {
    root: String,
    found: Found,
    /// Files and folders with a write or a new name that is not synced.
    dirty: HashSet<String>,
    log_syncs: usize,
    notes: usize,
    needs_note: bool,
    is_recorded: bool,
}

/// # Errors
/// The first operation that came too early, and what was missing.
pub fn check(ops: &[Op], root: &Path, is_fork: bool) -> Result<Found, String> {
    let mut watch = Watch {
        root: root.to_string_lossy().into_owned(),
        needs_note: is_fork,
        ..Watch::default()
    };
    for op in ops {
        watch
            .take(&op.what)
            .map_err(|fault| format!("{fault}, at {:?}", op.what))?;
    }
    match watch.is_recorded {
        true => Ok(watch.found),
        false => Err("what was done is not recorded".into()),
    }
}

impl Watch {
    fn take(&mut self, what: &What) -> Result<(), String> {
        match what {
            What::Synced { path } => {
                self.log_syncs += usize::from(path.ends_with(LOG) && self.dirty.contains(path));
                self.notes += usize::from(path.contains("/files/forks/"));
                self.dirty.remove(path);
            }
            What::SyncedAll { path } => {
                let root = &self.root;
                let is_there = path.starts_with(root);
                self.dirty
                    .retain(|path| !is_there || !path.starts_with(root));
            }
            What::Wrote { to, .. } => {
                self.is_noted(to)?;
                if to.ends_with(LOG) && self.has_changed() {
                    self.folders_are_synced()?;
                    self.is_recorded = true;
                }
                self.dirty.insert(to.clone());
            }
            What::MadeFolder { path } => {
                self.is_noted(path)?;
                self.dirty.insert(parent(path));
            }
            // It has no names any more, and is a name less where it was.
            What::RemovedFolder { path } => {
                self.dirty.remove(path);
                self.dirty.insert(parent(path));
            }
            What::Named { from, to } => self.named(from, to)?,
            What::Executed { .. } => {}
        }
        Ok(())
    }

    fn has_changed(&self) -> bool {
        self.found.placed + self.found.removed > 0
    }

    fn is_noted(&self, path: &str) -> Result<(), String> {
        match self.needs_note && self.notes == 0 && path.starts_with(&self.root) {
            true => Err("something is made before its note".into()),
            false => Ok(()),
        }
    }

    fn named(&mut self, from: &str, to: &str) -> Result<(), String> {
        let of_bench = |path: &str| path.starts_with(&self.root) && path.contains(BENCH);
        let of_root = |path: &str| path.starts_with(&self.root) && !path.contains(BENCH);
        if of_bench(from) && of_bench(to) {
            // Its content has another name now, synced or not.
            if self.dirty.remove(from) {
                self.dirty.insert(to.to_string());
            }
            self.dirty.insert(parent(to));
        } else if of_bench(from) && of_root(to) {
            self.may_change()?;
            for path in [from, &parent(from)] {
                if self.dirty.contains(path) && !self.has_changed() {
                    return Err(format!("{path} is not synced"));
                }
            }
            if self.dirty.contains(from) {
                return Err(format!("{from} is not synced"));
            }
            self.found.placed += 1;
            self.dirty.insert(parent(to));
        } else if of_root(from) {
            self.may_change()?;
            self.found.removed += 1;
            self.dirty.insert(parent(from));
        }
        Ok(())
    }

    /// What is to be done is known after a power cut.
    fn may_change(&self) -> Result<(), String> {
        let is_kept = |path: &&String| path.ends_with(LOG) || path.ends_with(".pack");
        match self.dirty.iter().find(is_kept) {
            Some(path) => Err(format!("a path changes, and {path} is not synced")),
            None if self.log_syncs == 0 => Err("a path changes before anything is recorded".into()),
            None => Ok(()),
        }
    }

    fn folders_are_synced(&self) -> Result<(), String> {
        let here = |path: &&String| path.starts_with(&self.root) && !path.contains(BENCH);
        match self.dirty.iter().find(here) {
            Some(path) => Err(format!("it is recorded as done, and {path} is not synced")),
            None => Ok(()),
        }
    }
}

fn parent(path: &str) -> String {
    let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
    parent.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power::trace;

    /// One file is set back, another is removed.
    const GOOD: &str = r#"1 write(4</h/files/forks/0197>, "{}", 2) = 2
1 fsync(4</h/files/forks/0197>) = 0
1 write(8</h/files/packs/p.pack>, "x", 1) = 1
1 fdatasync(8</h/files/packs/p.pack>) = 0
1 pwrite64(3</h/rewake.db-wal>, "x", 1, 0) = 1
1 fdatasync(3</h/rewake.db-wal>) = 0
2 mkdirat(5</w>, ".rewake-restore-1", 0700) = 0
2 write(7</w/.rewake-restore-1/a.part>, "two", 3) = 3
2 fsync(7</w/.rewake-restore-1/a.part>) = 0
2 renameat(6</w/.rewake-restore-1>, "a.part", 6</w/.rewake-restore-1>, "a") = 0
2 fsync(6</w/.rewake-restore-1>) = 0
2 renameat2(6</w/.rewake-restore-1>, "a", 5</w/d>, "a", RENAME_EXCHANGE) = 0
2 renameat2(5</w/e>, "b", 6</w/.rewake-restore-1>, "b.out", RENAME_NOREPLACE) = 0
2 fsync(5</w/d>) = 0
2 fsync(5</w/e>) = 0
2 fsync(5</w>) = 0
1 pwrite64(3</h/rewake.db-wal>, "x", 1, 0) = 1
"#;

    fn checked(text: &str) -> Result<Found, String> {
        check(&trace::read(text), Path::new("/w"), true)
    }

    #[test]
    fn a_good_trace_passes_and_is_counted() {
        let found = Found {
            placed: 1,
            removed: 1,
        };
        assert_eq!(checked(GOOD), Ok(found));
        // One sync of the file system for all that is laid out.
        let all = GOOD.replace(
            "fsync(7</w/.rewake-restore-1/a.part>)",
            "syncfs(7</w/.rewake-restore-1>)",
        );
        assert!(checked(&all).is_ok());
    }

    #[test]
    fn without_any_one_of_its_syncs_it_is_refused() {
        for (place, line) in GOOD.lines().enumerate() {
            if line.contains("sync(") {
                let rest = GOOD.lines().enumerate().filter(|(n, _)| *n != place);
                let rest: String = rest.map(|(_, l)| format!("{l}\n")).collect();
                assert!(checked(&rest).is_err(), "without {line}");
            }
        }
        let unrecorded = GOOD.trim_end().rsplit_once('\n').unwrap().0;
        assert!(checked(unrecorded).is_err());
    }
}
