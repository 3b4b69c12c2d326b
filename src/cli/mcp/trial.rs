//! A trial of a server: start it, ask it, stop it.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::command::own_exe;
use crate::command::server::{Attached, Client, ServerEnv, ServerSpec, Servers, describe};
use crate::config::mcp::FoundServer;
use crate::config::mcp::names::tool_name;
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::text::one_line;
use crate::mcp::connection::{Connection, McpError};
use crate::mcp::elicit::{Declines, Elicit};
use crate::mcp::era::{Era, NegotiatedServer, ProtocolHint};
use crate::mcp::launch::{LaunchPlace, launch};
use crate::mcp::oauth::challenge::Challenge;
use crate::mcp::result::CallResult;
use crate::mcp::tools::{Listing, ServerTool};
use crate::mcp::{catalogue, last_line};
use crate::session::{AppContext, sandbox};
use crate::store::now_ms;

/// Time that a server survives its killed trial.
pub(super) const LINGER_MS: u64 = 5_000;

/// Time for closing the input, asking the server to end, and killing it.
const CLEAR_WITHIN: Duration = Duration::from_secs(6);

/// Maximum length of the last line of stderr.
const LINE_MAX: usize = 200;

/// The ID of the call of a tool.
const CALL: &str = "probe_call";

/// The report about a server that answered.
pub(super) struct Tried {
    pub known: NegotiatedServer,
    /// Time from its start to its answer.
    pub took: Duration,
    /// Its tools, if it was asked for them.
    pub listing: Listing,
    /// The result of the call, if a tool was called.
    pub result: Option<CallResult>,
    /// Number of lines on stdout that are not messages.
    noise: usize,
}

impl Tried {
    /// Returns the problems of its answers, for the user.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let noise = match self.noise {
            0 => None,
            1 => Some("the server printed 1 line on stdout that is no message".to_string()),
            lines => Some(format!(
                "the server printed {lines} lines on stdout that are no messages"
            )),
        };
        self.listing.notes.iter().cloned().chain(noise)
    }

    /// Returns `NAME, protocol VERSION (METHOD)`.
    pub(super) fn summary(&self) -> String {
        let name = one_line(&self.known.name, 60);
        format!("{name}, protocol {}", protocol(&self.known))
    }
}

/// Returns the protocol's version, and the method with which the connection was opened.
pub(super) fn protocol(known: &NegotiatedServer) -> String {
    let method = match known.era {
        Era::Handshake => "initialize",
        Era::Stateless => "server/discover",
    };
    format!("{} ({method})", known.version)
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
    /// The server, if it failed in [`Stage::Use`].
    pub known: Option<Box<NegotiatedServer>>,
    /// Last line of its stderr.
    pub printed: Option<String>,
    /// The challenge of a server that requires a login.
    pub login: Option<Box<Challenge>>,
}

impl Failed {
    fn at(stage: Stage, why: impl Display) -> Failed {
        Failed {
            stage,
            why: why.to_string(),
            known: None,
            printed: None,
            login: None,
        }
    }

    fn of(stage: Stage, error: McpError) -> Failed {
        let mut failed = Failed::at(stage, &error);
        if let McpError::Login { challenge, .. } = error {
            failed.login = Some(Box::new(challenge));
        }
        failed
    }
}

/// A server to try, and the request to it.
pub(super) struct Trial<'a> {
    pub servers: Servers,
    pub spec: ServerSpec,
    pub env: ServerEnv,
    pub root: &'a Path,
    /// Time limit of each answer.
    pub limit: Duration,
    pub protocol: ProtocolHint,
    pub elicit: Arc<dyn Elicit>,
    /// The tool to call, and its arguments. `None`: the tools are listed.
    pub call: Option<(&'a str, &'a Value)>,
}

impl<'a> Trial<'a> {
    /// Returns the trial of a configured server, which lists its tools.
    fn of(ctx: &'a AppContext, found: &FoundServer, session: &str) -> Result<Self, Failed> {
        let not_prepared = |why: &dyn Display| Failed::at(Stage::Prepare, why);
        let exe = own_exe().map_err(|e| not_prepared(&e))?;
        let confine = |access| ctx.confine_server(session, access);
        let place = LaunchPlace {
            env: &ctx.env,
            keys_dir: &ctx.paths.keys_dir(),
            session,
            workspace: &ctx.here.root,
            exe: &exe,
            confine: sandbox::given(ctx).available.then_some(&confine as _),
            lease_file: None,
        };
        let (spec, env) = launch(found, &place).map_err(|e| not_prepared(&e))?;
        Ok(Trial {
            servers: ctx.servers().map_err(|e| not_prepared(&e))?,
            spec: ServerSpec {
                linger_ms: LINGER_MS,
                ..spec
            },
            env,
            root: &ctx.here.root,
            limit: Duration::from_secs_f64(found.server.startup_timeout_sec),
            protocol: ProtocolHint::of(found.server.protocol_version.as_deref(), None),
            elicit: Arc::new(Declines),
            call: None,
        })
    }

