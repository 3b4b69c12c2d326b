//! The reply loop: `next -> world -> fold -> append -> publish`, and nothing else.
//!
//! A start and the recovery after a crash are the same: the state is folded from the log, and
//! `next` returns the step. While a step is in progress the engine also handles everything else
//! ([`drive_step`]): messages go to the inbox, streamed text goes to the drafts, and the timer records
//! checkpoints.
//!
//! [`Engine`] has the loop and the steps. Its [`Recorder`] has the log. Each other subject is a
//! type with its own state: requests of a person, summaries, questions of servers, scans of the
//! files.
//!
//! Invariant: no effect starts before its `Started` is durable, and none is reported before its
//! `Finished` is. What cannot be recorded is not done.

mod batch;
mod broken_tries;
mod calls;
mod checks;
mod children;
mod commands;
mod context;
mod drain_inbox;
mod drive_step;
mod files;
mod held;
mod hooks;
mod idle;
mod model_asks;
mod new_lines;
mod output_limit;
mod outside;
mod recall;
mod recorder;
mod rewind;
mod server_asks;
mod sharing;
mod signals;
mod steps;
mod structured;
mod title;
mod user_commands;

pub use children::{ChildQuestion, child_question};
pub use held::BEGINS_WITHIN;
pub use user_commands::OnTerminal;

use recorder::{Recorder, Write};

pub use context::{ContextChange, ContextFigures, Render, StandIn, Summarising, SummaryFailure};
pub use rewind::{
    AfterPlan, Back, NotRewound, Rewind, RewindOrder, RewindResult, Rewinding, changes_since,
    stopped,
};

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::core::access::Access;
use crate::core::background::BackgroundMode;
use crate::core::entry::{
    By, CallId, Choice, Entry, HookEvent, PromptPrefix, Record, SaveReason, Seq, Verdict,
};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::next::{Step, Why, next, rest};
use crate::core::settings::{PermissionCheck, Policy};
use crate::core::signal::Signal;
use crate::core::state::{Illegal, State};
use crate::model::Delta;
use crate::shared::SharedError;
use crate::shared::writer::SharedWriter;
use crate::store::{AbandonedDraft, Head, InboxId, Message, Queued, Store, StoreError};
use crate::world::{ServerRequest, World};

/// A command of a person or a signal to a running engine.
#[derive(Clone)]
pub enum Command {
    /// Send a message. It waits in the inbox until no call is open. `blobs` are the bytes of its
    /// images.
    Say {
        message: Message,
        blobs: Vec<Vec<u8>>,
    },
    /// A person's verdict on a call with a question.
    Decide {
        call: CallId,
        verdict: Verdict,
        /// A rule that is allowed with it for the rest of this session.
        rule: Option<String>,
    },
    /// A person's answer to the question of a server during a call.
    Answer {
        call: CallId,
        /// Key of the question.
        key: String,
        answer: FormAnswer,
    },
    /// The same for a server of a subagent: its session, and the sequence number of the question.
    AnswerChild {
        session: String,
        call: CallId,
        asked: Seq,
        answer: FormAnswer,
    },
    /// A person's verdict on a call of a subagent: its session, and the sequence number of the
    /// question.
    DecideChild {
        session: String,
        call: CallId,
        asked: Seq,
        verdict: Verdict,
    },
    /// Withdraw a rule that was allowed for this session.
    TakeBackRule(String),
    /// A signal, as another process could send it too.
    Signal(Signal),
    /// Change the text of a queued message; `None` removes it. If it was sent already, the new text
    /// is another message.
    EditQueued {
        id: InboxId,
        message: Option<Message>,
    },
    /// Store the unsent text of the input box.
    KeepInput(String),
    /// Store unsent text that was brought from another session, and remove it there.
    BringInput { text: String, from: AbandonedDraft },
    /// Run a shell command of the user under a supervisor process. With `on_terminal`, the owner of
    /// the terminal runs it once it is recorded.
    RunForUser { command: String, on_terminal: bool },
    /// A command of the user on the terminal ended: the sequence number of its entry, and how it
    /// ended.
    UserCommandOver { entry: Seq, ended: OnTerminal },
    /// A note to the model, for when no call is open. It waits in the inbox. A stop does not hold
    /// it back, unlike other messages.
    Note(String),
    /// Plan a restore of files, or carry it out, when no step is in progress.
    Rewind(Box<RewindOrder>),
    /// Let an effect wait for the end of its scan of the files, however long that takes.
    WaitForFiles,
    /// Ask a server for its prompts and resources. The reply goes to the sender. It is lost if the
    /// engine ends first.
    AskServer(ServerRequest),
    /// Use changed permission rules.
    SetPermissionCheck(PermissionCheck),
    /// Look for messages and signals now, since this process wrote some. With `is_message`, one of
    /// them is a message, which counts as typed here. `heard` is set once they are read.
    Hear {
        is_message: bool,
        heard: Arc<AtomicBool>,
    },
    /// Leave the session. Running commands continue.
    Leave(SaveReason),
}

