//! A session folded from the store, one entry after the other: a long log is never in memory
//! beside its state.

use std::collections::{BTreeMap, VecDeque};

use super::{Parting, SessionError};
use crate::core::entry::{Record, Usage};
use crate::core::state::State;
use crate::store::{Head, Store, StoreError};
use crate::tools;

/// As many of the last entries are kept for whoever looks on.
const RECENT: usize = 600;

/// What is kept besides the state of a session that is read.
pub(super) struct Recent {
    /// Its last entries.
    records: VecDeque<Record>,
    max: usize,
    /// What each model was asked for in all.
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

/// The state of a session and its last record.
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

/// The state of a session where a copy of it is to part, of a damaged one that after the last
/// entry that can be read, and then with a warning.
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
        // What is damaged comes after the place that is meant.
        Err(SessionError::Store(StoreError::Corrupt { .. })) if there > upto => Ok((state, None)),
        Err(SessionError::Store(error @ StoreError::Corrupt { .. })) if there > 0 => {
            let warning = format!("{error}; the copy ends at entry {}", there - 1);
            Ok((state, Some(warning)))
        }
        Err(error) => Err(error),
    }
}
