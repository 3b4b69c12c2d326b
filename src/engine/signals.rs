//! Signals and messages of other processes: looked for between two steps, beside a step, and while
//! a person is waited for.
//!
//! Another connection that committed changes a number that costs two microseconds to read, so there
//! is no socket, no file that is watched, and nothing to be set up before.
//!
//! Invariant: the row of a signal is deleted in the transaction of the entry that it becomes, or
//! alone when nothing can come of it. Who dies before that finds it again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{Command, Engine, EngineError, Event};
use crate::core::entry::{Choice, RunLimits, SaveReason};
use crate::core::signal::{Signal, late};
use crate::store::{InboxId, Queued, Sent};
use crate::world::World;

/// How often it is looked whether another process committed anything.
const LOOK: Duration = Duration::from_millis(200);

/// The same where nothing happened for [`AT_REST`].
const LOOK_AT_REST: Duration = Duration::from_secs(1);

const AT_REST: Duration = Duration::from_secs(600);

/// What is known of what other processes wrote.
pub(super) struct SignalsLook {
    /// When it is looked next.
    pub due: Instant,
    /// What the store said at the last look. `None`: look in any case.
    version: Option<i64>,
    /// When something was last done or heard.
    active: Instant,
    /// The newest message of the inbox that is known.
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
}

/// What a look found, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heard {
    Nothing,
    /// Something else may be next.
    Something,
    /// The step in progress is to be dropped.
    DropsStep,
}

/// Returns whether a later signal answers the same question.
fn is_replaced(sent: &Sent, later: &VecDeque<Sent>) -> bool {
    let Ok(earlier @ (Signal::Decide { .. } | Signal::Answer { .. })) = &sent.signal else {
        return false;
    };
    let mut later = later.iter().filter_map(|sent| sent.signal.as_ref().ok());
    later.any(|newer| newer.replaces(earlier))
}

impl<W: World> Engine<W> {
    /// The engine does something: it is looked often.
    pub(super) fn is_active(&mut self) {
        self.signals_look.active = Instant::now();
    }

    /// A person is waited for from here on: what they sent before is heard at once.
    pub(super) fn begin_to_wait(&mut self) {
        self.signals_look.due = Instant::now();
    }

