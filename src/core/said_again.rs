//! Content that is repeated after a summary: the user's messages, the plan and the last results.

use super::budget::Budget;
use super::entry::Seq;
use super::planned;
use super::quoted::{escape_tags, inside_tag};
use super::state::State;

/// Approximate size in bytes of the results of the last answer.
const RESULTS_BYTES: usize = 1_200;

/// Maximum size in bytes of the facts: about 100 tokens.
const FACTS_BYTES: usize = 400;

/// Title above the user's messages, which are in their order because later ones may correct earlier
/// ones.
pub(crate) const WORDS_TITLE: &str = "What the user said, in its order; what was said later holds";

/// Renders the preface of a summary: the summary, the user's messages up to the entry `last`, the
/// plan and the last results. It is recorded, and sent in the same bytes until the next compaction.
pub(crate) fn render(state: &State, budget: &Budget, summary: &str, last: Seq) -> String {
    let mut text = format!(
        "<summary>\nEntries 0-{last} of this session were summarised; memory_search finds in them, \
         memory_page reads them.\n\n{}\n",
        inside_tag(summary.trim_end())
    );
    text.push_str(&preface_body(state, budget, last));
    text.push_str("</summary>");
    text
}

/// Returns the size in bytes of the preface without the summary, with the messages up to `last`.
pub(crate) fn preface_body_bytes(state: &State, budget: &Budget, last: Seq) -> usize {
    250 + preface_body(state, budget, last).len()
}

fn preface_body(state: &State, budget: &Budget, last: Seq) -> String {
    let mut text = String::new();
    let words = words(state, budget, last);
    if !words.is_empty() {
        text.push_str(&format!("\n## {WORDS_TITLE}\n{words}"));
    }
    if let Some(plan) = plan(state, budget, words.len()) {
        text.push_str(&format!("\n## The plan at that time\n{plan}"));
    }
    if state.ledger.results.first().is_some_and(|r| r.seq <= last) {
        let lines = state.ledger.result_lines(RESULTS_BYTES);
        text.push_str(&format!("\n## Results of the last answer\n{lines}"));
    }
    let facts = state.ledger.facts(FACTS_BYTES, &state.folder);
    if !facts.is_empty() {
        text.push_str(&format!("\n## Facts from the log\n{facts}"));
    }
    escape_tags(&text).into_owned()
}

/// Renders the user's messages up to the entry `last`, in their share of the window.
pub(crate) fn words(state: &State, budget: &Budget, last: Seq) -> String {
    let room = budget.words_bytes(state.fixed_bytes());
    state.said.to_text(last, room)
}

/// Renders the plan in the room that the user's messages leave of their share, at least half of it.
pub(crate) fn plan(state: &State, budget: &Budget, words_bytes: usize) -> Option<String> {
    let share = budget.words_bytes(state.fixed_bytes());
    let room = share.saturating_sub(words_bytes).max(share / 2);
    planned::to_text(state.plan.as_ref()?, state.plan_at, room)
}
