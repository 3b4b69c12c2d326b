//! The open session: the engine in a separate thread, commands in, events out.
//!
//! The screen never touches the store or the world; it shows the entries that the engine recorded,
//! in their order. A full disk pauses the engine, not the screen: the engine reports it and tries
//! again until there is room.
//!
//! Nothing here waits on the caller's thread. The engine of the next session waits for the one
//! before, and to quit the program the caller polls [`EngineHandle::has_left`].
//!

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::OnLiveEvent;
use super::rewind::RewindShown;
use crate::core::background::BackgroundMode;
use crate::core::choice::Effort;
use crate::core::entry::{Mode, Plan, Record, SaveReason, Seq, Usage};
use crate::core::next::Why;
use crate::core::policy::Sandbox;
use crate::core::state::{Halt, State, UserCommand};
use crate::engine::{Command, Event, NotRewound, RewindResult, Rewinding};
use crate::model::Figures;
use crate::session::context::{Gauge, Gauging};
use crate::session::{
    AppContext, Attended, ResumeReport, Session, SessionError, SessionSelector, drive, sandbox,
};
use crate::store::{Queued, Store, StoreError};

/// Maximum time for another process to leave a session that is taken over.
const TAKING_OVER: Duration = Duration::from_secs(10);

/// Maximum time to wait for the engine to leave: a commit, and a busy store.
pub const LEAVING: Duration = Duration::from_secs(8);

/// The session to open, and how.
#[derive(Debug)]
pub struct Open {
    pub which: SessionSelector,
    /// Another process is asked to leave it.
    pub take_over: bool,
    /// It was named when the program was started.
    pub named: bool,
}

/// An event for the screen about its session: from the engine, from its thread, or from the thread
/// that watches another process.
#[derive(Debug)]
pub enum LiveEvent {
    Opened(Box<Opening>),
    NotOpened(NotOpened),
    /// An event of the engine; for an entry, with the state after it.
    Engine(Event, Option<Box<SessionView>>),
    /// The engine checks whether there is something to do.
    Working,
    /// The process that was watched has left the session.
    Free,
    /// [`Event::RewindPlanned`], with its preview for a person.
    RewindPlanned(u64, RewindAnswer),
    /// There is nothing to do without a person.
    Resting(Why),
    /// Nothing can be recorded, so nothing is done: the attempt, and a hint.
    Paused(String, Option<String>),
    /// The engine tries again after [`LiveEvent::Paused`].
    GoesOn,
    /// The engine has ended. `Some`: why, when this was not requested, and a hint.
    Ended(Option<(String, Option<String>)>),
}

impl From<Event> for LiveEvent {
    fn from(event: Event) -> LiveEvent {
        LiveEvent::Engine(event, None)
    }
}

impl LiveEvent {
    /// Returns the event for an entry, with the state after it.
    pub fn recorded(record: Record, now: SessionView) -> LiveEvent {
        LiveEvent::Engine(Event::Recorded(Box::new(record)), Some(Box::new(now)))
    }
}

/// The outcome of a plan to restore files.
#[derive(Debug)]
pub enum RewindAnswer {
    Shown(RewindShown),
    /// The restore will be done in a copy of the session.
    HandedOver(Box<Rewinding>),
    /// See [`RewindResult::Done`].
    Done {
        copy_of: Option<String>,
    },
    Not {
        why: String,
        hint: Option<String>,
    },
}

/// A session that this process opened.
#[derive(Debug, Default)]
pub struct Opening {
    pub id: String,
    /// The report on the resumed session. `None` for a new session.
    pub found: Option<ResumeReport>,
    /// For the user, not for the model.
    pub warnings: Vec<String>,
    /// The last of its entries.
    pub recent: Vec<Record>,
    /// Cost of the session so far, US dollars; `None` when a price is not known.
    pub cost_usd: Option<f64>,
    /// Messages in the inbox.
    pub queued: Vec<Queued>,
    /// The stored draft of the input box.
    pub input: Option<String>,
    /// Text that was written in the person's editor and did not come back from there.
    pub edited: Option<String>,
    /// The sandbox that commands get on this system.
    pub sandbox: Sandbox,
    pub now: SessionView,
}

