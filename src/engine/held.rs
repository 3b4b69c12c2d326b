//! The answer and the first call that it begins, in one transaction: one sync less for each call.
//!
//! An answer is *held* for milliseconds: it is folded, so that [`next`] can say what it begins,
//! and recorded with that. What else is recorded meanwhile (a stop, a checkpoint of the timer)
//! takes the answer along, in front of it; and when the time is over it is recorded alone.
//!
//! Invariant: nothing is done and nothing is told before the answer is in the log: to make a call
//! ready has no effect. A process that dies here asks the model again, as one that dies a moment
//! before its answer is recorded; the run folder that it leaves is removed by the next start,
//! under the session's lock.

use std::time::Duration;

use super::{Engine, EngineError, Write};
use crate::core::entry::{Block, CallId, Entry};
use crate::core::next::{Step, next};
use crate::core::tool::Class;
use crate::world::World;

/// For [`super::Settings::begins_within`]. Without optimisation all takes its time.
pub const BEGINS_WITHIN: Duration = match cfg!(debug_assertions) {
    true => Duration::from_secs(1),
    false => Duration::from_millis(5),
};

impl<W: World> Engine<W> {
    /// Records an answer, with the first call that it begins when rules alone allow that.
    pub(super) async fn record_answer(&mut self, write: Write) -> Result<(), EngineError> {
        if !self.may_begin(&write.entries) {
            return self.log.record(write).await;
        }
        self.log.hold(write)?;
        let begun = match self.begins() {
            Ok(Some(call)) => self.run_calls(vec![call]).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        // What came of the call is one thing, the answer another.
        let recorded = self.log.record_held().await;
        if recorded.is_err() {
            self.log.drop_held();
        }
        begun.and(recorded)
    }

    /// Whether it is worth a look: it calls something, and nobody wants anything else first.
    fn may_begin(&mut self, entries: &[Entry]) -> bool {
        let is_call = |block: &Block| matches!(block, Block::Call { .. });
        let calls =
            |e: &Entry| matches!(e, Entry::Replied { blocks, .. } if blocks.iter().any(is_call));
        entries.iter().any(calls)
            && !self.log.begins_within.is_zero()
            && self.left.is_none()
            && self.pending_commands.is_empty()
            && self.commands.is_empty()
    }

    /// The call with an effect that is next, if that is so without anybody's verdict.
    fn begins(&self) -> Result<Option<CallId>, EngineError> {
        let Step::Run(calls) = next(&self.log.state, &self.log.policy, &self.pending()?) else {
            return Ok(None);
        };
        let has_effect = |id: &CallId| {
            // What a sub-agent is given is durable before it has a session, and what wants a
            // server is before one is started.
            let call = self.log.state.call(*id).map(|open| &open.call);
            let call = call.filter(|call| !call.is_task());
            let class = call.and_then(|call| call.class());
            class.is_some_and(|class| !matches!(class, Class::Idempotent | Class::Served))
        };
        Ok(calls.first().copied().filter(has_effect))
    }
}
