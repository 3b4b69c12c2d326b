//! The input box: text of several lines, chips, earlier prompts, commands and mentions.
//! [`Composer::key`] takes a key and returns its result. A key that is not about typing is returned
//! as an action for the app.
//!
//! Invariant: nothing that comes from outside gets a control character into the text.
//!
//! Deliberately absent: reading files (a [`images::ImageCandidate`] asks whether a path is an image), running the
//! editor, storing the draft. The effects do these.

mod browse;
mod buffer;
mod chips;
mod draft;
mod draw;
mod history;
pub(crate) mod images;
mod popup;
mod submit;
mod vim;
mod vim_keys;
mod wrap;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crossterm::event::KeyEvent;

use std::sync::Arc;

use crate::ui::commands::{Custom, SlashCommand};
use crate::ui::files::Files;
use crate::ui::keys::{Action, Context, Keys, Pressed};
use crate::ui::offered::ServerOffers;

use buffer::Buffer;
use chips::{Chip, Chips, clean};
use history::{Draft, History, Search};
use popup::{Popup, Suggestion};
use vim::Vim;
use wrap::Row;

pub(crate) use draw::ComposerStyles;
pub(crate) use images::ImageCandidate;

/// A paste of more lines or characters becomes a chip.
const MAX_PASTED_LINES: usize = 10;
const MAX_PASTED_CHARS: usize = 1_000;

/// The surroundings of the box that it must know.
#[derive(Clone, Copy)]
pub struct ComposerContext<'a> {
    pub files: Option<&'a Files>,
    /// The prompts and resources that servers offer to people.
    pub offered: &'a ServerOffers,
    /// Custom commands. `None`: they were not listed yet.
    pub commands: Option<&'a [Arc<Custom>]>,
    pub folder: &'a Path,
    pub home: Option<&'a Path>,
    /// The agent is at work.
    pub working: bool,
    /// A message is queued for the agent.
    pub queued: bool,
    /// The text in the box is a queued message.
    pub editing: bool,
}

/// The result of a key or a paste.
#[derive(Debug, PartialEq)]
pub enum ComposerOutcome {
    Nothing,
    /// Only the view changed.
    Moved,
    /// The text changed, so the draft must be stored.
    Changed,
    Submit(Submission),
    /// The text of [`Composer::for_editor`] must be edited and given to [`Composer::edited`].
    WantsEditor,
    /// The key is not about typing.
    Act(Action),
    /// Up on the first row of a queued message, Down on the last: to its neighbour.
    OlderQueued,
    NewerQueued,
    /// The reason why nothing was done, for the person.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Submission {
    Prompt {
        /// The text with the content of all pastes.
        text: String,
        images: Vec<PathBuf>,
        /// Parts of the text that may name images too.
        looks: Vec<ImageCandidate>,
        /// The text with labels for chips.
        shown: String,
    },
    /// The text after the `!`.
    Shell(String),
    Command(SlashCommand, String),
    /// A custom command: its name, and its arguments.
    Custom(String, String),
}

#[derive(Default)]
pub struct Composer {
    buffer: Buffer,
    chips: Chips,
    history: History,
    pub(crate) keys: Keys,
    /// Vim's keys, if they are on.
    vim: Option<Vim>,
    search: Option<Search>,
    popup: Option<Popup>,
    /// The word whose list was closed by hand.
    closed: Option<usize>,
    /// The column that Up and Down aim for.
    goal: Option<usize>,
    rows: Vec<Row>,
    /// The revision and the width of the text in `rows`.
    laid_out: Option<(u64, u16)>,
    /// The first visible row.
    top: usize,
    /// Parts of the text that may name images, and how many of them were looked for already.
    looks: Vec<ImageCandidate>,
    asked: usize,
    /// The user began to type a command, and the list of custom ones may be old.
    wants_commands: bool,
    /// The server whose prompts or resources are typed, and whether it must still be asked for
    /// them.
    server: Option<(String, bool)>,
}

impl Composer {
    /// Makes an empty box. `prompts` are earlier ones, the newest last.
    pub fn new(prompts: Vec<String>) -> Composer {
        Composer {
            history: History::new(prompts),
            ..Composer::default()
        }
    }

