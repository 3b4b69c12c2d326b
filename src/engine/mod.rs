//! The reply loop: `next -> world -> append -> fold -> publish`, and nothing else.
//!
//! Starting and going on after a crash are the same: the state is folded from the log and
//! `next` is asked. While a step is in progress the engine attends to it
//! ([`attend`]): what is typed goes to the inbox, streamed text to the drafts, and the timer
//! saves a checkpoint.
//!
//! [`Engine`] has the loop and the steps. The log is its [`Recorder`]'s; each other subject is
//! a type with its state: requests of a person, summaries, questions of servers, looks at the files.
//!
//! Invariant: no effect is begun before its `Started` is durable, and none is reported before
//! its `Finished` is. What cannot be recorded is not done.

mod attend;
mod calls;
mod children;
mod commands;
mod context;
mod files;
mod held;
mod idle;
mod outside;
mod recall;
mod recorder;
mod rewind;
mod server_asks;
mod signals;
mod steps;
mod structured;
mod take_in;
mod title;
mod user_commands;

pub use children::{ChildQuestion, child_question};
pub use held::BEGINS_WITHIN;
pub use user_commands::OnTerminal;

use recorder::{Recorder, Write};

pub use context::{ContextChange, ContextFigures, Render, StandIn, Summarising, SummaryFailure};
pub use rewind::{
    AfterPlan, Back, NotRewound, Planned, Rewind, RewindOrder, Rewinding, changes_since, stopped,
};

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::core::access::Access;
use crate::core::entry::{By, CallId, Entry, Layers, Record, SaveReason, Seq, Verdict};
use crate::core::entry::{Choice, RunLimits};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::next::{Step, Why, next, rest};
use crate::core::settings::{PermissionCheck, Policy};
use crate::core::state::{Illegal, State};
use crate::model::Delta;
use crate::store::{Head, InboxId, LeftDraft, Message, Queued, Store, StoreError};
use crate::world::{ServerRequest, World};

/// What a person or a signal wants of a running engine.
#[derive(Clone)]
pub enum Command {
    /// Waits in the inbox until no call is open. `blobs` are the bytes of its images.
    Say {
        message: Message,
        blobs: Vec<Vec<u8>>,
    },
    /// A person's verdict on a call that was asked about.
    Decide {
        call: CallId,
        verdict: Verdict,
        /// Allowed with it for the rest of this session.
        rule: Option<String>,
    },
    /// A person's answer to what a server asks in the middle of a call.
    Answer {
        call: CallId,
        /// As that of the question.
        key: String,
        answer: FormAnswer,
    },
    /// The same to a server of a sub-agent: its session, and the place of the question.
    AnswerChild {
        session: String,
        call: CallId,
        asked: Seq,
        answer: FormAnswer,
    },
    /// A person's verdict on a call of a sub-agent: its session, and the place of the question.
    DecideChild {
        session: String,
        call: CallId,
        asked: Seq,
        verdict: Verdict,
    },
    /// A rule that was allowed for this session is taken back.
    TakeBackRule(String),
    /// Stop what is in progress.
    Stop,
    /// End what was begun, and begin nothing more.
    Pause,
    /// Do what waits after a stop, a pause or a failure, and lift a limit or a crash loop.
    GoOn,
    /// Pause at these from here on.
    Limit(RunLimits),
    /// Another text for a queued message; `None` takes it out. When it was said already the
    /// new text is one more message.
    EditQueued {
        id: InboxId,
        message: Option<Message>,
    },
    /// The words that stand unsent in the input box.
    KeepInput(String),
    /// The same of words that came along from another session: they are forgotten there.
    BringInput {
        text: String,
        from: LeftDraft,
    },
    /// From the next step on.
    Choose(Choice),
    Name(String),
    /// A shell command of the user's own, under a keeper; on the terminal it is run by whoever
    /// has that, once it is recorded.
    RunForUser {
        command: String,
        on_terminal: bool,
    },
    /// A command of the user that had the terminal is over: the place of its entry, and how it
    /// ended.
    UserCommandOver {
        entry: Seq,
        ended: OnTerminal,
    },
    /// What the model is told besides, when no call is open. It waits in the inbox, also
    /// when the rest of that waits.
    Note(String),
    /// Summarise all but the newest exchange when no call is open.
    Compact,
    /// Files are to be set back: what that would change, or it is done, when no step is in
    /// progress.
    Rewind(Box<RewindOrder>),
    /// An effect that waits for a look at the files waits until its end.
    WaitForFiles,
    /// A server is asked for what it has for people. What came of it goes to who asked; one whose
    /// engine ends meanwhile hears nothing.
    AskServer(ServerRequest),
    /// The rules changed.
    SetPermissionCheck(PermissionCheck),
    /// Leave, with all that runs going on.
    Leave(SaveReason),
}

