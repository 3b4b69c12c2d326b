//! The names in a folder: which exist, which are covered, and which are gone since the last scan.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{self as sys, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::rules::own_rules;
use super::{OpenFolder, Scan, Stopped, failed, is_folder};
use crate::core::tree::Change;
use crate::workspace::files::cache::{CachedName, FolderState, joined};

/// Maximum number of names in one folder, covered or not.
const MAX_NAMES: usize = 1_000_000;

impl Scan<'_> {
    /// Brings the names of a folder up to date.
    pub(super) fn list(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
    ) -> Result<(), Stopped> {
        let OpenFolder { fd, path, .. } = open;
        let names = match names(fd) {
            Ok(names) if names.len() > MAX_NAMES => {
                return Err(Stopped::TooMany(MAX_NAMES as u64));
            }
            Ok(names) => names,
            Err(e) => return Err(failed(&self.absolute(path), e.into())),
        };
        let rules = own_rules(&self.absolute(path), &names);
        let rules = self.rule_files(rules, &state.rules);
        let changed = state.is_listed && (state.is_stale || rules != state.rules);
        // If a rule changed, a new path here may only have become covered.
        let entered = state.has_entered || changed;
        let mut here = BTreeSet::new();
        for (name, of) in names {
            let at = joined(path, &name);
            let ignored = self.rules.is_ignored(&self.absolute(&at), of.is_dir());
            if self.coverage.covers(&at, ignored) {
                self.found(state, &name, &at, of, entered);
                here.insert(name);
            } else {
                self.forget(state, &name, &at, true);
            }
        }
        let known = state.files.keys().chain(state.folders.keys());
        let gone: Vec<Vec<u8>> = known
            .filter(|name| !here.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.forget(state, &name, &joined(path, &name), false);
        }
        // Before the rules count as known here: if this scan is interrupted, the next one continues
        // with the folders below.
        for below in state.folders.values_mut() {
            below.is_stale |= changed;
        }
        state.rules = rules;
        self.has_listed = true;
        state.is_listed = true;
        state.is_stale = false;
        state.has_entered = false;
        Ok(())
    }

    pub(super) fn found(
        &mut self,
        state: &mut FolderState,
        name: &[u8],
        at: &[u8],
        of: FileType,
        entered: bool,
    ) {
        if !of.is_dir() {
            if state.folders.contains_key(name) {
                self.forget(state, name, at, false);
            }
            let slot = state.files.entry(name.to_vec());
            slot.or_insert(CachedName::New { entered });
            return;
        }
        // A folder that cannot be entered is recorded among the files, with the state of the
        // attempt.
        let is_named =
            matches!(state.files.get(name), Some(CachedName::Known(f)) if is_folder(&f.stamp));
        if is_named || state.folders.contains_key(name) {
            return;
        }
        self.forget(state, name, at, false);
        let below = FolderState {
            has_entered: entered,
            ..FolderState::default()
        };
        state.folders.insert(name.to_vec(), below);
    }

    /// Forgets the state of a name. `left`: the path still exists, and is not covered.
    pub(super) fn forget(&mut self, state: &mut FolderState, name: &[u8], at: &[u8], left: bool) {
        if let Some(CachedName::Known(_)) = state.files.remove(name) {
            self.report(at, || Change::Gone { left });
        }
        if let Some(mut below) = state.folders.remove(name) {
            if let Some(watch) = &mut self.watch {
                watch.leave(at);
            }
            let files: Vec<Vec<u8>> = below.files.keys().cloned().collect();
            let folders: Vec<Vec<u8>> = below.folders.keys().cloned().collect();
            for name in files.into_iter().chain(folders) {
                self.forget(&mut below, &name, &joined(at, &name), left);
            }
        }
    }
}

/// Returns the names in a folder, each with its type.
fn names(fd: &OwnedFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut found = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(sys::openat(fd, ".", flags, Mode::empty())?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let of = match entry.file_type() {
            // Some file systems do not give the type.
            FileType::Unknown => {
                match sys::statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(e),
                }
            }
            of => of,
        };
        found.push((name.to_vec(), of));
        if found.len() > MAX_NAMES {
            break;
        }
    }
    Ok(found)
}