    /// Returns whether prompts are searched.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Returns whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.buffer.text().is_empty()
    }

    /// Returns the typed text, chips as their labels.
    pub fn text(&self) -> String {
        self.for_editor()
    }

    /// Returns whether a list of commands or files is open, which takes some keys itself.
    pub fn has_list(&self) -> bool {
        self.popup.is_some()
    }

    /// Returns whether an open list of files or prompts is not narrowed by any text yet.
    fn lists_all(&self) -> bool {
        let before = self.buffer.before();
        match &self.search {
            Some(search) => search.query.is_empty(),
            None => {
                self.popup.is_some()
                    && popup::mention(before).is_some_and(|at| at + 1 == before.len())
            }
        }
    }

    pub fn is_shell(&self) -> bool {
        self.buffer.text().starts_with('!')
    }

    /// Handles a key. `now` is the time of the key.
    pub fn key(
        &mut self,
        key: &KeyEvent,
        now: Instant,
        around: &ComposerContext<'_>,
    ) -> ComposerOutcome {
        let lists_all = self.lists_all();
        if (lists_all || self.search.is_some()) && self.keys.is_help(key, lists_all) {
            return ComposerOutcome::Act(Action::Help);
        }
        let before = self.buffer.revision();
        let mut did = match self.search {
            Some(_) => self.search_key(key, now, around),
            None => self.typing_key(key, now, around),
        };
        if self.buffer.revision() != before {
            if matches!(did, ComposerOutcome::Nothing | ComposerOutcome::Moved) {
                did = ComposerOutcome::Changed;
            }
            if !matches!(did, ComposerOutcome::Submit(_)) && self.search.is_none() {
                self.look_up(around);
            }
        } else if did == ComposerOutcome::Moved && self.search.is_none() && self.popup.is_none() {
            self.look_up(around);
        }
        did
    }

    /// Returns whether the user began to type a command since the last call.
    pub fn wants_commands(&mut self) -> bool {
        std::mem::take(&mut self.wants_commands)
    }

    /// Returns the server whose prompts or resources the user began to type since the last call.
    pub fn wants_server(&mut self) -> Option<String> {
        let (server, is_due) = self.server.as_mut()?;
        std::mem::take(is_due).then(|| server.clone())
    }

    /// Updates the list after the custom commands were listed again.
    pub fn commands_listed(&mut self, around: &ComposerContext<'_>) {
        let before = self.buffer.before();
        let names_server = popup::server(before, around.offered).is_some();
        if self.popup.is_some() || before == "/" || names_server {
            self.look_up(around);
        }
    }

    /// Updates the list after a server reported its prompts and resources.
    pub fn server_listed(&mut self, around: &ComposerContext<'_>) {
        if popup::server(self.buffer.before(), around.offered).is_some() {
            self.look_up(around);
        }
    }

    /// Updates the list after files were listed.
    pub fn files_listed(&mut self, around: &ComposerContext<'_>) {
        if popup::mention(self.buffer.before()).is_some() {
            self.look_up(around);
        }
    }

    fn contexts(&self, around: &ComposerContext<'_>) -> Vec<Context> {
        let empty = self.is_empty();
        [
            (self.popup.is_some(), Context::Popup),
            (empty && around.queued, Context::Queued),
            (empty && !around.working, Context::Idle),
            (empty, Context::Empty),
            (true, Context::Main),
            (true, Context::Typing),
        ]
        .into_iter()
        .filter_map(|(holds, context)| holds.then_some(context))
        .collect()
    }

    /// Returns whether a key with Alt does something in the box. Vim's Esc and a letter are two keys.
    pub(crate) fn binds(&self, key: &KeyEvent) -> bool {
        self.vim.is_none()
            && self
                .keys
                .action_in(key, &[Context::Main, Context::Typing])
                .is_some()
    }

    fn typing_key(
        &mut self,
        key: &KeyEvent,
        now: Instant,
        around: &ComposerContext<'_>,
    ) -> ComposerOutcome {
        if let Some(did) = self.vim_key(key) {
            return did;
        }
        let contexts = self.contexts(around);
        let before = (self.buffer.revision(), self.buffer.cursor());
        let did = match self.keys.press(key, now, &contexts) {
            Pressed::Act(action) => self.act(action, around),
            Pressed::Type(c) => self.type_char(c, around),
            Pressed::Prefix | Pressed::Unbound => ComposerOutcome::Nothing,
        };
        self.settle_after(before);
        did
    }

    fn act(&mut self, action: Action, around: &ComposerContext<'_>) -> ComposerOutcome {
        let goal = self.goal.take();
        if self.edit(action) {
            self.history.stop();
            return ComposerOutcome::Moved;
        }
        match action {
            Action::Submit => return self.submit(around),
            Action::ExternalEditor => return ComposerOutcome::WantsEditor,
            Action::Newline => return self.type_char('\n', around),
            Action::Clear => {
                self.close();
                self.history.stop();
                self.buffer.set("");
            }
            Action::SearchPrompts => {
                self.close();
                self.search = Some(Search {
                    before: self.typed_now(),
                    ..Search::default()
                });
            }
            Action::Up => return self.up(goal, around),
            Action::Down => return self.down(goal, around),
            Action::Left => self.buffer.left(),
            Action::Right => self.buffer.right(),
            Action::WordLeft => self.buffer.word_left(),
            Action::WordRight => self.buffer.word_right(),
            Action::LineStart => self.buffer.line_start(),
            Action::LineEnd => self.buffer.line_end(),
            _ => return self.popup_act(action, around),
        }
        self.popup = None;
        ComposerOutcome::Moved
    }

    /// Handles the edits of the buffer itself. Returns whether something changed.
    fn edit(&mut self, action: Action) -> bool {
        match action {
            Action::Backspace => self.buffer.backspace(),
            Action::Delete => self.buffer.delete(),
            Action::DeleteWord => self.buffer.delete_word(),
            Action::DeleteNextWord => self.buffer.delete_next_word(),
            Action::KillToEnd => self.buffer.kill_to_end(),
            Action::KillToStart => self.buffer.kill_to_start(),
            Action::Yank => self.buffer.yank(),
            Action::Undo => self.buffer.undo(),
            Action::Redo => self.buffer.redo(),
            _ => false,
        }
    }

    fn popup_act(&mut self, action: Action, around: &ComposerContext<'_>) -> ComposerOutcome {
        match (action, &mut self.popup) {
            (Action::Next, Some(popup)) => popup.next(),
            (Action::Previous, Some(popup)) => popup.previous(),
            (Action::Close, Some(popup)) => {
                self.closed = Some(popup.start);
                self.popup = None;
            }
            (Action::Accept | Action::Complete, Some(_)) => {
                return self.take(action == Action::Accept, around);
            }
            (
                Action::Backspace
                | Action::Delete
                | Action::DeleteWord
                | Action::DeleteNextWord
                | Action::KillToEnd
                | Action::KillToStart
                | Action::Yank
                | Action::Undo
                | Action::Redo,
                _,
            ) => return ComposerOutcome::Nothing,
            (other, _) => return ComposerOutcome::Act(other),
        }
        ComposerOutcome::Moved
    }

    /// Puts the selected line of the list into the text. A command that needs nothing more
    /// is run by `run`.
    fn take(&mut self, run: bool, around: &ComposerContext<'_>) -> ComposerOutcome {
        let Some(popup) = self.popup.take() else {
            return ComposerOutcome::Nothing;
        };
        let Some(item) = popup.selection() else {
            return ComposerOutcome::Nothing;
        };
        let mut text = item.text(run);
        if self.buffer.before().get(popup.start..) == Some(text.as_str()) && !run {
            // The folder is typed already, so the list shows its content.
            let mut popup = popup;
            popup.next();
            self.popup = Some(popup);
            return ComposerOutcome::Moved;
        }
        if self.buffer.after().starts_with(' ') && text.ends_with(' ') {
            text.pop();
        }
        self.buffer.replace_before(popup.start, &text);
        match item {
            Suggestion::Command(command) if run && !command.needs_argument() => {
                match self.buffer.after().trim() {
                    "" => self.submit(around),
                    _ => ComposerOutcome::Moved,
                }
            }
            Suggestion::Command(_)
            | Suggestion::File(_)
            | Suggestion::Server(..)
            | Suggestion::Resource(..) => ComposerOutcome::Moved,
        }
    }

    /// Opens, fills or closes the list for the word at the cursor.
    fn look_up(&mut self, around: &ComposerContext<'_>) {
        let was_open = self.popup.is_some();
        let browsing = self.history.is_browsing() || self.is_shell() || self.is_commanding();
        let (before, after) = (self.buffer.before(), self.buffer.after());
        let begins_command = before.starts_with('/') && !was_open;
        let found = Popup::open(before, after, around).filter(|_| !browsing);
        if found.is_none() || found.as_ref().map(|p| p.start) != self.closed {
            self.closed = None;
        }
        let mut found = found.filter(|p| self.closed != Some(p.start));
        // A list with the same items keeps its selection.
        if let (Some(new), Some(old)) = (&mut found, &self.popup)
            && (new.start, &new.items) == (old.start, &old.items)
        {
            new.selected = old.selected;
        }
        self.popup = found;
        let server = popup::server(before, around.offered).filter(|_| !browsing);
        if server != self.server.as_ref().map(|(name, _)| name.as_str()) {
            self.server = server.map(|name| (name.to_string(), true));
        }
        let begins_mention = !was_open && popup::mention(before).is_some();
        self.wants_commands |= (begins_command || begins_mention) && !browsing;
        if !was_open
            && popup::mention(before).is_some()
            && let Some(files) = around.files
        {
            files.refresh();
        }
    }

    /// Closes the lists and the search.
    fn close(&mut self) {
        self.popup = None;
        self.search = None;
        self.closed = None;
        self.goal = None;
    }

    fn typed_now(&self) -> Draft {
        Draft {
            text: self.buffer.text().to_string(),
            cursor: self.buffer.cursor(),
        }
    }

    /// Returns the text that the person typed, also while an earlier prompt is shown instead.
    fn typed(&self) -> Draft {
        let kept = self.search.as_ref().map(|search| &search.before);
        kept.or_else(|| self.history.kept())
            .cloned()
            .unwrap_or_else(|| self.typed_now())
    }
}

#[cfg(test)]
mod tests;
