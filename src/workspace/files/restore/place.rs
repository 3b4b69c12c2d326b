//! The restore of one path: placing its staged content, or removing it, and cleaning up after an
//! interrupted restore.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::stage::StagingPlace;
use super::{
    CutShort, Done, FolderEntry, Job, Point, RestoreRoot, is_absent, is_folder, item_in, why,
};
use crate::core::entry::KeptWhy;
use crate::workspace::beside;
use crate::workspace::writers::is_open_for_writing;

type At<'a> = &'a mut dyn FnMut(Point) -> Result<(), CutShort>;

/// The outcome for a path.
enum PathOutcome {
    Done,
    Kept(KeptWhy),
}

impl RestoreRoot<'_> {
    /// Cleans up after an interrupted restore: removes rewake's own files, and gives the files of
    /// others their place back. Returns false when the path needs no more work.
    pub(super) fn leftovers(&mut self, job: &Job, done: &mut Done) -> bool {
        let Ok(slot) = self.slot(&job.path, false) else {
            return true;
        };
        slot.remove_part();
        let fate = self
            .leftover_out(job, &slot)
            .and_then(|fate| match fate {
                Some(fate) => Ok(Some(fate)),
                None => self.leftover_staged(job, &slot),
            })
            .unwrap_or(Some(PathOutcome::Kept(KeptWhy::Refused)));
        match fate {
            Some(PathOutcome::Kept(why)) => {
                done.kept.insert(job.path.clone(), why);
                false
            }
            Some(PathOutcome::Done) | None => {
                let is_left = self.bench.as_ref().is_none_or(|bench| bench.is_left);
                !(is_left && self.is_done(job, done))
            }
        }
    }

    /// Returns whether the path already has the target state.
    fn is_done(&mut self, job: &Job, done: &mut Done) -> bool {
        let now = match self.spot(&job.path, false) {
            Ok(spot) => spot.item(job),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        };
        let is_done = now.is_ok_and(|now| now == job.target);
        if is_done {
            self.touch(&job.path);
            note(job, done);
        }
        is_done
    }

    /// Handles a file that was moved away to be removed.
    fn leftover_out(&mut self, job: &Job, slot: &StagingPlace) -> io::Result<Option<PathOutcome>> {
        let path = Path::new(&slot.out);
        match item_in(&slot.folder, &slot.out, path, job)? {
            None => Ok(None),
            Some(item) if Some(&item) == job.before.as_ref() => {
                let spot = self.spot(&job.path, true)?;
                Ok(self.discard(slot, &slot.out, &spot)?)
            }
            Some(_) => {
                let spot = self.spot(&job.path, true)?;
                self.give_back(slot, &slot.out, &spot).map(Some)
            }
        }
    }

    /// Handles a staged file, or one that came out in an exchange.
    fn leftover_staged(
        &mut self,
        job: &Job,
        slot: &StagingPlace,
    ) -> io::Result<Option<PathOutcome>> {
        let path = Path::new(&slot.staged);
        match item_in(&slot.folder, &slot.staged, path, job)? {
            None => Ok(None),
            Some(item) if Some(&item) == job.target.as_ref() => {
                slot.folder.remove(&slot.staged)?;
                Ok(None)
            }
            Some(item) if Some(&item) == job.before.as_ref() => {
                let spot = self.spot(&job.path, true)?;
                self.discard(slot, &slot.staged, &spot)
            }
            Some(_) => {
                let spot = self.spot(&job.path, true)?;
                if spot.item(job)? == job.target && spot.stat()?.is_some() {
                    return self.exchange_back(job, slot, &spot).map(Some);
                }
                self.give_back(slot, &slot.staged, &spot).map(Some)
            }
        }
    }

    /// Restores one path.
    pub(super) fn place(&mut self, job: &Job, at: At<'_>, done: &mut Done) -> Result<(), CutShort> {
        let placed = match &job.target {
            Some(_) => self.put(job, at, done),
            None => self.remove(job, at),
        };
        let fate = match placed {
            Ok(fate) => fate?,
            Err(e) => PathOutcome::Kept(why(&e)),
        };
        match fate {
            PathOutcome::Done => note(job, done),
            PathOutcome::Kept(why @ (KeptWhy::Open | KeptWhy::Beside | KeptWhy::Aside)) => {
                note(job, done);
                done.kept.insert(job.path.clone(), why);
            }
            PathOutcome::Kept(why) => {
                done.kept.insert(job.path.clone(), why);
            }
        }
        // A staged file that was not needed.
        if let (Some(_), Ok(slot)) = (&job.target, self.slot(&job.path, false))
            && let Ok(item) = item_in(&slot.folder, &slot.staged, Path::new(""), job)
            && item == job.target
        {
            let _ = slot.folder.remove(&slot.staged);
        }
        Ok(())
    }

    fn put(
        &mut self,
        job: &Job,
        at: At<'_>,
        done: &Done,
    ) -> io::Result<Result<PathOutcome, CutShort>> {
        let slot = self.slot(&job.path, true)?;
        let mut spot = self.spot(&job.path, true)?;
        if let Some(stat) = spot.stat()?
            && is_folder(&stat)
            && job.before.is_none()
        {
            // The folder contained files that were removed first, and is empty now.
            let below = [job.path.as_slice(), b"/"].concat();
            let removed = done.removed.iter().filter(|path| path.starts_with(&below));
            self.remove_empty(removed.cloned().collect());
            spot = self.spot(&job.path, true)?;
            // Or it never had any.
            let _ = spot.folder.remove_folder(&spot.name);
        }
        let stat = spot.stat()?;
        if stat.as_ref().is_some_and(is_folder) {
            return Ok(Ok(PathOutcome::Kept(KeptWhy::Folder)));
        }
        if let Some(stat) = &stat {
            slot.copy_owner(stat);
        }
        self.touch(&job.path);
        if job.puts_aside && stat.is_some() {
            let outcome = self.put_aside(job, &spot)?;
            if let PathOutcome::Kept(KeptWhy::Aside) = outcome {
                slot.folder
                    .move_new(&slot.staged, &spot.folder, &spot.name)?;
            }
            return Ok(Ok(outcome));
        }
        match (&job.before, stat) {
            // Somebody removed the file.
            (Some(_), None) if !job.puts_aside => Ok(Ok(PathOutcome::Kept(KeptWhy::Changed))),
            (_, None) => match slot.folder.move_new(&slot.staged, &spot.folder, &spot.name) {
                Ok(()) => Ok(Ok(PathOutcome::Done)),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(Ok(self.is_it(job, &spot)?)),
                Err(e) => Err(e),
            },
            (None, Some(_)) => Ok(Ok(self.is_it(job, &spot)?)),
            (Some(_), Some(_)) if !self.can_exchange(&slot) => {
                if spot.item(job)? != job.before {
                    return Ok(Ok(self.is_it(job, &spot)?));
                }
                slot.folder
                    .move_over(&slot.staged, &spot.folder, &spot.name)?;
                Ok(Ok(PathOutcome::Done))
            }
            (Some(_), Some(_)) => self.exchange(job, &slot, &spot, at),
        }
    }

    /// Moves what is at the path to a name beside it, if it is what was recorded there.
    fn put_aside(&self, job: &Job, spot: &FolderEntry) -> io::Result<PathOutcome> {
        let now = spot.item(job)?;
        if now == job.target || (job.before.is_some() && now != job.before) {
            return self.is_it(job, spot);
        }
        beside::move_to_free_name(&spot.folder, &spot.name, &spot.folder, &spot.name)?;
        Ok(PathOutcome::Kept(KeptWhy::Aside))
    }

    /// Checks an unexpected file at the path: it may already have the target state.
    fn is_it(&self, job: &Job, spot: &FolderEntry) -> io::Result<PathOutcome> {
        if spot.item(job)? == job.target {
            Ok(PathOutcome::Done)
        } else {
            Ok(PathOutcome::Kept(KeptWhy::Changed))
        }
    }

    fn exchange(
        &mut self,
        job: &Job,
        slot: &StagingPlace,
        spot: &FolderEntry,
        at: At<'_>,
    ) -> io::Result<Result<PathOutcome, CutShort>> {
        match slot.folder.exchange(&slot.staged, &spot.folder, &spot.name) {
            Err(e) if is_absent(&e) => return Ok(Ok(PathOutcome::Kept(KeptWhy::Changed))),
            exchanged => exchanged?,
        }
        if at(Point::InPlace).is_err() {
            return Ok(Err(CutShort));
        }
        let out = item_in(&slot.folder, &slot.staged, &spot.path, job)?;
        if out == job.before || out == job.target {
            let fate = self.discard(slot, &slot.staged, spot)?;
            return Ok(Ok(fate.unwrap_or(PathOutcome::Done)));
        }
        self.exchange_back(job, slot, spot).map(Ok)
    }

    /// Gives a file that came out of an exchange back to its owner, together with a file that they
    /// may have created meanwhile.
    fn exchange_back(
        &mut self,
        job: &Job,
        slot: &StagingPlace,
        spot: &FolderEntry,
    ) -> io::Result<PathOutcome> {
        match slot.folder.exchange(&slot.staged, &spot.folder, &spot.name) {
            // The file was removed again, or names cannot be exchanged.
            Err(_) => return self.give_back(slot, &slot.staged, spot),
            Ok(()) => self.touch(&job.path),
        }
        if item_in(&slot.folder, &slot.staged, &spot.path, job)? == job.target {
            slot.folder.remove(&slot.staged)?;
            return Ok(PathOutcome::Kept(KeptWhy::Changed));
        }
        // The newer of the two keeps the name.
        slot.folder
            .exchange(&slot.staged, &spot.folder, &spot.name)?;
        beside::move_to_free_name(&slot.folder, &slot.staged, &spot.folder, &spot.name)?;
        Ok(PathOutcome::Kept(KeptWhy::Beside))
    }

    /// Gives somebody's file its name back, or a name beside it.
    fn give_back(
        &mut self,
        slot: &StagingPlace,
        from: &OsString,
        spot: &FolderEntry,
    ) -> io::Result<PathOutcome> {
        match slot.folder.move_new(from, &spot.folder, &spot.name) {
            Ok(()) => {
                spot.folder.sync()?;
                Ok(PathOutcome::Kept(KeptWhy::Changed))
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                beside::move_to_free_name(&slot.folder, from, &spot.folder, &spot.name)?;
                Ok(PathOutcome::Kept(KeptWhy::Beside))
            }
            Err(e) => Err(e),
        }
    }

    fn remove(&mut self, job: &Job, at: At<'_>) -> io::Result<Result<PathOutcome, CutShort>> {
        let spot = match self.spot(&job.path, false) {
            Err(e) if is_absent(&e) => return Ok(Ok(PathOutcome::Done)),
            spot => spot?,
        };
        match spot.stat()? {
            None => return Ok(Ok(PathOutcome::Done)),
            // The previous file is gone.
            Some(stat) if is_folder(&stat) => return Ok(Ok(PathOutcome::Done)),
            Some(_) if job.puts_aside => return self.put_aside(job, &spot).map(Ok),
            Some(_) => {}
        }
        let slot = self.slot(&job.path, true)?;
        self.touch(&job.path);
        match spot.folder.move_new(&spot.name, &slot.folder, &slot.out) {
            Err(e) if is_absent(&e) => return Ok(Ok(PathOutcome::Done)),
            moved => moved?,
        }
        if at(Point::InPlace).is_err() {
            return Ok(Err(CutShort));
        }
        let out = item_in(&slot.folder, &slot.out, &spot.path, job)?;
        if out != job.before {
            return self.give_back(&slot, &slot.out, &spot).map(Ok);
        }
        let fate = self.discard(&slot, &slot.out, &spot)?;
        Ok(Ok(fate.unwrap_or(PathOutcome::Done)))
    }

    /// Removes a file whose content is stored, unless somebody may still write into it.
    fn discard(
        &self,
        slot: &StagingPlace,
        name: &OsString,
        spot: &FolderEntry,
    ) -> io::Result<Option<PathOutcome>> {
        let is_open = slot
            .folder
            .file(Path::new(name))
            .is_ok_and(|file| is_open_for_writing(&file));
        if is_open {
            beside::move_to_free_name(&slot.folder, name, &spot.folder, &spot.name)?;
            return Ok(Some(PathOutcome::Kept(KeptWhy::Open)));
        }
        slot.folder.remove(name)?;
        Ok(None)
    }
}

fn note(job: &Job, done: &mut Done) {
    match job.target {
        Some(_) => done.written.insert(job.path.clone()),
        None => done.removed.insert(job.path.clone()),
    };
}
