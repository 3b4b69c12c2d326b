//! Everything that is ever stored about a session: the compatibility boundary.
//!
//! A session is a chain of [`Record`]s; a record is an [`Entry`] with its place in the
//! chain and its time. Entries are facts in the past tense. They are never edited.
//!
//! Compatibility: the JSON of an entry is `{"kind": "...", ...}`. Fields may be added with
//! `#[serde(default)]`; kinds and fields are never renamed or removed. A kind that is not
//! known here is refused on reading, never skipped, since the state could not be folded.
//!
//! Invariant: nothing here holds a path, id or handle that only means something to one
//! process; an entry read ten years later on another machine still says what happened.

mod assignment;
mod call;
mod choice;
mod content;
mod kept;
mod plan;
mod usage;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::form::{FormAnswer, ServerQuestion};

pub use assignment::Assignment;
pub use call::{By, CallId, ChildRun, Fact, Guard, Memory, MemoryKind, Outcome, Output, Verdict};
pub use choice::{Choice, FallbackModel, Mode, RunLimits, Unfit};
pub use content::{BlobRef, Block, Image, Layers, StopReason, ToolSpec, UsedCommand, Via};
pub use kept::{Kept, KeptWhy, MAX_KEPT};
pub use plan::{Plan, PlanStep, StepState};
pub use usage::{MAX_TOKENS, Spent, Usage, token_count};

/// The place of an entry in its chain, from 0. A fork shares the places of its ancestors,
/// so a place is unique along one path, and it needs no store to be known.
pub type Seq = u64;

/// One entry with its place and its time (UTC, milliseconds since 1970).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The place of the entry in its chain.
    pub seq: Seq,
    /// When it was recorded: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub entry: Entry,
}

