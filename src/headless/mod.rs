//! The engine without a screen: `rewake -p`.
//!
//! stdout contains data, stderr contains notes for a person who watches. Nothing here waits for
//! input. If the reader of stdout leaves, printing stops, but the work continues. An answer that
//! cannot be printed for another reason makes the run fail: it is stored, and the hint says how to
//! read it.

mod denials;
mod earlier;
mod input;
mod print;
pub(crate) mod signals;
mod wait;

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::core::background::BackgroundMode;
use crate::core::custom::ServerMention;
use crate::core::entry::{
    By, Entry, Failure, FailureClass, Image, Outcome, SaveReason, StopReason, UsedCommand, Via,
};
use crate::core::next::{self, Why};
use crate::core::run_limits;
use crate::core::state::{Halt, State};
use crate::core::structured::AnswerStatus;
use crate::core::text::count;
use crate::engine::{self, Command, Engine, EngineError, Event, RestReason, set_background};
use crate::model::retry::is_transient;
use crate::report::{self, CliError, Signals, exit, note, note_background};
use crate::session::{
    AppContext, CommandLine, Driver, ExpandedWords, NotSaid, NotifyCommand, ResumeReport, Session,
    drive, short_id,
};
use crate::store::Message;
use crate::world::machine::Machine;

use print::Printer;
pub use print::{Format, failed_start};
pub use wait::{Ask, time};

use earlier::EarlierRun;
pub use earlier::job_origin;
use input::Input;
pub use input::known_origins;
use wait::WaitState;

/// The task of a headless run.
pub struct Task {
    /// Prompt to send first. `None`: the session continues with its pending work.
    pub prompt: Option<String>,
    /// Custom command that the prompt was expanded from.
    pub command: Option<UsedCommand>,
    /// Prompts and resources of servers that the prompt names. They are fetched before the prompt
    /// is sent.
    pub named: Option<Named>,
    pub format: Format,
    /// Who starts the run. If the user named this session, a crash loop is lifted.
    pub by: By,
    /// JSON Schema that the answer has to match.
    pub schema: Option<Value>,
    /// Origin of the prompt of a command line that may have been run before. A prompt that the
    /// session has is not sent again.
    pub job: Option<String>,
    /// Handling of questions that would need a person.
    pub ask: Ask,
    /// Images of the prompt, and their bytes.
    pub images: Vec<Image>,
    pub blobs: Vec<Vec<u8>>,
    /// Lines on stdin control the run.
    pub has_input: bool,
    /// The run stops after this time.
    pub timeout: Option<Duration>,
    /// Treatment of background work when the model ends its turn.
    pub background: BackgroundMode,
    /// A run with a denied call fails.
    pub fail_on_denied: bool,
}

impl Task {
    /// Returns the task to continue with the pending work.
    pub fn pending_work(by: By, background: BackgroundMode, ask: Ask) -> Task {
        Task {
            prompt: None,
            command: None,
            named: None,
            format: Format::Text,
            by,
            schema: None,
            job: None,
            ask,
            images: Vec::new(),
            blobs: Vec::new(),
            has_input: false,
            timeout: None,
            background,
            fail_on_denied: false,
        }
    }
}

/// Prompts and resources of MCP servers that a prompt names.
pub struct Named {
    pub ctx: AppContext,
    /// The server's prompt that the user typed, and the input that was piped in to follow it.
    pub prompt: Option<(CommandLine, Option<String>)>,
    /// Resources that the prompt mentions.
    pub resources: Vec<ServerMention>,
}

