//! Subagents: separate sessions, each a process under a keeper. Starting one twice does no harm,
//! since only one process has a session at a time. So a subagent that was killed is started again,
//! and continues where its log ends.
//!
//! The order: the session is made durable, then its run folder is created, then the parent's
//! `Started` is recorded, then the keeper is started. The result is read from the subagent's log,
//! not from its run.
//!
//! Invariant: a call has one session, however often it is prepared and settled.

use super::child_log::{ChildLog, TaskProgress, report, since};
use super::give_tasks::{BackgroundRun, Tasks};
use super::machine::{Machine, unready, unsettled};
use super::{BackgroundEnd, PrepareError, Settled, World};
use crate::command::keeper::SETTINGS_ENV;
use crate::command::{How, RunEnd, RunState, Running, SettledRun, Spec};
use crate::core::entry::{CallId, ChildRun, Fact, Guard, Outcome, Output, Spent};
use crate::core::next::{MAX_RESTARTS, MAX_TASKS_AT_ONCE, MAX_TASKS_OF_PROMPT};
use crate::core::quoted::fenced;
use crate::core::state::State;
use crate::core::text::one_line;
use crate::core::tool::ToolCall;
use crate::tools::bash::background_id;
use crate::tools::{self, TaskOrder, ToolResult};

/// Maximum bytes of the answer in the result; the whole is stored as well.
const ANSWER_BYTES: usize = 8 * 1024;
const LINE_CHARS: usize = 100;
/// Maximum bytes of the report on the end of a background task.
const TOLD_BYTES: usize = 2_000;

/// Bytes of its last output lines, which may explain its end.
const TAIL_BYTES: u64 = 2_000;

/// Exit codes of a process that was ended from outside and closed its session properly.
const LEFT: [i32; 3] = [129, 130, 143];

fn resume_with(session: &str) -> String {
    format!("task with resume {session} continues it")
}

impl Machine {
    /// Creates the session of a task, and then its run folder. Starts nothing.
    pub(super) fn prepare_task(
        &self,
        call: &ToolCall,
        order: &TaskOrder,
        state: &State,
    ) -> Result<Guard, PrepareError> {
        let refused = |why: String| Err(PrepareError::Refused(Outcome::error(why)));
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
            .prepare_child(call.id, order, &session, tasks.limit_ms)
            .map_err(|e| unready(&e))?;
        Ok(Guard::Child {
            run,
            boot: self.boot.clone(),
            background: order.background,
            done: log.done(),
            in_vain: 0,
            before: log.spent(&tasks.price),
            worked_ms: log.state.worked_ms,
            session,
        })
    }

    fn prepare_child(
        &self,
        call: CallId,
        order: &TaskOrder,
        session: &str,
        limit_ms: u64,
    ) -> std::io::Result<String> {
        self.prepare_run_of(
            background_id(call),
            one_line(&order.prompt, LINE_CHARS),
            order.background,
            session,
            limit_ms,
        )
    }

    fn prepare_run_of(
        &self,
        call: String,
        task: String,
        background: bool,
        session: &str,
        limit_ms: u64,
    ) -> std::io::Result<String> {
        self.runs.prepare(&Spec {
            timeout_ms: limit_ms,
            output_cap_bytes: 64 * 1024,
            // The subagent calls models itself, and keeps their keys from its own commands.
            env_remove: Vec::new(),
            background,
            child: Some(session.to_string()),
            ..self.unconfined_spec(format!("task: {task}"), call)
        })
    }

    fn start_child(&self, run: &str) -> std::io::Result<Running> {
        let settings = self.tasks.as_ref().map_or("[]", |t| t.settings.as_str());
        self.runs.start_with(run, &[(SETTINGS_ENV, settings)])
    }

    /// Starts the subagent. Returns `None` if the parent waits for it: the call is then settled at
    /// once.
    pub(super) async fn start_task(
        &self,
        call: &ToolCall,
        order: &TaskOrder,
        guard: &Guard,
    ) -> Option<ToolResult> {
        let Guard::Child {
            session,
            run,
            before,
            worked_ms,
            ..
        } = guard
        else {
            return Some(ToolResult::error(
                "the call does not fit what was recorded of it",
            ));
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
            worked_ms: *worked_ms,
        };
        order
            .background
            .then(|| self.task_in_background(call.id, run, &order.prompt, child))
    }

