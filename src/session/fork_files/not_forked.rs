//! Why a fork with separate files was not made.

use std::path::PathBuf;

use crate::core::entry::Seq;
use crate::session::SessionError;
use crate::store::StoreError;

/// Why no fork was made. Nothing of it remains.
#[derive(Debug, thiserror::Error)]
pub enum NotForked {
    #[error("the files are not known at entry {at}: {why}")]
    Unknown { at: Seq, why: String, hint: String },
    #[error("the fork cannot work in {}: {why}", folder.display())]
    Folder {
        folder: PathBuf,
        why: String,
        hint: Option<&'static str>,
    },
    #[error("the files cannot be put into {}: {why}", folder.display())]
    NotLaidOut { folder: PathBuf, why: String },
    #[error("cannot create a worktree of {}: {why}", repository.display())]
    Worktree { repository: PathBuf, why: String },
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl From<StoreError> for NotForked {
    fn from(error: StoreError) -> NotForked {
        NotForked::Session(error.into())
    }
}

impl NotForked {
    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            NotForked::Unknown { hint, .. } => Some(hint.clone()),
            NotForked::Folder { hint, .. } => hint.map(str::to_string),
            NotForked::NotLaidOut { .. } => {
                Some("no fork was made, and nothing is left of it".into())
            }
            NotForked::Worktree { .. } => {
                Some("--files DIR puts the files into a folder without git".into())
            }
            NotForked::Session(error) => error.hint(),
        }
    }
}
