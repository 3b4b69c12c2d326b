//! The modes of folders that forbid a restore. A folder of the user has all permissions of its owner
//! meanwhile. Its mode is noted beside it before, for the next attempt after a kill.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::fstat;

use super::{Job, RestoreRoot, is_marker, slot};
use crate::core::tree::Tree;
use crate::workspace::files::cover::STAGED;
use crate::workspace::handle::{Folder, mode, set_mode};

/// All permissions of the owner of a folder.
const OWNER: u32 = 0o700;

/// Name, before a hash of the path, of a link to the digits of a folder's mode. Scans leave it out as
/// they do staged files.
const NOTE: &str = "mode-";

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
        let (place, name) = self.note(&path)?;
        let noted = place.read_link(&name).ok();
        let noted = noted.and_then(|mode| u32::from_str_radix(mode.to_str()?, 8).ok());
        let previous = noted.map_or_else(|| mode(&folder), Ok)?;
        let is_own = fstat(&folder)?.st_uid == rustix::process::geteuid().as_raw();
        if !is_own || previous & OWNER == OWNER {
            return Ok(());
        }
        // One that the tree could not list is to be readable again.
        let is_lent = !is_marker(before, path.as_os_str().as_bytes());
        let digits = format!("{previous:o}");
        let note = || is_lent && place.make_link(OsStr::new(&digits), &name).is_ok();
        let is_noted = note();
        set_mode(&folder, previous | OWNER)?;
        // The root can be written only now.
        let _ = is_noted || note();
        self.lent.extend(is_lent.then_some((path, previous)));
        Ok(())
    }

    /// Returns where the mode of a folder is noted: beside it, or in the root.
    fn note(&self, path: &Path) -> io::Result<(Folder, OsString)> {
        let place = self.root.below(path.parent().unwrap_or(path))?;
        let name = format!("{STAGED}{NOTE}{}", slot(path.as_os_str().as_bytes()));
        Ok((place, name.into()))
    }

    /// Removes the staging folder, and puts the modes back, deepest folder first.
    pub(super) fn close_folders(&mut self) {
        if let Some(bench) = &self.bench {
            bench.clear();
        }
        for (path, previous) in std::mem::take(&mut self.lent).into_iter().rev() {
            // A note in the root cannot be removed afterwards.
            if path.as_os_str().is_empty() {
                self.forget(&path);
            }
            if let Ok(folder) = self.root.below(&path)
                && mode(&folder).is_ok_and(|mode| mode == previous | OWNER)
            {
                let _ = set_mode(&folder, previous);
            }
            self.forget(&path);
        }
    }

    fn forget(&self, path: &Path) {
        let _ = self.note(path).map(|(place, name)| place.remove(&name));
    }
}