/// Runs until the model ends its turn, and returns the exit code.
///
/// # Errors
/// The run cannot be started.
pub fn run(ctx: &AppContext, mut session: Session, task: Task) -> Result<u8, CliError> {
    session.settings.policy.interactive = task.ask.is_attended();
    session.world.leave_when_idle(task.background);
    session.settings.policy.background = task.background;
    let world = Rc::clone(&session.world);
    let printer = Printer::new(task.format, &session);
    let earlier = match task.job.is_some() {
        true => EarlierRun::of(&session),
        false => Ok(EarlierRun::default()),
    };
    let earlier = earlier?;
    let first_row = session.log.store.history().last_row()?;
    let input = match task.has_input {
        true => Input::read(ctx, &session),
        false => Ok(Input::none()),
    };
    let input = input?;
    let waiting = WaitState::new(task.ask, NotifyCommand::new(ctx, Arc::default()));
    let run = Run {
        id: session.id.clone(),
        warnings: session.warnings.clone(),
        found: session.found.clone(),
        printer: Rc::clone(&printer),
        waiting: Rc::clone(&waiting),
        earlier,
        input,
        first_row,
        is_timed_out: Cell::new(false),
        timed_out: Notify::new(),
        signals: Signals::default(),
        world,
        task,
    };
    // Unbounded: only this run sends, at a signal or a limit.
    let (commands, inbox) = unbounded_channel();
    let on_event = move |state: &State, event: Event| {
        printer.borrow_mut().event(state, &event);
        waiting.event(state, &event);
    };
    let done = drive(session, inbox, Box::new(on_event), async move |driver| {
        run.work(driver, commands).await
    });
    Ok(done?)
}

/// The state of a headless run beside its engine.
struct Run {
    id: String,
    warnings: Vec<String>,
    found: Option<ResumeReport>,
    printer: print::SharedOutput,
    waiting: Rc<WaitState>,
    /// The run of the same command line before this one.
    earlier: EarlierRun,
    input: Rc<Input>,
    /// The last entry of all sessions before this run.
    first_row: i64,
    is_timed_out: Cell<bool>,
    timed_out: Notify,
    signals: Signals,
    world: Rc<Machine>,
    task: Task,
}

impl Run {
    async fn work(self, driver: &mut Driver, commands: UnboundedSender<Command>) -> u8 {
        let stops_at = self.task.timeout.map(|timeout| Instant::now() + timeout);
        // The prompt comes first: clients that learn of the session may rely on it containing the
        // prompt.
        let words = match self.words(&driver.engine).await {
            Ok(words) => words,
            Err((why, hint)) => {
                let result = RunResult {
                    hint,
                    is_error: true,
                    ..RunResult::new(exit::USAGE, why)
                };
                return self.finish(&mut driver.engine, result).await;
            }
        };
        let message = words.map(|words| {
            let message = Message {
                images: [words.images, self.task.images.clone()].concat(),
                command: words.command,
                origin: self.task.job.clone(),
                ..Message::new(words.text, Via::Prompt)
            };
            (message, [words.blobs, self.task.blobs.clone()].concat())
        });
        let message = match message {
            Some((message, _)) if self.earlier.has_said(&message) => {
                let is_stopped = driver.engine.state().is_stopped();
                is_stopped.then(|| (earlier::go_on(), Vec::new()))
            }
            message => message,
        };
        let says = message.is_some();
        let is_owed = says || self.found.as_ref().is_some_and(|found| found.owed);
        if let Some(schema) = self.task.schema.clone().filter(|_| is_owed)
            && let Err(error) = driver.engine.expect_schema(schema, says).await
        {
            return self.refused(driver.engine.state(), &error);
        }
        let said = message.map(|(message, blobs)| driver.engine.say(&message, &blobs));
        let is_resumed = self.found.is_some();
        self.printer
            .borrow()
            .opened(driver.engine.state(), is_resumed);
        if let Some(Err(error)) = said {
            return self.refused(driver.engine.state(), &error);
        }
        for warning in &self.warnings {
            note(warning);
        }
        if let Some(found) = &self.found {
            note(&found.line());
            if !says && !found.owed && !self.input.is_open() {
                match self.earlier.answer() {
                    Some((answer, stop)) => self.printer.borrow_mut().recorded_answer(answer, stop),
                    None => {
                        note("nothing is unfinished; give a prompt to continue: rewake -p -c \"…\"")
                    }
                }
                let engine = &mut driver.engine;
                // The previous process may have died before it reported this.
                let result = match next::rest(engine.state(), engine.policy()) {
                    Some(Why::Unfit) => unfit_result(engine.state()),
                    _ if self.task.job.is_some() => ended(self.printer.borrow().stop()),
                    _ => RunResult::DONE,
                };
                return self.finish(engine, result).await;
            }
        }
        let by = match says && self.task.job.is_none() {
            true => By::Person,
            false => self.task.by,
        };
        let rest = tokio::select! {
            biased;
            never = signals::forward(commands.clone(), self.signals.clone()) => match never {},
            never = self.waiting.limit(commands.clone(), &self.input) => match never {},
            never = self.time_limit(commands, stops_at) => match never {},
            rest = self.work_and_wait(driver, by) => rest,
        };
        let engine = &mut driver.engine;
        let result = match rest {
            Ok(RestReason::Waiting(_)) if self.is_timed_out.get() => RunResult::new(
                exit::RESUMABLE,
                "stopped: the time limit of --timeout is reached",
            ),
            Ok(RestReason::Left(_)) if self.waiting.is_over() => {
                result_after_time_limit(engine.state(), &self.id)
            }
            Ok(rest) => run_result(engine, rest, self.printer.borrow().stop(), &self),
            Err(error) => return self.refused(engine.state(), &error),
        };
        self.finish(engine, result).await
    }

