//! A new title for a session that no process uses. In an open session, the engine records the
//! title.

use crate::core::marks::cut_title;
use std::path::Path;

use super::now_ms;
use crate::core::entry::Entry;
use crate::store::{Batch, Store, StoreError};

/// Records the title as an entry of the session. Returns the title that it has then.
///
/// # Errors
/// `Held` while another process, or the engine of this one, uses the session.
pub fn rename(
    store: &mut Store,
    data_dir: &Path,
    id: &str,
    title: &str,
) -> Result<Option<String>, StoreError> {
    store.with_closed_session(data_dir, id, |store| {
        let info = store.history().find(id)?;
        let mut head = store.load_each(id, |_| Ok::<(), StoreError>(()))?;
        let mut entries = vec![Entry::Named {
            title: cut_title(title),
        }];
        // A new name does not offer a dismissed session again.
        entries.extend(info.dismissed.then_some(Entry::Dismissed));
        let batch = Batch {
            at_ms: now_ms(),
            entries,
            unfinished: info.unfinished,
            ..Batch::default()
        };
        store.append(&mut head, &batch)?;
        Ok(store.history().find(id)?.title)
    })?
}
