//! The input box, the messages that wait, and the draft that is stored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossterm::event::KeyEvent;

use super::kept_words::StoredMessages;
use super::{
    Intent, LaunchInfo, OpenSession, OutgoingMessage, Phase, Queue, SAID_WHEN_OPEN,
    StoredMessagePlace, queue,
};
use crate::core::custom::server_mentions;
use crate::engine::Command;
use crate::mcp::offers::Offers;
use crate::session::SessionSelector;
use crate::store::InboxId;
use crate::ui::commands::{Custom, CustomList};
use crate::ui::composer::{Composer, ComposerContext, ComposerOutcome};
use crate::ui::files::Files;
use crate::ui::keys::Action;
use crate::ui::offered::ServerOffers;

/// The beginning of the line that names the server whose list is awaited. A list that comes after
/// the message was sent leaves the line about the message.
pub(super) const LISTING: &str = "listing what the MCP server offers:";

/// The box and its draft.
#[derive(Default)]
pub struct InputBox {
    pub composer: Composer,
    /// When the text of the box changed, if that change is not stored yet.
    pub typed_ms: Option<i64>,
    /// The text in the box waits until the open question is answered.
    pub aside: bool,
    pub queue: Queue,
    /// Messages to send as soon as a session is open, in this order.
    pub(super) first_words: Vec<OutgoingMessage>,
    /// Images for the prompt that the program was started with.
    pub(crate) given_images: Vec<PathBuf>,
    /// Commands to run as soon as a session is open, as they were typed after the `!`.
    pub(super) first_commands: Vec<String>,
    /// A message of several lines, in line mode. An empty line sends it.
    unfinished: String,
    /// The text of the box when a queued message was opened for editing.
    edited_from: String,
    /// The files that may be mentioned.
    pub files: Option<Arc<Files>>,
    /// Custom commands. `None`: they were not listed yet.
    pub commands: Option<Vec<Arc<Custom>>>,
    /// Warnings about custom commands that were shown already.
    commands_warned: Vec<String>,
    /// The prompts and resources that servers offer to people.
    pub offered: ServerOffers,
    kept_words: StoredMessages,
    folder: PathBuf,
    home: Option<PathBuf>,
}

impl InputBox {
    pub(super) fn new(launch: &LaunchInfo) -> InputBox {
        InputBox {
            composer: Composer::new(Vec::new()),
            folder: PathBuf::from(&launch.folder),
            home: launch.home.as_ref().map(PathBuf::from),
            ..InputBox::default()
        }
    }

