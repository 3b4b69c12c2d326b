//! Dismissing: unfinished work that a person does not want to be offered any more.
//!
//! It is an entry of the session's own log, so it survives a crash, two processes cannot disagree
//! about it, and whatever is appended later, as by taking the session up, takes it back.
//!
//! Deliberately absent: ending what is owed. A dismissed session can be gone on with as before.

use std::path::Path;

use super::now_ms;
use crate::core::entry::Entry;
use crate::store::{Batch, Store, StoreError};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dismissal {
    /// It is not offered any more.
    Done,
    /// It was dismissed before.
    Already,
    /// Nothing is owed in it, or it is in the trash: it is not offered anyway.
    NotOffered,
}

/// Records that the session is not to be offered any more.
///
/// # Errors
/// `Held` while a process works in the session: it is not dismissed under its hands.
pub fn dismiss(store: &mut Store, data_dir: &Path, id: &str) -> Result<Dismissal, StoreError> {
    store.at_rest(data_dir, id, |store| {
        let info = store.find(id)?;
        if info.dismissed {
            return Ok(Dismissal::Already);
        }
        if !info.unfinished || store.is_in_trash(id)? {
            return Ok(Dismissal::NotOffered);
        }
        let mut head = store.load_each(id, |_| Ok::<(), StoreError>(()))?;
        let batch = Batch {
            at_ms: now_ms(),
            entries: vec![Entry::Dismissed],
            unfinished: true,
            ..Batch::default()
        };
        store.append(&mut head, &batch)?;
        Ok(Dismissal::Done)
    })?
}
