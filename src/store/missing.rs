//! A stretch of entries that is in no copy.

use crate::core::entry::Seq;

/// Entries of a session that are in no copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub session: String,
    /// The first and the last entry that is nowhere.
    pub first: Seq,
    pub last: Seq,
    /// Entries behind it that were found. They stay where they are.
    pub behind: u64,
}
