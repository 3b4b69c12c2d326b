//! The real [`World`]: this machine's files and commands, and a model.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::archive::Archive;
use super::confine::Confine;
use super::files::{Files, Keeping, Snapshot, SnapshotRequest};
use super::give_tasks::Tasks;
use super::hooks::MachineHooks;
use super::restore::{self, RestoreEnd, RestoreOrder};
use super::servers::{Learning, LiveServers, OfferError, ServerAccess, ServerRequest};
use super::{BackgroundEnd, Images, PrepareError, ServerAsks, Settled, World};
use super::{CheckRun, HookEnd, HookOccasion};
use crate::command::{self, How, RunEnd, Running, Runs, SettledRun, Spare, Spec};
use crate::core::access::Access;
use crate::core::background::BackgroundMode;
use crate::core::check::Check;
use crate::core::entry::RequestForm;
use crate::core::entry::{BlobRef, CallId, Fact, Failure, Guard, Outcome};
use crate::core::entry::{HookEvent, HookRun, HookWrote};
use crate::core::file_clock::FileClock;
use crate::core::request::Request;
use crate::core::state::{Background, State, UserCommand};
use crate::core::tool::ToolCall;
use crate::model::{Delta, Models, Reply, ServerFacts};
use crate::net::page::{self, PageContent, Web};
use crate::net::search;
use crate::sandbox::KeptPlaceholders;
use crate::store::now_ms;
use crate::telemetry::spans::Trace;
use crate::tools::bash::{self, background_id};
use crate::tools::{
    self, FetchedPage, FileState, ReadWork, ShellCommand, ToolContext, ToolResult, Work,
};
use crate::workspace::files::measure;

/// Time for a keeper to start its command; it needs milliseconds.
const BEGIN_WITHIN: Duration = Duration::from_secs(5);

/// Time after which a request has been sent.
const REQUEST_FIRST: Duration = Duration::from_millis(50);

/// The settings for commands.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The shell that runs a line, as `shell -c line`.
    pub path: PathBuf,
    /// The time limit in milliseconds of a command that names none itself.
    pub timeout_ms: u64,
    /// Number of bytes of the head of a command's output that are stored.
    pub output_cap_bytes: u64,
    /// Variables that are removed from the environment of commands.
    pub env_remove: Vec<String>,
    /// The sandbox; `None` if commands run only with access `full`.
    pub sandbox: Option<Confine>,
    /// The file with the lease of the session; `None` if it is not shared.
    pub lease_file: Option<PathBuf>,
    /// The trace of the session, which commands of the model continue. `None`: telemetry is off.
    pub trace: Option<Trace>,
}

/// The [`World`] of one session on this machine.
pub struct Machine {
    pub(super) ctx: ToolContext,
    pub(super) shell: Shell,
    pub(super) runs: Runs,
    models: Models,
    pub(super) archive: Archive,
    /// The snapshots; `None` if they are off.
    files: Option<Files>,
    pub(super) session: String,
    pub(super) boot: String,
    /// The keeper of the next command.
    spare: RefCell<Option<Spare>>,
    /// The placeholders of commands in git folders, which stay for the next one.
    placeholders: KeptPlaceholders,
    /// The runs that this process waits for.
    active: RefCell<BTreeSet<String>>,
    /// The treatment of background work at the end of a run without a screen. `None`: the process
    /// does not end when it is idle.
    at_end: Cell<Option<BackgroundMode>>,
    /// The means to give tasks; `None` without subagents.
    pub(super) tasks: Option<Tasks>,
    /// The servers; `None` if no tool of a server can be called.
    pub(super) servers: Option<LiveServers>,
    /// The hooks; `None` in a world that runs none.
    pub(super) hooks: Option<MachineHooks>,
    /// The web; `None` if it is switched off.
    /// With the server for searches.
    web: Option<(Web, Option<String>)>,
}

impl Machine {
    /// Creates the world of a session. `data_dir` is the folder of its store.
    pub fn new(
        ctx: ToolContext,
        shell: Shell,
        runs: Runs,
        models: Models,
        session: String,
        data_dir: PathBuf,
    ) -> Machine {
        Machine {
            ctx,
            shell,
            runs,
            models,
            placeholders: KeptPlaceholders::new(&data_dir),
            archive: Archive::new(data_dir, session.clone()),
            files: None,
            session,
            boot: command::boot_id(),
            spare: RefCell::default(),
            active: RefCell::default(),
            at_end: Cell::new(None),
            tasks: None,
            servers: None,
            hooks: None,
            web: None,
        }
    }