/// Why a session was not opened.
#[derive(Debug)]
pub struct NotOpened {
    pub message: String,
    pub hint: Option<String>,
    /// Another process has this session open.
    pub held: Option<(String, Option<u32>)>,
    /// The session is on another machine, and can be watched.
    pub elsewhere: Option<String>,
}

/// The part of the session's state that the screen shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionView {
    /// `provider/model`.
    pub model: String,
    /// The effort that was chosen in this session.
    pub effort: Effort,
    pub mode: Mode,
    pub folder: String,
    /// The name of the session, or the first words of the user. `None`: neither.
    pub title: Option<String>,
    pub plan: Option<Plan>,
    /// Usage of all requests so far.
    pub usage: Usage,
    /// `None` before a session is open.
    pub gauge: Option<Gauge>,
    /// Id, command and run of each background command.
    pub background: Vec<(String, String, String)>,
    /// Number of these that are subagents.
    pub background_tasks: usize,
    /// The user's shell commands that have not ended.
    pub user_commands: Vec<UserRun>,
    /// The last request to the model failed, and the user said nothing since.
    pub has_failed: bool,
    /// Something is owed to the user, or a command runs: see [`State::unfinished`].
    pub unfinished: bool,
    /// An answer or a result is owed, and a command is enough to continue. After a stop it takes a
    /// new message of the user.
    pub owes: bool,
    /// A call that may change files is in progress, or a command runs in the background.
    pub acting: bool,
    /// The place of the last entry.
    pub seq: u64,
    /// Rules that were allowed for this session.
    pub session_rules: Vec<String>,
    /// The JSON Schema that an answer still has to fit.
    pub schema: Option<Value>,
}

/// A shell command of the user, as the log records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRun {
    /// The `seq` of its entry.
    pub entry: Seq,
    pub command: String,
    /// Its run folder. `None` for one that has the terminal.
    pub run: Option<String>,
    /// UTC, milliseconds since 1970.
    pub since_ms: i64,
}

impl UserRun {
    fn of((entry, command): (&Seq, &UserCommand)) -> UserRun {
        UserRun {
            entry: *entry,
            command: command.command.clone(),
            run: command.run().map(str::to_string),
            since_ms: command.since_ms,
        }
    }
}

impl SessionView {
    /// Returns the part of `state` that the screen shows. `gauging` measures the context.
    pub fn of(state: &State, gauging: &Gauging) -> SessionView {
        SessionView {
            model: state.model.clone(),
            effort: state.effort,
            mode: state.mode,
            folder: state.folder.clone(),
            session_rules: state
                .session_rules
                .iter()
                .map(ToString::to_string)
                .collect(),
            title: state.title().map(str::to_string),
            plan: state.plan.clone(),
            usage: state.usage,
            gauge: Some(gauging.of(state)),
            background_tasks: state
                .background
                .values()
                .filter(|background| background.child.is_some())
                .count(),
            background: state
                .background
                .iter()
                .map(|(id, b)| (id.clone(), b.command.clone(), b.run.clone()))
                .collect(),
            user_commands: state.user_commands.iter().map(UserRun::of).collect(),
            has_failed: matches!(state.halted, Some(Halt::Failed(_))),
            unfinished: state.unfinished(),
            owes: !state.is_stopped()
                && (state.owed || state.first_open().is_some() || state.unchecked().is_some()),
            acting: state.acts(),
            seq: state.next_seq().saturating_sub(1),
            schema: state.pending_schema().cloned(),
        }
    }
}

/// A running engine.
pub struct EngineHandle {
    commands: UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
    /// Set to abandon an opening that is not complete.
    is_left: Arc<AtomicBool>,
}

