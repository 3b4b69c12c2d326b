//! Messages that wait for the agent, and the one of them that is edited in the box.

use super::{Intent, OutgoingMessage};
use crate::engine::Command;
use crate::store::{InboxId, Message, Queued};

/// The queued messages, oldest first.
#[derive(Debug, Default)]
pub struct Queue {
    pub messages: Vec<Queued>,
    /// The queued message that is being edited in the box.
    pub editing: Option<InboxId>,
}

impl Queue {
    /// Returns the place of the message that is being edited.
    pub(super) fn edited(&self) -> Option<usize> {
        let id = self.editing?;
        self.messages.iter().position(|q| q.id == id)
    }

    /// Begins to edit the message at this place. Returns its text.
    pub(super) fn edit(&mut self, at: usize) -> Option<String> {
        let queued = self.messages.get(at)?;
        self.editing = Some(queued.id);
        Some(queued.message.typed().into_owned())
    }

    /// Removes the oldest message: it is in the log. Returns whether it was being edited.
    pub(super) fn said(&mut self) -> bool {
        if self.messages.is_empty() {
            return false;
        }
        let said = self.messages.remove(0);
        self.editing.take_if(|id| *id == said.id).is_some()
    }

    /// Replaces the text of a message. With `as_new` it goes to the end of the queue.
    pub(super) fn replace(&self, id: InboxId, words: OutgoingMessage, as_new: bool) -> Vec<Intent> {
        let Some(queued) = self.messages.iter().find(|q| q.id == id) else {
            return vec![Intent::Say(words)];
        };
        // The text of a command is expanded when it is sent.
        if as_new || queued.message.command.is_some() || words.command.is_some() {
            let remove = Command::EditQueued { id, message: None };
            return vec![Intent::Engine(remove), Intent::Say(words)];
        }
        let message = Message {
            text: words.text,
            ..queued.message.clone()
        };
        edit(id, Some(message))
    }
}

/// Edits a queued message, or deletes it, and empties the draft.
pub(super) fn edit(id: InboxId, message: Option<Message>) -> Vec<Intent> {
    vec![
        Intent::Engine(Command::EditQueued { id, message }),
        Intent::Engine(Command::KeepInput(String::new())),
    ]
}
