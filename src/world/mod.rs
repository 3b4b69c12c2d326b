//! The interface between the engine and everything outside of its log: the trait [`World`].
//!
//! [`machine::Machine`] is the real one; the simulation in `tests/core/sim` is the other, which
//! can die at every [`Boundary`], and before and after every method.

mod archive;
mod checks;
mod child_log;
pub mod confine;
mod files;
mod give_tasks;
mod hooks;
pub mod machine;
mod restore;
mod servers;
mod tasks;
mod wait;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::core::access::Access;
use crate::core::check::Check;
use crate::core::entry::RequestForm;
use crate::core::entry::{
    CallId, Entry, Failure, Guard, HookEvent, HookResult, HookRun, HookWrote, Outcome, Seq,
};
use crate::core::file_clock::FileClock;
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::request::Request;
use crate::core::state::{Background, State, UserCommand};
use crate::core::tool::ToolCall;
use crate::model::{Delta, Reply, ServerFacts};
use crate::store::now_ms;
use crate::tools::ToolResult;
use crate::workspace::files::FileTimes;

pub use crate::tools::bash::BackgroundEnd;
pub use files::{Files, Keeping, Snapshot, SnapshotRequest, SnapshotScope};
pub use give_tasks::{BeginTask, Tasks};
pub use hooks::{HookSetup, MachineHooks};
pub use restore::{RestoreEnd, RestoreOrder, RestoreProgress};
pub use servers::{FindTool, KnownTool, Launch, LaunchServer, ServerAccess};
pub use servers::{OfferAnswer, OfferError, OfferKind, ServerReply, ServerRequest, ServerWords};

/// The images of a request, by the hash of their blob.
pub type Images = HashMap<String, Vec<u8>>;

/// A question of a server for a person, during a call.
#[derive(Debug)]
pub struct ServerAsks {
    pub question: ServerQuestion,
    /// The reply. It is closed when the server has given up; dropping it means that nobody answers
    /// yet.
    pub reply: oneshot::Sender<FormAnswer>,
}

/// A point of a session at which hooks may run.
#[derive(Debug, Clone, Copy)]
pub struct HookOccasion<'a> {
    pub event: HookEvent,
    /// The place of the entry that the hooks follow.
    pub of: Seq,
    /// That entry. `None`: the event follows from no entry.
    pub entry: Option<&'a Entry>,
    /// The call that the event is about.
    pub call: Option<CallId>,
    /// The name for the matchers of an event without a call: `startup`, `auto`.
    pub matched: &'static str,
    /// The last process did not leave the session in order.
    pub recovered: bool,
}

impl<'a> HookOccasion<'a> {
    /// Creates an occasion that follows from no entry.
    pub fn new(event: HookEvent, of: Seq) -> HookOccasion<'a> {
        HookOccasion {
            event,
            of,
            entry: None,
            call: None,
            matched: "",
            recovered: false,
        }
    }

    /// Creates the occasion of an entry.
    pub fn of(
        event: HookEvent,
        of: Seq,
        entry: &'a Entry,
        call: Option<CallId>,
    ) -> HookOccasion<'a> {
        HookOccasion {
            entry: Some(entry),
            call,
            matched: match event {
                HookEvent::SessionStart => "compact",
                _ => "",
            },
            ..HookOccasion::new(event, of)
        }
    }
}

/// The results of hooks, in the order of the hooks.
#[derive(Debug, Default)]
pub struct HookEnd {
    pub results: Vec<HookResult>,
    /// The bytes of long texts for the model.
    pub blobs: Vec<Vec<u8>>,
}

/// How a check ended, as this machine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckEnd {
    /// It exited with this code.
    Exited(i32),
    TimedOut,
    Stopped,
    /// It did not start, or its result is not known, and why.
    Failed(String),
}

/// A check that ended.
#[derive(Debug, Clone)]
pub struct CheckRun {
    pub end: CheckEnd,
    pub took_ms: u64,
    /// The output, if it exited.
    pub output: Vec<u8>,
}

impl CheckRun {
    /// Creates an end without an output.
    pub fn of(end: CheckEnd) -> CheckRun {
        CheckRun {
            end,
            took_ms: 0,
            output: Vec::new(),
        }
    }

    /// Creates the end of a check whose result is not known.
    pub fn failed(why: impl Into<String>) -> CheckRun {
        CheckRun::of(CheckEnd::Failed(why.into()))
    }
}

/// The outcome of a call that had started.
#[derive(Debug)]
pub enum Settled {
    /// The call has its result.
    Ended(ToolResult),
    /// The call did nothing, and runs again under this guard.
    NotBegun(Guard),
    /// The call did nothing, and space to prepare it again is lacking: [`PrepareError::NoRoom`].
    NoRoom(String),
}

