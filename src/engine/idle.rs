//! A session in which nothing is to be done without a person: what is waited for, and what a
//! person may ask for besides saying something.

use std::time::Duration;

use super::{Command, Engine, EngineError, Event, Write};
use crate::core::entry::{By, Entry, Mode, SaveReason, Via};
use crate::core::next::{Step, Why, next, rest};
use crate::store::{InboxId, Message, Queued, StoreError};
use crate::world::World;

/// How often background commands are looked at.
const LOOK: Duration = Duration::from_secs(1);

impl<W: World> Engine<W> {
    /// Waits until there may be something to do: a command came, a summary is ready, or a
    /// background command ended. Without anybody left who could say something, it leaves.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn idle(&mut self) -> Result<(), EngineError> {
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut may_be_tidied = true;
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    match command {
                        Some(command) => drop(self.accept(command).await?),
                        None => self.left = Some(SaveReason::Exit),
                    }
                    return Ok(());
                }
                _ = self.timer.tick() => self.tick().await?,
                () = self.summaries.drive(), if self.summaries.is_running() => return Ok(()),
                _ = look.tick() => {
                    let step = next(&self.state, &self.settings.policy, &self.pending()?);
                    if matches!(step, Step::ReportEnd(_)) {
                        return Ok(());
                    }
                    may_be_tidied = may_be_tidied && self.tidy();
                }
            }
        }
    }

    /// Nobody is left who could say something, or somebody asked to leave.
    pub fn is_abandoned(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.pending_commands.push_back(command);
        }
        let leaves = |command: &Command| matches!(command, Command::Leave(_));
        self.left.is_some() || self.commands.is_closed() || self.pending_commands.iter().any(leaves)
    }

    /// What waits behind a stop is said. A failure and a crash loop are lifted, which is recorded.
    pub(super) async fn go_on(&mut self) -> Result<(), EngineError> {
        self.waits_for_person = false;
        let lifted = rest(&self.state, &self.settings.policy)
            .is_some_and(|why| why != Why::Idle && !self.state.is_stopped());
        if lifted {
            let found = "asked to go on".to_string();
            let resumed = Entry::Resumed {
                by: By::Person,
                found,
                draft: None,
            };
            self.record(Write::of(resumed)).await?;
        }
        self.inbox_is_held = false;
        Ok(())
    }

    /// Only what is another is recorded.
    pub(super) async fn choose(
        &mut self,
        model: Option<String>,
        mode: Option<Mode>,
    ) -> Result<(), EngineError> {
        // It wins over what this start was told, which may not be in the log yet.
        if let Some(chosen) = &mut self.settings.chosen {
            chosen.model.take_if(|_| model.is_some());
            chosen.mode.take_if(|_| mode.is_some());
        }
        let model = model.filter(|m| *m != self.state.model);
        let mode = mode.filter(|m| *m != self.state.mode);
        if model.is_none() && mode.is_none() {
            return Ok(());
        }
        self.record(Write::of(Entry::Chose { model, mode })).await
    }

    pub(super) async fn edit_queued(
        &mut self,
        id: InboxId,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        let done = match &message {
            Some(message) => self.store.edit_queued(id, message),
            None => self.store.remove_queued(id),
        };
        match (done, message) {
            (Ok(()), Some(_)) => {}
            // Whether anything is owed is another question now.
            (Ok(()) | Err(StoreError::NotFound { .. }), None) => {
                self.record(Write::default()).await?;
            }
            (Err(StoreError::NotFound { .. }), Some(message)) => {
                return self.send(message, &[]);
            }
            (Err(error), _) => return Err(error.into()),
        }
        let mut queued = self.store.queued(self.head.session())?;
        queued.retain(|q| !q.is_note());
        (self.on_event)(&self.state, Event::Requeued(&queued));
        Ok(())
    }

    /// Words that were said elsewhere than in the input box. They are durable when it returns.
    pub fn say(&mut self, message: &Message) -> Result<(), EngineError> {
        let at_ms = self.world.now_ms();
        self.store.queue(self.head.session(), message, &[], at_ms)?;
        Ok(())
    }

    /// What stood in the input box: it is never in both places.
    pub(super) fn send(&mut self, message: Message, blobs: &[Vec<u8>]) -> Result<(), EngineError> {
        let at_ms = self.world.now_ms();
        let session = self.head.session();
        let id = self.store.send(session, &message, blobs, at_ms)?;
        self.unkept_input = None;
        self.inbox_is_held = false;
        self.waits_for_person = false;
        let queued = Queued { id, at_ms, message };
        (self.on_event)(&self.state, Event::Queued(&queued));
        Ok(())
    }

    /// It waits in the inbox, so it is not lost while a step is in progress.
    pub(super) fn note(&mut self, text: String) -> Result<(), EngineError> {
        self.say(&Message {
            text,
            images: Vec::new(),
            via: Via::Note,
        })
    }

    /// That it is not kept is told, and is no reason to stop working: it is tried again.
    pub(super) fn keep_input(&mut self, text: String) {
        let session = self.head.session();
        let kept = match text.is_empty() {
            true => self.store.clear_draft(session, crate::store::Draft::Input),
            false => self.store.set_input(session, &text),
        };
        self.unkept_input = None;
        if let Err(error) = &kept {
            tracing::warn!(%error, "the unsent words were not kept");
            self.unkept_input = Some(text);
        }
        (self.on_event)(&self.state, Event::Kept(kept.as_ref().copied()));
    }

    pub(super) fn keep_input_again(&mut self) {
        if let Some(text) = self.unkept_input.take() {
            self.keep_input(text);
        }
    }
}
