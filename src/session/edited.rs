//! What a person writes in an editor of their own, until it is in the draft of its session: one
//! folder for each session, so that what the editor puts beside its file goes with it.
//!
//! A kill of rewake, or of both, leaves it behind; the next start offers it.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use uuid::Uuid;

use super::AppContext;
use crate::store::{SessionInfo, Store, StoreError};

/// The file in the folder of a session.
pub const EDITED: &str = "message.md";

/// More is not read back.
pub const MAX_EDITED_BYTES: u64 = 8 * 1024 * 1024;

/// Sessions with words that did not come back: as many are looked at.
const MAX_LEFT: usize = 100;

/// The files that an editor of the user writes messages into, a folder for each session.
pub struct EditorFiles {
    folder: PathBuf,
}

impl AppContext {
    /// Returns the files of this data folder.
    pub fn editor_files(&self) -> EditorFiles {
        EditorFiles {
            folder: self.paths.data_dir.join("editor"),
        }
    }
}

impl EditorFiles {
    /// Where the editor of this session has its file.
    pub fn folder(&self, session: &str) -> PathBuf {
        self.folder.join(session)
    }

    /// What was written in the editor of this session and is not known to be kept elsewhere.
    pub fn text(&self, session: &str) -> Option<String> {
        let path = self.folder(session).join(EDITED);
        let mut bytes = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_EDITED_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, ?path, "what was written in the editor cannot be read");
                None
            }
        }
    }

    /// It is kept in the draft of the session.
    pub fn forget(&self, session: &str) {
        let folder = self.folder(session);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, ?folder, "the editor's file was not removed");
            }
            _ => {}
        }
    }

    /// Sessions of this workspace with words that an editor wrote.
    pub(super) fn sessions(
        &self,
        store: &Store,
        workspace: &str,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let ids = names.filter(|name| Uuid::try_parse(name).is_ok());
        let mut found = Vec::new();
        for id in ids.take(MAX_LEFT) {
            if !store.knows(&id)? {
                continue;
            }
            let info = store.find(&id)?;
            let is_here = info.workspace == workspace;
            if is_here && self.text(&id).is_some_and(|text| !text.trim().is_empty()) {
                found.push(info);
            }
        }
        Ok(found)
    }
}
