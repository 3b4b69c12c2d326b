//! `rewake worker`: works on tasks of a shared database.
//!
//! Each task has its own process, `rewake worker --once`, which holds the lease of its session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::command::own_exe;
use crate::core::background::BackgroundMode;
use crate::core::entry::By;
use crate::headless::{self, Ask, Task};
use crate::report::{CliError, exit, note};
use crate::sandbox::child;
use crate::session::remote::blocking;
use crate::session::shared::{fleet_address, home, lease_file};
use crate::session::shared_task::{open_task, work_dir};
use crate::session::{AppContext, SessionError, short_id};
use crate::shared::SharedError;
use crate::shared::address::Address;
use crate::shared::connection::Connection;
use crate::shared::log::Home;
use crate::shared::queue::TakenTask;
use crate::shared::schema::meta;
use crate::store::{SessionLock, StoreError};

/// Exit code of a slot that found no work.
const IDLE: u8 = 120;
/// Time after which a slot whose process failed starts another one.
const AGAIN: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
/// Time for which the end of a task is told to a database that is away.
const TELLING: Duration = Duration::from_secs(60);

/// Work on tasks of the shared database
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct WorkerArgs {
    /// Number of tasks at the same time
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "once",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub slots: u16,
    /// Label of this worker (repeatable): tasks name those that they need
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
    /// Work on one task in this process, and exit as -p does
    #[arg(long)]
    pub once: bool,
    /// Exit with 0 after this time without work
    #[arg(long, value_name = "DURATION", value_parser = headless::time)]
    pub idle: Option<Duration>,
    /// Cost at which each task pauses (a task may have a lower limit)
    #[arg(long, value_name = "USD")]
    pub max_usd: Option<f64>,
    /// Exit with another code after that time
    #[arg(long, hide = true, requires = "once")]
    pub slot: bool,
}

pub(super) fn run(ctx: &AppContext, args: &WorkerArgs) -> Result<u8, CliError> {
    ctx.steering().check_not_below_agent()?;
    if args
        .max_usd
        .is_some_and(|usd| !usd.is_finite() || usd <= 0.0)
    {
        return Err(CliError::usage("--max-usd needs a number above 0"));
    }
    let address = fleet_address(ctx)?;
    if ctx.config().fleet.repos.is_empty() {
        return Err(
            CliError::usage("fleet.repos is empty, so no task can be cloned")
                .with_hint("set fleet.repos = [\"https://HOST/TEAM/*\"] in config.toml"),
        );
    }
    let meta = blocking(async { meta(&Connection::connect(&address).await?).await })
        .map_err(|error: SharedError| CliError::from(error))?;
    let store = ctx.open_store()?;
    let folder = work_dir(&store, meta.work_dir.as_deref())?;
    let home = home(&store)?;
    drop(store);
    match args.once {
        true => once(ctx, args, &address, &home, &folder),
        false => supervise(args),
    }
}

/// Waits for a task, and works on it.
fn once(
    ctx: &AppContext,
    args: &WorkerArgs,
    address: &Address,
    home: &Home,
    folder: &Path,
) -> Result<u8, CliError> {
    let stop = stop_flag()?;
    let waits = Instant::now();
    let mut skip: BTreeSet<String> = BTreeSet::new();
    let is_free = |id: &String| !SessionLock::is_held(&ctx.paths.data_dir, id);
    loop {
        let taken = blocking::<_, SharedError>(async {
            let connection = Connection::connect(address).await?;
            connection.listen().await?;
            loop {
                // Those that a process here left come first: their commands may have ended.
                let left = connection.left_tasks(home).await?;
                let left = left
                    .into_iter()
                    .find(|id| is_free(id) && !skip.contains(id));
                if let Some(session) = left {
                    return Ok(Some(TakenTask {
                        session,
                        moved: None,
                    }));
                }
                let skipped: Vec<Uuid> = skip.iter().filter_map(|id| id.parse().ok()).collect();
                let taken = connection.take(&args.label, home, &skipped).await?;
                let is_over = args.idle.is_some_and(|idle| waits.elapsed() >= idle);
                if taken.is_some() || is_over || stop.load(Ordering::Relaxed) {
                    return Ok(taken);
                }
                connection.wait_for_work().await;
            }
        })?;
        let Some(taken) = taken else {
            return Ok(if args.slot { IDLE } else { exit::DONE });
        };
        match work(ctx, args, address, home, folder, &taken) {
            // Another process of this data folder is still there.
            Err(Unworked::Held) => drop(skip.insert(taken.session)),
            Err(Unworked::Failed(error)) => return Err(error),
            Ok(code) => return Ok(code),
        }
    }
}

enum Unworked {
    Held,
    Failed(CliError),
}

