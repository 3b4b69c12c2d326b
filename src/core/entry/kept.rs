//! Files that were left as they were when others were set back.

use serde::{Deserialize, Serialize};

/// So many paths are named in an entry; of the others it has the number.
pub const MAX_KEPT: usize = 100;

/// A path that was not set back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Below the workspace's root, or absolute. What is no text in it is `\xNN`.
    pub path: String,
    pub why: KeptWhy,
}

/// Why a path is not set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptWhy {
    /// Only somebody outside of rewake changed it.
    Yours,
    /// Both changed it, and not in different lines.
    Conflict,
    /// It appeared while a command ran.
    Command,
    /// Its content is not kept: too big, a secret, no file.
    Marker,
    /// It was there before, and only became covered.
    Entered,
    /// Programs run or obey it: it needs an answer of its own.
    Protected,
    /// It lies outside of the workspace: it needs an answer of its own.
    Outside,
    /// Version control keeps it.
    VersionControl,
    /// Another name is the same on this file system.
    Case,
    /// It changed while the files were being set back.
    Changed,
    /// A folder on the way is a link, or none any more.
    Way,
    /// Somebody had it open for writing: what it was lies beside it.
    Open,
    /// It changed twice while it was set back: the older of the two lies beside it.
    Beside,
    /// The file system refused.
    Refused,
    /// What it was is not kept any more.
    Lost,
    /// The person wanted it to stay.
    Chosen,
}

impl KeptWhy {
    /// Nothing else was to be expected: it is no failure that it stays.
    pub fn is_expected(self) -> bool {
        matches!(self, KeptWhy::Yours | KeptWhy::Chosen)
    }

    /// For a person and for the model.
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
            KeptWhy::Way => "a folder on the way is a link, or none",
            KeptWhy::Open => "was open for writing: what it was lies beside it, as .rewake-kept",
            KeptWhy::Beside => "changed meanwhile: an older one lies beside it, as .rewake-kept",
            KeptWhy::Refused => "the file system refused",
            KeptWhy::Lost => "what it was is not kept any more",
            KeptWhy::Chosen => "kept as it was asked for",
        }
    }
}
