//! Dismissal of unfinished work, so that the resume prompt does not offer it any more.
//!
//! A dismissal is an entry of the session's log, so it survives a crash and two processes cannot
//! disagree about it. Any later entry, as by resuming the session, cancels it.
//!
//! Deliberately absent: ending the pending work. A dismissed session can still be resumed.

use std::path::Path;

use super::now_ms;
use crate::core::entry::Entry;
use crate::store::{Batch, Store, StoreError};

/// The result of a dismissal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dismissal {
    /// The session is not offered any more.
    Done,
    /// The session was dismissed before.
    Already,
    /// The session has no pending work or is in the trash, so it was not offered anyway.
    NotOffered,
}

/// Dismisses a session.
///
/// # Errors
/// `Held` while a process works in the session.
pub fn dismiss(store: &mut Store, data_dir: &Path, id: &str) -> Result<Dismissal, StoreError> {
    store.with_closed_session(data_dir, id, |store| {
        let info = store.history().find(id)?;
        if info.dismissed {
            return Ok(Dismissal::Already);
        }
        if !info.unfinished || store.history().is_in_trash(id)? {
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
