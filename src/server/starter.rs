//! Processes that work on sessions, started like a person would start them. They outlive this
//! server.
//!
//! Invariant: a place is reserved before a process is started, and is free again when it ended.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::TokenScope;
use super::problem::Problem;
use super::stores::Stores;
use crate::command::own_exe;
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::core::settings::Pricing;
use crate::model::Figures;
use crate::report::CliError;
use crate::sandbox::child;
use crate::session::{AppContext, SessionError, only_waits_for_person};

/// Maximum number of working processes that were started here. Those that wait for a person do not
/// count.
const MAX_AT_WORK: usize = 16;

/// Maximum number of living processes, including those that wait.
const MAX_LIVING: usize = 64;

/// Time limit for a new session to store its prompt. A connection without output is closed soon
/// after this.
const PATIENCE: Duration = Duration::from_secs(45);

/// Time limit for a process to open its session. After it, the process counts as starting.
const PATIENCE_TO_OPEN: Duration = Duration::from_secs(15);

/// Maximum size of the shown output of a failed start.
const MAX_PRINTED_BYTES: u64 = 16 * 1024;

/// Maximum size of the output of a subcommand.
const MAX_RESULT_BYTES: u64 = 8 * 1024 * 1024;

pub(super) struct Starter {
    exe: PathBuf,
    /// The folder in which the server was started.
    pub(super) folder: PathBuf,
    living: Arc<Living>,
}

/// The request for a new session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    pub(super) prompt: String,
    /// Absolute path. The default is the folder in which the server was started.
    pub(super) folder: Option<PathBuf>,
    pub(super) model: Option<String>,
    pub(super) mode: Option<Mode>,
    pub(super) effort: Option<Effort>,
    /// Number of answers after which it pauses.
    pub(super) turns: Option<u32>,
    /// Cost in US dollars at which it pauses.
    pub(super) usd: Option<f64>,
}

/// The result of a process that ended.
pub(super) struct ProcessResult {
    /// `None`: a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The living processes that were started here.
#[derive(Default)]
struct Living(Mutex<Processes>);

#[derive(Default)]
struct Processes {
    started: u64,
    /// Session of each process, as soon as it is known.
    sessions: HashMap<u64, Option<String>>,
}

/// The slot of one process. Dropping it frees the slot.
struct StartedProcess {
    living: Arc<Living>,
    number: u64,
}

impl Living {
    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot if one is free. `waiting` is the number of processes that only wait for a
    /// person.
    fn take(self: &Arc<Living>, waiting: usize) -> Option<StartedProcess> {
        let mut processes = self.processes();
        let living = processes.sessions.len();
        if living.saturating_sub(waiting) >= MAX_AT_WORK || living >= MAX_LIVING {
            return None;
        }
        processes.started += 1;
        let number = processes.started;
        processes.sessions.insert(number, None);
        Some(StartedProcess {
            living: Arc::clone(self),
            number,
        })
    }
}

impl StartedProcess {
    fn is_of(&self, session: &str) {
        let mut processes = self.living.processes();
        let session = Some(session.to_string());
        processes.sessions.insert(self.number, session);
    }
}

impl Drop for StartedProcess {
    fn drop(&mut self) {
        self.living.processes().sessions.remove(&self.number);
    }
}

impl Starter {
    pub(super) fn new(ctx: &AppContext) -> Result<Starter, CliError> {
        Ok(Starter {
            exe: own_exe().map_err(|e| CliError::from(SessionError::OwnExe(e)))?,
            folder: ctx.here.folder.clone(),
            living: Arc::default(),
        })
    }

