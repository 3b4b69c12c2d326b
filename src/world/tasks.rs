//! Sub-agents: sessions of their own, each a process under a keeper. To start one twice does no
//! harm, since only one process has a session at a time; so one that was killed is started again,
//! and goes on where its log ends.
//!
//! The order: the session is durable, then its run folder is made, then the parent's `Started` is
//! recorded, then the keeper is started. How it ended is read from its log, not from its run.
//!
//! Invariant: a call has one session, however often it is made ready and settled.

use std::time::{Duration, Instant};

use super::give_tasks::BackgroundRun;
use super::machine::{Machine, interrupted, unready, unsettled};
use super::{BackgroundEnd, Settled, Unready};
use crate::command::keeper::SETTINGS_ENV;
use crate::command::{Ended, How, RunState, Running, SettledRun, Spec};
use crate::core::entry::{
    Block, CallId, ChildRun, Entry, Fact, Guard, Outcome, Output, Spent, Usage,
};
use crate::core::next::{MAX_RESTARTS, MAX_TASKS_AT_ONCE, MAX_TASKS_OF_PROMPT};
use crate::core::settings::Pricing;
use crate::core::signal::Signal;
use crate::core::state::{Halt, State};
use crate::core::text::{count, one_line};
use crate::core::tool::ToolCall;
use crate::store::{Store, StoreError, now_ms};
use crate::tools::bash::background_id;
use crate::tools::{self, Ran, TaskOrder};

/// Of its answer, bytes; the whole is kept beside it.
const ANSWER_BYTES: usize = 8 * 1024;
/// Of what else is told of it.
const MAX_NAMED: usize = 20;
const LINE_CHARS: usize = 100;
/// Of its end in the background, which is told besides.
const TOLD_BYTES: usize = 2_000;

/// How long one that was asked to stop may take to end its commands.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who sends signals to it.
pub const ORIGIN: &str = "task";

/// Its printed lines that may say why it ended.
const TAIL_BYTES: u64 = 2_000;

/// Exit codes of a process that was ended from outside, and left in order.
const LEFT: [i32; 3] = [129, 130, 143];

/// What the log of a sub-agent says.
struct ChildLog {
    state: State,
    /// Words that it was not told yet.
    queued: usize,
}

/// How far a sub-agent came.
enum Standing {
    /// It gave its answer.
    Done,
    /// It goes no further by itself, and why.
    Rests(String),
    /// It was cut off.
    Unfinished,
}

impl ChildLog {
    fn read(machine: &Machine, session: &str) -> Result<ChildLog, String> {
        let failed = |e: StoreError| format!("the log of task {session} cannot be read: {e}");
        let store = Store::open(machine.archive.data_dir()).map_err(failed)?;
        let mut state = State::new(tools::describe);
        let mut illegal = None;
        store
            .load_each(session, |record| {
                if let Err(why) = state.fold(&record) {
                    illegal.get_or_insert(why.to_string());
                }
                Ok::<(), StoreError>(())
            })
            .map_err(failed)?;
        if let Some(why) = illegal {
            return Err(format!("the log of task {session} cannot be read: {why}"));
        }
        let queued = store.queued(session).map_err(failed)?.len();
        Ok(ChildLog { state, queued })
    }

    /// Answers and results: what a start that was not in vain adds to.
    fn done(&self) -> u64 {
        self.state.replies + self.state.finished
    }

    fn standing(&self) -> Standing {
        let state = &self.state;
        if state.restarts >= MAX_RESTARTS {
            return Standing::Rests("its last starts all ended without progress".into());
        }
        if self.queued > 0 || state.first_open().is_some() {
            return Standing::Unfinished;
        }
        match &state.halted {
            Some(Halt::Stopped) => return Standing::Rests("it was stopped".into()),
            Some(Halt::Failed(failure)) => {
                let why = one_line(&failure.message, 300);
                return Standing::Rests(format!("its model could not be asked: {why}"));
            }
            None => {}
        }
        let most = state.run_limits.answers;
        match most.filter(|most| state.owed && state.replies >= *most) {
            Some(most) => Standing::Rests(format!("its limit of {most} answers is reached")),
            None if state.owed => Standing::Unfinished,
            None => Standing::Done,
        }
    }

