//! An open session: its thread opens it, replays it, runs its engine and answers its prompts.
//!
//! A loaded session waits for the person: the results of commands are recorded and shown, and the
//! model is asked again only after a prompt, an answer or `/continue`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::prompt::{CONTINUE, ORIGIN};
use super::settings::{Settings, lacks_key};
use super::turns::Turns;
use super::updates::{Measures, Projector};
use super::wire::{NO_KEY, OpenSession, RpcError};
use super::{Shared, wire};
use crate::command::Runs;
use crate::config;
use crate::core::custom::Template;
use crate::core::ending::Ending;
use crate::core::entry::{CallId, Entry, Guard, Mode, Record, SaveReason};
use crate::core::state::State;
use crate::engine::{Command, Event};
use crate::session::{
    AppContext, Attended, ResumeReport, Session, SessionError, SessionSelector, drive,
};
use crate::store::{SessionLock, Store, StoreError};
use crate::workspace::here;

/// How often a session in use is tried: the process before may be leaving it.
const IN_USE_TRIES: u32 = 12;
const IN_USE_PAUSE: Duration = Duration::from_millis(100);

/// How a session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    New,
    /// With a replay of its conversation.
    Load,
    Resume,
}

/// An open session, as the thread that reads frames knows it.
pub(super) struct OpenedSession {
    pub id: String,
    pub ctx: AppContext,
    pub commands: UnboundedSender<Command>,
    pub turns: Mutex<Turns>,
    pub settings: Mutex<Settings>,
}

impl OpenedSession {
    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the engine to read what was written for it.
    pub(super) fn hear(&self, is_message: bool, heard: Arc<AtomicBool>) {
        let _ = self.commands.send(Command::Hear { is_message, heard });
    }
}

/// Opens a session and works in it until it is left. Answers the request.
pub(super) fn run(shared: &Arc<Shared>, request: &Value, opening: Opening, params: OpenSession) {
    let id = params.session_id.clone().unwrap_or_default();
    let mut shown = Projector::new(shared.output.clone(), shared.client(), &id);
    let (session, ctx) = match open(shared, opening, params, &mut shown) {
        Ok(opened) => opened,
        Err(error) => return shared.output.refuse(request, &error),
    };
    let (commands, inbox) = Command::pipe();
    let state = session.state_as_chosen();
    let settings = Settings::new(&ctx, &state, shared.is_yolo);
    drop(state);
    let left_over = match session.log.store.inbox().queued(&session.id) {
        Ok(queued) => queued
            .iter()
            .filter(|row| row.message.origin.as_deref() == Some(ORIGIN))
            .count(),
        Err(error) => return shared.output.refuse(request, &error.into()),
    };
    let opened = Arc::new(OpenedSession {
        id: session.id.clone(),
        ctx,
        commands,
        turns: Mutex::new(Turns {
            left_over,
            ..Turns::default()
        }),
        settings: Mutex::new(settings.clone()),
    });
    let measures = Measures {
        gauging: session.gauging.clone(),
        figures: session.figures.clone(),
    };
    shown.session = session.id.clone();
    shown.is_opened(measures, settings);
    let mut unsettled = BTreeSet::new();
    if opening != Opening::New {
        if opening == Opening::Load
            && let Err(error) = replay(&mut shown, &session)
        {
            return shared.output.refuse(request, &error);
        }
        unsettled = ended_calls(&session.log.state, &opened.ctx);
    }
    if !shared.add(Arc::clone(&opened)) {
        return;
    }
    let live = Rc::new(LiveSession {
        shared: Arc::clone(shared),
        opened: Arc::clone(&opened),
        shown: RefCell::new(shown),
        answer: RefCell::new(Some(OpenAnswer {
            request: request.clone(),
            opening,
            unsettled,
        })),
    });
    let failed = work(&live, session, inbox, opening);
    shared.remove(&opened);
    let output = &shared.output;
    shared.questions.withdraw(output, &opened.id, |_| true);
    opened.turns().end(output, failed.as_ref());
}

