//! What the requests begin with instead of what left the context.

use super::entry::{Plan, Seq, SummaryBy};
use super::ledger::Ledger;
use super::text::head_tail;

/// The user's last words are repeated behind a summary up to this size.
const WORDS_BYTES: usize = 1_500;
/// And the results of the last answer up to about this.
const RESULTS_BYTES: usize = 1_200;

/// What the requests begin with instead of what was said before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preface {
    /// As it is sent.
    pub text: String,
    /// The rolling summary alone; `None` for a continuation note.
    pub summary: Option<String>,
    pub by: SummaryBy,
    /// Compactions so far.
    pub windows: u32,
    /// The last entry that is only behind this.
    pub last: Seq,
    /// The last summary that a model made, and the entry from which on what came after it is
    /// only in a digest: that part is summarised again when the model can be asked.
    pub sound: Option<String>,
    pub unsound_from: Option<Seq>,
}

/// What of a session was said again behind a summary by version 0.1.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    pub plan: Option<&'a Plan>,
    /// The user's last message, whole.
    pub words: Option<&'a (Seq, String)>,
    pub ledger: &'a Ledger,
}

/// The preface as version 0.1 rendered it: that of a compaction which does not have its own,
/// so that what was sent is sent again byte for byte.
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
