//! Old results that leave the context for a line each, when it has to shrink. Their exchanges
//! stay: what was asked, what was called and what came of it is still there.
//!
//! Invariant: what is freed is an entry, so between two of them the requests have the same
//! prefix; and what the model has not answered yet is never freed.

use super::budget::Budget;
use super::entry::{Entry, FreedResult, Outcome, Record, Seq};
use super::happened;
use super::size::{PART_BYTES, record_bytes};
use super::state::State;
use super::text::one_line;

/// So many of the newest results always stay …
const KEPT: usize = 10;
/// … or those in this part of the window, if that is less.
const KEPT_PART: u64 = 5;

/// What a line is reckoned with that stands for a result.
const LINE_BYTES: usize = 150;
const LINE_CHARS: usize = 90;
/// A result that is smaller stays: its line would not be much shorter.
const MIN_BYTES: usize = 2 * LINE_BYTES;

/// A token that is new to the provider costs as much as so many that it has in its cache.
const NEW_TO_CACHED: u64 = 10;

/// Results that could be freed now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Freeing {
    /// Oldest first.
    pub results: Vec<Seq>,
    /// Bytes that the request is shorter by, about.
    pub bytes: usize,
    /// Bytes behind the first of them, which are new to the provider afterwards.
    pub renewed: usize,
}

impl Freeing {
    /// What can be freed of the context, but for what always stays.
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

    /// Whether it pays: until as much is new again, what is saved of cached tokens is more than
    /// what is read anew. With `n` results of `g` tokens together, about `n` requests are each
    /// shorter by `g`.
    pub(crate) fn pays(&self) -> bool {
        if self.results.is_empty() {
            return false;
        }
        let saved = (self.results.len() as u64).saturating_mul(self.bytes as u64);
        saved >= (NEW_TO_CACHED - 1).saturating_mul(self.renewed as u64)
    }

    /// Bytes of a record in the next request, once these are freed.
    pub(crate) fn bytes_after(&self, state: &State, record: &Record, inline: usize) -> usize {
        match self.results.binary_search(&record.seq) {
            Ok(_) => LINE_BYTES + 2 * PART_BYTES,
            Err(_) => bytes_of(state, record, inline),
        }
    }
}

/// Whether a line would be much shorter.
fn is_large(bytes: usize) -> bool {
    bytes >= MIN_BYTES + 2 * PART_BYTES
}

/// Whether this result is one that is freed some day, as long as it is in the context.
pub(crate) fn may_be_freed(record: &Record) -> bool {
    is_large(record_bytes(record, usize::MAX))
}

/// Bytes of a record in the next request.
pub(crate) fn bytes_of(state: &State, record: &Record, inline: usize) -> usize {
    match state.freed.line(record.seq) {
        Some(line) => line.len() + 2 * PART_BYTES,
        None => record_bytes(record, inline),
    }
}

/// The entry that frees these results of the context. `None` when none of them is there.
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