fn work(
    ctx: &AppContext,
    args: &WorkerArgs,
    address: &Address,
    home: &Home,
    folder: &Path,
    taken: &TakenTask,
) -> Result<u8, Unworked> {
    let session = &taken.session;
    let read = blocking::<_, SharedError>(async {
        let connection = Connection::connect(address).await?;
        let of = connection.find(session).await?;
        Ok((connection.task(session).await?, of))
    });
    let (task, of) = read.map_err(|error| Unworked::Failed(error.into()))?;
    note(&format!("works on session {}", short_id(session)));
    let mut its = ctx.clone();
    let ask = match task.ask_ms.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => Ask::Wait(Some(Duration::from_millis(ms))),
        None => Ask::Deny,
    };
    its.given.max_usd = args.max_usd;
    its.given.shared = true;
    its.given.is_task = true;
    its.given.is_attended = ask.is_attended();
    let done = match open_task(&its, folder, &of, &task, taken) {
        Ok((its, opened)) => {
            let task = Task::pending_work(By::Start, BackgroundMode::Remind, ask);
            headless::run(&its, opened, task)
        }
        Err(SessionError::Store(StoreError::Held { .. })) => {
            return Err(Unworked::Held);
        }
        Err(error) => Err(error.into()),
    };
    let code = match &done {
        Ok(code) => *code,
        Err(error) => error.code,
    };
    let (state, told) = match code {
        exit::DONE => (Some("idle"), Some(code)),
        // The lease was lost, or somebody ended this process: another one continues.
        exit::RESUMABLE | 129.. => (None, Some(code)),
        code => (Some("failed"), Some(code)),
    };
    // What it left running ends before another machine may have the task.
    if let Ok(file) = lease_file(ctx, session) {
        let _ = std::fs::remove_file(file);
    }
    tell_end(address, session, home, state, told);
    done.map_err(Unworked::Failed)
}

/// Tells the database how a task ended.
fn tell_end(address: &Address, session: &str, home: &Home, state: Option<&str>, code: Option<u8>) {
    let since = Instant::now();
    loop {
        let told = blocking::<_, SharedError>(async {
            let connection = Connection::connect(address).await?;
            connection.end_task(session, home, state, code).await
        });
        match told {
            Err(SharedError::Away { .. }) if since.elapsed() < TELLING => {
                std::thread::sleep(AGAIN);
            }
            Ok(true) => return,
            // Another machine has it by now, or the lease ends by itself.
            told => {
                tracing::warn!(?told, session, "the end of the task was not recorded");
                return;
            }
        }
    }
}

fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| CliError::failed(error.to_string()))?;
    }
    Ok(stop)
}

/// A place for a process, which works on one task.
struct Slot {
    child: Option<Child>,
    starts_at: Instant,
    /// The last process found no work.
    is_idle: bool,
}

/// Keeps one process for each slot.
fn supervise(args: &WorkerArgs) -> Result<u8, CliError> {
    let failed = |error: std::io::Error| CliError::failed(error.to_string());
    let exe = own_exe().map_err(failed)?;
    let stop = stop_flag()?;
    let mut slots: Vec<Slot> = (0..args.slots)
        .map(|_| Slot {
            child: None,
            starts_at: Instant::now(),
            is_idle: false,
        })
        .collect();
    loop {
        let is_over = stop.load(Ordering::Relaxed) || slots.iter().all(|slot| slot.is_idle);
        for slot in &mut slots {
            let ended = match &mut slot.child {
                Some(child) => child.try_wait().map_err(failed)?,
                None => None,
            };
            if let Some(ended) = ended {
                let code = ended.code().and_then(|code| u8::try_from(code).ok());
                slot.child = None;
                slot.is_idle = code == Some(IDLE);
                let pause = match code {
                    Some(exit::DONE | IDLE) => Duration::ZERO,
                    _ => AGAIN,
                };
                slot.starts_at = Instant::now() + pause;
            }
            if slot.child.is_none() && !is_over && slot.starts_at <= Instant::now() {
                slot.child = Some(start(&exe, args).map_err(failed)?);
            }
        }
        let is_stopped = stop.load(Ordering::Relaxed);
        for child in slots.iter().filter_map(|slot| slot.child.as_ref()) {
            if is_stopped && let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                // It may have ended already.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        if is_over && slots.iter().all(|slot| slot.child.is_none()) {
            return Ok(exit::DONE);
        }
        std::thread::sleep(TICK);
    }
}

fn start(exe: &PathBuf, args: &WorkerArgs) -> std::io::Result<Child> {
    let mut command = child(exe);
    command.args(["worker", "--once", "--slot"]);
    if let Some(idle) = args.idle {
        command.arg("--idle").arg(format!("{}s", idle.as_secs()));
    }
    for label in &args.label {
        command.arg("--label").arg(label);
    }
    if let Some(usd) = args.max_usd {
        command.arg("--max-usd").arg(usd.to_string());
    }
    command.stdin(Stdio::null()).spawn()
}
