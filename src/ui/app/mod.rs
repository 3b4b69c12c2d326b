//! The state of the screen: `update(message) -> intents`.
//!
//! [`App`] routes messages between parts that own their state, and keeps hints and notices for the
//! person. [`OpenSession`] is the state that the engine reports. [`Conversation`] is the transcript
//! and its scrolling. [`Prompts`] are overlays and the open question ([`Questions`]). [`InputBox`]
//! is the composer, its draft and the [`Queue`]. [`Appearance`] is colours and size, and [`UserCommands`]
//! are the shell commands of the user. [`Attention`] decides when the user is notified.
//!
//! Invariant: nothing here waits, reads a file or a clock, or talks to the engine; work outside is
//! requested by an [`Intent`], and its outcome arrives as a [`Msg`].

mod attention;
mod begin;
mod commands;
mod conversation;
mod custom;
mod engine_events;
mod help;
mod input_box;
mod kept_words;
mod keys;
mod last_here;
mod letters;
mod lines;
mod look;
mod messages;
mod open_session;
mod over;
mod prompts;
mod questions;
mod queue;
mod rewind;
mod server_form;
mod type_ahead_guard;
mod user_commands;

use std::path::Path;
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history;
use super::overlay::{Card, FirstRun, For, KeyEntry, Picker, Review, Viewer};
use super::rewind::RewindPane;
use super::theme::Palette;
use super::transcript::{Tone, TranscriptSearch};
use crate::config::{NotifyOn, Project};
use crate::model::Figures;

/// A dialog, a list or a pane over the conversation.
pub enum Overlay {
    None,
    Card(Card),
    FirstRun(FirstRun),
    /// The field for a key.
    Key(KeyEntry),
    /// The question whether to trust the folder and its config.
    Trust(Box<Project>),
    History(Box<history::Pane>),
    Picker(Picker),
    Viewer(Viewer),
    /// The changes since the last commit.
    Review(Review),
    /// The changes that a restore of files would make.
    Rewind(Box<RewindPane>),
    /// A search in the conversation.
    Search(Box<TranscriptSearch>),
    Confirm {
        question: String,
        /// Details of the question, one line each.
        about: Vec<String>,
        /// The effects of yes and of no, for the person.
        answers: (&'static str, &'static str),
        /// The effect of a yes.
        yes: Yes,
    },
}

/// The effect of a yes.
pub enum Yes {
    /// Intents to carry out, in their order.
    Do(Vec<Intent>),
    /// Sends this message.
    Say(OutgoingMessage),
    /// Continues work that waits only for this; stopped work stays stopped.
    GoOn,
    /// Only closes the question.
    Nothing,
}

/// Facts that do not change while the screen is open.
#[derive(Debug, Clone, Default)]
pub struct LaunchInfo {
    pub folder: String,
    /// The root of the sessions that count as local.
    pub workspace: String,
    /// The folder that is shown as `~`.
    pub home: Option<String>,
}

impl LaunchInfo {
    /// Returns a folder as a person writes it: `~/project`.
    pub fn shown(&self, folder: &str) -> String {
        let below = |home: &str| Path::new(folder).strip_prefix(home).ok();
        match self
            .home
            .as_deref()
            .filter(|h| !h.is_empty())
            .and_then(below)
        {
            Some(below) if below.as_os_str().is_empty() => "~".to_string(),
            Some(below) => format!("~/{}", below.display()),
            None => folder.to_string(),
        }
    }
}

/// The state of the screen. It does no I/O: it returns intents.
pub struct App {
    pub launch: LaunchInfo,
    /// The git branch of the workspace. `None` when it has none, or it is not known yet.
    pub branch: Option<String>,
    pub look: Appearance,
    /// The time of the last message: UTC, milliseconds since 1970.
    pub now_ms: i64,