    /// Starts the server, asks it and stops it. Removes its run folder and its processes.
    pub(super) fn run(&self, runtime: &Runtime) -> Result<Tried, Failed> {
        let prepared = self.servers.prepare(&self.spec);
        let run = prepared.map_err(|e| Failed::at(Stage::Prepare, e))?;
        let tried = runtime.block_on(self.start_and_ask(&run));
        let tried = tried.map_err(|failed| Failed {
            printed: last_line(&self.servers, &run, LINE_MAX, LINE_MAX),
            ..failed
        });
        clear(&self.servers, &run);
        tried
    }

    async fn start_and_ask(&self, run: &str) -> Result<Tried, Failed> {
        let since = Instant::now();
        let client = self.start(run).await?;
        let elicit = Arc::clone(&self.elicit);
        let connecting = Connection::begin(client, self.root, self.limit, elicit, self.protocol);
        let connection = connecting.await;
        let connection = connection.map_err(|e| Failed::of(Stage::Connect, e))?;
        let known = connection.known().clone();
        let tried = match self.ask(&connection).await {
            Ok((listing, result)) => Ok(Tried {
                known,
                took: since.elapsed(),
                listing,
                result,
                noise: connection.noise(),
            }),
            Err(error) => Err(Failed {
                known: Some(Box::new(known)),
                ..Failed::of(Stage::Use, error)
            }),
        };
        connection.client().leave().await;
        connection.client().ended().await;
        tried
    }

    async fn start(&self, run: &str) -> Result<Client, Failed> {
        let started = self.servers.start(run, &self.env).await;
        match started.map_err(|e| Failed::at(Stage::Start, e))? {
            Attached::Live(client) => Ok(client),
            Attached::Over(past) => {
                let why = format!("the server is over: {}", describe(past.how()));
                Err(Failed::at(Stage::Connect, why))
            }
            Attached::Busy { pid } => {
                let why = format!("process {pid} uses the server");
                Err(Failed::at(Stage::Start, why))
            }
        }
    }

    async fn ask(
        &self,
        connection: &Connection,
    ) -> Result<(Listing, Option<CallResult>), McpError> {
        let Some((tool, arguments)) = self.call else {
            return Ok((catalogue::learn(connection, self.limit).await?, None));
        };
        let called = connection.call(CALL, tool, arguments, false);
        match tokio::time::timeout(self.limit, called).await {
            Ok(result) => Ok((Listing::default(), Some(result?))),
            Err(_) => {
                connection.cancel(CALL, "it took too long").await;
                Err(McpError::Late {
                    method: "tools/call".to_string(),
                    limit: self.limit,
                })
            }
        }
    }
}

/// Starts a configured server, lists its tools and stops it. Stores the tools for the next session.
pub(super) fn try_server(ctx: &AppContext, found: &FoundServer) -> Result<Tried, Failed> {
    // The name of the sandbox's temporary folder.
    let session = format!("trial-{}", found.name);
    let trial = Trial::of(ctx, found, &session)?;
    let runtime = crate::net::runtime().map_err(|e| Failed::at(Stage::Prepare, e))?;
    let mut tried = trial.run(&runtime);
    if trial.spec.sandbox.is_some() {
        let _ = std::fs::remove_dir_all(ctx.paths.data_dir.join("tmp").join(&session));
    }
    match &mut tried {
        Ok(tried) => store_learnt(ctx, found, tried),
        Err(failed) if failed.stage == Stage::Use => {
            let server = one_line(&trial.spec.command_line(), 100);
            failed.why = format!("{server}: {}", failed.why);
        }
        Err(_) => {}
    }
    tried
}

/// Stores the tools for the next session. An error does not fail the trial.
fn store_learnt(ctx: &AppContext, found: &FoundServer, tried: &Tried) {
    let (name, hash) = (&found.name, &found.hash);
    let kept = ctx.open_store().and_then(|mut store| {
        catalogue::keep(
            &mut store,
            name,
            hash,
            &tried.known,
            &tried.listing,
            now_ms(),
        )
    });
    if let Err(error) = kept {
        tracing::warn!(server = name, %error, "the tools of a server are not kept");
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

/// Returns the tool's name for the model, and the approximate number of tokens of its full
/// description.
pub(super) fn cost(server: &str, tool: &ServerTool) -> (String, u64) {
    let name = tool_name(server, &tool.name);
    let bytes = name.len() + tool.description.len() + tool.schema.to_string().len();
    (name, (bytes as f64 / BYTES_PER_TOKEN).ceil() as u64)
}