    /// What it said last.
    fn answer(&self) -> String {
        let records = self.state.context.iter().rev();
        let texts = records.filter_map(|record| match &record.entry {
            Entry::Replied { blocks, .. } => Some(text_of(blocks)),
            _ => None,
        });
        texts
            .into_iter()
            .find(|text| !text.trim().is_empty())
            .unwrap_or_default()
    }

    /// What its models were asked for, one sum for each model.
    fn spent(&self, price: &Pricing) -> Vec<Spent> {
        let of_model = |(model, all): (&String, &Vec<Usage>)| {
            let mut usage = Usage::default();
            all.iter().for_each(|one| usage.add(one));
            // Prices depend on the length of each request, which a sum does not have.
            let usd: Option<f64> = all.iter().map(|one| price(model, one)).sum();
            usage.billed_nanos = usd.map(|usd| (usd * 1e9).round() as u64);
            Spent {
                model: model.clone(),
                usage,
            }
        };
        self.state.spent.iter().map(of_model).collect()
    }
}

fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What came since `before`.
fn since(all: Vec<Spent>, before: &[Spent]) -> Vec<Spent> {
    let less = |mut spent: Spent| {
        if let Some(known) = before.iter().find(|known| known.model == spent.model) {
            let (usage, known) = (&mut spent.usage, &known.usage);
            usage.input = usage.input.saturating_sub(known.input);
            usage.cached = usage.cached.saturating_sub(known.cached);
            usage.cache_written = usage.cache_written.saturating_sub(known.cache_written);
            usage.output = usage.output.saturating_sub(known.output);
            let billed = usage.billed_nanos.zip(known.billed_nanos);
            usage.billed_nanos = billed.map(|(now, then)| now.saturating_sub(then));
        }
        spent
    };
    let spent = all.into_iter().map(less);
    spent.filter(|s| s.usage.all() > 0).collect()
}

/// The files it changed, the commands it ran, what it cost and how it is continued.
fn report(log: &ChildLog, session: &str, spent: &[Spent]) -> Vec<String> {
    let state = &log.state;
    let tokens: u64 = spent.iter().map(|s| s.usage.all()).sum();
    let nanos: Option<u64> = spent.iter().map(|s| s.usage.billed_nanos).sum();
    let cost = nanos.map_or(String::new(), |n| format!(", ${:.4}", n as f64 / 1e9));
    let answers = count(state.replies, "answer");
    let mut lines = vec![format!(
        "[task {session}: {answers}, {tokens} tokens{cost}]"
    )];
    let changed = state.ledger.files.iter().filter(|(_, t)| t.changed);
    let changed: Vec<&str> = changed.map(|(path, _)| path.as_str()).collect();
    if !changed.is_empty() {
        lines.push(format!("[files changed: {}]", named(&changed)));
    }
    let ran: Vec<String> = state
        .ledger
        .commands
        .iter()
        .map(|ran| {
            let line = one_line(&ran.line, LINE_CHARS);
            match ran.exit_code {
                Some(0) => line,
                Some(code) => format!("{line} (exit code {code})"),
                None => format!("{line} (no exit code)"),
            }
        })
        .collect();
    if !ran.is_empty() {
        let ran: Vec<&str> = ran.iter().map(String::as_str).collect();
        lines.push(format!("[commands: {}]", named(&ran)));
    }
    if !state.background.is_empty() {
        let left = count(state.background.len() as u64, "command");
        lines.push(format!("[{left} of it still in the background]"));
    }
    lines
}

fn named(all: &[&str]) -> String {
    let shown = all.iter().rev().take(MAX_NAMED).rev();
    let mut text = shown.copied().collect::<Vec<_>>().join("; ");
    if all.len() > MAX_NAMED {
        text.push_str(&format!("; and {} more", all.len() - MAX_NAMED));
    }
    text
}

fn resume_with(session: &str) -> String {
    format!("task with resume {session} continues it")
}

