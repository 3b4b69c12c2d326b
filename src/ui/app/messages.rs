//! What reaches the screen, and what it wants done outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::{Begin, Words, WordsPlace};
use crate::config::Content;
use crate::core::entry::{CallId, Choice, Record, Seq};
use crate::core::rewind::PathChoice;
use crate::core::rule::RuleScope;
use crate::core::tree::PathBytes;
use crate::engine::{Command, Rewinding};
use crate::mcp::offers::Offers;
use crate::model::provider::Secret;
use crate::session::{
    ChangedFiles, CommandLine, Details, EditPlace, EditQuery, Finished, ForkFolder, NotSaid, Offer,
    StillRunning, Which,
};
use crate::ui::commands::CustomList;
use crate::ui::composer::Look;
use crate::ui::history;
use crate::ui::live::LiveEvent;
use crate::ui::notify::Call;
use crate::ui::overlay::{Picker, Review};
use crate::ui::rewind::RewindRequest;
use crate::ui::theme::Palette;
use crate::ui::transcript::{Span, Tone};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::text::Line;

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
    Engine(u64, LiveEvent),
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
    /// Entries of a session before those that are shown, or why they cannot be read.
    Earlier(String, Result<Vec<Record>, String>),
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
    /// Words that name what servers have were not said: why, and what helps.
    WordsNotSaid(Words, NotSaid),
    /// What a server has for people, or why that is not known, and what helps.
    Offered(String, Result<Offers, (String, Option<String>)>),
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
    /// Asks a server for what it has for people.
    AskServer(String),
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
    /// An address that the person wants to see is given to a browser.
    OpenInBrowser(String),
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
    Mcp,
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

impl Intent {
    /// Opens a session that no other process has to leave for it.
    pub(super) fn open(which: Which) -> Intent {
        Intent::Open {
            which,
            take_over: false,
        }
    }
}
