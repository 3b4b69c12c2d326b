//! All that the screen shows, and what becomes of it: `update(message) -> intents`.
//!
//! Invariant: nothing here waits, reads a file or a clock, or talks to the engine; what is to
//! be done outside is an [`Intent`], and what came of it is a [`Msg`].

mod commands;
mod custom;
mod engine_events;
mod kept_words;
mod keys;
mod last_here;
mod lines;
mod over;
mod queued;
mod quiet;
mod rewind;
mod search;
mod user_commands;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{KeyEvent, MouseEvent};
use jiff::tz::TimeZone;
use ratatui::text::Line;

use super::commands::{Custom, CustomList, is_command, is_own};
use super::composer::{Composer, Look};
use super::files::Files;
use super::highlight::Highlighter;
use super::history;
use super::live::{EngineEvent, Now};
use super::notify::Call;
use super::overlay::{Approval, Card, FirstRun, KeyEntry, Page, Picker, Review, Viewer};
use super::rewind::{RewindPane, RewindRequest};
use super::theme::{Ground, Palette, Theme};
use super::transcript::{LayoutContext, Search, Span, Tone, Transcript};
use crate::config::{Content, NotifyConfig, NotifyOn, Project, UiConfig};
use crate::core::entry::Choice;
use crate::core::entry::{CallId, Record, Seq};
use crate::core::next::Why;
use crate::core::rewind::PathChoice;
use crate::core::rule::RuleScope;
use crate::core::tree::PathBytes;
use crate::engine::{ChildQuestion, Command, FilesWork, Rewinding};
use crate::model::Figures;
use crate::model::provider::Secret;
use crate::session::{
    ChangedFiles, CommandLine, Details, EditPlace, EditQuery, Finished, ForkFolder, NotSaid, Offer,
    StillRunning, Which, is_prompt,
};
use crate::store::{InboxId, Queued};