    /// Stops the work at the time limit, as `rewake stop` does.
    async fn time_limit(
        &self,
        commands: UnboundedSender<Command>,
        stops_at: Option<Instant>,
    ) -> Infallible {
        if let Some(at) = stops_at {
            tokio::time::sleep_until(at).await;
            self.is_timed_out.set(true);
            self.timed_out.notify_one();
            // The engine ends only when the run is over.
            let _ = commands.send(Command::STOP);
        }
        std::future::pending().await
    }

    /// Returns the text to send first. Fetches the parts that the prompt names from their servers.
    async fn words(
        &self,
        engine: &Engine<Machine>,
    ) -> Result<Option<ExpandedWords>, (String, Option<String>)> {
        let Some(prompt) = &self.task.prompt else {
            return Ok(None);
        };
        let Some(named) = &self.task.named else {
            return Ok(Some(ExpandedWords {
                text: prompt.clone(),
                command: self.task.command.clone(),
                ..ExpandedWords::default()
            }));
        };
        let ask = |request| engine.ask_server(request);
        let servers = named.ctx.defined_servers();
        let words = match &named.prompt {
            Some((typed, _)) => servers.expand_prompt(typed, &ask).await,
            None => {
                let put_in = servers.append_resources(prompt, &named.resources, &ask);
                put_in.await
            }
        };
        let piped = named.prompt.as_ref().and_then(|(_, piped)| piped.as_ref());
        match words.map(|words| match piped {
            Some(piped) => ExpandedWords {
                text: format!("{}\n\n{piped}", words.text),
                ..words
            },
            None => words,
        }) {
            Ok(words) => Ok(Some(words)),
            Err(NotSaid::Failed(why, hint)) => Err((why, hint)),
            Err(NotSaid::Untrusted(untrusted)) => {
                Err((format!("{} is not trusted", untrusted.path), None))
            }
        }
    }