    /// Ends the run when all work is done, for a run without a screen. `mode` is its treatment of
    /// background work.
    pub fn leave_when_idle(&self, mode: BackgroundMode) {
        self.at_end.set(Some(mode));
    }

    /// Allows tasks for subagents from here on.
    pub fn allow_tasks(&mut self, tasks: Tasks) {
        self.tasks = Some(tasks);
    }

    /// Allows calls of servers' tools from here on.
    pub fn use_servers(&mut self, servers: ServerAccess) {
        let (session, root) = (self.session.clone(), self.ctx.root.clone());
        let learning = Learning::new(self.ctx.catalogue.clone(), self.archive.clone());
        self.servers = Some(LiveServers::new(servers, session, root, learning));
    }

    /// Runs hooks from here on, and ends those of an earlier start.
    pub fn use_hooks(&mut self, hooks: MachineHooks) {
        self.hooks = Some(hooks);
    }

    /// Fetches pages of the web from here on. `search_url`: the server for searches.
    pub fn use_web(&mut self, web: Web, search_url: Option<String>) {
        self.web = Some((web, search_url));
    }

    /// Takes snapshots of the workspace's files from here on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_snapshots(&mut self, keeping: Keeping) -> io::Result<()> {
        self.files = Some(Files::start(keeping)?);
        Ok(())
    }

    fn ctx_at(&self, at: Option<&Path>) -> ToolContext {
        ToolContext {
            judged: at.map(Path::to_path_buf),
            ..self.ctx.clone()
        }
    }

    async fn look(
        &self,
        look: ReadWork,
        at: Option<&Path>,
        room: usize,
    ) -> Result<ToolResult, String> {
        let cancel = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&cancel));
        let mut ctx = self.ctx_at(at);
        ctx.inline_max_bytes = room.min(ctx.inline_max_bytes);
        blocking(move || look(&ctx, &cancel)).await
    }

    /// Returns the specification of a command's run. Fails if the access needs a sandbox that does
    /// not exist: the command then does not run.
    fn spec(
        &self,
        call: &ToolCall,
        command: &ShellCommand,
        access: Access,
    ) -> Result<Spec, String> {
        let id = background_id(call.id);
        let has_private_tmp = access == Access::Read && call.may_have_private_tmp();
        let private_tmp = has_private_tmp.then_some(id.as_str());
        let limit_ms = command.limit_ms.unwrap_or(self.shell.timeout_ms);
        let sandbox = match (access, &self.shell.sandbox) {
            (Access::Full, _) => None,
            (_, Some(sandbox)) => {
                Some(sandbox.profile_of_call(access, &self.printed_files(), private_tmp)?)
            }
            (_, None) => return Err("there is none in this session".to_string()),
        };
        let traceparent = self.shell.trace.map(|trace| {
            let parent = trace.traceparent(&self.session, call.id);
            ("TRACEPARENT".to_string(), parent)
        });
        Ok(Spec {
            timeout_ms: limit_ms.max(1),
            env_set: traceparent.into_iter().collect(),
            background: command.background,
            sandbox,
            ..self.unconfined_spec(command.line.clone(), id)
        })
    }

    /// Returns a foreground command of the session: in its folder, without a sandbox and without a
    /// time limit. Its environment has no keys.
    pub(super) fn unconfined_spec(&self, command: String, call: String) -> Spec {
        Spec {
            command,
            folder: self.ctx.folder.clone(),
            timeout_ms: u64::MAX,
            output_cap_bytes: self.shell.output_cap_bytes,
            shell: self.shell.path.clone(),
            env_remove: self.shell.env_remove.clone(),
            session: self.session.clone(),
            call,
            lease: self.shell.lease_file.clone(),
            ..Spec::default()
        }
    }

    /// Prepares the run folder of a command, and starts nothing.
    pub(super) fn prepare_spec(&self, spec: &Spec) -> Result<Guard, PrepareError> {
        let run = self.runs.prepare(spec).map_err(|e| unready(&e))?;
        Ok(Guard::Supervised {
            run,
            boot: self.boot.clone(),
            background: spec.background,
        })
    }

    /// Returns the output files of the background commands, which commands may read.
    fn printed_files(&self) -> Vec<PathBuf> {
        let runs = self.runs.list();
        let own = runs.iter().filter(|info| info.spec.session == self.session);
        let files = own.filter_map(|info| self.runs.output_files(&info.run).ok());
        files.flatten().collect()
    }

    fn prepare_run(
        &self,
        call: &ToolCall,
        command: &ShellCommand,
        access: Access,
    ) -> Result<Guard, PrepareError> {
        let refused = |why| PrepareError::Refused(Outcome::error(format!("not run: {why}")));
        tools::is_there(&self.ctx.folder).map_err(refused)?;
        let spec = self.spec(call, command, access).map_err(|why| {
            refused(format!(
                "cannot set up the sandbox for access {access}: {why}"
            ))
        })?;
        let guard = self.prepare_spec(&spec)?;
        // It starts while the engine records `Started`.
        self.have_spare();
        Ok(guard)
    }

    /// Starts the keeper of a prepared run, whose start is recorded.
    pub(super) fn start(&self, run: &str) -> io::Result<Running> {
        if self.shell.sandbox.is_some() {
            self.placeholders.keep();
        }
        let running = match self.spare.take() {
            Some(spare) => self.runs.start_in(run, spare),
            None => self.runs.start(run),
        };
        self.have_spare();
        running
    }

    /// Starts a spare keeper if there is none. Without one, each command gets a fresh keeper.
    fn have_spare(&self) {
        if self.spare.borrow().is_some() {
            return;
        }
        match self.runs.spare(&self.shell.env_remove) {
            Ok(spare) => drop(self.spare.replace(Some(spare))),
            Err(error) => tracing::warn!(%error, "no spare keeper was started"),
        }
    }

    /// Starts a prepared run and waits for its end, or reports that it continues in the background.
    async fn run_command(&self, call: CallId, command: &ShellCommand, run: &str) -> ToolResult {
        let begun = match self.start(run) {
            // A command continues in the background only once it has started. Before that, any
            // check of the run could be the one that decides that it never starts.
            Ok(mut running) if command.background => self.runs.begun(&mut running).await,
            Ok(running) => Ok(SettledRun::Running(running)),
            Err(e) => Err(e),
        };
        // An error here does not mean that the command failed: it may run. Its folder shows that.
        let found = match begun {
            Ok(found) => found,
            Err(e) => match self.runs.settle(run, &self.boot) {
                Ok(SettledRun::NotBegun) => {
                    return ToolResult::error(format!("cannot start the command: {e}"));
                }
                Ok(found) => found,
                Err(_) => return uncertain(&format!("cannot start the command: {e}")),
            },
        };
        self.outcome(call, command, run, found).await
    }

    /// Returns the result of a run once it is known whether the command started.
    async fn outcome(
        &self,
        call: CallId,
        command: &ShellCommand,
        run: &str,
        found: SettledRun,
    ) -> ToolResult {
        match found {
            SettledRun::NotBegun => {
                ToolResult::error("cannot start the command: its keeper did not begin")
            }
            SettledRun::Ended(ended)
                if !command.background || matches!(ended.how, How::NotRun(_)) =>
            {
                self.result(&ended)
            }
            SettledRun::Running(mut running) if !command.background => {
                self.end_of(&mut running).await
            }
            // A keeper is adopted by init when this process exits; until then tokio reaps it.
            SettledRun::Running(_) | SettledRun::Ended(_) => {
                self.in_background(call, run, &command.line)
            }
        }
    }

    async fn end_of(&self, running: &mut Running) -> ToolResult {
        let run = running.run().to_string();
        self.active.borrow_mut().insert(run.clone());
        let ended = self.runs.wait(running).await;
        self.active.borrow_mut().remove(&run);
        match ended {
            Ok(ended) => self.result(&ended),
            Err(e) => uncertain(&format!("cannot learn how the command ended: {e}")),
        }
    }

    fn in_background(&self, call: CallId, run: &str, line: &str) -> ToolResult {
        let output = match self.runs.output_file(run) {
            Ok(path) => path.display().to_string(),
            Err(e) => format!("(unknown: {e})"),
        };
        bash::in_background(call, run, line, &output, self.at_end.get())
    }

    fn result(&self, ended: &RunEnd) -> ToolResult {
        bash::result(
            &self.runs,
            ended,
            &self.ctx.folder,
            self.ctx.inline_max_bytes,
        )
    }

    async fn settle_run(
        &self,
        call: &ToolCall,
        command: &ShellCommand,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> Settled {
        let Guard::Supervised { run, boot, .. } = guard else {
            return unsettled("it was started as another kind of call");
        };
        match self.runs.settle(run, boot) {
            Ok(SettledRun::NotBegun) if stop => Settled::NotBegun(guard.clone()),
            Ok(SettledRun::NotBegun) => {
                match self.prepare_run(call, command, access.unwrap_or(Access::Full)) {
                    Ok(guard) => Settled::NotBegun(guard),
                    Err(PrepareError::Refused(outcome)) => Settled::Ended(ToolResult::of(outcome)),
                    Err(PrepareError::NoRoom(why)) => Settled::NoRoom(why),
                }
            }
            Ok(SettledRun::Ended(ended)) if stop => Settled::Ended(self.result(&ended)),
            Ok(SettledRun::Running(mut running)) if stop => {
                Settled::Ended(match self.runs.stop(run) {
                    Ok(_) => self.end_of(&mut running).await,
                    Err(e) => ToolResult::interrupted(format!(
                        "cannot stop the command: {e}; it may still run"
                    )),
                })
            }
            Ok(found) => {
                let ran = self.outcome(call.id, command, run, found).await;
                Settled::Ended(match command.background {
                    true => ran,
                    false => bash::after_restart(ran),
                })
            }
            Err(e) => unsettled(&format!("its run folder cannot be read: {e}")),
        }
    }
}

