//! A trial of a server: start it, speak with it, stop it.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::command::own_exe;
use crate::command::server::{Attached, ServerEnv, ServerSpec, Servers, describe};
use crate::config::mcp::FoundServer;
use crate::config::mcp::names::tool_name;
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::text::one_line;
use crate::mcp::connection::{Connection, McpError};
use crate::mcp::elicit::{Declines, Elicit};
use crate::mcp::era::{Era, NegotiatedServer, ProtocolHint};
use crate::mcp::launch::{LaunchPlace, launch};
use crate::mcp::oauth::challenge::Challenge;
use crate::mcp::tools::{Listing, ServerTool};
use crate::mcp::{catalogue, clean};
use crate::session::{AppContext, sandbox};
use crate::store::now_ms;

/// Time that a server survives its killed trial.
pub(super) const LINGER_MS: u64 = 5_000;

/// Time for closing the input, asking the server to end, and killing it.
const CLEAR_WITHIN: Duration = Duration::from_secs(6);

/// Number of bytes at the end of stderr that are searched for the last line.
const PRINTED_MAX_BYTES: u64 = 4096;

/// Maximum length of a printed line.
const PRINTED_MAX_CHARS: usize = 200;

/// A server's description of itself.
pub(super) struct Tried {
    pub version: String,
    pub how: &'static str,
    pub name: String,
    /// Time from its start to its list of tools.
    pub took: Duration,
    pub tools: Vec<ServerTool>,
    pub notes: Vec<String>,
}

/// The stage in which a trial failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Prepare,
    Start,
    Connect,
    Use,
}

/// The error of a failed trial.
pub(super) struct Failed {
    pub stage: Stage,
    pub why: String,
    /// Last line of its stderr.
    pub printed: Option<String>,
    /// The challenge of a server that requires a login.
    pub login: Option<Box<Challenge>>,
}

impl Failed {
    fn at(stage: Stage) -> impl Fn(&dyn Display) -> Failed {
        move |why| Failed {
            stage,
            why: why.to_string(),
            printed: None,
            login: None,
        }
    }

    fn of(stage: Stage, error: McpError) -> Failed {
        let failed = Failed::at(stage)(&error);
        match error {
            McpError::Login { challenge, .. } => Failed {
                login: Some(Box::new(challenge)),
                ..failed
            },
            _ => failed,
        }
    }
}

/// A server to try: start it, speak with it, stop it.
pub(super) struct Trial<'a> {
    pub servers: &'a Servers,
    pub spec: &'a ServerSpec,
    pub env: &'a ServerEnv,
    pub root: &'a Path,
    /// Time limit of each answer.
    pub limit: Duration,
    pub protocol: ProtocolHint,
    pub elicit: Arc<dyn Elicit>,
}

impl Trial<'_> {
    /// Starts the server, speaks with it and stops it. Removes its run folder and its processes.
    pub(super) fn run<T>(
        &self,
        runtime: &Runtime,
        speak: impl AsyncFnOnce(&Connection) -> Result<T, McpError>,
    ) -> Result<T, Failed> {
        let prepared = self.servers.prepare(self.spec);
        let run = prepared.map_err(|e| Failed::at(Stage::Prepare)(&e))?;
        let done = runtime.block_on(self.connect(&run, speak));
        let done = done.map_err(|failed| Failed {
            printed: last_words(self.servers, &run),
            ..failed
        });
        clear(self.servers, &run);
        done
    }

    async fn connect<T>(
        &self,
        run: &str,
        speak: impl AsyncFnOnce(&Connection) -> Result<T, McpError>,
    ) -> Result<T, Failed> {
        let not_started = Failed::at(Stage::Start);
        let started = self.servers.start(run, self.env).await;
        let client = match started.map_err(|e| not_started(&e))? {
            Attached::Live(client) => client,
            Attached::Over(past) => {
                let why = format!("the server is over: {}", describe(past.how()));
                return Err(Failed::at(Stage::Connect)(&why));
            }
            Attached::Busy { pid } => {
                return Err(not_started(&format!("process {pid} uses the server")));
            }
        };
        let elicit = Arc::clone(&self.elicit);
        let connecting = Connection::begin(client, self.root, self.limit, elicit, self.protocol);
        let connection = connecting.await;
        let connection = connection.map_err(|e| Failed::of(Stage::Connect, e))?;
        let done = speak(&connection).await;
        connection.client().leave().await;
        connection.client().ended().await;
        done.map_err(|e| Failed::of(Stage::Use, e))
    }
}

