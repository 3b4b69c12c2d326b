//! The one seam: everything the engine does outside its log goes through [`World`].
//!
//! [`machine::Machine`] is the real one; the simulation in `tests/core/sim` is the other, which
//! can die at every [`Boundary`].

mod archive;
mod child_log;
pub(crate) mod confine;
mod files;
mod give_tasks;
pub mod machine;
mod restore;
mod servers;
mod tasks;

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::core::access::Access;
use crate::core::entry::{Failure, Guard, Outcome};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::request::Request;
use crate::core::state::{Background, State, UserCommand};
use crate::core::tool::ToolCall;
use crate::model::{Delta, Reply};
use crate::tools::Ran;

pub use crate::tools::bash::BackgroundEnd;
pub use files::{Files, Keeping, Scope, Snapshot, Wish};
pub use give_tasks::{BeginTask, Tasks};
pub use restore::{RestoreEnd, RestoreOrder, RestoreProgress, changed_ms};
pub use servers::{FindTool, KnownTool, Launch, LaunchServer, ServerAccess};
pub use servers::{NotOffered, Offered, ServerReply, ServerRequest, ServerWords, Wanted};

/// The images of a request, by the hash of their blob.
pub type Images = HashMap<String, Vec<u8>>;

/// A server asks a person in the middle of a call.
#[derive(Debug)]
pub struct ServerAsks {
    pub question: ServerQuestion,
    /// Closed: who asked is gone. Dropped: nobody answers yet.
    pub reply: oneshot::Sender<FormAnswer>,
}

/// What a begun call turned out to be.
#[derive(Debug)]
pub enum Settled {
    /// It has its result.
    Ended(Ran),
    /// It did nothing: it is run, under this guard.
    NotBegun(Guard),
    /// It did nothing, and there is no room to make it ready again: [`Unready::NoRoom`].
    NoRoom(String),
}

/// Why a call could not be made ready.
#[derive(Debug, PartialEq)]
pub enum Unready {
    /// It is refused: its outcome.
    Refused(Outcome),
    /// What has to be kept of it finds no room. Nothing was done and the call stays open: it
    /// is made ready again when there is room.
    NoRoom(String),
}

