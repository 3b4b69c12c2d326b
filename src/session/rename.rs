//! Another title for a session in which nobody works. Of the one that is open the engine
//! records it.

use std::path::Path;

use super::now_ms;
use crate::core::entry::Entry;
use crate::store::{Batch, Store, StoreError};

/// Records the title as an entry of the session, and gives the title it has then.
///
/// # Errors
/// `Held` while another process, or the engine of this one, works in the session.
pub fn rename(
    store: &mut Store,
    data_dir: &Path,
    id: &str,
    title: &str,
) -> Result<Option<String>, StoreError> {
    store.at_rest(data_dir, id, |store| {
        let info = store.find(id)?;
        let mut head = store.load_each(id, |_| Ok::<(), StoreError>(()))?;
        let mut entries = vec![Entry::Named {
            title: title.to_string(),
        }];
        // Another name does not ask for the session to be resumed.
        entries.extend(info.dismissed.then_some(Entry::Dismissed));
        let batch = Batch {
            at_ms: now_ms(),
            entries,
            unfinished: info.unfinished,
            ..Batch::default()
        };
        store.append(&mut head, &batch)?;
        Ok(store.find(id)?.title)
    })?
}
