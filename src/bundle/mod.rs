//! Bundles: files with sessions, for another machine, a backup or a bug report. `docs/storage.md`
//! describes the format.
//!
//! The importer treats a bundle as hostile: it verifies the whole file before it records anything,
//! and what it records are copies. Only another import appends to them, and they are continued in a
//! fork.

mod files;
mod format;
mod read;
mod record;
mod write;

use std::io;

use crate::store::StoreError;

pub use files::{CheckedFiles, path_refusal};
pub use format::{About, Listed, is_bundle};
pub use read::{Bundle, CheckedSession, InputFile};
pub use record::{Import, Importer};
pub use write::{Exported, Exporting, Files, SessionSpool};

/// An export or import that failed.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read or write the bundle: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not those that were exported. Nothing was recorded.
    #[error("the bundle is damaged: {place}: {why}")]
    Damaged { place: String, why: String },
    /// A newer version made it.
    #[error("cannot import the bundle: {why}; rewake {made_by} made it, and this is {}", env!("CARGO_PKG_VERSION"))]
    Newer { why: String, made_by: String },
    /// It has something that no export writes.
    #[error("cannot import the bundle: {place}: {why}")]
    Refused { place: String, why: String },
    #[error("cannot import the bundle: {needed} bytes are needed, and {free} are free")]
    NoSpace { needed: u64, free: u64 },
    #[error("cannot import the files: they need {needed} bytes, and files.max_bytes leaves {left}")]
    Full { needed: u64, left: u64 },
    #[error("cannot import session {session}: its copy was purged")]
    Purged { session: String },
}

impl BundleError {
    fn damaged(place: impl Into<String>, why: impl ToString) -> BundleError {
        BundleError::Damaged {
            place: place.into(),
            why: why.to_string(),
        }
    }

    fn refused(place: impl Into<String>, why: impl ToString) -> BundleError {
        BundleError::Refused {
            place: place.into(),
            why: why.to_string(),
        }
    }

    /// Returns whether `--partial` imports what comes before it.
    fn is_damage(&self) -> bool {
        matches!(self, BundleError::Damaged { .. })
    }

    /// Returns a hint for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            BundleError::Store(error) => error.hint(),
            BundleError::Damaged { .. } => Some(
                "export it again; --partial imports each session up to its last valid entry"
                    .to_string(),
            ),
            BundleError::Newer { .. } => Some("update rewake".to_string()),
            BundleError::Full { .. } => {
                Some("raise files.max_bytes, or make room with rewake gc".to_string())
            }
            BundleError::Purged { .. } => Some("--new-id imports it again".to_string()),
            BundleError::Io(_) | BundleError::Refused { .. } | BundleError::NoSpace { .. } => None,
        }
    }
}