/// Opens the session, in the context of its folder.
fn open(
    shared: &Shared,
    opening: Opening,
    mut params: OpenSession,
    shown: &mut Projector,
) -> Result<(Session, AppContext), RpcError> {
    params.check()?;
    let servers = params.servers()?;
    let mut ctx = context(&shared.ctx, &params.cwd, servers)?;
    ctx.given.folders = params.folders(&ctx)?;
    // The client named the folder together with the session.
    ctx.given.confirmed_session.clone_from(&params.session_id);
    let which = match (opening, params.session_id) {
        (Opening::New, _) => SessionSelector::New,
        (_, Some(id)) if uuid::Uuid::try_parse(&id).is_ok() => {
            refuse_copy(&ctx, &id)?;
            SessionSelector::Named { id, fork: false }
        }
        (_, id) => return Err(RpcError::unknown_session(&id.unwrap_or_default())),
    };
    if opening == Opening::Load {
        replay_recorded(shown, &ctx);
    }
    let mut tries = 1;
    let opened = loop {
        match ctx.open(&which, true) {
            Err(SessionError::Store(StoreError::Held { pid, .. }))
                if tries < IN_USE_TRIES && pid != Some(std::process::id()) =>
            {
                tries += 1;
                std::thread::sleep(IN_USE_PAUSE);
            }
            opened => break opened,
        }
    };
    let mut session = opened.map_err(|error| open_error(&ctx, error))?;
    if !shared.is_yolo && session.state_as_chosen().mode == Mode::BypassPermissions {
        let chosen = session.settings.chosen.get_or_insert_default();
        chosen.mode = Some(Mode::Default);
    }
    Ok((session, ctx))
}

/// Refuses a copy of another agent's session. It would continue in a fork, whose ID is another one
/// than the client asked for.
fn refuse_copy(ctx: &AppContext, id: &str) -> Result<(), RpcError> {
    let (store, _) = ctx.open_store_for_reading()?;
    match store.history().find(id).ok().and_then(|info| info.replica) {
        Some(agent) => Err(RpcError::from(StoreError::Replica {
            session: id.to_string(),
            agent,
        })),
        None => Ok(()),
    }
}

fn open_error(ctx: &AppContext, error: SessionError) -> RpcError {
    let is_config = matches!(error, SessionError::Config(_));
    let model = ctx.config().model_name(&ctx.env);
    let no_key = is_config && model.map_or(true, |model| lacks_key(ctx, &model.to_string()));
    let error = RpcError::from(error);
    match no_key {
        true => RpcError {
            code: NO_KEY,
            ..error
        },
        false => error,
    }
}

/// Returns the context for a folder, with the servers (MCP) of the client before the user's own.
fn context(
    ctx: &AppContext,
    cwd: &Path,
    servers: Vec<config::mcp::DefinedServer>,
) -> Result<AppContext, RpcError> {
    let invalid = |why: String| RpcError::new(wire::INVALID_PARAMS, why);
    let here = here(cwd).map_err(|error| invalid(error.to_string()))?;
    let mut loaded = config::load(&ctx.env, &ctx.paths, &here.root, &ctx.flags)?;
    loaded.servers.splice(0..0, servers);
    Ok(AppContext {
        here,
        ..ctx.with(loaded)
    })
}

/// Replays what is recorded before the session is opened, which reads all of it first. So a long
/// session is shown at once. An error here is met again when the session is opened.
fn replay_recorded(shown: &mut Projector, ctx: &AppContext) -> Option<()> {
    ctx.steering().check_not_below_agent().ok()?;
    let store = ctx.open_store().ok()?;
    let info = store.history().find(&shown.session).ok()?;
    let is_held = SessionLock::is_held(&ctx.paths.data_dir, &info.id);
    (info.id == shown.session && !is_held).then_some(())?;
    replay_entries(shown, &store, &info.folder).ok()
}

/// Replays the entries that were not replayed yet. It waits for a slow client, since no engine runs
/// yet.
fn replay_entries(shown: &mut Projector, store: &Store, folder: &str) -> Result<(), SessionError> {
    let session = shown.session.clone();
    store.load_each(&session, |record: Record| {
        if !shown.output.has_room() {
            return Err(SessionError::Runtime(std::io::ErrorKind::BrokenPipe.into()));
        }
        if record.seq >= shown.next_seq {
            shown.entry(&record, folder);
            shown.next_seq = record.seq + 1;
        }
        Ok(())
    })?;
    Ok(())
}

