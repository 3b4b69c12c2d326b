//! The store, for the tools that find and read again what left the context, and look at the
//! sessions before.
//!
//! Invariant: none of them changes the log. What `memory_insert` keeps is a fact of its
//! result, and becomes a row in the transaction that records it.

use serde::{Deserialize, Serialize};

use super::Ran;
use crate::core::entry::{Fact, Seq};
use crate::store::{Store, StoreError};

/// How far away a session may be that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PastScope {
    /// In another project.
    All,
}

impl PastScope {
    pub(super) const NAMES: [&str; 1] = ["all"];
}

/// The store, as a session sees it.
pub struct Past<'a> {
    pub store: &'a mut Store,
    /// The id of the session that looks.
    pub session: &'a str,
    /// UTC, milliseconds since 1970.
    pub now_ms: i64,
    /// Bytes that a result may have.
    pub room: usize,
}

/// Looks at the store, and gives the text for the model.
pub type LookBack = Box<dyn FnOnce(&mut Past<'_>) -> Result<String, String> + Send>;

/// Runs a look at the store. What it gives counts as recalled: it is not found again.
pub fn look_back(look: LookBack, past: &mut Past<'_>) -> Ran {
    match look(past) {
        Ok(text) => Ran::done(text).with(Some(Fact::Recalled)),
        Err(why) => Ran::error(why),
    }
}

/// The text for the model about a store that did not answer.
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

impl Past<'_> {
    /// The workspace this session belongs to.
    pub(super) fn workspace(&self) -> Result<String, String> {
        let own = self.store.find(self.session).map_err(error_text)?;
        Ok(own.workspace)
    }

    /// How an entry is named to this session.
    pub(super) fn address(&self, session: &str, seq: Seq) -> String {
        match session == self.session {
            true => format!("entry {seq}"),
            false => format!("{session}:{seq}"),
        }
    }

    /// The session of this id or beginning of one. One of another workspace has to be named in
    /// full, so that nothing of it is met by accident, and with the scope for which the rules
    /// were asked.
    pub(super) fn session_named(
        &self,
        id: &str,
        scope: Option<PastScope>,
    ) -> Result<String, String> {
        let workspace = self.workspace()?;
        match self.store.find(id) {
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

/// To the minute, in universal time: the same wherever it is read.
pub(super) fn when(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| t.strftime("%Y-%m-%d %H:%MZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod support;
