//! The preface: the text at the beginning of requests that replaces the content which left the
//! context.

use super::entry::{Plan, Seq, SummaryBy};
use super::ledger::Ledger;
use super::text::head_tail;

/// Maximum size in bytes of the user's last message after a summary.
const WORDS_BYTES: usize = 1_500;
/// Approximate maximum size in bytes of the results of the last answer.
const RESULTS_BYTES: usize = 1_200;

/// The text at the beginning of requests that replaces earlier entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preface {
    /// The text as it is sent.
    pub text: String,
    /// The rolling summary alone; `None` for a continuation note.
    pub summary: Option<String>,
    pub by: SummaryBy,
    /// Number of compactions so far.
    pub windows: u32,
    /// The last entry that this text replaces.
    pub last: Seq,
    /// The last summary that a model made. Entries from `unsound_from` on are only in a digest, and
    /// are summarised again when the model can be asked.
    pub sound: Option<String>,
    pub unsound_from: Option<Seq>,
}

/// The content of a session that version 0.1 repeated after a summary.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    pub plan: Option<&'a Plan>,
    /// The user's last message, whole.
    pub words: Option<&'a (Seq, String)>,
    pub ledger: &'a Ledger,
}

/// Renders the preface of a compaction without a recorded one, as version 0.1 did. What was sent is
/// thereby sent again byte for byte.
pub(crate) fn render_as_before(carried: &Carried<'_>, summary: &str, last: Seq) -> String {
    let mut text = format!(
        "<summary>\nEntries 0-{last} of this session were summarised; memory_search finds in them, \
         memory_page reads them.\n\n{summary}\n"
    );
    text.push_str(&extras(carried, last));
    text.push_str("</summary>");
    text
}

fn extras(carried: &Carried<'_>, last: Seq) -> String {
    let mut text = String::new();
    if let Some(plan) = carried.plan.and_then(Plan::to_text_as_before) {
        text.push_str(&format!("\nThe plan at that time:\n{plan}"));
    }
    if let Some((seq, words)) = carried.words
        && *seq <= last
    {
        let marker = format!("\n[… the rest is in entry {seq} …]\n");
        let words = head_tail(words, WORDS_BYTES, &marker);
        text.push_str(&format!(
            "\nThe user's last message (entry {seq}):\n{words}\n"
        ));
    }
    if carried
        .ledger
        .results
        .first()
        .is_some_and(|r| r.seq <= last)
    {
        let lines = carried.ledger.result_lines(RESULTS_BYTES);
        text.push_str(&format!("\nThe results of the last answer:\n{lines}"));
    }
    text
}