impl EngineHandle {
    /// Opens a session and works in it, when the engines before have left theirs: it may be one of
    /// their sessions, or a copy of one. `on_event` is called from the engine's thread.
    pub fn start(
        ctx: Arc<AppContext>,
        open: Open,
        before: Vec<EngineHandle>,
        on_event: OnLiveEvent,
    ) -> EngineHandle {
        let (commands, inbox) = Command::pipe();
        let is_left = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_left);
        let work = move || {
            wait_for(&before);
            if !theirs.load(Ordering::SeqCst) {
                work(&ctx, &open, inbox, &on_event);
            }
        };
        let thread = std::thread::Builder::new()
            .name("engine".into())
            .spawn(work)
            .inspect_err(|error| tracing::error!(%error, "the engine has no thread"))
            .ok();
        EngineHandle {
            commands,
            thread,
            is_left,
        }
    }

    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Returns a sender for callers that send commands to the engine themselves.
    pub fn sender(&self) -> UnboundedSender<Command> {
        self.commands.clone()
    }

    /// Tells the engine to leave in order: running commands continue. Does not wait for it.
    pub fn leave(&self, reason: SaveReason) {
        if !self.mark_leaving() {
            self.send(Command::Leave(reason));
        }
    }

    /// Marks that the engine is told to leave. Returns true when it was told before.
    pub fn mark_leaving(&self) -> bool {
        self.is_left.swap(true, Ordering::SeqCst)
    }

    /// Returns whether everything is in the log, and the session is free.
    pub fn has_left(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.leave(SaveReason::Exit);
    }
}

/// Waits for earlier engines, in the thread of the next one. They were told to leave.
fn wait_for(before: &[EngineHandle]) {
    let end = Instant::now() + LEAVING;
    while !before.iter().all(EngineHandle::has_left) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn work(
    ctx: &Arc<AppContext>,
    open: &Open,
    inbox: UnboundedReceiver<Command>,
    on_event: &OnLiveEvent,
) {
    let opened = match (&open.which, open.take_over) {
        (SessionSelector::Named { id, .. }, true) => take_over(ctx, id),
        _ => Ok(()),
    };
    let session = match opened.and_then(|()| ctx.open(&open.which, true)) {
        Ok(session) => session,
        Err(error) => return on_event(LiveEvent::NotOpened(NotOpened::from(error))),
    };
    let edited = ctx.editor_files().text(&session.id);
    on_event(LiveEvent::Ended(live(
        ctx, session, edited, open.named, inbox, on_event,
    )));
}

fn take_over(ctx: &AppContext, id: &str) -> Result<(), SessionError> {
    let id = ctx.open_store()?.history().find(id)?.id;
    ctx.session_list().take_over(&id, TAKING_OVER)
}

/// Works in a session until it is left. Returns why, when this was not requested.
fn live(
    ctx: &Arc<AppContext>,
    mut session: Session,
    edited: Option<String>,
    named: bool,
    inbox: UnboundedReceiver<Command>,
    on_event: &OnLiveEvent,
) -> Option<(String, Option<String>)> {
    session.settings.policy.background = BackgroundMode::Wake;
    let gauging = session.gauging.clone();
    match opening(ctx, &mut session, &gauging) {
        Ok(opening) => on_event(LiveEvent::Opened(Box::new(Opening { edited, ..opening }))),
        Err(error) => return Some((error.to_string(), error.hint())),
    }
    let waits = session
        .found
        .as_ref()
        .is_some_and(|found| waits(found, named));
    let forward = Arc::clone(on_event);
    let (ctx, id) = (Arc::clone(ctx), session.id.clone());
    let forward = move |state: &State, event: Event| {
        forward(match event {
            Event::RewindPlanned(number, planned) => {
                LiveEvent::RewindPlanned(number, answer(&ctx, &id, planned))
            }
            event @ Event::Recorded(_) => {
                LiveEvent::Engine(event, Some(Box::new(SessionView::of(state, &gauging))))
            }
            event => event.into(),
        });
    };
    let ended = drive(session, inbox, Box::new(forward), async |driver| {
        if waits {
            driver.engine.wait_for_person(false);
        }
        let tell = |progress: Attended<'_>| {
            on_event(match progress {
                Attended::Works => LiveEvent::Working,
                Attended::Rests(why, _) => LiveEvent::Resting(why),
                Attended::Pauses(error) => LiveEvent::Paused(error.to_string(), error.hint()),
                Attended::GoesOn => LiveEvent::GoesOn,
            });
        };
        driver.attend(tell).await
    });
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some((error.to_string(), error.hint())),
        Err(error) => Some((error.to_string(), error.hint())),
    }
}