    /// Runs the engine. Waits for answers from other processes if they are expected, and for
    /// background subagents, whose limits bound that wait.
    async fn work_and_wait(&self, driver: &mut Driver, by: By) -> Result<RestReason, EngineError> {
        let (mut is_said, mut is_stopped) = (false, false);
        loop {
            // Read before the work: a line that came before the end was taken.
            let may_go_on = self.input.is_open() && !self.is_timed_out.get();
            self.input.works();
            let mode = match (self.task.background, may_go_on) {
                // The run ends with the input, not with this answer.
                (BackgroundMode::Remind, true) => BackgroundMode::Wake,
                (mode, _) => mode,
            };
            set_background(&mut driver.engine, mode);
            let rest = driver.run(by).await?;
            if may_go_on && matches!(rest, RestReason::Waiting(_)) {
                self.input.waits();
                tokio::select! {
                    idle = driver.engine.idle() => idle?,
                    () = self.input.ended() => {}
                    () = self.timed_out.notified() => {}
                }
                continue;
            }
            let waits_for_tasks = matches!(rest, RestReason::Waiting(Why::Idle))
                && driver.engine.state().works_in_background();
            if waits_for_tasks && !std::mem::replace(&mut is_said, true) {
                let tasks = count(driver.engine.state().tasks_at_work() as u64, "task");
                note(&format!("waiting for {tasks} in the background"));
            }
            match rest {
                RestReason::Waiting(why)
                    if waits_for_tasks
                        || self.waiting.waits_for_person_elsewhere(
                            why,
                            driver.engine.state(),
                            &self.id,
                        ) =>
                {
                    driver.engine.idle().await?;
                }
                // The next round records their ends.
                RestReason::Waiting(_)
                    if self.task.background == BackgroundMode::Stop
                        && !std::mem::replace(&mut is_stopped, true) =>
                {
                    self.world.stop_commands(driver.engine.state()).await;
                }
                RestReason::Waiting(_) | RestReason::Left(_) => return Ok(rest),
            }
        }
    }

    async fn finish(&self, engine: &mut Engine<Machine>, mut result: RunResult) -> u8 {
        // Told apart from a kill by the next start.
        if engine.state().unfinished()
            && !matches!(engine.state().halted, Some(Halt::Failed(_)))
            && let Err(error) = engine.save(result.saves).await
        {
            tracing::warn!(%error, "the leaving was not recorded");
        }
        let mut printer = self.printer.borrow_mut();
        let short = short_id(&self.id);
        if printer.has_subagents() {
            match denials::denied_in_subagents(engine::store(engine), &self.id, self.first_row) {
                Ok(denied) => printer.add_denied(denied),
                Err(error) => tracing::warn!(%error, "denials of subagents were not counted"),
            }
        }
        if self.task.fail_on_denied && result.code == exit::DONE && printer.denied() > 0 {
            result = RunResult::new(
                exit::FAILED,
                format!("{} denied", print::calls_were(printer.denied())),
            )
            .with_hint("rewake permissions lists the rules that decide");
        }
        if let (exit::DONE, Some(why)) = (result.code, printer.why_none_started()) {
            result = RunResult::new(exit::FAILED, format!("no command could start: {why}"))
                .with_hint("rewake doctor checks the shell and the sandbox");
        }
        printer.result(engine.state(), &result);
        let hint = format!("the answer is stored: rewake show {short} prints it");
        let mut code = report::lost_output(result.code, &hint);
        if code != result.code {
            code = self.signals.last().unwrap_or(code);
        }
        match &result.why {
            Some(why) if result.is_error => report::error(why, result.hint.as_deref()),
            Some(why) => {
                note(why);
                result.hint.iter().for_each(|hint| note(hint));
            }
            None => {}
        }
        note_background(engine.state().background.len());
        if result.code != exit::DONE {
            let how = match result.code {
                // Without pending work, a prompt is required to continue.
                exit::RESUMABLE | exit::FAILED if !engine.state().unfinished() => {
                    format!("rewake -p \"go on\" -r {short}")
                }
                exit::RESUMABLE | exit::FAILED => format!("rewake -p -r {short}"),
                _ => format!("rewake -p -c, or rewake -p -r {short}"),
            };
            match &self.task.job {
                Some(_) => note("to continue: the same command line"),
                None => note(&format!("to continue: {how}")),
            }
        }
        code
    }