/// What reaches the screen.
pub enum Msg {
    /// A line, and when it came, where nothing is drawn.
    Line(String, Instant),
    /// Ctrl+C, there.
    Interrupted,
    /// A key, and when it came.
    Key(KeyEvent, Instant),
    /// What was pasted, and when it came.
    Paste(String, Instant),
    Mouse(MouseEvent),
    /// The terminal says whether it has the focus.
    Focus(bool),
    /// Columns and rows of the terminal.
    Resize(u16, u16),
    /// From the engine of this number. Events of older engines are dropped.
    Engine(u64, EngineEvent),
    /// What an offered session's log says, by the session's id.
    Details(String, Option<Details>),
    /// What goes on in offered sessions, by their ids. `None`: it cannot be read.
    StillRunning(Option<Vec<(String, Vec<StillRunning>)>>),
    /// An offered session, by its id, was dismissed, or was not, and why.
    Dismissed(String, Result<(), String>),
    /// The last lines of what running commands printed.
    Tails(Vec<(CallId, String)>),
    /// The text of the file that an edit is asked about.
    AskedFile(CallId, String),
    /// Entries before those that are shown.
    Earlier(Vec<Record>),
    History(history::HistoryResponse),
    /// What calls of a session changed in the files. `None`: it is not known.
    CallChanges(String, Vec<(Span, Option<ChangedFiles>)>),
    /// Where in their files edits were made.
    EditPlaces(Vec<EditPlace>),
    /// The images that a part of the text names, when it names nothing else.
    Looked(Look, Option<Vec<PathBuf>>),
    /// The file of the image that was in the clipboard, or why there is none.
    PastedImage(Result<PathBuf, String>),
    /// What was typed in another program.
    Edited(Result<String, String>),
    /// What came of an intent, for the user.
    Notice(Tone, String),
    Show(String, Vec<Line<'static>>),
    /// Changed files, and what is not among them.
    Review(Review, Option<String>),
    /// The lines of a path that may be set back, or why they cannot be shown.
    RewindDiff(PathBytes, Result<String, String>),
    /// The config was read again.
    Restyled(Box<Palette>),
    /// The terminal says what colour its background has.
    Background([u8; 3]),
    Branch(Option<String>),
    /// Warnings that are so no longer.
    NoLonger(Vec<String>),
    /// The answer about the folder's own config is kept, and its content is in use or not.
    TrustSettled,
    /// Something is chosen from these.
    Pick(Picker),
    /// The key of this provider is asked for.
    AskKey(String),
    /// More of what the run of a viewer printed.
    Output(String, String),
    /// The files that may be mentioned were listed.
    FilesListed,
    /// What an export wrote and where, or why it wrote nothing.
    Exported(Result<String, String>),
    /// The custom commands were listed.
    Commands(CustomList),
    /// A custom command was not said, and why.
    NotSaid(CommandLine, NotSaid),
    /// The last lines of what running commands of the user printed, by their run.
    UserTails(Vec<(String, String)>),
    /// What was said in other sessions of the project, the newest last.
    Prompts(Vec<String>),
    /// The finished sessions of the folder, the newest first.
    LastHere(Vec<Finished>),
    /// What a start offers, looked for again.
    Begin(Box<Begin>),
    Tick(Instant),
}

/// What is to be done outside.
pub enum Intent {
    /// For the engine that is open.
    Engine(Command),
    Open {
        which: Which,
        take_over: bool,
    },
    /// Makes a fork with files of its own, and takes it up.
    ForkInto {
        id: String,
        /// The last entry that it shares. `None`: all of them.
        at: Option<Seq>,
        folder: ForkFolder,
    },
    /// Looks on while another process works in it.
    Watch(String),
    /// What the user sent.
    Say(Words),
    /// Lists the custom commands again.
    Commands,
    /// Whether a part of the text names images.
    Look(Look),
    /// A command of the user, which is recorded, gets the terminal until it ends.
    OnTerminal {
        /// The place of its entry.
        entry: Seq,
        command: String,
    },
    /// The text is edited in the user's own editor.
    Editor(String),
    /// Words that are kept here now are forgotten where they were kept before.
    Forget(WordsPlace),
    /// Unsent words of a session whose engine has ended: its id, and the draft.
    KeepAside(String, String),
    /// Put into the clipboard.
    Copy(String),
    /// An image is taken out of the clipboard.
    PasteImage,
    /// Looks into the logs of these offers.
    Details(Vec<Offer>),
    /// Reads the file that an edit is asked about, for the numbers of its lines.
    ReadAsked(CallId, PathBuf),
    /// Look at the running commands of these sessions again.
    LookAgain(Vec<String>),
    /// An offered session is not to be offered any more.
    Dismiss(String),
    /// Fetches entries before this one.
    Earlier(Seq),
    /// Written into a file of the user's own.
    AllowRule(RuleScope, String),
    /// Taken out of a list of a file of the user's own.
    RemoveRule {
        scope: RuleScope,
        list: String,
        rule: String,
    },
    History(history::HistoryRequest),
    /// What these calls of a session changed in the files.
    CallChanges {
        session: String,
        spans: Vec<Span>,
    },
    /// Where in their files these edits were made.
    EditPlaces(Vec<EditQuery>),
    /// What is kept of the files.
    Files,
    Ps,
    /// Ends the command of this run.
    StopRun(String),
    Diff,
    /// Files are to be set back: the engine plans it, or does it.
    PlanRewind(RewindRequest),
    /// A copy of a session up to this entry, with files that are set back in it, and the words of
    /// its box. It is opened.
    RewindCopy {
        origin: String,
        to: Seq,
        files: Option<Box<Rewinding>>,
        draft: Option<String>,
    },
    /// The lines of a path that may be set back.
    RewindDiff {
        rewinding: Arc<Rewinding>,
        path: PathBytes,
        choice: Option<PathChoice>,
    },
    /// The user's own editor at a line of a file, which is below the root.
    EditAt(String, usize),
    Doctor,
    /// Shows memories that these words find; without words, the newest.
    Memory(String),
    Skills,
    Permissions,
    Sessions,
    Export {
        session: String,
        /// As it was typed; `.json` at its end: every entry. Else a free name in the folder.
        file: Option<String>,
    },
    Theme(String),
    Themes,
    /// Models to choose from, narrowed by these words.
    Models(String),
    /// A model with what is chosen for it.
    UseModel(Choice),
    Status,
    /// Shows the end of what this run printed.
    Tail(String),
    Redraw,
    /// The person looks elsewhere, and is called.
    Call(Call),
    /// What a start offers is looked for again.
    Offers,
    /// A session that another process has is offered all the same.
    OfferHeld(String),
    /// A key of this provider is to be typed.
    AskKey(String),
    /// Kept from now on; then this model is begun with.
    KeepKey {
        provider: String,
        key: Secret,
        model: Option<String>,
    },
    RemoveKey(String),
    /// A provider and its model were chosen on the first screen.
    ChooseModel(String),
    Demo,
    /// The config is read again, whoever changed it.
    Reload,
    /// The folder, with this and no other content.
    Trust(Content),
    /// The folder is not trusted any more: its own config is not used.
    Distrust,
    Suspend,
    /// The terminal is asked what colour its background has.
    AskBackground,
    Quit,
}

/// Where the work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// What a start offers is being looked up.
    Starting,
    /// No session is open.
    Nothing,
    Opening,
    /// The engine does something, or waits for a model or a command.
    Working {
        /// UTC, milliseconds since 1970.
        since_ms: i64,
    },
    /// There is nothing to do without a person.
    Resting(Why),
    /// Another process works; this one looks on.
    Watching,
    Ended,
}

/// What lies over the conversation.
pub enum Overlay {
    None,
    Card(Card),
    FirstRun(FirstRun),
    /// A key is typed.
    Key(KeyEntry),
    /// The folder has a config of its own: is it trusted?
    Trust(Box<Project>),
    History(Box<history::Pane>),
    Picker(Picker),
    Viewer(Viewer),
    /// The changes since the last commit.
    Review(Review),
    /// What setting files back would change.
    Rewind(Box<RewindPane>),
    /// Words that are searched for in the conversation.
    Search(Box<Search>),
    Confirm {
        question: String,
        /// What it is about, line by line.
        about: Vec<String>,
        /// What the keys do.
        keys: &'static str,
        /// What a yes does.
        yes: Yes,
    },
}