pub(super) fn unready(error: &io::Error) -> PrepareError {
    let why = format!("cannot prepare the command: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => PrepareError::NoRoom(why),
        _ => PrepareError::Refused(Outcome::error(why)),
    }
}

/// Returns the result of a started call whose state cannot be determined.
fn uncertain(why: &str) -> ToolResult {
    ToolResult::interrupted(format!(
        "{why}; it may or may not have happened, or still run; look before you repeat it"
    ))
}

pub(super) fn unsettled(why: &str) -> Settled {
    Settled::Ended(uncertain(why))
}

/// Sets its flag when it is dropped: a blocking search of a dropped call then ends soon.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work on a separate thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| format!("the tool failed inside: {e}"))
}

/// Fetches a page, and converts it if it is HTML.
async fn fetch(
    web: Option<&Web>,
    url: &str,
    exe: &Path,
    room: usize,
) -> Result<ToolResult, String> {
    let web = web.ok_or("pages of the web are off: [web] enabled = false")?;
    let page = web.fetch(page::parse(url)?).await?;
    let (title, text) = match page.content {
        PageContent::Elsewhere(to) => return Ok(tools::redirected(&page.url, &to)),
        PageContent::Text(text) => (String::new(), text),
        PageContent::Html(html) => command::page::to_markdown(html, exe).await?,
    };
    let fetched = FetchedPage {
        title: &title,
        url: &page.url,
        text: &text,
        at_ms: now_ms(),
    };
    Ok(fetched.result(room))
}

