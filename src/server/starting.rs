//! Sessions that are begun from here: a process of their own, as a person would start it. It is
//! not this server's: it goes on when this ends.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{Named, json};
use super::problem::Problem;
use super::steering::may_choose;
use super::{Scope, Shared, body};
use crate::command::own_exe;
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::report::Trouble;
use crate::session::{AppContext, MAX_MESSAGE_BYTES, Parting, SessionError, now_ms};

/// So many processes that were started from here work at once.
const MAX_STARTED: usize = 16;

/// So long a new session may take until its prompt is on the disk. A connection on which nothing
/// is written is closed soon behind this.
const PATIENCE: Duration = Duration::from_secs(45);

/// Of what a start that failed printed.
const MAX_PRINTED_BYTES: u64 = 16 * 1024;

pub(super) struct Starter {
    exe: PathBuf,
    folder: PathBuf,
    places: Arc<Semaphore>,
}

/// What a new session is begun with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    prompt: String,
    /// Absolute. The one that the server was started in when it is missing.
    folder: Option<PathBuf>,
    model: Option<String>,
    mode: Option<Mode>,
    effort: Option<Effort>,
}

impl Starter {
    pub(super) fn new(ctx: &AppContext) -> Result<Starter, Trouble> {
        Ok(Starter {
            exe: own_exe().map_err(|e| Trouble::from(SessionError::OwnExe(e)))?,
            folder: ctx.here.folder.clone(),
            places: Arc::new(Semaphore::new(MAX_STARTED)),
        })
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("{MAX_STARTED} sessions that were started from here work already"),
            )
            .hint("wait until one has ended, or stop one")
        })
    }

    /// Not in this process's group: what ends it there does not end the session.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.exe);
        command
            .args(["-p", "--ask", "wait"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }

    /// Goes on with a session in which nobody works. Whoever is quicker has it.
    pub(super) fn go_on(&self, session: &str) -> Result<(), Problem> {
        let place = self.place()?;
        let mut command = self.command();
        let child = command.args(["-r", session]).spawn();
        wait_for(child.map_err(|e| cannot_start(&e))?, place);
        Ok(())
    }

    async fn begin(&self, begin: Begin) -> Result<String, Problem> {
        let place = self.place()?;
        let mut command = self.command();
        command.args(["--output-format", "stream-json"]);
        if let Some(model) = &begin.model {
            command.arg(format!("--model={model}"));
        }
        if let Some(mode) = begin.mode {
            command.args(["--permission-mode", mode.name()]);
        }
        if let Some(effort) = begin.effort {
            command.args(["--effort", effort.name()]);
        }
        let folder = begin.folder.as_ref().unwrap_or(&self.folder);
        let child = command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| cannot_start(&e))?;
        let opened = tokio::time::timeout(PATIENCE, opened(&mut child, &begin.prompt)).await;
        let opened = opened.unwrap_or_else(|_| {
            Err(Problem::busy("the session did not begin in time")
                .hint("GET /agent/history says whether it is there"))
        });
        wait_for(child, place);
        opened
    }
}

/// Its end is nobody's business here, but the system's table has to forget it.
fn wait_for(mut child: Child, place: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        let _ = child.wait().await;
        drop(place);
    });
}

fn cannot_start(error: &std::io::Error) -> Problem {
    Problem::busy(format!("cannot start a session: {error}")).hint("try again in a moment")
}

/// Gives it its prompt. It names the session on its first line, when the prompt is on the disk.
async fn opened(child: &mut Child, prompt: &str) -> Result<String, Problem> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Problem::busy("cannot start a session").hint("try again in a moment"));
    };
    let says = async move {
        // One that ends before it has read says why.
        let _ = stdin.write_all(prompt.as_bytes()).await;
        drop(stdin);
    };
    let mut first = BufReader::new(stdout).take(MAX_PRINTED_BYTES);
    let mut printed = String::new();
    let mut errors = stderr.take(MAX_PRINTED_BYTES);
    let named = async {
        let mut line = String::new();
        let (_, read) = tokio::join!(says, first.read_line(&mut line));
        read.map(|_| line)
    };
    tokio::pin!(named);
    // What it prints meanwhile is read too, or it would wait for us.
    let read = tokio::select! {
        read = &mut named => read,
        _ = errors.read_to_string(&mut printed) => named.await,
    };
    let session = read.ok().and_then(|line| {
        let opened: Value = serde_json::from_str(&line).ok()?;
        Some(opened.get("session")?.as_str()?.to_string())
    });
    match session {
        Some(session) => Ok(session),
        None => {
            let _ = errors.read_to_string(&mut printed).await;
            Err(not_begun(&printed))
        }
    }
}

/// What it said on stderr: `error: …`, and perhaps `hint: …`.
fn not_begun(printed: &str) -> Problem {
    let of = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name));
    let error = of("error: ").unwrap_or("the session did not begin");
    let problem = Problem::bad(format!("the session was not begun: {error}"));
    match of("hint: ") {
        Some(hint) => problem.hint(hint),
        None => problem.hint("rewake doctor looks at config, keys and store"),
    }
}

pub(super) async fn start(
    State(app): State<Shared>,
    Extension(scope): Extension<Scope>,
    request: Request,
) -> Result<Response, Problem> {
    let mut begin: Begin = body::json(request).await?;
    may_choose(begin.mode, scope)?;
    begin.prompt = begin.prompt.replace('\0', "\u{2400}");
    if begin.prompt.trim().is_empty() {
        return Err(Problem::bad("there is nothing to do: the prompt is empty")
            .hint("prompt says what to do"));
    }
    if begin.prompt.len() > MAX_MESSAGE_BYTES {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the prompt has more than {MAX_MESSAGE_BYTES} bytes"),
        )
        .hint("put it into a file, and name the file in the prompt"));
    }
    let is_clean = |text: &str| !text.contains('\0');
    if !begin.model.as_deref().is_none_or(is_clean) {
        return Err(Problem::bad("the model has a NUL in its name").hint("provider/model"));
    }
    if let Some(folder) = &begin.folder
        && !(folder.is_absolute() && folder.is_dir())
    {
        return Err(
            Problem::bad(format!("{} is no folder", folder.display())).hint("give a whole path")
        );
    }
    let session = app.starter.begin(begin).await?;
    json(StatusCode::CREATED, &json!({"session": session}))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// The last entry that both have. The end of the session when it is missing.
    at: Option<u64>,
}

pub(super) async fn fork(
    State(app): State<Shared>,
    Named(id): Named<String>,
    request: Request,
) -> Result<Response, Problem> {
    let Fork { at } = body::json_if_any(request).await?;
    let made = app
        .stores
        .write(move |ctx, store| {
            let origin = store.find(&id)?.id;
            let parting = at.map_or(Parting::End, Parting::Behind);
            let (fork, _lock, warning) = ctx.fork(store, &origin, parting, now_ms())?;
            Ok(json!({"session": fork, "forked_from": origin, "warning": warning}))
        })
        .await?;
    json(StatusCode::CREATED, &made)
}