/// One fact of a session. JSON names its kind in `kind`; [`Entry::kind`] is that name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The first entry of a session that is not a fork.
    Opened {
        /// The folder the session works in: absolute, as given by the user.
        folder: String,
        /// The version of rewake that opened it.
        version: String,
        /// `provider/model`.
        model: String,
        /// What may be done without asking, at the start.
        mode: Mode,
        /// What requests begin with, as this version rendered it.
        layers: Layers,
    },
    /// The session is that of a sub-agent. It follows `Opened`.
    Assigned(Assignment),
    /// Layers 1 and 2 were rendered again: another version of rewake, or a new context.
    Rendered {
        /// The version of rewake that rendered them.
        version: String,
        layers: Layers,
    },
    /// The user's words, or an outside signal's.
    Said {
        /// The words as they were given.
        text: String,
        /// Images that came with the words, in their order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// How the words came in.
        via: Via,
        /// The command that stands for the words. `None`: they are as they were typed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<UsedCommand>,
        /// Which signal they came with: `cli`. `None`: they were said where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// One whole answer of the model. A stream that was cut is never one.
    Replied {
        /// In the order the model gave them.
        blocks: Vec<Block>,
        /// What the provider counted for the request and this answer.
        usage: Usage,
        /// Why the answer ended.
        stop: StopReason,
        /// `provider/model` that made it: thinking goes back only to its maker.
        model: String,
        /// From the request to the last byte, milliseconds.
        #[serde(default)]
        took_ms: u64,
        /// What the request had, about: what tokens are learnt from.
        #[serde(default)]
        asked_bytes: u64,
    },
    /// A person is asked about a call: other processes see the question here. One about the same
    /// call that follows replaces it.
    Asked {
        /// The call that is asked about.
        call: CallId,
        /// What the call does that needs a person.
        why: String,
        /// The rule that "always" would add.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Of a command: how far it would reach.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
        /// Of a call that is about a path: where that leads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// A server asks, in the middle of the call. `None`: whether the call may run is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Box<ServerQuestion>>,
    },
    /// What a server gets for its question. It is recorded before it is sent: the same question
    /// of the same call is not asked a second time.
    Answered {
        /// The call in which it was asked.
        call: CallId,
        /// The place of its `Asked`.
        asked: Seq,
        /// As that of the question.
        key: String,
        answer: FormAnswer,
        /// `Start`: nobody was there.
        by: By,
        /// Which signal it came with. `None`: it was given where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person's or a hook's verdict. One that follows from a rule is derived, not stored.
    Decided {
        /// The call that was decided on.
        call: CallId,
        verdict: Verdict,
        /// Who decided. Hooks do not exist yet: so far always `Person`.
        by: By,
        /// Of a command that was allowed: how far it may reach. In logs of older versions
        /// there is none: what was allowed then ran without a sandbox.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
        /// Of a call that is about a path: where that led when the person was asked. It acts
        /// there or not at all. In logs of older versions there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// The rule that is allowed with it for the rest of this session, as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Which signal it came with. `None`: it was given where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// About to act: all that is needed to settle the call after a crash.
    Started {
        /// The call that is begun.
        call: CallId,
        guard: Guard,
        /// Of a command: how far it may reach, also when it is begun only after a crash. In
        /// logs of older versions there is none: commands ran without a sandbox then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
    },
    /// The one result of a call.
    Finished {
        /// The call whose result this is. It is the only one it gets.
        call: CallId,
        outcome: Outcome,
        /// What of the result changes the state. `None`: nothing but the call's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fact: Option<Fact>,
        /// The name of the tree that says what the workspace's files were behind the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
    },
    /// The user stopped the agent. Recorded before it is obeyed.
    Stopped {
        /// What the model had said so far; it is sent back as the model's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
        /// Which signal it came with. `None`: it was asked for where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person paused the session: what was begun ends, and nothing more is begun.
    Paused {
        /// As that of `Stopped`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person lifted the pause.
    Lifted {
        /// As that of `Stopped`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// The model call failed for good. The user is told; the agent waits.
    Failed {
        error: Failure,
        /// What the model had said before the stream broke: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    /// What the model is told besides: it owes no answer for it.
    Noted {
        /// What the model is told.
        text: String,
        /// What the note is about, where something follows from that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<About>,
    },
    /// The oldest exchanges of the context were summarised. The summary replaces the one before.
    #[serde(rename = "closed")]
    Compacted {
        /// The number of windows that left the context so far, this one included, from 1.
        window: u32,
        /// The place of the first entry that the summary stands for.
        first: Seq,
        /// The place of the last entry that the summary stands for.
        last: Seq,
        /// The summary itself, as it stands in requests.
        summary: String,
        /// Who wrote the summary.
        by: SummaryBy,
        /// What the summary model was asked since the last entry that says so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// All that requests begin with from here on: the summary, and what is said again
        /// with it. `None` in logs of version 0.1: it is rendered as that version did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preface: Option<String>,
    },
    /// Continuation checkpoint: the context starts again from this note.
    Continued {
        /// The whole text that the context begins again with.
        note: String,
        /// Who wrote it. `Digest` in logs that do not say.
        #[serde(default)]
        by: SummaryBy,
        /// As that of `Compacted`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The part of the note that a model wrote. `None`: no model did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        story: Option<String>,
    },
    /// Old results left the context: requests have a line in place of each.
    Freed {
        /// Oldest first.
        results: Vec<FreedResult>,
    },
    /// A checkpoint without a call.
    Saved {
        /// What the checkpoint was made for.
        reason: SaveReason,
        /// The name of the tree that says what the workspace's files were here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// Why the files before an effect could not be kept: said to the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The workspace's files are about to be set back. What is to be done is what differs between
    /// the two trees, so whoever finds this without its `Restored` does the rest.
    Restoring {
        /// The name of the tree that says what the files were until now.
        before: String,
        /// The name of the tree that says what they are to be.
        target: String,
        /// The entry whose files are meant. `None`: the last setting back is taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Seq>,
        /// All that is covered is to be as there, whoever changed it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
        /// They are put into the folder of a new fork, in which nothing lies yet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        new_folder: bool,
        /// What stays as it is, and why: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Kept>,
        /// How many more stay as they are.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_kept: u64,
    },
    /// The files were set back.
    Restored {
        /// The name of the tree that says what the files are now. `None`: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// They were put into the folder of a new fork.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        new_folder: bool,
        /// Files and links that have their earlier content again.
        written: u64,
        /// Files and links that are gone again.
        removed: u64,
        /// Which these were: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        /// What stays as it was, and why: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Kept>,
        /// How many more stay as they were.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_kept: u64,
        /// Why nothing was set back. `None`: it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The first entry of a fork. It closes every open call: those belong to the other branch.
    Forked {
        /// Where the fork goes on from.
        from: ForkPoint,
        /// The folder that it works in, which has files of its own. `None`: that of the other
        /// session, whose files both share.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    /// An answer was compared with the schema that it has to fit.
    Checked {
        /// The place of the `Replied` entry.
        answer: Seq,
        /// What does not fit. `None`: it fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfit: Option<Unfit>,
        /// What the model is told, which owes another answer for it. `None`: it is not asked
        /// again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    /// Another model, mode, effort or temperature, or other limits, from here on.
    Chose(Choice),
    /// A shell command of the user (`!`) is about to be begun. Its end is a `Noted` that names
    /// this entry.
    UserCommand {
        /// The command line, as it was typed.
        command: String,
        /// `Supervised` for one under a keeper, `Opaque` for one that has the terminal.
        guard: Guard,
    },
    /// A person named the session.
    Named {
        /// The session's name. It stands in place of the first words said.
        title: String,
    },
    /// A model was asked for a title. It is asked once, whatever came of it.
    Titled {
        /// It stands in place of the first words said. `None`: the model gave none, or a person
        /// had named the session meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What the model was asked for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
    },
    /// A person does not want to be offered the session any more. It holds as long as this is the
    /// last entry: whoever takes the session up again, or appends anything, wants it.
    Dismissed,
    /// The model's context window in tokens, learnt from the provider's own error, or from
    /// counts that stay behind what was sent.
    Learned {
        /// `provider/model` that the limit is of.
        model: String,
        /// Tokens.
        limit: u64,
        /// What the provider counted in the request that was too long, and what it had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// How large that request was, about. 0: not known.
        #[serde(default)]
        bytes: u64,
        /// There was no error: the server cut long requests and said nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        silently: bool,
        /// Not the window was learnt (`limit` is what was known of it), but that the server
        /// refuses images that were sent. From here on they are sent as text to this model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        images: Option<Refusal>,
    },
    /// A process took the session up again.
    #[serde(rename = "woke")]
    Resumed {
        /// Who took it up. With `Person`, starts that came to nothing are counted anew.
        by: By,
        /// What was found: one line for the user.
        found: String,
        /// The answer that was streaming at the crash: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
        /// The process before left because nothing could be recorded, as on a full disk: its start
        /// did not fail, and is not counted.
        #[serde(default, skip_serializing_if = "is_false")]
        unrecorded: bool,
        /// What an open call began went on without a process: the start waits for it. This start
        /// and the next one do not count as starts that came to nothing.
        #[serde(default, skip_serializing_if = "is_false")]
        at_work: bool,
    },
}

fn is_false(is: &bool) -> bool {
    !is
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A result that left the context for a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedResult {
    /// The place of its `Finished`.
    pub at: Seq,
    /// What requests have in its place: what came of the call, and the address.
    pub line: String,
    /// The tool and what the call was about: the same call again is one that reads it again.
    #[serde(default)]
    pub call: String,
}

/// Images that a server refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The server's words, short.
    pub why: String,
    /// The model takes none at all: those that come later are not sent either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
}

/// Why a model call failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// What was tried and on what.
    pub message: String,
    /// What the user can do about it. `None`: nothing is known that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What sort of failure it was: whether it is tried again depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The request is longer than the model's context window.
    TooLong,
    /// The provider takes no more requests or tokens for a time.
    RateLimit,
    /// The provider has no room at the moment, or a fault of its own.
    Overloaded,
    /// The key is missing, wrong, or not allowed to use the model.
    Auth,
    /// The provider says the request is invalid.
    BadRequest,
    /// No connection, a cut stream, a timeout.
    Network,
    /// The answer makes no sense in its protocol.
    Protocol,
    /// The model answered, but with nothing that can be used, too many times.
    Nonsense,
}

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum About {
    /// The background command with this id ended.
    BackgroundEnded {
        /// The id that the model was given: as in `Fact::Background`.
        id: String,
        /// `None` when it did not exit by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Of a sub-agent: what its models were asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The model had ended its turn, and is asked again because of this: a run without a
        /// screen waited for the sub-agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks_model: bool,
    },
    /// A shell command of the user is over.
    UserCommandEnded {
        /// The place of its `UserCommand`.
        entry: Seq,
        /// `None` when it did not exit by itself, or that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// AGENTS.md or another instruction file changed.
    Instructions,
    /// What had left the context and is of use now.
    Recalled,
    /// The mode, or whether a person answers questions, is another than the model knew.
    Mode { mode: Mode, is_attended: bool },
    /// Files that the model has read were changed outside of rewake.
    FilesChanged {
        /// As they are told: below the workspace's root, or absolute.
        paths: Vec<String>,
        /// So many others changed too.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
    },
}

/// Who wrote what stands for the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryBy {
    /// The summary model.
    Model,
    /// Made from the log, since the model could not be asked.
    #[default]
    Digest,
    /// Nobody: one line says which entries were left out.
    Placeholder,
}

/// What a checkpoint without a call was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveReason {
    /// The time between two checkpoints was over.
    Timer,
    /// The end of a turn. Not written by this version.
    Turn,
    /// A signal or the end of the terminal made the program leave.
    Signal,
    /// The program left as it was asked to, or because it was done.
    Exit,
    /// The context was nearly full. Not written by this version.
    ContextLimit,
    /// A person asked for it. Not written by this version.
    Manual,
    /// The workspace's files changed outside of a call, or could not be kept. It belongs to the
    /// checkpoint before it.
    Files,
}

/// The session and the entry a fork goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The id of the session that it was forked from.
    pub session: String,
    /// The last entry that both have.
    pub seq: Seq,
}

impl Entry {
    /// The same with the signal that it came with, where an entry of its kind says that.
    pub fn from(mut self, signal: &str) -> Entry {
        let origin = match &mut self {
            Entry::Said { origin, .. }
            | Entry::Decided { origin, .. }
            | Entry::Answered { origin, .. }
            | Entry::Stopped { origin, .. }
            | Entry::Paused { origin }
            | Entry::Lifted { origin }
            | Entry::Chose(Choice { origin, .. }) => origin,
            _ => return self,
        };
        *origin = Some(signal.to_string());
        self
    }

    /// What the user typed: the words, or the command that stands for them.
    pub fn typed(&self) -> Option<Cow<'_, str>> {
        match self {
            Entry::Said {
                command: Some(command),
                ..
            } => Some(command.line().into()),
            Entry::Said { text, .. } => Some(text.into()),
            _ => None,
        }
    }

    /// The name of the kind as it is stored.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Opened { .. } => "opened",
            Entry::Assigned(_) => "assigned",
            Entry::Rendered { .. } => "rendered",
            Entry::Said { .. } => "said",
            Entry::Replied { .. } => "replied",
            Entry::Asked { .. } => "asked",
            Entry::Answered { .. } => "answered",
            Entry::Decided { .. } => "decided",
            Entry::Started { .. } => "started",
            Entry::Finished { .. } => "finished",
            Entry::Stopped { .. } => "stopped",
            Entry::Paused { .. } => "paused",
            Entry::Lifted { .. } => "lifted",
            Entry::Failed { .. } => "failed",
            Entry::Noted { .. } => "noted",
            Entry::Compacted { .. } => "closed",
            Entry::Continued { .. } => "continued",
            Entry::Freed { .. } => "freed",
            Entry::Saved { .. } => "saved",
            Entry::Restoring { .. } => "restoring",
            Entry::Restored { .. } => "restored",
            Entry::Forked { .. } => "forked",
            Entry::Checked { .. } => "checked",
            Entry::Chose(_) => "chose",
            Entry::UserCommand { .. } => "user_command",
            Entry::Named { .. } => "named",
            Entry::Titled { .. } => "titled",
            Entry::Dismissed => "dismissed",
            Entry::Learned { .. } => "learned",
            Entry::Resumed { .. } => "woke",
        }
    }

    /// What models were asked for this entry, each with its tokens.
    pub fn spent(&self) -> impl Iterator<Item = (&str, &Usage)> {
        let (answer, besides) = match self {
            Entry::Replied { model, usage, .. } => (Some((model.as_str(), usage)), &[][..]),
            Entry::Compacted { spent, .. }
            | Entry::Continued { spent, .. }
            | Entry::Titled { spent, .. }
            | Entry::Finished {
                fact: Some(Fact::Task { spent, .. }),
                ..
            }
            | Entry::Noted {
                about: Some(About::BackgroundEnded { spent, .. }),
                ..
            } => (None, &spent[..]),
            _ => (None, &[][..]),
        };
        answer
            .into_iter()
            .chain(besides.iter().map(|s| (s.model.as_str(), &s.usage)))
    }

    /// What it refers to of the blobs.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        let (images, output) = match self {
            Entry::Said { images, .. } => (images.as_slice(), None),
            Entry::Finished { outcome, .. } => match outcome {
                Outcome::Done { output }
                | Outcome::Error { output }
                | Outcome::Interrupted { output, .. } => {
                    (output.images.as_slice(), output.blob.as_ref())
                }
                Outcome::Denied { .. } => (&[][..], None),
            },
            _ => (&[][..], None),
        };
        images.iter().map(|image| &image.blob).chain(output)
    }

    /// A session can be resumed from behind this entry.
    pub fn is_checkpoint(&self) -> bool {
        if let Entry::Saved { reason, .. } = self {
            return *reason != SaveReason::Files;
        }
        matches!(
            self,
            Entry::Replied { .. }
                | Entry::Finished { .. }
                | Entry::Compacted { .. }
                | Entry::Continued { .. }
        )
    }
}
