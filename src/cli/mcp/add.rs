//! `rewake mcp add` and `remove`: writes a server to the config, or removes it.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};

use super::trial::try_server;
use super::{tools, unknown};
use crate::config::mcp::{
    McpServer, ServerSource, ServerState, ServerTrusted, as_trusted, is_server_name, server_fault,
};
use crate::config::write::{self, WriteTarget};
use crate::config::{self};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Whose config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Your own config, for all folders
    User,
    /// .rewake/config.toml of this folder, for all who trust it
    Project,
}

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct Add {
    /// Name of letters, digits, - and _
    #[arg(value_name = "NAME")]
    name: String,
    /// Address of an HTTP server
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Set an environment variable, ${VAR} expands at the start (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Send an HTTP header (repeatable)
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Send the bearer token from this environment variable
    #[arg(long, value_name = "VAR")]
    bearer_token_env_var: Option<String>,
    /// Write to this config
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn add(ctx: &AppContext, wanted: &Add) -> Result<u8, CliError> {
    let name = &wanted.name;
    let server = described(wanted)?;
    if !is_server_name(name) {
        return Err(CliError::usage(format!("{name:?} is not a server name"))
            .with_hint("letters of a to z, digits, - and _, at most 32"));
    }
    if let Some(why) = server_fault(name, &server) {
        return Err(CliError::usage(format!("server {name}: {why}"))
            .with_hint("rewake mcp add NAME -- COMMAND …, or rewake mcp add NAME URL"));
    }
    let target = target(ctx, wanted.scope)?;
    let file = target.file.display().to_string();
    if !write::add_servers(&target, &[(name.clone(), server)])?.is_empty() {
        return Err(
            CliError::usage(format!("{file} has a server {name} already")).with_hint(format!(
                "rewake mcp remove {name}{} takes it out; rewake mcp get {name} shows it",
                flag(wanted.scope)
            )),
        );
    }
    line(&format!("{name} was added to {file}"));
    let literal = wanted
        .env
        .iter()
        .chain(&wanted.header)
        .any(|text| !text.contains("${"));
    if literal && wanted.scope == Scope::Project {
        note(
            "the values stand in a file of this folder; --env 'NAME=${NAME}' keeps them out of it",
        );
    }
    try_it(ctx, name, wanted.scope)
}

/// Tries the newly configured server. If it does not answer, prints a warning and keeps the
/// config.
fn try_it(ctx: &AppContext, name: &str, scope: Scope) -> Result<u8, CliError> {
    let loaded = config::load(&ctx.env, &ctx.paths, &ctx.here.root, &ctx.flags)?;
    let ctx = AppContext {
        loaded,
        ..ctx.clone()
    };
    let source = match scope {
        Scope::User => ServerSource::User,
        Scope::Project => ServerSource::Project,
    };
    let all = ctx.loaded.servers.iter();
    let mut all = all.filter(|defined| (defined.source, defined.name.as_str()) == (source, name));
    let Some(defined) = all.next() else {
        return Err(unknown(&ctx, name));
    };
    if defined.trusted != ServerTrusted::Yes {
        note("hint: it is used once it is trusted: rewake trust");
    }
    match as_trusted(&ctx.env, &ctx.loaded, defined) {
        ServerState::Usable(found) => match try_server(&ctx, &found) {
            Ok(tried) => tools::print(name, &found.server, &tried),
            Err(failed) => {
                note(&format!(
                    "it does not answer, and stays in the config: {}",
                    failed.why
                ));
                if let Some(printed) = failed.printed {
                    note(&format!("hint: its last words: {printed}"));
                }
                note(&format!(
                    "hint: rewake mcp doctor {name} tries it again; rewake mcp remove {name}{} takes it out",
                    flag(scope)
                ));
            }
        },
        other => note(&format!(
            "it was not tried: {}",
            super::list::in_words(&other)
        )),
    }
    Ok(exit::DONE)
}

fn flag(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "",
        Scope::Project => " --scope project",
    }
}

fn target(ctx: &AppContext, scope: Scope) -> Result<WriteTarget, CliError> {
    Ok(match scope {
        Scope::User => WriteTarget::config(&ctx.paths),
        Scope::Project => WriteTarget::of_workspace(&ctx.paths, &ctx.here.root)?,
    })
}

/// Returns the server that the arguments describe.
fn described(wanted: &Add) -> Result<McpServer, CliError> {
    let is_address = |word: &String| word.starts_with("http://") || word.starts_with("https://");
    let (command, args, url) = match (&wanted.url, &wanted.command[..]) {
        (Some(url), []) => (None, Vec::new(), Some(url.clone())),
        (None, [url]) if is_address(url) => (None, Vec::new(), Some(url.clone())),
        (None, [command, args @ ..]) => (Some(command.clone()), args.to_vec(), None),
        (None, []) => {
            return Err(CliError::usage("neither a command nor a url is named")
                .with_hint("rewake mcp add NAME -- COMMAND …, or rewake mcp add NAME URL"));
        }
        (Some(word), [_, ..]) => {
            return Err(CliError::usage(format!(
                "{word:?} stands before the command: both a url and a command"
            ))
            .with_hint("a server has one of them; arguments of the command follow it"));
        }
    };
    let pairs = |flag: &str, texts: &[String], sign: char| {
        let pair = |text: &String| match text.split_once(sign) {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().to_string(), value.trim_start().to_string()))
            }
            // The value may be a secret, so the text is not shown.
            _ => Err(CliError::usage(format!(
                "a value of {flag} is not NAME{sign}VALUE"
            ))),
        };
        texts
            .iter()
            .map(pair)
            .collect::<Result<BTreeMap<_, _>, _>>()
    };
    Ok(McpServer {
        command,
        args,
        url,
        env: pairs("--env", &wanted.env, '=')?,
        headers: pairs("--header", &wanted.header, ':')?,
        bearer_token_env_var: wanted.bearer_token_env_var.clone(),
        ..McpServer::default()
    })
}

pub(super) fn remove(ctx: &AppContext, name: &str, scope: Scope) -> Result<u8, CliError> {
    let target = target(ctx, scope)?;
    if write::remove_server(&target, name)? {
        line(&format!(
            "{name} was removed from {}",
            target.file.display()
        ));
        return Ok(exit::DONE);
    }
    let mut others = ctx.loaded.servers.iter();
    let other = others.rfind(|defined| defined.name == name);
    let Some(other) = other else {
        return Err(unknown(ctx, name));
    };
    let hint = match other.source {
        ServerSource::User => format!("rewake mcp remove {name}"),
        ServerSource::Project => format!("rewake mcp remove {name} --scope project"),
        ServerSource::McpJson => "take it out of that file; others read it too".to_string(),
    };
    Err(CliError::usage(format!(
        "{} has no server {name}; {} has one",
        target.file.display(),
        other.origin
    ))
    .with_hint(hint))
}
