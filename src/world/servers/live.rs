//! The running servers of a session. A server that an earlier agent left is found by its run
//! folder, which names the session and the server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::asks::Asks;
use super::health::Health;
use super::relisted::Relisted;
use super::{Launch, ServerAccess};
use crate::command::How;
use crate::command::server::{Attached, EndedServer, ServerInfo, ServerSpec, Servers, describe};
use crate::core::entry::CallId;
use crate::mcp::catalogue::SessionCatalogue;
use crate::mcp::connection::Connection;
use crate::mcp::elicit::Elicit;
use crate::mcp::era::ProtocolHint;
use crate::mcp::last_line;
use crate::tools::ToolResult;
use crate::world::ServerAsks;
use crate::world::archive::Archive;

/// Longest pause before a start that is waited for. A longer one is reported at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time for another agent that dies or leaves to release a server.
const BUSY_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time for a server to end by itself. The folder of a slower one is removed by a later start.
const ENDS_WITHIN: Duration = Duration::from_millis(300);

/// Maximum length of the last line of a server's stderr.
const LINE_MAX_BYTES: usize = 4096;
const LINE_CHARS: usize = 300;

/// The place for the lists of tools, for this session and for later ones.
#[derive(Clone)]
pub(crate) struct Learning {
    pub(super) catalogue: SessionCatalogue,
    pub(super) archive: Archive,
}

impl Learning {
    pub(in crate::world) fn new(catalogue: SessionCatalogue, archive: Archive) -> Learning {
        Learning { catalogue, archive }
    }
}

/// A server to which this process is connected.
pub(super) struct RunningServers {
    pub run: String,
    pub connection: Connection,
    pub relisted: tokio::sync::Mutex<Relisted>,
}

impl RunningServers {
    fn new(run: &str, connection: Connection) -> RunningServers {
        RunningServers {
            run: run.to_string(),
            connection,
            relisted: tokio::sync::Mutex::default(),
        }
    }

    /// Returns how it ended, if it did.
    fn ended(&self) -> Option<EndedServer> {
        self.connection.client().ended().now_or_never()
    }
}

/// The state of a server when it is inspected.
pub(super) enum LiveState {
    Live(Arc<RunningServers>),
    Over(EndedServer),
}

pub(super) type Starting = Shared<BoxFuture<'static, Result<Arc<RunningServers>, String>>>;

/// The state of one server.
#[derive(Default)]
struct ServerSlot {
    live: Option<Arc<RunningServers>>,
    /// The start in progress, whether somebody waits for it or not.
    starting: Option<Starting>,
    health: Health,
}

/// The servers of one session.
pub(crate) struct LiveServers {
    pub(super) access: ServerAccess,
    session: String,
    root: PathBuf,
    pub(super) asks: Asks,
    pub(super) learning: Learning,
    slots: RefCell<BTreeMap<String, ServerSlot>>,
    /// The call whose server could not be started a moment ago, with the reason: it is not started
    /// twice.
    pub(super) not_reached: RefCell<Option<(CallId, String)>>,
    /// The changes of protected files that a person was not told of yet.
    undone: RefCell<Vec<String>>,
}

impl LiveServers {
    pub(crate) fn new(
        access: ServerAccess,
        session: String,
        root: PathBuf,
        learning: Learning,
    ) -> LiveServers {
        LiveServers {
            access,
            session,
            root,
            asks: Asks::new(),
            learning,
            slots: RefCell::default(),
            not_reached: RefCell::default(),
            undone: RefCell::default(),
        }
    }

    fn with<T>(&self, server: &str, work: impl FnOnce(&mut ServerSlot) -> T) -> T {
        work(
            self.slots
                .borrow_mut()
                .entry(server.to_string())
                .or_default(),
        )
    }

    /// Returns the running server, and starts it if necessary. `kept` is the run of a call that is
    /// not settled yet. The future may be dropped: the start continues, and the next caller waits
    /// for the same start.
    ///
    /// # Errors
    /// The reason why the server does not run, for the model.
    pub(super) async fn reach(
        &self,
        server: &str,
        kept: Option<&str>,
    ) -> Result<Arc<RunningServers>, String> {
        if let Some(live) = self.started(server) {
            self.learn_if_changed(server, &live).await;
            return Ok(live);
        }
        let starting = match self.with(server, |slot| slot.starting.clone()) {
            Some(starting) => starting,
            None => {
                self.pause(server).await?;
                self.begin(server, kept)?
            }
        };
        let started = starting.await;
        self.note_start(server, &started);
        started.map_err(|why| format!("the server {server} cannot be started: {why}"))
    }

