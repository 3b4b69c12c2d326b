//! Everything that is ever stored about a session: the compatibility boundary.
//!
//! A session is a chain of [`Record`]s; a record is an [`Entry`] with its place in the
//! chain and its time. Entries are facts in the past tense. They are never edited.
//!
//! Compatibility: the JSON of an entry is `{"kind": "...", ...}`. Fields may be added with
//! `#[serde(default)]`; kinds and fields are never renamed or removed. A kind that is not
//! known here is refused on reading, never skipped, since the state could not be folded.
//!
//! Invariant: nothing here contains a path, id or handle that only means something to one process;
//! an entry read ten years later on another machine still says what happened.

mod assignment;
mod call;
mod call_id;
mod check;
mod choice;
mod content;
mod hook;
mod import_source;
mod kept;
mod learned;
mod plan;
mod recognised;
mod usage;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::file_clock::FileClock;
use super::form::{FormAnswer, ServerQuestion};

pub use assignment::Assignment;
pub use call::{By, ChildRun, Fact, Guard, Memory, MemoryKind, Outcome, Output, Verdict};
pub use call_id::CallId;
pub use check::CheckEnding;
pub use choice::{Choice, FallbackModel, Mode, RunLimits, Unfit};
pub use content::{BlobRef, Block, Image, PromptPrefix, StopReason, ToolSpec, UsedCommand, Via};
pub use hook::{HookEvent, HookResult, HookRun, HookVerdict, HookWrote};
pub use import_source::{ImportSource, ReplicaOrigin};
pub use kept::{KeptWhy, MAX_KEPT, UnrestoredPath};
pub use learned::{Learned, LearnedForm, OutputLimit, RequestForm};
pub use plan::{Plan, PlanStep, StepState};
pub use recognised::RecognisedBy;
pub use usage::{MAX_TOKENS, Spent, Usage, token_count};

/// The place of an entry in its chain, from 0. A fork shares the places of its ancestors, so a
/// place is unique along one path. It is known without a store.
pub type Seq = u64;

