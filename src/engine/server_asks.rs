//! Questions of MCP servers to a person during a call (elicitation): recorded, shown, and answered.
//!
//! One question is asked at a time. The others wait in the world. The step that waits for an answer
//! may be dropped. The server's question is then asked again when the call is resumed.
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

/// Time between two tries to record a question that found no room in the log.
const AGAIN: Duration = Duration::from_secs(1);

/// The state of the current question.
#[derive(Default)]
pub(super) struct Asking {
    waiting: Option<Waiting>,
    /// A question that found no room in the log, and the time of the next try.
    unrecorded: Option<(Instant, ServerAsks)>,
    /// This start has no person to ask, and an earlier start has already asked the question.
    pub is_left_open: bool,
}

/// A call that waits for an answer.
struct Waiting {
    call: CallId,
    key: String,
    reply: oneshot::Sender<FormAnswer>,
}

impl Asking {
    /// Returns whether a person is being asked.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|w| !w.reply.is_closed())
    }

    /// Returns whether another question may be asked.
    pub(super) fn is_free(&self) -> bool {
        !self.is_waiting() && self.unrecorded.is_none()
    }

    /// Returns the time of the next try to record a question.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unrecorded.as_ref().map(|(due, _)| *due)
    }

    /// Asks the question again that found no room in the log.
    pub(super) async fn ask_again<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<bool, EngineError> {
        match self.unrecorded.take() {
            Some((_, asked)) => self.ask(log, asked).await,
            None => Ok(false),
        }
    }

    /// Asks a person the question of a server, or answers it from the log. Returns true if the step
    /// in progress is to be dropped: a person must answer, and this start has none.
    pub(super) async fn ask<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        asked: ServerAsks,
    ) -> Result<bool, EngineError> {
        // The step that waited for the answer may be gone.
        if asked.reply.is_closed() {
            return Ok(false);
        }
        let Some(open) = log.worked_on_by(&asked.question) else {
            // No call to this server is open.
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

    /// Records the question. Without a person to ask, also records that it is declined.
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

    /// Schedules another try after a full disk or a busy store, since neither ends the call.
    pub(super) fn without_room<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        error: EngineError,
        asked: ServerAsks,
    ) -> Result<bool, EngineError> {
        match error {
            EngineError::Store(error) if error.is_passing() => {
                log.emit_not_stored(&error);
                self.unrecorded = Some((Instant::now() + AGAIN, asked));
                Ok(false)
            }
            error => Err(error),
        }
    }

    /// Records a person's answer and sends it to the server. One that comes too late or does not
    /// fit is ignored.
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
                asked.question.asker()
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
    /// Returns the open call in which this question is asked.
    pub(super) fn worked_on_by(&self, question: &ServerQuestion) -> Option<&OpenCall> {
        let mut open = self.state.calls.iter().filter(|open| !open.finished);
        open.find(|open| match &open.guard {
            Some(Guard::Served { server, .. }) => *server == question.server,
            Some(Guard::Asks) => question.is_of_model(),
            _ => false,
        })
    }
}

/// Sends an answer. Returns false: the step continues. If the receiver is gone, the recorded answer
/// is used when the server asks again.
fn answer(reply: oneshot::Sender<FormAnswer>, given: FormAnswer) -> bool {
    let _ = reply.send(given);
    false
}
