//! Folded sessions in memory, for a process that is asked about the same sessions again and again.
//! A session is folded once. After that only its new entries are read, however long it is.
//!
//! Invariant: a fold is used only if the session still has the last entry of the fold. A database
//! that was rebuilt may have fewer entries, and then the session is folded again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::SessionError;
use super::summary::{GLANCE_ENTRIES, SessionSummary, glance};
use crate::core::entry::Record;
use crate::core::state::State;
use crate::store::{Head, SessionInfo, Store, StoreError};
use crate::tools;

/// Number of sessions whose fold stays in memory.
const MAX_SESSIONS: usize = 32;

/// Number of new entries from which folding the whole session again costs less memory.
const MAX_NEW: u64 = 1_000;

/// The folds of the sessions that were asked for last.
#[derive(Default)]
pub struct FoldCache {
    /// The session that was asked for last is at the end.
    slots: Mutex<Vec<(String, Slot)>>,
}

type Slot = Arc<Mutex<Option<Fold>>>;

/// A folded session.
pub(super) struct Fold {
    pub(super) state: State,
    /// The last entry that was folded.
    last: Record,
    /// The summary of the end of the session, and the row of the session to which it belongs.
    glance: Option<(SessionInfo, SessionSummary)>,
}

impl FoldCache {
    /// Calls `read` with the fold of a session. Concurrent calls for one session wait for one fold.
    pub(super) fn with<T>(
        &self,
        store: &Store,
        session: &str,
        read: impl FnOnce(&mut Fold) -> T,
    ) -> Result<T, SessionError> {
        let slot = self.slot(session);
        let mut slot = lock(&slot);
        let known = match slot.take() {
            Some(fold) => fold.with_new_entries(store, session)?,
            None => None,
        };
        let fold = known.map_or_else(|| Fold::load(store, session), Ok)?;
        Ok(read(slot.insert(fold)))
    }

    fn slot(&self, session: &str) -> Slot {
        let mut slots = lock(&self.slots);
        let found = slots.iter().position(|(id, _)| id == session);
        let entry = match found {
            Some(at) => slots.remove(at),
            None => (session.to_string(), Slot::default()),
        };
        let slot = Arc::clone(&entry.1);
        slots.push(entry);
        if slots.len() > MAX_SESSIONS {
            slots.remove(0);
        }
        slot
    }
}

impl Fold {
    fn load(store: &Store, session: &str) -> Result<Fold, SessionError> {
        let (head, state) = folded(store, session)?;
        // The fold ends at this entry, even if the session has more by now.
        let mut last = store.records(session, head.seq()..=head.seq())?;
        Ok(Fold {
            state,
            last: last.pop().ok_or(StoreError::no_session(session))?,
            glance: None,
        })
    }

    /// Folds the entries since the last call. `None`: the session has to be folded again.
    fn with_new_entries(
        mut self,
        store: &Store,
        session: &str,
    ) -> Result<Option<Fold>, SessionError> {
        let from = self.last.seq;
        let mut records = match store.records(session, from..=from + MAX_NEW) {
            Ok(records) => records.into_iter(),
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if records.next().as_ref() != Some(&self.last) || records.len() as u64 == MAX_NEW {
            return Ok(None);
        }
        for record in records {
            // The error is found again, with its place, by folding all.
            if self.state.fold(&record).is_err() {
                return Ok(None);
            }
            self.last = record;
        }
        Ok(Some(self))
    }

    /// Returns the summary of the end of the session.
    pub(super) fn glance(&mut self, store: &Store, info: &SessionInfo) -> SessionSummary {
        match &self.glance {
            Some((of, seen)) if of == info => seen.clone(),
            _ => {
                let seen = glance(store, info, GLANCE_ENTRIES);
                self.glance = Some((info.clone(), seen.clone()));
                seen
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folds a session from its first entry, and returns its head and state.
pub(super) fn folded(store: &Store, session: &str) -> Result<(Head, State), SessionError> {
    let mut state = State::new(tools::describe);
    let head = store.load_each(session, |record| {
        state.fold(&record).map_err(|why| SessionError::Illegal {
            session: session.to_string(),
            why,
        })
    })?;
    Ok((head, state))
}