    fn with<T>(
        &mut self,
        working: bool,
        work: impl FnOnce(&mut Composer, &ComposerContext<'_>) -> T,
    ) -> T {
        let around = ComposerContext {
            files: self.files.as_deref(),
            commands: self.commands.as_deref(),
            offered: &self.offered,
            folder: &self.folder,
            home: self.home.as_deref(),
            working,
            queued: !self.queue.messages.is_empty(),
            editing: self.queue.editing.is_some(),
        };
        work(&mut self.composer, &around)
    }

    /// Takes a key. `working`: the agent or a command of the user is at work.
    pub(super) fn key(&mut self, key: &KeyEvent, at: Instant, working: bool) -> ComposerOutcome {
        self.with(working, |composer, around| composer.key(key, at, around))
    }

    pub(super) fn paste(&mut self, text: &str) -> ComposerOutcome {
        self.with(false, |composer, around| composer.paste(text, around))
    }

    pub(super) fn add_image(&mut self, path: PathBuf) -> ComposerOutcome {
        self.with(false, |composer, around| composer.add_image(path, around))
    }

    /// Takes a line that was typed where nothing is drawn, with the lines before it that ended
    /// with a backslash.
    pub(super) fn submit_line(&mut self, line: &str) -> ComposerOutcome {
        let text = format!("{}{line}", std::mem::take(&mut self.unfinished));
        let did = self.with(false, |composer, around| {
            composer.submit_line(&text, around)
        });
        if matches!(did, ComposerOutcome::Refused(_)) {
            // In line mode the line is printed already and cannot be corrected.
            self.composer.set_text("");
        }
        if !self.composer.is_empty() {
            self.unfinished = self.take_text();
        }
        did
    }

    /// Takes the text out of the box in line mode, where it waits for an empty line. Returns it.
    pub fn take_unsent(&mut self) -> Option<String> {
        if self.composer.is_empty() {
            return None;
        }
        self.unfinished = self.take_text();
        self.aside = false;
        Some(self.unfinished.clone())
    }

    /// Returns whether words are typed that nothing else waits for.
    pub(super) fn has_words_in_front(&self) -> bool {
        !self.composer.is_empty() && !self.aside
    }

    /// Returns whether the text is a shell command, also one in a chip.
    pub(super) fn is_shell(&self) -> bool {
        self.composer.whole().starts_with('!')
    }

    /// Adds text that was typed elsewhere.
    pub(super) fn add(&mut self, text: &str, now_ms: i64) {
        if !text.is_empty() {
            self.paste(text);
            self.typed_ms.get_or_insert(now_ms);
        }
    }

    /// Puts words that were not sent below the text in the box.
    pub(super) fn put_back(&mut self, words: OutgoingMessage, now_ms: i64) {
        self.composer
            .put_back(&words.text, words.images, words.looks);
        self.typed_ms = Some(now_ms);
    }

    /// Puts messages for a session back into the box: that session is not opened, and the person
    /// decides where they go.
    pub(super) fn take_words_back(&mut self, now_ms: i64) {
        for words in std::mem::take(&mut self.first_words) {
            self.put_back(words, now_ms);
        }
        for command in std::mem::take(&mut self.first_commands) {
            self.put_back(OutgoingMessage::plain(format!("!{command}")), now_ms);
        }
    }

    /// Replaces the typed text.
    pub(super) fn set_text(&mut self, text: &str, now_ms: i64) {
        self.composer.set_text(text);
        self.typed_ms = Some(now_ms);
    }

    /// Takes the typed text out of the box.
    fn take_text(&mut self) -> String {
        let text = self.composer.text();
        self.composer.set_text("");
        text
    }

    /// Notes that the rest in the box must be stored as the draft.
    pub(super) fn mark_rest_unsaved(&mut self, now_ms: i64) {
        if !self.composer.is_empty() {
            self.typed_ms = Some(now_ms);
        }
    }

    /// Stores the draft.
    pub(super) fn keep(&mut self, session: &OpenSession) -> Vec<Intent> {
        self.typed_ms = None;
        let text = self.composer.draft().unwrap_or_default();
        vec![match &session.id {
            Some(id) if session.phase == Phase::Ended => Intent::KeepAside(id.clone(), text),
            _ => Intent::Engine(Command::KeepInput(text)),
        }]
    }

    /// Restores the draft of a session, with text that was typed meanwhile below it.
    pub(super) fn restore(&mut self, draft: &str, now_ms: i64) {
        let typed = self.composer.whole();
        self.composer.restore(draft);
        if !typed.is_empty() && typed != self.composer.whole() {
            let kept = self.composer.whole();
            let gap = if kept.is_empty() { "" } else { "\n" };
            self.paste(&format!("{gap}{typed}"));
            self.typed_ms = Some(now_ms);
        }
    }

    /// Takes the box along into another session. Returns the draft that stays in the old one
    /// until it is stored in the new one.
    pub(crate) fn take_along(&mut self, session: Option<&str>) -> String {
        self.typed_ms = None;
        let draft = self.composer.draft().unwrap_or_default();
        self.kept_words.take_along(session, &draft);
        draft
    }

    /// Stores the draft from another session in the session that was just opened.
    pub(super) fn store_moved_draft(&mut self, session: &OpenSession) -> Vec<Intent> {
        let from = self.kept_words.moved_draft(session.id.as_deref());
        if self.composer.is_empty() {
            return Vec::new();
        }
        match from {
            Some(from) => {
                self.typed_ms = None;
                vec![Intent::Engine(Command::BringInput {
                    text: self.composer.draft().unwrap_or_default(),
                    from,
                })]
            }
            None => self.keep(session),
        }
    }

    /// Takes text from the editor. When the text is stored in the draft, its file may be removed.
    pub(super) fn edited(&mut self, text: &str, session: &OpenSession, now_ms: i64) -> Vec<Intent> {
        self.composer.edited(text);
        self.store_edited_text(session, now_ms)
    }

    fn store_edited_text(&mut self, session: &OpenSession, now_ms: i64) -> Vec<Intent> {
        let Some(id) = session.id.clone() else {
            self.typed_ms = Some(now_ms);
            return Vec::new();
        };
        let draft = self.composer.draft().unwrap_or_default();
        let place = StoredMessagePlace::Editor { session: id };
        self.kept_words.also_at(place, draft);
        self.keep(session)
    }

    /// Takes text from the editor of this session that was written before the editor or rewake was
    /// killed.
    pub(super) fn take_edited_text(
        &mut self,
        text: &str,
        session: &OpenSession,
        now_ms: i64,
        hint: &mut Option<String>,
    ) -> Vec<Intent> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text != self.composer.for_editor() && !text.trim().is_empty() {
            self.composer.edited(text);
            let undoes = self.composer.keys.map.more(Action::Undo, "undoes it");
            *hint = Some(format!(
                "what you wrote in your editor is in the box{undoes}"
            ));
        }
        self.store_edited_text(session, now_ms)
    }

