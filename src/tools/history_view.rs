//! The store, for the tools that find and read content that left the context, and earlier sessions.
//!
//! Invariant: none of them changes the log. The memory of `memory_insert` is a fact of its result,
//! and becomes a row in the transaction that records it.

use serde::{Deserialize, Serialize};

use super::ToolResult;
use crate::core::entry::{Fact, Seq};
use crate::store::{Store, StoreError};

/// The sessions that a call may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PastScope {
    /// Sessions of any project.
    All,
}

impl PastScope {
    pub(super) const NAMES: [&str; 1] = ["all"];
}

/// The store from the view of a session.
pub struct HistoryView<'a> {
    pub store: &'a mut Store,
    /// The ID of the current session.
    pub session: &'a str,
    /// The time: UTC, milliseconds since 1970.
    pub now_ms: i64,
    /// Maximum bytes of a result.
    pub room: usize,
}

/// A function that reads the store and returns the text for the model.
pub type LookBack = Box<dyn FnOnce(&mut HistoryView<'_>) -> Result<String, String> + Send>;

/// Runs a function that reads the store. Its result counts as recalled, and is not found again.
pub fn look_back(look: LookBack, past: &mut HistoryView<'_>) -> ToolResult {
    match look(past) {
        Ok(text) => ToolResult::done(text).with(Some(Fact::Recalled)),
        Err(why) => ToolResult::error(why),
    }
}

/// Returns the text for the model about an error of the store.
pub(super) fn error_text(error: StoreError) -> String {
    match &error {
        StoreError::NotFound {
            what: "entry",
            name,
            near: Some(last),
        } => format!("there is no entry {name}; the last is {last}"),
        StoreError::NotFound {
            near: Some(near), ..
        } => format!("{error}; the nearest is {near}"),
        _ => error.to_string(),
    }
}

impl HistoryView<'_> {
    /// Returns the workspace of this session.
    pub(super) fn workspace(&self) -> Result<String, String> {
        let own = self
            .store
            .history()
            .find(self.session)
            .map_err(error_text)?;
        Ok(own.workspace)
    }

    /// Returns whether hooks refused the message of the user at this place.
    pub(super) fn was_refused(&self, session: &str, message: Seq) -> Result<bool, String> {
        let refused = self.store.was_refused(session, message);
        refused.map_err(error_text)
    }

    /// Returns the address of an entry for this session.
    pub(super) fn address(&self, session: &str, seq: Seq) -> String {
        match session == self.session {
            true => format!("entry {seq}"),
            false => format!("{session}:{seq}"),
        }
    }

    /// Returns the session with this ID or prefix. A session of another workspace must be named in
    /// full, so that none is read by accident, and with the scope that the rules allowed.
    pub(super) fn session_named(
        &self,
        id: &str,
        scope: Option<PastScope>,
    ) -> Result<String, String> {
        let workspace = self.workspace()?;
        match self.store.history().find(id) {
            Ok(found) if found.workspace == workspace => Ok(found.id),
            Ok(found) if found.id == id => match scope {
                Some(PastScope::All) => Ok(found.id),
                None => Err(format!(
                    "session {id} is one of another project; with scope all the user is asked"
                )),
            },
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. }) => {
                Err(format!(
                    "there is no session {id:?} here; give the whole id, as review_history and \
                     memory_search print it"
                ))
            }
            Err(error) => Err(error_text(error)),
        }
    }
}

/// Formats a time to the minute, in UTC: the same wherever it is read.
pub(super) fn when(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| t.strftime("%Y-%m-%d %H:%MZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod test_support;
