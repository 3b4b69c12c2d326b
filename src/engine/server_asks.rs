//! What servers ask a person in the middle of a call: recorded, shown, and answered.
//!
//! One question is asked at a time; the others wait at the world. Whoever asks may be dropped with
//! its step; then it is asked again by who takes the call up, and comes here again.
//!
//! Invariant: an answer is recorded before the server gets it, and a question that has a recorded
//! answer is not asked a second time.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{EngineError, Event, Recorder, Write};
use crate::core::entry::{By, CallId, Entry, Guard};
use crate::core::form::{self, FormAnswer, MAX_QUESTIONS, ServerQuestion};
use crate::core::state::OpenCall;
use crate::world::{ServerAsks, World};

/// Between two tries to record a question, when there is no room for it.
const AGAIN: Duration = Duration::from_secs(1);

/// The question that is asked now.
#[derive(Default)]
pub(super) struct Asking {
    waiting: Option<Waiting>,
    /// One that found no room in the log, and when it is tried again.
    unrecorded: Option<(Instant, ServerAsks)>,
    /// This start has no person, and found a question that an earlier one had asked.
    pub is_left_open: bool,
}

/// Who waits for the answer.
struct Waiting {
    call: CallId,
    key: String,
    reply: oneshot::Sender<FormAnswer>,
}

impl Asking {
    /// Whether a person is asked now.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|w| !w.reply.is_closed())
    }

    /// Whether another question may be asked.
    pub(super) fn is_free(&self) -> bool {
        !self.is_waiting() && self.unrecorded.is_none()
    }

    /// When what found no room is tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unrecorded.as_ref().map(|(due, _)| *due)
    }

    /// The question that found no room in the log.
    pub(super) async fn ask_again<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<bool, EngineError> {
        match self.unrecorded.take() {
            Some((_, asked)) => self.ask(log, asked).await,
            None => Ok(false),
        }
    }

    /// A server asks. True: the step in progress is to be dropped, for a person is to answer and
    /// this start has none.
    pub(super) async fn ask<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        asked: ServerAsks,
    ) -> Result<bool, EngineError> {
        // Who asked may have been dropped meanwhile.
        if asked.reply.is_closed() {
            return Ok(false);
        }
        let Some(open) = log.worked_on_by(&asked.question.server) else {
            // It asks when nothing is wanted of it.
            return Ok(answer(asked.reply, FormAnswer::Decline));
        };
        if let Some(known) = open.answer_to(&asked.question) {
            return Ok(answer(asked.reply, known.clone()));
        }
        let is_known = open
            .server_question
            .as_ref()
            .is_some_and(|last| last.answer.is_none() && last.question == asked.question);
        if !is_known && open.answers.len() >= MAX_QUESTIONS {
            return Ok(answer(asked.reply, FormAnswer::Decline));
        }
        if is_known && !log.policy.interactive {
            self.is_left_open = true;
            return Ok(true);
        }
        let call = open.call.id;
        if !is_known && let Err(error) = self.record_of_server(log, call, &asked.question).await {
            return self.without_room(log, error, asked);
        }
        if !log.policy.interactive {
            return Ok(answer(asked.reply, FormAnswer::Decline));
        }
        let ServerAsks { question, reply } = asked;
        self.waiting = Some(Waiting {
            call,
            key: question.key.clone(),
            reply,
        });
        log.emit(Event::ServerAsks(call, Box::new(question)));
        Ok(false)
    }

    /// The question; where nobody is there, with its answer.
    pub(super) async fn record_of_server<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        call: CallId,
        question: &ServerQuestion,
    ) -> Result<(), EngineError> {
        let mut entries = vec![Entry::Asked {
            call,
            why: question.line(),
            rule: None,
            access: None,
            at: None,
            form: Some(Box::new(question.clone())),
        }];
        if !log.policy.interactive {
            entries.push(Entry::Answered {
                call,
                asked: log.state.next_seq(),
                key: question.key.clone(),
                answer: FormAnswer::Decline,
                by: By::Start,
                origin: None,
            });
        }
        log.record(Write::of_all(entries)).await
    }

    /// A full disk or a busy store ends no call.
    pub(super) fn without_room<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        error: EngineError,
        asked: ServerAsks,
    ) -> Result<bool, EngineError> {
        match error {
            EngineError::Store(error) if error.is_passing() => {
                log.emit_not_kept(&error);
                self.unrecorded = Some((Instant::now() + AGAIN, asked));
                Ok(false)
            }
            error => Err(error),
        }
    }

    /// A person's answer. One that comes too late, or does not fit, is of no use and no harm.
    pub(super) async fn answer<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        call: CallId,
        key: &str,
        given: FormAnswer,
    ) -> Result<(), EngineError> {
        let open = log.state.call(call).filter(|open| !open.finished);
        let asked = open.and_then(|open| open.server_question.as_ref());
        let Some(asked) = asked.filter(|a| a.question.key == key && a.answer.is_none()) else {
            return Ok(());
        };
        if let Err(why) = form::check(&asked.question, &given) {
            let line = format!(
                "the answer to {} was not sent: {why}",
                asked.question.server
            );
            log.emit(Event::Notice(line));
            return Ok(());
        }
        let answered = Entry::Answered {
            call,
            asked: asked.seq,
            key: key.to_string(),
            answer: given.clone(),
            by: By::Person,
            origin: None,
        };
        log.record(Write::of(answered)).await?;
        self.is_left_open = false;
        let is_meant = |waiting: &mut Waiting| waiting.call == call && waiting.key == key;
        if let Some(waiting) = self.waiting.take_if(is_meant) {
            answer(waiting.reply, given);
        }
        Ok(())
    }
}

impl<W: World> Recorder<W> {
    /// Returns the open call of this server.
    pub(super) fn worked_on_by(&self, name: &str) -> Option<&OpenCall> {
        let mut open = self.state.calls.iter().filter(|open| !open.finished);
        open.find(
            |open| matches!(&open.guard, Some(Guard::Served { server, .. }) if server == name),
        )
    }
}

/// False: the step goes on. Who asked may be gone; whoever asks again gets what is recorded.
fn answer(reply: oneshot::Sender<FormAnswer>, given: FormAnswer) -> bool {
    let _ = reply.send(given);
    false
}
