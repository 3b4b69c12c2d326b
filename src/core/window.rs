//! Decides which turns stay in full, and which are summarised.
//!
//! A turn is one message of the user, or one answer with its results. The context shrinks in steps,
//! so that the prefix of the requests stays the same in between. Old results leave first, and a
//! line replaces each ([`super::freeing`]). If that is not enough, the oldest turns are summarised.
//! The newest turn is never summarised.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::continuation::note_bytes;
use super::entry::{Entry, Seq};
use super::freeing::{Freeing, bytes_of};
use super::state::State;
use super::turn::{Turn, TurnRange, turns};
use super::{prompt, said_again};

/// With [`Strategy::Tokens`] the context is shortened from this size on, in tokens, even if
/// `max_tokens` is higher. Each request pays for the whole context: a cached token costs a tenth of
/// a new one. Over this size it is cheaper to send less and to read missing content again.
const EARLY_TOKENS: u64 = 60_000;

/// The trigger of compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// When the request exceeds a size, until it is at half of that.
    Tokens,
    /// When there are more than `max_messages` turns: all but the last `keep`.
    Messages,
    /// At a pause without any activity.
    Minutes,
    /// Only when a person requests it, or when the request does not fit otherwise.
    Manual,
}

/// Settings of the context, with the defaults of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionSettings {
    pub strategy: Strategy,
    /// Number of the last turns that stay in full with [`Strategy::Messages`].
    pub keep: usize,
    /// With [`Strategy::Messages`]: maximum number of turns before the context is compacted.
    pub max_messages: usize,
    /// With [`Strategy::Tokens`]: the request is compacted at this size at the latest.
    pub max_tokens: u64,
    /// With [`Strategy::Minutes`]: a segment ends at a pause of this many seconds.
    pub idle_sec: u64,
    /// Maximum tokens of a summary. It gets at most a tenth of the context window.
    pub summary_max_tokens: u64,
    /// Size in bytes over which a single text is never sent whole.
    pub inline_max_bytes: usize,
}

impl CompactionSettings {
    /// Returns the room for a summary in this window, in tokens.
    pub fn summary_tokens(&self, budget: &Budget) -> u64 {
        self.summary_max_tokens.min(budget.window / 10)
    }
}

/// The step that is needed before the next request can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pressure {
    /// The request can be sent.
    Fits,
    /// The request can be sent after these results are freed.
    Free(Vec<Seq>),
    /// The request can be sent after this range is summarised.
    Compact(TurnRange),
    /// Summaries are not enough: the context starts over from a note.
    Continue,
}

/// The next step to keep the context small, before it is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionStep {
    /// Free these results at once.
    Free(Vec<Seq>),
    /// Summarise these turns in the background.
    Summarise(TurnRange),
}

/// Estimates the tokens of the request that would be sent now.
pub fn request_tokens(state: &State, budget: &Budget, windows: &CompactionSettings) -> u64 {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    budget.tokens(prompt::request_bytes(state, inline))
}

/// Returns what must happen before the next request, at the hard limit.
pub fn pressure(state: &State, budget: &Budget, windows: &CompactionSettings) -> Pressure {
    let now = request_tokens(state, budget, windows);
    if now <= budget.hard() {
        return Pressure::Fits;
    }
    if state.context.is_empty() {
        // A note from a larger window is written again, once.
        let room = note_bytes(state, budget);
        return match &state.preface {
            Some(preface) if preface.text.len() > room => Pressure::Continue,
            _ => Pressure::Fits,
        };
    }
    let freeing = freeing(state, budget, windows);
    if !freeing.results.is_empty() && now - budget.tokens(freeing.bytes).min(now) <= budget.hard() {
        return Pressure::Free(freeing.results);
    }
    let soft = budget.soft(windows.max_tokens);
    match oldest(state, budget, windows, &freeing, soft) {
        Some((range, after)) if after <= budget.hard() => Pressure::Compact(range),
        _ => Pressure::Continue,
    }
}

/// Returns the next step that makes the context shorter while the loop continues.
pub fn due(state: &State, budget: &Budget, windows: &CompactionSettings) -> Option<CompactionStep> {
    let all = || {
        let inline = budget.inline_bytes(windows.inline_max_bytes);
        turns(&state.context, |r| bytes_of(state, r, inline))
    };
    match windows.strategy {
        Strategy::Tokens => due_by_tokens(state, budget, windows),
        Strategy::Messages => {
            let all = all();
            let over = all.len() > windows.max_messages;
            let range = over.then(|| all_but(&all, windows.keep)).flatten();
            range.map(CompactionStep::Summarise)
        }
        Strategy::Minutes => {
            let all = all();
            let idle_ms = i64::try_from(windows.idle_sec)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000);
            let gap = (1..all.len())
                .rev()
                .find(|i| all[*i].began_ms - all[*i - 1].ended_ms >= idle_ms)?;
            Some(CompactionStep::Summarise(TurnRange {
                first: all[0].range.first,
                last: all[gap - 1].range.last,
            }))
        }
        Strategy::Manual => None,
    }
}