/// What a yes does.
pub enum Yes {
    /// Does these, in their order.
    Do(Vec<Intent>),
    /// Says this.
    Say(Words),
    /// What waits only for this goes on; what was stopped stays so.
    GoOn,
    /// It is closed.
    Nothing,
}

/// Whether what asks can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The next key is an answer.
    Armed,
    /// The keyboard was not quiet for long enough.
    Quiet,
    /// Words are being typed into the box.
    Behind,
}

/// Whether what happens is kept, for the status line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// When something was kept last: UTC, milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// Something came since that is kept a moment later.
    pub is_pending: bool,
    /// Why it is not, and what helps.
    pub trouble: Option<String>,
}

/// What does not change while the screen is open.
#[derive(Debug, Clone, Default)]
pub struct LaunchInfo {
    pub folder: String,
    /// The root that counts as here.
    pub workspace: String,
    /// What `~` stands for in folders that are shown.
    pub home: Option<String>,
    pub version: &'static str,
}

impl LaunchInfo {
    /// A folder as a person writes it: `~/project`.
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

/// All that the screen shows, and what is typed. It does no I/O: it says what is to be done.
pub struct App {
    pub launch: LaunchInfo,
    /// Of the times of day that are shown.
    pub zone: TimeZone,
    /// The git branch of the workspace. `None` when it has none, or it is not known yet.
    pub branch: Option<String>,
    pub theme: Theme,
    /// The themes of which the one for this background is shown.
    palette: Palette,
    ground: Ground,
    /// When the terminal was asked for its background, until it answers.
    ground_asked_ms: Option<i64>,
    is_ground_known: bool,
    pub code: Highlighter,
    /// Grows with every other look.
    pub generation: u64,
    pub figures: Figures,
    /// The time of the last message: UTC, milliseconds since 1970.
    pub now_ms: i64,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Height of the conversation when it was last drawn.
    pub seen_height: usize,

    /// The number of the engine that is listened to.
    pub engine: u64,
    pub phase: Phase,
    /// The session that is open. `None`: there is none.
    pub id: Option<String>,
    pub now: Now,
    /// What the session cost so far, US dollars. `None` when a price is not known.
    pub cost_usd: Option<f64>,
    pub transcript: Transcript,
    /// The call that a person is asked about now.
    pub asked: Option<Approval>,
    /// What a sub-agent asks now.
    pub(super) child_asks: Option<ChildQuestion>,
    /// Since when a person is waited for: UTC, milliseconds since 1970.
    asked_ms: Option<i64>,
    /// The terminal shows ASCII alone.
    pub is_ascii: bool,
    pub queued: Vec<Queued>,
    /// The queued message that is being edited in the box.
    pub editing: Option<InboxId>,
    /// What stood in the box when its editing began.
    edited_from: String,
    /// Words that are kept elsewhere too, until they are kept here.
    elsewhere: Vec<Elsewhere>,
    /// The session that was left with words in the box, and its draft.
    came_along: Option<(String, String)>,
    pub kept: Kept,
    fetching: bool,

