//! Group commit of an answer and the first calls that it starts: one sync less for each call.
//!
//! An answer is *held* for milliseconds. It is folded, so that [`next`] returns the calls that it
//! starts, and all are recorded together. A stop or a checkpoint that is recorded meanwhile takes
//! the answer along, in front of it. When the time is over, the answer is recorded alone.
//!
//! Invariant: nothing is done and nothing is reported before the answer is in the log: preparing a
//! call has no effect. A process that dies here asks the model again, like one that dies a moment
//! before its answer is recorded. The next start removes the run folder that remains, under the
//! session's lock.

use std::time::Duration;

use super::{Engine, EngineError, Write};
use crate::core::entry::{Block, CallId, Entry};
use crate::core::next::{Step, next};
use crate::core::tool::Class;
use crate::world::World;

/// Value for [`super::Settings::begins_within`]. A debug build is slower and needs more time.
pub const BEGINS_WITHIN: Duration = match cfg!(debug_assertions) {
    true => Duration::from_secs(1),
    false => Duration::from_millis(5),
};

impl<W: World> Engine<W> {
    /// Records an answer, together with the first calls that it starts if the rules allow them
    /// without a verdict.
    pub(super) async fn record_answer(&mut self, write: Write) -> Result<(), EngineError> {
        if !self.may_begin(&write.entries) {
            return self.log.record(write).await;
        }
        self.log.hold(write).await?;
        let begun = match self.begins() {
            Ok(calls) if calls.is_empty() => Ok(()),
            Ok(calls) => self.run_calls(calls).await,
            Err(error) => Err(error),
        };
        self.end_hold(begun).await
    }

    /// Records the held answer, even if its call failed. Returns the first error.
    pub(super) async fn end_hold(
        &mut self,
        begun: Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let recorded = self.log.record_pending_answer().await;
        if recorded.is_err() {
            self.log.drop_pending_answer();
        }
        begun.and(recorded)
    }

    /// Returns whether the answer may be held: it has calls, and no command waits.
    fn may_begin(&mut self, entries: &[Entry]) -> bool {
        let is_call = |block: &Block| matches!(block, Block::Call { .. });
        let calls =
            |e: &Entry| matches!(e, Entry::Replied { blocks, .. } if blocks.iter().any(is_call));
        entries.iter().any(calls) && self.may_hold()
    }

    /// Returns whether entries may be held for what follows them.
    pub(super) fn may_hold(&mut self) -> bool {
        !self.log.begins_within.is_zero()
            && self.requests.left.is_none()
            && self.pending_commands.is_empty()
            && self.commands.is_empty()
    }

    /// Returns the next calls, if one has an effect and none needs a verdict.
    pub(super) fn begins(&self) -> Result<Vec<CallId>, EngineError> {
        let Step::Run(calls) = next(&self.log.state, &self.log.policy, &self.pending()?) else {
            return Ok(Vec::new());
        };
        let has_effect = |id: &CallId| {
            // The answer must be durable before a subagent gets its session, and before a server is
            // started for a call.
            let call = self.log.state.call(*id).map(|open| &open.call);
            let call = call.filter(|call| !call.is_task());
            let class = call.and_then(|call| call.class());
            class.is_some_and(|class| !matches!(class, Class::Idempotent | Class::Served))
        };
        Ok(match calls.iter().any(has_effect) {
            true => calls,
            false => Vec::new(),
        })
    }
}