    /// Handles that this draft is on the disk.
    pub(super) fn kept(&mut self, draft: &str) -> Vec<Intent> {
        self.kept_words.kept(draft)
    }

    /// Brings the newest queued message into the box, then the one before it, and after the
    /// oldest the prompts that were sent. Returns a hint.
    pub(super) fn older_queued(&mut self) -> Option<String> {
        if let Some(hint) = self.stays_at_changed() {
            return Some(hint);
        }
        match self.queue.edited() {
            None => self.edit_queued(self.queue.messages.len().saturating_sub(1)),
            Some(0) => {
                self.leave_queued();
                self.with(false, |composer, around| composer.older_prompt(around));
                None
            }
            Some(at) => self.edit_queued(at - 1),
        }
    }

    /// Goes back towards the newest, and after it to an empty box. Returns a hint.
    pub(super) fn newer_queued(&mut self) -> Option<String> {
        if let Some(hint) = self.stays_at_changed() {
            return Some(hint);
        }
        match self.queue.edited() {
            Some(at) if at + 1 < self.queue.messages.len() => self.edit_queued(at + 1),
            _ => {
                self.leave_queued();
                None
            }
        }
    }

    fn edit_queued(&mut self, at: usize) -> Option<String> {
        let text = self.queue.edit(at)?;
        self.composer.set_text(&text);
        self.edited_from = self.composer.whole();
        Some(match self.queue.messages.len() {
            1 => self.queued_keys(),
            all => format!("queued {} of {all} ↑↓ · {}", at + 1, self.queued_keys()),
        })
    }

    /// Returns a hint if the queued message in the box was changed. It is then neither dropped nor
    /// put back.
    fn stays_at_changed(&self) -> Option<String> {
        let is_editing = self.queue.editing.is_some();
        let is_changed = is_editing && self.composer.whole() != self.edited_from;
        is_changed.then(|| format!("it was changed: {}", self.queued_keys()))
    }

    /// Returns the hint after Esc while there is text in the box and nothing to stop.
    pub(super) fn words_stay(&self, next: Action, effect: &str) -> String {
        let keymap = &self.composer.keys.map;
        let steps = [
            keymap.hint(Action::Clear, "clears it"),
            keymap.hint(next, effect),
        ];
        let steps: Vec<String> = steps.into_iter().filter(|step| !step.is_empty()).collect();
        format!("your text stays; {}", steps.join(", then "))
    }

    /// Returns the keys of a queued message in the box.
    fn queued_keys(&self) -> String {
        let keymap = &self.composer.keys.map;
        let saves = keymap.hint(Action::Submit, "saves it, or deletes it if empty");
        let leaves = keymap.more(Action::Interrupt, "leaves it");
        format!("{saves}{leaves}")
    }