    pub composer: Composer,
    /// When what stands in the box changed and was not kept yet.
    pub typed_ms: Option<i64>,
    pub overlay: Overlay,
    /// What the help lies over, until that is closed: what asks at the start.
    pub behind: Option<Box<Overlay>>,
    pub last_here: LastHere,
    /// What of the question in `overlay` is on the screen.
    pub page: Page,
    /// When keys may answer what asks.
    pub quiet: Quiet,
    /// What stands in the box waits until what asks is answered.
    pub aside: bool,
    /// The number of the question or card that came last.
    asking: Asking,
    /// Shell commands of the user that are not over, oldest first.
    pub user_commands: Vec<UserCommand>,
    /// The files that may be mentioned.
    pub files: Option<Arc<Files>>,
    /// Custom commands. `None`: they were not listed yet.
    pub commands: Option<Vec<Arc<Custom>>>,
    /// What is wrong with some of them, and was said.
    commands_warned: Vec<String>,
    /// How many rewinds were looked at: the number of the last one.
    rewinds: u64,
    /// What is done with the files now, which a person waits for.
    pub files_work: Option<FilesWork>,
    /// A line that goes with the next key.
    pub hint: Option<String>,
    /// When a person is called.
    pub notify: NotifyConfig,
    /// The terminal has the focus, or does not say.
    has_focus: bool,
    quit_asked_ms: Option<i64>,
    /// The program is being left: only the keys that do so mean anything.
    is_leaving: bool,
    /// The session that is being opened was named when the program was started.
    pub named: bool,
    /// The program was started to work in a copy of the session that is picked first.
    picks_copy: bool,
    /// To be said as soon as the session is open, in their order.
    first_words: Vec<Words>,
    /// To be run as soon as the session is open, as they were typed behind the `!`.
    first_commands: Vec<String>,
    /// What begins when the question of trust is answered.
    after_trust: Option<Box<Begin>>,
    /// Where nothing is drawn: what is sent by an empty line.
    waiting_words: String,
    /// Lines that came before a session was open, and when.
    held_lines: Vec<(String, Instant)>,
    /// Messages that came while unfinished sessions were offered: for the session that is chosen.
    offer_lines: Vec<(String, Instant)>,
    /// Of the start, told when the conversation is there.
    pub warned: Vec<String>,
    /// The same of what is no warning.
    told: Vec<String>,
}

/// Shown until a session that was named is found, or is not.
pub(crate) const LOOKING_FOR_SESSION: &str = "looking for the session …";
pub(super) const SAID_WHEN_OPEN: &str = "sent when the session is open";

impl App {
    /// A screen before anything is open.
    pub fn new(
        launch: LaunchInfo,
        palette: impl Into<Palette>,
        figures: Figures,
        now_ms: i64,
    ) -> App {
        let palette = palette.into();
        App {
            launch,
            zone: TimeZone::UTC,
            branch: None,
            theme: palette.on(Ground::Dark).clone(),
            palette,
            ground: Ground::Dark,
            ground_asked_ms: None,
            is_ground_known: false,
            code: Highlighter::background(),
            generation: 0,
            figures,
            now_ms,
            size: (80, 24),
            seen_height: 20,
            engine: 0,
            phase: Phase::Nothing,
            id: None,
            now: Now::default(),
            cost_usd: Some(0.0),
            transcript: Transcript::default(),
            asked: None,
            child_asks: None,
            asked_ms: None,
            is_ascii: false,
            queued: Vec::new(),
            editing: None,
            edited_from: String::new(),
            elsewhere: Vec::new(),
            came_along: None,
            kept: Kept::default(),
            fetching: false,
            composer: Composer::new(Vec::new()),
            typed_ms: None,
            overlay: Overlay::None,
            behind: None,
            last_here: LastHere::default(),
            page: Page::default(),
            quiet: Quiet::new(Duration::from_millis(UiConfig::default().quiet_ms)),
            aside: false,
            asking: 0,
            user_commands: Vec::new(),
            files: None,
            commands: None,
            commands_warned: Vec::new(),
            rewinds: 0,
            files_work: None,
            hint: None,
            notify: NotifyConfig::default(),
            has_focus: true,
            quit_asked_ms: None,
            is_leaving: false,
            named: false,
            picks_copy: false,
            first_words: Vec::new(),
            first_commands: Vec::new(),
            after_trust: None,
            waiting_words: String::new(),
            held_lines: Vec::new(),
            offer_lines: Vec::new(),
            warned: Vec::new(),
            told: Vec::new(),
        }
    }

    /// What was looked up comes too late when the person went another way meanwhile.
    fn begins(&mut self, begin: Begin) -> Vec<Intent> {
        if self.phase == Phase::Starting {
            self.phase = Phase::Nothing;
        }
        let is_elsewhere = matches!(self.overlay, Overlay::History(_));
        if self.phase != Phase::Nothing || is_elsewhere {
            if let Some(prompt) = begin.into_prompt() {
                self.back_into_box(Words::plain(prompt));
            }
            return Vec::new();
        }
        self.begin(begin)
    }

    /// What was to be said in a session that is not opened: the person says where it goes now.
    fn take_words_back(&mut self) {
        for words in std::mem::take(&mut self.first_words) {
            self.back_into_box(words);
        }
        for command in std::mem::take(&mut self.first_commands) {
            self.back_into_box(Words::plain(format!("!{command}")));
        }
    }

    /// Words that were to be said and were not: below what is typed.
    fn back_into_box(&mut self, words: Words) {
        self.composer
            .put_back(&words.text, words.images, words.looks);
        self.typed_ms = Some(self.now_ms);
    }

    /// What the screen begins with: offers, or a session.
    pub fn begin(&mut self, begin: Begin) -> Vec<Intent> {
        match begin {
            Begin::Offers { offers, prompt } => {
                self.take_words_back();
                if let Some(prompt) = prompt {
                    self.back_into_box(Words::plain(prompt));
                }
                let intent = Intent::Details(offers.clone());
                self.raise(Overlay::Card(Card::new(offers)));
                vec![intent]
            }
            Begin::Open { which, prompt } => {
                // What was said while this was looked up follows the prompt.
                self.first_words.splice(..0, prompt.map(Words::given));
                self.named = true;
                vec![Intent::Open {
                    which,
                    take_over: false,
                }]
            }
            Begin::FirstRun { first, prompt } => {
                self.take_words_back();
                if let Some(prompt) = prompt {
                    self.back_into_box(Words::plain(prompt));
                }
                self.raise(Overlay::FirstRun(first));
                Vec::new()
            }
            Begin::History { fork, prompt } => {
                self.picks_copy = fork;
                self.take_words_back();
                if let Some(prompt) = prompt {
                    self.back_into_box(Words::plain(prompt));
                }
                self.open_history("")
            }
            Begin::Trust { project, then } => {
                self.raise(Overlay::Trust(project));
                // What follows waits for the answer.
                self.after_trust = Some(then);
                Vec::new()
            }
        }
    }

