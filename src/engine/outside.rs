//! Outside changes: before a request, the model is told which files it has read were changed by
//! others.
//!
//! A change before an effect is recorded with that effect, and reported when no call is open. After
//! a message of the user the files are scanned, since they may have edited something before they
//! wrote. That scan is short. A change that it misses is found at the next effect.

use std::time::Duration;

use super::drive_step::Stoppable;
use super::{Engine, EngineError, Event, Recorder, Write};
use crate::core::entry::{Entry, Seq};
use crate::core::external_changes::OutsideChange;
use crate::core::tree::{Delta, Tree, diff};
use crate::store::Cause;
use crate::world::{SnapshotRequest, SnapshotScope, World};

/// Maximum time that a prompt waits for the scan of the files.
const AT_MESSAGE: Duration = Duration::from_millis(100);

/// The parts of the log that were checked for outside changes. A restart can compute it again.
#[derive(Debug, Default)]
pub(super) struct OutsideLooks {
    /// The user's message for which the files were last scanned.
    words: Option<Seq>,
    /// A full scan is due while the model is asked.
    pub is_due: bool,
    /// The last entry up to which changes were reported.
    told: Seq,
}

impl<W: World> Engine<W> {
    /// Reports outside changes to the model. Returns true if something was recorded or the user
    /// stopped it: then the next step has to be computed again.
    pub(super) async fn report_outside_changes(&mut self) -> Result<bool, EngineError> {
        if self.look_for_message().await? {
            return Ok(true);
        }
        match self.files.outside.note(&mut self.log)? {
            Some(noted) => self.log.record(Write::of(noted)).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn look_for_message(&mut self) -> Result<bool, EngineError> {
        let words = self.log.state.words.as_ref().map(|(seq, _)| *seq);
        if words == self.files.outside.words {
            return Ok(false);
        }
        self.files.outside.words = words;
        // If the model has read no file, the scan can run in the background.
        if self.log.state.seen.is_empty() || self.files.behind.is_running() {
            self.files.outside.is_due = true;
            return Ok(false);
        }
        let cause = match self.log.state.may_differ_from_tree {
            true => Cause::Call,
            false => Cause::Outside,
        };
        let wish = SnapshotRequest {
            is_whole: true,
            ..self
                .log
                .snapshot_request(cause, SnapshotScope::All, AT_MESSAGE)
        };
        match self.snapshot(wish, Stoppable::Yes).await? {
            None => Ok(true),
            // The next effect reports why the files are not stored.
            Some(found) if found.why.is_some() => Ok(false),
            Some(found) => self.log.record_files(found).await.map(|()| false),
        }
    }
}

impl<W: World> Recorder<W> {
    /// Emits the notices about the files and the servers that a person should see.
    pub(super) fn emit_file_notices(&mut self) {
        let said = [self.world.files_to_say(), self.world.servers_to_say()];
        for text in said.into_iter().flatten() {
            self.emit(Event::Notice(text));
        }
    }

    /// Returns the difference between the two trees of a change.
    pub(super) fn delta_of(&self, change: &OutsideChange) -> Result<Delta, EngineError> {
        if let Some(before) = &change.before
            && let Some(delta) = self.store.snapshots().delta_from(&change.tree, before)?
        {
            return Ok(delta);
        }
        let tree = |name: &str| -> Result<Option<Tree>, EngineError> {
            Ok(self.store.snapshots().tree(name)?.map(|known| known.tree))
        };
        // Without an earlier tree, any file may differ from what was read.
        let before = match &change.before {
            Some(before) => tree(before)?,
            None => Some(Tree::default()),
        };
        Ok(match (before, tree(&change.tree)?) {
            (Some(before), Some(now)) => diff(&before, &now),
            // The trees are not stored any more.
            _ => Delta::default(),
        })
    }
}

impl OutsideLooks {
    /// Returns the note about the changes since the last call, if there are any.
    pub(super) fn note<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<Option<Entry>, EngineError> {
        let mut changes = Vec::new();
        for change in log.state.outside.since(self.told) {
            changes.push((change.at, log.delta_of(change)?));
        }
        self.told = log.state.next_seq().saturating_sub(1);
        if changes.is_empty() {
            return Ok(None);
        }
        let root = log.world.root();
        let seen = &log.state.seen;
        Ok((log.state.outside).note(&changes, seen, &root.to_string_lossy()))
    }
}
