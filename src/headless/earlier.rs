//! A run that may be a retry: what an earlier process with the same command line recorded.

use std::ops::RangeInclusive;

use super::print::words;
use crate::core::entry::{Entry, Image, Record, Seq, StopReason, Via};
use crate::session::{Session, SessionError};
use crate::store::Message;

/// Number of entries that are read at once, from the end of the log.
const ENTRIES_AT_ONCE: Seq = 200;

/// The sender of the message that continues a stopped run.
const ORIGIN: &str = "retry";

/// The prompt and the answer that an earlier run recorded.
#[derive(Debug, Default)]
pub(super) struct EarlierRun {
    /// The newest prompt, and those that wait.
    said: Vec<(String, Vec<Image>)>,
    answer: Option<(String, StopReason)>,
}

impl EarlierRun {
    /// Reads the newest prompt and answer of a session, and the prompts that wait.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn of(session: &Session) -> Result<EarlierRun, SessionError> {
        let store = &session.log.store;
        let queued = store.inbox().queued(&session.id)?.into_iter();
        let queued = queued.filter(|queued| queued.message.via == Via::Prompt);
        let mut earlier = EarlierRun {
            said: queued
                .map(|queued| (queued.message.text, queued.message.images))
                .collect(),
            answer: None,
        };
        let mut end = session.log.state.next_seq();
        while end > 0 {
            let range: RangeInclusive<Seq> = end.saturating_sub(ENTRIES_AT_ONCE)..=end - 1;
            end = *range.start();
            if earlier.add(store.records(&session.id, range)?) {
                break;
            }
        }
        Ok(earlier)
    }

    /// Adds entries before those that were added. Returns whether they have the newest prompt.
    fn add(&mut self, records: Vec<Record>) -> bool {
        for record in records.into_iter().rev() {
            match record.entry {
                Entry::Replied { blocks, stop, .. } => {
                    self.answer.get_or_insert_with(|| (words(&blocks), stop));
                }
                Entry::Said {
                    text,
                    images,
                    via: Via::Prompt,
                    ..
                } => {
                    self.said.push((text, images));
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Returns whether the session has this prompt.
    pub(super) fn has_said(&self, message: &Message) -> bool {
        let mut said = self.said.iter();
        said.any(|(text, images)| *text == message.text && *images == message.images)
    }

    /// Returns the newest answer.
    pub(super) fn answer(&self) -> Option<(&str, StopReason)> {
        let answer = self.answer.as_ref();
        answer.map(|(text, stop)| (text.as_str(), *stop))
    }
}

/// Returns the message that continues a run that was stopped. It is not a prompt, so the next retry
/// still knows the prompt.
pub(super) fn go_on() -> Message {
    Message {
        text: "The run was stopped and is started again: continue the task.".to_string(),
        images: Vec::new(),
        via: Via::Signal,
        command: None,
        origin: Some(ORIGIN.to_string()),
    }
}
