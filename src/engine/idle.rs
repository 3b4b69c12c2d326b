//! A session in which nothing is to be done without a person: what is waited for, and what a
//! person may ask for besides saying something.

use std::time::Duration;

use super::{Command, Engine, EngineError, Event, Write};
use crate::core::entry::{By, Entry, Mode, SaveReason, Via};
use crate::core::next::{Step, Why, next};
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
                        Some(command) => drop(self.hear(command).await?),
                        None => self.left = Some(SaveReason::Exit),
                    }
                    return Ok(());
                }
                _ = self.timer.tick() => self.tick().await?,
                () = self.summaries.drive(), if self.summaries.is_running() => return Ok(()),
                _ = look.tick() => {
                    if self.background_ended() {
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
            self.unheard.push_back(command);
        }
        let leaves = |command: &Command| matches!(command, Command::Leave(_));
        self.left.is_some() || self.commands.is_closed() || self.unheard.iter().any(leaves)
    }

    /// It can be told of one.
    fn background_ended(&self) -> bool {
        if self.state.first_open().is_some() {
            return false;
        }
        let mut background = self.state.background.iter();
        background.any(|(id, b)| self.world.background_end(id, b).is_some())
    }

    /// What was asked for besides, as far as it can be done now. It is asked for until it is
    /// done, or stopped.
    pub(super) async fn grant(&mut self) -> Result<(), EngineError> {
        if self.compaction_wished && self.state.first_open().is_none() {
            self.compact().await?;
            self.compaction_wished = false;
        }
        Ok(())
    }

    /// What waits behind a stop is said; a failure and a hold are lifted, which is recorded.
    pub(super) async fn go_on(&mut self) -> Result<(), EngineError> {
        self.waits_for_person = false;
        let rests = match next(&self.state, &self.settings.policy) {
            Step::Wait(why) => why != Why::Idle && !self.state.is_stopped(),
            _ => false,
        };
        if rests {
            let found = "asked to go on".to_string();
            let woke = Entry::Woke {
                by: By::Person,
                found,
                draft: None,
            };
            self.record(Write::of(woke)).await?;
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
                return self.say(message, &[]);
            }
            (Err(error), _) => return Err(error.into()),
        }
        let mut queued = self.store.queued(self.head.session())?;
        queued.retain(|q| !q.is_note());
        (self.on_event)(&self.state, Event::Requeued(&queued));
        Ok(())
    }

    pub(super) fn say(&mut self, message: Message, blobs: &[Vec<u8>]) -> Result<(), EngineError> {
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
        let note = Message {
            text,
            images: Vec::new(),
            via: Via::Note,
        };
        let at_ms = self.world.now_ms();
        self.store.queue(self.head.session(), &note, &[], at_ms)?;
        Ok(())
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
