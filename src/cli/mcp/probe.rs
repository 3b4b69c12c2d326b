//! `rewake mcp probe`: starts an MCP server, prints its version and tools, and stops it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::login::{ClientArgs, log_in, runtime, server_address};
use super::trial::{Failed, LINGER_MS, Stage, Trial, Tried, protocol};
use crate::command::own_exe;
use crate::command::server::{ServerEnv, ServerSpec};
use crate::config::mcp::bare_url;
use crate::config::mcp::names::tool_name;
use crate::core::form::{FormAnswer, RequestedAnswer};
use crate::core::text::one_line;
use crate::mcp::elicit::{Declines, Elicit, Elicitation};
use crate::mcp::era::{NegotiatedServer, ProtocolHint};
use crate::mcp::launch::{BRIDGE_ENV, BRIDGE_WORD, BridgeConfig};
use crate::mcp::oauth::challenge::Challenge;
use crate::mcp::result::ResultPart;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Maximum number of logins for one server.
const LOGINS_MAX: usize = 3;

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct Probe {
    /// Call this tool
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// Arguments of the tool as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "call")]
    arguments: String,
    /// Set an environment variable of the server (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Set the time limit of each answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Accept the server's forms with their defaults (else: decline)
    #[arg(long)]
    accept_defaults: bool,
    /// Log in without a browser, for test servers
    #[arg(long, requires = "url")]
    login: bool,
    #[command(flatten)]
    client: ClientArgs,
    /// Address of an HTTP server
    #[arg(
        value_name = "URL",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    url: Option<String>,
    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(ctx: &AppContext, probe: &Probe) -> Result<u8, CliError> {
    let arguments: Value = serde_json::from_str(&probe.arguments)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| {
            CliError::usage("the value of --arguments is no JSON object")
                .with_hint("--arguments '{\"path\": \"notes.txt\"}'")
        })?;
    let (spec, env) = match &probe.url {
        Some(url) => over_http(ctx, url)?,
        None => over_stdio(ctx, probe)?,
    };
    let runtime = runtime()?;
    let trial = Trial {
        servers: ctx.servers()?,
        spec,
        env,
        root: &ctx.here.root,
        limit: Duration::from_secs(probe.timeout),
        protocol: ProtocolHint::Unknown,
        elicit: if probe.accept_defaults {
            Arc::new(AcceptsDefaults)
        } else {
            Arc::new(Declines)
        },
        call: probe.call.as_deref().map(|tool| (tool, &arguments)),
    };
    for logins in 1.. {
        let failed = match trial.run(&runtime) {
            Ok(tried) => {
                print(&trial.spec.name, &tried);
                break;
            }
            Err(failed) => failed,
        };
        if let Some(known) = &failed.known {
            print_server(known);
        }
        match (&failed.login, &probe.url) {
            (Some(challenge), Some(url)) if probe.login && logins < LOGINS_MAX => {
                let challenge = Challenge::clone(challenge);
                runtime.block_on(log_in(ctx, url, challenge, &probe.client))?;
            }
            _ => return Err(probe_error(&trial.spec, failed)),
        }
    }
    Ok(exit::DONE)
}

fn over_stdio(ctx: &AppContext, probe: &Probe) -> Result<(ServerSpec, ServerEnv), CliError> {
    let own = probe.env.iter().map(|pair| {
        let pair = pair.split_once('=').filter(|(name, _)| !name.is_empty());
        let refused = || CliError::usage("a value of --env is not NAME=VALUE");
        let (name, value) = pair.ok_or_else(refused)?;
        Ok((name.to_string(), value.to_string()))
    });
    let own: Vec<(String, String)> = own.collect::<Result<_, CliError>>()?;
    let (program, args) = match &probe.command[..] {
        [program, args @ ..] => (program.clone(), args.to_vec()),
        [] => return Err(CliError::usage("no command is named")),
    };
    Ok(probed(ctx, &name_of(&program), program.clone(), args, &own))
}