impl World for Machine {
    async fn call_model(
        &self,
        request: Request,
        images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> Result<Reply, Failure> {
        let blobs = |blob: &BlobRef| images.get(&blob.hash).cloned();
        // The receiver is gone only when the call is being dropped.
        let mut on_delta = |delta| drop(deltas.send(delta));
        let mut reply = pin!(self.models.call(request, &blobs, &mut on_delta));
        let Some(servers) = self.servers.as_ref().filter(|s| s.has_unknown()) else {
            return reply.await;
        };
        // The request is sent first: starting servers keeps the processor busy for a while.
        let early = tokio::time::timeout(REQUEST_FIRST, &mut reply).await;
        servers.ask_unknown();
        match early {
            Ok(replied) => replied,
            Err(_) => reply.await,
        }
    }

    fn can_ask(&self, model: &str) -> Result<(), String> {
        self.models
            .check(model)
            .map(drop)
            .map_err(|e| e.to_string())
    }

    fn most_answer_tokens(&self, model: &str) -> u64 {
        self.models.most_answer_tokens(model)
    }

    fn first_forms(&self, model: &str) -> Vec<RequestForm> {
        self.models.first_forms(model)
    }

    async fn server_facts(&self, model: &str, has_window: bool) -> ServerFacts {
        self.models.server_facts(model, has_window).await
    }

    async fn summarise(
        &self,
        request: Request,
        images: Images,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Failure> {
        let blobs = |blob: &BlobRef| images.get(&blob.hash).cloned();
        self.models.call(request, &blobs, on).await
    }

    fn leads_to(&self, call: &ToolCall) -> Result<Option<PathBuf>, String> {
        match &call.described {
            Ok(described) => tools::resolve_target(&described.permission, &self.ctx),
            Err(why) => Err(why.clone()),
        }
    }

    async fn run_idempotent(&self, call: &ToolCall, at: Option<&Path>, room: usize) -> ToolResult {
        let ran = match tools::work(call) {
            Ok(Work::Look(look)) => self.look(look, at, room).await,
            Ok(Work::FindServed(look)) => {
                let troubles = match &self.servers {
                    Some(servers) => servers.learn_for_search().await,
                    None => Vec::new(),
                };
                let found = self.look(look, at, room).await;
                found.map(|ran| ran.with_lines(&troubles))
            }
            Ok(Work::LookBack(look)) => {
                let (archive, now_ms) = (self.archive.clone(), self.now_ms());
                let room = room.min(self.ctx.inline_max_bytes);
                blocking(move || archive.look_back(look, now_ms, room)).await
            }
            Ok(Work::Commands(act)) => {
                let (runs, session) = (self.runs.clone(), self.session.clone());
                blocking(move || act(&runs, &session)).await
            }
            Ok(Work::Fetch(url)) => {
                let web = self.web.as_ref().map(|(web, _)| web);
                fetch(web, &url, self.runs.exe(), room).await
            }
            Ok(Work::Search(query)) => {
                let server = self.web.as_ref().and_then(|(_, server)| server.as_deref());
                match server {
                    Some(server) => {
                        let found = search::search(server, &query).await;
                        found.map(|found| tools::search_result(&query, &found))
                    }
                    None => Err("the config has no `[web] search_url`".to_string()),
                }
            }
            Ok(
                Work::WaitCommands(_)
                | Work::Replace(_)
                | Work::Run(_)
                | Work::Task(_)
                | Work::Served(_)
                | Work::Ask(_),
            ) => Err("this call is not one of the tools that only look".to_string()),
            Err(why) => Err(why),
        };
        ran.unwrap_or_else(ToolResult::error)
    }

    async fn wait_for_background(
        &self,
        call: &ToolCall,
        background: &BTreeMap<String, Background>,
    ) -> ToolResult {
        match tools::work(call) {
            Ok(Work::WaitCommands(wait)) => self.wait_commands(wait, background).await,
            Ok(_) => ToolResult::error("this call does not wait"),
            Err(why) => ToolResult::error(why),
        }
    }

    async fn learn_servers_for(&self, full_name: &str) {
        if let Some(servers) = &self.servers {
            servers.learn_changed().await;
            servers.learn_first(full_name).await;
        }
    }

    async fn reach(&self, call: &ToolCall) {
        if let Ok(Work::Served(order)) = tools::work(call) {
            self.reach_server(call.id, &order).await;
        }
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        state: &State,
    ) -> Result<Guard, PrepareError> {
        let refused = |why: String| Err(PrepareError::Refused(Outcome::error(why)));
        match tools::work(call) {
            Ok(Work::Run(command)) => match access {
                Some(access) => self.prepare_run(call, &command, access),
                None => refused("nothing was decided of how far it may reach".to_string()),
            },
            Ok(Work::Replace(change)) => {
                let ctx = self.ctx_at(at);
                let seen = state.seen.get(&change.target.key(&ctx)).cloned();
                match blocking(move || tools::prepare(&change, &ctx, seen.as_ref())).await {
                    Ok(prepared) => prepared.map_err(PrepareError::Refused),
                    Err(why) => refused(why),
                }
            }
            Ok(Work::Task(order)) => self.prepare_task(call, &order, state),
            Ok(Work::Served(order)) => self.prepare_served(call, &order).await,
            Ok(
                Work::Look(_)
                | Work::FindServed(_)
                | Work::LookBack(_)
                | Work::Commands(_)
                | Work::Fetch(_)
                | Work::Search(_)
                | Work::WaitCommands(_)
                | Work::Ask(_),
            ) => refused("this call has no effect to prepare".to_string()),
            Err(why) => refused(why),
        }
    }

    async fn snapshot(&self, wish: SnapshotRequest) -> Snapshot {
        match &self.files {
            Some(files) => files.snapshot(wish).await,
            None => Snapshot::Off,
        }
    }

    fn root(&self) -> PathBuf {
        self.ctx.root.clone()
    }

    fn hides(&self, path: &[u8]) -> bool {
        let path = self.ctx.root.join(&*String::from_utf8_lossy(path));
        self.ctx.hidden.hides(&path)
    }

    async fn restore(&self, order: RestoreOrder) -> RestoreEnd {
        let (data_dir, root) = (self.archive.data_dir().to_path_buf(), self.root());
        restore::restore(data_dir, root, order).await
    }

    fn file_clock(&self) -> Option<FileClock> {
        measure(&self.ctx.root, &now_ms)
    }

    fn files_seen(&self) -> u64 {
        self.files.as_ref().map_or(0, Files::seen)
    }

    fn wait_for_files(&self) {
        if let Some(files) = &self.files {
            files.lift_time_limit();
        }
    }

    fn scan_ahead(&self, wish: SnapshotRequest) {
        if let Some(files) = &self.files {
            files.scan_ahead(wish);
        }
    }

    fn files_to_say(&self) -> Option<String> {
        self.files.as_ref()?.to_say()
    }

    fn servers_to_say(&self) -> Option<String> {
        self.servers.as_ref()?.take_trouble()
    }

    fn ask_server(&self, request: ServerRequest) {
        match &self.servers {
            Some(servers) => servers.offer(request),
            None => (request.reply)(Err(OfferError::nobody())),
        }
    }

    async fn server_asks(&self) -> ServerAsks {
        match &self.servers {
            Some(servers) => servers.asked().await,
            None => std::future::pending().await,
        }
    }

    async fn leave(&self) {
        if let Some(servers) = &self.servers {
            servers.leave().await;
        }
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Option<ToolResult> {
        Some(match (tools::work(call), guard) {
            (Ok(Work::Task(order)), Guard::Child { .. }) => {
                return self.start_task(call, &order, guard).await;
            }
            (Ok(Work::Served(order)), Guard::Served { .. }) => {
                return self.act_served(&order, guard).await;
            }
            (Ok(Work::Run(command)), Guard::Supervised { run, .. }) => {
                self.run_command(call.id, &command, run).await
            }
            (Ok(Work::Replace(change)), Guard::Checked { .. }) => {
                let (guard, ctx) = (guard.clone(), self.ctx.clone());
                match blocking(move || tools::apply(&change, &guard, &ctx)).await {
                    Ok(ran) => ran,
                    Err(why) => ToolResult::interrupted(why),
                }
            }
            _ => ToolResult::error("the call does not fit what was recorded of it"),
        })
    }

    async fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> Settled {
        match (tools::work(call), guard) {
            (Ok(Work::Run(command)), _) => {
                self.settle_run(call, &command, guard, access, stop).await
            }
            (Ok(Work::Task(order)), Guard::Child { .. }) => {
                self.settle_task(call, &order, guard, stop).await
            }
            (Ok(Work::Served(order)), Guard::Served { .. }) => {
                self.settle_served(call, &order, guard, stop).await
            }
            (Ok(_), Guard::Checked { path, after, .. }) => match tools::settle_file(guard) {
                FileState::Before => Settled::NotBegun(guard.clone()),
                FileState::After => {
                    let fact = Fact::Wrote {
                        path: path.clone(),
                        hash: after.clone(),
                    };
                    let text = format!("{path} was written, just before rewake was interrupted");
                    Settled::Ended(ToolResult {
                        fact: Some(fact),
                        ..ToolResult::done(text)
                    })
                }
                FileState::Conflict(why) => unsettled(&why),
            },
            _ => unsettled("rewake was interrupted while it ran"),
        }
    }

    fn is_at_work(&self, guard: &Guard) -> bool {
        match guard {
            // Nothing waits for a call in the background.
            Guard::Supervised {
                background: true, ..
            }
            | Guard::Child {
                background: true, ..
            } => false,
            Guard::Supervised { run, .. } | Guard::Child { run, .. } => self.runs.is_running(run),
            Guard::Served { .. } => self.is_served_at_work(guard),
            Guard::Checked { .. } | Guard::Asks | Guard::Opaque => false,
        }
    }

    async fn discard(&self, guard: &Guard) {
        match guard {
            Guard::Child { session, .. } => self.remove_runs_of(session),
            // The server stays alive.
            Guard::Served { .. } => return self.discard_served(guard),
            Guard::Supervised { .. } | Guard::Checked { .. } | Guard::Asks | Guard::Opaque => {}
        }
        if let Some(run) = guard.run()
            && let Err(e) = self.runs.remove(run)
        {
            tracing::warn!(run, error = %e, "a run folder stays");
        }
    }

    fn rest(&self) {
        self.placeholders.release();
    }

    fn leaves_when_idle(&self) -> bool {
        self.at_end.get().is_some()
    }

    fn restart_if_killed(&self, id: &str, background: &Background) {
        if let Some(child) = &background.child {
            self.restart_killed_task(id, &background.run, child);
        }
    }

    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd> {
        if let Some(child) = &background.child {
            return self.task_end(id, &background.run, child);
        }
        match self.runs.ended(&background.run) {
            Ok(ended) => {
                let (ended, folder) = (ended?, &self.ctx.folder);
                Some(bash::background_end(
                    &self.runs, id, background, &ended, folder,
                ))
            }
            Err(e) => {
                tracing::warn!(run = background.run, error = %e, "cannot look at a background command");
                None
            }
        }
    }

    async fn prepare_for_user(&self, command: &str) -> Result<Guard, PrepareError> {
        self.prepare_spec(&Spec {
            background: true,
            // It runs until it ends or is stopped. The model reads its output, so its environment
            // has no keys either.
            ..self.unconfined_spec(command.to_string(), command::OF_USER.to_string())
        })
    }

    async fn begin_for_user(&self, guard: &Guard) {
        let Guard::Supervised { run, .. } = guard else {
            return;
        };
        match self.start(run) {
            // Only after this may a check of the run decide that it never starts.
            Ok(mut running) => {
                let begun = self.runs.begun(&mut running);
                if !matches!(tokio::time::timeout(BEGIN_WITHIN, begun).await, Ok(Ok(_))) {
                    tracing::warn!(run, "a keeper does not begin");
                }
            }
            Err(error) => tracing::warn!(run, %error, "a keeper was not started"),
        }
    }

    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd> {
        let Guard::Supervised { run, boot, .. } = &command.guard else {
            return None;
        };
        match self.runs.settle(run, boot) {
            Ok(SettledRun::Running(_)) => None,
            Ok(SettledRun::NotBegun) => Some(bash::user_command_not_started(&command.command)),
            Ok(SettledRun::Ended(ended)) => {
                let max = self.ctx.inline_max_bytes;
                let end = bash::user_command_end(&self.runs, &command.command, &ended, max);
                Some(end)
            }
            Err(e) => {
                tracing::warn!(run, error = %e, "cannot look at a command of the user");
                None
            }
        }
    }

    fn prepare_hooks(&self, occasion: &HookOccasion<'_>, state: &State) -> Vec<HookRun> {
        match &self.hooks {
            Some(hooks) => hooks.prepare(occasion, state),
            None => Vec::new(),
        }
    }

    async fn run_hooks(
        &self,
        event: HookEvent,
        runs: &[HookRun],
        call: Option<&ToolCall>,
        wrote: Option<&HookWrote>,
        stop: bool,
    ) -> HookEnd {
        let start = |run: &str| self.start(run);
        match &self.hooks {
            Some(hooks) => hooks.run(&start, event, runs, call, wrote, stop).await,
            None => HookEnd::default(),
        }
    }

    fn fire_hooks(&self, occasion: &HookOccasion<'_>, state: &State) {
        if let Some(hooks) = &self.hooks {
            hooks.fire(occasion, state, &|run| self.start(run));
        }
    }

    async fn prepare_check(&self, check: &Check) -> Result<Guard, PrepareError> {
        self.prepare_check_run(check)
    }

    async fn run_check(&self, run: &str, boot: &str, stop: bool) -> CheckRun {
        self.run_prepared_check(run, boot, stop).await
    }

    fn printed_bytes(&self) -> u64 {
        let size = |run: &String| {
            let path = self.runs.output_file(run).ok()?;
            Some(std::fs::metadata(path).ok()?.len())
        };
        self.active.borrow().iter().filter_map(size).sum()
    }

    fn is_there(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn now_ms(&self) -> i64 {
        now_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_told_to_the_model() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(unready(&kind.into()), PrepareError::NoRoom(_)));
        }
        let refused = unready(&io::ErrorKind::InvalidInput.into());
        assert!(matches!(
            refused,
            PrepareError::Refused(Outcome::Error { .. })
        ));
    }
}
