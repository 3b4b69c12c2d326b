//! The work of the engine while a step is in progress: it takes commands, stores streamed text and
//! runs the timer. While the step is silent, the store does its maintenance.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::signals::PollResult;
use super::{DRAFT_INTERVAL, Engine, EngineError, Event, Recorder, Write, broken_tries};
use crate::core::authorization::{Question, may_fail_unasked, place_of_question, questions};
use crate::core::entry::{CallId, Entry, HookEvent, SaveReason};
use crate::core::tool::Class;
use crate::model::Delta;
use crate::store;
use crate::tools::ToolResult;
use crate::world::{PrepareError, World};

/// The silence after which a step is expected to last: a model that reads, a command that runs. The
/// store does its maintenance from then on.
const SILENCE: Duration = Duration::from_millis(100);

/// The pause between two pieces of maintenance, so that an arrived answer is noticed at once.
const PAUSE: Duration = Duration::from_millis(2);

/// Text of the answer that is being streamed.
#[derive(Default)]
pub(super) struct StreamDraft {
    /// The whole text so far.
    text: String,
    /// Number of bytes of it that are in the store.
    kept: usize,
    /// When the rest is to be stored. `None`: all of it is stored.
    due: Option<Instant>,
}

impl StreamDraft {
    fn add(&mut self, piece: &str) {
        self.text.push_str(piece);
        self.due
            .get_or_insert_with(|| Instant::now() + DRAFT_INTERVAL);
    }

    pub(super) fn reset(&mut self) {
        *self = StreamDraft::default();
    }

    pub(super) fn words(&self) -> Option<String> {
        Some(self.text.clone()).filter(|t| !t.trim().is_empty())
    }

    pub(super) fn stream<W: World>(&mut self, log: &mut Recorder<W>, delta: Delta) {
        match &delta {
            Delta::Text(text) => self.add(text),
            Delta::Retry { .. } => {
                self.reset();
                // A draft that stays shows some stale text after a crash and does no other harm.
                if let Err(error) = log
                    .store
                    .inbox_mut()
                    .clear_draft(log.head.session(), store::Draft::Stream)
                {
                    tracing::warn!(%error, "the draft of a broken stream stays");
                }
            }
            Delta::Thinking(_) | Delta::Call { .. } | Delta::Usage(_) => {}
        }
        log.changed = true;
        log.emit(Event::Delta(delta));
    }

