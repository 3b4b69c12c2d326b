//! A session in which another process works, followed by the screen. Nothing is locked: new entries
//! and the streamed words are read from the store. Messages and answers of the person go into the
//! inbox and the signals, where that process finds them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::OnLiveEvent;
use super::live::{LiveEvent, NotOpened, Opening, SessionView, waiting};
use crate::core::entry::{CallId, Seq};
use crate::core::state::State;
use crate::engine::{Command, Event, child_question};
use crate::model::Delta;
use crate::session::remote::{Remote, post};
use crate::session::{AppContext, QuestionChoice, SessionError, SteerError, sandbox};
use crate::shared::SharedError;
use crate::store::Store;
use crate::tools;

/// Maximum delay of the screen.
const LOOK: Duration = Duration::from_millis(200);

/// Interval of the requests to the database, for a session on another machine.
const PULL: Duration = Duration::from_secs(1);

/// Maximum delay of a message that was typed here.
const SEND: Duration = Duration::from_millis(20);

/// Delay before a command is sent again for which the store had no room.
const AGAIN: Duration = Duration::from_secs(1);

/// The origin of signals, as entries record it.
const ORIGIN: &str = "screen";

/// Number of the last entries that are shown at first.
const RECENT: u64 = 600;

/// A thread that follows a session. Dropping this ends it after all commands are sent.
pub(super) struct SessionWatch {
    commands: UnboundedSender<Command>,
    _stop: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

/// A watch that has ended, except for commands that must still be sent.
pub(super) struct LeavingWatch(Option<JoinHandle<()>>);

impl LeavingWatch {
    pub(super) fn has_left(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl SessionWatch {
    pub(super) fn start(ctx: Arc<AppContext>, id: String, on_event: OnLiveEvent) -> SessionWatch {
        let (stop, stopped) = sync_channel(0);
        // Unbounded: the thread that draws sends, and must not wait while the store is locked.
        let (commands, mut said) = unbounded_channel();
        let thread = std::thread::spawn(move || {
            let mut follower = match Follower::begin(&ctx, &id, &on_event) {
                Ok(follower) => follower,
                Err(error) => return on_event(LiveEvent::NotOpened(NotOpened::from(error))),
            };
            let mut unsent = UnsentCommands::default();
            let mut looked = Instant::now();
            loop {
                let is_over = stopped.recv_timeout(SEND) != Err(RecvTimeoutError::Timeout);
                while let Ok(command) = said.try_recv() {
                    unsent.commands.push_back(command);
                }
                unsent.send(&mut follower, &ctx, &on_event, is_over);
                if is_over {
                    return;
                }
                if looked.elapsed() < LOOK {
                    continue;
                }
                looked = Instant::now();
                if let Err(error) = follower.again(&ctx, &on_event) {
                    tracing::warn!(%error, "a session cannot be watched any more");
                    return on_event(LiveEvent::Ended(Some((error.to_string(), error.hint()))));
                }
            }
        });
        SessionWatch {
            commands,
            _stop: stop,
            thread: Some(thread),
        }
    }

    pub(super) fn leave(mut self) -> LeavingWatch {
        LeavingWatch(self.thread.take())
    }

    /// Returns a sender for commands, which go to the engine of the other process.
    pub(super) fn sender(&self) -> UnboundedSender<Command> {
        self.commands.clone()
    }
}

/// Commands that are not sent yet, in their order.
#[derive(Default)]
struct UnsentCommands {
    commands: VecDeque<Command>,
    /// The first of them was tried, and there was no room for it.
    tried: Option<Instant>,
}

impl UnsentCommands {
    fn send(
        &mut self,
        follower: &mut Follower,
        ctx: &AppContext,
        on_event: &OnLiveEvent,
        is_last_try: bool,
    ) {
        if !is_last_try && self.tried.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        while let Some(command) = self.commands.front() {
            match follower.send(ctx, command, on_event) {
                Err(SteerError::Session(SessionError::Store(error))) if error.is_passing() => {
                    self.tried = Some(Instant::now());
                    return on_event(Event::Kept(Err(error.to_string())).into());
                }
                Err(error) => on_event(Event::Notice(format!("not sent: {error}")).into()),
                Ok(()) => {}
            }
            if self.tried.take().is_some() {
                on_event(Event::Kept(Ok(())).into());
            }
            self.commands.pop_front();
        }
    }
}

/// Follows a session that another process works in.
struct Follower {
    store: Store,
    id: String,
    state: State,
    /// The streamed text that was sent to the screen.
    streamed: String,
    /// The `seq` of the question that the screen shows.
    asked: Option<Seq>,
    /// The `seq` of the question of a server.
    server_asked: Option<Seq>,
    /// The question of a subagent: its session, and the `seq` there.
    child_asked: Option<(String, Seq)>,
    /// The session is on another machine, and `id` is its copy here.
    remote: Option<Remote>,
    pulled: Instant,
    /// The database does not answer.
    is_away: bool,
}

impl Follower {
    fn begin(ctx: &AppContext, id: &str, on_event: &OnLiveEvent) -> Result<Follower, SessionError> {
        let mut store = ctx.open_store()?;
        let remote = match ctx.given.shared {
            true => Some(Remote::open(ctx, &mut store, id)?),
            false => None,
        };
        let id = match &remote {
            Some(remote) => remote.copy.clone(),
            None => store.history().find(id)?.id,
        };
        let mut follower = Follower {
            store,
            id,
            state: State::new(tools::describe),
            streamed: String::new(),
            asked: None,
            server_asked: None,
            child_asked: None,
            remote,
            pulled: Instant::now(),
            is_away: false,
        };
        let mut recent = Vec::new();
        let state = &mut follower.state;
        let length = follower.store.history().find(&follower.id)?.entries;
        follower.store.load_each(&follower.id, |record| {
            let folded = state.fold(&record);
            if record.seq + RECENT >= length {
                recent.push(record);
            }
            folded.map_err(|why| SessionError::Illegal {
                session: follower.id.clone(),
                why,
            })
        })?;
        on_event(LiveEvent::Opened(Box::new(Opening {
            id: follower.id.clone(),
            recent,
            // Only the tokens are shown: the price is the other process's to tell.
            cost_usd: None,
            queued: waiting(&follower.store, &follower.id)?,
            sandbox: sandbox::given(ctx),
            now: SessionView::of(
                &follower.state,
                &ctx.gauging(&follower.store, &follower.state.model)?,
            ),
            ..Opening::default()
        })));
        follower.again(ctx, on_event)?;
        Ok(follower)
    }

    /// Gets what the session on another machine has more.
    fn pull(&mut self, on_event: &OnLiveEvent) -> Result<(), SessionError> {
        let Some(remote) = &mut self.remote else {
            return Ok(());
        };
        if self.pulled.elapsed() < PULL {
            return Ok(());
        }
        self.pulled = Instant::now();
        let pulled = remote.pull(&mut self.store);
        let is_away = match pulled {
            Err(SessionError::Shared(SharedError::Away { what })) => {
                if !self.is_away {
                    on_event(Event::Notice(format!("{what}; trying again")).into());
                }
                true
            }
            pulled => pulled.map(|()| false)?,
        };
        self.is_away = is_away;
        Ok(())
    }

    fn again(&mut self, ctx: &AppContext, on_event: &OnLiveEvent) -> Result<(), SessionError> {
        self.pull(on_event)?;
        let next = self.state.next_seq();
        let length = self.store.history().find(&self.id)?.entries;
        if length > next {
            let gauging = ctx.gauging(&self.store, &self.state.model)?;
            for record in self.store.records(&self.id, next..=length - 1)? {
                self.state
                    .fold(&record)
                    .map_err(|why| SessionError::Illegal {
                        session: self.id.clone(),
                        why,
                    })?;
                let now = SessionView::of(&self.state, &gauging);
                on_event(LiveEvent::recorded(record, now));
            }
            on_event(Event::Requeued(waiting(&self.store, &self.id)?).into());
            self.streamed.clear();
        }
        self.ask(on_event);
        self.ask_for_server(on_event);
        self.ask_for_child(on_event);
        let stream = self
            .store
            .inbox()
            .drafts(&self.id)?
            .stream
            .unwrap_or_default();
        if let Some(more) = stream
            .strip_prefix(&self.streamed)
            .filter(|m| !m.is_empty())
        {
            on_event(Event::Delta(Delta::Text(more.to_string())).into());
        }
        self.streamed = stream;
        if self.remote.is_none() && !ctx.session_list().is_in_use(&self.id) {
            on_event(LiveEvent::Free);
        }
        Ok(())
    }

    /// Reports the first open question, each time it is another one.
    fn ask(&mut self, on_event: &OnLiveEvent) {
        let of = self.state.questions().count();
        let Some((open, asked)) = self.state.questions().next() else {
            self.asked = None;
            return;
        };
        if self.asked.replace(asked.seq) == Some(asked.seq) {
            return;
        }
        on_event(
            Event::Asked {
                call: open.call.id,
                why: asked.why.clone(),
                // A rule for more than this call cannot be added from here: it belongs to the other
                // process.
                rule: None,
                access: asked.access,
                place: (1, of),
            }
            .into(),
        );
    }

    /// Reports the question of a server in a call, each time it is another one.
    fn ask_for_server(&mut self, on_event: &OnLiveEvent) {
        let asks = self.state.server_question();
        let seq = asks.map(|(_, asked)| asked.seq);
        if std::mem::replace(&mut self.server_asked, seq) == seq {
            return;
        }
        if let Some((open, asked)) = asks {
            let question = Box::new(asked.question.clone());
            on_event(Event::ServerAsks(open.call.id, question).into());
        }
    }

    /// Reports the first question of the subagents, each time it is another one, and the end of the
    /// last one.
    fn ask_for_child(&mut self, on_event: &OnLiveEvent) {
        let asks = child_question(&self.store, &self.state).unwrap_or_else(|error| {
            tracing::warn!(%error, "it is not known whether a task asks");
            None
        });
        let key = asks.as_ref().map(|q| (q.session.clone(), q.asked));
        if self.child_asked != key {
            self.child_asked = key;
            on_event(Event::ChildAsks(asks.map(Box::new)).into());
        }
    }

    /// Sends a command of the screen to the engine of the other process. Commands that only an
    /// engine of this process could execute are ignored.
    fn send(
        &mut self,
        ctx: &AppContext,
        command: &Command,
        on_event: &OnLiveEvent,
    ) -> Result<(), SteerError> {
        let info = self.store.history().find(&self.id)?;
        let steering = match &self.remote {
            Some(remote) => ctx.steering().by(post(ctx, &remote.session)?),
            None => ctx.steering(),
        };
        match command {
            Command::Say { message, blobs } => {
                steering.send(&mut self.store, &self.id, message.clone(), blobs, ORIGIN)?;
                on_event(Event::Requeued(waiting(&self.store, &self.id)?).into());
            }
            Command::Decide {
                call,
                verdict,
                rule,
            } => {
                // A session on another machine takes no rule from the database.
                let rule = rule.clone().filter(|_| self.remote.is_none());
                let answer = (verdict.clone(), rule);
                steering.answer(&mut self.store, &info, Some(*call), answer, ORIGIN)?;
            }
            Command::Answer { call, answer, .. } => {
                let answer = answer.clone();
                steering.answer_form(&mut self.store, &info, in_call(*call), answer, ORIGIN)?;
            }
            Command::AnswerChild {
                session,
                call,
                answer,
                ..
            } => {
                let (child, answer) = (self.store.history().find(session)?, answer.clone());
                steering.answer_form(&mut self.store, &child, in_call(*call), answer, ORIGIN)?;
            }
            Command::DecideChild {
                session,
                call,
                verdict,
                ..
            } => {
                let (child, verdict) = (self.store.history().find(session)?, verdict.clone());
                steering.answer(
                    &mut self.store,
                    &child,
                    Some(*call),
                    (verdict, None),
                    ORIGIN,
                )?;
            }
            Command::Signal(signal) if self.remote.is_some() => {
                steering.signal_by_post(signal.clone())?;
            }
            Command::Signal(signal) => {
                ctx.steer(&mut self.store, &info, signal.clone(), ORIGIN)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the target of a decision: the call. The screen shows one question of a call.
fn in_call(call: CallId) -> QuestionChoice {
    QuestionChoice {
        call: Some(call),
        asked: None,
    }
}
