//! What tells forks of one session apart in a list, where all have its title.

use crate::store::{SessionInfo, Store};

/// What was said in a fork last. `None` for a session that is no fork. A list is shown also where
/// that cannot be read.
pub fn fork_words(store: &Store, info: &SessionInfo) -> Option<String> {
    info.forked_from.as_ref()?;
    let said = store.last_said(&info.id).unwrap_or_else(|error| {
        tracing::warn!(%error, session = info.id, "what was said last is not shown");
        None
    });
    Some(said.unwrap_or_else(|| "nothing said yet".to_string()))
}