    /// Takes one message in, and says what is to be done outside because of it.
    pub fn update(&mut self, msg: Msg, now_ms: i64) -> Vec<Intent> {
        self.now_ms = now_ms;
        let mut intents = self.updated(msg);
        let looks = self.composer.new_looks();
        intents.extend(looks.into_iter().map(Intent::Look));
        if self.composer.wants_commands() {
            intents.push(Intent::Commands);
        }
        intents
    }

    fn updated(&mut self, msg: Msg) -> Vec<Intent> {
        match msg {
            Msg::Line(line, at) => return self.line(&line, at),
            Msg::Interrupted => return self.interrupted(),
            Msg::Key(key, at) => return self.key(&key, at),
            Msg::Paste(text, at) => return self.paste(&text, at),
            Msg::Focus(has) => {
                self.has_focus = has;
                // Many terminals turn light or dark with the time of day.
                if has && self.palette.is_auto() {
                    return vec![Intent::AskBackground];
                }
            }
            Msg::Mouse(mouse) => return self.mouse(&mouse),
            Msg::Resize(width, height) => self.size = (width, height),
            Msg::Engine(engine, event) if engine == self.engine => return self.engine_event(event),
            Msg::Engine(..) => {}
            Msg::Details(id, details) => self.details(&id, details),
            Msg::StillRunning(found) => {
                let now_ms = self.now_ms;
                if let (Some(card), Some(found)) = (self.card(), found) {
                    card.looked(found, now_ms);
                }
            }
            Msg::Tails(tails) => {
                for (call, text) in tails {
                    self.transcript.tail(call, text);
                }
            }
            Msg::AskedFile(call, text) => {
                if let Some(asked) = self.asked.as_mut().filter(|asked| asked.id == call) {
                    asked.file_read(text);
                }
            }
            Msg::Earlier(records) => {
                self.fetching = false;
                return self.prepend(&records);
            }
            Msg::Dismissed(id, outcome) => return self.dismissed(&id, outcome),
            Msg::History(found) => {
                if let Overlay::History(pane) = &mut self.overlay
                    && let Some(ask) = pane.receive(found)
                {
                    return vec![Intent::History(ask)];
                }
            }
            Msg::CallChanges(session, known) => {
                if self.id.as_deref() == Some(session.as_str()) {
                    self.transcript.learn_changes(known);
                }
            }
            Msg::EditPlaces(known) => self.transcript.learn_places(known),
            Msg::Looked(look, found) => {
                let did = self.composer.looked(&look, found);
                return self.did(did);
            }
            Msg::Edited(Ok(text)) => {
                self.composer.edited(&text);
                return self.keep_edited();
            }
            Msg::PastedImage(pasted) => return self.pasted_image(pasted),
            Msg::Edited(Err(why)) => self.notify(Tone::Bad, why),
            Msg::Notice(tone, text) => self.notify(tone, text),
            Msg::Show(title, lines) => self.overlay = Overlay::Viewer(Viewer::new(title, lines)),
            Msg::Review(review, warning) => {
                self.overlay = Overlay::Review(review);
                if let Some(warning) = warning {
                    self.notify(Tone::Warn, warning);
                }
            }
            Msg::RewindDiff(path, text) => {
                if let Overlay::Rewind(pane) = &mut self.overlay {
                    pane.receive_diff(&path, text);
                }
            }
            Msg::Restyled(palette) => return self.restyle(*palette),
            Msg::Background(rgb) => {
                self.is_ground_known = true;
                self.ground_asked_ms = None;
                self.stand_on(Ground::of(rgb));
            }
            Msg::Branch(branch) => self.branch = branch,
            Msg::NoLonger(warnings) => self.warned.retain(|w| !warnings.contains(w)),
            Msg::TrustSettled => {
                if let Some(begin) = self.after_trust.take() {
                    return self.begins(*begin);
                }
            }
            Msg::Pick(picker) => self.overlay = Overlay::Picker(picker),
            Msg::AskKey(provider) => self.overlay = Overlay::Key(KeyEntry::new(&provider)),
            Msg::Output(run, text) => self.output(&run, &text),
            Msg::FilesListed => self.files_listed(),
            Msg::Exported(outcome) => self.exported(outcome),
            Msg::Commands(found) => self.commands_listed(found),
            Msg::NotSaid(typed, why) => self.not_said(&typed, why),
            Msg::UserTails(tails) => self.user_tails(tails),
            Msg::Prompts(prompts) => self.composer.set_earlier_prompts(prompts),
            Msg::LastHere(sessions) => self.last_here = LastHere { sessions, at: None },
            Msg::Begin(begin) => return self.begins(*begin),
            Msg::Tick(now) => return self.tick(now),
        }
        Vec::new()
    }

