//! The journal: a second copy of each session, as plain files beside the database or on another
//! disk. A lost, emptied or older database is restored from it.
//!
//! Each session has a folder. It stores the entries as [lines](mod@line), a chain in which each
//! line names the one before it by a [tip](chain_hash), a hash. The hash is the same on every machine, so two
//! copies of a session can be compared anywhere. The [writer] appends. The [worker] makes frames
//! and syncs, so an append needs no more syncs than without a journal. A power cut may take about
//! the last second of the journal, which the database has. [Reading](read) stops where a file is
//! torn, and [salvage] reads what follows.
//!
//! Nothing here uses SQLite: the store decides which lines are written, and when.

pub mod chain_hash;
pub mod folder;
pub mod line;
pub mod read;
pub mod salvage;
pub mod state;
pub mod worker;
pub mod writer;

use std::io;
use std::path::PathBuf;

/// A journal that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the journal in {}: {source}", path.display())]
pub struct JournalError {
    /// Its folder.
    pub path: PathBuf,
    pub source: io::Error,
}
