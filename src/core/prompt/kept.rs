//! A cache of the messages of the previous request. The next request usually begins with it, so
//! only the end of a long log must be rendered again.
//!
//! Invariant: reused messages are equal to newly rendered ones. So only whole turns are cached: an
//! answer with the results of all its calls. A later entry can change those only by freeing a
//! result, and that is checked.

use std::collections::BTreeMap;

use super::{Messages, images_of};
use crate::core::entry::{Block, Entry, Record, Seq};
use crate::core::request::Message;
use crate::core::request_form::Forms;
use crate::core::state::State;

/// The cached messages of one log. Another log needs another cache, and so does another branch.
#[derive(Debug, Default)]
pub struct KeptMessages {
    inline: usize,
    model: String,
    forms: Option<Forms>,
    /// The messages of each turn, by the place of its answer.
    exchanges: BTreeMap<Seq, BuiltMessages>,
    /// Number of the request under construction.
    request: u64,
}

#[derive(Debug)]
struct BuiltMessages {
    /// Number of the last request with these messages.
    request: u64,
    /// The freed results, by their places.
    freed: Vec<Seq>,
    messages: Vec<Message>,
}

/// An answer and the results of its calls.
pub(super) struct AnsweredTurn<'a> {
    answer: Seq,
    records: &'a [Record],
    pub behind: &'a [Record],
}

/// Returns the turn that begins here, if it can be cached: the answer has calls, all have their
/// results, and another entry ends the turn.
pub(super) fn first_answered_turn<'a>(
    records: &'a [Record],
    state: &State,
    forms: Option<&Forms>,
) -> Option<AnsweredTurn<'a>> {
    let (first, rest) = records.split_first()?;
    let Entry::Replied { blocks, .. } = &first.entry else {
        return None;
    };
    let is_call = |block: &&Block| matches!(block, Block::Call { .. });
    let calls = blocks.iter().filter(is_call).count();
    let ends = |record: &Record| {
        !matches!(record.entry, Entry::Finished { .. }) && may_become_message(record)
    };
    let end = rest.iter().position(ends)?;
    let (results, behind) = rest.split_at(end);
    let mut finished = 0;
    for record in results {
        if let Entry::Finished { call, .. } = &record.entry {
            let has_images = !images_of(&record.entry).is_empty();
            if call.reply != first.seq
                || has_images
                || state.image_refusal(record.seq, forms).is_some()
            {
                return None;
            }
            finished += 1;
        }
    }
    (calls > 0 && finished == calls).then_some(AnsweredTurn {
        answer: first.seq,
        records: &records[..=end],
        behind,
    })
}

/// Returns whether an entry of this kind may become a message.
fn may_become_message(record: &Record) -> bool {
    matches!(
        record.entry,
        Entry::Said { .. }
            | Entry::Replied { .. }
            | Entry::Finished { .. }
            | Entry::Stopped { .. }
            | Entry::Noted { .. }
            | Entry::Hooked { .. }
            | Entry::Checked { .. }
            | Entry::Restored { .. }
            | Entry::Forked { .. }
    )
}

impl KeptMessages {
    pub(super) fn begin(&mut self, state: &State, inline: usize, forms: Option<&Forms>) {
        let same = self.inline == inline && self.model == state.model;
        if !same || self.forms.as_ref() != forms {
            self.forms = forms.cloned();
            self.exchanges.clear();
            self.inline = inline;
            self.model.clone_from(&state.model);
        }
        self.request += 1;
    }

    pub(super) fn messages(
        &mut self,
        exchange: &AnsweredTurn<'_>,
        state: &State,
        inline: usize,
        forms: Option<&Forms>,
    ) -> &[Message] {
        let freed = || {
            let freed = exchange.records.iter().map(|record| record.seq);
            freed.filter(|seq| state.freed.has(*seq))
        };
        let make = || {
            let mut out = Messages::new(inline, forms);
            for record in exchange.records {
                out.record(record, state);
            }
            out.flush();
            BuiltMessages {
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

    /// Removes messages that are not part of this request.
    pub(super) fn end(&mut self) {
        let request = self.request;
        self.exchanges.retain(|_, made| made.request == request);
    }
}
