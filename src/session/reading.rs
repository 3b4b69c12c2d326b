//! Folding of a session from the store, entry by entry, so a long log is never in memory as a
//! whole.

use std::collections::{BTreeMap, VecDeque};

use super::{Parting, SessionError};
use crate::core::entry::{Record, Usage};
use crate::core::state::State;
use crate::store::{Head, Store, StoreError};
use crate::tools;

/// Number of the last entries that are returned for a screen.
const RECENT: usize = 600;

/// Values that are collected besides the state while a session is read.
pub(super) struct Recent {
    /// Its last entries.
    records: VecDeque<Record>,
    max: usize,
    /// Total usage, by model.
    pub(super) spent: BTreeMap<String, Usage>,
}

impl Recent {
    pub(super) fn new(somebody_looks: bool) -> Recent {
        Recent {
            records: VecDeque::new(),
            max: if somebody_looks { RECENT } else { 1 },
            spent: BTreeMap::new(),
        }
    }

    fn push(&mut self, record: Record) {
        for (model, usage) in record.entry.spent() {
            match self.spent.get_mut(model) {
                Some(sum) => sum.add(usage),
                None => drop(self.spent.insert(model.to_string(), *usage)),
            }
        }
        if self.records.len() == self.max {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub(super) fn into_records(self) -> Vec<Record> {
        self.records.into()
    }
}

/// Folds a session. Returns its state and its last record.
pub(super) fn fold(
    store: &Store,
    session: &str,
    recent: &mut Recent,
) -> Result<(Head, State, Option<Record>), SessionError> {
    let mut state = State::new(tools::describe);
    let head = store.load_each(session, |record| {
        let folded = state.fold(&record);
        recent.push(record);
        folded.map_err(|why| SessionError::Illegal {
            session: session.to_string(),
            why,
        })
    })?;
    Ok((head, state, recent.records.back().cloned()))
}

/// Returns the state of a session at the start of a fork. In a damaged session, this is the state
/// after the last readable entry, with a warning.
pub(super) fn readable(
    store: &Store,
    session: &str,
    parting: Parting,
) -> Result<(State, Option<String>), SessionError> {
    let upto = match parting {
        Parting::End => u64::MAX,
        Parting::Behind(seq) => seq,
    };
    let mut state = State::new(tools::describe);
    let read = store.load_each(session, |record| {
        if record.seq > upto {
            return Ok(());
        }
        state.fold(&record).map_err(|why| SessionError::Illegal {
            session: session.to_string(),
            why,
        })
    });
    let there = state.next_seq();
    match read {
        Ok(_) if upto != u64::MAX && there <= upto => {
            Err(SessionError::Store(StoreError::NotFound {
                what: "entry",
                name: format!("{upto} of session {session}"),
                near: there.checked_sub(1).map(|last| last.to_string()),
            }))
        }
        Ok(_) => Ok((state, None)),
        // The damage is after the wanted entry.
        Err(SessionError::Store(StoreError::Corrupt { .. })) if there > upto => Ok((state, None)),
        Err(SessionError::Store(error @ StoreError::Corrupt { .. })) if there > 0 => {
            let warning = format!("{error}; the copy ends at entry {}", there - 1);
            Ok((state, Some(warning)))
        }
        Err(error) => Err(error),
    }
}
