//! The report on entries that were restored from the journal.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::store::StoreError;
use crate::store::missing::Gap;

/// Entries and sessions that were restored from the journal, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Number of restored entries, by session.
    pub entries: BTreeMap<String, u64>,
    /// Sessions that were made from a diverged journal, each with the session that it diverged
    /// from.
    pub parted: Vec<(String, String)>,
    /// Number of recorded entries that are in no copy.
    pub missing: u64,
    /// Number of sessions in the journal that could not be restored. They stay there.
    pub skipped: u64,
    /// Sessions with a damaged journal. It was moved aside, and a new one was started.
    pub rewritten: Vec<String>,
    /// Gaps in sessions: entries that are in no copy. These sessions are locked.
    pub gaps: Vec<Gap>,
    /// Whether the database is of another store than the one that was used here before.
    pub is_another: bool,
    /// Whether sessions could not be restored because the database is damaged.
    pub is_damaged: bool,
    /// Describes the rebuild, if the database was damaged and rebuilt at this start.
    pub rebuilt: Option<String>,
}

impl RestoreReport {
    /// Describes the report for the user. `None`: there is nothing to report.
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
        for session in &self.rewritten {
            parts.push(format!(
                "the journal of session {session} is damaged: it was moved aside, and a new one is written \
                 from the database, which is complete"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    pub(super) fn skips(session: &str, why: &dyn Display) -> RestoreReport {
        tracing::warn!(%session, %why, "the journal of a session stays where it is");
        RestoreReport {
            skipped: 1,
            ..RestoreReport::default()
        }
    }

    pub(super) fn add(&mut self, other: RestoreReport) {
        for (session, entries) in other.entries {
            *self.entries.entry(session).or_default() += entries;
        }
        self.parted.extend(other.parted);
        self.skipped += other.skipped;
        self.rewritten.extend(other.rewritten);
        self.gaps.extend(other.gaps);
        self.is_another |= other.is_another;
        self.is_damaged |= other.is_damaged;
    }
}