impl Machine {
    /// Its session, then its run folder. Nothing is started.
    pub(super) fn prepare_task(
        &self,
        call: &ToolCall,
        order: &TaskOrder,
        state: &State,
    ) -> Result<Guard, Unready> {
        let refused = |why: String| Err(Unready::Refused(Outcome::error(why)));
        let Some(tasks) = &self.tasks else {
            return refused("no task can be given here".to_string());
        };
        if state.tasks_begun >= MAX_TASKS_OF_PROMPT {
            return refused(format!(
                "not begun: at most {MAX_TASKS_OF_PROMPT} tasks are given for one message of the user; do the rest yourself"
            ));
        }
        if state.tasks_at_work() >= MAX_TASKS_AT_ONCE {
            return refused(format!(
                "not begun: {MAX_TASKS_AT_ONCE} tasks are at work, and no more at once; wait until one ends"
            ));
        }
        let session = (tasks.begin)(order, call.id, state)?;
        let log = match ChildLog::read(self, &session) {
            Ok(log) => log,
            Err(why) => return refused(why),
        };
        let run = self
            .prepare_child(call.id, order, &session)
            .map_err(|e| unready(&e))?;
        Ok(Guard::Child {
            run,
            boot: self.boot.clone(),
            background: order.background,
            done: log.done(),
            in_vain: 0,
            before: log.spent(&tasks.price),
            session,
        })
    }

    fn prepare_child(
        &self,
        call: CallId,
        order: &TaskOrder,
        session: &str,
    ) -> std::io::Result<String> {
        self.prepare_run_of(
            background_id(call),
            one_line(&order.prompt, LINE_CHARS),
            order.background,
            session,
        )
    }

    fn prepare_run_of(
        &self,
        call: String,
        task: String,
        background: bool,
        session: &str,
    ) -> std::io::Result<String> {
        self.runs.prepare(&Spec {
            command: format!("task: {task}"),
            folder: self.ctx.folder.clone(),
            timeout_ms: self.tasks.as_ref().map_or(u64::MAX, |t| t.limit_ms),
            output_cap_bytes: 64 * 1024,
            shell: self.shell.path.clone(),
            // It asks models itself, and keeps their keys from its own commands.
            env_remove: Vec::new(),
            env_set: Vec::new(),
            session: self.session.clone(),
            call,
            background,
            sandbox: None,
            child: Some(session.to_string()),
        })
    }

    fn start_child(&self, run: &str) -> std::io::Result<Running> {
        let settings = self.tasks.as_ref().map_or("[]", |t| t.settings.as_str());
        self.runs.start_with(run, &[(SETTINGS_ENV, settings)])
    }

    /// Starts it. One that is waited for is settled at once; `None` says so.
    pub(super) async fn start_task(
        &self,
        call: &ToolCall,
        order: &TaskOrder,
        guard: &Guard,
    ) -> Option<Ran> {
        let Guard::Child {
            session,
            run,
            before,
            ..
        } = guard
        else {
            return Some(Ran::error("the call does not fit what was recorded of it"));
        };
        match self.start_child(run) {
            Ok(mut running) => {
                if let Err(error) = self.runs.begun(&mut running).await {
                    tracing::warn!(run, %error, "the keeper of a task does not begin");
                }
            }
            Err(error) => tracing::warn!(run, %error, "the keeper of a task was not started"),
        }
        let child = ChildRun {
            session: session.clone(),
            before: before.clone(),
        };
        order
            .background
            .then(|| task_in_background(call.id, run, &order.prompt, child))
    }

    /// How the task ended, or under which guard its sub-agent is started again.
    pub(super) async fn settle_task(
        &self,
        call: &ToolCall,
        order: &TaskOrder,
        guard: &Guard,
        stop: bool,
    ) -> Settled {
        let Guard::Child {
            session,
            run,
            boot,
            background,
            done,
            in_vain,
            before,
        } = guard
        else {
            return unsettled("it was begun as another kind of call");
        };
        let ended = match self.runs.settle(run, boot) {
            Ok(SettledRun::Running(_)) if *background && !stop => {
                let child = ChildRun {
                    session: session.clone(),
                    before: before.clone(),
                };
                return Settled::Ended(task_in_background(call.id, run, &order.prompt, child));
            }
            Ok(SettledRun::Running(mut running)) => {
                if stop {
                    self.stop_child(session, run).await;
                }
                match self.runs.wait(&mut running).await {
                    Ok(ended) => Some(ended),
                    Err(e) => return unsettled(&format!("cannot learn how the task ended: {e}")),
                }
            }
            Ok(SettledRun::NotBegun) => None,
            Ok(SettledRun::Ended(ended)) => Some(ended),
            Err(e) => return unsettled(&format!("its run folder cannot be read: {e}")),
        };
        let log = match ChildLog::read(self, session) {
            Ok(log) => log,
            Err(why) => return Settled::Ended(interrupted(why)),
        };
        let rests = self.standing(&log, ended.as_ref(), stop);
        if !matches!(rests, Standing::Unfinished) {
            return Settled::Ended(self.task_result(&log, session, before, rests));
        }
        let in_vain = match log.done() > *done {
            true => 0,
            false => in_vain + 1,
        };
        if in_vain >= MAX_RESTARTS {
            let why = format!("{MAX_RESTARTS} starts in a row got nowhere");
            let rests = Standing::Rests(why);
            return Settled::Ended(self.task_result(&log, session, before, rests));
        }
        match self.prepare_child(call.id, order, session) {
            Ok(run) => Settled::NotBegun(Guard::Child {
                session: session.clone(),
                run,
                boot: self.boot.clone(),
                background: *background,
                done: log.done(),
                in_vain,
                before: before.clone(),
            }),
            Err(e) => match unready(&e) {
                Unready::NoRoom(why) => Settled::NoRoom(why),
                Unready::Refused(outcome) => Settled::Ended(Ran::of(outcome)),
            },
        }
    }

