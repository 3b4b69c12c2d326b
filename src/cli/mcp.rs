//! `rewake mcp probe`: starts an MCP server, says what it is and what tools it has, and ends it.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::command::server::{Attached, Client, ServerEnv, ServerSpec, Servers, describe};
use crate::core::text::one_line;
use crate::mcp::connection::{Connection, McpError};
use crate::mcp::era::Era;
use crate::mcp::names::tool_name;
use crate::mcp::result::Part;
use crate::report::{Trouble, exit, line, note};
use crate::session::AppContext;

/// A probe that is killed leaves its server for so long.
const LINGER_MS: u64 = 5_000;

/// To close its input, to ask it to end, to kill it.
const CLEAR_WITHIN: Duration = Duration::from_secs(6);

/// Of what the server printed on stderr, the last line is told; it is looked for in so much.
const PRINTED_MAX_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(crate) enum McpAction {
    /// Start a server, print its protocol version, its name and its tools, and end it
    Probe(Probe),
}

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct Probe {
    /// Call this tool, as the server names it
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// What the tool is called with, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "call")]
    arguments: String,
    /// A variable that the server gets (repeatable); it sees only PATH, HOME, LANG, TMPDIR and proxies besides
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// How long each answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// The command that starts the server
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(ctx: &AppContext, action: &McpAction) -> Result<u8, Trouble> {
    let McpAction::Probe(probe) = action;
    let arguments: Value = serde_json::from_str(&probe.arguments)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| {
            Trouble::new(exit::USAGE, "the value of --arguments is no JSON object")
                .with_hint("--arguments '{\"path\": \"notes.txt\"}'")
        })?;
    let own = probe.env.iter().map(|pair| {
        let pair = pair.split_once('=').filter(|(name, _)| !name.is_empty());
        let refused = || Trouble::new(exit::USAGE, "a value of --env is not NAME=VALUE");
        let (name, value) = pair.ok_or_else(refused)?;
        Ok((name.to_string(), value.to_string()))
    });
    let own: Vec<(String, String)> = own.collect::<Result<_, Trouble>>()?;
    let inherited = |name: &str| ctx.env.var_os(name).map(Into::into);
    let env = ServerEnv::new(inherited, &own);
    let (program, args) = match &probe.command[..] {
        [program, args @ ..] => (program.clone(), args.to_vec()),
        [] => return Err(Trouble::new(exit::USAGE, "no command is named")),
    };
    let spec = ServerSpec {
        name: name_of(&program),
        session: "probe".to_string(),
        program,
        args,
        folder: ctx.here.root.clone(),
        env: own.into_iter().map(|(name, _)| name).collect(),
        linger_ms: LINGER_MS,
        sandbox: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed(&format!("cannot start the runtime: {e}")))?;
    let servers = ctx.servers()?;
    let run = servers.prepare(&spec).map_err(|e| failed(&e.to_string()))?;
    let probing = Probing {
        servers: &servers,
        spec: &spec,
        root: &ctx.here.root,
        limit: Duration::from_secs(probe.timeout),
        run: &run,
    };
    let done = runtime.block_on(probing.probe(&env, probe.call.as_deref(), &arguments));
    let done = done.map_err(|trouble| probing.with_last_words(trouble));
    clear(&servers, &run);
    done.map(|()| exit::DONE)
}

/// Ends what still runs, and removes the run folder: nobody else would.
fn clear(servers: &Servers, run: &str) {
    let _ = servers.stop(run);
    let since = Instant::now();
    while !matches!(servers.remove(run), Ok(true)) && since.elapsed() < CLEAR_WITHIN {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn failed(why: &str) -> Trouble {
    Trouble::new(exit::FAILED, why)
}

fn name_of(program: &str) -> String {
    let stem = Path::new(program)
        .file_stem()
        .and_then(|stem| stem.to_str());
    stem.unwrap_or("server").to_string()
}

struct Probing<'a> {
    servers: &'a Servers,
    spec: &'a ServerSpec,
    root: &'a Path,
    limit: Duration,
    run: &'a str,
}

impl Probing<'_> {
    async fn probe(
        &self,
        env: &ServerEnv,
        call: Option<&str>,
        arguments: &Value,
    ) -> Result<(), Trouble> {
        let started = self.servers.start(self.run, env).await;
        let client = match started.map_err(|e| failed(&e.to_string()))? {
            Attached::Live(client) => client,
            Attached::Over(past) => {
                return Err(self.trouble(&format!("the server is over: {}", describe(past.how()))));
            }
            Attached::Busy { pid } => {
                return Err(failed(&format!("process {pid} uses the server")));
            }
        };
        let connection = Connection::begin(client, self.root, self.limit).await;
        let connection = connection.map_err(|e| self.trouble(&e.to_string()))?;
        let told = self.tell(&connection, call, arguments).await;
        leave(connection.client()).await;
        told.map_err(|e| self.trouble(&e.to_string()))
    }

    async fn tell(
        &self,
        connection: &Connection,
        call: Option<&str>,
        arguments: &Value,
    ) -> Result<(), McpError> {
        let known = connection.known();
        let how = match known.era {
            Era::Handshake => "initialize",
            Era::Stateless => "server/discover",
        };
        line(&format!("protocol  {} ({how})", known.version));
        line(&format!("server    {}", known.name));
        if let Some(tool) = call {
            let called = connection.call("probe_call", tool, arguments, false);
            let result = match tokio::time::timeout(self.limit, called).await {
                Ok(result) => result?,
                Err(_) => {
                    connection.cancel("probe_call", "it took too long").await;
                    return Err(McpError::Late {
                        method: "tools/call".to_string(),
                        limit: self.limit,
                    });
                }
            };
            line(if result.is_error {
                "failed:"
            } else {
                "result:"
            });
            result.parts.iter().for_each(|part| line(&shown(part)));
        } else if known.has_tools {
            let listing = connection.tools(self.limit).await?;
            line(&format!("tools     {}", listing.tools.len()));
            for tool in &listing.tools {
                let name = tool_name(&self.spec.name, &tool.name);
                line(&format!("  {name}  {}", one_line(&tool.description, 100)));
            }
            listing.notes.iter().for_each(|text| note(text));
        } else {
            line("tools     none");
        }
        match connection.noise() {
            0 => {}
            1 => note("the server printed 1 line on stdout that is no message"),
            lines => note(&format!(
                "the server printed {lines} lines on stdout that are no messages"
            )),
        }
        Ok(())
    }

    fn trouble(&self, why: &str) -> Trouble {
        failed(&format!(
            "{}: {why}",
            one_line(&self.spec.command_line(), 100)
        ))
    }

    /// The last line of stderr often says why.
    fn with_last_words(&self, trouble: Trouble) -> Trouble {
        let printed = self.servers.printed(self.run, PRINTED_MAX_BYTES);
        let printed = printed.unwrap_or_default();
        let text = String::from_utf8_lossy(&printed);
        match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(last) => trouble.with_hint(format!("its last words: {}", one_line(last, 200))),
            None => trouble.with_hint("a server for stdio speaks JSON-RPC, one object a line"),
        }
    }
}

/// Ends the server, and waits until it is over.
async fn leave(client: &Client) {
    client.leave().await;
    client.ended().await;
}

fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image { mime, data } => format!("(image {mime}, {} bytes as base64)", data.len()),
        Part::Link { uri, name } => format!("({name}: {uri})"),
    }
}