    /// Returns how the task ended, or the guard under which its subagent is started again.
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
            worked_ms,
        } = guard
        else {
            return unsettled("it was started as another kind of call");
        };
        let ended = match self.runs.settle(run, boot) {
            Ok(SettledRun::Running(_)) if *background && !stop => {
                let child = ChildRun {
                    session: session.clone(),
                    before: before.clone(),
                    worked_ms: *worked_ms,
                };
                return Settled::Ended(self.task_in_background(call.id, run, &order.prompt, child));
            }
            Ok(SettledRun::Running(mut running)) => {
                if stop {
                    self.stop_child(run).await;
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
            Err(why) => return Settled::Ended(ToolResult::interrupted(why)),
        };
        let left_ms = self.left_ms(&log, *worked_ms);
        let rests = self.standing(&log, ended.as_ref(), stop, left_ms);
        if !matches!(rests, TaskProgress::Unfinished) {
            return Settled::Ended(self.task_result(&log, session, before, rests));
        }
        let in_vain = if log.done() > *done { 0 } else { in_vain + 1 };
        if in_vain >= MAX_RESTARTS {
            let why = format!("{MAX_RESTARTS} starts in a row got nowhere");
            let rests = TaskProgress::Rests(why);
            return Settled::Ended(self.task_result(&log, session, before, rests));
        }
        match self.prepare_child(call.id, order, session, left_ms) {
            Ok(run) => Settled::NotBegun(Guard::Child {
                session: session.clone(),
                run,
                boot: self.boot.clone(),
                background: *background,
                done: log.done(),
                in_vain,
                before: before.clone(),
                worked_ms: *worked_ms,
            }),
            Err(e) => match unready(&e) {
                PrepareError::NoRoom(why) => Settled::NoRoom(why),
                PrepareError::Refused(outcome) => Settled::Ended(ToolResult::of(outcome)),
            },
        }
    }

    /// Returns the progress according to the log, and if the log has no answer, according to the
    /// end of the process. `left_ms` is the remaining working time.
    fn standing(
        &self,
        log: &ChildLog,
        ended: Option<&RunEnd>,
        stop: bool,
        left_ms: u64,
    ) -> TaskProgress {
        let standing = match &self.tasks {
            Some(tasks) => log.standing(&tasks.price),
            None => TaskProgress::Unfinished,
        };
        if !matches!(standing, TaskProgress::Unfinished) {
            return standing;
        }
        if stop {
            return TaskProgress::Rests("the user stopped it".into());
        }
        let minutes = self.tasks.as_ref().map_or(0, |t| t.limit_ms / 60_000);
        let is_late = || TaskProgress::Rests(format!("its limit of {minutes} minutes is over"));
        match ended.map(|ended| &ended.how) {
            Some(How::Stopped) => TaskProgress::Rests("it was stopped from outside".into()),
            Some(How::TimedOut) => is_late(),
            // It stopped by itself, and its output explains why.
            Some(How::Exited(code)) if !LEFT.contains(code) => {
                let said = ended.and_then(|ended| self.last_words(ended));
                let said =
                    said.unwrap_or_else(|| format!("its process ended with exit code {code}"));
                TaskProgress::Rests(said)
            }
            _ if left_ms == 0 => is_late(),
            _ => TaskProgress::Unfinished,
        }
    }

    /// Returns the remaining working time of a subagent for this call, over all its starts.
    /// `worked_ms` is the working time before this call.
    fn left_ms(&self, log: &ChildLog, worked_ms: u64) -> u64 {
        let limit_ms = self.tasks.as_ref().map_or(u64::MAX, |t| t.limit_ms);
        limit_ms.saturating_sub(log.state.worked_ms.saturating_sub(worked_ms))
    }

    fn last_words(&self, ended: &RunEnd) -> Option<String> {
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
        standing: TaskProgress,
    ) -> ToolResult {
        let spent = match &self.tasks {
            Some(tasks) => since(log.spent(&tasks.price), before),
            None => Vec::new(),
        };
        let room = ANSWER_BYTES.min(self.ctx.inline_max_bytes);
        let (mut output, blobs) = tools::truncate_output(log.answer(), room);
        let is_used = !log.state.background.is_empty();
        let end = |tasks: &Tasks| (tasks.end)(session, is_used);
        let of_worktree = self.tasks.as_ref().and_then(end);
        for line in report(log, session, &spent).into_iter().chain(of_worktree) {
            if !output.text.is_empty() && !output.text.ends_with('\n') {
                output.text.push('\n');
            }
            output.text.push_str(&line);
        }
        let outcome = match standing {
            TaskProgress::Done => Outcome::Done { output },
            TaskProgress::Rests(why) => Outcome::Interrupted {
                output,
                why: format!("{why}; {}", resume_with(session)),
            },
            TaskProgress::Unfinished => Outcome::Interrupted {
                output,
                why: format!("it did not come to its end; {}", resume_with(session)),
            },
        };
        ToolResult {
            outcome,
            fact: Some(Fact::Task {
                session: session.to_string(),
                spent,
            }),
            blobs,
        }
    }

    async fn stop_child(&self, run: &str) {
        let (runs, of) = (self.runs.clone(), run.to_string());
        let stopped = tokio::task::spawn_blocking(move || runs.stop(&of)).await;
        if let Ok(Err(error)) = stopped {
            tracing::warn!(run, %error, "a task was not stopped");
        }
    }

    /// Starts a killed subagent again, and reports nothing. So the log of an ended subagent is read
    /// once, and not at each check.
    pub(super) fn restart_killed_task(&self, id: &str, recorded: &str, child: &ChildRun) {
        let Some(tasks) = &self.tasks else {
            return;
        };
        let is_over = tasks.ended.borrow().contains(recorded);
        if !is_over && self.task_end(id, recorded, child).is_some() {
            tasks.ended.borrow_mut().insert(recorded.to_string());
        }
    }

    /// Returns how a background task ended, or `None` while it is at work. A killed one is started
    /// again.
    pub(super) fn task_end(
        &self,
        id: &str,
        recorded: &str,
        child: &ChildRun,
    ) -> Option<BackgroundEnd> {
        let tasks = self.tasks.as_ref()?;
        let session = &child.session;
        let known = tasks.runs.borrow().get(recorded).cloned();
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
            Err(why) => return Some(background_end(id, ToolResult::interrupted(why))),
        };
        if let Some(info) = self.runs.list().into_iter().rfind(of_session) {
            let again = BackgroundRun {
                run: info.run,
                done: log.done(),
                in_vain: 0,
            };
            tasks.runs.borrow_mut().insert(recorded.to_string(), again);
            return None;
        }
        let left_ms = self.left_ms(&log, child.worked_ms);
        let standing = self.standing(&log, ended.as_ref(), false, left_ms);
        if !matches!(standing, TaskProgress::Unfinished) {
            let ran = self.task_result(&log, session, &child.before, standing);
            return Some(background_end(id, ran));
        }
        let in_vain = match &known {
            Some(known) if log.done() == known.done => known.in_vain + 1,
            _ => 0,
        };
        let again = match in_vain >= MAX_RESTARTS {
            true => Err(format!("{MAX_RESTARTS} starts in a row got nowhere")),
            false => self
                .start_again(id, session, left_ms)
                .map_err(|e| e.to_string()),
        };
        match again {
            Ok(run) => {
                let again = BackgroundRun {
                    run,
                    done: log.done(),
                    in_vain,
                };
                tasks.runs.borrow_mut().insert(recorded.to_string(), again);
                None
            }
            Err(why) => {
                let rests = TaskProgress::Rests(why);
                let ran = self.task_result(&log, session, &child.before, rests);
                Some(background_end(id, ran))
            }
        }
    }

    fn start_again(&self, id: &str, session: &str, left_ms: u64) -> std::io::Result<String> {
        let task = "goes on".to_string();
        let run = self.prepare_run_of(id.to_string(), task, true, session, left_ms)?;
        self.start_child(&run)?;
        Ok(run)
    }

    fn task_in_background(
        &self,
        call: CallId,
        run: &str,
        prompt: &str,
        child: ChildRun,
    ) -> ToolResult {
        let id = background_id(call);
        let told = if self.leaves_when_idle() {
            "you are told when it ends, also after you ended your turn: this run waits for it"
        } else {
            "you are told when it ends"
        };
        let text = format!(
            "task {} is at work in the background as {id}; bash_wait waits for it; bash_stop with id {id} \
             ends it; {told}",
            child.session
        );
        let fact = Fact::Background {
            id,
            run: run.to_string(),
            command: format!("task: {}", one_line(prompt, LINE_CHARS)),
            child: Some(child),
        };
        ToolResult {
            fact: Some(fact),
            ..ToolResult::done(text)
        }
    }

    /// Removes the run folders of earlier starts of a session.
    pub(super) fn remove_runs_of(&self, session: &str) {
        let runs = self.runs.list().into_iter();
        for info in runs.filter(|info| info.spec.child.as_deref() == Some(session)) {
            // A run that was not started yet may be the next start.
            let is_over = matches!(info.state, RunState::Ended(_));
            if is_over && let Err(error) = self.runs.remove(&info.run) {
                tracing::warn!(run = info.run, %error, "a run folder stays");
            }
        }
    }
}

fn background_end(id: &str, ran: ToolResult) -> BackgroundEnd {
    let is_done = matches!(ran.outcome, Outcome::Done { .. });
    let spent = match ran.fact {
        Some(Fact::Task { spent, .. }) => spent,
        _ => Vec::new(),
    };
    let (said, why) = match ran.outcome {
        Outcome::Done { output } | Outcome::Error { output } => (output.text, None),
        Outcome::Interrupted { output, why } => (output.text, Some(why)),
        Outcome::Denied { reason } => (String::new(), Some(reason)),
    };
    let (Output { text, .. }, more) = tools::truncate_output(said, TOLD_BYTES);
    // The text is of another agent, so it is quoted.
    let mut text = fenced(text.trim_end());
    if let Some(why) = why {
        text.push_str(&format!("\n[interrupted: {why}]"));
    }
    let mut blobs = ran.blobs;
    blobs.extend(more);
    BackgroundEnd {
        exit_code: is_done.then_some(0),
        text: format!("background task {id} ended:\n{text}"),
        blobs,
        spent,
    }
}