/// The reason why a call could not be prepared.
#[derive(Debug, PartialEq)]
pub enum PrepareError {
    /// The call is refused, with this outcome.
    Refused(Outcome),
    /// The data that must be stored does not fit on the disk. Nothing was done and the call stays
    /// open: it is prepared again when there is space.
    NoRoom(String),
}

/// Where a process may die besides before and after a method of [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// Before an entry of this kind is recorded.
    BeforeAppend(&'static str),
    /// After an entry of this kind was recorded.
    AfterAppend(&'static str),
    /// The shared database has entries that this store lacks.
    Pushed,
}

/// Everything that the engine does outside of its log.
///
/// Invariant: no method writes to the log, and dropping a future of it is safe: [`World::settle`]
/// finds a started effect again.
pub trait World: 'static {
    /// Calls a model and returns its whole answer. Parts are reported as they arrive.
    ///
    /// # Errors
    /// The call failed for good, after all possible retries.
    fn call_model(
        &self,
        request: Request,
        images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Returns the length to which an answer of this model may be raised, in tokens. 0: it may not.
    fn most_answer_tokens(&self, _model: &str) -> u64 {
        0
    }

    /// Returns the forms of the history that the server of this model is known to need.
    fn first_forms(&self, _model: &str) -> Vec<RequestForm> {
        Vec::new()
    }

    /// Returns what the model's server says about the model. Asks for a short time. `has_window`: the
    /// session knows the context window.
    fn server_facts(&self, _model: &str, _has_window: bool) -> impl Future<Output = ServerFacts> {
        std::future::ready(ServerFacts::default())
    }

    /// Checks that this model can be called: its provider is known and has its key.
    ///
    /// # Errors
    /// The reason why not, for a person.
    fn can_ask(&self, _model: &str) -> Result<(), String> {
        Ok(())
    }

    /// Calls the model of the request for a summary. `images` as in [`World::call_model`].
    ///
    /// # Errors
    /// As [`World::call_model`].
    fn summarise(
        &self,
        request: Request,
        images: Images,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Returns the file to which the path of a call leads at this instant, with links followed.
    ///
    /// # Errors
    /// The reason why that is unknown, for the model.
    fn leads_to(&self, _call: &ToolCall) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }

    /// Runs an idempotent call. `at` is the file on which policy decided; the call reads only
    /// there. A result of at most `room` bytes is sent whole.
    fn run_idempotent(
        &self,
        call: &ToolCall,
        at: Option<&Path>,
        room: usize,
    ) -> impl Future<Output = ToolResult>;

    /// Waits for background work, as the call says. Dropping the future ends the wait.
    fn wait_for_background(
        &self,
        call: &ToolCall,
        background: &BTreeMap<String, Background>,
    ) -> impl Future<Output = ToolResult>;

    /// Lists the tools that may answer a call of this full name: those of live servers that
    /// reported a change, and those of the tool's server at its first start. The future may be
    /// dropped.
    fn learn_servers_for(&self, _full_name: &str) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Starts the server that a call needs, which takes time, without calling it.
    /// [`World::prepare`] reports the result. The future may be dropped: the start continues.
    fn reach(&self, _call: &ToolCall) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Prepares a call with an effect, without doing it yet. `access` is the access of a command:
    /// without it no command is prepared. `at` is the file on which policy decided. The session of
    /// a subagent is durable when this returns; if the call is prepared again, it gets the same
    /// session.
    ///
    /// # Errors
    /// [`PrepareError`] says whether the call is refused or must wait.
    fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        state: &State,
    ) -> impl Future<Output = Result<Guard, PrepareError>>;

    /// Takes a snapshot of the workspace's files. The returned tree is stored when it is recorded.
    fn snapshot(&self, _wish: SnapshotRequest) -> impl Future<Output = Snapshot> {
        std::future::ready(Snapshot::Off)
    }

    /// Returns the root of the workspace: absolute, with links followed. A tree without its own
    /// root describes the files below this one, and no others.
    fn root(&self) -> PathBuf;

    /// Returns whether the model may not know of the file at a path below the root.
    fn hides(&self, _path: &[u8]) -> bool {
        false
    }

    /// Restores files, or completes an interrupted restore. Everything that it reports of a path is
    /// durable.
    fn restore(&self, _order: RestoreOrder) -> impl Future<Output = RestoreEnd> {
        std::future::ready(RestoreEnd::nothing("nothing looks after the files"))
    }

    /// Measures the clock of the file system of the workspace's root. `None`: it is unknown.
    fn file_clock(&self) -> Option<FileClock> {
        None
    }

    /// Returns the times of the files below a root.
    fn file_times(&self, root: &Path) -> FileTimes {
        FileTimes::new(root, now_ms)
    }

    /// Returns how many files the current scan has visited.
    fn files_seen(&self) -> u64 {
        0
    }

    /// Lets an effect wait for its snapshot without a time limit, because a person wants it.
    fn wait_for_files(&self) {}

    /// Scans the files while nobody waits, so that the next snapshot is faster.
    fn scan_ahead(&self, _wish: SnapshotRequest) {}

    /// Returns a message on snapshots for a person; each only once.
    fn files_to_say(&self) -> Option<String> {
        None
    }

    /// Returns a message on servers for a person; each only once.
    fn servers_to_say(&self) -> Option<String> {
        None
    }

    /// Asks a server for a prompt, a resource or a list of them. Nobody waits for it here: the
    /// request says where the result goes.
    fn ask_server(&self, request: ServerRequest) {
        (request.reply)(Err(OfferError::nobody()));
    }

    /// Returns the next question of a server for a person. Dropping the future loses none.
    fn server_asks(&self) -> impl Future<Output = ServerAsks> {
        std::future::pending()
    }

    /// Gives up everything that is kept for the next process: the session is closed, and no work is
    /// pending.
    fn leave(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Does the effect. `guard` is already recorded. Returns `None` if a subagent works on it:
    /// [`World::settle`] waits for its end.
    fn act(&self, call: &ToolCall, guard: &Guard) -> impl Future<Output = Option<ToolResult>>;

    /// Returns the outcome of a call that had started. With `stop` a running command is ended;
    /// without it, its end is awaited. `access` is the recorded one; an old log has none, which
    /// means no sandbox.
    fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> impl Future<Output = Settled>;

    /// Returns whether a started and awaited effect under this guard continues without this
    /// process. Claims nothing.
    fn is_at_work(&self, _guard: &Guard) -> bool {
        false
    }

    /// Removes the data for settling a call, whose result is now recorded.
    fn discard(&self, guard: &Guard) -> impl Future<Output = ()>;

    /// Prepares a shell command of the user, outside of the sandbox, and starts nothing.
    ///
    /// # Errors
    /// As for [`World::prepare`].
    fn prepare_for_user(&self, command: &str) -> impl Future<Output = Result<Guard, PrepareError>>;

    /// Starts the prepared command. `guard` is already recorded. [`World::user_command_end`]
    /// reports the result.
    fn begin_for_user(&self, guard: &Guard) -> impl Future<Output = ()>;

    /// Returns how a command of the user ended, or `None` while it runs. A command that was not
    /// started never will be: the user decides whether to run it again.
    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd>;

    /// Watches a subagent in the background while a step is in progress, and starts it again if it
    /// was killed. [`World::background_end`] reports its end.
    fn restart_if_killed(&self, _id: &str, _background: &Background) {}

    /// Tidies up what commands shared, before the session waits for a person.
    fn rest(&self) {}

    /// Returns whether the run ends when the model ends its turn and no subagent is at work. Nobody
    /// is then left to send a message.
    fn leaves_when_idle(&self) -> bool {
        false
    }

    /// Returns how a background command or subagent ended, or `None` while it runs.
    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd>;

    /// Returns the number of bytes that running commands have printed. A checkpoint on the timer
    /// uses it.
    fn printed_bytes(&self) -> u64;

    /// Returns whether a file exists at this absolute path.
    fn is_there(&self, _path: &Path) -> bool {
        true
    }

    /// Returns the time: UTC, milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Prepares the hooks that match: a run folder for each, or the reason why it failed. Starts
    /// none. Those for which nobody waits are left out.
    fn prepare_hooks(&self, _occasion: &HookOccasion<'_>, _state: &State) -> Vec<HookRun> {
        Vec::new()
    }

    /// Runs prepared hooks side by side, or finds the results of those that an earlier process
    /// started. None is started twice, also not if the future is dropped. With `stop` those that
    /// run are ended, and the others never start. `call` is the call that they are about, and
    /// `wrote` the file that it wrote.
    fn run_hooks(
        &self,
        _event: HookEvent,
        _runs: &[HookRun],
        _call: Option<&ToolCall>,
        _wrote: Option<&HookWrote>,
        _stop: bool,
    ) -> impl Future<Output = HookEnd> {
        std::future::ready(HookEnd::default())
    }

    /// Prepares a check, in the sandbox and with access `workspace`, and starts nothing.
    ///
    /// # Errors
    /// As for [`World::prepare`].
    fn prepare_check(&self, _check: &Check) -> impl Future<Output = Result<Guard, PrepareError>> {
        std::future::ready(Err(PrepareError::Refused(Outcome::error("no checks here"))))
    }

    /// Runs a prepared check, or finds the result of one that an earlier process started. It is
    /// not started twice, also not if the future is dropped. With `stop` it is ended if it runs, and
    /// never starts otherwise.
    fn run_check(&self, _run: &str, _boot: &str, _stop: bool) -> impl Future<Output = CheckRun> {
        std::future::ready(CheckRun::failed("no checks here"))
    }

    /// Starts the matching hooks for which nobody waits.
    fn fire_hooks(&self, _occasion: &HookOccasion<'_>, _state: &State) {}

    /// Marks a point at which the simulation may die.
    fn boundary(&self, _at: Boundary) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}
