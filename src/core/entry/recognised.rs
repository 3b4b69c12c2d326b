//! How a folder that was moved was recognised.

use serde::{Deserialize, Serialize};

/// Why a folder counts as the new place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecognisedBy {
    /// It is the same folder of the file system, with another path.
    Folder,
    /// Its repository has the commit that the repository in the old place had.
    Repository,
    /// Its files are those of the last snapshot.
    Files,
    /// The user named it.
    Request,
}

impl RecognisedBy {
    /// Returns the reason for a person and for the model.
    pub fn words(self) -> &'static str {
        match self {
            RecognisedBy::Folder => "it is the same folder",
            RecognisedBy::Repository => "it is the same git repository",
            RecognisedBy::Files => "it has the same files",
            RecognisedBy::Request => "the user named it",
        }
    }
}
