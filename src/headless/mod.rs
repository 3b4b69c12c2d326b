//! The engine without a screen: `rewake -p`.
//!
//! stdout is data, stderr is what a person watching wants to know. Nothing here waits for a
//! person. A reader that goes away stops the printing, never the work.

mod print;
mod signals;

use tokio::sync::mpsc::unbounded_channel;

use crate::core::entry::{By, Entry, Failure, FailureClass, Outcome, SaveReason, StopReason, Via};
use crate::core::next::Why;
use crate::core::state::{Halt, State};
use crate::engine::{Engine, EngineError, Rest};
use crate::session::{Session, short_id};
use crate::store::{Message, StoreError};

use print::Printer;
pub use print::{Format, entry_line, note, note_background, trouble};

/// Process exit codes, as the manual names them.
pub mod exit {
    pub const DONE: u8 = 0;
    pub const FAILED: u8 = 1;
    pub const USAGE: u8 = 2;
    /// Stopped, but it can be gone on with.
    pub const RESUMABLE: u8 = 75;
    pub const SIGHUP: u8 = 129;
    pub const SIGINT: u8 = 130;
    pub const SIGTERM: u8 = 143;
}

/// What is asked of a headless run.
pub struct Task {
    pub prompt: Option<String>,
    pub format: Format,
    /// The user named this session: a crash loop is lifted.
    pub by: By,
}

/// Works until the model ends its turn, and gives the exit code.
pub fn run(session: Session, task: Task) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            print::trouble(&format!("cannot start the runtime: {error}"), None);
            return exit::FAILED;
        }
    };
    let code = runtime.block_on(work(session, task));
    // A search that was cut short may still sit on a thread; it ends with the process.
    runtime.shutdown_background();
    code
}

async fn work(mut session: Session, task: Task) -> u8 {
    let printer = Printer::new(task.format, &session);
    let found = session.found.take();
    let id = session.id.clone();
    let (commands, inbox) = unbounded_channel();
    let event_printer = std::rc::Rc::clone(&printer);
    let mut engine = Engine::new(
        session.log,
        session.world,
        session.settings,
        inbox,
        Box::new(move |state, event| event_printer.borrow_mut().event(state, &event)),
    );
    // First of all: who is told of the session may count on its having the words.
    let said = task.prompt.as_ref().map(|prompt| {
        let message = Message {
            text: prompt.clone(),
            images: Vec::new(),
            via: Via::Prompt,
        };
        engine.say(&message)
    });
    printer.borrow().opened(engine.state(), found.is_some());
    if let Some(Err(error)) = said {
        return refused(engine.state(), &printer, &id, &error);
    }
    for warning in &session.warnings {
        print::note(warning);
    }
    if let Some(found) = &found {
        print::note(&found.line());
        if task.prompt.is_none() && !found.owed {
            print::note("nothing is owed; give a prompt to go on: rewake -p -c \"…\"");
            printer
                .borrow_mut()
                .result(engine.state(), &RunResult::of(exit::DONE, None));
            return exit::DONE;
        }
    }
    let _lock = session.lock;
    let life = async {
        if let Some(found) = found {
            let by = if task.prompt.is_some() {
                By::Person
            } else {
                task.by
            };
            engine.record_resumed(by, found.line()).await?;
        }
        engine.run().await
    };
    let rest = tokio::select! {
        biased;
        never = signals::forward(commands) => match never {},
        rest = life => rest,
    };
    let result = match rest {
        Ok(rest) => run_result(&engine, rest, printer.borrow().stop()),
        Err(error) => return refused(engine.state(), &printer, &id, &error),
    };
    finish(&mut engine, &printer, result, &id).await
}

/// How a run ended: the exit code, and why.
struct RunResult {
    code: u8,
    why: Option<String>,
    hint: Option<String>,
    is_error: bool,
}

impl RunResult {
    fn of(code: u8, why: Option<&str>) -> RunResult {
        RunResult {
            code,
            why: why.map(str::to_string),
            hint: None,
            is_error: code == exit::FAILED,
        }
    }

    fn failed(failure: &Failure) -> RunResult {
        RunResult {
            hint: failure.hint.clone(),
            is_error: true,
            ..RunResult::of(code_of(failure.class), Some(&failure.message))
        }
    }
}

