//! The store, for tools that read past sessions. It has a separate handle, since the engine's
//! belongs to the thread that writes the log.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::{Store, StoreError};
use crate::tools::{self, HistoryView, LookBack, ToolResult};

/// A handle of the store, opened at first use.
#[derive(Clone)]
pub(super) struct Archive {
    data_dir: PathBuf,
    session: String,
    store: Arc<Mutex<Option<Store>>>,
}

impl Archive {
    pub(super) fn new(data_dir: PathBuf, session: String) -> Archive {
        Archive {
            data_dir,
            session,
            store: Arc::default(),
        }
    }

    /// Returns the folder of the store.
    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Runs a tool that reads the store. Blocks, and calls wait for each other.
    pub(super) fn look_back(&self, look: LookBack, now_ms: i64, room: usize) -> ToolResult {
        let looked = self.with(|store| {
            let mut past = HistoryView {
                store,
                session: &self.session,
                now_ms,
                room,
            };
            tools::look_back(look, &mut past)
        });
        looked.unwrap_or_else(|error| ToolResult::error(error.to_string()))
    }

    /// Runs any work with the store.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> Result<T, StoreError> {
        let mut kept = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match kept.take() {
            Some(store) => store,
            None => Store::open(&self.data_dir)?,
        };
        Ok(work(kept.insert(store)))
    }
}
