//! Permission bits of rewake's own folders, of the files in them and of key files, which are
//! restored at the end of a command. Landlock does not govern `chmod`, so a command reaches every
//! file of its user.
//!
//! All changes go through folders that are opened before the command starts.
//!
//! Invariant: nobody but the owner gets a right by this. Another command may have opened a file
//! before this one started, and that command's keeper has closed it since.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, fstat};

use crate::workspace::handle::{self, Folder};

/// Maximum number of folders that are inspected.
const MAX_FOLDERS: usize = 100;
const MAX_ENTRIES: usize = 1_000;

/// The rights of the owner.
const OWNER: u32 = 0o700;
const OWNER_READS: u32 = 0o400;

/// The permission bits before a command.
#[derive(Debug)]
pub struct Modes(Vec<KeptFolder>);

/// A file or a folder whose permission bits a command changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeChange {
    pub path: PathBuf,
    /// Whether others have no more rights than before.
    pub restored: bool,
}

#[derive(Debug)]
struct KeptFolder {
    path: PathBuf,
    folder: Folder,
    /// The folder's own mode; `None` if only its entries are compared.
    own: Option<u32>,
    entries: Vec<KeptEntry>,
}

#[derive(Debug)]
struct KeptEntry {
    name: OsString,
    file: (u64, u64),
    mode: u32,
}

impl Modes {
    /// Records the modes of these folders with their direct entries, and of these files. Links are
    /// followed.
    pub fn look(paths: &[PathBuf]) -> Modes {
        let mut modes = Modes(Vec::new());
        let mut files = Vec::new();
        for path in paths.iter().filter_map(|path| path.canonicalize().ok()) {
            match Folder::open(&path) {
                Ok(folder) => modes.add_folder(path, folder, &mut files),
                Err(_) => files.push(path),
            }
        }
        for file in files {
            modes.add_file(&file);
        }
        modes
    }

    fn add_folder(&mut self, path: PathBuf, folder: Folder, links: &mut Vec<PathBuf>) {
        let listed = folder.list_ignoring_mode().unwrap_or_default();
        let mut entries = Vec::new();
        for (name, kind) in listed.into_iter().take(MAX_ENTRIES) {
            if kind.is_symlink() {
                links.extend(path.join(name).canonicalize());
            } else {
                entries.extend(KeptEntry::of(&folder, name));
            }
        }
        let own = handle::mode(&folder).ok();
        self.add(KeptFolder {
            path,
            folder,
            own,
            entries,
        });
    }

    fn add_file(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        let Ok(folder) = Folder::open(parent) else {
            return;
        };
        if let Some(entry) = KeptEntry::of(&folder, name.to_os_string()) {
            self.add(KeptFolder {
                path: parent.to_path_buf(),
                folder,
                own: None,
                entries: vec![entry],
            });
        }
    }

    fn add(&mut self, kept: KeptFolder) {
        if self.0.len() < MAX_FOLDERS {
            self.0.push(kept);
        }
    }

    /// Restores changed modes. Returns the changes.
    pub fn restore(&self) -> Vec<ModeChange> {
        let mut changes = Vec::new();
        for kept in &self.0 {
            // The folder first: without its rights its entries cannot be reached.
            let own = kept.own.and_then(|mode| restore_bits(&kept.folder, mode));
            changes.extend(own.map(|restored| ModeChange {
                path: kept.path.clone(),
                restored,
            }));
            for entry in &kept.entries {
                changes.extend(entry.restore_mode(&kept.folder).map(|restored| ModeChange {
                    path: kept.path.join(&entry.name),
                    restored,
                }));
            }
        }
        changes
    }
}

impl KeptEntry {
    fn of(folder: &Folder, name: OsString) -> Option<KeptEntry> {
        let stat = folder.stat(&name).ok()?;
        Some(KeptEntry {
            name,
            file: identity(&stat),
            mode: bits(&stat),
        })
    }