fn run_result<W: crate::world::World>(
    engine: &Engine<W>,
    rest: Rest,
    stop: Option<StopReason>,
) -> RunResult {
    match rest {
        Rest::Waiting(Why::Idle) => ended(stop),
        Rest::Waiting(Why::Turns) => RunResult::of(
            exit::RESUMABLE,
            Some("stopped: the number of turns is used up; --max-turns gives more"),
        ),
        Rest::Waiting(Why::CrashLoop) => RunResult::of(
            exit::RESUMABLE,
            Some(
                "crash loop: the last starts all ended without getting anywhere, so what they ran into is not \
                 tried again by itself",
            ),
        ),
        Rest::Waiting(Why::Nonsense) => RunResult::of(
            exit::FAILED,
            Some(
                "the model's last answers cannot be used: no words, or only calls that make no sense",
            ),
        ),
        Rest::Waiting(Why::Halted) => match &engine.state().halted {
            Some(Halt::Failed(failure)) => RunResult::failed(failure),
            Some(Halt::Stopped) | None => RunResult::of(exit::SIGINT, Some("stopped")),
        },
        Rest::Left(reason) => {
            tracing::info!(?reason, "left");
            let code = signals::last().map_or(exit::SIGTERM, signals::exit_code);
            RunResult::of(code, Some("left; what runs goes on"))
        }
    }
}

/// The exit code when the model has nothing more to say.
fn ended(stop: Option<StopReason>) -> RunResult {
    match stop {
        None | Some(StopReason::EndTurn | StopReason::ToolUse) => RunResult::of(exit::DONE, None),
        Some(StopReason::MaxTokens) => RunResult::of(
            exit::RESUMABLE,
            Some("the answer is not whole: it was cut by the output limit"),
        ),
        Some(StopReason::Refusal) => {
            RunResult::of(exit::FAILED, Some("the model refused to answer"))
        }
        // A server may name no reason, or one of its own: that alone is no failure.
        Some(StopReason::Other) => RunResult::of(
            exit::DONE,
            Some("the answer may not be whole: the server gave no known reason for its end"),
        ),
    }
}

/// What may pass by itself can be gone on with; the rest needs a person first.
fn code_of(class: FailureClass) -> u8 {
    match class {
        FailureClass::RateLimit | FailureClass::Overloaded | FailureClass::Network => {
            exit::RESUMABLE
        }
        FailureClass::TooLong
        | FailureClass::Auth
        | FailureClass::BadRequest
        | FailureClass::Protocol
        | FailureClass::Nonsense => exit::FAILED,
    }
}

async fn finish<W: crate::world::World>(
    engine: &mut Engine<W>,
    printer: &print::Shared,
    result: RunResult,
    id: &str,
) -> u8 {
    // Told apart from a kill by the next start.
    if engine.state().unfinished()
        && !matches!(engine.state().halted, Some(Halt::Failed(_)))
        && let Err(error) = engine.save(SaveReason::Exit).await
    {
        tracing::warn!(%error, "the leaving was not recorded");
    }
    let mut printer = printer.borrow_mut();
    let code = result.code;
    printer.result(engine.state(), &result);
    match &result.why {
        Some(why) if result.is_error => print::trouble(why, result.hint.as_deref()),
        Some(why) => print::note(why),
        None => {}
    }
    let background = engine.state().background.len();
    print::note_background(background);
    if code != exit::DONE {
        let short = short_id(id);
        let how = match code {
            // Nothing is owed, so there must be something to say.
            exit::RESUMABLE | exit::FAILED if !engine.state().unfinished() => {
                format!("rewake -p \"go on\" -r {short}")
            }
            exit::RESUMABLE | exit::FAILED => format!("rewake -p -r {short}"),
            _ => format!("rewake -p -c, or rewake -p -r {short}"),
        };
        print::note(&format!("to go on: {how}"));
    }
    code
}

/// The log cannot be written, so nothing more is done.
fn refused(state: &State, printer: &print::Shared, id: &str, error: &EngineError) -> u8 {
    tracing::error!(%error, "stopped");
    let hint = match error {
        EngineError::Store(e) => e.hint(),
        EngineError::Illegal(_) => {
            Some("this is a fault of rewake; rewake doctor looks at the store".into())
        }
    };
    let code = match error {
        EngineError::Store(
            StoreError::Full { .. }
            | StoreError::DiskError { .. }
            | StoreError::Busy { .. }
            | StoreError::HeadMoved { .. },
        ) => exit::RESUMABLE,
        EngineError::Store(_) | EngineError::Illegal(_) => exit::FAILED,
    };
    let why = error.to_string();
    let result = RunResult {
        hint,
        is_error: true,
        ..RunResult::of(code, Some(&why))
    };
    printer.borrow_mut().result(state, &result);
    print::trouble(&why, result.hint.as_deref());
    print::note(&format!("to go on: rewake -p -r {}", short_id(id)));
    code
}

/// Whether a call was denied for want of a person or by a rule.
fn is_denied(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Finished {
            outcome: Outcome::Denied { .. },
            ..
        }
    )
}
