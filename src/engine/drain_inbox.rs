//! Pending input from outside of the log, and how it is recorded: the choices of this start, the
//! layers of this version, messages, and background commands that ended.

use super::commands::Requests;
use super::{Engine, EngineError, Recorder, Write, checks};
use crate::core::background;
use crate::core::entry::{About, Entry, Guard, Via};
use crate::core::next::{Pending, may_ask_again, repetition};
use crate::core::state::Background;
use crate::store::{Message, Queued, StoreError};
use crate::world::World;

const ANSWER_CUT: &str = "The output limit cut your answer. Continue it exactly where it ends, and repeat nothing of it.";

impl<W: World> Engine<W> {
    /// Returns the pending input. It is read again before each step, so a crash cannot lose any of
    /// it.
    pub(super) fn pending(&self) -> Result<Pending, EngineError> {
        Ok(Pending {
            choice: self.requests.chosen.is_some(),
            waits_for_person: self.requests.waits_for_person,
            settles: self.requests.settles && !is_first_a_killed_subagent(&self.log),
            left_open: self.asking.is_left_open,
            rendering: self.renewed.is_some(),
            compaction: self.requests.compaction,
            ended: self.log.ended_in_background(),
            user_ended: self.user_commands.ended(&self.log).map(|(entry, _)| entry),
            message: self.log.next_queued()?.is_some(),
            summary: self.summaries.progress(&self.log.state.model),
            changed: checks::changed(&self.log)?,
            recalled: self.recall.done,
        })
    }

    /// Records the layers that this version renders, before its first step in a session of another
    /// version.
    pub(super) async fn render(&mut self) -> Result<(), EngineError> {
        if let Some((version, layers)) = self.renewed.clone() {
            self.log
                .record(Write::of(Entry::Rendered { version, layers }))
                .await?;
            self.renewed = None;
        }
        Ok(())
    }

    /// Compacts as a person asked. The request stays until this is done or stopped.
    pub(super) async fn compact_as_asked(&mut self) -> Result<(), EngineError> {
        self.compact().await?;
        self.requests.without_compaction(&mut self.log)
    }
}

impl<W: World> Recorder<W> {
    pub(super) fn ended_in_background(&self) -> Option<String> {
        let mut running = self.state.background.iter();
        let (id, _) = running.find(|(id, b)| self.world.background_end(id, b).is_some())?;
        Some(id.clone())
    }

    /// Records a note to the model about a background command that ended, even one that ended while
    /// no process was running.
    pub(super) async fn report_end(&mut self, id: &str) -> Result<(), EngineError> {
        let Some(background) = self.state.background.get(id) else {
            return Ok(());
        };
        let Some(end) = self.world.background_end(id, background) else {
            return Ok(());
        };
        // A message that waits asks the model anyway.
        let asks_model = self.wakes(background)
            && self.next_queued()?.is_none()
            && may_ask_again(&self.state, &self.policy);
        let (run, boot) = (background.run.clone(), String::new());
        let guard = match background.child.clone() {
            None => Guard::Supervised {
                run,
                boot,
                background: true,
            },
            Some(child) => Guard::Child {
                session: child.session,
                run,
                boot,
                background: true,
                done: 0,
                in_vain: 0,
                before: child.before,
                worked_ms: child.worked_ms,
            },
        };
        let about = About::BackgroundEnded {
            id: id.to_string(),
            exit_code: end.exit_code,
            spent: end.spent,
            asks_model,
        };
        let noted = Entry::Noted {
            text: end.text,
            about: Some(about),
        };
        self.record(Write {
            blobs: end.blobs,
            ..Write::of(noted)
        })
        .await?;
        self.world.discard(&guard).await;
        Ok(())
    }

    fn wakes(&self, ended: &Background) -> bool {
        let leaves_when_idle = self.world.leaves_when_idle();
        background::wakes(&self.state, self.policy.background, ended, leaves_when_idle)
    }

    /// Reminds the model of background commands that it would leave running.
    pub(super) async fn remind(&mut self, ids: Vec<String>) -> Result<(), EngineError> {
        let noted = Entry::Noted {
            text: background::reminder_text(&self.state, &ids),
            about: Some(About::StillRunning { ids }),
        };
        self.record(Write::of(noted)).await
    }

    /// Tells the model to continue its answer, which the output limit cut.
    pub(super) async fn continue_answer(&mut self) -> Result<(), EngineError> {
        let noted = Entry::Noted {
            text: ANSWER_CUT.to_string(),
            about: Some(About::AnswerCut),
        };
        self.record(Write::of(noted)).await
    }

    /// Tells the model that it repeats itself.
    pub(super) async fn note_repetition(&mut self) -> Result<(), EngineError> {
        let Some(repetition) = repetition(&self.state, &self.policy) else {
            return Ok(());
        };
        let (calls, rounds) = repetition.size();
        let noted = Entry::Noted {
            text: repetition.note(),
            about: Some(About::Repeats { calls, rounds }),
        };
        self.record(Write::of(noted)).await
    }

    pub(super) fn next_queued(&self) -> Result<Option<Queued>, StoreError> {
        let session = self.head.session();
        match self.inbox_is_held {
            false => self.store.inbox().oldest_queued(session),
            true => Ok(self
                .store
                .inbox()
                .queued(session)?
                .into_iter()
                .find(Queued::is_note)),
        }
    }
}

impl Requests {
    pub(super) async fn record_choice<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<(), EngineError> {
        if let Some(choice) = self.chosen.clone() {
            if !choice.is_empty() {
                log.record(Write::of(Entry::Chose(choice))).await?;
            }
            self.chosen = None;
        }
        Ok(())
    }

    /// Records the oldest message as `Said`, or a note as `Noted`, in the transaction that deletes
    /// its row.
    pub(super) async fn take_message<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<(), EngineError> {
        let Some(queued) = log.next_queued()? else {
            return Ok(());
        };
        let Message {
            text,
            images,
            via,
            command,
            origin,
        } = queued.message;
        let entry = match via {
            Via::Note => Entry::Noted { text, about: None },
            Via::Prompt | Via::Queue | Via::Signal => Entry::Said {
                text,
                images,
                via,
                command,
                origin,
            },
        };
        log.record(Write {
            taken: Some(queued.id),
            ..Write::of(entry)
        })
        .await
    }
}

/// Returns whether the first open call is a subagent without a process. A new one would ask a
/// model.
fn is_first_a_killed_subagent<W: World>(log: &Recorder<W>) -> bool {
    let guard = log.state.first_open();
    let guard = guard.and_then(|open| open.guard.as_ref());
    let child = guard.filter(|guard| matches!(guard, Guard::Child { .. }));
    child.is_some_and(|guard| !log.world.is_at_work(guard))
}
