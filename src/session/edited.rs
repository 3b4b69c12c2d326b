//! Messages that are being written in an external editor, until they are in the draft of their
//! session. Each session has a folder, so that other files of the editor are removed with it.
//!
//! If rewake is killed, the file stays, and the next start offers it.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use uuid::Uuid;

use super::AppContext;
use crate::store::{SessionInfo, Store, StoreError};

/// Name of the message file in the folder of a session.
pub const EDITED: &str = "message.md";

/// Maximum size that is read back.
pub const MAX_EDITED_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum number of folders that are checked for text.
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
    /// Returns the folder for the editor of this session.
    pub fn folder(&self, session: &str) -> PathBuf {
        self.folder.join(session)
    }

    /// Returns the text that was written in the editor of this session and may not be stored
    /// elsewhere.
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

    /// Removes the files of this session, whose text is in the draft now.
    pub fn forget(&self, session: &str) {
        let folder = self.folder(session);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, ?folder, "the editor's file was not removed");
            }
            _ => {}
        }
    }

    /// Returns the sessions of this workspace with text from an editor.
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
            if !store.history().knows(&id)? {
                continue;
            }
            let info = store.history().find(&id)?;
            let is_here = info.workspace == workspace;
            if is_here && self.text(&id).is_some_and(|text| !text.trim().is_empty()) {
                found.push(info);
            }
        }
        Ok(found)
    }
}