    /// What its log says, and where that says nothing, how its process ended.
    fn standing(&self, log: &ChildLog, ended: Option<&Ended>, stop: bool) -> Standing {
        let standing = log.standing();
        if !matches!(standing, Standing::Unfinished) {
            return standing;
        }
        if stop {
            return Standing::Rests("the user stopped it".into());
        }
        match ended.map(|ended| &ended.how) {
            Some(How::Stopped) => Standing::Rests("it was stopped from outside".into()),
            Some(How::TimedOut) => {
                let minutes = self.tasks.as_ref().map_or(0, |t| t.limit_ms / 60_000);
                Standing::Rests(format!("its limit of {minutes} minutes is over"))
            }
            // It came to rest by itself, and says why.
            Some(How::Exited(code)) if !LEFT.contains(code) => {
                let said = ended.and_then(|ended| self.last_words(ended));
                let said =
                    said.unwrap_or_else(|| format!("its process ended with exit code {code}"));
                Standing::Rests(said)
            }
            _ => Standing::Unfinished,
        }
    }

    fn last_words(&self, ended: &Ended) -> Option<String> {
        let printed = self.runs.output(ended, TAIL_BYTES).ok()?;
        let text = String::from_utf8_lossy(&printed.head).into_owned()
            + &String::from_utf8_lossy(&printed.tail);
        let errors = text.lines().rev().find_map(|l| l.strip_prefix("error: "));
        let line = errors.or_else(|| text.lines().rev().find(|l| !l.trim().is_empty()))?;
        Some(one_line(line, 300))
    }

    fn task_result(
        &self,
        log: &ChildLog,
        session: &str,
        before: &[Spent],
        standing: Standing,
    ) -> Ran {
        let spent = match &self.tasks {
            Some(tasks) => since(log.spent(&tasks.price), before),
            None => Vec::new(),
        };
        let room = ANSWER_BYTES.min(self.ctx.inline_max_bytes);
        let (mut output, blobs) = tools::fit(log.answer(), room);
        for line in report(log, session, &spent) {
            if !output.text.is_empty() && !output.text.ends_with('\n') {
                output.text.push('\n');
            }
            output.text.push_str(&line);
        }
        let outcome = match standing {
            Standing::Done => Outcome::Done { output },
            Standing::Rests(why) => Outcome::Interrupted {
                output,
                why: format!("{why}; {}", resume_with(session)),
            },
            Standing::Unfinished => Outcome::Interrupted {
                output,
                why: format!("it did not come to its end; {}", resume_with(session)),
            },
        };
        Ran {
            outcome,
            fact: Some(Fact::Task {
                session: session.to_string(),
                spent,
            }),
            blobs,
        }
    }

    /// It is told first, so that it ends its own commands; then its keeper is.
    async fn stop_child(&self, session: &str, run: &str) {
        let told = Store::open(self.archive.data_dir()).and_then(|mut store| {
            store.signal(session, ORIGIN, now_ms(), |seen| Signal::Stop { seen })
        });
        if let Err(error) = &told {
            tracing::warn!(session, %error, "a task was not told to stop");
        }
        let until = Instant::now() + STOPS_WITHIN;
        while told.is_ok() && Instant::now() < until {
            match self.runs.ended(run) {
                Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
                Ok(Some(_)) | Err(_) => return,
            }
        }
        if let Err(error) = self.runs.stop(run) {
            tracing::warn!(run, %error, "a task was not stopped");
        }
    }