    /// Stores the streamed text that is not in the drafts yet. A full disk or a busy store does not
    /// end the stream: the answer itself may be recorded later. If it is not, the user is told.
    pub(super) fn keep<W: World>(&mut self, log: &mut Recorder<W>) -> Result<(), EngineError> {
        self.due = None;
        let piece = &self.text[self.kept..];
        if piece.is_empty() {
            return Ok(());
        }
        match log
            .store
            .inbox_mut()
            .append_draft(log.head.session(), piece)
        {
            Ok(()) => {
                self.kept = self.text.len();
                log.emit(Event::Kept(Ok(())));
                Ok(())
            }
            Err(error) if error.is_passing() => {
                self.due = Some(Instant::now() + DRAFT_INTERVAL);
                log.emit_not_stored(&error);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the user may interrupt a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stoppable {
    Yes,
    /// The step ends in an instant. Commands wait for its end.
    No,
}

/// The result of examining a call before a person is asked about it.
enum Examination {
    /// The call failed and has its result.
    Ended,
    /// The path that the call leads to. `None`: the call is not about a path.
    LeadsTo(Option<PathBuf>),
}

impl<W: World> Engine<W> {
    /// Drives a step to its end and handles everything else meanwhile. Returns `None` if the step
    /// was interrupted: the stop or the exit is in the log, and the step's future is dropped.
    pub(super) async fn drive_step<T>(
        &mut self,
        step: impl Future<Output = T>,
        mut deltas: UnboundedReceiver<Delta>,
        stoppable: Stoppable,
    ) -> Result<Option<T>, EngineError> {
        let mut step = pin!(step);
        let mut streaming = true;
        let mut tidy_at = Some(Instant::now() + SILENCE);
        let world = Rc::clone(&self.log.world);
        loop {
            let (due, report) = (self.draft.due, self.files.report);
            let held_due = self.log.pending_answer_due();
            let look_due = self.signals_look.due;
            let (may_ask, ask_due) = (self.asking.is_free(), self.asking.due());
            tokio::select! {
                biased;
                Some(command) = self.commands.recv(), if stoppable == Stoppable::Yes => {
                    if self.accept_during_step(command).await? {
                        return Ok(None);
                    }
                }
                () = sleep_until(look_due), if stoppable == Stoppable::Yes => {
                    if self.poll_signals().await? == PollResult::DropsStep {
                        return Ok(None);
                    }
                }
                asked = world.server_asks(), if may_ask && stoppable == Stoppable::Yes => {
                    if self.asking.ask(&mut self.log, asked).await? {
                        return Ok(None);
                    }
                    if self.asking.is_waiting() {
                        self.signals_look.begin_to_wait();
                    }
                }
                () = sleep_until(ask_due.unwrap_or_else(Instant::now)), if ask_due.is_some() => {
                    if self.asking.ask_again(&mut self.log).await? {
                        return Ok(None);
                    }
                    if self.asking.is_waiting() {
                        self.signals_look.begin_to_wait();
                    }
                }
                delta = deltas.recv(), if streaming => match delta {
                    Some(delta) => {
                        tidy_at = None;
                        if broken_tries::stream(self, delta).await? {
                            return Ok(None);
                        }
                    }
                    None => streaming = false,
                },
                _ = self.timer.tick() => self.tick().await?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.draft.keep(&mut self.log)?;
                }
                () = sleep_until(held_due.unwrap_or_else(Instant::now)), if held_due.is_some() => {
                    self.log.record_pending_answer().await?;
                }
                () = sleep_until(report.unwrap_or_else(Instant::now)), if report.is_some() => {
                    self.files.report_seen(&mut self.log);
                }
                () = self.summaries.drive(), if self.summaries.is_running() => {}
                found = self.files.behind.end(), if self.files.behind.is_running() => {
                    self.log.record_files(found).await?;
                }
                done = &mut step => {
                    while let Ok(delta) = deltas.try_recv() {
                        broken_tries::stream(self, delta).await?;
                    }
                    return Ok(Some(done));
                }
                () = sleep_until(tidy_at.unwrap_or_else(Instant::now)), if tidy_at.is_some() => {
                    tidy_at = self.log.tidy().then(|| Instant::now() + PAUSE);
                }
            }
        }
    }

    /// [`Engine::drive_step`] for a step that streams nothing.
    pub(super) async fn drive_step_silently<T>(
        &mut self,
        step: impl Future<Output = T>,
        stoppable: Stoppable,
    ) -> Result<Option<T>, EngineError> {
        // Unbounded: nothing is sent.
        let (_, none) = unbounded_channel();
        self.drive_step(step, none, stoppable).await
    }

    /// Asks a person about a call and waits for the verdict. A call that must fail gets its error
    /// without a question.
    pub(super) async fn ask(&mut self, call: CallId) -> Result<(), EngineError> {
        let at = match self.examine_before_asking(call).await? {
            Examination::Ended => return Ok(()),
            Examination::LeadsTo(at) => at,
        };
        if self.log.request_permission(call).await? {
            return Ok(());
        }
        let questions = questions(&self.log.state, &self.log.policy);
        let Some(question) = questions.iter().find(|question| question.call == call) else {
            return Ok(());
        };
        self.record_questions(&questions, call, at).await?;
        let asked = Event::Asked {
            call,
            why: question.why.clone(),
            rule: question.rule.as_ref().map(|rule| rule.to_string()),
            access: question.access,
            place: place_of_question(&self.log.state, &questions, call),
        };
        self.log.emit(asked);
        self.log
            .fire_hooks(HookEvent::Notification, "permission_prompt");
        self.signals_look.begin_to_wait();
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(command) => {
                        if self.accept(command).await? {
                            return Ok(());
                        }
                        // The call was decided, or another mode or other rules settle it.
                        if self.log.state.paused || self.log.question(call).is_none() {
                            return Ok(());
                        }
                    }
                    None => {
                        self.requests.left = Some(SaveReason::Exit);
                        return Ok(());
                    }
                },
                () = sleep_until(self.signals_look.due) => match self.poll_signals().await? {
                    PollResult::Nothing => {}
                    PollResult::DropsStep => return Ok(()),
                    PollResult::Something if self.log.state.paused || self.log.question(call).is_none() => {
                        return Ok(());
                    }
                    PollResult::Something => {}
                },
                _ = self.timer.tick() => self.tick().await?,
                found = self.files.behind.end(), if self.files.behind.is_running() => {
                    self.log.record_files(found).await?;
                }
            }
        }
    }

