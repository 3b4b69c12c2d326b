//! Messages to the screen, its requests to the outside, and what both carry.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::config::{Content, Project};
use crate::core::entry::{CallId, Choice, Record, Seq};
use crate::core::rewind::PathChoice;
use crate::core::rule::RuleScope;
use crate::core::tree::PathBytes;
use crate::engine::{Command, Rewinding};
use crate::mcp::offers::Offers;
use crate::model::provider::Secret;
use crate::session::{
    ChangedFiles, CommandLine, Details, EditPlace, EditQuery, Finished, ForkFolder, NotSaid, Offer,
    SessionSelector, StillRunning, is_prompt,
};
use crate::ui::commands::{CustomList, is_command, is_own};
use crate::ui::composer::ImageCandidate;
use crate::ui::history;
use crate::ui::live::LiveEvent;
use crate::ui::notify::Call;
use crate::ui::overlay::{FirstRun, Picker, Review};
use crate::ui::rewind::RewindRequest;
use crate::ui::theme::Palette;
use crate::ui::transcript::{Span, Tone};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::text::Line;

/// The first thing that the screen shows or opens.
#[derive(Debug)]
pub enum Begin {
    Offers {
        offers: Vec<Offer>,
        prompt: Option<String>,
    },
    Open {
        which: SessionSelector,
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
    /// A session is picked from the history, to be resumed or, with `fork`, to be forked.
    History { fork: bool, prompt: Option<String> },
}

impl Begin {
    /// Returns the prompt, so that it is not lost when this start is dropped.
    pub(super) fn into_prompt(self) -> Option<String> {
        match self {
            Begin::Offers { prompt, .. }
            | Begin::Open { prompt, .. }
            | Begin::FirstRun { prompt, .. }
            | Begin::History { prompt, .. } => prompt,
            Begin::Trust { then, .. } => then.into_prompt(),
        }
    }
}

/// A message to send, with its images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutgoingMessage {
    pub text: String,
    /// The text as the box showed it, with labels for pasted parts. Empty: the same as `text`.
    pub shown: String,
    pub images: Vec<PathBuf>,
    /// Parts of the text that may name more images.
    pub looks: Vec<ImageCandidate>,
    /// A custom command that replaces the text. It is expanded when it is sent.
    pub command: Option<CommandLine>,
}

impl OutgoingMessage {
    /// Returns the text as the person saw it. Only this text can mention a resource of a server.
    pub fn seen(&self) -> &str {
        match self.shown.is_empty() {
            true => &self.text,
            false => &self.shown,
        }
    }

    pub(super) fn plain(text: String) -> OutgoingMessage {
        OutgoingMessage {
            text,
            ..OutgoingMessage::default()
        }
    }

    /// Makes a message of a custom command, as it was typed.
    pub fn of_command(command: CommandLine) -> OutgoingMessage {
        OutgoingMessage {
            text: command.line(),
            command: Some(command),
            ..OutgoingMessage::default()
        }
    }

    /// Returns the message that the program was started with: a prompt, or a custom command.
    pub(super) fn given(prompt: String) -> OutgoingMessage {
        let command = CommandLine::parse(&prompt).filter(|command| {
            is_command(&prompt) && (is_prompt(&command.name) || !is_own(&command.name))
        });
        command.map_or_else(
            || OutgoingMessage::plain(prompt),
            OutgoingMessage::of_command,
        )
    }
}

/// A place where a message is stored, other than the draft of the open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredMessagePlace {
    /// The file that the editor of this session wrote.
    Editor { session: String },
}

