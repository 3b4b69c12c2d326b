//! Signals and messages of other processes. The engine looks for them between two steps, during a
//! step, and while it waits for a person.
//!
//! When another connection commits, a version number of the database changes. Reading it takes two
//! microseconds, so no socket, watched file or setup is needed.
//!
//! Invariant: the row of a signal is deleted in the transaction of the entry that it becomes, or
//! alone when nothing can come of it. A process that dies before that finds it again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, EngineError, Event, Recorder};
use crate::core::entry::Choice;
use crate::core::signal::{Signal, late};
use crate::store::{InboxId, Queued, QueuedSignal};
use crate::world::World;

/// Time between two checks whether another process committed anything.
const LOOK: Duration = Duration::from_millis(200);

/// The same after a rest of [`AT_REST`].
const LOOK_AT_REST: Duration = Duration::from_secs(1);

const AT_REST: Duration = Duration::from_secs(600);

/// The state of the checks for writes of other processes.
pub(super) struct SignalsLook {
    /// Time of the next check.
    pub due: Instant,
    /// Version of the database at the last check. `None`: check in any case.
    version: Option<i64>,
    /// Time of the last activity.
    active: Instant,
    /// The newest message of the inbox at the last check.
    newest: Option<InboxId>,
    /// When the session was last stopped.
    stopped_ms: i64,
}

impl SignalsLook {
    pub(super) fn new() -> SignalsLook {
        let now = Instant::now();
        SignalsLook {
            due: now,
            version: None,
            active: now,
            newest: None,
            stopped_ms: 0,
        }
    }

    /// Returns why the model in a signal cannot be used. Its sender may have a key that this
    /// process lacks, and with that model no request could be made any more.
    pub(super) fn not_asked<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        signal: &Signal,
    ) -> Option<String> {
        let Signal::Choose(Choice {
            model: Some(model), ..
        }) = signal
        else {
            return None;
        };
        let why = log.world.can_ask(model).err()?;
        let line = format!("the model {model} was sent, and is not used: {why}");
        log.emit(Event::Notice(line.clone()));
        Some(line)
    }

    /// Checks for messages that another process put into the inbox. A message that was sent after a
    /// stop is to be taken now.
    pub(super) fn take_queued_messages<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<PollResult, EngineError> {
        let session = log.head.session();
        let newest = log.store.inbox().newest_queued(session)?;
        if newest <= self.newest {
            return Ok(PollResult::Nothing);
        }
        let known = std::mem::replace(&mut self.newest, newest);
        let mut queued = log.store.inbox().queued(session)?;
        queued.retain(|q| !q.is_note());
        let is_new = |q: &&Queued| Some(q.id) > known && q.message.origin.is_some();
        let Some(last) = queued.iter().rfind(is_new) else {
            return Ok(PollResult::Nothing);
        };
        if last.at_ms >= self.stopped_ms {
            log.inbox_is_held = false;
        }
        log.emit(Event::Requeued(queued));
        Ok(PollResult::Something)
    }

    /// Holds back the messages in the inbox: they were sent before the stop.
    pub(super) fn was_stopped<W: World>(&mut self, log: &mut Recorder<W>) {
        log.inbox_is_held = true;
        self.stopped_ms = log.world.now_ms();
    }

    /// Notes an activity of the engine, so that checks stay frequent.
    pub(super) fn is_active(&mut self) {
        self.active = Instant::now();
    }

    /// Makes a check due now, since the engine starts to wait for a person.
    pub(super) fn begin_to_wait(&mut self) {
        self.due = Instant::now();
    }
}

/// The result of a check, in ascending order of its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PollResult {
    Nothing,
    /// The next step may have changed.
    Something,
    /// The step in progress is to be dropped.
    DropsStep,
}

/// Returns whether a later signal answers the same question.
fn is_replaced(sent: &QueuedSignal, later: &VecDeque<QueuedSignal>) -> bool {
    let Ok(earlier @ (Signal::Decide { .. } | Signal::Answer { .. })) = &sent.signal else {
        return false;
    };
    let mut later = later.iter().filter_map(|sent| sent.signal.as_ref().ok());
    later.any(|newer| newer.replaces(earlier))
}

impl<W: World> Engine<W> {
    /// Checks for signals and messages. If the store has no room to record one, the step continues
    /// and the next check finds it again.
    pub(super) async fn poll_signals(&mut self) -> Result<PollResult, EngineError> {
        let now = Instant::now();
        let pause = match now.duration_since(self.signals_look.active) > AT_REST {
            true => LOOK_AT_REST,
            false => LOOK,
        };
        self.signals_look.due = now + pause;
        self.children.restart_if_killed(&self.log);
        let version = self.log.store.inbox().data_version()?;
        if self.signals_look.version == Some(version) {
            return Ok(PollResult::Nothing);
        }
        match self.hear().await {
            Ok(heard) => {
                self.signals_look.version = Some(version);
                Ok(heard)
            }
            Err(EngineError::Store(error)) if error.is_passing() => {
                self.log.emit_not_stored(&error);
                Ok(PollResult::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Obeys the pending signals, oldest first, and looks for new messages. Of several answers to
    /// one question only the newest counts.
    pub(super) async fn hear(&mut self) -> Result<PollResult, EngineError> {
        let mut heard = PollResult::Nothing;
        let mut waiting = VecDeque::from(self.log.store.inbox().signals(self.log.head.session())?);
        while let Some(sent) = waiting.pop_front() {
            if is_replaced(&sent, &waiting) {
                tracing::info!(id = sent.id.number(), "a newer answer replaces this one");
                self.log.store.inbox_mut().remove_signal(sent.id)?;
            } else if self.log.signal.compaction != Some(sent.id) {
                heard = heard.max(self.obey(sent).await?);
            }
        }
        self.children.check_question(&mut self.log);
        // After the signals: a stop among them must not hold back messages that were sent after it.
        heard = heard.max(self.signals_look.take_queued_messages(&mut self.log)?);
        if heard > PollResult::Nothing {
            self.signals_look.is_active();
        }
        Ok(heard)
    }

    async fn obey(&mut self, sent: QueuedSignal) -> Result<PollResult, EngineError> {
        let QueuedSignal {
            id,
            at_ms,
            origin,
            signal,
        } = sent;
        let late = match &signal {
            Ok(signal) => late(&self.log.state, signal)
                .or_else(|| self.signals_look.not_asked(&mut self.log, signal)),
            Err(why) => Some(format!("it cannot be read: {why}")),
        };
        let (signal, wished) = match (signal, late, self.log.signal.compaction) {
            (Ok(Signal::Compact), None, None) => (Signal::Compact, true),
            (Ok(signal), None, _) if signal != Signal::Compact => (signal, false),
            (_, why, _) => {
                tracing::info!(?why, "nothing comes of a signal");
                self.log.store.inbox_mut().remove_signal(id)?;
                return Ok(PollResult::Nothing);
            }
        };
        if wished {
            self.requests.compaction = true;
            // The signal becomes an entry when the summary is made.
            self.log.signal.compaction = Some(id);
            return Ok(PollResult::Something);
        }
        let stops = matches!(signal, Signal::Stop { .. });
        self.log.signal.obeying = Some((id, origin));
        let applied = self.apply_signal(signal).await;
        let is_left = self.log.signal.obeying.take().is_some();
        let drops_step = applied?;
        if is_left {
            self.log.store.inbox_mut().remove_signal(id)?;
        }
        if stops {
            self.signals_look.stopped_ms = at_ms;
        }
        Ok(match drops_step {
            true => PollResult::DropsStep,
            false => PollResult::Something,
        })
    }
}
