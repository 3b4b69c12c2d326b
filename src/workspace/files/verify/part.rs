//! A scan of single paths: those that are known to be the only ones that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self as sys, AtFlags, FileType};
use rustix::io::Errno;

use super::rules::RULES;
use super::{Entered, OpenFolder, Scan, Stopped, failed, is_folder};
use crate::core::tree::PathBytes;
use crate::workspace::files::cache::{Cache, CachedName, FolderState, Stamp, joined};

/// The part of a folder that is scanned.
#[derive(Debug, Default)]
pub(super) struct PartialScan {
    /// Whether everything in the folder and below it is scanned.
    is_whole: bool,
    /// The parts with these names in the folder.
    names: BTreeMap<Vec<u8>, PartialScan>,
}

impl PartialScan {
    /// Returns the part of the root for these paths. `None` for the whole root.
    pub(super) fn of(paths: &BTreeSet<PathBytes>) -> Option<PartialScan> {
        let mut all = PartialScan::default();
        for path in paths {
            let mut names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
            // A file of ignore rules applies to everything beside it.
            if names.last().is_none_or(|name| has_rules(name)) {
                names.pop();
            }
            let mut part = &mut all;
            for name in names.into_iter().filter(|name| !name.is_empty()) {
                part = part.names.entry(name.to_vec()).or_default();
            }
            part.is_whole = true;
        }
        (!all.is_whole).then_some(all)
    }
}

/// Returns whether a name may be that of a file of ignore rules, or of a folder that leads to one.
fn has_rules(name: &[u8]) -> bool {
    let mut first = RULES
        .iter()
        .map(|rules| rules.split('/').next().unwrap_or_default());
    first.any(|rules| rules.as_bytes() == name)
}

/// Marks changed paths to be read whatever their stamps say: a write to mapped memory need not
/// change them.
pub(super) fn distrust(cache: &mut Cache, paths: &BTreeSet<PathBytes>) {
    for path in paths {
        let mut folder = Some(&mut cache.root);
        let mut names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let last = names.pop().unwrap_or_default();
        for name in names {
            folder = folder.and_then(|folder| folder.folders.get_mut(name));
        }
        if let Some(CachedName::Known(known)) = folder.and_then(|folder| folder.files.get_mut(last))
        {
            known.is_racy = true;
        }
    }
}

impl Scan<'_> {
    /// Scans a part of a folder that was listed before.
    pub(super) fn part(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
        part: &PartialScan,
    ) -> Result<(), Stopped> {
        self.rules.enter(self.absolute(open.path));
        let looked = self.names(open, state, part);
        self.rules.leave();
        looked
    }

    fn names(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
        part: &PartialScan,
    ) -> Result<(), Stopped> {
        for (name, part) in &part.names {
            let at = joined(open.path, name);
            if !part.is_whole
                && let Some(known) = state.folders.get_mut(name)
                && known.is_listed
                && let Ok(Entered::Folder(fd)) = self.enter(open, name)
            {
                self.part(open.below(&fd, &at), known, part)?;
                continue;
            }
            self.name(open, state, name)?;
        }
        Ok(())
    }

    /// Scans one name, and everything below it.
    fn name(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
        name: &[u8],
    ) -> Result<(), Stopped> {
        self.count()?;
        let at = joined(open.path, name);
        let stat = match sys::statat(open.fd, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.forget(state, name, &at, false);
                return Ok(());
            }
            Err(e) => return Err(failed(&self.absolute(&at), e.into())),
        };
        let is_folder = is_folder(&Stamp::of(&stat));
        let ignored = self.rules.is_ignored(&self.absolute(&at), is_folder);
        if !self.coverage.covers(&at, ignored) {
            self.forget(state, name, &at, true);
            return Ok(());
        }
        if is_folder && state.files.contains_key(name) {
            // It could not be entered, or was not a folder; it may be possible now.
            self.forget(state, name, &at, false);
        }
        let of = FileType::from_raw_mode(stat.st_mode);
        self.found(state, name, &at, of, false);
        if is_folder {
            return self.one_folder(open, state, name);
        }
        let Some(slot) = state.files.get_mut(name) else {
            return Ok(());
        };
        if !self.file(open.fd, name, &at, &stat, slot)? {
            // It became something else meanwhile, which the next scan finds.
            self.forget(state, name, &at, false);
            state.stamp = None;
            self.look_again(&at);
        }
        Ok(())
    }

    fn one_folder(
        &mut self,
        open: OpenFolder<'_>,
        state: &mut FolderState,
        name: &[u8],
    ) -> Result<(), Stopped> {
        let at = joined(open.path, name);
        let Some(below) = state.folders.get_mut(name) else {
            return Ok(());
        };
        match self.enter(open, name) {
            Ok(Entered::Folder(fd)) => self.folder(open.below(&fd, &at), below)?,
            Ok(Entered::Named(why, stamp)) => self.only_named(state, name, at, why, stamp),
            Ok(Entered::Gone) => {
                state.stamp = None;
                self.look_again(&at);
            }
            Err(e) => return Err(failed(&self.absolute(&at), e)),
        }
        Ok(())
    }

    fn look_again(&mut self, at: &[u8]) {
        if let Some(watch) = &mut self.watch {
            watch.again(at);
        }
    }
}
