//! Messages that wait: ↑ and ↓ go from one to the next in the box, Enter puts one back, and an
//! empty box deletes it.

use super::{App, Intent, Words};
use crate::core::custom::server_mentions;
use crate::engine::Command;
use crate::store::{InboxId, Message};

const KEYS: &str = "Enter saves it, or deletes it if empty · Esc leaves it";

impl App {
    /// The place in the queue of the message that is being edited.
    fn edited(&self) -> Option<usize> {
        let id = self.editing?;
        self.queued.iter().position(|q| q.id == id)
    }

    /// What stands in the box differs from the message that it came from.
    fn is_queued_changed(&self) -> bool {
        self.editing.is_some() && self.composer.whole() != self.edited_from
    }

    fn edit_queued(&mut self, at: usize) {
        let Some(queued) = self.queued.get(at) else {
            return;
        };
        self.editing = Some(queued.id);
        let text = queued.message.typed().into_owned();
        self.composer.set_text(&text);
        self.edited_from = self.composer.whole();
        self.hint = Some(match self.queued.len() {
            1 => KEYS.to_string(),
            all => format!("queued {} of {all} ↑↓ · {KEYS}", at + 1),
        });
    }

    /// The newest queued message comes into the box, then the one before it, and behind the
    /// oldest the prompts that were sent.
    pub(super) fn older_queued(&mut self) {
        if self.stays_at_changed() {
            return;
        }
        match self.edited() {
            None => self.edit_queued(self.queued.len().saturating_sub(1)),
            Some(0) => {
                self.leave_queued();
                self.in_box(|composer, around| composer.older_prompt(around));
            }
            Some(at) => self.edit_queued(at - 1),
        }
    }

    /// Back towards the newest, and behind it to an empty box.
    pub(super) fn newer_queued(&mut self) {
        if self.stays_at_changed() {
            return;
        }
        match self.edited() {
            Some(at) if at + 1 < self.queued.len() => self.edit_queued(at + 1),
            _ => self.leave_queued(),
        }
    }

    /// What was changed is neither lost nor put back without a word.
    fn stays_at_changed(&mut self) -> bool {
        let is_changed = self.is_queued_changed();
        if is_changed {
            self.hint = Some(format!("it was changed: {KEYS}"));
        }
        is_changed
    }

    fn leave_queued(&mut self) {
        self.editing = None;
        self.composer.set_text("");
    }

    /// A queued message as it was changed, in its place.
    pub(super) fn put_back_queued(&mut self, id: InboxId, words: Words) -> Vec<Intent> {
        let Some(queued) = self.queued.iter().find(|q| q.id == id) else {
            return vec![Intent::Say(words)];
        };
        // What a command says is made anew, so it goes to the end of the queue.
        let mentions = server_mentions(&words.text).into_iter();
        let names_server = mentions
            .map(|mention| format!("{}:", mention.server))
            .any(|server| self.offered.named(&server).is_some());
        if queued.message.command.is_some() || words.command.is_some() || names_server {
            let remove = Command::EditQueued { id, message: None };
            return vec![Intent::Engine(remove), Intent::Say(words)];
        }
        let message = Message {
            text: words.text,
            ..queued.message.clone()
        };
        let message = Some(message);
        vec![
            Intent::Engine(Command::EditQueued { id, message }),
            Intent::Engine(Command::KeepInput(String::new())),
        ]
    }

    /// It was emptied. One that was sent meanwhile was said.
    pub(super) fn delete_queued(&mut self, id: InboxId) -> Vec<Intent> {
        self.composer.set_text("");
        self.hint = Some("the queued message is deleted".into());
        let message = None;
        vec![
            Intent::Engine(Command::EditQueued { id, message }),
            Intent::Engine(Command::KeepInput(String::new())),
        ]
    }
}