/// Frees results first. Turns are summarised if the context would still be long without the
/// results, because it would soon reach the same size again.
fn due_by_tokens(
    state: &State,
    budget: &Budget,
    windows: &CompactionSettings,
) -> Option<CompactionStep> {
    let now = request_tokens(state, budget, windows);
    let soft = budget.soft(windows.max_tokens);
    let early = budget.soft(windows.max_tokens.min(EARLY_TOKENS));
    if now <= early {
        return None;
    }
    let freeing = freeing(state, budget, windows);
    let after = now.saturating_sub(budget.tokens(freeing.bytes));
    let preface = state.preface.as_ref().map_or(0, |p| p.text.len());
    let fixed = budget.tokens(state.fixed_bytes() + preface);
    let is_enough = after <= fixed + early.saturating_sub(fixed) * 2 / 3;
    if !freeing.results.is_empty() && is_enough {
        return Some(CompactionStep::Free(freeing.results));
    }
    let limit = if now > soft {
        soft
    } else if is_mostly_freed(state, budget, windows, &freeing, early) {
        early
    } else {
        // A conversation without results may become long before it is summarised.
        return freeing
            .pays()
            .then_some(CompactionStep::Free(freeing.results));
    };
    oldest(state, budget, windows, &freeing, limit)
        .map(|(range, _)| CompactionStep::Summarise(range))
}

/// Returns whether turns whose results are freed make up a third of this limit.
fn is_mostly_freed(
    state: &State,
    budget: &Budget,
    windows: &CompactionSettings,
    freeing: &Freeing,
    limit: u64,
) -> bool {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let is_freed = |at| state.freed.has(at) || freeing.results.binary_search(&at).is_ok();
    let newest = state.context.iter().rev().find_map(|r| match r.entry {
        Entry::Finished { .. } if is_freed(r.seq) => Some(r.seq),
        _ => None,
    });
    let until = state.context.iter().take_while(|r| Some(r.seq) <= newest);
    let bytes: usize = until.map(|r| freeing.bytes_after(state, r, inline)).sum();
    budget.tokens(bytes) >= limit / 3
}

fn freeing(state: &State, budget: &Budget, windows: &CompactionSettings) -> Freeing {
    Freeing::of(state, budget, budget.inline_bytes(windows.inline_max_bytes))
}

/// Returns the range that a person's request compacts: all but the newest turn. `None` while a call
/// is open.
pub fn compactable(state: &State) -> Option<TurnRange> {
    if state.first_open().is_some() {
        return None;
    }
    all_but(&turns(&state.context, |_| 0), 1)
}

fn all_but(all: &[Turn], keep: usize) -> Option<TurnRange> {
    let leaving = all.len().checked_sub(keep.max(1)).filter(|n| *n > 0)?;
    Some(TurnRange {
        first: all[0].range.first,
        last: all[leaving - 1].range.last,
    })
}

/// Returns the oldest turns whose removal brings the request down to half of `limit`, and its size
/// afterwards. `None` when there is only the newest turn. `freeing` happens at the same time.
fn oldest(
    state: &State,
    budget: &Budget,
    windows: &CompactionSettings,
    freeing: &Freeing,
    limit: u64,
) -> Option<(TurnRange, u64)> {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let all = turns(&state.context, |r| freeing.bytes_after(state, r, inline));
    let fixed = |last| {
        budget.tokens(state.fixed_bytes())
            + windows.summary_tokens(budget) * 5 / 4
            + budget.tokens(said_again::preface_body_bytes(state, budget, last))
    };
    let at_most = fixed(Seq::MAX);
    // In a small window the fixed part takes more than half. Then half of the rest is removed.
    let target = (limit / 2).max(at_most + limit.saturating_sub(at_most) / 2);
    let mut left: usize = all.iter().map(|e| e.bytes).sum();
    let mut leaving = None;
    for exchange in &all[..all.len().checked_sub(1)?] {
        if leaving.is_some() && at_most + budget.tokens(left) <= target {
            break;
        }
        left -= exchange.bytes;
        leaving = Some(exchange.range.last);
    }
    let range = TurnRange {
        first: all.first()?.range.first,
        last: leaving?,
    };
    Some((range, fixed(range.last) + budget.tokens(left)))
}
