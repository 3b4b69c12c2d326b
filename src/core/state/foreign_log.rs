//! The fold of a log that anybody may have written.

use crate::core::entry::{Entry, Record, Seq};
use crate::core::tool::Describe;

use super::{Illegal, State};

/// Maximum size of the entries since the begin of the context, bytes of their JSON. No model reads as
/// much.
const MAX_CONTEXT: usize = 64 << 20;

/// Size of the names in an entry that does not count: a path with a hash, a model.
const USUAL_NAMES: usize = 512;

/// A log that is folded entry by entry, with a bound on what the state holds.
#[derive(Clone)]
pub struct ForeignLog {
    pub state: State,
    /// Size of the entries that the context may hold, with their places.
    sizes: Vec<(Seq, usize)>,
    held: usize,
    /// Size of long names of models, hosts, rules and commands, which the state holds for ever.
    names: usize,
}

impl ForeignLog {
    pub fn new(describe: Describe) -> ForeignLog {
        ForeignLog {
            state: State::new(describe),
            sizes: Vec::new(),
            held: 0,
            names: 0,
        }
    }

    /// Returns the size of the entries that the context may hold, bytes of their JSON.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Applies the next record, whose entry has this size.
    ///
    /// # Errors
    /// It is not allowed there, or the context is too large.
    pub fn fold(&mut self, record: &Record, bytes: usize) -> Result<(), Illegal> {
        self.held += bytes;
        if self.held > MAX_CONTEXT {
            return Err(Illegal {
                seq: record.seq,
                kind: record.entry.kind(),
                why: format!("its context has more than {} MiB", MAX_CONTEXT >> 20),
            });
        }
        self.state.fold(record)?;
        let names = names_of(&record.entry, bytes).saturating_sub(USUAL_NAMES);
        self.names += names;
        self.sizes.push((record.seq, bytes.saturating_sub(names)));
        let context = self.state.context.first().map(|first| first.seq);
        let last = self.state.preface.as_ref().map(|preface| preface.last);
        let first = context.or(last).unwrap_or_default();
        if self.sizes.first().is_some_and(|(seq, _)| *seq < first) {
            self.sizes.retain(|(seq, _)| *seq >= first);
            self.held = self.sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() + self.names;
        }
        Ok(())
    }
}

/// Returns the size of the names that the state holds of an entry after it left the context.
fn names_of(entry: &Entry, bytes: usize) -> usize {
    let models: usize = entry.spent().map(|(model, _)| model.len()).sum();
    models
        + match entry {
            Entry::Learned(_) | Entry::Chose(_) | Entry::Decided { .. } => bytes,
            Entry::Finished { fact, .. } => serde_json::to_vec(fact).map_or(0, |fact| fact.len()),
            _ => 0,
        }
}
