//! A session in which nothing is to be done without a person: what is waited for, and what a
//! person may ask for besides saying something.

use std::time::Duration;

use super::{Command, Engine, EngineError, Event, Write};
use crate::core::entry::{By, Entry, Mode, SaveReason};
use crate::store::{InboxId, Message, StoreError};
use crate::world::World;

/// How often background commands are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What is done between two steps, when no call is open.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) go_on: bool,
    pub(super) name: Option<String>,
    pub(super) compact: bool,
    pub(super) notes: Vec<String>,
}

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
        self.commands.is_closed() || self.unheard.iter().any(leaves)
    }

    fn background_ended(&self) -> bool {
        let mut background = self.state.background.iter();
        background.any(|(id, b)| self.world.background_end(id, b).is_some())
    }

    /// What was asked for besides, as far as it can be done now.
    pub(super) async fn grant(&mut self) -> Result<(), EngineError> {
        if std::mem::take(&mut self.wishes.go_on) {
            let found = "asked to go on".to_string();
            let by = By::Person;
            self.record(Write::of(Entry::Woke {
                by,
                found,
                draft: None,
            }))
            .await?;
        }
        if let Some(title) = self.wishes.name.take() {
            self.record(Write::of(Entry::Named { title })).await?;
        }
        if self.state.first_open().is_none() {
            for text in std::mem::take(&mut self.wishes.notes) {
                self.record(Write::of(Entry::Noted { text, about: None }))
                    .await?;
            }
        }
        if self.wishes.compact && self.state.first_open().is_none() {
            self.wishes.compact = false;
            self.compact().await?;
        }
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

    pub(super) fn edit_queued(
        &mut self,
        id: InboxId,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        let done = match &message {
            Some(message) => self.store.edit_queued(id, message),
            None => self.store.remove_queued(id),
        };
        match done {
            // It was said meanwhile.
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let queued = self.store.queued(self.head.session())?;
        (self.on_event)(&self.state, Event::Requeued(&queued));
        Ok(())
    }

    /// That it is not kept is told, and is no reason to stop working.
    pub(super) fn keep_input(&mut self, text: &str) {
        let session = self.head.session();
        let kept = match text.is_empty() {
            true => self.store.clear_draft(session, crate::store::Draft::Input),
            false => self.store.set_input(session, text),
        };
        if let Err(error) = &kept {
            tracing::warn!(%error, "the unsent words were not kept");
        }
        (self.on_event)(&self.state, Event::Kept(kept.as_ref().map(|()| ())));
    }
}
