//! Messages that were made for the request before. A request has it as its beginning, so of a long
//! log only the end is made anew.
//!
//! Invariant: what is used again is what would be made again. So only whole exchanges are kept, an
//! answer with the results of all of its calls: nothing that is recorded later changes those but
//! that a result is freed, and that is looked at.

use std::collections::BTreeMap;

use super::{Messages, images_of};
use crate::core::entry::{Block, Entry, Record, Seq};
use crate::core::request::Message;
use crate::core::state::State;

/// What was made of one log. For another one, also for a branch of the same, there is another.
#[derive(Debug, Default)]
pub struct KeptMessages {
    inline: usize,
    model: String,
    /// By the place of the answer.
    exchanges: BTreeMap<Seq, Made>,
    /// The number of the request that is being made.
    request: u64,
}

#[derive(Debug)]
struct Made {
    /// The last request that it is in.
    request: u64,
    /// The results that were freed, by their places.
    freed: Vec<Seq>,
    messages: Vec<Message>,
}

/// An answer and the results of its calls.
pub(super) struct Exchange<'a> {
    answer: Seq,
    records: &'a [Record],
    pub behind: &'a [Record],
}

/// The exchange that begins here: the answer has calls, all have their results, and something
/// follows that ends it.
pub(super) fn exchange<'a>(records: &'a [Record], state: &State) -> Option<Exchange<'a>> {
    let (first, rest) = records.split_first()?;
    let Entry::Replied { blocks, .. } = &first.entry else {
        return None;
    };
    let is_call = |block: &&Block| matches!(block, Block::Call { .. });
    let calls = blocks.iter().filter(is_call).count();
    let ends = |record: &Record| !matches!(record.entry, Entry::Finished { .. }) && is_said(record);
    let end = rest.iter().position(ends)?;
    let (results, behind) = rest.split_at(end);
    let mut finished = 0;
    for record in results {
        if let Entry::Finished { call, .. } = &record.entry {
            let has_images = !images_of(&record.entry).is_empty();
            if call.reply != first.seq || has_images || state.image_refusal(record.seq).is_some() {
                return None;
            }
            finished += 1;
        }
    }
    (calls > 0 && finished == calls).then_some(Exchange {
        answer: first.seq,
        records: &records[..=end],
        behind,
    })
}

/// Whether messages may be made of an entry of this kind.
fn is_said(record: &Record) -> bool {
    matches!(
        record.entry,
        Entry::Said { .. }
            | Entry::Replied { .. }
            | Entry::Finished { .. }
            | Entry::Stopped { .. }
            | Entry::Noted { .. }
            | Entry::Checked { .. }
            | Entry::Restored { .. }
            | Entry::Forked { .. }
    )
}

impl KeptMessages {
    pub(super) fn begin(&mut self, state: &State, inline: usize) {
        if self.inline != inline || self.model != state.model {
            self.exchanges.clear();
            self.inline = inline;
            self.model.clone_from(&state.model);
        }
        self.request += 1;
    }

    pub(super) fn messages(
        &mut self,
        exchange: &Exchange<'_>,
        state: &State,
        inline: usize,
    ) -> &[Message] {
        let freed = || {
            let freed = exchange.records.iter().map(|record| record.seq);
            freed.filter(|seq| state.freed.has(*seq))
        };
        let make = || {
            let mut out = Messages::new(inline);
            for record in exchange.records {
                out.record(record, state);
            }
            out.flush();
            Made {
                request: 0,
                freed: freed().collect(),
                messages: out.done,
            }
        };
        let made = self.exchanges.entry(exchange.answer).or_insert_with(make);
        if !freed().eq(made.freed.iter().copied()) {
            *made = make();
        }
        made.request = self.request;
        &made.messages
    }

    /// What this request does not have is not kept any longer.
    pub(super) fn end(&mut self) {
        let request = self.request;
        self.exchanges.retain(|_, made| made.request == request);
    }
}
