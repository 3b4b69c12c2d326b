//! Builds the entries that record a compaction or a continuation.

use std::ops::RangeInclusive;

use super::budget::Budget;
use super::entry::{Entry, Record, Seq, Spent, SummaryBy};
use super::freeing::{self, Freeing};
use super::state::State;
use super::turn::TurnRange;
use super::window::CompactionSettings;
use super::{continuation, said_again, summary};

/// Returns the records of the context in this range, which a summary will replace.
pub fn leaving(state: &State, range: TurnRange) -> Vec<Record> {
    let within = |r: &&Record| (range.first..=range.last).contains(&r.seq);
    state.context.iter().filter(within).cloned().collect()
}

/// Maximum number of unsummarised entries that go into a digest or into the next summary. Older
/// ones are left out.
const MAX_UNSUMMARISED: u64 = 1_000;

/// Returns the range of entries that left the context and that no model summarised yet. They are
/// only in the log, whether a digest or a continuation note stands for them.
pub fn unsummarised(state: &State) -> Option<RangeInclusive<Seq>> {
    let preface = state.preface.as_ref()?;
    let first = preface.unsound_from?;
    let oldest = preface.last.saturating_sub(MAX_UNSUMMARISED);
    Some(first.max(oldest)..=preface.last)
}

/// The text that replaces turns which left the context.
#[derive(Debug, Clone, PartialEq)]
pub enum Summary {
    /// A text that a model wrote.
    Model(String),
    /// A digest of these records: those of [`unsummarised`], and those that leave.
    Digest(Vec<Record>),
    /// One line that names the entries.
    Placeholder,
}

/// Returns the entries of a compaction, in which `summary` replaces the oldest turns. A compaction
/// changes the beginning of the request, so the provider's cache is lost from there on. Old results
/// are therefore freed at the same time.
pub fn compacted(
    state: &State,
    budget: &Budget,
    windows: &CompactionSettings,
    range: TurnRange,
    summary: Summary,
    spent: Vec<Spent>,
) -> Vec<Entry> {
    let TurnRange { first, last } = range;
    let (summary, by) = match summary {
        Summary::Model(text) => (text, SummaryBy::Model),
        Summary::Placeholder => (summary::placeholder(range), SummaryBy::Placeholder),
        Summary::Digest(records) => {
            let room = budget.bytes(windows.summary_tokens(budget));
            (summary::digest(state, &records, room), SummaryBy::Digest)
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

/// Returns the entry of a continuation: the context starts over from a note. `exists` tells whether
/// a file still exists.
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