impl Command {
    /// A stop of the work in progress.
    pub const STOP: Command = Command::Signal(Signal::STOP);

    /// Returns a channel for commands to an engine: its two ends.
    pub fn pipe() -> (UnboundedSender<Command>, UnboundedReceiver<Command>) {
        // Unbounded: its senders must not wait. A person gives each command, or the store has
        // accepted a row for it, and the store limits the rows of a session.
        unbounded_channel()
    }
}

/// An event for an observer of the engine.
#[derive(Debug)]
pub enum Event {
    /// An entry was recorded in the log.
    Recorded(Box<Record>),
    /// A piece of an answer that is not in the log yet.
    Delta(Delta),
    /// A message was put into the inbox.
    Queued(Queued),
    /// The inbox was edited: its messages, all of them.
    Requeued(Vec<Queued>),
    /// A person is asked about this call.
    Asked {
        call: CallId,
        why: String,
        /// The rule that "always" would write.
        rule: Option<String>,
        /// How far the command would reach. `None`: the call runs no command.
        access: Option<Access>,
        /// Number of this question, from 1, and the number of questions that the answer leads to.
        place: (usize, usize),
    },
    /// A server asks a person during this call, or still asks after a restart. The question is
    /// recorded.
    ServerAsks(CallId, Box<ServerQuestion>),
    /// A subagent asks a person, or asks something else now. `None`: no subagent asks any more.
    ChildAsks(Option<Box<ChildQuestion>>),
    /// A shell command of the user was not started, and why. Nothing of it is recorded.
    CommandNotRun { command: String, why: String },
    /// Streamed or typed text was stored in the drafts. `Err`: it could not be stored.
    Kept(Result<(), String>),
    /// The journal of the session cannot be written from now on, and why. The session continues.
    JournalFails(String),
    /// A line for a person. The session continues.
    Notice(String),
    /// This text of the input box is on the disk.
    InputKept(String),
    /// The context changed, or is close to its limit.
    Context(ContextFigures),
    /// The summary model failed, and a replacement is used.
    SummaryFailed(SummaryFailure),
    /// The result of the [`Command::Rewind`] with this number.
    RewindPlanned(u64, RewindResult),
    /// Progress of work on the files that a person waits for. `None`: that work ended.
    Files(Option<FilesWork>),
}

/// Work on the workspace's files that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesWork {
    /// Files are being restored, which cannot be stopped: the number of finished files and of all.
    Restoring { done: u64, all: u64 },
    /// An effect waits for a scan of the files: the number of scanned files.
    Scanning { seen: u64 },
}

/// Why the engine came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestReason {
    /// There is nothing to do without a person or a signal.
    Waiting(Why),
    /// The engine was told to leave. Background commands keep running.
    Left(SaveReason),
}

/// Why the engine had to stop.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry that does not fit the log: a bug of the engine, or a damaged log. Nothing was
    /// written.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The shared database did not record it.
    #[error(transparent)]
    Shared(#[from] SharedError),
}