    fn note_start(&self, server: &str, started: &Result<Arc<RunningServers>, String>) {
        self.with(server, |slot| {
            // The first waiter that sees the end of the start records it.
            if slot.starting.take().is_some() {
                match started {
                    Ok(live) => slot.live = Some(Arc::clone(live)),
                    Err(why) => slot.health.ended(Instant::now(), why.clone()),
                }
            }
        });
    }

    /// Returns the server, running or being started, for a caller that waits elsewhere, and how
    /// long its start may take.
    ///
    /// # Errors
    /// The reason why the server does not run.
    pub(super) fn at_hand(&self, server: &str) -> Result<(Starting, Duration), String> {
        let limit = (self.access.launch)(server)?.startup;
        if let Some(live) = self.started(server) {
            let live = futures_util::future::ready(Ok(live)).boxed();
            return Ok((live.shared(), limit));
        }
        let starting = match self.with(server, |slot| slot.starting.clone()) {
            Some(starting) => starting,
            None => {
                self.may_start(server)?;
                self.begin(server, None)?
            }
        };
        Ok((starting, limit))
    }

    /// Returns the server to which this process is connected, even if nobody waited for its start.
    pub(super) fn started(&self, server: &str) -> Option<Arc<RunningServers>> {
        let over = self.with(server, |slot| slot.starting.as_ref()?.peek().cloned());
        if let Some(started) = over {
            self.note_start(server, &started);
        }
        self.alive(server)
    }

    /// Returns the server to which this process is connected, unless it has ended.
    fn alive(&self, server: &str) -> Option<Arc<RunningServers>> {
        let live = self.with(server, |slot| slot.live.clone())?;
        let Some(past) = live.ended() else {
            return Some(live);
        };
        let why = self.why_over(&live.run, past.how());
        self.with(server, |slot| {
            slot.live = None;
            slot.health.ended(Instant::now(), why);
        });
        None
    }

    /// Waits until the server may be started, if that is soon.
    async fn pause(&self, server: &str) -> Result<(), String> {
        tokio::time::sleep(self.may_start(server)?).await;
        Ok(())
    }

    /// Returns how long to wait before a start.
    fn may_start(&self, server: &str) -> Result<Duration, String> {
        let (wait, why) = self.with(server, |slot| {
            let wait = slot.health.wait(Instant::now());
            (wait, slot.health.why().to_string())
        });
        if wait > PATIENCE {
            return Err(format!(
                "the server {server} is down: {why}\nhint: it is started again for a call in {} s or later",
                wait.as_secs() + 1
            ));
        }
        Ok(wait)
    }

    /// Returns whether the server runs, is being started, or failed in a start that nobody waited
    /// for.
    pub(super) fn is_begun(&self, server: &str) -> bool {
        self.with(server, |slot| {
            slot.live.is_some() || slot.starting.is_some()
        })
    }

    pub(super) fn begin(&self, server: &str, kept: Option<&str>) -> Result<Starting, String> {
        // Its folder is removed with the start.
        for info in self.access.servers.list() {
            let is_own = info.spec.session == self.session && info.spec.name == server;
            if is_own && !info.is_kept {
                let undone = self.take_changes(server, &info.run);
                self.undone.borrow_mut().extend(undone);
            }
        }
        let start = Start {
            servers: self.access.servers.clone(),
            launch: (self.access.launch)(server)?,
            session: self.session.clone(),
            root: self.root.clone(),
            elicit: self.asks.of(server),
            kept: kept.map(str::to_string),
        };
        let (learning, name) = (self.learning.clone(), server.to_string());
        let task = tokio::spawn(async move {
            let limit = start.launch.startup;
            let live = Arc::new(start.run().await?);
            learning.learn(&name, &live, limit).await;
            Ok(live)
        });
        let ended = async move {
            match task.await {
                Ok(started) => started,
                Err(e) => Err(format!("the start failed inside: {e}")),
            }
        };
        let starting = ended.boxed().shared();
        self.with(server, |slot| slot.starting = Some(starting.clone()));
        Ok(starting)
    }