/// A message to the screen.
pub enum Msg {
    /// A line and its time, in line mode.
    Line(String, Instant),
    /// Ctrl+C in line mode.
    Interrupted,
    /// A key and its time.
    Key(KeyEvent, Instant),
    /// Enter at the end of text that came in one burst, and its time.
    BurstEnter(Instant),
    /// Pasted text and its time.
    Paste(String, Instant),
    Mouse(MouseEvent),
    /// The terminal says whether it has the focus.
    Focus(bool),
    /// Columns and rows of the terminal.
    Resize(u16, u16),
    /// An event of the engine with this number. Events of older engines are dropped.
    Engine(u64, LiveEvent),
    /// Details from the log of an offered session, by the session's id.
    Details(String, Option<Details>),
    /// Running commands of offered sessions, by their ids. `None`: they cannot be read.
    StillRunning(Option<Vec<(String, Vec<StillRunning>)>>),
    /// The outcome of dismissing an offered session, by its id.
    Dismissed(String, Result<(), String>),
    /// The last lines of the output of running commands.
    Tails(Vec<(CallId, String)>),
    /// The text of the file whose change needs approval. `None`: there is no such file.
    AskedFile(CallId, Option<String>),
    /// Entries of a session before those that are shown, or the reason why they cannot be read.
    Earlier(String, Result<Vec<Record>, String>),
    History(history::HistoryResponse),
    /// Changes that calls of a session made to files. `None`: they are not known.
    CallChanges(String, Vec<(Span, Option<ChangedFiles>)>),
    /// The places in their files where edits were made.
    EditPlaces(Vec<EditPlace>),
    /// The images that a part of the text names, if it names nothing else.
    Looked(ImageCandidate, Option<Vec<PathBuf>>),
    /// The file of the image from the clipboard, or the reason why there is none.
    PastedImage(Result<PathBuf, String>),
    /// Text that was written in another program.
    Edited(Result<String, String>),
    /// The outcome of an intent, for the user.
    Notice(Tone, String),
    Show(String, Vec<Line<'static>>),
    /// Changed files, and a note about those that are not listed.
    Review(Review, Option<String>),
    /// The lines of a path that may be restored, or the reason why they cannot be shown.
    RewindDiff(PathBytes, Result<String, String>),
    /// The config was read again.
    Restyled(Box<Palette>),
    /// The colour of the background, as the terminal reports it.
    Background([u8; 3]),
    /// The terminal takes reports of the status.
    TakesStatus,
    /// The status line that the user's own command printed.
    OwnStatus(String),
    Branch(Option<String>),
    /// Warnings that no longer apply.
    NoLonger(Vec<String>),
    /// The answer about trust in the folder is stored, and its config is used or not.
    TrustSettled,
    /// Items to choose from.
    Pick(Picker),
    /// The key of this provider must be entered.
    AskKey(String),
    /// More output of the run that the viewer shows.
    Output(String, String),
    /// The files that may be mentioned were listed.
    FilesListed,
    /// The outcome of an export: content and place, or the reason for its failure.
    Exported(Result<String, String>),
    /// The custom commands were listed.
    Commands(CustomList),
    /// A custom command was not sent, and the reason.
    NotSaid(CommandLine, NotSaid),
    /// A message that mentions content of servers was not sent: the reason and a hint.
    WordsNotSaid(OutgoingMessage, NotSaid),
    /// The prompts and resources of a server, or the reason why they are not known and a hint.
    Offered(String, Result<Offers, (String, Option<String>)>),
    /// The last lines of the output of running commands of the user, by their run.
    UserTails(Vec<(String, String)>),
    /// Messages of the user in other sessions of the project, the newest last.
    Prompts(Vec<String>),
    /// The finished sessions of the folder, the newest first.
    LastHere(Vec<Finished>),
    /// The offers of a start, loaded again.
    Begin(Box<Begin>),
    Tick(Instant),
}

/// A request of the screen to the outside.
pub enum Intent {
    /// A command for the open engine.
    Engine(Command),
    Open {
        which: SessionSelector,
        take_over: bool,
    },
    /// Makes a fork with its own copy of the files, and opens it.
    ForkInto {
        id: String,
        /// The last entry that it shares. `None`: all of them.
        at: Option<Seq>,
        folder: ForkFolder,
    },
    /// Follows a session in which another process works.
    Watch(String),
    /// Sends a message of the user.
    Say(OutgoingMessage),
    /// Lists the custom commands again.
    Commands,
    /// Asks a server for the prompts and resources that it offers to people.
    AskServer(String),
    /// Looks whether a part of the text names images.
    Look(ImageCandidate),
    /// Lends the terminal to a recorded command of the user until it ends.
    OnTerminal {
        /// The `seq` of its entry.
        entry: Seq,
        command: String,
    },
    /// Opens the text in the user's own editor.
    Editor(String),
    /// Removes a message from its former place, because it is stored here now.
    Forget(StoredMessagePlace),
    /// Stores the draft of a session whose engine has ended: its id, and the draft.
    KeepAside(String, String),
    /// Copies text to the clipboard.
    Copy(String),
    /// Opens an address in a browser.
    OpenInBrowser(String),
    /// Takes an image from the clipboard.
    PasteImage,
    /// Reads details from the logs of these offers.
    Details(Vec<Offer>),
    /// Reads the file whose edit needs approval, for the numbers of its lines.
    ReadAsked(CallId, PathBuf),
    /// Looks at the running commands of these sessions again.
    LookAgain(Vec<String>),
    /// Stops offering a session.
    Dismiss(String),
    /// Fetches these entries, which are earlier than those that are shown.
    Earlier(RangeInclusive<Seq>),
    /// Writes the rules of an offer into a file of the user.
    AllowRule(RuleScope, String),
    /// Removes a rule from a list of a file of the user.
    RemoveRule {
        scope: RuleScope,
        list: String,
        rule: String,
    },
    History(history::HistoryRequest),
    /// Loads the changes that these calls of a session made to files.
    CallChanges {
        session: String,
        spans: Vec<Span>,
    },
    /// Finds the places in their files where these edits were made.
    EditPlaces(Vec<EditQuery>),
    /// Shows the storage of files.
    Files,
    Mcp,
    Hooks,
    Ps,
    /// Ends the command of this run.
    StopRun(String),
    Diff,
    /// Asks the engine to plan or do a restore of files.
    PlanRewind(RewindRequest),
    /// Makes a copy of a session up to this entry, with the files to restore in it and the text of
    /// its box. Opens the copy.
    RewindCopy {
        origin: String,
        to: Seq,
        files: Option<Box<Rewinding>>,
        draft: Option<String>,
    },
    /// Reads the lines of a path that may be restored.
    RewindDiff {
        rewinding: Arc<Rewinding>,
        path: PathBytes,
        choice: Option<PathChoice>,
    },
    /// Opens the user's own editor at a line of a file below the root.
    EditAt(String, usize),
    Doctor,
    /// Shows memories that these words find; without words, the newest.
    Memory(String),
    Skills,
    Permissions,
    Sessions,
    Export {
        session: String,
        /// The name as it was typed. With `.json` at its end, all entries are exported. Without a
        /// name, a free one in the folder is used.
        file: Option<String>,
    },
    Theme(String),
    Themes,
    /// Lists models to choose from, narrowed by these words.
    Models(String),
    /// Uses a model with the options chosen for it.
    UseModel {
        choice: Choice,
        /// The session then continues, since its model was gone.
        goes_on: bool,
    },
    /// Offers other models instead of this one, which is gone, and the reason.
    OfferModels {
        model: String,
        why: String,
    },
    Status,
    /// Shows the end of the output of this run.
    Tail(String),
    Redraw,
    /// Notifies the person, who looks elsewhere.
    Call(Call),
    /// Loads the offers of a start again.
    Offers,
    /// Offers a session although another process has it.
    OfferHeld(String),
    /// Asks for a key of this provider.
    AskKey(String),
    /// Stores the key, then starts with this model.
    KeepKey {
        provider: String,
        key: Secret,
        model: Option<String>,
    },
    RemoveKey(String),
    /// Stores the provider and the model that were chosen on the first screen.
    ChooseModel(String),
    Demo,
    /// Reads the config again and uses it, even if the session changed it.
    Reload,
    /// Trusts the folder with exactly this content.
    Trust(Content),
    /// Removes the trust in the folder: its config is not used.
    Distrust,
    Suspend,
    /// Asks the terminal for the colour of its background.
    AskBackground,
    Quit,
}

impl Intent {
    /// Opens a session that no other process has to leave for it.
    pub(super) fn open(which: SessionSelector) -> Intent {
        Intent::Open {
            which,
            take_over: false,
        }
    }
}