    fn leave_queued(&mut self) {
        self.queue.editing = None;
        self.composer.set_text("");
    }

    /// Leaves a queued message as it was. Returns whether one was edited.
    pub(super) fn cancel_edit(&mut self) -> bool {
        let is_editing = self.queue.editing.is_some();
        if is_editing {
            self.leave_queued();
        }
        is_editing
    }

    /// Sends words, or replaces the queued message that was edited. Without a session they wait for
    /// one. Returns a hint too.
    pub(super) fn say(
        &mut self,
        words: OutgoingMessage,
        phase: Phase,
    ) -> (Vec<Intent>, Option<String>) {
        self.typed_ms = None;
        match phase {
            // The process that works here finds them in the inbox.
            Phase::Watching => (vec![Intent::Say(words)], None),
            Phase::Nothing | Phase::Ended => {
                self.first_words.push(words);
                (vec![Intent::open(SessionSelector::New)], None)
            }
            Phase::Starting | Phase::Opening => {
                self.first_words.push(words);
                (Vec::new(), Some(SAID_WHEN_OPEN.into()))
            }
            Phase::Working { .. } | Phase::Resting(_) => (self.send_in_session(words), None),
        }
    }

    fn send_in_session(&mut self, words: OutgoingMessage) -> Vec<Intent> {
        let Some(id) = self.queue.editing.take() else {
            return vec![Intent::Say(words)];
        };
        let mentions = server_mentions(&words.text).into_iter();
        let names_server = mentions
            .map(|mention| format!("{}:", mention.server))
            .any(|server| self.offered.named(&server).is_some());
        self.queue.replace(id, words, names_server)
    }

    /// Deletes the queued message that was emptied. This has no effect on a message that was sent
    /// in the meantime.
    pub(super) fn delete_queued(&mut self, id: InboxId) -> Vec<Intent> {
        self.composer.set_text("");
        queue::edit(id, None)
    }

    /// Returns the custom commands that are known.
    pub(super) fn custom_commands(&self) -> &[Arc<Custom>] {
        self.commands.as_deref().unwrap_or_default()
    }

    /// Takes the list of custom commands. Returns warnings that are new.
    pub(super) fn commands_listed(&mut self, found: CustomList) -> Option<String> {
        self.commands = Some(found.commands);
        self.offered.set_servers(found.servers);
        let known = std::mem::replace(&mut self.commands_warned, found.warnings);
        self.with(false, |composer, around| composer.commands_listed(around));
        let new = self.commands_warned.iter().filter(|w| !known.contains(w));
        let new: Vec<&str> = new.map(String::as_str).collect();
        (!new.is_empty()).then(|| new.join("\n"))
    }

    /// Asks the server whose name is being typed for its prompts and resources, if a session is
    /// open. Returns a hint too.
    pub(super) fn ask_server(&mut self, phase: Phase) -> (Vec<Intent>, Option<String>) {
        // Asked as soon as a session is open.
        if !matches!(phase, Phase::Working { .. } | Phase::Resting(_)) {
            return (Vec::new(), None);
        }
        let Some(server) = self.composer.wants_server() else {
            return (Vec::new(), None);
        };
        let hint = format!("{LISTING} {server} …");
        (vec![Intent::AskServer(server)], Some(hint))
    }

    /// Takes the prompts and resources of a server. Returns the reason why they are not known.
    pub(super) fn server_listed(
        &mut self,
        server: &str,
        offers: Result<Offers, (String, Option<String>)>,
    ) -> Option<String> {
        let refused = match offers {
            Ok(offers) => {
                self.offered.set(server, offers);
                None
            }
            Err((why, hint)) => {
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                Some(crate::ui::offered::seen(&format!("{why}{hint}")))
            }
        };
        self.with(false, |composer, around| composer.server_listed(around));
        refused
    }

    /// Takes the list of files. Returns a note about it.
    pub(super) fn files_listed(&mut self) -> Option<String> {
        self.with(false, |composer, around| composer.files_listed(around));
        let files = self.files.as_ref()?;
        files.note().map(|note| note.to_string())
    }
}