/// What an observer of the engine receives.
#[derive(Debug)]
pub enum Event {
    /// It is in the log.
    Recorded(Box<Record>),
    /// A piece of an answer that is not in the log.
    Delta(Delta),
    /// It is in the inbox.
    Queued(Queued),
    /// What waits in the inbox was changed by hand: this is all of it.
    Requeued(Vec<Queued>),
    /// A person is asked about this call.
    Asked {
        call: CallId,
        why: String,
        /// The rule that "always" would write.
        rule: Option<String>,
        /// How far the command would reach. `None`: the call runs no command.
        access: Option<Access>,
        /// The number of this question, from 1, and how many the model's answer leads to.
        place: (usize, usize),
    },
    /// A server asks a person in the middle of this call, or still asks after a restart. It is
    /// recorded.
    ServerAsks(CallId, Box<ServerQuestion>),
    /// A sub-agent asks a person, or asks something else now. `None`: none asks any more.
    ChildAsks(Option<Box<ChildQuestion>>),
    /// A shell command of the user was not begun, and why: nothing of it is recorded.
    CommandNotRun { command: String, why: String },
    /// Streamed or typed text was stored in the drafts, or the error if not.
    Kept(Result<(), String>),
    /// The second copy of the session is not written from now on, and why. It goes on all the
    /// same.
    JournalFails(String),
    /// Something for a person to know, in a line: it goes on all the same.
    Notice(String),
    /// These words of the input box are on the disk.
    InputKept(String),
    /// The context changed, or is about to.
    Context(ContextFigures),
    /// The summary model failed; something stands in.
    SummaryFailed(SummaryFailure),
    /// What came of the [`Command::Rewind`] with this number.
    RewindPlanned(u64, Planned),
    /// What is done with the files, which a person waits for. `None`: nothing any more.
    Files(Option<FilesWork>),
}

/// Work at the workspace's files that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesWork {
    /// They are being set back, which is not stopped: how many of how many.
    SettingBack { done: u64, all: u64 },
    /// An effect waits until they are looked at: how many were.
    Looking { seen: u64 },
}

/// Why the engine came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// There is nothing to do without a person or a signal.
    Waiting(Why),
    /// It was told to leave. Commands go on.
    Left(SaveReason),
}

/// Why the engine could not go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine or the log is wrong; nothing was written.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

impl EngineError {
    /// What a person can do about it. `None`: nothing is known that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Store(error) => error.hint(),
            EngineError::Illegal(_) => {
                Some("this is a fault of rewake; rewake doctor looks at the store".into())
            }
        }
    }
}

/// What the engine is started with, beside its log.
pub struct Settings {
    /// What `next` decides by.
    pub policy: Policy,
    /// An answer waits so long for its first call to be ready, to be recorded together with it.
    pub begins_within: Duration,
    /// Time between checkpoints of the timer.
    pub checkpoint_interval: Duration,
    /// How summaries are asked for.
    pub summarising: Summarising,
    /// What renders the layers anew when the context begins again.
    pub render: Render,
    /// Another version took the session up: its version and what it renders.
    pub renewed: Option<(String, Layers)>,
    /// What this start was told to use instead of what the session was using.
    pub chosen: Option<Choice>,
    /// Models, as `provider/model`, that are asked when the session's own cannot be, in this order.
    pub fallbacks: Vec<String>,
}

/// A session's log: where it is kept, its end, and what is so after it.
pub struct Log {
    pub store: Store,
    /// The end of the log: an append goes on from there.
    pub head: Head,
    /// The fold of the log up to `head`.
    pub state: State,
}

/// Called with every event and the state after it.
pub type OnEvent = Box<dyn FnMut(&State, Event)>;

/// Streamed text is in the drafts after this time at most.
const DRAFT_INTERVAL: Duration = Duration::from_millis(400);

/// The loop of one session, with its log. `W` is the world that it acts in.
pub struct Engine<W> {
    log: Recorder<W>,
    /// The version that resumed the session, and its layers: see [`Settings::renewed`].
    renewed: Option<(String, Layers)>,
    fallbacks: Vec<String>,
    commands: UnboundedReceiver<Command>,
    /// Commands that were received and not applied yet, since nothing could be recorded.
    pending_commands: VecDeque<Command>,
    requests: commands::Requests,
    timer: tokio::time::Interval,
    printed_bytes: u64,
    draft: attend::StreamDraft,
    summaries: context::Summaries,
    recall: recall::Recall,
    title: title::Title,
    files: files::FilesLook,
    asking: server_asks::Asking,
    signals_look: signals::SignalsLook,
    children: children::Children,
    user_commands: user_commands::UserCommands,
}