    /// Returns the current state of a run's server.
    ///
    /// # Errors
    /// The run cannot be inspected.
    pub(super) async fn look(&self, server: &str, run: &str) -> io::Result<LiveState> {
        let known = self.with(server, |slot| slot.live.clone());
        if let Some(live) = known.filter(|live| live.run == run) {
            return Ok(match live.ended() {
                None => LiveState::Live(live),
                Some(past) => LiveState::Over(past),
            });
        }
        let since = Instant::now();
        let client = loop {
            match self.access.servers.attach(run).await? {
                Attached::Live(client) => break client,
                Attached::Over(past) => return Ok(LiveState::Over(past)),
                Attached::Busy { .. } if since.elapsed() < BUSY_WITHIN => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Attached::Busy { pid } => {
                    return Err(io::Error::other(format!("process {pid} speaks with it")));
                }
            }
        };
        let elicit = self.asks.of(server);
        // Its capabilities were determined before its first call.
        let connecting = Connection::begin(
            client,
            &self.root,
            BUSY_WITHIN,
            elicit,
            ProtocolHint::Unknown,
        );
        let connected = connecting.await;
        let connection = connected.map_err(|e| io::Error::other(e.to_string()))?;
        let live = Arc::new(RunningServers::new(run, connection));
        self.with(server, |slot| slot.live = Some(Arc::clone(&live)));
        Ok(LiveState::Live(live))
    }

    /// Returns the server to which this process is connected, if it is of this run.
    pub(super) fn of_run(&self, server: &str, run: &str) -> Option<Arc<RunningServers>> {
        let live = self.with(server, |slot| slot.live.clone());
        live.filter(|live| live.run == run)
    }

    /// Returns what a server did to protected files and its keeper undid, since the last time.
    pub(super) fn take_changes(&self, server: &str, run: &str) -> Option<String> {
        let changes = self.access.servers.take_changes(run);
        let undone = "protected files may not be changed; what the server";
        (!changes.is_empty()).then(|| {
            format!(
                "{undone} {server} did to them was undone: {}",
                changes.join(", ")
            )
        })
    }

    pub(super) fn why_over(&self, run: &str, how: &How) -> String {
        why_over(&self.access.servers, run, how)
    }

    /// Marks all lines of this run as no longer needed.
    pub(super) fn discard(&self, server: &str, run: &str) {
        match self
            .of_run(server, run)
            .filter(|live| live.ended().is_none())
        {
            Some(live) => live.connection.client().forget(),
            None => remove(&self.access.servers, run),
        }
    }

    /// Ends all servers: the session is closed, and no work is pending.
    pub(crate) async fn leave(&self) {
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        // A server that was started for a person's prompt was never called.
        let started = |(name, slot): (String, ServerSlot)| match (slot.live, slot.starting) {
            (Some(live), _) => Some((name, live)),
            (None, starting) => Some((name, starting?.peek()?.as_ref().ok().cloned()?)),
        };
        let live = slots.into_iter().filter_map(started);
        let (names, live): (Vec<String>, Vec<Arc<RunningServers>>) = live.unzip();
        for live in &live {
            live.connection.client().leave().await;
        }
        let ended = futures_util::future::join_all(live.iter().map(|live| {
            let ended = live.connection.client().ended();
            tokio::time::timeout(ENDS_WITHIN, ended)
        }));
        for ((name, live), ended) in names.iter().zip(&live).zip(ended.await) {
            if ended.is_ok() {
                let undone = self.take_changes(name, &live.run);
                self.undone.borrow_mut().extend(undone);
                remove(&self.access.servers, &live.run);
            }
        }
        self.end_others(&live).await;
    }

