//! A trial of a configured server: start it, list its tools, stop it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::own_exe;
use crate::command::server::{Attached, Client, ServerEnv, ServerSpec, Servers, describe};
use crate::config::mcp::FoundServer;
use crate::config::mcp::names::tool_name;
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::text::one_line;
use crate::mcp::catalogue;
use crate::mcp::clean;
use crate::mcp::connection::Connection;
use crate::mcp::elicit::Declines;
use crate::mcp::era::{Era, NegotiatedServer, ProtocolHint};
use crate::mcp::launch::{LaunchPlace, launch};
use crate::mcp::tools::{Listing, ServerTool};
use crate::session::{AppContext, sandbox};
use crate::store::now_ms;

/// Time that a server survives its killed trial.
const LINGER_MS: u64 = 5_000;

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

/// The error of a failed trial.
pub(super) struct Failed {
    pub why: String,
    /// Last line of its stderr.
    pub printed: Option<String>,
}

impl Failed {
    fn because(why: impl ToString) -> Failed {
        Failed {
            why: why.to_string(),
            printed: None,
        }
    }
}

/// Starts the server, lists its tools and stops it. Removes all traces.
pub(super) fn try_server(ctx: &AppContext, found: &FoundServer) -> Result<Tried, Failed> {
    let exe = own_exe().map_err(Failed::because)?;
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
    let (mut spec, env) = launch(found, &place).map_err(Failed::because)?;
    spec.linger_ms = LINGER_MS;
    let servers = ctx.servers().map_err(Failed::because)?;
    let limit = Duration::from_secs_f64(found.server.startup_timeout_sec);
    let runtime = crate::net::runtime().map_err(Failed::because)?;
    let run = servers.prepare(&spec).map_err(Failed::because)?;
    let trial = Trial {
        servers: &servers,
        spec: &spec,
        root: &ctx.here.root,
        limit,
        protocol: ProtocolHint::of(found.server.protocol_version.as_deref(), None),
        learnt: &|known, listing| store_learnt(ctx, found, known, listing),
    };
    let tried = runtime.block_on(trial.start(&run, &env));
    let tried = tried.map_err(|why| Failed {
        why,
        printed: last_words(&servers, &run),
    });
    clear(&servers, &run);
    if spec.sandbox.is_some() {
        let _ = std::fs::remove_dir_all(ctx.paths.data_dir.join("tmp").join(&session));
    }
    tried
}

struct Trial<'a> {
    servers: &'a Servers,
    spec: &'a ServerSpec,
    root: &'a Path,
    limit: Duration,
    protocol: ProtocolHint,
    learnt: &'a dyn Fn(&NegotiatedServer, &Listing),
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

impl Trial<'_> {
    async fn start(&self, run: &str, env: &ServerEnv) -> Result<Tried, String> {
        let since = Instant::now();
        let started = self.servers.start(run, env).await;
        let client = match started.map_err(|e| e.to_string())? {
            Attached::Live(client) => client,
            Attached::Over(past) => {
                return Err(format!("the server is over: {}", describe(past.how())));
            }
            Attached::Busy { pid } => return Err(format!("process {pid} uses the server")),
        };
        let elicit = Arc::new(Declines);
        let connecting = Connection::begin(client, self.root, self.limit, elicit, self.protocol);
        let connection = connecting.await.map_err(|e| e.to_string())?;
        let known = connection.known();
        let mut tried = Tried {
            version: clean(&known.version, 40),
            how: match known.era {
                Era::Handshake => "initialize",
                Era::Stateless => "server/discover",
            },
            name: one_line(&clean(&known.name, 200), 60),
            took: Duration::ZERO,
            tools: Vec::new(),
            notes: Vec::new(),
        };
        let listed = catalogue::learn(&connection, self.limit).await;
        let listed = listed.map(|listing| {
            (self.learnt)(connection.known(), &listing);
            tried.tools = listing.tools;
            tried.notes = listing.notes;
        });
        tried.took = since.elapsed();
        if let Some(note) = noise(connection.noise()) {
            tried.notes.push(note);
        }
        leave(connection.client()).await;
        listed.map_err(|e| format!("{}: {e}", one_line(&self.spec.command_line(), 100)))?;
        Ok(tried)
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

/// Stops the server, and waits for its end.
pub(super) async fn leave(client: &Client) {
    client.leave().await;
    client.ended().await;
}

/// Stops remaining processes, and removes the run folder, which no other process would do.
pub(super) fn clear(servers: &Servers, run: &str) {
    let _ = servers.stop(run);
    let since = Instant::now();
    while !matches!(servers.remove(run), Ok(true)) && since.elapsed() < CLEAR_WITHIN {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the last line of stderr, which often explains an error.
pub(super) fn last_words(servers: &Servers, run: &str) -> Option<String> {
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