/// Where a process may die. The order of an effect is `Before`, the effect, `After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// An entry of this kind is to be recorded.
    BeforeAppend(&'static str),
    /// An entry of this kind was recorded.
    AfterAppend(&'static str),
    BeforeModel,
    AfterModel,
    BeforeSummary,
    AfterSummary,
    BeforeIdempotent,
    AfterIdempotent,
    BeforePrepare,
    AfterPrepare,
    BeforeSnapshot,
    AfterSnapshot,
    BeforeRestore,
    AfterRestore,
    BeforeAct,
    AfterAct,
    BeforeSettle,
    AfterSettle,
    BeforeDiscard,
    AfterDiscard,
}

/// Invariant: no method writes to the log, and dropping a future of it is safe: what was
/// begun is found again by [`World::settle`].
pub trait World: 'static {
    /// One whole answer. Pieces are told as they come.
    ///
    /// # Errors
    /// When it failed for good: whatever may be retried was.
    fn call_model(
        &self,
        request: Request,
        images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// The context window that the model's server names, in tokens: only of a model of which
    /// nothing else is known, and asked for a short time.
    fn asked_window(&self, _model: &str) -> impl Future<Output = Option<u64>> {
        std::future::ready(None)
    }

    /// Whether this model could be asked: its provider is known and has its key.
    ///
    /// # Errors
    /// Why not, for a person.
    fn can_ask(&self, _model: &str) -> Result<(), String> {
        Ok(())
    }

    /// A summary: one answer without tools, of whatever model the request names.
    ///
    /// # Errors
    /// As [`World::call_model`].
    fn summarise(&self, request: Request) -> impl Future<Output = Result<Reply, Failure>>;

    /// Where a call that is about a path leads at this instant, its links followed.
    ///
    /// # Errors
    /// Why that cannot be known, for the model.
    fn leads_to(&self, _call: &ToolCall) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }

    /// Runs an idempotent call. `at` is where it was judged to lead: it looks there and nowhere
    /// else. A result of at most `room` bytes is sent whole.
    fn run_idempotent(
        &self,
        call: &ToolCall,
        at: Option<&Path>,
        room: usize,
    ) -> impl Future<Output = Ran>;

    /// Learns the tools of live servers that said that these changed. May be dropped.
    fn learn_changed_servers(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Starts what a call needs and what takes its time: a server. It is not called. What came of it
    /// is [`World::prepare`]'s to say. May be dropped: the start goes on.
    fn reach(&self, _call: &ToolCall) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Makes all ready for a call with an effect, and does nothing yet. `access` is how far a
    /// command may reach: without it no command is made ready. `at` is where the call was judged
    /// to lead. The session of a sub-agent is durable when this returns; made ready again, the call
    /// gets the same one.
    ///
    /// # Errors
    /// [`Unready`] says whether the call is refused or has to wait.
    fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        state: &State,
    ) -> impl Future<Output = Result<Guard, Unready>>;

    /// What the workspace's files are now. A tree that it gives is kept once it is recorded.
    fn snapshot(&self, _wish: Wish) -> impl Future<Output = Snapshot> {
        std::future::ready(Snapshot::Off)
    }

    /// The root of the workspace: absolute, its links followed. Files below it, and no others, are
    /// what a tree says without a root of its own.
    fn root(&self) -> PathBuf;

    /// Sets files back, or does on what was begun of it. What it says of a path is durable.
    fn restore(&self, _order: RestoreOrder) -> impl Future<Output = RestoreEnd> {
        std::future::ready(RestoreEnd::nothing("nothing looks after the files"))
    }

    /// When what lies at an absolute path last changed: UTC, milliseconds since 1970.
    fn changed_ms(&self, _path: &Path) -> Option<i64> {
        None
    }

    /// How many files the look that goes on has seen.
    fn files_seen(&self) -> u64 {
        0
    }

    /// A person wants an effect to wait for its look at the files, however long that takes.
    fn wait_for_files(&self) {}

    /// Looks at the files while nobody waits for it, to be quicker when somebody does.
    fn look_ahead(&self, _wish: Wish) {}

    /// What a person is to know of how the files are looked after: each once.
    fn files_to_say(&self) -> Option<String> {
        None
    }

    /// What a person is to know of servers: each once.
    fn servers_to_say(&self) -> Option<String> {
        None
    }

    /// Asks a server for what it has for people. Nobody waits for it here: what came of it goes to
    /// the one who asked.
    fn ask_server(&self, request: ServerRequest) {
        (request.reply)(Err(NotOffered::nobody()));
    }

    /// The next question of a server for a person. Dropped, none is lost.
    fn server_asks(&self) -> impl Future<Output = ServerAsks> {
        std::future::pending()
    }

    /// The session is left, and nothing is owed: what was kept for its next process is given up.
    fn leave(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The effect. `guard` is recorded. `None`: a sub-agent is at work; [`World::settle`] waits for
    /// its end.
    fn act(&self, call: &ToolCall, guard: &Guard) -> impl Future<Output = Option<Ran>>;

    /// What became of a call that was begun. With `stop` a running command is ended; without,
    /// it is waited for. `access` is the recorded one: of an old log there is none, and no
    /// sandbox.
    fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> impl Future<Output = Settled>;

    /// Whether what was begun under this guard, and is waited for, goes on without this process.
    /// Claims nothing.
    fn is_at_work(&self, _guard: &Guard) -> bool {
        false
    }

    /// The result is recorded: what was kept for settling may go.
    fn discard(&self, guard: &Guard) -> impl Future<Output = ()>;

    /// Makes all ready for a shell command of the user, outside of the sandbox, and begins
    /// nothing.
    ///
    /// # Errors
    /// As [`World::prepare`].
    fn prepare_for_user(&self, command: &str) -> impl Future<Output = Result<Guard, Unready>>;

    /// Begins it. `guard` is recorded. What came of it is [`World::user_command_end`]'s to say.
    fn begin_for_user(&self, guard: &Guard) -> impl Future<Output = ()>;

    /// How a command of the user under a keeper ended; `None` while it runs. One that was not
    /// begun never will be: it is the user who says whether it is run after all.
    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd>;

    /// Looks after a sub-agent in the background while a step is in progress: one that was killed is
    /// started again. How one ended is [`World::background_end`]'s to say.
    fn keep_at_work(&self, _id: &str, _background: &Background) {}

    /// Whether the run ends when the model ends its turn, and no sub-agent is at work: nobody stays
    /// who could say something.
    fn leaves_when_idle(&self) -> bool {
        false
    }

    /// `None` while it runs.
    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd>;

    /// Grows while running commands print: a checkpoint on the timer looks at it.
    fn printed_bytes(&self) -> u64;

    /// Whether there is a file at this absolute path.
    fn is_there(&self, _path: &Path) -> bool {
        true
    }

    /// UTC, milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Where the simulation dies.
    fn boundary(&self, _at: Boundary) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}
