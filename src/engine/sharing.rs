//! Recording in the shared database, which comes before this store.
//!
//! Invariant: while it is not known whether the database has the last entries, or this store lacks
//! them, nothing else is recorded.

use std::pin::pin;
use std::time::Duration;

use crate::core::entry::HookRun;
use crate::core::tree::named;
use crate::shared::SharedError;
use crate::shared::log::EndOfLog;
use crate::shared::sent_files::SentFiles;
use crate::shared::writer::{Listed, PushOutcome, SharedWriter};
use crate::store::shared::{keep_tree, lines_after};
use crate::store::{Batch, Head, Store, StoreError};

use super::EngineError;

/// Time after which a person is told that the shared database does not answer.
const NOTICE: Duration = Duration::from_secs(2);

/// Entries that were sent to the database, and are not stored here yet.
pub(super) struct Pushing {
    pub batch: Batch,
    /// The end of the session after them.
    after: EndOfLog,
    /// Their hooks.
    pub hooks: Vec<HookRun>,
}

/// The database that records the session too. `None`: it is recorded here only.
pub(super) struct Sharing {
    writer: Option<SharedWriter>,
    files: Option<SentFiles>,
    pushing: Option<Box<Pushing>>,
}

impl Sharing {
    pub fn new(mut writer: Option<SharedWriter>) -> Sharing {
        Sharing {
            files: writer.as_mut().and_then(|writer| writer.files.take()),
            writer,
            pushing: None,
        }
    }

    /// Stores what has to be here before a batch is in the database.
    pub fn prepare(&self, store: &mut Store, batch: &Batch) -> Result<(), StoreError> {
        match self.writer {
            Some(_) => keep_tree(store, batch),
            None => Ok(()),
        }
    }

    /// Records a batch in the database. Returns whether it was sent.
    ///
    /// # Errors
    /// `Away`: whether it is recorded is not known.
    pub async fn push(
        &mut self,
        store: &Store,
        head: &Head,
        batch: &mut Batch,
        hooks: &[HookRun],
        listed: Listed,
        notice: impl FnOnce(String),
    ) -> Result<bool, EngineError> {
        let Some(writer) = self.writer.as_ref().filter(|_| !batch.entries.is_empty()) else {
            return Ok(false);
        };
        let before = head.end();
        let mut new = lines_after(store, head, batch)?;
        let tree = batch.entries.iter().rev().find_map(named);
        if let (Some(files), Some(tree)) = (&mut self.files, tree) {
            files.add(&mut new, store, tree);
        }
        self.pushing = Some(Box::new(Pushing {
            batch: batch.clone(),
            after: new.end().unwrap_or(before),
            hooks: hooks.to_vec(),
        }));
        let mut pushed = pin!(writer.push(before, &new, listed));
        let waited = tokio::time::timeout(NOTICE, &mut pushed).await;
        let pushed = match waited {
            Ok(pushed) => pushed,
            Err(_) => {
                notice(format!("waiting for the database {}", writer.database));
                pushed.await
            }
        };
        if let Some(files) = &mut self.files {
            files.settled(pushed.is_ok());
        }
        pushed?;
        Ok(true)
    }

    /// Returns whether entries were sent that are not stored here.
    pub fn is_pushing(&self) -> bool {
        self.pushing.is_some()
    }

    /// Notes that this store has the entries that were sent.
    pub fn is_stored(&mut self) {
        self.pushing = None;
    }

    /// Finds out whether the database has the entries that were sent last. If it has not, it never
    /// will.
    pub async fn settle(&self, head: &Head) -> Result<Option<PushOutcome>, SharedError> {
        match (&self.pushing, &self.writer) {
            (Some(pushing), Some(writer)) => {
                writer.settle(head.end(), pushing.after).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the entries that were sent, to be stored here or given up.
    pub fn take(&mut self) -> Option<Box<Pushing>> {
        self.pushing.take()
    }

    /// Takes entries back that could not be stored.
    pub fn keep(&mut self, pushing: Box<Pushing>) {
        self.pushing = Some(pushing);
    }
}