    /// Reports that the log cannot be written. Nothing more is done.
    fn refused(&self, state: &State, error: &EngineError) -> u8 {
        let trouble = CliError::from(error);
        let result = RunResult {
            hint: trouble.hint.clone(),
            is_error: true,
            ..RunResult::new(trouble.code, &trouble.message)
        };
        self.printer.borrow_mut().result(state, &result);
        let code = trouble.report();
        note(&format!("to continue: rewake -p -r {}", short_id(&self.id)));
        code
    }
}

/// The result of a run: the exit code and the reason.
struct RunResult {
    code: u8,
    why: Option<String>,
    hint: Option<String>,
    is_error: bool,
    /// Reason of the checkpoint if work is pending.
    saves: SaveReason,
}

impl RunResult {
    /// A run that did all of its work.
    const DONE: RunResult = RunResult {
        code: exit::DONE,
        why: None,
        hint: None,
        is_error: false,
        saves: SaveReason::Exit,
    };

    fn new(code: u8, why: impl Into<String>) -> RunResult {
        RunResult {
            code,
            why: Some(why.into()),
            is_error: code == exit::FAILED,
            ..RunResult::DONE
        }
    }

    fn with_hint(self, hint: impl Into<String>) -> RunResult {
        RunResult {
            hint: Some(hint.into()),
            ..self
        }
    }

    fn failed(failure: &Failure) -> RunResult {
        RunResult {
            hint: failure.hint.clone(),
            is_error: true,
            ..RunResult::new(code_of(failure.class), &failure.message)
        }
    }
}

fn run_result(
    engine: &Engine<Machine>,
    rest: RestReason,
    stop: Option<StopReason>,
    run: &Run,
) -> RunResult {
    let id = &run.id;
    let short = short_id(id);
    match rest {
        RestReason::Waiting(Why::Idle) if fitting(engine.state()).is_some() => RunResult::DONE,
        RestReason::Waiting(Why::Idle) => ended(stop),
        RestReason::Waiting(Why::Unfit) => unfit_result(engine.state()),
        RestReason::Waiting(Why::Turns) => RunResult {
            saves: SaveReason::TurnLimit,
            ..RunResult::new(
                exit::RESUMABLE,
                "stopped: the limit of turns is reached; --max-turns raises it",
            )
        },
        RestReason::Waiting(Why::Repeats) => {
            let repeated = engine.state().loop_guard.stuck().unwrap_or_default();
            RunResult::new(
                exit::RESUMABLE,
                format!("the model repeats itself: {repeated}"),
            )
            .with_hint(format!(
                "rewake unblock {short} lets it continue, a message gives it another direction"
            ))
        }
        RestReason::Waiting(Why::Paused) => RunResult::new(
            exit::RESUMABLE,
            format!("paused; continue with rewake unblock {short}"),
        ),
        RestReason::Waiting(Why::Asked) => question_is_open(engine.state(), id),
        RestReason::Waiting(Why::Limit) => {
            let reached = run_limits::reached(engine.state(), &engine.policy().price);
            let reached = reached.map_or("a limit is reached".to_string(), |r| r.to_string());
            RunResult::new(exit::RESUMABLE, format!("paused: {reached}")).with_hint(format!(
                "rewake unblock {short} lifts it, rewake set {short} gives another"
            ))
        }
        RestReason::Waiting(Why::CrashLoop) => RunResult::new(
            exit::RESUMABLE,
            "crash loop: the last starts all ended without progress, so rewake does not try again by \
                 itself",
        ),
        RestReason::Waiting(Why::Nonsense) => RunResult::new(
            exit::FAILED,
            "the model's last answers cannot be used: no words, or only calls that make no sense",
        ),
        RestReason::Waiting(Why::Halted) => match &engine.state().halted {
            Some(Halt::Failed(failure)) => RunResult::failed(failure),
            Some(Halt::Stopped) | None => RunResult::new(exit::SIGINT, "stopped"),
        },
        RestReason::Left(reason) => {
            tracing::info!(?reason, "left");
            let code = run.signals.last().unwrap_or(exit::SIGTERM);
            RunResult::new(code, "ended by a signal; running commands keep running")
        }
    }
}