impl EngineError {
    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Store(error) => error.hint(),
            EngineError::Illegal(_) => {
                Some("this is a fault of rewake; rewake doctor looks at the store".into())
            }
            EngineError::Shared(error) => error.hint().map(str::to_string),
        }
    }

    /// Returns whether the same work may be tried again later.
    pub fn is_passing(&self) -> bool {
        match self {
            EngineError::Store(error) => error.is_passing(),
            EngineError::Illegal(_) => false,
            EngineError::Shared(error) => matches!(error, SharedError::Away { .. }),
        }
    }
}

/// Settings of an engine, besides its log.
pub struct Settings {
    /// The policy that `next` applies.
    pub policy: Policy,
    /// Maximum time that an answer is held for its first call to be prepared, so that both are
    /// recorded together.
    pub begins_within: Duration,
    /// Time between checkpoints of the timer.
    pub checkpoint_interval: Duration,
    /// Settings for summaries.
    pub summarising: Summarising,
    /// Renders the layers again when the context starts over.
    pub render: Render,
    /// Set if another version resumed the session: that version and its layers.
    pub renewed: Option<(String, PromptPrefix)>,
    /// Choices of this start that replace those of the session, such as the model.
    pub chosen: Option<Choice>,
    /// Models, as `provider/model`, that are tried in this order if the session's model cannot be
    /// reached.
    pub fallbacks: Vec<String>,
}

/// A session's log: its store, its end, and the state at that end.
pub struct Log {
    pub store: Store,
    /// The end of the log, where the next entry is appended.
    pub head: Head,
    /// The fold of the log up to `head`.
    pub state: State,
    /// The shared database that records the session too, before this store does.
    pub shared: Option<SharedWriter>,
}

/// A callback for every event, with the state after it.
pub type OnEvent = Box<dyn FnMut(&State, Event)>;

/// Emits a line for a person, if there is one.
pub fn notify<W: World>(engine: &mut Engine<W>, line: Option<String>) {
    if let Some(line) = line {
        engine.log.emit(Event::Notice(line));
    }
}

/// Returns the store of the session's log.
pub fn store<W>(engine: &Engine<W>) -> &Store {
    &engine.log.store
}

/// Sets the treatment of background work from now on.
pub fn set_background<W>(engine: &mut Engine<W>, mode: BackgroundMode) {
    engine.log.policy.background = mode;
}

/// Maximum time until streamed text is in the drafts.
const DRAFT_INTERVAL: Duration = Duration::from_millis(400);

/// The loop of one session, with its log. `W` is the world that runs its effects.
pub struct Engine<W> {
    log: Recorder<W>,
    /// The version that resumed the session, and its layers: see [`Settings::renewed`].
    renewed: Option<(String, PromptPrefix)>,
    fallbacks: Vec<String>,
    commands: UnboundedReceiver<Command>,
    /// Commands that were received and not applied yet, because nothing could be recorded.
    pending_commands: VecDeque<Command>,
    requests: commands::Requests,
    timer: tokio::time::Interval,
    printed_bytes: u64,
    draft: drive_step::StreamDraft,
    open_request: broken_tries::OpenRequest,
    /// The model wrote calls as text, and was not told yet how they count.
    owes_text_call_note: bool,
    summaries: context::Summaries,
    recall: recall::Recall,
    title: title::Title,
    files: files::FilesLook,
    asking: server_asks::Asking,
    signals_look: signals::SignalsLook,
    children: children::Children,
    checks: checks::Checks,
    user_commands: user_commands::UserCommands,
    /// The hooks of this start have not been recorded.
    session_start: Option<hooks::SessionStart>,
}