/// Returns whether the engine first waits for the person. A fork waits, since the person may want
/// to change something in it. A session in `bypassPermissions` waits, unless it was named when the
/// program was started.
fn waits(found: &ResumeReport, named: bool) -> bool {
    found.forked || (found.mode == Mode::BypassPermissions && !named)
}

fn opening(
    ctx: &AppContext,
    session: &mut Session,
    gauging: &Gauging,
) -> Result<Opening, StoreError> {
    let store = &session.log.store;
    Ok(Opening {
        id: session.id.clone(),
        found: session.found.clone(),
        warnings: std::mem::take(&mut session.warnings),
        recent: std::mem::take(&mut session.recent),
        cost_usd: cost(&session.figures, &session.spent),
        queued: waiting(store, &session.id)?,
        input: store.inbox().drafts(&session.id)?.input,
        edited: None,
        sandbox: sandbox::given(ctx),
        now: SessionView {
            // The choices are shown, although the log does not have them yet.
            seq: session.log.state.next_seq().saturating_sub(1),
            ..SessionView::of(&session.state_as_chosen(), gauging)
        },
    })
}

fn cost(figures: &Figures, spent: &BTreeMap<String, Usage>) -> Option<f64> {
    let one = |(model, usage): (&String, &Usage)| figures.cost(model, usage);
    spent.iter().map(one).sum()
}

/// Returns the messages of the inbox that are shown.
pub(super) fn waiting(store: &Store, session: &str) -> Result<Vec<Queued>, StoreError> {
    let mut queued = store.inbox().queued(session)?;
    queued.retain(|q| !q.is_note());
    Ok(queued)
}

/// Makes the answer to a plan for a person. The preview is read here, in the engine's thread, which
/// waits for the person anyway.
fn answer(ctx: &AppContext, id: &str, planned: RewindResult) -> RewindAnswer {
    let not = |why: String, hint: Option<String>| RewindAnswer::Not { why, hint };
    match planned {
        RewindResult::HandedOver(rewinding) => RewindAnswer::HandedOver(rewinding),
        RewindResult::Done { copy_of } => RewindAnswer::Done { copy_of },
        RewindResult::Not(error) => {
            let hint = match &error {
                NotRewound::Unknown(_) => {
                    Some("/rewind can still rewind the conversation".to_string())
                }
                NotRewound::NothingToRedo | NotRewound::OtherFolder(_) => None,
                NotRewound::OpenCall => Some("stop it first".to_string()),
                NotRewound::NotKept(_) => {
                    Some("nothing was changed; /doctor says what is kept".to_string())
                }
                NotRewound::Engine(error) => error.hint(),
            };
            not(error.to_string(), hint)
        }
        RewindResult::Shown {
            rewinding,
            is_other,
        } => {
            let store = ctx.open_store();
            let preview =
                store.and_then(|store| ctx.session_list().rewind_preview(&store, id, &rewinding));
            match preview {
                Ok(preview) => RewindAnswer::Shown(RewindShown {
                    preview,
                    rewinding: Arc::from(rewinding),
                    is_other,
                }),
                Err(error) => not(error.to_string(), error.hint()),
            }
        }
    }
}

impl From<SessionError> for NotOpened {
    fn from(error: SessionError) -> NotOpened {
        let held = match &error {
            SessionError::Store(StoreError::Held { session, pid, .. }) => {
                Some((session.clone(), *pid))
            }
            _ => None,
        };
        let elsewhere = match &error {
            SessionError::Elsewhere { session } => Some(session.clone()),
            _ => None,
        };
        NotOpened {
            message: error.to_string(),
            hint: error.hint(),
            held,
            elsewhere,
        }
    }
}