fn over_http(ctx: &AppContext, url: &str) -> Result<(ServerSpec, ServerEnv), CliError> {
    let address = server_address(url)?;
    let name = address.host_str().unwrap_or("server").to_string();
    let config = BridgeConfig {
        name: bare_url(url),
        url: url.to_string(),
        headers: BTreeMap::new(),
        keys: ctx.paths.keys_dir(),
    };
    let config = serde_json::to_string(&config).map_err(|e| CliError::failed(e.to_string()))?;
    let exe = own_exe().map_err(|e| CliError::failed(format!("this program is not found: {e}")))?;
    let exe = exe
        .to_str()
        .ok_or_else(|| CliError::failed("the name of this program is not UTF-8"))?;
    let args = vec![BRIDGE_WORD.to_string(), name.clone()];
    let own = [(BRIDGE_ENV.to_string(), config)];
    Ok(probed(ctx, &name, exe.to_string(), args, &own))
}

fn probed(
    ctx: &AppContext,
    name: &str,
    program: String,
    args: Vec<String>,
    own: &[(String, String)],
) -> (ServerSpec, ServerEnv) {
    let inherited = |name: &str| ctx.env.var_os(name).map(Into::into);
    let spec = ServerSpec {
        name: name.to_string(),
        session: "probe".to_string(),
        program,
        args,
        folder: ctx.here.root.clone(),
        env: own.iter().map(|(name, _)| name.clone()).collect(),
        linger_ms: LINGER_MS,
        sandbox: None,
        lease: None,
    };
    (spec, ServerEnv::new(inherited, own))
}

fn name_of(program: &str) -> String {
    let stem = Path::new(program)
        .file_stem()
        .and_then(|stem| stem.to_str());
    stem.unwrap_or("server").to_string()
}

/// Accepts every form with the suggested values.
struct AcceptsDefaults;

impl Elicit for AcceptsDefaults {
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, FormAnswer> {
        let answer = match question.wanted {
            RequestedAnswer::Form { .. } => FormAnswer::Accept { values: Map::new() },
            RequestedAnswer::Visit { .. } => FormAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Prints the server, and its tools or the result of the call.
fn print(server: &str, tried: &Tried) {
    print_server(&tried.known);
    if let Some(result) = &tried.result {
        line(if result.is_error {
            "failed:"
        } else {
            "result:"
        });
        result.parts.iter().for_each(|part| line(&shown(part)));
    } else if tried.known.has_tools {
        line(&format!("tools     {}", tried.listing.tools.len()));
        for tool in &tried.listing.tools {
            let name = tool_name(server, &tool.name);
            line(&format!("  {name}  {}", one_line(&tool.description, 100)));
        }
    } else {
        line("tools     none");
    }
    tried.notes().for_each(|text| note(&text));
}

fn print_server(known: &NegotiatedServer) {
    line(&format!("protocol  {}", protocol(known)));
    line(&format!("server    {}", known.name));
}

fn probe_error(spec: &ServerSpec, failed: Failed) -> CliError {
    let is_over_http = spec.args.first().is_some_and(|word| word == BRIDGE_WORD);
    let server = if is_over_http {
        spec.name.clone()
    } else {
        one_line(&spec.command_line(), 100)
    };
    let trouble = CliError::failed(match failed.stage {
        Stage::Prepare | Stage::Start => failed.why,
        Stage::Connect | Stage::Use => format!("{server}: {}", failed.why),
    });
    match failed.printed {
        _ if failed.login.is_some() || failed.stage == Stage::Prepare => trouble,
        // The last line of stderr often explains an error.
        Some(last) => trouble.with_hint(format!("its last words: {last}")),
        None if is_over_http => trouble,
        None => trouble.with_hint("a server for stdio speaks JSON-RPC, one object a line"),
    }
}

fn shown(part: &ResultPart) -> String {
    match part {
        ResultPart::Text(text) => text.clone(),
        ResultPart::Image { mime, data } => {
            format!("(image {mime}, {} bytes as base64)", data.len())
        }
        ResultPart::Link { uri, name } => format!("({name}: {uri})"),
    }
}