impl<W: World> Engine<W> {
    /// Creates an engine. Must be called inside a tokio runtime.
    pub fn new(
        log: Log,
        world: Rc<W>,
        settings: Settings,
        commands: UnboundedReceiver<Command>,
        on_event: OnEvent,
    ) -> Engine<W> {
        let every = settings.checkpoint_interval;
        let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Engine {
            log: Recorder::new(
                log,
                world,
                settings.policy,
                settings.begins_within,
                on_event,
            ),
            renewed: settings.renewed,
            fallbacks: settings.fallbacks,
            commands,
            pending_commands: VecDeque::new(),
            requests: commands::Requests::new(settings.chosen),
            timer,
            printed_bytes: 0,
            draft: drive_step::StreamDraft::default(),
            open_request: broken_tries::OpenRequest::default(),
            owes_text_call_note: false,
            summaries: context::Summaries::new(settings.summarising, settings.render),
            recall: recall::Recall::default(),
            title: title::Title::default(),
            files: files::FilesLook::default(),
            asking: server_asks::Asking::default(),
            signals_look: signals::SignalsLook::new(),
            children: children::Children::default(),
            checks: checks::Checks::default(),
            user_commands: user_commands::UserCommands::default(),
            session_start: Some(hooks::SessionStart::Startup),
        }
    }

    /// Returns the state that is folded from the log.
    pub fn state(&self) -> &State {
        &self.log.state
    }

    /// Returns the policy that `next` applies.
    pub fn policy(&self) -> &Policy {
        &self.log.policy
    }

    /// Records that a process resumed the session, together with the choices of this start. So
    /// nobody sees it resumed with the earlier model and mode. Text that was streaming at the crash
    /// moves from the drafts into the entry.
    ///
    /// `unrecorded`: the previous process left because nothing could be recorded.
    pub async fn record_resumed(
        &mut self,
        by: By,
        found: String,
        unrecorded: bool,
    ) -> Result<(), EngineError> {
        let draft = self
            .log
            .store
            .inbox()
            .drafts(self.log.head.session())?
            .stream;
        let draft = draft.filter(|d| !d.trim().is_empty());
        let recovered = self.log.state.unfinished();
        let chosen = self.requests.chosen.clone().filter(|c| !c.is_empty());
        let resumed = Entry::Resumed {
            by,
            found,
            draft,
            unrecorded,
            at_work: self.log.is_at_work(),
        };
        let entries = std::iter::once(resumed).chain(chosen.map(Entry::Chose));
        self.log
            .record(Write::of_all(entries.collect()).clearing_stream())
            .await?;
        self.requests.chosen = None;
        self.session_start = Some(hooks::SessionStart::Resume { recovered });
        Ok(())
    }

    /// Keeps pending work waiting until a person sends a message or continues the session. In a
    /// copy they want to change the message first. A person who opens a session without a message
    /// may not want it to act at once.
    ///
    /// With `settles`, the results of calls that an earlier process started are recorded meanwhile.
    pub fn wait_for_person(&mut self, settles: bool) {
        self.requests.waits_for_person = true;
        self.requests.settles = settles;
    }

    /// Does the same as [`Command::AskServer`].
    pub fn ask_server(&self, request: ServerRequest) {
        self.log.world.ask_server(request);
    }

    /// Starts the hooks of the end, and stops the servers that live for the next process of this
    /// session, unless work is pending. Called when the process leaves.
    pub async fn stop_unneeded_servers(&mut self) {
        self.log.fire_hooks(HookEvent::SessionEnd, "other");
        if !self.log.state.owed && self.log.state.first_open().is_none() {
            self.log.world.leave().await;
            self.log.emit_file_notices();
        }
    }

