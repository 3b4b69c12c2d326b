//! A run folder on disk: its files, the claim and the lock.
//!
//! Invariant: `status` is never created by anyone but [`RunFolder::create`], so a keeper that
//! arrives while the folder is being removed finds no file to lock and exits.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::spec::{COMMAND_MAX_BYTES, Spec};
use super::status;

const SPEC: &str = "spec";
const SCRIPT: &str = "script";
const STATUS: &str = "status";
const CLAIM: &str = "claim";
const OUTPUT: &str = "output";
const INPUT: &str = "input";
const ERRORS: &str = "err";
pub(super) const TAIL: &str = "tail";

/// Maximum size of `spec`: as JSON a command may double in size, and grow more if it is not text.
const SPEC_MAX_BYTES: u64 = 8 * COMMAND_MAX_BYTES as u64;

/// The content of the file `spec`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub spec: Spec,
    pub boot: String,
    pub at_ms: i64,
}

#[derive(Debug, Clone)]
pub(super) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    pub(super) fn at(path: impl Into<PathBuf>) -> RunFolder {
        RunFolder { path: path.into() }
    }

    /// Returns the run folder of this name. Accepts only names that rewake makes, so no name leads
    /// out of the root.
    pub(super) fn named(root: &Path, run: &str) -> io::Result<RunFolder> {
        match Uuid::try_parse(run) {
            Ok(id) if id.to_string() == run => Ok(RunFolder::at(root.join(run))),
            Ok(_) | Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{run:?} is not the name of a run"),
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder with all files that a keeper needs, without a sync. A kill removes none
    /// of them. After a power cut they are not needed: an agent of another boot runs nothing from
    /// the folder, whatever it contains.
    /// `input` is what a hook reads.
    pub(super) fn create(&self, prepared: &Prepared, input: Option<&[u8]>) -> io::Result<()> {
        self.create_with(prepared, |folder| {
            if let Some(input) = input {
                folder.create_file(INPUT)?.write_all(input)?;
                folder.create_file(ERRORS)?;
            }
            if prepared.spec.needs_script() {
                let mut script = folder.create_file(SCRIPT)?;
                script.write_all(prepared.spec.command.as_bytes())?;
            }
            Ok(())
        })
    }

    /// Creates the folder with the files that every keeper needs: the spec, the reserved status,
    /// and the output. `more` creates the files that only this kind of run has.
    pub(super) fn create_with<T: Serialize>(
        &self,
        spec: &T,
        more: impl FnOnce(&RunFolder) -> io::Result<()>,
    ) -> io::Result<()> {
        let private = |recursive| {
            let mut builder = DirBuilder::new();
            builder.mode(0o700).recursive(recursive);
            builder
        };
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        private(true).create(parent)?;
        private(false).create(&self.path)?;
        self.create_file(SPEC)?
            .write_all(&serde_json::to_vec(spec)?)?;
        more(self)?;
        let status = self.create_file(STATUS)?;
        status::reserve(&status)?;
        self.create_file(OUTPUT)?;
        Ok(())
    }

    pub(super) fn prepared(&self) -> io::Result<Prepared> {
        self.read_spec()
    }

    pub(super) fn read_spec<T: DeserializeOwned>(&self) -> io::Result<T> {
        let file = File::open(self.path.join(SPEC))?;
        // Room for all of it, so that one read is enough: `read_to_end` cannot see the length.
        let length = file.metadata()?.len().min(SPEC_MAX_BYTES) + 1;
        let mut json = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        file.take(SPEC_MAX_BYTES).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }

    pub(super) fn script(&self) -> PathBuf {
        self.path.join(SCRIPT)
    }

    pub(super) fn output(&self) -> PathBuf {
        self.path.join(OUTPUT)
    }

    pub(super) fn input(&self) -> PathBuf {
        self.path.join(INPUT)
    }

    pub(super) fn errors(&self) -> PathBuf {
        self.path.join(ERRORS)
    }

    pub(super) fn open_output(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.output())
    }

    pub(super) fn tail(&self) -> PathBuf {
        self.path.join(TAIL)
    }

    pub(super) fn create_tail(&self) -> io::Result<File> {
        self.create_file(TAIL)
    }

    /// Makes the names of the files and of the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }

    pub(super) fn open_status(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(STATUS))
    }

    /// Creates the claim. Returns true for the process that created it, which decides whether the
    /// command runs.
    pub(super) fn claim(&self) -> io::Result<bool> {
        match self.create_file(CLAIM) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(super) fn is_claimed(&self) -> io::Result<bool> {
        self.path.join(CLAIM).try_exists()
    }

    /// Removes the folder unless its lock is held, and returns whether it is gone. Holds the lock
    /// meanwhile and removes `status` first, so that no keeper can start in a half removed folder.
    pub(super) fn remove(&self) -> io::Result<bool> {
        self.remove_with(&[])
    }

    /// Does the same for a folder that has these files too.
    pub(super) fn remove_with(&self, more: &[String]) -> io::Result<bool> {
        let status = match self.open_status() {
            Ok(status) => Some(status),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        if let Some(status) = &status
            && !take(status)?
        {
            return Ok(false);
        }
        // `spec` last: a removal that is interrupted is still found, and completed the next time.
        let more = more.iter().map(String::as_str);
        let names = [STATUS, OUTPUT, TAIL, SCRIPT, INPUT, ERRORS, CLAIM].into_iter();
        for name in names.chain(more).chain([SPEC]) {
            absent_is_fine(std::fs::remove_file(self.path.join(name)))?;
        }
        absent_is_fine(std::fs::remove_dir(&self.path))?;
        Ok(true)
    }

    pub(super) fn create_file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path.join(name))
    }
}

/// Takes the keeper's lock and returns whether that worked. The system releases it when the file is
/// closed, however the process dies.
pub(super) fn take(status: &File) -> io::Result<bool> {
    held_elsewhere(status.try_lock()).map(|held| !held)
}

/// Returns whether a keeper is alive. Call it only when there is a claim.
pub(super) fn is_kept(status: &File) -> io::Result<bool> {
    let held = held_elsewhere(status.try_lock_shared())?;
    if !held {
        status.unlock()?;
    }
    Ok(held)
}

fn held_elsewhere(attempt: Result<(), TryLockError>) -> io::Result<bool> {
    match attempt {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
