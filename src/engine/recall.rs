//! Recall: after a user message and after a continuation, content that is relevant again returns to
//! the context. It comes from the part of the log that left the context, and from the memories of
//! earlier sessions here.

use std::collections::BTreeMap;

use super::{EngineError, Recorder, Write};
use crate::core::entry::{About, Entry, Fact, Outcome, Seq};
use crate::core::quoted::fenced;
use crate::core::state::State;
use crate::core::text::one_line;
use crate::store::{MemoryQuery, Scope};
use crate::world::World;

/// Maximum size of a recall note.
const RECALL_BYTES: usize = 1_700;

/// Maximum number of words that are searched for. [`HITS`] limits the hits of each.
const WORDS: usize = 8;
const HITS: u32 = 20;

/// Shorter words are too frequent to search for.
const MIN_WORD_CHARS: usize = 5;

/// Minimum number of common words. A text with fewer is about something else.
const MIN_COMMON: u32 = 2;

const MAX_LINES: usize = 5;
const LINE_CHARS: usize = 300;

const ENTRIES: &[&str] = &["said", "finished"];
const MEMORIES: &[&str] = &["episodic", "semantic", "procedural"];

/// The matching items. The keys sort by age.
type Scores<K> = BTreeMap<K, Match>;

/// A memory or an entry that has words of the message.
#[derive(Debug, Clone)]
pub(super) struct Match {
    /// Number of words in common.
    common: u32,
    /// Its kind and its address.
    lead: String,
    text: String,
}

impl Match {
    fn new(lead: String, text: String) -> Match {
        Match {
            common: 0,
            lead,
            text,
        }
    }
}

/// The text of the next request, with each run of white space as one space.
struct SentText(String);

impl SentText {
    fn of(state: &State) -> SentText {
        let mut text = state.layers.instructions.clone();
        if let Some(preface) = &state.preface {
            text.push_str(&preface.text);
        }
        for record in &state.context {
            text.push('\n');
            match &record.entry {
                Entry::Said { text: said, .. } | Entry::Noted { text: said, .. } => {
                    text.push_str(said);
                }
                Entry::Finished { outcome, fact, .. } => match fact {
                    Some(Fact::Remembered { memory }) => text.push_str(&memory.text),
                    _ => text.push_str(&outcome.to_model_text().0),
                },
                _ => {}
            }
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        SentText(words.join(" "))
    }

    /// Returns whether the request has this text, which may be cut at either end.
    fn has(&self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        self.0.contains(words.join(" ").trim_matches('…').trim())
    }

    /// Returns lines of the items with the most words in common that the request does not have; of
    /// equal ones, the newest first.
    fn best_new<K: Ord>(&self, found: Scores<K>) -> Vec<String> {
        let mut best: Vec<_> = found
            .into_iter()
            .filter(|(_, item)| item.common >= MIN_COMMON)
            .collect();
        best.sort_by(|(a, m), (b, n)| (n.common, b).cmp(&(m.common, a)));
        best.into_iter()
            .filter(|(_, item)| !self.has(&item.text))
            .take(MAX_LINES)
            .map(|(_, item)| format!("{}{}\n", item.lead, item.text))
            .collect()
    }
}

/// The state of recall in this process.
#[derive(Default)]
pub(super) struct Recall {
    /// The last [`crate::core::next::recall_point`] that was searched for.
    pub done: Option<Seq>,
}

impl Recall {
    /// Searches the log and the memories, and records what was found as a note. Runs once for each
    /// message and once for each continuation.
    pub(super) async fn recall<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        since: Seq,
    ) -> Result<(), EngineError> {
        self.done = Some(since);
        let Some((seq, words)) = log.state.words.clone() else {
            return Ok(());
        };
        // Entries after this one are still in the context.
        let last = log.state.preface.as_ref().map(|p| p.last);
        let terms = rarer(&words);
        let sent = SentText::of(&log.state);
        let mut lines = sent.best_new(self.memories_of(log, &terms)?);
        if let Some(last) = last {
            lines.extend(sent.best_new(self.entries_of(log, &terms, seq, last)?));
        }
        let mut text = String::new();
        for line in lines {
            if text.len() + line.len() <= RECALL_BYTES {
                text.push_str(&line);
            }
        }
        if !text.is_empty() {
            let text = format!(
                "Found in the log and in memories by words of the user's message; memory_page reads an \
                 entry whole:\n{}",
                fenced(&text)
            );
            let about = Some(About::Recalled);
            log.record(Write::of(Entry::Noted { text, about })).await?;
        }
        Ok(())
    }

