//! Tools over the store: finding and reading again what left the context, keeping what is to
//! be found by later sessions, and looking at the sessions before.
//!
//! Invariant: none of them changes the log. What `memory_insert` keeps is a fact of its
//! result, and becomes a row in the transaction that records it.

mod history;
mod insert;
mod page;
mod search;

use super::Ran;
use crate::core::entry::{Fact, Seq};
use crate::core::tool::Input;
use crate::store::{Store, StoreError};

pub use insert::insert;

/// The store, as a session sees it.
pub struct Past<'a> {
    pub store: &'a mut Store,
    pub session: &'a str,
    pub now_ms: i64,
    /// Bytes that a result may have.
    pub room: usize,
}

/// Runs a tool that needs the store. `None`: it is not one of them.
pub fn look_back(input: &Input, past: &mut Past<'_>) -> Option<Ran> {
    let found = match input {
        Input::MemorySearch(args) => search::run(args, past),
        Input::MemoryPage(args) => page::run(args, past),
        Input::ReviewHistory(args) => history::run(args, past),
        Input::Read(_)
        | Input::Write(_)
        | Input::Edit(_)
        | Input::SaveSkill(_)
        | Input::Bash(_)
        | Input::BashStop(_)
        | Input::Grep(_)
        | Input::Glob(_)
        | Input::Plan(_)
        | Input::MemoryInsert(_)
        | Input::Foreign { .. } => return None,
    };
    Some(match found {
        Ok(text) => Ran::done(text).with(Some(Fact::Recalled)),
        Err(why) => Ran::error(why),
    })
}

/// The text for the model about a store that did not answer.
fn error_text(error: StoreError) -> String {
    match &error {
        StoreError::NotFound {
            near: Some(near), ..
        } => format!("{error}; the nearest is {near}"),
        _ => error.to_string(),
    }
}

impl Past<'_> {
    /// The workspace this session belongs to.
    fn workspace(&self) -> Result<String, String> {
        let own = self.store.find(self.session).map_err(error_text)?;
        Ok(own.workspace)
    }

    /// How an entry is named to this session.
    fn address(&self, session: &str, seq: Seq) -> String {
        match session == self.session {
            true => format!("entry {seq}"),
            false => format!("{session}:{seq}"),
        }
    }

    /// The session of this id or beginning of one. One of another workspace has to be named in
    /// full, so that nothing of it is met by accident.
    fn session_named(&self, id: &str) -> Result<String, String> {
        let workspace = self.workspace()?;
        match self.store.find(id) {
            Ok(found) if found.id == id || found.workspace == workspace => Ok(found.id),
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
fn when(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| t.strftime("%Y-%m-%d %H:%MZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod support;