    /// Reserves a slot for a process. Waiting processes are counted only when all slots are taken,
    /// because that reads each of their sessions.
    async fn place(&self, stores: &Arc<Stores>) -> Result<StartedProcess, Problem> {
        if let Some(place) = self.living.take(0) {
            return Ok(place);
        }
        let sessions: Vec<String> = {
            let processes = self.living.processes();
            processes.sessions.values().flatten().cloned().collect()
        };
        let waiting = stores
            .read(move |ctx, store| {
                let figures = Figures::new(ctx.config());
                let price: Pricing = Arc::new(move |model, usage| figures.cost(model, usage));
                let waits =
                    |id: &&String| only_waits_for_person(store, id, &price).unwrap_or(false);
                Ok(sessions.iter().filter(waits).count())
            })
            .await?;
        self.living.take(waiting).ok_or_else(|| {
            Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "{MAX_AT_WORK} sessions that were started from here work already, or \
                     {MAX_LIVING} live"
                ),
            )
            .hint("wait until one has ended, or stop one; then POST /sessions/{id}/go with start")
        })
    }

    /// The process gets a separate process group, so that a signal to the server does not end the
    /// session.
    fn program(&self) -> Command {
        let mut program = Command::from(child(&self.exe));
        program
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        program
    }

    /// Its session is in no mode that the scope may not choose.
    fn command(&self, scope: TokenScope) -> Command {
        let mut command = self.program();
        if scope < TokenScope::Admin {
            command.arg("--no-bypass");
        }
        command
            .args(["-p", "--on-approval", "wait"])
            .args(["--output-format", "stream-json"]);
        command
    }

    /// Starts a process that continues a session without one. Another process may be faster.
    /// Returns when the process has opened the session.
    ///
    /// # Errors
    /// All slots are taken, or the process ended before it opened the session. The error contains
    /// its output.
    pub(super) async fn continue_session(
        &self,
        stores: &Arc<Stores>,
        session: &str,
        scope: TokenScope,
    ) -> Result<(), Problem> {
        let place = self.place(stores).await?;
        place.is_of(session);
        let mut command = self.command(scope);
        let child = command.args(["-r", session]).spawn();
        let mut child = child.map_err(|e| cannot_start(&e))?;
        let opened = tokio::time::timeout(PATIENCE_TO_OPEN, opened(&mut child, "")).await;
        wait_for(child, place);
        match opened {
            // The process is slow but alive.
            Err(_) => Ok(()),
            Ok(opened) => opened.map(drop),
        }
    }

    /// Runs a subcommand about a session, which survives the end of this server. Returns its result.
    /// `None`: it did not end in time, and continues.
    ///
    /// # Errors
    /// All slots are taken, or the process cannot be started.
    pub(super) async fn run(
        &self,
        stores: &Arc<Stores>,
        session: &str,
        args: &[&str],
    ) -> Result<Option<ProcessResult>, Problem> {
        let place = self.place(stores).await?;
        place.is_of(session);
        let mut command = self.program();
        let child = command.args(args).spawn().map_err(|e| cannot_start(&e))?;
        let ends = tokio::spawn(async move {
            let result = result_of(child).await;
            drop(place);
            result
        });
        match tokio::time::timeout(PATIENCE, ends).await {
            Ok(Ok(Ok(result))) => Ok(Some(result)),
            Ok(Ok(Err(error))) => Err(Problem::inside(&error)),
            Ok(Err(error)) => Err(Problem::inside(&error)),
            Err(_) => Ok(None),
        }
    }

    /// Starts a new session. Returns its ID when its prompt is on the disk.
    ///
    /// # Errors
    /// Same as [`Starter::continue_session`].
    pub(super) async fn begin(
        &self,
        stores: &Arc<Stores>,
        begin: Begin,
        scope: TokenScope,
    ) -> Result<String, Problem> {
        let place = self.place(stores).await?;
        let mut command = self.command(scope);
        if let Some(model) = &begin.model {
            command.arg(format!("--model={model}"));
        }
        if let Some(mode) = begin.mode {
            command.args(["--permission-mode", mode.name()]);
        }
        if let Some(effort) = begin.effort {
            command.args(["--effort", effort.name()]);
        }
        if let Some(turns) = begin.turns {
            command.args(["--max-turns", &turns.to_string()]);
        }
        if let Some(usd) = begin.usd {
            command.arg(format!("--max-usd={usd}"));
        }
        let folder = begin.folder.as_ref().unwrap_or(&self.folder);
        let child = command.current_dir(folder).stdin(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| cannot_start(&e))?;
        let opened = tokio::time::timeout(PATIENCE, opened(&mut child, &begin.prompt)).await;
        let opened = opened.unwrap_or_else(|_| {
            // The session may still start, so this is not a refusal, after which the request could
            // be repeated.
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the session did not begin in time",
            )
            .hint("GET /agent/history says whether it is there"))
        });
        if let Ok(session) = &opened {
            place.is_of(session);
        }
        wait_for(child, place);
        opened
    }
}

