//! Files that a restore left unchanged.

use serde::{Deserialize, Serialize};

/// Maximum number of paths in an entry; of the others it has only the number.
pub const MAX_KEPT: usize = 100;

/// A path that was not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrestoredPath {
    /// A path below the workspace's root, or absolute. Bytes that are not text appear as `\xNN`.
    pub path: String,
    pub why: KeptWhy,
}

/// Reason why a path is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptWhy {
    /// It was only changed outside of rewake.
    Yours,
    /// It was changed by the session and outside of rewake, in the same lines.
    Conflict,
    /// It appeared while a command ran.
    Command,
    /// Its content is not stored: too large, a secret, not a file.
    Marker,
    /// It may have existed before and only become covered.
    Entered,
    /// Programs run or obey it, so it needs a separate approval.
    Protected,
    /// It is outside of the workspace, so it needs a separate approval.
    Outside,
    /// It belongs to version control.
    VersionControl,
    /// Another name is the same on this file system, since they differ only in case.
    Case,
    /// It changed during the restore.
    Changed,
    /// A folder of its path is a file, a link, or not readable any more.
    Way,
    /// A folder has its name.
    Folder,
    /// The permissions of its folder forbid it.
    Unwritable,
    /// It was open for writing: the old content is in a file beside it.
    Open,
    /// It changed twice during the restore: the older version is in a file beside it.
    Beside,
    /// The content that was there is not stored: it is in a file beside it.
    Aside,
    /// The file system returned an error.
    Refused,
    /// It has its earlier content, but not its permissions: the file system refuses to set them.
    Mode,
    /// Its earlier content is not stored any more.
    Lost,
    /// The person asked to leave it.
    Chosen,
}

impl KeptWhy {
    /// Returns whether the path stays unchanged by intent, not because of a failure. A person may
    /// choose to remove what appeared while a command ran.
    pub fn is_expected(self) -> bool {
        matches!(self, KeptWhy::Yours | KeptWhy::Chosen | KeptWhy::Command)
    }

    /// Returns the reason for a person and for the model.
    pub fn words(self) -> &'static str {
        match self {
            KeptWhy::Yours => "changed outside of rewake",
            KeptWhy::Conflict => "also changed outside of rewake, in the same lines",
            KeptWhy::Command => "appeared while a command ran",
            KeptWhy::Marker => "its content is not kept",
            KeptWhy::Entered => "it may have been there before",
            KeptWhy::Protected => "protected: other programs run or obey it",
            KeptWhy::Outside => "outside of the workspace",
            KeptWhy::VersionControl => "belongs to version control",
            KeptWhy::Case => "another name differs only in case",
            KeptWhy::Changed => "changed meanwhile",
            KeptWhy::Way => "its folder is a file, a link, or not readable now",
            KeptWhy::Folder => "a folder is in its place",
            KeptWhy::Unwritable => "the permissions of its folder forbid it",
            KeptWhy::Open => "was open for writing: what it was lies beside it, as .rewake-kept",
            KeptWhy::Beside => "changed meanwhile: an older one lies beside it, as .rewake-kept",
            KeptWhy::Aside => "what was there lies beside it, as .rewake-kept",
            KeptWhy::Refused => "the file system refused",
            KeptWhy::Mode => "the file system refused its permissions; its content is restored",
            KeptWhy::Lost => "what it was is not stored any more",
            KeptWhy::Chosen => "kept as it was asked for",
        }
    }
}
