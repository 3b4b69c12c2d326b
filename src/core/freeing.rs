//! Frees old results when the context has to shrink: a line replaces each. Their turns stay, so the
//! question, the calls and the outcomes remain visible.
//!
//! Invariant: each freeing is an entry, so between two of them the requests have the same prefix;
//! and results that the model has not answered yet are never freed.

use super::budget::Budget;
use super::entry::{Entry, FreedResult, Outcome, Record, Seq};
use super::happened;
use super::size::{PART_BYTES, record_bytes};
use super::state::State;
use super::text::one_line;

/// Number of the newest results that always stay …
const KEPT: usize = 10;
/// … or those in this part of the window, if that is less.
const KEPT_PART: u64 = 5;

/// Estimated size of the line that replaces a result, in bytes.
const LINE_BYTES: usize = 150;
const LINE_CHARS: usize = 90;
/// Minimum size of a freed result, in bytes: the line for a smaller one would save little.
const MIN_BYTES: usize = 2 * LINE_BYTES;

/// Cost of a token that is new to the provider, in tokens from its cache.
const NEW_TO_CACHED: u64 = 10;

/// Results that could be freed now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Freeing {
    /// Oldest first.
    pub results: Vec<Seq>,
    /// Approximate number of bytes that the request becomes shorter by.
    pub bytes: usize,
    /// Bytes after the first of them, which are new to the provider afterwards.
    pub renewed: usize,
}

impl Freeing {
    /// Finds the results of the context that can be freed, except the ones that always stay.
    pub(crate) fn of(state: &State, budget: &Budget, inline: usize) -> Freeing {
        let mut freeing = Freeing::default();
        let mut kept = (0, 0);
        let most = budget.bytes(budget.window / KEPT_PART);
        let mut behind = 0;
        let mut is_answered = false;
        for record in state.context.iter().rev() {
            let bytes = bytes_of(state, record, inline);
            match &record.entry {
                Entry::Replied { .. } => is_answered = true,
                Entry::Finished { .. } => {
                    kept = (kept.0 + 1, kept.1 + bytes);
                    let stays = kept.0 <= KEPT && kept.1 <= most;
                    let is_new = !state.freed.has(record.seq);
                    if is_answered && !stays && is_new && is_large(bytes) {
                        freeing.results.push(record.seq);
                        let line = LINE_BYTES + 2 * PART_BYTES;
                        freeing.bytes += bytes - line;
                        behind += line;
                        freeing.renewed = behind;
                        continue;
                    }
                }
                _ => {}
            }
            behind += bytes;
        }
        freeing.results.reverse();
        freeing
    }

    /// Returns whether freeing pays: it saves more on cached tokens than the tokens after the first
    /// result cost as new ones. With `n` results of `g` tokens together, about `n` requests are
    /// each shorter by `g`, until as many results have come again.
    pub(crate) fn pays(&self) -> bool {
        if self.results.is_empty() {
            return false;
        }
        let saved = (self.results.len() as u64).saturating_mul(self.bytes as u64);
        saved >= (NEW_TO_CACHED - 1).saturating_mul(self.renewed as u64)
    }

    /// Returns the bytes of a record in the next request, once these are freed.
    pub(crate) fn bytes_after(&self, state: &State, record: &Record, inline: usize) -> usize {
        match self.results.binary_search(&record.seq) {
            Ok(_) => LINE_BYTES + 2 * PART_BYTES,
            Err(_) => bytes_of(state, record, inline),
        }
    }
}

/// Returns whether a line would be much shorter.
fn is_large(bytes: usize) -> bool {
    bytes >= MIN_BYTES + 2 * PART_BYTES
}

/// Returns whether this result can be freed later, as long as it is in the context.
pub(crate) fn may_be_freed(record: &Record) -> bool {
    is_large(record_bytes(record, usize::MAX))
}

/// Returns the bytes of a record in the next request.
pub(crate) fn bytes_of(state: &State, record: &Record, inline: usize) -> usize {
    match state.freed.line(record.seq) {
        Some(line) => line.len() + 2 * PART_BYTES,
        None => record_bytes(record, inline),
    }
}

/// Returns the entry that frees these results. `None` when none of them is in the context.
pub fn entry(state: &State, results: &[Seq]) -> Option<Entry> {
    let calls = happened::calls(&state.context, state.describe());
    let freed: Vec<FreedResult> = state
        .context
        .iter()
        .filter(|r| results.contains(&r.seq) && !state.freed.has(r.seq))
        .filter_map(|r| match &r.entry {
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                let call = calls.get(call);
                let about = happened::line(call, outcome, fact.as_ref(), LINE_CHARS);
                Some(FreedResult {
                    at: r.seq,
                    line: format!(
                        "[left out: {about}{}; memory_page has it at entry {}]",
                        images(outcome),
                        r.seq
                    ),
                    call: call.map(happened::name).unwrap_or_default(),
                })
            }
            _ => None,
        })
        .collect();
    (!freed.is_empty()).then_some(Entry::Freed { results: freed })
}

fn images(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { output } | Outcome::Error { output } if !output.images.is_empty() => {
            one_line(", with an image", LINE_CHARS)
        }
        _ => String::new(),
    }
}
