//! What came into the database from the journal, as it is told.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::store::StoreError;
use crate::store::missing::Gap;

/// What came into the database from the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brought {
    /// Entries, by session.
    pub entries: BTreeMap<String, u64>,
    /// Sessions that were made of what went another way, with the session each parts from.
    pub parted: Vec<(String, String)>,
    /// Entries that were recorded and are nowhere.
    pub missing: u64,
    /// Sessions of the journal that could not come in. They stay there.
    pub skipped: u64,
    /// Sessions whose journal is damaged. It is kept beside, and another is begun.
    pub begun_anew: Vec<String>,
    /// Sessions that lack a stretch of entries which is in no copy. They are held.
    pub gaps: Vec<Gap>,
    /// The database is of another store than the one that was recorded here before.
    pub is_another: bool,
    /// Sessions could not come in because the database is damaged.
    pub is_damaged: bool,
    /// The database was damaged and was rebuilt at this start.
    pub rebuilt: Option<String>,
}

impl Brought {
    /// For a person. `None`: there is nothing to say.
    pub fn line(&self) -> Option<String> {
        let entries: u64 = self.entries.values().sum();
        let mut parts: Vec<String> = self.rebuilt.iter().cloned().collect();
        if self.is_another {
            parts.push(
                "the database here is not the one that was used in this folder before: it was replaced \
                 by that of another store"
                    .to_string(),
            );
        }
        if entries > 0 {
            parts.push(format!(
                "the database was older than its journal: {} of {} put back",
                crate::core::text::count(entries, "entry"),
                crate::core::text::count(self.entries.len() as u64, "session")
            ));
        }
        for (new, from) in &self.parted {
            parts.push(format!(
                "session {from} went another way in its journal: that is kept as session {new}"
            ));
        }
        if self.skipped > 0 {
            parts.push(format!(
                "{} of the journal cannot be put back and stays there, for nothing here is what \
                 it goes on from (rewake doctor --as-is moves the journal aside)",
                crate::core::text::count(self.skipped, "session")
            ));
        }
        for gap in &self.gaps {
            parts.push(StoreError::Gap(Box::new(gap.clone())).to_string());
        }
        for session in &self.begun_anew {
            parts.push(format!(
                "the journal of session {session} is damaged: it is kept beside, and begun anew from \
                 the database, which is whole"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    pub(super) fn skips(session: &str, why: &dyn Display) -> Brought {
        tracing::warn!(%session, %why, "the journal of a session stays where it is");
        Brought {
            skipped: 1,
            ..Brought::default()
        }
    }

    pub(super) fn add(&mut self, other: Brought) {
        for (session, entries) in other.entries {
            *self.entries.entry(session).or_default() += entries;
        }
        self.parted.extend(other.parted);
        self.skipped += other.skipped;
        self.begun_anew.extend(other.begun_anew);
        self.gaps.extend(other.gaps);
        self.is_another |= other.is_another;
        self.is_damaged |= other.is_damaged;
    }
}