    fn restyle(&mut self, palette: Palette) -> Vec<Intent> {
        self.palette = palette;
        self.theme = self.palette.on(self.ground).clone();
        self.generation += 1;
        match self.follows_background() && !self.is_ground_known {
            true => vec![Intent::AskBackground],
            false => Vec::new(),
        }
    }

    /// The colours for this background, where the theme leaves it to the terminal.
    pub fn stand_on(&mut self, ground: Ground) {
        self.ground = ground;
        let theme = self.palette.on(ground);
        if self.theme != *theme {
            self.theme = theme.clone();
            self.generation += 1;
        }
    }

    /// The terminal was asked what its background is.
    pub fn asked_background(&mut self) {
        self.ground_asked_ms = Some(self.now_ms);
    }

    /// Whether the answer of the terminal may be on its way.
    pub fn awaits_background(&self) -> bool {
        self.ground_asked_ms
            .is_some_and(|at| self.now_ms - at < ANSWER_MS)
    }

    /// Whether the colours are those for the terminal's background.
    pub fn follows_background(&self) -> bool {
        self.palette.is_auto()
    }

    /// More of what the run that is looked at printed.
    fn output(&mut self, run: &str, text: &str) {
        if let Overlay::Viewer(viewer) = &mut self.overlay
            && viewer.run.as_deref() == Some(run)
        {
            let grown = super::ansi::lines(text, MAX_OUTPUT_LINES, &self.theme);
            // Who reads the end goes on to read the end.
            if viewer.lines.is_empty() || viewer.top + self.seen_height >= viewer.lines.len() {
                viewer.top = grown.len();
            }
            viewer.lines = grown;
        }
    }

    /// Said where the person looks.
    fn exported(&mut self, outcome: Result<String, String>) {
        match (&mut self.overlay, outcome) {
            (Overlay::History(pane), outcome) => pane.exported(outcome),
            (_, Ok(text)) => self.notify(Tone::Calm, text),
            (_, Err(why)) => self.notify(Tone::Bad, why),
        }
    }

    fn files_listed(&mut self) {
        if let Some(note) = self.files.as_ref().and_then(|files| files.note()) {
            self.hint = Some(note.to_string());
        }
        self.in_box(|composer, around| composer.files_listed(around));
    }

    /// The run that the viewer is attached to.
    pub fn attached(&self) -> Option<String> {
        match &self.overlay {
            Overlay::Viewer(viewer) => viewer.run.clone(),
            _ => None,
        }
    }

    /// Something on the screen changes by itself.
    pub fn moves(&self) -> bool {
        // While it waits for a person, nothing does.
        let is_asked = self.asked.is_some() && !self.quiet.waits();
        (self.is_busy() && !is_asked)
            || self.typed_ms.is_some()
            || self.searches()
            || self.attached().is_some()
            || self.quiet.waits()
            || matches!(&self.overlay, Overlay::Card(card) if card.moves())
            || matches!(self.behind.as_deref(), Some(Overlay::Card(card)) if card.moves())
            || !self.user_commands.is_empty()
    }