/// Returns the result after the time limit for an answer.
fn result_after_time_limit(state: &State, id: &str) -> RunResult {
    match state.asks() {
        true => question_is_open(state, id),
        false => RunResult::new(exit::RESUMABLE, "nobody lifted the pause in time"),
    }
}

/// Returns the result for an open question. It can be answered before the next start or in it.
fn question_is_open(state: &State, id: &str) -> RunResult {
    let short = short_id(id);
    if let Some((open, asked)) = state.server_question() {
        let (asker, line) = (asked.question.asker(), asked.question.line());
        return RunResult::new(
            exit::RESUMABLE,
            format!("a question waits for an answer: {asker} asks: {line}"),
        )
        .with_hint(format!(
            "rewake approvals shows it; rewake answer {short} {} answers it",
            open.call.id
        ));
    }
    let asked = state.questions().next();
    let asked = asked.map_or(String::new(), |(open, asked)| {
        format!(": {}: {}", open.call.in_one_line(100), asked.why)
    });
    RunResult::new(
        exit::RESUMABLE,
        format!("a question waits for an answer{asked}"),
    )
    .with_hint(format!(
        "rewake allow {short} or rewake deny {short} answers it"
    ))
}

/// Returns the JSON that matches the schema of the session, as the model wrote it.
fn fitting(state: &State) -> Option<&str> {
    match &state.structured.as_ref()?.standing {
        AnswerStatus::Fits(json) => Some(json),
        AnswerStatus::Owed | AnswerStatus::Unchecked(_) | AnswerStatus::GivenUp(_) => None,
    }
}

fn unfit_result(state: &State) -> RunResult {
    let held = state.structured.as_ref();
    let (why, repairs) = match held.map(|held| (&held.standing, held.repairs)) {
        Some((AnswerStatus::GivenUp(unfit), repairs)) => (unfit.to_string(), repairs),
        _ => (String::new(), 0),
    };
    let told = match repairs {
        0 => String::new(),
        1 => ", and telling the model once did not help".to_string(),
        n => format!(", and telling the model {n} times did not help"),
    };
    let why = format!("the answer does not match its JSON Schema: {why}{told}");
    RunResult::new(exit::FAILED, why).with_hint("send another message (rewake -p -c \"…\"), also with another --json-schema, or remove the schema with /schema drop on the screen")
}

/// Returns the result after the last answer of the model.
fn ended(stop: Option<StopReason>) -> RunResult {
    match stop {
        None | Some(StopReason::EndTurn | StopReason::ToolUse) => RunResult::DONE,
        Some(StopReason::MaxTokens) => RunResult::new(
            exit::RESUMABLE,
            "the answer is not whole: it was cut by the output limit",
        ),
        Some(StopReason::Refusal) => RunResult::new(exit::FAILED, "the model refused to answer"),
        // A server may name no reason, or an unknown one. That alone does not make it a failure.
        Some(StopReason::Other) => RunResult::new(
            exit::DONE,
            "the answer may not be whole: the server gave no known reason for its end",
        ),
    }
}

/// Returns the exit code for a failure. A temporary failure is resumable, the others need a person
/// first.
fn code_of(class: FailureClass) -> u8 {
    match class {
        FailureClass::Configuration => exit::USAGE,
        class if is_transient(class) => exit::RESUMABLE,
        _ => exit::FAILED,
    }
}

/// Returns whether a call was denied by a rule or because no person was available.
fn is_denied(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Finished {
            outcome: Outcome::Denied { .. },
            ..
        }
    )
}
