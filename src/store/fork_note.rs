//! Notes about folders that are being created for forks, in the data folder. A note exists from
//! before the first file outside of the data folder is written until the fork is recorded. A note
//! without a process shows which folder a killed process left unfinished.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::StoreError;
use super::error::io as io_error;
use super::files::{private_file, private_folder};

const WHAT: &str = "note the folder of a fork";

/// Maximum size of a note, in bytes: it has a few paths.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_NOTES: usize = 1_000;

/// The folder that is being created outside of the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkNote {
    /// The root of the new workspace.
    pub root: PathBuf,
    /// The folder in it that the session works in.
    pub folder: PathBuf,
    /// Whether the root did not exist before.
    pub is_new: bool,
    /// The name of the tree whose files are written into it.
    pub target: String,
    /// The repository of which the root becomes a worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
}

impl ForkNote {
    /// Writes the note. It is durable when this returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, data_dir: &Path, session: &str) -> Result<(), StoreError> {
        let folder = folder(data_dir);
        private_folder(&folder)?;
        let failed = |error| io_error(WHAT, error);
        let text = serde_json::to_vec(self).map_err(|e| failed(e.into()))?;
        let mut file = private_file(&path(data_dir, session))?;
        file.set_len(0)
            .and_then(|()| file.write_all(&text))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::File::open(&folder)?.sync_all())
            .map_err(failed)
    }

    /// Returns all notes by the IDs of their sessions. `None` is a note that was written in part:
    /// its folder was not started.
    pub fn all(data_dir: &Path) -> Vec<(String, Option<ForkNote>)> {
        let files = fs::read_dir(folder(data_dir)).into_iter().flatten();
        let note = |file: std::io::Result<fs::DirEntry>| {
            let file = file.ok()?;
            let id = file.file_name().into_string().ok()?;
            Uuid::try_parse(&id).ok()?;
            let is_small = file.metadata().is_ok_and(|m| m.len() <= MAX_BYTES);
            let text = is_small.then(|| fs::read(file.path()).ok()).flatten();
            Some((id, text.and_then(|text| serde_json::from_slice(&text).ok())))
        };
        files.take(MAX_NOTES).filter_map(note).collect()
    }

    /// Removes the note of a fork that needs no more work.
    pub fn remove(data_dir: &Path, session: &str) {
        // A note that stays is read again, and its work is found to be done.
        let _ = fs::remove_file(path(data_dir, session));
    }
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("files").join("forks")
}

fn path(data_dir: &Path, session: &str) -> PathBuf {
    folder(data_dir).join(session)
}
