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

impl AppContext {
    /// Where the editor of this session has its file.
    pub fn editor_folder(&self, session: &str) -> PathBuf {
        self.paths.data_dir.join("editor").join(session)
    }

    /// What was written in the editor of this session and is not known to be kept elsewhere.
    pub fn edited(&self, session: &str) -> Option<String> {
        let path = self.editor_folder(session).join(EDITED);
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
    pub fn forget_edited(&self, session: &str) {
        let folder = self.editor_folder(session);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, ?folder, "the editor's file was not removed");
            }
            _ => {}
        }
    }

    /// Sessions of this workspace with words that an editor wrote.
    pub(super) fn with_edited(&self, store: &Store) -> Result<Vec<SessionInfo>, StoreError> {
        let folder = self.paths.data_dir.join("editor");
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let ids = names.filter(|name| Uuid::try_parse(name).is_ok());
        let mut found = Vec::new();
        for id in ids.take(MAX_LEFT) {
            if !store.knows(&id)? {
                continue;
            }
            let info = store.find(&id)?;
            let is_here = info.workspace == self.workspace();
            if is_here && self.edited(&id).is_some_and(|text| !text.trim().is_empty()) {
                found.push(info);
            }
        }
        Ok(found)
    }
}
