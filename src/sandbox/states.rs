//! The state of paths below the folders that a command may write to, with the contents of files.
//!
//! Everything here is bounded, no link is followed, and nothing blocks on a FIFO.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::writable::WritableRoots;
use crate::workspace::handle::{self, Folder};

const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_ALL_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILES: usize = 2_000;
const MAX_DEPTH: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Link(PathBuf),
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    /// Too large, or of another kind: compared by the time of its last change.
    Other {
        inode: u64,
        changed: (i64, i64),
        bytes: u64,
    },
    Folder,
}

/// Returns the state of these paths and of everything below. If a folder of a path is a link,
/// returns the link.
pub(super) fn states(roots: &WritableRoots, paths: &[PathBuf]) -> BTreeMap<PathBuf, State> {
    let mut look = PathLook {
        found: BTreeMap::new(),
        bytes_left: MAX_ALL_BYTES,
    };
    for path in paths {
        match roots.spot(path) {
            Ok(spot) => look.add(&spot.folder, &spot.name, path, 0),
            Err(_) => {
                if let Some((link, spot)) = roots.topmost_link(path) {
                    look.add(&spot.folder, &spot.name, &link, MAX_DEPTH);
                }
            }
        }
    }
    look.found
}

struct PathLook {
    found: BTreeMap<PathBuf, State>,
    bytes_left: u64,
}

impl PathLook {
    fn add(&mut self, folder: &Folder, name: &OsStr, path: &Path, depth: usize) {
        let Ok(stat) = folder.stat(name) else {
            return;
        };
        if self.found.len() >= MAX_FILES {
            return;
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let state = match kind {
            FileType::Directory => State::Folder,
            FileType::Symlink => State::Link(folder.read_link(name).unwrap_or_default()),
            _ => self.file(folder, name, &stat),
        };
        self.found.insert(path.to_path_buf(), state);
        if kind.is_dir()
            && depth < MAX_DEPTH
            && let Ok(inner) = folder.below(Path::new(name))
        {
            for (name, _) in inner.list_ignoring_mode().unwrap_or_default() {
                self.add(&inner, &name, &path.join(&name), depth + 1);
            }
        }
    }

    fn file(&mut self, folder: &Folder, name: &OsStr, stat: &Stat) -> State {
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        let read = is_file
            .then(|| read(folder, name, self.bytes_left))
            .flatten();
        match read {
            Some((bytes, mode)) => {
                self.bytes_left = self.bytes_left.saturating_sub(bytes.len() as u64);
                State::File { bytes, mode }
            }
            None => other(stat),
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    clippy::cast_sign_loss,
    reason = "they have other types on other systems"
)]
fn other(stat: &Stat) -> State {
    State::Other {
        inode: stat.st_ino as u64,
        changed: (i64::from(stat.st_ctime), stat.st_ctime_nsec as i64),
        bytes: stat.st_size as u64,
    }
}

/// Returns the content of a regular file and its mode. `None` when it is larger than `left` or
/// cannot be read.
fn read(folder: &Folder, name: &OsStr, left: u64) -> Option<(Vec<u8>, u32)> {
    let file = folder.file(Path::new(name)).ok()?;
    let most = MAX_FILE_BYTES.min(left);
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > most {
        return None;
    }
    let mode = handle::mode(&file).ok()?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some((bytes, mode))
}