/// Replays the rest of the conversation, and its current status.
fn replay(shown: &mut Projector, session: &Session) -> Result<(), RpcError> {
    let state = &session.log.state;
    if shown.next_seq < state.next_seq() {
        replay_entries(shown, &session.log.store, &state.folder)?;
    }
    shown.close_calls(Some(state));
    if state.next_seq() > 1 {
        shown.title(state);
        shown.usage(state);
    }
    Ok(())
}

/// Returns the started calls that the engine settles at once: those before the first call whose
/// work still runs.
fn ended_calls(state: &State, ctx: &AppContext) -> BTreeSet<CallId> {
    let runs = ctx.runs().ok();
    let is_running = |guard: &Guard| match guard {
        Guard::Supervised { run, .. } => runs.as_ref().is_some_and(|runs| is_alive(runs, run)),
        Guard::Child { .. } | Guard::Served { .. } | Guard::Asks => true,
        Guard::Checked { .. } | Guard::Opaque => false,
    };
    let open = state.calls.iter().filter(|call| !call.finished);
    let started = open.map_while(|open| Some((open.call.id, open.guard.as_ref()?)));
    let ended = started.take_while(|(_, guard)| !is_running(guard));
    ended.map(|(id, _)| id).collect()
}

fn is_alive(runs: &Runs, run: &str) -> bool {
    runs.is_running(run)
}

/// The request that opened a session, until it is answered.
struct OpenAnswer {
    request: Value,
    opening: Opening,
    /// Calls that ended while nobody listened, and have no result yet.
    unsettled: BTreeSet<CallId>,
}

/// An open session, as its own thread knows it.
struct LiveSession {
    shared: Arc<Shared>,
    opened: Arc<OpenedSession>,
    shown: RefCell<Projector>,
    answer: RefCell<Option<OpenAnswer>>,
}

/// Runs the engine until the session is left. Returns why it failed.
fn work(
    live: &Rc<LiveSession>,
    session: Session,
    inbox: UnboundedReceiver<Command>,
    opening: Opening,
) -> Option<RpcError> {
    let report = session.found.clone();
    let warnings = session.warnings.clone();
    live.begin(&session.log.state, report.as_ref(), &warnings);
    let on_event = Rc::clone(live);
    let on_event = move |state: &State, event: Event| on_event.event(state, event);
    let ended = drive(session, inbox, Box::new(on_event), async |driver| {
        if opening != Opening::New {
            driver.engine.wait_for_person(true);
        }
        let tell = |progress: Attended<'_>| match progress {
            Attended::Rests(why, state) => live.rested(why, state),
            Attended::Pauses(error) => live.shown.borrow().notice("error", &error.to_string()),
            Attended::Works | Attended::GoesOn => {}
        };
        driver.attend(tell).await
    });
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            let failed = RpcError::new(wire::INTERNAL_ERROR, error.to_string());
            Some(failed.with_hint(error.hint()))
        }
        Err(error) => Some(error.into()),
    }
}

impl LiveSession {
    /// Shows how the session was found, and answers the request, unless results are missing.
    fn begin(&self, state: &State, report: Option<&ResumeReport>, warnings: &[String]) {
        let shown = self.shown.borrow();
        for warning in warnings {
            shown.notice("warning", warning);
        }
        if let Some(report) = report
            && report.ending == Ending::Killed
        {
            shown.recovery(&report.line());
        }
        drop(shown);
        self.answer_if_settled(state);
    }

