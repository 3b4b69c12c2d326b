//! The folder of the program: placing a new program, and going back to the old one.
//!
//! Invariant: after each step a program that works has the name `rewake`, also after a kill and a
//! power cut. Opening, linking, renaming and removing use the descriptor of the folder and follow no
//! link. The temporary archive and the trial of a program use its path.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fsync, linkat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::failed_at;
use crate::report::CliError;

/// The program, and the one before it.
pub const PROGRAM: &str = "rewake";
pub const OLD: &str = "rewake.old";
/// The new program, before it is placed.
pub const NEW: &str = ".rewake.new";
/// The program that becomes the old one.
const OLD_NEW: &str = ".rewake.old.new";

/// The folder of an installed program.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    pub path: PathBuf,
    /// Device and inode number of the running program.
    running: (u64, u64),
}

impl Folder {
    /// Opens the folder, if its `rewake` or `rewake.old` is the program that runs. `running`: the
    /// metadata of that. `None`: the folder does not exist, or other programs or links have the names.
    pub fn open(path: &Path, running: &Metadata) -> Option<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Folder {
            dir: openat(CWD, path, flags, Mode::empty()).ok()?,
            path: path.to_path_buf(),
            running: (running.dev(), running.ino()),
        };
        folder.has_running_program().then_some(folder)
    }

    fn has_running_program(&self) -> bool {
        self.is_old() || self.inode(PROGRAM).is_ok_and(|found| found == self.running)
    }

    /// Returns whether the old program runs. It can go back to itself, and do nothing else.
    pub fn is_old(&self) -> bool {
        self.inode(OLD).is_ok_and(|found| found == self.running)
            && self.inode(PROGRAM).is_ok_and(|found| found != self.running)
    }

    /// Locks updates of the folder while it is open. The lock of the data folder is not enough:
    /// another data folder may have a receipt of this program.
    ///
    /// # Errors
    /// Another process updates it, or has done so since this program started.
    pub fn lock(&self) -> Result<(), CliError> {
        let folder = self.path.display();
        match flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(CliError::failed(format!(
                "another update of {folder} is in progress"
            ))),
            Err(error) => Err(self.failed("lock", "", error.into())),
            Ok(()) if self.has_running_program() => Ok(()),
            Ok(()) => Err(CliError::failed(format!("{folder} was updated meanwhile"))
                .with_hint("run the command again")),
        }
    }

    /// Returns the device and the inode number of a regular file.
    fn inode(&self, name: &str) -> Result<(u64, u64), CliError> {
        let found = self.open_regular(name)?.metadata();
        let found = found.map_err(|e| self.failed("read", name, e))?;
        Ok((found.dev(), found.ino()))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes what a killed update left, and completes one that had placed its program.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn clean(&self) -> Result<(), CliError> {
        // While the new program waits, the other name is a second one of the program, or a part of
        // a copy of it.
        if self.has(OLD_NEW) && !self.has(NEW) {
            self.rename(OLD_NEW, OLD)?;
        }
        self.remove(OLD_NEW)?;
        self.remove(NEW)
    }

    /// Creates an anonymous temporary file in the folder. A kill leaves nothing.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn anonymous(&self) -> Result<File, CliError> {
        tempfile::tempfile_in(&self.path).map_err(|e| self.failed("write to", "", e))
    }

    /// Creates the file of the new program, which only the user can run.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create_new(&self) -> Result<File, CliError> {
        self.create(NEW).map_err(|e| self.failed("create", NEW, e))
    }

    /// Gives the old program the name of a new one, to exchange both.
    ///
    /// # Errors
    /// The old one is missing, or is the same file.
    pub fn take_old(&self) -> Result<(), CliError> {
        match self.inode(OLD)? {
            old if old == self.inode(PROGRAM)? => Err(CliError::failed(format!(
                "{} and {OLD} are the same program",
                self.file(PROGRAM).display()
            ))),
            _ => self.link(OLD, NEW),
        }
    }

    /// Replaces the program by the new one. The current program becomes the old one.
    ///
    /// # Errors
    /// A step failed. The current program stays in place, or the next update completes this one.
    pub fn place(&self) -> Result<(), CliError> {
        let new = self.open_regular(NEW)?;
        let shared = self
            .open_regular(PROGRAM)?
            .metadata()
            .and_then(|found| new.set_permissions(Permissions::from_mode(found.mode() & 0o777)))
            .and_then(|()| new.sync_all());
        shared.map_err(|e| self.failed("write", NEW, e))?;
        if self.has(OLD) {
            // Only a file can be replaced, and afterwards it would be too late for an error.
            self.open_regular(OLD)?;
        }
        self.link(PROGRAM, OLD_NEW)?;
        self.sync()?;
        reached("linked");
        self.rename(NEW, PROGRAM)?;
        self.sync()?;
        reached("placed");
        self.rename(OLD_NEW, OLD)?;
        // Nothing was renamed if both names were links to one file.
        self.remove(OLD_NEW)?;
        self.sync()
    }

    /// Opens a regular file of the folder for reading.
    ///
    /// # Errors
    /// It is missing or another kind of file.
    pub fn open_regular(&self, name: &str) -> Result<File, CliError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::empty())
            .map_err(|e| self.failed("open", name, e.into()))?;
        let file = File::from(file);
        match file.metadata().is_ok_and(|found| found.is_file()) {
            true => Ok(file),
            false => Err(failed_at(&self.file(name), "not a regular file")),
        }
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.dir, name, flags, Mode::RWXU)?.into())
    }

    /// Gives a file a second name, or copies it on a file system without hard links.
    fn link(&self, from: &str, to: &str) -> Result<(), CliError> {
        let linked = match without_links() {
            true => Err(Errno::PERM),
            false => linkat(&self.dir, from, &self.dir, to, AtFlags::empty()),
        };
        if linked.is_ok() {
            return Ok(());
        }
        let mut source = self.open_regular(from)?;
        let mut copied = || -> io::Result<()> {
            let mut copy = self.create(to)?;
            io::copy(&mut source, &mut copy)?;
            copy.set_permissions(source.metadata()?.permissions())?;
            copy.sync_all()
        };
        copied().map_err(|e| self.failed("write", to, e))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), CliError> {
        renameat(&self.dir, from, &self.dir, to).map_err(|e| self.failed("replace", to, e.into()))
    }

    fn remove(&self, name: &str) -> Result<(), CliError> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.failed("remove", name, e.into())),
        }
    }

    fn has(&self, name: &str) -> bool {
        statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn sync(&self) -> Result<(), CliError> {
        // Some file systems cannot sync a folder.
        match fsync(&self.dir) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(e) => Err(self.failed("sync", "", e.into())),
        }
    }

    /// Returns the error of the folder, or of a file in it.
    pub(super) fn failed(&self, act: &str, name: &str, error: io::Error) -> CliError {
        let path = match name {
            "" => self.path.clone(),
            name => self.file(name),
        };
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("free space in {}, then try again", self.path.display())
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "install it in a folder of yours: REWAKE_BIN_DIR=~/.local/bin sh install.sh"
                    .to_string()
            }
            io::ErrorKind::NotFound => "rewake update --to VERSION installs a version".to_string(),
            _ => return CliError::failed(format!("cannot {act} {}: {error}", path.display())),
        };
        CliError::failed(format!("cannot {act} {}: {error}", path.display())).with_hint(hint)
    }
}

/// Returns whether a test wants a file system without hard links.
fn without_links() -> bool {
    cfg!(debug_assertions) && std::env::var_os("REWAKE_TEST_UPDATE_LINKS").is_some()
}

/// Kills this process at a named step, in a test. A release build has no such steps.
pub(super) fn reached(step: &str) {
    if cfg!(debug_assertions)
        && std::env::var_os("REWAKE_TEST_UPDATE_KILL").is_some_and(|at| at == step)
    {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}
