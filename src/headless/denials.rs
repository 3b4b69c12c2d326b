//! Denied calls in the sessions of subagents, which a run counts together with its own.

use std::collections::HashSet;

use super::is_denied;
use crate::store::{Store, StoreError};

/// Number of entries of all sessions that are read at once.
const ROWS_AT_ONCE: u32 = 1_000;

/// Maximum number of sessions of subagents that are looked at.
const MAX_SESSIONS: usize = 10_000;

/// Returns the number of calls of the subagents of a session that were denied after this row.
///
/// # Errors
/// The store cannot be read.
pub(super) fn denied_in_subagents(
    store: &Store,
    session: &str,
    mut row: i64,
) -> Result<u64, StoreError> {
    let sessions = subagents_of(store, session)?;
    let mut denied = 0;
    while !sessions.is_empty() {
        let new = store.history().entries_after_row(row, ROWS_AT_ONCE)?;
        let of_subagents = new.iter().filter(|entry| sessions.contains(&entry.session));
        for entry in of_subagents.filter(|entry| entry.kind == "finished") {
            let records = store.records(&entry.session, entry.seq..=entry.seq)?;
            denied += records.iter().filter(|it| is_denied(&it.entry)).count() as u64;
        }
        match new.last() {
            Some(last) if new.len() == ROWS_AT_ONCE as usize => row = last.row,
            _ => break,
        }
    }
    Ok(denied)
}

/// Returns the sessions of the subagents of a session, and of theirs.
fn subagents_of(store: &Store, session: &str) -> Result<HashSet<String>, StoreError> {
    let mut found = HashSet::new();
    let mut parents = vec![session.to_string()];
    while let Some(parent) = parents.pop() {
        for child in store.history().children(&parent)? {
            if found.len() < MAX_SESSIONS && found.insert(child.id.clone()) {
                parents.push(child.id);
            }
        }
    }
    Ok(found)
}
