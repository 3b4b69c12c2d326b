//! Rewind of a session: its files, its conversation, or both.
//!
//! Rewinding the conversation makes a fork at that place, and the session itself stays. Pending
//! work at that place waits until a person sends a message.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::{AppContext, Parting, SessionError, now_ms};
use crate::core::entry::Seq;
use crate::core::policy::is_protected;
use crate::core::rule::Bases;
use crate::core::tree::PathBytes;
use crate::engine::{Back, Rewind, Rewinding, stopped};
use crate::store::Store;

impl AppContext {
    /// Returns the request to rewind the files of a session that works in `folder`, without any
    /// choices of a person.
    pub fn rewind(&self, folder: &str, back: Back) -> Rewind {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let home = self.env.home().map(PathBuf::from);
        let real = home.as_ref().and_then(|home| home.canonicalize().ok());
        let bases = Bases {
            folders: vec![folder.to_string()],
            roots: vec![self.workspace()],
            homes: home.into_iter().chain(real).map(text).collect(),
            ..Bases::default()
        };
        Rewind {
            back,
            whole: false,
            only: None,
            allowed: BTreeSet::<PathBytes>::new(),
            chosen: BTreeMap::new(),
            is_protected: Arc::new(move |path| is_protected(path, &bases)),
        }
    }

    /// Forks a session after an entry, with files to restore in the fork, if any. Returns its ID
    /// and a warning.
    ///
    /// # Errors
    /// As [`AppContext::fork`].
    pub fn rewind_conversation(
        &self,
        store: &mut Store,
        origin: &str,
        to: Seq,
        files: Option<Rewinding>,
    ) -> Result<(String, Option<String>), SessionError> {
        let (id, _lock, warning) =
            self.fork_with(store, origin, Parting::Behind(to), now_ms(), |state| {
                let mut also = stopped(state.owed || state.unchecked().is_some());
                let tree = files.and_then(|files| {
                    also.extend(files.entry);
                    files.tree
                });
                (also, tree)
            })?;
        Ok((id, warning))
    }
}