/// Starts the server, lists its tools and stops it. Removes all traces.
pub(super) fn try_server(ctx: &AppContext, found: &FoundServer) -> Result<Tried, Failed> {
    let not_prepared = Failed::at(Stage::Prepare);
    let exe = own_exe().map_err(|e| not_prepared(&e))?;
    // The name of the sandbox's temporary folder.
    let session = format!("trial-{}", found.name);
    let confine = |access| ctx.confine_server(&session, access);
    let place = LaunchPlace {
        env: &ctx.env,
        keys_dir: &ctx.paths.keys_dir(),
        session: &session,
        workspace: &ctx.here.root,
        exe: &exe,
        confine: sandbox::given(ctx).available.then_some(&confine as _),
        lease_file: None,
    };
    let (mut spec, env) = launch(found, &place).map_err(|e| not_prepared(&e))?;
    spec.linger_ms = LINGER_MS;
    let trial = Trial {
        servers: &ctx.servers().map_err(|e| not_prepared(&e))?,
        spec: &spec,
        env: &env,
        root: &ctx.here.root,
        limit: Duration::from_secs_f64(found.server.startup_timeout_sec),
        protocol: ProtocolHint::of(found.server.protocol_version.as_deref(), None),
        elicit: Arc::new(Declines),
    };
    let runtime = crate::net::runtime().map_err(|e| not_prepared(&e))?;
    let since = Instant::now();
    let tried = trial.run(&runtime, async |connection| {
        let listing = catalogue::learn(connection, trial.limit).await?;
        let known = connection.known();
        store_learnt(ctx, found, known, &listing);
        Ok(Tried {
            version: clean(&known.version, 40),
            how: opening_call(known),
            name: one_line(&clean(&known.name, 200), 60),
            took: since.elapsed(),
            tools: listing.tools,
            notes: listing
                .notes
                .into_iter()
                .chain(noise(connection.noise()))
                .collect(),
        })
    });
    if spec.sandbox.is_some() {
        let _ = std::fs::remove_dir_all(ctx.paths.data_dir.join("tmp").join(&session));
    }
    tried.map_err(|failed| match failed.stage {
        Stage::Use => Failed {
            why: format!("{}: {}", one_line(&spec.command_line(), 100), failed.why),
            ..failed
        },
        Stage::Prepare | Stage::Start | Stage::Connect => failed,
    })
}

/// Returns the method with which the connection to a server was opened.
pub(super) fn opening_call(known: &NegotiatedServer) -> &'static str {
    match known.era {
        Era::Handshake => "initialize",
        Era::Stateless => "server/discover",
    }
}

/// Stores the tools for the next session. An error does not fail the trial.
fn store_learnt(
    ctx: &AppContext,
    found: &FoundServer,
    known: &NegotiatedServer,
    listing: &Listing,
) {
    let kept = ctx.open_store().and_then(|mut store| {
        catalogue::keep(
            &mut store,
            &found.name,
            &found.hash,
            known,
            listing,
            now_ms(),
        )
    });
    if let Err(error) = kept {
        tracing::warn!(server = found.name, %error, "the tools of a server are not kept");
    }
}

/// Returns a note about lines on stdout that are not messages.
pub(super) fn noise(lines: usize) -> Option<String> {
    match lines {
        0 => None,
        1 => Some("the server printed 1 line on stdout that is no message".to_string()),
        lines => Some(format!(
            "the server printed {lines} lines on stdout that are no messages"
        )),
    }
}

/// Stops remaining processes, and removes the run folder, which no other process would do.
fn clear(servers: &Servers, run: &str) {
    let _ = servers.stop(run);
    let since = Instant::now();
    while !matches!(servers.remove(run), Ok(true)) && since.elapsed() < CLEAR_WITHIN {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the last line of stderr, which often explains an error.
fn last_words(servers: &Servers, run: &str) -> Option<String> {
    let printed = servers.printed(run, PRINTED_MAX_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&printed);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(one_line(&clean(last, PRINTED_MAX_CHARS), PRINTED_MAX_CHARS))
}

/// Returns the tool's name for the model, and the approximate number of tokens of its full
/// description.
pub(super) fn cost(server: &str, tool: &ServerTool) -> (String, u64) {
    let name = tool_name(server, &tool.name);
    let bytes = name.len() + tool.description.len() + tool.schema.to_string().len();
    (name, (bytes as f64 / BYTES_PER_TOKEN).ceil() as u64)
}
