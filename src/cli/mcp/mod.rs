//! `rewake mcp`: management of the configured MCP servers.

mod add;
mod doctor;
mod import;
mod list;
mod login;
mod probe;
mod tools;
mod trial;

use clap::Subcommand;

use crate::config::mcp::{DefinedServer, ServerState, server_states};
use crate::core::text::nearest;
use crate::report::{CliError, note};
use crate::session::AppContext;

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(crate) enum McpAction {
    /// Add a server (NAME -- COMMAND, or NAME URL) and try it
    Add(add::Add),
    /// List configured servers without starting them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the config of a server, without secrets
    Get {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a server from the config
    Remove {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Remove it from this config
        #[arg(long, value_enum, default_value_t = add::Scope::User)]
        scope: add::Scope,
    },
    /// Start servers and list their tools with the tokens each costs
    Tools {
        /// Name of the server (default: all)
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Start each server and report problems
    Doctor {
        /// Name of the server (default: all)
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Show servers from configs of other agents, and add them with --yes
    Import {
        /// Import only these (servers of this folder must be named)
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Add them, except where the name exists
        #[arg(long, short)]
        yes: bool,
    },
    /// Start a server, print its version and tools, and stop it
    Probe(probe::Probe),
    /// Log in to an HTTP server in a browser
    Login(login::LoginArgs),
    /// Remove the stored login of a server
    Logout(login::LogoutArgs),
}

pub(super) fn run(ctx: &AppContext, action: &McpAction) -> Result<u8, CliError> {
    match action {
        McpAction::Add(wanted) => add::add(ctx, wanted),
        McpAction::List { json } => list::list(ctx, *json),
        McpAction::Get { name } => list::get(ctx, name),
        McpAction::Remove { name, scope } => add::remove(ctx, name, *scope),
        McpAction::Tools { name } => tools::run(ctx, name.as_deref()),
        McpAction::Doctor { name } => doctor::run(ctx, name.as_deref()),
        McpAction::Import { names, yes } => import::run(ctx, names, *yes),
        McpAction::Probe(wanted) => probe::run(ctx, wanted),
        McpAction::Login(wanted) => login::login(ctx, wanted),
        McpAction::Logout(wanted) => login::logout(ctx, wanted),
    }
}

/// Prints the errors in the files with servers.
fn note_faults(ctx: &AppContext) {
    for fault in &ctx.loaded.server_faults {
        note(&fault.to_string());
    }
}

/// Returns the definitions with this name, or all, the nearest first, each with its state.
fn states<'a>(
    ctx: &'a AppContext,
    name: Option<&str>,
) -> Result<Vec<(&'a DefinedServer, ServerState)>, CliError> {
    let mut states = server_states(&ctx.env, &ctx.loaded);
    if let Some(name) = name {
        states.retain(|(defined, _)| defined.name == name);
        if states.is_empty() {
            return Err(unknown(ctx, name));
        }
    }
    Ok(states)
}

fn unknown(ctx: &AppContext, name: &str) -> CliError {
    let names = ctx.loaded.servers.iter();
    let near = nearest(name, names.map(|defined| defined.name.as_str()));
    let hint = match near {
        Some(near) => format!("did you mean {near}? rewake mcp list lists them"),
        None => "rewake mcp list lists them; rewake mcp add adds one".to_string(),
    };
    CliError::usage(format!("there is no server {name:?}")).with_hint(hint)
}
