//! The results that were freed, each replaced by a line, and how often one of them was read again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::address::Address;
use super::entry::{FreedResult, Seq};
use super::happened;
use super::tool::ToolCall;

/// Number of the newest freed results for which further reads are counted.
const MAX_WATCHED: usize = 2_000;

/// The freed results of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClearedResults {
    /// For each freed result in the context: the line that is sent instead.
    lines: BTreeMap<Seq, String>,
    /// Places of the newest freed results, and their calls.
    watched: VecDeque<(Seq, String)>,
    calls: BTreeSet<String>,
    /// The oldest result that was freed since the last answer.
    oldest_new: Option<Seq>,
    /// Number of results that were freed in the whole session.
    pub results: u64,
    /// How often one of them was read again: by its entry, or by the same call.
    pub read_again: u64,
}

impl ClearedResults {
    pub(crate) fn line(&self, seq: Seq) -> Option<&str> {
        self.lines.get(&seq).map(String::as_str)
    }

    pub(crate) fn has(&self, seq: Seq) -> bool {
        self.lines.contains_key(&seq)
    }

    pub(crate) fn oldest_new(&self) -> Option<Seq> {
        self.oldest_new
    }

    /// Notes that the model answered.
    pub(crate) fn replied(&mut self) {
        self.oldest_new = None;
    }

    pub(crate) fn free(&mut self, results: &[FreedResult]) {
        let new = results.iter().map(|result| result.at);
        self.oldest_new = new.chain(self.oldest_new).min();
        for FreedResult { at, line, call } in results {
            self.lines.insert(*at, line.clone());
            self.results += 1;
            if self.watched.len() == MAX_WATCHED
                && let Some((_, old)) = self.watched.pop_front()
            {
                self.calls.remove(&old);
            }
            self.watched.push_back((*at, call.clone()));
            self.calls.insert(call.clone());
        }
    }

    /// Removes the results up to `last`, which left the context.
    pub(crate) fn leave(&mut self, last: Seq) {
        self.lines = self.lines.split_off(&last.saturating_add(1));
        self.oldest_new = None;
    }

    /// Counts a successful call if it reads a freed result again. `shows_log`: the call shows
    /// content of the log.
    pub(crate) fn called(&mut self, call: &ToolCall, shows_log: bool) {
        let is_again = if shows_log {
            match Address::parse(call.subject()) {
                Ok(Address::Entries {
                    session: None,
                    first,
                    last,
                }) => self
                    .watched
                    .iter()
                    .any(|(at, _)| (first..=last).contains(at)),
                _ => false,
            }
        } else {
            self.calls.contains(&happened::name(call))
        };
        self.read_again += u64::from(is_again);
    }
}