    /// Works until there is nothing to do without a person, or until it is told to leave.
    ///
    /// # Errors
    /// When the log cannot be written. The next start settles the call that was running.
    pub async fn run(&mut self) -> Result<RestReason, EngineError> {
        let mut rested = false;
        loop {
            self.log.refresh().await?;
            // During a restore, nothing else may be recorded.
            if self.log.state.restoring.is_some()
                && rest(&self.log.state, &self.log.policy) != Some(Why::CrashLoop)
            {
                self.log.restore().await?;
            }
            self.take_commands().await?;
            self.signals_look.is_active();
            self.hear().await?;
            if let Some(reason) = self.requests.left {
                return Ok(RestReason::Left(reason));
            }
            if let Some(order) = &self.requests.rewind {
                self.log.carry_out_rewind(order).await?;
                self.requests.rewind = None;
                continue;
            }
            let rests = matches!(
                rest(&self.log.state, &self.log.policy),
                Some(Why::Paused | Why::CrashLoop)
            );
            if self.log.state.restoring.is_none()
                && !rests
                && !self.requests.waits_for_person
                && let Some(start) = self.session_start.take()
            {
                self.log.hook_session_start(start).await?;
            }
            let step = next(&self.log.state, &self.log.policy, &self.pending()?);
            if checks::finish_scan(self, &step).await? {
                continue;
            }
            match step {
                Step::RecordChoice => self.requests.record_choice(&mut self.log).await?,
                Step::Render => self.render().await?,
                Step::CompactAsAsked => self.compact_as_asked().await?,
                Step::ReportEnd(id) => self.log.report_end(&id).await?,
                Step::ReportUserEnd(entry) => {
                    self.user_commands.report_end(&mut self.log, entry).await?
                }
                Step::Remind(ids) => self.log.remind(ids).await?,
                Step::ContinueAnswer => self.log.continue_answer().await?,
                Step::NoteRepetition => self.log.note_repetition().await?,
                Step::TakeMessage => self.requests.take_message(&mut self.log).await?,
                Step::Summarise(range) => {
                    self.log.fire_hooks(HookEvent::PreCompact, "auto");
                    self.summaries.begin_summary(&mut self.log, range)?
                }
                Step::LearnLimit(count) => {
                    self.summaries
                        .learn_silent_limit(&mut self.log, count)
                        .await?
                }
                Step::Recall(since) => self.recall.recall(&mut self.log, since).await?,
                Step::RunHooks { hooking, calls } => self.run_hooks(hooking, calls).await?,
                Step::StartCheck { check, files } => {
                    checks::start(&mut self.log, check, files).await?
                }
                Step::RunCheck(entry) => checks::run(self, entry).await?,
                Step::CallModel => self.call_model().await?,
                Step::Run(calls) => self.run_calls(calls).await?,
                Step::Settle(call) => self.settle(call).await?,
                Step::Close(call) => self.close_call(call).await?,
                Step::CheckAnswer(answer) => self.log.check_answer(answer).await?,
                Step::Free(results) => self.summaries.free(&mut self.log, &results).await?,
                Step::Compact(range) => self.compact_range(range, "auto").await?,
                Step::Continue => self.continue_from_note().await?,
                Step::Ask(call) => self.ask(call).await?,
                Step::Restore => drop(self.log.restore().await?),
                Step::Wait(_) if !rested && self.files.behind.is_running() => {
                    rested = true;
                    self.finish_scan().await?;
                }
                Step::Wait(why) => return Ok(RestReason::Waiting(why)),
            }
        }
    }

    /// Records a checkpoint that does not belong to a call.
    pub async fn save(&mut self, reason: SaveReason) -> Result<(), EngineError> {
        self.log
            .record(Write::of(Entry::Saved {
                reason,
                tree: None,
                why: None,
                clock: None,
            }))
            .await
    }

    /// Puts a message that did not come from the input box into the inbox, with the bytes of its
    /// images. It is durable when this returns.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn say(&mut self, message: &Message, blobs: &[Vec<u8>]) -> Result<(), EngineError> {
        self.log.say(message, blobs)
    }

    /// Plans a rewind of files, and records their current state.
    ///
    /// # Errors
    /// [`NotRewound`]; nothing was changed.
    pub async fn plan_rewind(&mut self, wanted: &Rewind) -> Result<Rewinding, NotRewound> {
        self.log.plan_rewind(wanted).await
    }

    /// Stops pending work, records the plan and carries it out. Returns the `Restored`.
    ///
    /// # Errors
    /// When it cannot be recorded. The next start completes a recorded plan.
    pub async fn rewind(&mut self, rewinding: Rewinding) -> Result<Option<Entry>, EngineError> {
        self.log.rewind(rewinding).await
    }

    /// Completes a rewind that is recorded and not finished.
    ///
    /// # Errors
    /// As [`Engine::rewind`].
    pub async fn restore(&mut self) -> Result<Option<Entry>, EngineError> {
        self.log.restore().await
    }
}
