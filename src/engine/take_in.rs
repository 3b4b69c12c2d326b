//! What waits outside of the log, and how each piece of it goes in: what this start was told
//! to use, what this version renders, messages, and background commands that ended.

use super::{Engine, EngineError, Write};
use crate::core::entry::{About, Entry, Guard, Via};
use crate::core::next::{Pending, may_ask_again};
use crate::store::{Message, Queued, StoreError};
use crate::world::World;

impl<W: World> Engine<W> {
    /// Looked up anew before each step: nothing of it is remembered that a crash could lose.
    pub(super) fn pending(&self) -> Result<Pending, EngineError> {
        Ok(Pending {
            choice: self.chosen.is_some(),
            waits_for_person: self.waits_for_person,
            left_open: self.asking.is_left_open,
            rendering: self.renewed.is_some(),
            compaction: self.compaction_wished,
            ended: self.ended_in_background(),
            user_ended: self.ended_user_command().map(|(entry, _)| entry),
            message: self.next_queued()?.is_some(),
            summary: self.summaries.progress(),
            recalled: self.summaries.recalled,
        })
    }

    pub(super) async fn record_choice(&mut self) -> Result<(), EngineError> {
        if let Some(choice) = self.chosen.clone() {
            if !choice.is_empty() {
                self.log.record(Write::of(Entry::Chose(choice))).await?;
            }
            self.chosen = None;
        }
        Ok(())
    }

    /// What another version renders goes into the log before the first step of its own.
    pub(super) async fn render(&mut self) -> Result<(), EngineError> {
        if let Some((version, layers)) = self.renewed.clone() {
            self.log
                .record(Write::of(Entry::Rendered { version, layers }))
                .await?;
            self.renewed = None;
        }
        Ok(())
    }

    /// It is asked for until it is done, or stopped.
    pub(super) async fn compact_as_asked(&mut self) -> Result<(), EngineError> {
        self.compact().await?;
        self.without_compaction()
    }

    /// The oldest message becomes `Said`, a note `Noted`, in the transaction that deletes its
    /// row.
    pub(super) async fn take_message(&mut self) -> Result<(), EngineError> {
        let Some(queued) = self.next_queued()? else {
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
        self.log
            .record(Write {
                taken: Some(queued.id),
                ..Write::of(entry)
            })
            .await
    }

    fn next_queued(&self) -> Result<Option<Queued>, StoreError> {
        let session = self.log.head.session();
        match self.inbox_is_held {
            false => self.log.store.oldest_queued(session),
            true => Ok(self
                .log
                .store
                .queued(session)?
                .into_iter()
                .find(Queued::is_note)),
        }
    }

    fn ended_in_background(&self) -> Option<String> {
        let mut background = self.log.state.background.iter();
        let (id, _) = background.find(|(id, b)| self.log.world.background_end(id, b).is_some())?;
        Some(id.clone())
    }

    /// The model is told of a background command that ended, also while nobody was there.
    pub(super) async fn report_end(&mut self, id: &str) -> Result<(), EngineError> {
        let Some(background) = self.log.state.background.get(id) else {
            return Ok(());
        };
        let Some(end) = self.log.world.background_end(id, background) else {
            return Ok(());
        };
        // Where nobody stays to say something, the model is asked again by itself.
        let asks_model = background.child.is_some()
            && !self.log.state.owed
            && self.log.world.leaves_when_idle()
            && may_ask_again(&self.log.state, &self.log.policy);
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
        self.log
            .record(Write {
                blobs: end.blobs,
                ..Write::of(noted)
            })
            .await?;
        self.log.discard(&guard).await;
        Ok(())
    }
}