    /// Restores one mode. `None` if it did not change, or another file has the name now.
    fn restore_mode(&self, folder: &Folder) -> Option<bool> {
        let is_it = |stat: &Stat| identity(stat) == self.file;
        let stat = folder.stat(&self.name).ok().filter(is_it)?;
        wanted(self.mode, bits(&stat), &stat)?;
        let opened = folder.entry(&self.name).ok();
        let Some(opened) = opened.filter(|fd| fstat(fd).is_ok_and(|stat| is_it(&stat))) else {
            return Some(false);
        };
        restore_bits(&opened, self.mode)
    }
}

/// Restores the mode of an open file. `None` if there is nothing to restore.
fn restore_bits(of: impl AsFd, before: u32) -> Option<bool> {
    let stat = fstat(&of).ok()?;
    let mode = wanted(before, bits(&stat), &stat)?;
    Some(handle::set_mode(of, mode).is_ok())
}

/// Returns the bits to set, or `None` if they are already right.
fn wanted(before: u32, now: u32, stat: &Stat) -> Option<u32> {
    let owner = match FileType::from_raw_mode(stat.st_mode) {
        // Another command removed them before this one started.
        _ if before & OWNER_READS != 0 => before & OWNER,
        FileType::Directory => OWNER,
        _ => 0o600,
    };
    let wanted = owner | (before & now & !OWNER);
    (before != now && wanted != now).then_some(wanted)
}

#[allow(
    clippy::useless_conversion,
    reason = "it has another type on other systems"
)]
fn bits(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "they have other types on other systems"
)]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn rights_are_put_back_and_never_given_to_others() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (own, key) = (root.join("own"), root.join("key"));
        let (inner, linked) = (own.join("rewake.db"), root.join("config.toml"));
        fs::create_dir(&own).unwrap();
        for path in [&key, &inner, &linked] {
            fs::write(path, "").unwrap();
        }
        symlink(&linked, own.join("config.toml")).unwrap();
        // The mode before, the mode that a command sets, and the mode afterwards.
        let cases = [
            (0o600, 0o666, 0o600),
            (0o600, 0o777, 0o600),
            (0o600, 0o000, 0o600),
            (0o640, 0o646, 0o640),
            (0o400, 0o444, 0o400),
            (0o644, 0o644, 0o644),
            // The keeper of another command, or a person, closed it meanwhile.
            (0o666, 0o600, 0o600),
            (0o000, 0o600, 0o600),
        ];
        for (before, made, after) in cases {
            for path in [&key, &inner, &linked] {
                chmod(path, before);
            }
            chmod(&own, before | 0o100);
            let modes = Modes::look(&[own.clone(), key.clone(), root.join("none")]);
            for path in [&key, &inner, &linked] {
                chmod(path, made);
            }
            chmod(&own, made);
            let changes = modes.restore();
            assert!(changes.iter().all(|change| change.restored), "{changes:?}");
            chmod(&own, mode_of(&own) | 0o100);
            for path in [&key, &inner, &linked] {
                assert_eq!(
                    mode_of(path),
                    after,
                    "{before:o} {made:o} {}",
                    path.display()
                );
            }
            assert_eq!(mode_of(&own) & 0o077, before & made & 0o077);
        }
    }

    #[test]
    fn another_file_that_got_the_name_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (own, aside) = (root.join("own"), root.join("aside"));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("a"), "").unwrap();
        chmod(&own.join("a"), 0o600);
        let modes = Modes::look(std::slice::from_ref(&own));
        // The folder is another one too, and the link instead of it has no effect.
        fs::rename(&own, &aside).unwrap();
        symlink(&root, &own).unwrap();
        fs::write(root.join("a"), "").unwrap();
        chmod(&root.join("a"), 0o644);
        chmod(&aside.join("a"), 0o644);
        let changes = modes.restore();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(mode_of(&aside.join("a")), 0o600);
        assert_eq!(mode_of(&root.join("a")), 0o644);
        fs::rename(root.join("a"), aside.join("a")).unwrap();
        assert_eq!(modes.restore(), []);
        assert_eq!(mode_of(&aside.join("a")), 0o644);
    }
}