    /// Ends the servers of the session to which this process is not connected: those that an
    /// earlier agent left and no call needed again, and those whose start has not ended.
    async fn end_others(&self, live: &[Arc<RunningServers>]) {
        let is_other = |info: &ServerInfo| live.iter().all(|live| live.run != info.run);
        let others: Vec<String> = self.kept().filter(is_other).map(|info| info.run).collect();
        for run in &others {
            if let Err(error) = self.access.servers.stop(run) {
                tracing::warn!(run, %error, "a server that is not used is not stopped");
            }
        }
        let since = Instant::now();
        while !others.is_empty() && since.elapsed() < ENDS_WITHIN {
            if self.kept().all(|info| !others.contains(&info.run)) {
                others
                    .iter()
                    .for_each(|run| remove(&self.access.servers, run));
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the servers of this session that have a keeper.
    pub(super) fn kept(&self) -> impl Iterator<Item = ServerInfo> {
        let all = self.access.servers.list().into_iter();
        all.filter(|info| info.is_kept && info.spec.session == self.session)
    }

    /// Returns the next question of a server for a person. Dropping the future loses none.
    pub(crate) async fn asked(&self) -> ServerAsks {
        self.asks.next().await
    }

    /// Returns a message on a server for a person; each only once.
    pub(crate) fn take_trouble(&self) -> Option<String> {
        let undone = std::mem::take(&mut *self.undone.borrow_mut());
        if !undone.is_empty() {
            return Some(undone.join("\n"));
        }
        let mut slots = self.slots.borrow_mut();
        let down = slots.iter_mut().find_map(|(name, slot)| {
            let said = slot.health.take_trouble()?;
            Some(format!("the server {name} is down: {said}"))
        });
        down.or_else(|| self.learning.take_trouble())
    }

    /// Returns the result of a call whose server does not run.
    pub(super) fn not_run(why: &str) -> ToolResult {
        ToolResult::error(format!("not run: {why}"))
    }
}

/// The start of one server: a separate task, which a stop of a call does not end.
struct Start {
    servers: Servers,
    launch: Launch,
    session: String,
    root: PathBuf,
    elicit: Arc<dyn Elicit>,
    /// The run of a call that is not settled yet.
    kept: Option<String>,
}

impl Start {
    async fn run(self) -> Result<RunningServers, String> {
        match self.found().await {
            Some(live) => Ok(live),
            None => self.start().await,
        }
    }

    /// Returns a server that an earlier agent left and that was started with the current settings.
    /// Others of the same name are not needed any more.
    async fn found(&self) -> Option<RunningServers> {
        let own =
            |spec: &ServerSpec| spec.session == self.session && spec.name == self.launch.spec.name;
        let mut found = None;
        for info in self.servers.list().into_iter().rev() {
            if !own(&info.spec) || self.kept.as_ref() == Some(&info.run) {
                continue;
            }
            if !info.is_kept {
                remove(&self.servers, &info.run);
            } else if found.is_none() && is_same(&info.spec, &self.launch.spec) {
                found = self.attach(&info.run).await;
            } else if let Err(error) = self.servers.stop(&info.run) {
                tracing::warn!(run = info.run, %error, "a server that is not used is not stopped");
            }
        }
        found
    }

    async fn attach(&self, run: &str) -> Option<RunningServers> {
        let attached = self.servers.attach(run).await;
        match self.connect(run, attached).await {
            Ok(live) => Some(live),
            Err(why) => {
                tracing::warn!(run, why, "a server that was found is not used");
                None
            }
        }
    }

    async fn start(&self) -> Result<RunningServers, String> {
        let spec = &self.launch.spec;
        let run = self.servers.prepare(spec).map_err(|e| e.to_string())?;
        let started = self.servers.start(&run, &self.launch.env).await;
        self.connect(&run, started).await
    }

    async fn connect(
        &self,
        run: &str,
        attached: io::Result<Attached>,
    ) -> Result<RunningServers, String> {
        let client = match attached {
            Ok(Attached::Live(client)) => client,
            Ok(Attached::Over(past)) => {
                let why = why_over(&self.servers, run, past.how());
                remove(&self.servers, run);
                return Err(why);
            }
            Ok(Attached::Busy { pid }) => return Err(format!("process {pid} speaks with it")),
            Err(e) => return Err(e.to_string()),
        };
        let limit = self.launch.startup;
        let elicit = Arc::clone(&self.elicit);
        let protocol = self.launch.protocol;
        match Connection::begin(client, &self.root, limit, elicit, protocol).await {
            Ok(connection) => Ok(RunningServers::new(run, connection)),
            Err(error) => {
                // A server that does not identify itself is useless.
                if let Err(error) = self.servers.stop(run) {
                    tracing::warn!(run, %error, "a server that does not answer is not stopped");
                }
                Err(with_last_line(&self.servers, run, error.to_string()))
            }
        }
    }
}

/// Returns whether a server was started with the current settings. The list of files that its
/// sandbox hides may differ: the state in the server's memory is more valuable.
fn is_same(one: &ServerSpec, other: &ServerSpec) -> bool {
    let key = |spec: &ServerSpec| {
        let (program, args) = (spec.program.clone(), spec.args.clone());
        (
            program,
            args,
            spec.folder.clone(),
            spec.env.clone(),
            spec.sandbox.as_ref().map(|profile| profile.access),
        )
    };
    key(one) == key(other)
}

fn why_over(servers: &Servers, run: &str, how: &How) -> String {
    with_last_line(servers, run, describe(how))
}

/// Appends the last line that the server printed on stderr.
fn with_last_line(servers: &Servers, run: &str, why: String) -> String {
    match last_line(servers, run, LINE_MAX_BYTES, LINE_CHARS) {
        Some(line) => format!("{why}; it printed last: {line}"),
        None => why,
    }
}

/// Removes the folder of a run that has ended.
fn remove(servers: &Servers, run: &str) {
    if let Err(error) = servers.remove(run) {
        tracing::warn!(run, %error, "the folder of a server stays");
    }
}