    /// The conversation as plain text, for a terminal that keeps it.
    pub fn printed(&mut self) -> String {
        let height = usize::MAX;
        let (mut layout, transcript) = self.layout_context();
        transcript.scroll_home();
        let lines = transcript.visible(height, &mut layout);
        let line = |line: &Line<'_>| {
            let text: String = line.spans.iter().map(|s| s.content.as_ref()).collect();
            text.trim_end().to_string()
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// A short word goes into the hint line; what matters stays in the conversation.
    fn notify(&mut self, tone: Tone, text: String) {
        // It was not found, or something else is told meanwhile.
        self.hint
            .take_if(|hint| hint.as_str() == LOOKING_FOR_SESSION);
        // The conversation that is being opened takes the place of what is shown now.
        let is_notice = matches!(tone, Tone::Warn | Tone::Bad);
        let is_open = !matches!(
            self.phase,
            Phase::Starting | Phase::Nothing | Phase::Opening
        );
        if is_notice && !is_open {
            self.warned.push(text.clone());
        }
        if tone == Tone::Calm && text.contains('\n') && !is_open {
            self.told.push(text.clone());
        }
        match tone {
            Tone::Calm if !text.contains('\n') => self.hint = Some(text),
            _ => self.transcript.add_notice(tone, text),
        }
    }

    /// An offer is gone from the card; behind the last one a new session begins.
    fn dismissed(&mut self, id: &str, outcome: Result<(), String>) -> Vec<Intent> {
        let Some(card) = self.card() else {
            return Vec::new();
        };
        match outcome {
            Ok(()) if card.dismissed(id) => Vec::new(),
            Ok(()) => {
                self.overlay = Overlay::None;
                self.behind = None;
                self.hint = Some("dismissed: rewake --all offers it again".into());
                vec![Intent::Open {
                    which: Which::New,
                    take_over: false,
                }]
            }
            Err(why) => {
                self.hint = Some(format!("cannot dismiss: {why}"));
                Vec::new()
            }
        }
    }

    fn details(&mut self, id: &str, details: Option<Details>) {
        let now_ms = self.now_ms;
        if let Some(card) = self.card()
            && let Some(offer) = card.offers.iter_mut().find(|o| o.info.id == id)
        {
            card.looked_ms = now_ms;
            offer.details = details;
        }
    }

    /// The card, also while the help lies over it.
    fn card(&mut self) -> Option<&mut Card> {
        match (&mut self.overlay, self.behind.as_deref_mut()) {
            (Overlay::Card(card), _) | (_, Some(Overlay::Card(card))) => Some(card),
            _ => None,
        }
    }

    /// What asks lies over all else from now on. What stands in the box already waits.
    fn raise(&mut self, overlay: Overlay) {
        self.asking += 1;
        self.aside = !self.composer.is_empty();
        self.overlay = overlay;
        self.behind = None;
        self.page = Page::default();
    }

    /// What a key would answer, by its number.
    pub(super) fn asking(&self) -> Option<Asking> {
        match &self.overlay {
            Overlay::None => self.asked.as_ref().map(|asked| asked.number),
            Overlay::Card(_)
            | Overlay::FirstRun(_)
            | Overlay::Trust(_)
            | Overlay::Confirm { .. } => Some(self.asking),
            Overlay::Rewind(pane) if pane.asks() => Some(self.asking),
            _ => None,
        }
    }

    /// What is to be known of what was just drawn, and is not known yet.
    pub fn seen(&mut self) -> Vec<Intent> {
        let ask = match &mut self.overlay {
            Overlay::History(pane) => pane.seen(),
            _ => None,
        };
        let mut asks: Vec<Intent> = ask.map(Intent::History).into_iter().collect();
        if let Some(session) = self.id.clone() {
            let spans = self.transcript.ask_changes();
            if !spans.is_empty() {
                asks.push(Intent::CallChanges { session, spans });
            }
            let edits = self.transcript.ask_places();
            if !edits.is_empty() {
                asks.push(Intent::EditPlaces(edits));
            }
        }
        asks
    }

    /// What was drawn from one time to the other is on the screen.
    pub fn drawn(&mut self, began: Instant, ended: Instant) {
        let asking = self.asking();
        self.quiet.drawn(asking, began, ended);
        if matches!(self.overlay, Overlay::None)
            && let Some(asked) = &mut self.asked
        {
            asked.drawn();
        }
        if matches!(self.overlay, Overlay::Trust(_) | Overlay::Confirm { .. }) {
            self.page.drawn();
        }
    }

    /// Whether keys answer what asks now.
    pub fn readiness(&self) -> Readiness {
        match self.has_words_in_front() {
            true => Readiness::Behind,
            false if self.quiet.is_armed() => Readiness::Armed,
            false => Readiness::Quiet,
        }
    }

    fn has_words_in_front(&self) -> bool {
        !self.composer.is_empty() && !self.aside
    }

    /// What is typed is kept when there was a pause, or it was typed for long.
    fn tick(&mut self, now: Instant) -> Vec<Intent> {
        let asking = self.asking();
        if asking.is_none() {
            self.aside = false;
        }
        let may_arm = !self.has_words_in_front();
        self.quiet.tick(asking, may_arm, now);
        if self.code.changed() {
            self.generation += 1;
        }
        self.release_offer_lines();
        if !self.held_lines.is_empty() && !self.holds_lines() {
            return self.held();
        }
        let mut intents = self.search_on();
        let now_ms = self.now_ms;
        if let Some(card) = self.card() {
            let again = card.look_again(now_ms);
            intents.extend(again.map(Intent::LookAgain));
        }
        intents.extend(match self.typed_ms {
            // There is no session yet to keep it in.
            Some(_) if !self.has_session() => Vec::new(),
            Some(at) if self.now_ms - at >= KEEP_INPUT_MS => self.keep_input(),
            _ => Vec::new(),
        });
        intents
    }

    /// A session is there to keep words in.
    fn has_session(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Starting | Phase::Nothing | Phase::Opening
        )
    }

    /// The program is being left, and the conversation is what is seen of it.
    pub fn leave(&mut self) -> Vec<Intent> {
        self.is_leaving = true;
        self.overlay = Overlay::None;
        self.behind = None;
        self.keep_input()
    }

    /// Whether the program is being left.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Has the engine keep what stands in the input box.
    pub fn keep_input(&mut self) -> Vec<Intent> {
        self.typed_ms = None;
        let text = self.composer.draft().unwrap_or_default();
        match (self.phase, &self.id) {
            (Phase::Ended, Some(id)) => vec![Intent::KeepAside(id.clone(), text)],
            _ => vec![Intent::Engine(Command::KeepInput(text))],
        }
    }