/// An entry with its place and its time.
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
        /// The permission mode at the start.
        mode: Mode,
        /// The beginning of every request, as this version rendered it.
        layers: PromptPrefix,
        /// The session of another agent that this one is a copy of. Until a `Forked`, only an
        /// import appends to it, and its calls have results without a start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        imported: Option<Box<ImportSource>>,
    },
    /// The session is a subagent. This entry follows `Opened`.
    Assigned(Assignment),
    /// Layers 1 and 2 were rendered again: another version of rewake, or a new context.
    Rendered {
        /// The version of rewake that rendered them.
        version: String,
        layers: PromptPrefix,
    },
    /// A message of the user, or of a signal from outside.
    Said {
        /// The words as they were given.
        text: String,
        /// Images that came with the words, in their order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// How the words came in.
        via: Via,
        /// The command whose text the words are. `None`: they are as they were typed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<UsedCommand>,
        /// The signal that brought the words: `cli`. `None`: they were typed where the session
        /// runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// One complete answer of the model. A stream that was cut is never recorded as one.
    Replied {
        /// The blocks in the order the model gave them.
        blocks: Vec<Block>,
        /// Tokens that the provider counted for the request and this answer.
        usage: Usage,
        /// Why the answer ended.
        stop: StopReason,
        /// `provider/model` that made it: thinking goes back only to its maker.
        model: String,
        /// From the request to the last byte, milliseconds.
        #[serde(default)]
        took_ms: u64,
        /// Approximate size of the request in bytes. The ratio of bytes to tokens is learnt from
        /// it.
        #[serde(default)]
        asked_bytes: u64,
        /// Tokens that another agent counted for an imported answer. They are not in any sum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_usage: Option<Usage>,
    },
    /// A person is asked about a call; other processes see the question here. A later question
    /// about the same call replaces it.
    Asked {
        /// The call that is asked about.
        call: CallId,
        /// The reason why the call needs approval.
        why: String,
        /// The rule that "always" would add.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// For a command: its sandbox policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
        /// For a call about a path: the real path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// The question of a server during the call. `None`: the question is whether the call may
        /// run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Box<ServerQuestion>>,
    },
    /// The answer to a server's question. It is recorded before it is sent, so the same question of
    /// the same call is not asked a second time.
    Answered {
        /// The call in which it was asked.
        call: CallId,
        /// The place of its `Asked`.
        asked: Seq,
        /// The key of the question.
        key: String,
        answer: FormAnswer,
        /// Who answered. `Start`: nobody was there.
        by: By,
        /// The signal that brought it. `None`: it was given where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person's verdict. One that follows from a rule or a hook is derived, not stored.
    Decided {
        /// The call that was decided on.
        call: CallId,
        verdict: Verdict,
        /// Who decided: always `Person`. The answers of hooks are in `Hooked`.
        by: By,
        /// For an allowed command: its sandbox policy. Logs of older versions have none: allowed
        /// commands then ran without a sandbox.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
        /// For a call about a path: the real path when the person was asked. The call acts on that
        /// path or not at all. Logs of older versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// The rule that the person allowed with it for the rest of this session, as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The signal that brought it. `None`: it was given where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A call is about to act. The entry has all that is needed to settle the call after a crash.
    Started {
        /// The call that starts.
        call: CallId,
        guard: Guard,
        /// For a command: its sandbox policy, which also applies if the command starts only after a
        /// crash. Logs of older versions have none: commands then ran without a sandbox.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
    },
    /// The one result of a call.
    Finished {
        /// The call with this result. A call gets only one.
        call: CallId,
        outcome: Outcome,
        /// The part of the result that changes the state. `None`: only the end of the call does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fact: Option<Fact>,
        /// Name of the tree of the workspace's files after the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
    },
    /// The user stopped the agent. It is recorded before the agent stops.
    Stopped {
        /// The unfinished answer of the model; it is sent back as the model's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
        /// The signal that brought it. `None`: it was requested where the session runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person paused the session: running calls end, and no new one starts.
    Paused {
        /// The same as in `Stopped`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// A person lifted the pause.
    Lifted {
        /// The same as in `Stopped`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// The model call failed for good. The user sees the error, and the agent waits.
    Failed {
        error: Failure,
        /// The unfinished answer when the stream broke: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    /// A note for the model, which needs no answer.
    Noted {
        /// The text that the model reads.
        text: String,
        /// The subject of the note, if something follows from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<About>,
    },
    /// The oldest turns of the context were summarised. The summary replaces the previous one.
    #[serde(rename = "closed")]
    Compacted {
        /// The number of compacted segments so far, this one included, from 1.
        window: u32,
        /// The place of the first summarised entry.
        first: Seq,
        /// The place of the last summarised entry.
        last: Seq,
        /// The summary itself, as it stands in requests.
        summary: String,
        /// Who wrote the summary.
        by: SummaryBy,
        /// Tokens that the summary model used since the last entry that records them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The text that requests begin with from here on: the summary, and the content that is
        /// repeated with it. `None` in logs of version 0.1: it is rendered as that version did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preface: Option<String>,
    },
    /// A continuation: the context starts over from this note.
    Continued {
        /// The whole text from which the context starts over.
        note: String,
        /// Author of the note. `Digest` in logs without this field.
        #[serde(default)]
        by: SummaryBy,
        /// The same as in `Compacted`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The part of the note that a model wrote. `None`: no model did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        story: Option<String>,
    },
    /// Old results left the context: in requests, a line replaces each.
    Freed {
        /// The results, oldest first.
        results: Vec<FreedResult>,
    },
    /// A checkpoint without a call.
    Saved {
        /// The reason for the checkpoint.
        reason: SaveReason,
        /// Name of the tree of the workspace's files at this point.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// Why the files could not be stored before an effect, in words for the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// The clock of the file system of the workspace's root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<FileClock>,
    },
    /// The workspace's files are about to be restored. The difference between the two trees says
    /// what to do, so a process that finds no `Restored` after this entry finishes the restore.
    Restoring {
        /// Name of the tree of the files until now.
        before: String,
        /// Name of the tree that the restore leads to.
        target: String,
        /// The entry whose files are restored. `None`: the last restore is undone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Seq>,
        /// Every covered file is restored, no matter who changed it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
        /// The files are put into the folder of a new fork, which is still empty.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        new_folder: bool,
        /// Paths that the restore leaves unchanged, and why: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<UnrestoredPath>,
        /// Number of further paths that stay unchanged.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_kept: u64,
    },
    /// The files were restored.
    Restored {
        /// Name of the tree of the files now. `None`: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// The files were put into the folder of a new fork.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        new_folder: bool,
        /// Number of files and links that have their earlier content again.
        written: u64,
        /// Number of files and links that were removed again.
        removed: u64,
        /// The paths of these files and links: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        /// Paths that stayed unchanged, and why: at most [`MAX_KEPT`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<UnrestoredPath>,
        /// Number of further paths that stayed unchanged.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_kept: u64,
        /// Why nothing was restored. `None`: something was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The first entry of a fork. It closes every open call: those belong to the other branch.
    Forked {
        /// The point from which the fork continues.
        from: ForkPoint,
        /// The separate folder of the fork. `None`: the fork shares the files in the folder of the
        /// other session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// The entry before this one belongs to a copy that was imported. Its mode and the files that
        /// were read in it do not apply here, and `folder` has no copies of its files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_replica: Option<ReplicaOrigin>,
    },
    /// Another machine continues the session, since the one before was lost. What applied to the
    /// session there does not apply here.
    Moved {
        /// The name of the machine before. Empty: it is not known.
        from: String,
        /// The latest end of its commands, by the clock of the database.
        until: String,
        /// The name of this machine, its system, and the start of the machine.
        host: String,
        os: String,
        boot: String,
        /// The mode of this machine.
        mode: Mode,
        /// The clone here, in which the session works from here on. Logs of older versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    /// The folder of the session was moved or renamed, and the session continues in its new place.
    /// Paths of earlier entries are those of the old place.
    Relocated {
        /// The folder before.
        from: String,
        /// The folder in which the session works from here on.
        folder: String,
        /// The root of the workspace before, and now.
        from_root: String,
        root: String,
        /// How the new place was recognised.
        by: RecognisedBy,
    },
    /// An answer was compared with the schema that it has to fit.
    Checked {
        /// The place of the `Replied` entry.
        answer: Seq,
        /// The place and the reason of a mismatch. `None`: the answer fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfit: Option<Unfit>,
        /// The text that asks the model for another answer. `None`: the model is not asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    /// Another model, mode, effort or temperature, or other limits, from here on.
    Chose(Choice),
    /// A shell command of the user (`!`) is about to start. Its end is a `Noted` that names this
    /// entry.
    UserCommand {
        /// The command line, as it was typed.
        command: String,
        /// `Supervised` for one under a keeper, `Opaque` for one that has the terminal.
        guard: Guard,
    },
    /// A check is about to run, since calls of an answer changed files that it matches. Its end is a
    /// `Noted` that names this entry.
    CheckStarted {
        /// The name of the check.
        check: String,
        /// The place of the answer.
        of: Seq,
        /// Name of the run folder, unique for ever. Empty: it could not be prepared.
        run: String,
        /// Id of the boot in which it was prepared. In another boot it is never started.
        boot: String,
        /// The changed files, below the root of the workspace: at most 200.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// Hooks are about to run. They follow an entry of the same transaction.
    Hooking {
        event: HookEvent,
        /// The place of the entry that they follow.
        of: Seq,
        /// The hooks, in the order of their files.
        runs: Vec<HookRun>,
    },
    /// The results of all hooks of a `Hooking`, or of those about one call.
    Hooked {
        event: HookEvent,
        /// The place of the `Hooking`.
        of: Seq,
        /// The call that they are about. `None`: they are about no call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// In the order of the `Hooking`.
        results: Vec<HookResult>,
    },
    /// A person named the session.
    Named {
        /// The session's name. Lists show it instead of the first message.
        title: String,
    },
    /// A model was asked for a title. It is asked only once, whatever the result.
    Titled {
        /// The title that lists show instead of the first message. `None`: the model gave none, or
        /// a person had named the session meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Tokens that the model used for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
    },
    /// A person dismissed the session: it is not offered any more. This applies as long as this is
    /// the last entry. A resume or any other new entry ends it.
    Dismissed,
    /// An answer broke off, or was of no use. The provider has probably billed it.
    Billed {
        /// `provider/model`.
        model: String,
        /// The tokens that the stream reported, and an estimate of the others.
        usage: Usage,
    },
    /// A limit of the model that an answer, an error or a token count showed.
    Learned(Learned),
    /// A process resumed the session.
    #[serde(rename = "woke")]
    Resumed {
        /// Who resumed it. `Person` resets the count of starts without progress.
        by: By,
        /// The state that the process found, in one line for the user.
        found: String,
        /// The answer that was streaming at the crash: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
        /// The previous process exited because it could not record anything, as on a full disk. Its
        /// start did not fail and is not counted.
        #[serde(default, skip_serializing_if = "is_false")]
        unrecorded: bool,
        /// The work of an open call continued without a process, and this start waits for it. This
        /// start and the next one do not count as starts without progress.
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

/// A result that left the context. A line replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedResult {
    /// The place of its `Finished` entry.
    pub at: Seq,
    /// The line in requests: the outcome of the call, and the address of the result.
    pub line: String,
    /// The tool and the subject of the call. The same call later counts as reading the result
    /// again.
    #[serde(default)]
    pub call: String,
}

/// Images that a server refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The server's words, short.
    pub why: String,
    /// The model accepts no images at all, so later ones are not sent either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
}

/// Why a model call failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// The failed action and its target.
    pub message: String,
    /// Advice for the user. `None`: nothing is known that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a failure without advice.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Failure {
        Failure {
            class,
            message: message.into(),
            hint: None,
        }
    }
}

/// Class of a failure. It decides whether the request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The request is longer than the model's context window.
    TooLong,
    /// The provider accepts no more requests or tokens for a time.
    RateLimit,
    /// The provider is at capacity, or has an internal error.
    Overloaded,
    /// The key is missing, wrong, or not allowed to use the model.
    Auth,
    /// The provider does not have the model any more, never had it, or not for this key.
    NoModel,
    /// The account has no credit left, or its quota is used up for a day or longer.
    UsedUp,
    /// The provider says the request is invalid.
    BadRequest,
    /// No connection, a cut stream, a timeout.
    Network,
    /// Certificates or a proxy prevent the connection, which does not pass by itself.
    Configuration,
    /// The answer violates its protocol.
    Protocol,
    /// The model gave an unusable answer too many times.
    Nonsense,
    /// A hook that guards messages failed, so the message was not sent.
    Hook,
}

impl FailureClass {
    /// Returns whether only another model can answer: neither waiting nor a repetition helps.
    pub fn needs_other_model(self) -> bool {
        matches!(
            self,
            FailureClass::NoModel | FailureClass::UsedUp | FailureClass::Configuration
        )
    }
}

/// Subject of a note.
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
        /// For a subagent: the tokens that its models used.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The model had ended its turn and is asked again because of this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks_model: bool,
    },
    /// The model ended its turn while these background commands run. It is asked again.
    StillRunning {
        /// Their ids, as in `Fact::Background`.
        ids: Vec<String>,
    },
    /// A shell command of the user ended.
    UserCommandEnded {
        /// The place of its `UserCommand`.
        entry: Seq,
        /// `None` when it did not exit by itself, or that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// A check ended. The text is empty if it printed nothing new for the model.
    CheckEnded {
        /// The place of its `CheckStarted`.
        entry: Seq,
        /// The name of the check.
        check: String,
        ending: CheckEnding,
        /// Milliseconds from its start to its end.
        #[serde(default)]
        took_ms: u64,
    },
    /// AGENTS.md or another instruction file changed.
    Instructions,
    /// Content that had left the context and is relevant again.
    Recalled,
    /// The last answer was cut by the output limit, and the model continues it.
    AnswerCut,
    /// The model repeats calls with the same results.
    Repeats {
        /// Number of calls of a round: 1, or the length of a cycle.
        calls: u64,
        /// Number of rounds so far.
        rounds: u64,
    },
    /// The mode, or whether a person answers questions, differs from what the model knew.
    Mode { mode: Mode, is_attended: bool },
    /// Files that the model has read were changed outside of rewake.
    FilesChanged {
        /// The paths as the model reads them: below the workspace's root, or absolute.
        paths: Vec<String>,
        /// Number of other files that changed too.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
    },
}

/// Author of a summary or a continuation note.
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

/// Reason for a checkpoint without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveReason {
    /// The interval between two checkpoints passed.
    Timer,
    /// The end of a turn. Not written by this version.
    Turn,
    /// A signal or the end of the terminal made the program leave.
    Signal,
    /// The program exited on request, or because the work was done.
    Exit,
    /// The run reached its maximum number of answers.
    TurnLimit,
    /// The context was nearly full. Not written by this version.
    ContextLimit,
    /// A person asked for it. Not written by this version.
    Manual,
    /// The workspace's files changed outside of a call, or could not be stored. It belongs to the
    /// previous checkpoint.
    Files,
}

/// The session and the entry from which a fork continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The id of the session that it was forked from.
    pub session: String,
    /// The last entry that both have.
    pub seq: Seq,
}

impl Entry {
    /// Returns whether the entry ends a segment of the context: a summary or a note replaces a part,
    /// and the next request is smaller.
    pub fn ends_window(&self) -> bool {
        matches!(self, Entry::Compacted { .. } | Entry::Continued { .. })
    }

    /// Adds the signal that the entry came with, if its kind records that.
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

    /// Returns what the user typed: the words, or the command with their text.
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

    /// Returns the folder in which the session works from this entry on. `None`: in the same one, or
    /// in one with the same files.
    pub fn new_folder(&self) -> Option<&str> {
        match self {
            Entry::Forked { folder, .. } | Entry::Moved { folder, .. } => folder.as_deref(),
            Entry::Relocated {
                folder,
                by: RecognisedBy::Request,
                ..
            } => Some(folder),
            _ => None,
        }
    }

    /// Returns the name of the kind as it is stored.
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
            Entry::Moved { .. } => "moved",
            Entry::Relocated { .. } => "relocated",
            Entry::Checked { .. } => "checked",
            Entry::Chose(_) => "chose",
            Entry::UserCommand { .. } => "user_command",
            Entry::CheckStarted { .. } => "check_started",
            Entry::Hooking { .. } => "hooking",
            Entry::Hooked { .. } => "hooked",
            Entry::Named { .. } => "named",
            Entry::Titled { .. } => "titled",
            Entry::Dismissed => "dismissed",
            Entry::Billed { .. } => "billed",
            Entry::Learned(_) => "learned",
            Entry::Resumed { .. } => "woke",
        }
    }

    /// Returns the models that were used for this entry, each with its tokens.
    pub fn spent(&self) -> impl Iterator<Item = (&str, &Usage)> {
        let (answer, besides) = match self {
            Entry::Replied { model, usage, .. } | Entry::Billed { model, usage } => {
                (Some((model.as_str(), usage)), &[][..])
            }
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

    /// Returns the blobs that the entry refers to.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        let hooks = match self {
            Entry::Hooked { results, .. } => results.as_slice(),
            _ => &[],
        };
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
            Entry::Noted {
                about:
                    Some(About::CheckEnded {
                        ending: CheckEnding::Exited { output, .. },
                        ..
                    }),
                ..
            } => (&[][..], output.as_ref()),
            _ => (&[][..], None),
        };
        let of_hooks = hooks
            .iter()
            .filter_map(|hook| hook.context.as_ref()?.blob.as_ref());
        images
            .iter()
            .map(|image| &image.blob)
            .chain(output)
            .chain(of_hooks)
    }

    /// Returns whether a session can be resumed from right after this entry.
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