    /// Returns the matching memories of this workspace.
    pub(super) fn memories_of<W: World>(
        &self,
        log: &Recorder<W>,
        terms: &[String],
    ) -> Result<Scores<(i64, String, u64)>, EngineError> {
        let session = log.head.session().to_string();
        let mut scores: Scores<(i64, String, u64)> = BTreeMap::new();
        for term in terms {
            let sought = self.sought(log, term, &session, MEMORIES);
            for memory in log.store.index().memories(&sought)? {
                let address = match memory.session == session {
                    true => format!("entry {}", memory.seq),
                    false => format!("{}:{}", memory.session, memory.seq),
                };
                let text = one_line(&memory.text, LINE_CHARS);
                let lead = format!("- {} memory ({address}): ", memory.kind);
                let key = (memory.at_ms, memory.session, memory.seq);
                scores.entry(key).or_insert(Match::new(lead, text)).common += 1;
            }
        }
        Ok(scores)
    }

    /// Returns the matching entries of this session up to `last`, without the entry
    /// `asking`.
    pub(super) fn entries_of<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        terms: &[String],
        asking: u64,
        last: u64,
    ) -> Result<Scores<u64>, EngineError> {
        let session = log.head.session().to_string();
        let mut scores: Scores<u64> = BTreeMap::new();
        for term in terms {
            let sought = self.sought(log, term, &session, ENTRIES);
            for hit in log.store.index().recall(&sought)? {
                if hit.seq <= last && hit.seq != asking && self.is_of_use(log, hit.seq)? {
                    let text = one_line(&hit.snippet, LINE_CHARS);
                    let lead = format!("- entry {}: ", hit.seq);
                    let found = scores.entry(hit.seq);
                    found.or_insert(Match::new(lead, text)).common += 1;
                }
            }
        }
        Ok(scores)
    }

    /// Returns whether an entry is worth recalling: a message, or the result of a call that
    /// succeeded. A refused or failed call helps nobody.
    pub(super) fn is_of_use<W: World>(
        &self,
        log: &Recorder<W>,
        seq: Seq,
    ) -> Result<bool, EngineError> {
        let records = log.store.records(log.head.session(), seq..=seq)?;
        let is_refused = log.store.was_refused(log.head.session(), seq)?;
        Ok(records.first().is_some_and(|record| match &record.entry {
            Entry::Said { .. } => !is_refused,
            Entry::Finished { outcome, fact, .. } => {
                let failed =
                    matches!(fact, Some(Fact::Ran { exit_code, .. }) if *exit_code != Some(0));
                matches!(outcome, Outcome::Done { .. }) && !failed
            }
            _ => false,
        }))
    }

    pub(super) fn sought<'a, W: World>(
        &self,
        log: &Recorder<W>,
        query: &'a str,
        session: &'a str,
        kinds: &'a [&'static str],
    ) -> MemoryQuery<'a> {
        MemoryQuery {
            query,
            scope: Scope::Session(session),
            kinds,
            now_ms: log.world.now_ms(),
            limit: HITS,
        }
    }
}

/// Returns the longer words, the longest first, since they occur in fewer texts.
fn rarer(words: &str) -> Vec<String> {
    let mut terms: Vec<String> = words
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| w.chars().count() >= MIN_WORD_CHARS)
        .map(str::to_lowercase)
        .collect();
    terms.sort_by_key(|w| (std::cmp::Reverse(w.chars().count()), w.clone()));
    terms.dedup();
    terms.truncate(WORDS);
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_words_are_looked_for_once_each() {
        let words = "Refactor the parser, the PARSER and parse_line of it";
        assert_eq!(rarer(words), ["parse_line", "refactor", "parser"]);
        assert_eq!(rarer("go on"), Vec::<String>::new());
    }

    #[test]
    fn best_matches_come_first_and_newer_ones_win_ties() {
        let of = |common: u32, text: &str| Match {
            common,
            ..Match::new("- ".into(), text.into())
        };
        let scores = BTreeMap::from([
            (1, of(2, "old")),
            (2, of(1, "little")),
            (3, of(2, "new")),
            (4, of(3, "much")),
            (5, of(3, "…in the request twice…")),
        ]);
        let sent = SentText("what is in the request twice is known".into());
        assert_eq!(sent.best_new(scores), ["- much\n", "- new\n", "- old\n"]);
    }
}