/// Reads the output of a process, and waits for its end.
async fn result_of(mut child: Child) -> std::io::Result<ProcessResult> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::join!(
        printed(stdout, MAX_RESULT_BYTES),
        printed(stderr, MAX_PRINTED_BYTES)
    );
    Ok(ProcessResult {
        code: child.wait().await?.code(),
        stdout,
        stderr,
    })
}

async fn printed(from: Option<impl AsyncRead + Unpin>, max_bytes: u64) -> String {
    let mut printed = Vec::new();
    if let Some(from) = from {
        let _ = from.take(max_bytes).read_to_end(&mut printed).await;
    }
    String::from_utf8_lossy(&printed).into_owned()
}

/// Waits for the end of the process, so that it does not remain a zombie.
fn wait_for(mut child: Child, place: StartedProcess) {
    tokio::spawn(async move {
        let _ = child.wait().await;
        drop(place);
    });
}

fn cannot_start(error: &std::io::Error) -> Problem {
    Problem::busy(format!("cannot start a session: {error}")).hint("try again in a moment")
}

/// Sends the prompt. The process prints the session's ID as its first line when the prompt is on
/// the disk.
async fn opened(child: &mut Child, prompt: &str) -> Result<String, Problem> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        return Err(Problem::busy("cannot start a session").hint("try again in a moment"));
    };
    let says = async move {
        // A process that ends without reading explains why on stderr.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(prompt.as_bytes()).await;
        }
    };
    let mut first = BufReader::new(stdout).take(MAX_PRINTED_BYTES);
    let named = async {
        let mut line = String::new();
        let (_, read) = tokio::join!(says, first.read_line(&mut line));
        read.map(|_| line)
    };
    let errors = async {
        let mut printed = String::new();
        let _ = stderr
            .take(MAX_PRINTED_BYTES)
            .read_to_string(&mut printed)
            .await;
        printed
    };
    tokio::pin!(named);
    tokio::pin!(errors);
    let mut printed = None;
    // The output is read in the meantime. Otherwise the process would block.
    let read = tokio::select! {
        read = &mut named => read,
        all = &mut errors => {
            printed = Some(all);
            named.await
        }
    };
    let session = read.ok().and_then(|line| {
        let opened: Value = serde_json::from_str(&line).ok()?;
        Some(opened.get("session")?.as_str()?.to_string())
    });
    match (session, printed) {
        (Some(session), _) => Ok(session),
        (None, Some(printed)) => Err(parse_start_error(&printed)),
        (None, None) => Err(parse_start_error(&errors.await)),
    }
}

/// Parses stderr: `error: …`, and perhaps `hint: …`.
fn parse_start_error(printed: &str) -> Problem {
    let of = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name));
    let problem = match of("error: ") {
        Some(error) => Problem::bad(format!("the session did not start: {error}")),
        // The process may have been killed after its prompt was recorded, so this is not a
        // refusal.
        None => Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the process of the session ended, and printed no reason",
        ),
    };
    match of("hint: ") {
        Some(hint) => problem.hint(hint),
        None => problem.hint("rewake doctor looks at config, keys and store"),
    }
}
