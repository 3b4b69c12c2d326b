//! A run that may be a retry: what an earlier process with the same command line recorded.

use std::ops::RangeInclusive;

use crate::core::entry::{About, Block, Entry, Image, Record, Seq, StopReason, Via};
use crate::session::{Session, SessionError};
use crate::store::Message;

/// Number of entries that are read at once, from the end of the log.
const ENTRIES_AT_ONCE: Seq = 200;

/// The sender of the message that continues a stopped run.
const ORIGIN: &str = "retry";

/// Prefix of the origin of a prompt that was given with `--session-id`.
const JOB: &str = "job:";

/// Returns the origin of the prompt of a command line, which is the same each time. A custom
/// command may become another text, so the prompt is taken before that.
pub fn job_origin(prompt: &str, piped: &str, images: &[Image]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [prompt, piped] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    for image in images {
        hasher.update(image.blob.hash.as_bytes());
    }
    format!("{JOB}{}", &hasher.finalize().to_hex()[..16])
}

/// The prompt and the answer that an earlier run recorded.
#[derive(Debug, Default)]
pub(super) struct EarlierRun {
    /// The newest prompt of a job, and those that wait. If no job had one, the newest of all.
    said: Vec<Message>,
    answer: Option<(String, StopReason)>,
    /// The answer before that one was cut, and is its beginning.
    continues: bool,
    /// The answer has its beginning.
    is_whole: bool,
}

impl EarlierRun {
    /// Reads the newest prompt of a job and the newest answer of a session, and the prompts that
    /// wait. Prompts that a person added are no jobs.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn of(session: &Session) -> Result<EarlierRun, SessionError> {
        let store = &session.log.store;
        let queued = store.inbox().queued(&session.id)?.into_iter();
        let queued = queued.map(|queued| queued.message);
        let mut earlier = EarlierRun {
            said: queued
                .filter(|message| message.via == Via::Prompt)
                .collect(),
            ..EarlierRun::default()
        };
        let mut newest = None;
        let mut end = session.log.state.next_seq();
        while end > 0 {
            let range: RangeInclusive<Seq> = end.saturating_sub(ENTRIES_AT_ONCE)..=end - 1;
            end = *range.start();
            if earlier.add(store.records(&session.id, range)?, &mut newest) {
                return Ok(earlier);
            }
        }
        earlier.said.extend(newest);
        Ok(earlier)
    }

    /// Adds entries before those that were added. Returns whether they have the newest prompt of a
    /// job. Also finds the newest prompt of anybody.
    fn add(&mut self, records: Vec<Record>, newest: &mut Option<Message>) -> bool {
        for record in records.into_iter().rev() {
            match record.entry {
                Entry::Replied { blocks, stop, .. } => match &mut self.answer {
                    Some((answer, _)) if self.continues => {
                        answer.insert_str(0, &Block::joined_texts(&blocks));
                        self.continues = false;
                        self.is_whole = true;
                    }
                    Some(_) => self.is_whole = true,
                    None => self.answer = Some((Block::joined_texts(&blocks), stop)),
                },
                Entry::Noted {
                    about: Some(About::AnswerCut),
                    ..
                } => self.continues = self.answer.is_some() && !self.is_whole,
                Entry::Said {
                    text,
                    images,
                    via: Via::Prompt,
                    command,
                    origin,
                    ..
                } => {
                    let message = Message {
                        images,
                        command,
                        origin,
                        ..Message::new(text, Via::Prompt)
                    };
                    if is_of_job(&message) {
                        self.said.push(message);
                        return true;
                    }
                    newest.get_or_insert(message);
                }
                _ => {}
            }
        }
        false
    }

    /// Returns whether the session has this prompt. One without an origin is compared by its words.
    pub(super) fn has_said(&self, message: &Message) -> bool {
        self.said.iter().any(|said| match is_of_job(said) {
            true => said.origin == message.origin,
            false => said.text == message.text && said.images == message.images,
        })
    }

    /// Returns the newest answer.
    pub(super) fn answer(&self) -> Option<(&str, StopReason)> {
        let answer = self.answer.as_ref();
        answer.map(|(text, stop)| (text.as_str(), *stop))
    }
}

fn is_of_job(message: &Message) -> bool {
    let origin = message.origin.as_deref();
    origin.is_some_and(|origin| origin.starts_with(JOB))
}

/// Returns the message that continues a run that was stopped. It is not a prompt, so the next retry
/// still knows the prompt.
pub(super) fn go_on() -> Message {
    Message {
        origin: Some(ORIGIN.to_string()),
        ..Message::new(
            "The run was stopped and is started again: continue the task.",
            Via::Signal,
        )
    }
}
