//! Which exchanges are in full, and which are to be summarised.
//!
//! An exchange is one user message, or one answer with its results. The context is compacted in
//! steps, oldest exchanges first, so that the prefix of the requests stays the same in
//! between. The newest exchange is never summarised.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::continuation::note_bytes;
use super::exchange::{Exchange, Range, exchanges};
use super::preface;
use super::prompt;
use super::state::State;

/// How it is decided when the context is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// When the request is over a size, until it is at half of that.
    Tokens,
    /// When there are more than `max_messages` exchanges, all but the last `keep`.
    Messages,
    /// Where nothing happened for so long.
    Minutes,
    /// Only when a person says so, and when nothing else fits.
    Manual,
}

/// What the config says of the context. Its defaults are those of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    pub strategy: Strategy,
    /// How many of the last exchanges stay in full with [`Strategy::Messages`].
    pub keep: usize,
    /// With [`Strategy::Messages`]: over so many exchanges the context is compacted.
    pub max_messages: usize,
    /// With [`Strategy::Tokens`]: the request is compacted at this size at the latest.
    pub max_tokens: u64,
    /// With [`Strategy::Minutes`]: a pause as long as this is where a window ends.
    pub idle_minutes: u64,
    /// The most a summary may have. It gets a tenth of the context window at most.
    pub summary_max_tokens: u64,
    /// A single text over this is never sent whole.
    pub inline_max_bytes: usize,
}

impl Windows {
    /// Room for a summary in this window.
    pub fn summary_tokens(&self, budget: &Budget) -> u64 {
        self.summary_max_tokens.min(budget.window / 10)
    }
}

/// What stands between the state and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// It can be sent.
    Fits,
    /// It can be sent once these are summarised.
    Compact(Range),
    /// Summarising is not enough: the context begins again from a note.
    Continue,
}

/// Tokens of the request that would be sent now.
pub fn request_tokens(state: &State, budget: &Budget, windows: &Windows) -> u64 {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    budget.tokens(prompt::request_bytes(state, inline))
}

/// What is to be done before the next request, at the hard limit.
pub fn pressure(state: &State, budget: &Budget, windows: &Windows) -> Pressure {
    if request_tokens(state, budget, windows) <= budget.hard() {
        return Pressure::Fits;
    }
    if state.context.is_empty() {
        // A note that was written for a larger window is written again, once.
        let room = note_bytes(budget.bytes(budget.hard()), prompt::fixed_bytes(state));
        return match &state.preface {
            Some(preface) if preface.text.len() > room => Pressure::Continue,
            _ => Pressure::Fits,
        };
    }
    match by_tokens(state, budget, windows) {
        Some((range, after)) if after <= budget.hard() => Pressure::Compact(range),
        _ => Pressure::Continue,
    }
}

/// What may be summarised in the background, while the loop goes on.
pub fn due(state: &State, budget: &Budget, windows: &Windows) -> Option<Range> {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    match windows.strategy {
        Strategy::Tokens => {
            let now = request_tokens(state, budget, windows);
            let over = now > budget.soft(windows.max_tokens);
            over.then(|| by_tokens(state, budget, windows))
                .flatten()
                .map(|(range, _)| range)
        }
        Strategy::Messages => {
            let all = exchanges(&state.context, inline);
            let over = all.len() > windows.max_messages;
            over.then(|| all_but(&all, windows.keep)).flatten()
        }
        Strategy::Minutes => {
            let all = exchanges(&state.context, inline);
            let idle_ms = i64::try_from(windows.idle_minutes)
                .unwrap_or(i64::MAX)
                .saturating_mul(60_000);
            let gap = (1..all.len())
                .rev()
                .find(|i| all[*i].began_ms - all[*i - 1].ended_ms >= idle_ms)?;
            Some(Range {
                first: all[0].range.first,
                last: all[gap - 1].range.last,
            })
        }
        Strategy::Manual => None,
    }
}

/// All but the newest exchange: what a person asks for. `None` while a call is open.
pub fn compactable(state: &State) -> Option<Range> {
    if state.first_open().is_some() {
        return None;
    }
    all_but(&exchanges(&state.context, usize::MAX), 1)
}

fn all_but(all: &[Exchange], keep: usize) -> Option<Range> {
    let leaving = all.len().checked_sub(keep.max(1)).filter(|n| *n > 0)?;
    Some(Range {
        first: all[0].range.first,
        last: all[leaving - 1].range.last,
    })
}

/// The oldest exchanges whose going brings the request down to its target, and what it has
/// then. `None` when there is only the newest one.
fn by_tokens(state: &State, budget: &Budget, windows: &Windows) -> Option<(Range, u64)> {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let all = exchanges(&state.context, inline);
    let fixed = budget.tokens(prompt::fixed_bytes(state))
        + windows.summary_tokens(budget)
        + budget.tokens(preface::extras_bytes(&state.carried()));
    let soft = budget.soft(windows.max_tokens);
    // In a small window what is fixed takes more than half: then half of the rest is freed.
    let target = (soft / 2).max(fixed + soft.saturating_sub(fixed) / 2);
    let mut left: usize = all.iter().map(|e| e.bytes).sum();
    let mut leaving = None;
    for exchange in &all[..all.len().checked_sub(1)?] {
        if leaving.is_some() && fixed + budget.tokens(left) <= target {
            break;
        }
        left -= exchange.bytes;
        leaving = Some(exchange.range.last);
    }
    let range = Range {
        first: all.first()?.range.first,
        last: leaving?,
    };
    Some((range, fixed + budget.tokens(left)))
}