    fn answer_if_settled(&self, state: &State) {
        let mut answer = self.answer.borrow_mut();
        let Some(OpenAnswer {
            request, opening, ..
        }) = answer.take_if(|answer| answer.unsettled.is_empty())
        else {
            return;
        };
        let (output, id) = (&self.shared.output, &self.opened.id);
        let settings = self.opened.settings();
        let mut result = json!({ "modes": settings.modes(), "configOptions": settings.options() });
        drop(settings);
        if opening == Opening::New {
            result["sessionId"] = id.as_str().into();
        }
        output.respond(&request, &result);
        let commands = commands(&self.opened.ctx, self.shared.is_own);
        output.update(
            id,
            &json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }),
        );
        // A question that an earlier process asked is still open.
        let first = state.questions().next().map(|(open, _)| open.call.id);
        if let Some(call) = first {
            self.shared
                .questions
                .ask_permission(output, id, state, call);
        }
    }

    fn rested(&self, why: crate::core::next::Why, state: &State) {
        if let Some(answer) = self.answer.borrow_mut().as_mut() {
            answer.unsettled.clear();
        }
        self.answer_if_settled(state);
        let mut turns = self.opened.turns();
        turns.rested(&self.shared.output, why, state);
        if turns.is_closing() {
            let _ = self.opened.commands.send(Command::Leave(SaveReason::Exit));
        }
    }

    fn event(&self, state: &State, event: Event) {
        let (shared, id) = (&self.shared, &self.opened.id);
        let (questions, output) = (&shared.questions, &shared.output);
        let mut shown = self.shown.borrow_mut();
        match event {
            Event::Recorded(record) => {
                let is_prompt = self.opened.turns().recorded(output, &record.entry);
                shown.recorded(&record, state, is_prompt);
                drop(shown);
                self.recorded(&record, state);
            }
            Event::Delta(delta) => shown.delta(&delta),
            Event::Asked { call, .. } => questions.ask_permission(output, id, state, call),
            Event::ServerAsks(..) => questions.ask_form(output, &shown.client, id, state),
            Event::ChildAsks(question) => {
                questions.ask_child(output, &shown.client, id, question.as_deref());
            }
            Event::JournalFails(why) => {
                shown.notice("warning", &crate::session::journal_fails(&why));
            }
            Event::Notice(text) => shown.notice("warning", &text),
            Event::SummaryFailed(_)
            | Event::Queued(_)
            | Event::Requeued(_)
            | Event::CommandNotRun { .. }
            | Event::Kept(_)
            | Event::InputKept(_)
            | Event::Context(_)
            | Event::RewindPlanned(..)
            | Event::Files(_) => {}
        }
    }

    fn recorded(&self, record: &Record, state: &State) {
        let output = &self.shared.output;
        let withdraw = |is_over: &dyn Fn(CallId) -> bool| {
            let is_over =
                |key: &super::questions::QuestionKey| key.child.is_none() && is_over(key.call);
            let questions = &self.shared.questions;
            questions.withdraw(output, &self.opened.id, is_over);
        };
        match &record.entry {
            Entry::Decided { call, .. }
            | Entry::Answered { call, .. }
            | Entry::Started { call, .. } => withdraw(&|open| open == *call),
            Entry::Finished { call, .. } => {
                withdraw(&|open| open == *call);
                if let Some(answer) = self.answer.borrow_mut().as_mut() {
                    answer.unsettled.remove(call);
                }
                self.answer_if_settled(state);
            }
            Entry::Stopped { .. } => withdraw(&|_| true),
            Entry::Chose(_) => {
                let mut settings = self.opened.settings();
                *settings = settings.after(state);
            }
            _ => {}
        }
    }
}

/// Returns the commands that a prompt may begin with.
fn commands(ctx: &AppContext, is_own: fn(&str) -> bool) -> Value {
    let command = |name: &str, description: &str, hint: &str| {
        let mut command = json!({ "name": name, "description": description });
        if !hint.is_empty() {
            command["input"] = json!({ "hint": hint });
        }
        command
    };
    let own = [
        command(
            CONTINUE,
            "Continue an interrupted, paused or failed session",
            "",
        ),
        command(
            "init",
            "Write AGENTS.md, or improve it",
            "[what matters most]",
        ),
    ];
    let custom = ctx.command_files().commands(is_own).found;
    let custom = custom.iter().map(|custom| {
        let Template {
            description,
            argument_hint,
            ..
        } = &custom.template;
        command(&custom.name, description, argument_hint)
    });
    own.into_iter().chain(custom).collect()
}