    /// How a task in the background ended; `None` while it is at work. One that was killed is
    /// started again.
    pub(super) fn task_end(
        &self,
        id: &str,
        recorded: &str,
        child: &ChildRun,
    ) -> Option<BackgroundEnd> {
        let tasks = self.tasks.as_ref()?;
        let session = &child.session;
        let known = tasks.runs.borrow().get(session).cloned();
        let run = known.as_ref().map_or(recorded, |known| known.run.as_str());
        let ended = match self.runs.ended(run) {
            Ok(None) => return None,
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(run, %error, "cannot look at a task in the background");
                None
            }
        };
        let of_session = |info: &crate::command::RunInfo| {
            info.spec.child.as_ref() == Some(session)
                && matches!(info.state, RunState::Running { .. })
        };
        let log = match ChildLog::read(self, session) {
            Ok(log) => log,
            Err(why) => return Some(background_end(id, interrupted(why))),
        };
        if let Some(info) = self.runs.list().into_iter().rfind(of_session) {
            let again = BackgroundRun {
                run: info.run,
                done: log.done(),
                in_vain: 0,
            };
            tasks.runs.borrow_mut().insert(session.clone(), again);
            return None;
        }
        let standing = self.standing(&log, ended.as_ref(), false);
        if !matches!(standing, Standing::Unfinished) {
            let ran = self.task_result(&log, session, &child.before, standing);
            return Some(background_end(id, ran));
        }
        let in_vain = match &known {
            Some(known) if log.done() == known.done => known.in_vain + 1,
            _ => 0,
        };
        let again = match in_vain >= MAX_RESTARTS {
            true => Err(format!("{MAX_RESTARTS} starts in a row got nowhere")),
            false => self.start_again(id, session).map_err(|e| e.to_string()),
        };
        match again {
            Ok(run) => {
                let again = BackgroundRun {
                    run,
                    done: log.done(),
                    in_vain,
                };
                tasks.runs.borrow_mut().insert(session.clone(), again);
                None
            }
            Err(why) => {
                let rests = Standing::Rests(why);
                let ran = self.task_result(&log, session, &child.before, rests);
                Some(background_end(id, ran))
            }
        }
    }

    fn start_again(&self, id: &str, session: &str) -> std::io::Result<String> {
        let run = self.prepare_run_of(id.to_string(), "goes on".to_string(), true, session)?;
        self.start_child(&run)?;
        Ok(run)
    }

    /// Those of starts that a later one followed.
    pub(super) fn remove_runs_of(&self, session: &str) {
        let runs = self.runs.list().into_iter();
        for info in runs.filter(|info| info.spec.child.as_deref() == Some(session)) {
            // One that is not begun yet may be the next start.
            let is_over = matches!(info.state, RunState::Ended(_));
            if is_over && let Err(error) = self.runs.remove(&info.run) {
                tracing::warn!(run = info.run, %error, "a run folder stays");
            }
        }
    }
}

fn task_in_background(call: CallId, run: &str, prompt: &str, child: ChildRun) -> Ran {
    let id = background_id(call);
    let text = format!(
        "task {} is at work in the background as {id}; bash_stop with id {id} ends it; you are told when it ends",
        child.session
    );
    let fact = Fact::Background {
        id,
        run: run.to_string(),
        command: format!("task: {}", one_line(prompt, LINE_CHARS)),
        child: Some(child),
    };
    Ran {
        fact: Some(fact),
        ..Ran::done(text)
    }
}

fn background_end(id: &str, ran: Ran) -> BackgroundEnd {
    let is_done = matches!(ran.outcome, Outcome::Done { .. });
    let spent = match ran.fact {
        Some(Fact::Task { spent, .. }) => spent,
        _ => Vec::new(),
    };
    let (text, _) = ran.outcome.to_model_text();
    let (Output { text, .. }, more) = tools::fit(text, TOLD_BYTES);
    let mut blobs = ran.blobs;
    blobs.extend(more);
    BackgroundEnd {
        exit_code: is_done.then_some(0),
        text: format!("background task {id} ended:\n{text}"),
        blobs,
        spent,
    }
}
