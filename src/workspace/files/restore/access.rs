//! The modes of folders that forbid a restore. A folder of the user has all permissions of its owner
//! meanwhile. Its mode is noted in it, for the next attempt after a kill.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::fstat;

use super::{Job, RestoreRoot, is_marker};
use crate::core::tree::Tree;
use crate::workspace::handle::{mode, set_mode};

/// All permissions of the owner of a folder.
const OWNER: u32 = 0o700;

/// The name of a link to the digits of the mode, in a folder whose mode is changed meanwhile. Scans
/// leave it out as they do staged files.
const NOTE: &str = ".rewake-restore-mode";

impl RestoreRoot<'_> {
    /// Makes the folders on the way to each path accessible, from the root down.
    pub(super) fn open_folders(&mut self, jobs: &[Job], before: &Tree) {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for path in jobs.iter().filter_map(|job| self.below(&job.path)) {
            folders.extend(path.ancestors().skip(1).map(Path::to_path_buf));
        }
        for folder in folders {
            // One that is missing, a link or another user's is left to what needs it.
            let _ = self.open_folder(folder, before);
        }
    }

    fn open_folder(&mut self, path: PathBuf, before: &Tree) -> io::Result<()> {
        let folder = self.root.below(&path)?;
        let noted = folder.read_link(OsStr::new(NOTE)).ok();
        let noted = noted.and_then(|mode| u32::from_str_radix(mode.to_str()?, 8).ok());
        let previous = noted.map_or_else(|| mode(&folder), Ok)?;
        let is_own = fstat(&folder)?.st_uid == rustix::process::geteuid().as_raw();
        if !is_own || previous & OWNER == OWNER {
            return Ok(());
        }
        set_mode(&folder, previous | OWNER)?;
        // One that the tree could not list is to be readable again.
        if !is_marker(before, path.as_os_str().as_bytes()) {
            let _ = folder.make_link(OsStr::new(&format!("{previous:o}")), OsStr::new(NOTE));
            self.lent.insert(path, previous);
        }
        Ok(())
    }

    /// Removes the staging folder, and puts the modes back, deepest folder first.
    pub(super) fn close_folders(&mut self) {
        if let Some(bench) = &self.bench {
            bench.clear();
        }
        for (path, previous) in std::mem::take(&mut self.lent).into_iter().rev() {
            if let Ok(folder) = self.root.below(&path) {
                let _ = folder.remove(OsStr::new(NOTE));
                if mode(&folder).is_ok_and(|mode| mode == previous | OWNER) {
                    let _ = set_mode(&folder, previous);
                }
            }
        }
    }
}