    pub session: OpenSession,
    pub conversation: Conversation,
    pub prompts: Prompts,
    pub input: InputBox,
    pub last_here: LastHere,
    pub user_commands: UserCommands,
    /// The terminal takes reports of the status.
    pub takes_status: bool,
    /// The status line of the user's own command. Empty: there is none.
    pub own_status: String,
    /// A hint that disappears with the next key.
    pub hint: Option<String>,
    pub attention: Attention,
    quit_asked_ms: Option<i64>,
    /// The program is being left: only the keys that do so mean anything.
    pub is_leaving: bool,
    /// The session that is being opened was named when the program was started.
    pub named: bool,
    /// The start that follows once the question of trust is answered.
    after_trust: Option<Box<Begin>>,
    held: HeldLines,
    /// Warnings of the start, shown again when the conversation is open.
    pub warned: Vec<String>,
    /// Other notices of the start, shown again likewise.
    told: Vec<String>,
}

/// Shown until a session that was named is found, or is not.
pub(crate) const LOOKING_FOR_SESSION: &str = "looking for the session …";
pub(super) const SAID_WHEN_OPEN: &str = "sent when the session is open";

impl App {
    /// Makes a screen before anything is open.
    pub fn new(
        launch: LaunchInfo,
        palette: impl Into<Palette>,
        figures: Figures,
        now_ms: i64,
    ) -> App {
        App {
            branch: None,
            look: Appearance::new(palette.into()),
            now_ms,
            session: OpenSession::none(figures, &launch.folder),
            conversation: Conversation::new(),
            prompts: Prompts::new(&launch.workspace),
            input: InputBox::new(&launch),
            launch,
            last_here: LastHere::default(),
            user_commands: UserCommands::default(),
            takes_status: false,
            own_status: String::new(),
            hint: None,
            attention: Attention::new(),
            quit_asked_ms: None,
            is_leaving: false,
            named: false,
            after_trust: None,
            held: HeldLines::default(),
            warned: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Takes one message, and returns the work to do outside.
    pub fn update(&mut self, msg: Msg, now_ms: i64) -> Vec<Intent> {
        self.now_ms = now_ms;
        let mut intents = self.updated(msg);
        intents.extend(self.settle_questions());
        let looks = self.input.composer.new_looks();
        intents.extend(looks.into_iter().map(Intent::Look));
        if self.input.composer.wants_commands() {
            intents.push(Intent::Commands);
        }
        let asked = self.input.ask_server(self.session.phase);
        intents.extend(self.with_hint(asked));
        intents
    }

    /// Applies the effects of opened and closed questions to the rest of the screen.
    fn settle_questions(&mut self) -> Option<Intent> {
        let changes = self.prompts.questions.take_changes();
        if changes.frees_letters {
            self.letters_into_box();
        }
        if let Some(reason) = changes.reason {
            self.input.add(&reason, self.now_ms);
        }
        self.session.waited(changes.waited_ms);
        if changes.hint.is_some() {
            self.hint = changes.hint;
        }
        let (session, now_ms) = (&self.session, self.now_ms);
        let call = || {
            self.attention
                .call(NotifyOn::Approval, "asks", session, now_ms)
        };
        changes.calls.then(call).flatten()
    }

    /// Moves letters that selected an answer into the box, because the question is gone.
    fn letters_into_box(&mut self) {
        let text = self.prompts.letters.take();
        self.input.add(&text, self.now_ms);
    }

    /// Shows a question over everything else. Text in the box waits.
    fn raise(&mut self, overlay: Overlay) {
        self.letters_into_box();
        self.input.aside = !self.input.composer.is_empty();
        self.prompts.raise(overlay);
    }

    /// Returns whether keys answer the open question now.
    pub fn readiness(&self) -> Readiness {
        self.prompts.readiness(self.input.has_words_in_front())
    }

    /// Requests the details that the drawn screen still lacks.
    pub fn seen(&mut self) -> Vec<Intent> {
        let ask = match &mut self.prompts.overlay {
            Overlay::History(pane) => pane.seen(),
            _ => None,
        };
        let mut asks: Vec<Intent> = ask.map(Intent::History).into_iter().collect();
        if let Some(session) = self.session.id.clone() {
            let transcript = &mut self.conversation.transcript;
            let spans = transcript.ask_changes();
            if !spans.is_empty() {
                asks.push(Intent::CallChanges { session, spans });
            }
            let edits = transcript.ask_places();
            if !edits.is_empty() {
                asks.push(Intent::EditPlaces(edits));
            }
        }
        asks
    }

    fn updated(&mut self, msg: Msg) -> Vec<Intent> {
        match msg {
            Msg::Line(line, at) => return self.line(&line, at),
            Msg::Interrupted => return self.interrupted(),
            Msg::Key(key, at) => return self.key(&key, at),
            // The text may be a paste that nobody read: it runs no command. More of it may come.
            Msg::BurstEnter(_) if self.prompts.lets_box_send() && self.input.is_shell() => {
                self.input.add("\n", self.now_ms);
                self.hint = Some(keys::ENTER_WAS_PASTED.into());
            }
            Msg::BurstEnter(at) => {
                let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
                return self.key(&enter, at);
            }
            Msg::Paste(text, at) => return self.paste(&text, at),
            Msg::Focus(has) => {
                self.attention.has_focus = has;
                // Many terminals turn light or dark with the time of day.
                if has && self.look.follows_background() {
                    return vec![Intent::AskBackground];
                }
            }
            Msg::Mouse(mouse) => return self.mouse(&mouse),
            Msg::Resize(width, height) => self.look.size = (width, height),
            Msg::Engine(engine, event) if engine == self.session.engine => {
                return self.engine_event(event);
            }
            Msg::Engine(..) => {}
            Msg::Details(id, details) => {
                let now_ms = self.now_ms;
                if let Some(card) = self.prompts.card() {
                    card.receive_details(&id, details, now_ms);
                }
            }
            Msg::StillRunning(found) => {
                let now_ms = self.now_ms;
                if let (Some(card), Some(found)) = (self.prompts.card(), found) {
                    card.looked(found, now_ms);
                }
            }
            Msg::Tails(tails) => {
                for (call, text) in tails {
                    self.conversation.transcript.tail(call, text);
                }
            }
            Msg::AskedFile(call, text) => {
                let asked = self.prompts.questions.asked.as_mut();
                if let Some(asked) = asked.filter(|asked| asked.id == call) {
                    asked.file_read(text);
                }
            }
            Msg::Earlier(id, _) if self.session.id.as_ref() != Some(&id) => {}
            Msg::Earlier(_, Err(why)) => {
                self.conversation.not_fetched();
                self.notify(Tone::Bad, format!("cannot read earlier entries: {why}"));
            }
            Msg::Earlier(_, Ok(records)) => {
                let search = match &mut self.prompts.overlay {
                    Overlay::Search(search) => Some(&mut **search),
                    _ => None,
                };
                let mut intents = self.conversation.prepend(&records, search);
                intents.extend(self.search_on());
                return intents;
            }
            Msg::Dismissed(id, outcome) => {
                let done = self.prompts.dismissed(&id, outcome);
                return self.with_hint(done);
            }
            Msg::History(found) => {
                if let Overlay::History(pane) = &mut self.prompts.overlay
                    && let Some(ask) = pane.receive(found)
                {
                    return vec![Intent::History(ask)];
                }
            }
            Msg::CallChanges(session, known) => {
                if self.session.id.as_deref() == Some(session.as_str()) {
                    self.conversation.transcript.learn_changes(known);
                }
            }
            Msg::EditPlaces(known) => self.conversation.transcript.learn_places(known),
            Msg::Looked(look, found) => {
                let did = self.input.composer.looked(&look, found);
                return self.did(did);
            }
            Msg::Edited(Ok(text)) => {
                return self.input.edited(&text, &self.session, self.now_ms);
            }
            Msg::PastedImage(pasted) => return self.pasted_image(pasted),
            Msg::Edited(Err(why)) => self.notify(Tone::Bad, why),
            Msg::Notice(tone, text) => self.notify(tone, text),
            Msg::Show(title, lines) => {
                self.prompts.overlay = Overlay::Viewer(Viewer::new(title, lines))
            }
            Msg::Review(review, warning) => {
                self.prompts.overlay = Overlay::Review(review);
                if let Some(warning) = warning {
                    self.notify(Tone::Warn, warning);
                }
            }
            Msg::RewindDiff(path, text) => {
                if let Overlay::Rewind(pane) = &mut self.prompts.overlay {
                    pane.receive_diff(&path, text);
                }
            }
            Msg::Restyled(palette) => {
                if self.look.restyle(*palette) {
                    return vec![Intent::AskBackground];
                }
            }
            Msg::Background(rgb) => self.look.receive_background(rgb),
            Msg::Branch(branch) => self.branch = branch,
            Msg::NoLonger(warnings) => self.warned.retain(|w| !warnings.contains(w)),
            Msg::TrustSettled => {
                if let Some(begin) = self.after_trust.take() {
                    return self.begins(*begin);
                }
            }
            // Keys that somebody types choose nothing that appears by itself.
            Msg::Pick(picker) => {
                let is_typing = self.input.has_words_in_front();
                let is_resting = matches!(self.session.phase, Phase::Resting(_));
                let may_interrupt = is_resting && self.prompts.is_clear() && !is_typing;
                if picker.what != For::Replacement || may_interrupt {
                    self.prompts.overlay = Overlay::Picker(picker);
                }
            }
            Msg::AskKey(provider) => self.prompts.overlay = Overlay::Key(KeyEntry::new(&provider)),
            Msg::Output(run, text) => {
                let (theme, height) = (&self.look.theme, self.conversation.seen_height);
                self.prompts.receive_output(&run, &text, theme, height);
            }
            Msg::FilesListed => {
                if let Some(note) = self.input.files_listed() {
                    self.hint = Some(note);
                }
            }
            Msg::Exported(outcome) => match (&mut self.prompts.overlay, outcome) {
                (Overlay::History(pane), outcome) => pane.exported(outcome),
                (_, Ok(text)) => self.notify(Tone::Calm, text),
                (_, Err(why)) => self.notify(Tone::Bad, why),
            },
            Msg::Commands(found) => {
                if let Some(warnings) = self.input.commands_listed(found) {
                    self.notify(Tone::Warn, warnings);
                }
            }
            Msg::WordsNotSaid(words, why) => self.return_message(words, why),
            Msg::Offered(server, offers) => {
                self.hint.take_if(|hint| hint.starts_with(LISTING));
                let why = self.input.server_listed(&server, offers);
                self.hint = why.or(self.hint.take());
            }
            Msg::NotSaid(typed, why) => self.not_said(&typed, why),
            Msg::UserTails(tails) => self.user_commands.set_tails(tails),
            Msg::Prompts(prompts) => self.input.composer.set_earlier_prompts(prompts),
            Msg::LastHere(sessions) => self.last_here = LastHere { sessions, at: None },
            Msg::TakesStatus => self.takes_status = true,
            Msg::OwnStatus(line) => self.own_status = line,
            Msg::Begin(begin) => return self.begins(*begin),
            Msg::Tick(now) => return self.tick(now),
        }
        Vec::new()
    }

    /// Returns whether something on the screen changes by itself.
    pub fn moves(&self) -> bool {
        // While it waits for a person, nothing does.
        let is_asked = self.prompts.questions.is_open() && !self.prompts.quiet.waits();
        (self.session.is_busy() && !is_asked)
            || self.input.typed_ms.is_some()
            || matches!(&self.prompts.overlay, Overlay::Search(s) if self.conversation.searches(s))
            || self.prompts.moves()
            || !self.user_commands.list.is_empty()
    }

    /// Shows a short text in the hint line, and an important one in the conversation.
    fn notify(&mut self, tone: Tone, text: String) {
        // The session was not found, or another notice replaces the hint.
        self.hint
            .take_if(|hint| hint.as_str() == LOOKING_FOR_SESSION);
        // The session that is being opened will replace the conversation on the screen.
        let is_notice = matches!(tone, Tone::Warn | Tone::Bad);
        let is_open = self.session.is_open();
        if is_notice && !is_open {
            self.warned.push(text.clone());
        }
        if tone == Tone::Calm && text.contains('\n') && !is_open {
            self.told.push(text.clone());
        }
        match tone {
            Tone::Calm if !text.contains('\n') => self.hint = Some(text),
            _ => self.conversation.transcript.add_notice(tone, text),
        }
    }

    /// Handles a tick: keeps time for prompts, releases held lines, continues a search and stores
    /// the typed text.
    fn tick(&mut self, now: Instant) -> Vec<Intent> {
        let asking = self.prompts.asking();
        // A working turn may ask again, so text that was put aside stays aside.
        let may_ask = matches!(self.session.phase, Phase::Working { .. } | Phase::Watching);
        if asking.is_none() && !may_ask && self.prompts.help.is_none() {
            self.input.aside = false;
        }
        let may_arm = !self.input.has_words_in_front();
        self.prompts.tick(may_arm, now);
        self.look.tick();
        if self.session.is_open() && self.prompts.is_clear() {
            self.held.release_offered();
        }
        if !self.held.lines.is_empty() && !self.holds_lines() {
            return self.held_lines();
        }
        let mut intents = self.search_on();
        let now_ms = self.now_ms;
        if let Some(card) = self.prompts.card() {
            let again = card.look_again(now_ms);
            intents.extend(again.map(Intent::LookAgain));
        }
        intents.extend(match self.input.typed_ms {
            // Without a session there is nowhere to store it.
            Some(_) if !self.session.is_open() => Vec::new(),
            Some(at) if self.now_ms - at >= KEEP_INPUT_MS => self.input.keep(&self.session),
            _ => Vec::new(),
        });
        intents
    }

    /// Returns whether work continues after a word of the person, or after Enter.
    pub fn goes_on(&self) -> bool {
        let is_resting = matches!(self.session.phase, Phase::Resting(_));
        self.session.goes_on() || (is_resting && !self.input.queue.messages.is_empty())
    }

    /// Prepares to leave the program: closes overlays and stores the draft.
    pub fn leave(&mut self) -> Vec<Intent> {
        self.is_leaving = true;
        self.prompts.overlay = Overlay::None;
        self.prompts.help = None;
        self.input.keep(&self.session)
    }

    /// Searches some more of the conversation.
    fn search_on(&mut self) -> Vec<Intent> {
        match &mut self.prompts.overlay {
            Overlay::Search(search) => {
                let mut layout = self.look.layout(self.now_ms);
                self.conversation.search_on(search, &mut layout)
            }
            _ => Vec::new(),
        }
    }
}

/// Unsent words are in the store this long after the last key.
const KEEP_INPUT_MS: i64 = 300;

pub use attention::Attention;
pub use conversation::Conversation;
pub(crate) use custom::ASKING;
pub use input_box::InputBox;
use input_box::LISTING;
pub use last_here::LastHere;
pub use letters::{Letter, Letters};
use lines::HeldLines;
pub use look::Appearance;
pub use messages::{Begin, Intent, Msg, OutgoingMessage, StoredMessagePlace};
pub use open_session::{OpenSession, Phase, SaveStatus};
pub use prompts::{Prompts, Readiness};
pub use questions::Questions;
pub use queue::Queue;
pub use server_form::ServerForm;
pub use type_ahead_guard::{Asking, TypeAheadGuard};
pub use user_commands::{UserCommand, UserCommands};

#[cfg(test)]
mod tests {
    use super::LaunchInfo;

    #[test]
    fn a_folder_below_the_home_is_shown_as_below_it() {
        let launch = LaunchInfo {
            home: Some("/home/ann".into()),
            ..LaunchInfo::default()
        };
        assert_eq!(launch.shown("/home/ann/project"), "~/project");
        assert_eq!(launch.shown("/home/ann"), "~");
        assert_eq!(launch.shown("/home/anna/project"), "/home/anna/project");
    }
}
