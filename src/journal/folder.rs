//! The folders of journals: their place, the names of their files, and the sessions that have one.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;
use uuid::Uuid;

use crate::config::is_usable;
use crate::core::shell::one_argument;
use crate::workspace::handle::refuses_mode;

pub(super) const TAIL: &str = "tail.jsonl";
pub(super) const CLOSED: &str = ".closed.jsonl";
pub(super) const FRAMES: &str = ".jsonl.zst";
/// Part of the name of a tail that was set aside, between [`TAIL`] and a time.
pub(super) const ASIDE: &str = ".old-";

/// The places of the journal and of the high-water mark of a data folder.
#[derive(Debug, Clone)]
pub struct JournalPlace {
    /// The folder that contains a folder for each session.
    pub folder: PathBuf,
    /// The folder of the mark.
    pub state_dir: PathBuf,
    /// Time between two syncs of the journal.
    pub pause: Duration,
}

/// Returns the sessions that have a journal here, at most `at_most`, sorted.
pub fn sessions(folder: &Path, at_most: usize) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| is_session_id(name))
        .take(at_most)
        .collect();
    names.sort_unstable();
    names
}

/// Returns the folders of all journals here, also of those that were set aside, sorted.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| is_session_id(&session_of(path)))
        .collect();
    paths.sort_unstable();
    paths
}

/// Returns whether the journal in a folder of this name was set aside.
pub fn is_set_aside(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    !is_session_id(&name)
}

/// Returns the session whose journal is in a folder of this name.
pub fn session_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // A folder that was set aside has a time after the ID.
    name.split('.').next().unwrap_or_default().to_string()
}

/// Returns whether a text has the form of a session's ID: a UUID of any version, in lower case with
/// hyphens. The user may choose the ID, so it says nothing about age.
pub fn is_session_id(text: &str) -> bool {
    Uuid::try_parse(text).is_ok_and(|id| id.as_hyphenated().to_string() == text)
}

/// Makes the folder with mode 0700 if it is missing. From an existing one, removes the permissions
/// of group and others.
///
/// # Errors
/// It cannot be made, or its mode cannot be set.
pub fn private_folder(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        // Another process may make it at the same time.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| match path.symlink_metadata() {
            Ok(found) if !found.is_dir() => {
                let why = format!("it is not a folder: {}", remedy(path, ""));
                io::Error::new(io::ErrorKind::NotADirectory, why)
            }
            _ => error,
        })?;
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
    }
    restrict(path, 0o700)
}

/// Returns why this path cannot be used as a file that this user writes to. `None`: nothing is in
/// the way.
pub fn obstacle(path: &Path) -> Option<&'static str> {
    let is_link = path.symlink_metadata().ok()?.is_symlink();
    match path.metadata() {
        Ok(found) if is_of_another_user(path, &found) => Some(OF_ANOTHER_USER),
        Ok(found) if found.is_dir() => Some(A_FOLDER),
        Ok(found) if !found.is_file() => Some("no regular file"),
        Ok(_) => None,
        Err(_) if is_link => Some("a link that leads nowhere"),
        Err(_) => None,
    }
}

fn is_of_another_user(path: &Path, found: &Metadata) -> bool {
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    !is_own && rustix::fs::access(path, Access::WRITE_OK).is_err()
}

/// The result of [`obstacle`] for a folder.
pub const A_FOLDER: &str = "a folder";

/// The result of [`obstacle`] for a file or folder of another user.
pub const OF_ANOTHER_USER: &str = "owned by another user";

/// Returns advice with the command that removes an obstacle.
pub fn remedy(path: &Path, obstacle: &str) -> String {
    let path = one_argument(&path.to_string_lossy());
    match obstacle {
        OF_ANOTHER_USER => format!("give it back to this user: sudo chown \"$USER\" {path}"),
        _ => format!("move it away: mv {path} {path}.old"),
    }
}

/// Removes the permissions that are not in this mode. The folder of another user in which this user
/// may create files stays as it is.
///
/// # Errors
/// The path cannot be read, or belongs to another user.
pub fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let now = found.permissions().mode() & 0o777;
    // Never widens: a folder made read-only on purpose stays so.
    if now & !mode == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(now & mode)) {
        // A volume that this user may write to: what is made in it is private.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && is_usable(path, &found) => Ok(()),
        // Nobody else gets to it through its folder.
        Err(e) if refuses_mode(&e) && found.is_file() && is_in_private_folder(path) => Ok(()),
        Err(e) if refuses_mode(&e) => Err(io::Error::new(
            e.kind(),
            format!("its file system refuses chmod ({e}), and others may use it (mode {now:o})"),
        )),
        set => set,
    }
}

fn is_in_private_folder(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.metadata().ok());
    folder.is_some_and(|found| found.permissions().mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn two_may_make_a_folder_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let together = Barrier::new(2);
        let make = || {
            for n in 0..2_000 {
                together.wait();
                private_folder(&dir.path().join(n.to_string())).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(make);
            scope.spawn(make);
        });
    }

    #[test]
    fn a_path_that_is_not_a_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [file, link] {
            let error = private_folder(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{error}");
        }
    }
}