impl<W: World> Engine<W> {
    /// Must be called inside a tokio runtime.
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
            draft: attend::StreamDraft::default(),
            summaries: context::Summaries::new(settings.summarising, settings.render),
            recall: recall::Recall::default(),
            title: title::Title::default(),
            files: files::FilesLook::default(),
            asking: server_asks::Asking::default(),
            signals_look: signals::SignalsLook::new(),
            children: children::Children::default(),
            user_commands: user_commands::UserCommands::default(),
        }
    }

    /// The fold of what is in the log.
    pub fn state(&self) -> &State {
        &self.log.state
    }

    /// What is decided by.
    pub fn policy(&self) -> &Policy {
        &self.log.policy
    }

    /// Records that a process took the session up again, and what this start chose for it: nobody
    /// sees it resumed with the model and the mode from before. What was streaming at the crash
    /// moves from the drafts into the entry.
    ///
    /// `unrecorded`: the process before left because nothing could be recorded.
    pub async fn record_resumed(
        &mut self,
        by: By,
        found: String,
        unrecorded: bool,
    ) -> Result<(), EngineError> {
        let draft = self.log.store.drafts(self.log.head.session())?.stream;
        let draft = draft.filter(|d| !d.trim().is_empty());
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
        Ok(())
    }

    /// What is owed waits until a person says something or asks to go on, whatever else comes
    /// meanwhile: in a copy they want to say what is to be another, and who opens a session that
    /// asks for nothing may not want it to act at once.
    pub fn wait_for_person(&mut self) {
        self.requests.waits_for_person = true;
    }

    /// As [`Command::AskServer`].
    pub fn ask_server(&self, request: ServerRequest) {
        self.log.world.ask_server(request);
    }

    /// The process leaves. What lives for the next one of this session is given up when nothing is
    /// owed in it.
    pub async fn leave_servers(&self) {
        if !self.log.state.owed && self.log.state.first_open().is_none() {
            self.log.world.leave().await;
        }
    }

    /// Works until there is nothing to do without a person, or until it is told to leave.
    ///
    /// # Errors
    /// When the log cannot be written. What was done stays to be settled by the next start.
    pub async fn run(&mut self) -> Result<Rest, EngineError> {
        let mut rested = false;
        loop {
            self.log.refresh()?;
            // Nothing else may be recorded meanwhile.
            if self.log.state.restoring.is_some()
                && rest(&self.log.state, &self.log.policy) != Some(Why::CrashLoop)
            {
                self.log.restore().await?;
            }
            self.take_commands().await?;
            self.signals_look.is_active();
            self.hear().await?;
            if let Some(reason) = self.requests.left {
                return Ok(Rest::Left(reason));
            }
            if let Some(order) = &self.requests.rewind {
                self.log.obey_rewind(order).await?;
                self.requests.rewind = None;
                continue;
            }
            match next(&self.log.state, &self.log.policy, &self.pending()?) {
                Step::RecordChoice => self.requests.record_choice(&mut self.log).await?,
                Step::Render => self.render().await?,
                Step::CompactAsAsked => self.compact_as_asked().await?,
                Step::ReportEnd(id) => self.log.report_end(&id).await?,
                Step::ReportUserEnd(entry) => {
                    self.user_commands.report_end(&mut self.log, entry).await?
                }
                Step::TakeMessage => self.requests.take_message(&mut self.log).await?,
                Step::Summarise(range) => self.summaries.begin_summary(&mut self.log, range)?,
                Step::LearnLimit(count) => {
                    self.summaries
                        .learn_silent_limit(&mut self.log, count)
                        .await?
                }
                Step::Recall(since) => self.recall.recall(&mut self.log, since).await?,
                Step::CallModel => self.call_model().await?,
                Step::Run(calls) => self.run_calls(calls).await?,
                Step::Settle(call) => self.settle(call).await?,
                Step::Close(call) => self.close_call(call).await?,
                Step::CheckAnswer(answer) => self.log.check_answer(answer).await?,
                Step::Free(results) => self.summaries.free(&mut self.log, &results).await?,
                Step::Compact(range) => self.compact_range(range).await?,
                Step::Continue => self.continue_from_note().await?,
                Step::Ask(call) => self.ask(call).await?,
                Step::Restore => drop(self.log.restore().await?),
                Step::Wait(_) if !rested && self.files.behind.is_running() => {
                    rested = true;
                    self.rest_of_look().await?;
                }
                Step::Wait(why) => return Ok(Rest::Waiting(why)),
            }
        }
    }

    /// A checkpoint without a call.
    pub async fn save(&mut self, reason: SaveReason) -> Result<(), EngineError> {
        self.log
            .record(Write::of(Entry::Saved {
                reason,
                tree: None,
                why: None,
            }))
            .await
    }

    /// Puts words into the inbox that were said elsewhere than in the input box, and the bytes of
    /// their images. They are durable when it returns.
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

    /// Completes a rewind that is recorded and not done.
    ///
    /// # Errors
    /// As [`Engine::rewind`].
    pub async fn restore(&mut self) -> Result<Option<Entry>, EngineError> {
        self.log.restore().await
    }
}
