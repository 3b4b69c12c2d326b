//! Answers that broke off: the provider bills them, so they count towards the limits of cost and
//! tokens before the request is sent again.

use std::cell::RefCell;
use std::mem::take;
use std::rc::Rc;

use super::{Engine, EngineError, Write};
use crate::core::entry::{Entry, Spent, Usage};
use crate::core::run_limits;
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
    pub(super) fn new(model: &str, prompt_tokens: u64) -> OpenRequest {
        OpenRequest {
            model: model.to_string(),
            usage: TryUsage::new(prompt_tokens),
        }
    }
}

/// Answers to requests for summaries and titles that broke off, or were calls. They are not recorded
/// yet.
#[derive(Clone, Default)]
pub(super) struct UnrecordedTries(Rc<RefCell<Vec<Spent>>>);

impl UnrecordedTries {
    pub(super) fn add(&self, model: &str, broken: Vec<Usage>) {
        let spent = |usage| Spent {
            model: model.to_string(),
            usage,
        };
        self.0.borrow_mut().extend(broken.into_iter().map(spent));
    }

    /// Returns the entries that record them.
    pub(super) fn take(&self) -> Vec<Entry> {
        let broken = take(&mut *self.0.borrow_mut());
        let billed = |Spent { model, usage }| Entry::Billed { model, usage };
        broken.into_iter().map(billed).collect()
    }
}

/// Shows and stores a piece of an answer. If it says that the answer broke off, records its tokens.
/// Returns true if a limit is reached now: the request is not sent again.
pub(super) async fn stream<W: World>(
    engine: &mut Engine<W>,
    delta: Delta,
) -> Result<bool, EngineError> {
    let broken = engine.open_request.usage.follow(&delta);
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

async fn bill<W: World>(engine: &mut Engine<W>, usage: Usage) -> Result<(), EngineError> {
    let model = engine.open_request.model.clone();
    let billed = Entry::Billed { model, usage };
    engine.log.record(Write::of(billed)).await
}