    /// What the terminal's own frame says.
    pub fn title(&self) -> String {
        let title = self.now.title.as_deref().unwrap_or("new session");
        let title = crate::core::marks::title_line(title, 60);
        let state = match (&self.asked, self.phase) {
            (Some(_), _) => "asks: ",
            (None, Phase::Working { .. }) => "works: ",
            _ => "",
        };
        let title = super::text::clean_line(&title);
        let title: String = title.chars().filter(|c| !c.is_control()).collect();
        format!("rewake: {state}{title}")
    }

    /// Calls the person when they look elsewhere and it is worth it.
    fn call(&self, on: NotifyOn, what: &str) -> Option<Intent> {
        let worked_ms = match self.phase {
            Phase::Working { since_ms } => (self.now_ms - since_ms).max(0),
            _ => 0,
        };
        let worked = Duration::from_millis(u64::try_from(worked_ms).unwrap_or(0));
        let title = self.now.title.as_deref().unwrap_or("new session");
        let call = Call::new(on, &format!("{what}: {title}"));
        let is_due = !self.has_focus && call.is_due(&self.notify, worked);
        is_due.then_some(Intent::Call(call))
    }

    /// Something waits for the person's word, or for Enter.
    pub fn goes_on(&self) -> bool {
        let waits = match self.phase {
            Phase::Resting(Why::Halted | Why::CrashLoop | Why::Idle) => self.now.owes,
            Phase::Resting(Why::Paused | Why::Limit) => true,
            _ => false,
        };
        waits || (matches!(self.phase, Phase::Resting(_)) && !self.queued.is_empty())
    }

    /// How old what would be lost is, milliseconds. `None`: everything is on the disk.
    pub fn unsaved_ms(&self) -> Option<i64> {
        let at = self.kept.at_ms?;
        let typed = self.typed_ms.filter(|at| self.now_ms - at > SLOW_KEEP_MS);
        let is_pending = self.kept.is_pending || typed.is_some();
        is_pending.then(|| (self.now_ms - at).max(0))
    }

    /// Whether a session is being opened, or the engine works.
    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Working { .. } | Phase::Opening)
    }

    /// What the lines of the conversation are made with, and the conversation itself.
    pub fn layout_context(&mut self) -> (LayoutContext<'_>, &mut Transcript) {
        let layout = LayoutContext {
            width: self.size.0,
            theme: &self.theme,
            code: &mut self.code,
            generation: self.generation,
            now_ms: self.now_ms,
            zone: &self.zone,
        };
        (layout, &mut self.transcript)
    }
}

/// What is typed is on the disk by then, unless the disk is slow.
const SLOW_KEEP_MS: i64 = 1_000;

/// An answer of the terminal that did not come by then does not come.
const ANSWER_MS: i64 = 2_000;

/// Unsent words are in the store this long after the last key.
const KEEP_INPUT_MS: i64 = 300;

/// Of the output of a run that is looked at.
const MAX_OUTPUT_LINES: usize = 500;

/// What a start begins with.
#[derive(Debug)]
pub enum Begin {
    Offers {
        offers: Vec<Offer>,
        prompt: Option<String>,
    },
    Open {
        which: Which,
        prompt: Option<String>,
    },
    FirstRun {
        first: FirstRun,
        prompt: Option<String>,
    },
    Trust {
        project: Box<Project>,
        then: Box<Begin>,
    },
    /// A session is picked, to be gone on with or, with `fork`, to be copied.
    History { fork: bool, prompt: Option<String> },
}

impl Begin {
    /// What was to be said, when nothing comes of it.
    fn into_prompt(self) -> Option<String> {
        match self {
            Begin::Offers { prompt, .. }
            | Begin::Open { prompt, .. }
            | Begin::FirstRun { prompt, .. }
            | Begin::History { prompt, .. } => prompt,
            Begin::Trust { then, .. } => then.into_prompt(),
        }
    }
}

/// What is to be said, and the images that go with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    pub text: String,
    pub images: Vec<PathBuf>,
    /// Parts of the text that may name more of them.
    pub looks: Vec<Look>,
    /// A custom command, which stands for the text: what it says is read when it is sent.
    pub command: Option<CommandLine>,
}

impl Words {
    fn plain(text: String) -> Words {
        Words {
            text,
            ..Words::default()
        }
    }

    /// A custom command, as it was typed.
    pub fn of_command(command: CommandLine) -> Words {
        Words {
            text: command.line(),
            command: Some(command),
            ..Words::default()
        }
    }

    /// What the program was started with: a prompt, or a custom command.
    fn given(prompt: String) -> Words {
        let command = CommandLine::parse(&prompt).filter(|command| {
            is_command(&prompt) && (is_prompt(&command.name) || !is_own(&command.name))
        });
        command.map_or_else(|| Words::plain(prompt), Words::of_command)
    }
}

use kept_words::Elsewhere;
pub use kept_words::WordsPlace;
pub use last_here::LastHere;
pub use quiet::{Asking, Quiet};
pub use user_commands::UserCommand;

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
