//! What the config and the store know of context windows, for the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Surroundings;
use crate::config::Config;
use crate::core::budget::Budget;
use crate::core::next::Budgeting;
use crate::core::window::Windows;
use crate::engine::Summarising;
use crate::model::Figures;
use crate::store::{Learnt, Store, StoreError};

const SUMMARY: &str = include_str!("../../assets/prompts/summary.md");
const CONTINUATION: &str = include_str!("../../assets/prompts/continuation.md");

/// A summary that takes longer than this is done without.
const PATIENCE: Duration = Duration::from_secs(90);

/// The context window of the model of a state: learnt in the session, else in an earlier
/// one, else from the config and the catalogue.
pub fn budgeting(
    around: &Surroundings,
    store: &Store,
    models: &[&str],
) -> Result<Budgeting, StoreError> {
    let mut learnt: BTreeMap<String, Learnt> = BTreeMap::new();
    for model in models {
        learnt.insert(model.to_string(), store.learnt(model)?);
    }
    let figures = Figures::new(around.config());
    Ok(Arc::new(move |model, limit, ratio| {
        let before = learnt.get(model);
        let known = figures.of(model).context_window;
        let window = limit
            .or(before.and_then(|l| l.context_tokens))
            .map_or(known, |limit| limit.min(known));
        let ratio = ratio.or(before.and_then(|l| l.bytes_per_token));
        Budget::new(window, figures.answer_tokens(model), ratio)
    }))
}

pub fn windows(config: &Config) -> Windows {
    let context = &config.context;
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Windows {
        strategy: context.strategy,
        keep: size(context.keep),
        max_messages: size(context.max_messages),
        max_tokens: context.max_tokens,
        idle_minutes: context.idle_minutes,
        summary_max_tokens: context.summary_max_tokens,
        inline_max_bytes: size(config.inline_max_bytes),
    }
}

pub fn summarising(config: &Config) -> Summarising {
    Summarising {
        model: config.summary_model.clone(),
        instructions: SUMMARY.to_string(),
        continuation: CONTINUATION.to_string(),
        fallback: config.context.fallback,
        patience: PATIENCE,
    }
}