    /// The look that is due, beside a step or while a person is waited for. That there is no room
    /// for what was heard ends no step: it is heard again at the next look.
    pub(super) async fn look_for_signals(&mut self) -> Result<Heard, EngineError> {
        let now = Instant::now();
        let pause = match now.duration_since(self.signals_look.active) > AT_REST {
            true => LOOK_AT_REST,
            false => LOOK,
        };
        self.signals_look.due = now + pause;
        self.keep_children_at_work();
        let version = self.log.store.data_version()?;
        if self.signals_look.version == Some(version) {
            return Ok(Heard::Nothing);
        }
        match self.hear().await {
            Ok(heard) => {
                self.signals_look.version = Some(version);
                Ok(heard)
            }
            Err(EngineError::Store(error)) if error.is_passing() => {
                self.log.emit_not_kept(&error);
                Ok(Heard::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Obeys the signals that wait, oldest first, and looks for new messages. Of several answers to
    /// one question only the newest counts.
    pub(super) async fn hear(&mut self) -> Result<Heard, EngineError> {
        let mut heard = Heard::Nothing;
        let mut waiting = VecDeque::from(self.log.store.signals(self.log.head.session())?);
        while let Some(sent) = waiting.pop_front() {
            if is_replaced(&sent, &waiting) {
                tracing::info!(id = sent.id.number(), "a newer answer replaces this one");
                self.log.store.remove_signal(sent.id)?;
            } else if self.log.signal.compaction != Some(sent.id) {
                heard = heard.max(self.obey(sent).await?);
            }
        }
        self.hear_children();
        // Behind the signals: what was said behind a stop is not held by it.
        heard = heard.max(self.hear_messages()?);
        if heard > Heard::Nothing {
            self.is_active();
        }
        Ok(heard)
    }

    async fn obey(&mut self, sent: Sent) -> Result<Heard, EngineError> {
        let Sent {
            id,
            at_ms,
            origin,
            signal,
        } = sent;
        let late = match &signal {
            Ok(signal) => late(&self.log.state, signal).or_else(|| self.not_asked(signal)),
            Err(why) => Some(format!("it cannot be read: {why}")),
        };
        let (signal, wished) = match (signal, late, self.log.signal.compaction) {
            (Ok(Signal::Compact), None, None) => (Signal::Compact, true),
            (Ok(signal), None, _) if signal != Signal::Compact => (signal, false),
            (_, why, _) => {
                tracing::info!(?why, "nothing comes of a signal");
                self.log.store.remove_signal(id)?;
                return Ok(Heard::Nothing);
            }
        };
        if wished {
            self.compaction_wished = true;
            // It becomes an entry when the summary is there.
            self.log.signal.compaction = Some(id);
            return Ok(Heard::Something);
        }
        let stops = matches!(signal, Signal::Stop { .. });
        self.log.signal.obeying = Some((id, origin));
        let applied = self.apply(self.command_of(signal)).await;
        let is_left = self.log.signal.obeying.take().is_some();
        let drops_step = applied?;
        if is_left {
            self.log.store.remove_signal(id)?;
        }
        if stops {
            self.signals_look.stopped_ms = at_ms;
        }
        Ok(match drops_step {
            true => Heard::DropsStep,
            false => Heard::Something,
        })
    }

    /// Why the model that a signal names is not taken: who sent it may have a key that this process
    /// lacks, and no request could be made any more.
    fn not_asked(&mut self, signal: &Signal) -> Option<String> {
        let Signal::Choose {
            model: Some(model), ..
        } = signal
        else {
            return None;
        };
        let why = self.log.world.can_ask(model).err()?;
        let line = format!("the model {model} was sent, and is not used: {why}");
        self.log.emit(Event::Notice(line.clone()));
        Some(line)
    }

    fn command_of(&self, signal: Signal) -> Command {
        match signal {
            Signal::Stop { .. } => Command::Stop,
            Signal::Pause { .. } => Command::Pause,
            Signal::GoOn => Command::GoOn,
            Signal::Decide { call, verdict, .. } => Command::Decide {
                call,
                verdict,
                rule: None,
            },
            Signal::Answer {
                call,
                asked: _,
                answer,
            } => Command::Answer {
                call,
                // It was looked at that this is the question.
                key: self
                    .log
                    .state
                    .call(call)
                    .and_then(|open| open.server_question.as_ref())
                    .map(|asked| asked.question.key.clone())
                    .unwrap_or_default(),
                answer,
            },
            Signal::Choose {
                model,
                mode,
                effort,
                temperature,
            } => Command::Choose(Choice {
                model,
                mode,
                effort,
                temperature,
                ..Choice::default()
            }),
            Signal::Name { title } => Command::Name(title),
            Signal::Compact => Command::Compact,
            Signal::Leave { .. } => Command::Leave(SaveReason::Signal),
            Signal::Limit { turns, usd, tokens } => Command::Limit(self.limits(turns, usd, tokens)),
        }
    }

    /// The limits from here on: what is not named stays, and with neither there is none.
    fn limits(&self, turns: Option<u64>, usd: Option<f64>, tokens: Option<u64>) -> RunLimits {
        let before = match (turns, usd, tokens) {
            (None, None, None) => RunLimits::default(),
            _ => self.log.state.run_limits,
        };
        RunLimits {
            answers: turns
                .map(|n| self.log.state.replies.saturating_add(n))
                .or(before.answers),
            usd: usd.or(before.usd),
            tokens: tokens
                .map(|n| self.log.state.usage.all().saturating_add(n))
                .or(before.tokens),
        }
    }

    /// There was nothing to compact, or it was stopped.
    pub(super) fn without_compaction(&mut self) -> Result<(), EngineError> {
        self.compaction_wished = false;
        if let Some(id) = self.log.signal.compaction.take() {
            self.log.store.remove_signal(id)?;
        }
        Ok(())
    }

    /// Messages that another process put into the inbox. What is said behind a stop is wanted now.
    fn hear_messages(&mut self) -> Result<Heard, EngineError> {
        let session = self.log.head.session();
        let newest = self.log.store.newest_queued(session)?;
        if newest <= self.signals_look.newest {
            return Ok(Heard::Nothing);
        }
        let known = std::mem::replace(&mut self.signals_look.newest, newest);
        let mut queued = self.log.store.queued(session)?;
        queued.retain(|q| !q.is_note());
        let is_new = |q: &&Queued| Some(q.id) > known && q.message.origin.is_some();
        let Some(last) = queued.iter().rfind(is_new) else {
            return Ok(Heard::Nothing);
        };
        if last.at_ms >= self.signals_look.stopped_ms {
            self.inbox_is_held = false;
        }
        self.log.emit(Event::Requeued(queued));
        Ok(Heard::Something)
    }

    /// What is in the inbox now was not said behind the stop.
    pub(super) fn was_stopped(&mut self) {
        self.inbox_is_held = true;
        self.signals_look.stopped_ms = self.log.world.now_ms();
    }
}