    /// Records the question about this call, and those about the other calls of the answer. Other
    /// processes read them, and a verdict may arrive after a restart.
    async fn record_questions(
        &mut self,
        questions: &[Question],
        first: CallId,
        leads_to: Option<PathBuf>,
    ) -> Result<(), EngineError> {
        let asked = questions.iter().filter_map(|question| {
            let at = if question.call == first {
                leads_to.clone()
            } else {
                // A call whose path cannot be resolved gets its error when it is its turn.
                let open = self.log.state.call(question.call)?;
                self.log.world.leads_to(&open.call).ok()?
            };
            self.log.new_question(question, at)
        });
        let asked: Vec<Entry> = asked.collect();
        match asked.is_empty() {
            true => Ok(()),
            false => self.log.record(Write::of_all(asked)).await,
        }
    }

    /// Examines a call before a person is asked about it. Returns the path that it leads to. A call
    /// that would fail whatever the verdict gets its error at once, and one that would change nothing
    /// its result.
    async fn examine_before_asking(&mut self, id: CallId) -> Result<Examination, EngineError> {
        let Some(open) = self.log.state.call(id) else {
            return Ok(Examination::LeadsTo(None));
        };
        let call = open.call.clone();
        let at = match self.log.world.leads_to(&call) {
            Ok(Some(at)) => at,
            Ok(None) => return Ok(Examination::LeadsTo(None)),
            Err(why) => {
                self.log.finish(&call, ToolResult::error(why)).await?;
                return Ok(Examination::Ended);
            }
        };
        let policy = &self.log.policy;
        // Only calls of this class can be prepared without any effect.
        if call.class() == Some(Class::Checked)
            && may_fail_unasked(&self.log.state, policy, open, &at.to_string_lossy())
        {
            let (world, state) = (&self.log.world, &self.log.state);
            match world.prepare(&call, None, Some(&at), state).await {
                Err(PrepareError::Refused(outcome)) => {
                    self.log.finish(&call, ToolResult::of(outcome)).await?;
                    return Ok(Examination::Ended);
                }
                Ok(guard) if guard.changes_nothing() => {
                    let started = Entry::Started {
                        call: call.id,
                        guard: guard.clone(),
                        access: None,
                    };
                    self.log.record(Write::of(started)).await?;
                    self.act(&call, &guard, None).await?;
                    return Ok(Examination::Ended);
                }
                _ => {}
            }
        }
        Ok(Examination::LeadsTo(Some(at)))
    }

    /// Records the timer's checkpoint if anything changed since the last checkpoint.
    pub(super) async fn tick(&mut self) -> Result<(), EngineError> {
        self.draft.keep(&mut self.log)?;
        self.requests.store_input_again(&mut self.log);
        self.files.scan_all_ahead(&mut self.log);
        let printed = self.log.world.printed_bytes();
        if self.log.changed || printed != self.printed_bytes {
            match self.save(SaveReason::Timer).await {
                Ok(()) => self.printed_bytes = printed,
                // The next checkpoint may find room. Nothing is lost by waiting for it.
                Err(EngineError::Store(error)) if error.is_passing() => {
                    self.log.emit_not_stored(&error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
