//! Answers that broke off: the provider bills them, so they count towards the limits of cost and
//! tokens before the request is sent again.

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Engine, EngineError, Write};
use crate::core::entry::{Entry, Spent, Usage};
use crate::core::request::Request;
use crate::core::run_limits;
use crate::core::state::State;
use crate::model::Delta;
use crate::model::broken_try::TryUsage;
use crate::world::World;

/// The request for the next answer: its model, and the usage of its current try.
#[derive(Default)]
pub(super) struct OpenRequest {
    model: String,
    usage: TryUsage,
}

impl OpenRequest {
    pub(super) fn new(state: &State, model: &str, prompt: u64) -> OpenRequest {
        let all = state.spent.get(model).and_then(|all| all.last());
        // A provider with a cache has the prompt of the last request in it.
        let cached = all.filter(|last| last.cached > 0).map_or(0, Usage::prompt);
        OpenRequest {
            model: model.to_string(),
            usage: TryUsage::new(prompt, cached),
        }
    }
}

/// Tokens of requests for summaries and titles that are not recorded yet, also of answers that broke
/// off or were of no use.
#[derive(Clone, Default)]
pub(super) struct UnrecordedTries(Arc<Mutex<Vec<Spent>>>);

impl UnrecordedTries {
    pub(super) fn add(&self, model: &str, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|sum| sum.model == model) {
            Some(sum) => sum.usage.add(&usage),
            None => all.push(Spent {
                model: model.to_string(),
                usage,
            }),
        }
    }

    /// Follows a request from its start to its end, or until it is dropped.
    pub(super) fn open(&self, request: &Request) -> SideRequest {
        SideRequest {
            model: request.model.clone(),
            usage: TryUsage::new(request.estimated_tokens(), 0),
            unrecorded: self.clone(),
        }
    }

    /// Returns the tokens of each model, for the entry that records them.
    pub(super) fn take(&self) -> Vec<Spent> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request for a summary or a title. When it is dropped, the try that is not answered counts.
pub(super) struct SideRequest {
    model: String,
    usage: TryUsage,
    unrecorded: UnrecordedTries,
}

impl SideRequest {
    pub(super) fn follow(&mut self, delta: &Delta) {
        let broken = self.usage.follow(delta);
        self.unrecorded.add(&self.model, broken);
    }

    /// Leaves the last try out: the usage of its answer is recorded elsewhere.
    pub(super) fn answered(&mut self) {
        self.usage = TryUsage::default();
    }
}

impl Drop for SideRequest {
    fn drop(&mut self) {
        let broken = self.usage.end();
        self.unrecorded.add(&self.model, broken);
    }
}

/// Shows and stores a piece of an answer. If it says that the answer broke off, records its tokens.
/// Returns true if a limit is reached now: the request is not sent again.
pub(super) async fn stream<W: World>(
    engine: &mut Engine<W>,
    delta: Delta,
) -> Result<bool, EngineError> {
    let broken = engine.open_request.usage.follow(&delta);
    if matches!(delta, Delta::Usage(_)) {
        return Ok(false);
    }
    engine.draft.stream(&mut engine.log, delta);
    let Some(usage) = broken else {
        return Ok(false);
    };
    bill(engine, usage).await?;
    let reached = run_limits::reached(&engine.log.state, &engine.log.policy.price);
    Ok(reached.is_some())
}

/// Records the tokens of the last try of a request that ends without an answer.
pub(super) async fn record<W: World>(engine: &mut Engine<W>) -> Result<(), EngineError> {
    match engine.open_request.usage.end() {
        Some(usage) => bill(engine, usage).await,
        None => Ok(()),
    }
}

/// Records the tokens of requests for summaries and titles that were of no use. Returns whether there
/// were any.
pub(super) async fn record_others<W: World>(engine: &mut Engine<W>) -> Result<bool, EngineError> {
    let all = engine.summaries.unrecorded.take();
    let billed = |Spent { model, usage }| Entry::Billed { model, usage };
    let billed: Vec<Entry> = all.into_iter().map(billed).collect();
    if billed.is_empty() {
        return Ok(false);
    }
    engine.log.record(Write::of_all(billed)).await?;
    Ok(true)
}

async fn bill<W: World>(engine: &mut Engine<W>, mut usage: Usage) -> Result<(), EngineError> {
    let model = engine.open_request.model.clone();
    let log = &engine.log;
    if (log.policy.price)(&model, &usage).is_none() {
        // Only its answers say what it costs, and they say it at their end.
        let all = log.state.spent.get(&model).into_iter().flatten();
        let last = all
            .rev()
            .find(|one| one.billed_nanos.is_some() && one.all() > 0);
        usage.billed_nanos = last.and_then(|last| {
            let each = last.billed_nanos? as f64 / last.all() as f64;
            Some((each * usage.all() as f64) as u64)
        });
    }
    let billed = Entry::Billed { model, usage };
    engine.log.record(Write::of(billed)).await
}
