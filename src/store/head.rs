//! The head of a session: the end of its chain of entries.

use rusqlite::{Connection, OptionalExtension};

use super::StoreError;
use super::error::Doing;
use super::row::{clip, count};
use crate::core::entry::{Entry, Fact, Seq};
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "read the session";

/// Length to which a plan step is cut, in characters, since every checkpoint stores it.
const PLAN_STEP_CHARS: usize = 120;

/// The head of a session, to which an append adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub(super) session: String,
    pub(super) key: i64,
    /// The row of the last entry.
    pub(super) row: Option<i64>,
    /// Number of entries in the chain.
    pub(super) length: u64,
    /// The step of the plan that is in progress.
    pub(super) plan_step: Option<String>,
    /// The tip of the chain.
    pub(super) tip: ChainHash,
}

impl Head {
    /// Returns the ID of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the key and the length of the session.
    pub(crate) fn key_and_length(&self) -> (i64, u64) {
        (self.key, self.length)
    }

    /// Returns the place of the last entry.
    pub fn seq(&self) -> Seq {
        self.length.saturating_sub(1)
    }

    pub(super) fn before_first(session: String, key: i64) -> Head {
        Head {
            session,
            key,
            row: None,
            length: 0,
            plan_step: None,
            tip: ChainHash::of_nothing(),
        }
    }

    pub(super) fn note(&mut self, entry: &Entry) {
        if let Some(step) = planned(entry) {
            self.plan_step = step;
        }
    }
}

/// Reads the head without the values that only the entries have: the step of the plan, and the tip.
pub(super) fn read_head(conn: &Connection, session: &str) -> Result<Head, StoreError> {
    conn.prepare_cached("SELECT key, head, length FROM sessions WHERE id = ?1")
        .and_then(|mut s| {
            s.query_row([session], |row| {
                Ok(Head {
                    session: session.to_string(),
                    key: row.get(0)?,
                    row: Some(row.get(1)?),
                    length: count(row.get(2)?),
                    plan_step: None,
                    tip: ChainHash::of_nothing(),
                })
            })
            .optional()
        })
        .doing(WHAT)?
        .ok_or_else(|| StoreError::no_session(session))
}

/// Returns the current step of the plan, if the entry changed the plan.
pub(super) fn planned(entry: &Entry) -> Option<Option<String>> {
    match entry {
        Entry::Finished {
            fact: Some(Fact::Planned { plan }),
            ..
        } => Some(plan.current().map(|s| clip(&s.text, PLAN_STEP_CHARS))),
        _ => None,
    }
}
