//! The entries that a compaction or a continuation is recorded as.

use super::budget::Budget;
use super::continuation;
use super::entry::{Entry, Record, Spent, SummaryBy};
use super::exchange::Range;
use super::freeing::{self, Freeing};
use super::said_again;
use super::state::State;
use super::summary::{self, Fallback};
use super::window::Windows;

/// What is summarised: the records of this range of the context.
pub fn leaving(state: &State, range: Range) -> Vec<Record> {
    let within = |r: &&Record| (range.first..=range.last).contains(&r.seq);
    state.context.iter().filter(within).cloned().collect()
}

/// The oldest exchanges leave for what a model wrote of them, else for what stands in. What
/// stays is new to the provider from there on, so old results are freed with it.
pub fn compacted(
    state: &State,
    budget: &Budget,
    windows: &Windows,
    range: Range,
    made: Option<String>,
    fallback: Fallback,
    spent: Vec<Spent>,
) -> Vec<Entry> {
    let Range { first, last } = range;
    let (summary, by) = match (made, fallback) {
        (Some(text), _) => (text, SummaryBy::Model),
        (None, Fallback::Placeholder) => (summary::placeholder(range), SummaryBy::Placeholder),
        (None, Fallback::Digest) => {
            let room = budget.bytes(windows.summary_tokens(budget));
            let digest = summary::digest(state, &leaving(state, range), room);
            (digest, SummaryBy::Digest)
        }
    };
    let inline = budget.inline_bytes(windows.inline_max_bytes);
    let mut results = Freeing::of(state, budget, inline).results;
    results.retain(|at| *at > last);
    let freed = freeing::entry(state, &results);
    let compacted = Entry::Compacted {
        window: state.preface.as_ref().map_or(0, |p| p.windows) + 1,
        first,
        last,
        preface: Some(said_again::render(state, budget, &summary, last)),
        summary,
        by,
        spent,
    };
    freed.into_iter().chain([compacted]).collect()
}

/// The context begins again from a note. `exists` says whether a file is still there.
pub fn continued(
    state: &State,
    budget: &Budget,
    story: Option<String>,
    exists: &dyn Fn(&str) -> bool,
    spent: Vec<Spent>,
) -> Entry {
    let by = match story {
        Some(_) => SummaryBy::Model,
        None => SummaryBy::Digest,
    };
    Entry::Continued {
        note: continuation::note(state, budget, story.as_deref(), exists),
        by,
        spent,
        story,
    }
}
