//! Which exchanges are in full, and which are to be summarised.
//!
//! An exchange is one user message, or one answer with its results. The context shrinks in
//! steps, so that the prefix of the requests stays the same in between. Old results leave first,
//! for a line each ([`super::freeing`]); when that is not enough, the oldest exchanges are
//! summarised. The newest exchange is never summarised.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::continuation::note_bytes;
use super::entry::{Entry, Seq};
use super::exchange::{Exchange, Range, exchanges};
use super::freeing::{Freeing, bytes_of};
use super::prompt;
use super::said_again;
use super::state::State;

/// With [`Strategy::Tokens`] the context is made shorter from this size on, whatever
/// `max_tokens` allows. Each request pays for all of the context: a tenth of a token for each
/// that the provider has in its cache. Over this, it is cheaper to send less and to read again
/// what is missed.
const EARLY_TOKENS: u64 = 60_000;

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
    /// With [`Strategy::Minutes`]: a window ends at a pause of this many seconds.
    pub idle_sec: u64,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pressure {
    /// It can be sent.
    Fits,
    /// It can be sent once these results are freed.
    Free(Vec<Seq>),
    /// It can be sent once these are summarised.
    Compact(Range),
    /// Summarising is not enough: the context begins again from a note.
    Continue,
}

/// What is to be done before the context is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// These results are freed, at once.
    Free(Vec<Seq>),
    /// These exchanges are summarised, in the background.
    Summarise(Range),
}

/// Tokens of the request that would be sent now.
pub fn request_tokens(state: &State, budget: &Budget, windows: &Windows) -> u64 {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    budget.tokens(prompt::request_bytes(state, inline))
}

/// What is to be done before the next request, at the hard limit.
pub fn pressure(state: &State, budget: &Budget, windows: &Windows) -> Pressure {
    let now = request_tokens(state, budget, windows);
    if now <= budget.hard() {
        return Pressure::Fits;
    }
    if state.context.is_empty() {
        // A note that was written for a larger window is written again, once.
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

/// What makes the context shorter while the loop goes on.
pub fn due(state: &State, budget: &Budget, windows: &Windows) -> Option<Due> {
    let all = || {
        let inline = budget.inline_bytes(windows.inline_max_bytes);
        exchanges(&state.context, |r| bytes_of(state, r, inline))
    };
    match windows.strategy {
        Strategy::Tokens => due_by_tokens(state, budget, windows),
        Strategy::Messages => {
            let all = all();
            let over = all.len() > windows.max_messages;
            let range = over.then(|| all_but(&all, windows.keep)).flatten();
            range.map(Due::Summarise)
        }
        Strategy::Minutes => {
            let all = all();
            let idle_ms = i64::try_from(windows.idle_sec)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000);
            let gap = (1..all.len())
                .rev()
                .find(|i| all[*i].began_ms - all[*i - 1].ended_ms >= idle_ms)?;
            Some(Due::Summarise(Range {
                first: all[0].range.first,
                last: all[gap - 1].range.last,
            }))
        }
        Strategy::Manual => None,
    }
}

/// Results first. Exchanges are summarised when the context would still be long without the
/// results: then only a few more would bring it back to where it was.
fn due_by_tokens(state: &State, budget: &Budget, windows: &Windows) -> Option<Due> {
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
        return Some(Due::Free(freeing.results));
    }
    let limit = match now > soft {
        true => soft,
        false if is_mostly_freed(state, budget, windows, &freeing, early) => early,
        // A conversation of words may be as long as the person says.
        false => return freeing.pays().then_some(Due::Free(freeing.results)),
    };
    oldest(state, budget, windows, &freeing, limit).map(|(range, _)| Due::Summarise(range))
}

/// Whether exchanges without their results make up a third of this.
fn is_mostly_freed(
    state: &State,
    budget: &Budget,
    windows: &Windows,
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

fn freeing(state: &State, budget: &Budget, windows: &Windows) -> Freeing {
    Freeing::of(state, budget, budget.inline_bytes(windows.inline_max_bytes))
}

/// All but the newest exchange: what a person asks for. `None` while a call is open.
pub fn compactable(state: &State) -> Option<Range> {
    if state.first_open().is_some() {
        return None;
    }
    all_but(&exchanges(&state.context, |_| 0), 1)
}

fn all_but(all: &[Exchange], keep: usize) -> Option<Range> {
    let leaving = all.len().checked_sub(keep.max(1)).filter(|n| *n > 0)?;
    Some(Range {
        first: all[0].range.first,
        last: all[leaving - 1].range.last,
    })
}

/// The oldest exchanges whose going brings the request down to half of `limit`, and what it has
/// then. `None` when there is only the newest one. These results are freed with it.
fn oldest(
    state: &State,
    budget: &Budget,
    windows: &Windows,
    freeing: &Freeing,
    limit: u64,
) -> Option<(Range, u64)> {
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let all = exchanges(&state.context, |r| freeing.bytes_after(state, r, inline));
    let fixed = |last| {
        budget.tokens(state.fixed_bytes())
            + windows.summary_tokens(budget) * 5 / 4
            + budget.tokens(said_again::said_again_bytes(state, budget, last))
    };
    let at_most = fixed(Seq::MAX);
    // In a small window what is fixed takes more than half: then half of the rest is freed.
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
    let range = Range {
        first: all.first()?.range.first,
        last: leaving?,
    };
    Some((range, fixed(range.last) + budget.tokens(left)))
}
