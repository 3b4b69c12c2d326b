//! `rewake mcp import`: copies servers from the configs of other agents to the user's config.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::mcp::{Imported, McpServer, asked_variables, importable, start};
use crate::config::write::{self, WriteTarget};
use crate::core::text::{count, one_line};
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// `names`: imports only these. Servers of the workspace are imported only by name.
pub(super) fn run(ctx: &AppContext, names: &[String], yes: bool) -> Result<u8, CliError> {
    let (all, notes) = importable(&ctx.env, &ctx.here.root);
    notes.iter().for_each(|text| note(&command(text)));
    if all.is_empty() {
        note(
            "no other agent has a server here: Claude Code, Codex, opencode and Gemini CLI were looked at",
        );
        return Ok(exit::DONE);
    }
    let mut taken: BTreeSet<&str> = ctx
        .config()
        .mcp_servers
        .keys()
        .map(String::as_str)
        .collect();
    let mut new: BTreeMap<String, McpServer> = BTreeMap::new();
    let wide = all.iter().map(|one| shown(&one.name).chars().count()).max();
    let wide = wide.unwrap_or(0);
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|one| one.name == **name))
    {
        return Err(
            CliError::usage(format!("no other agent has a server {name:?} here"))
                .with_hint("rewake mcp import lists what they have"),
        );
    }
    for one in &all {
        let Imported {
            name,
            agent,
            file,
            server,
            is_of_workspace,
        } = one;
        let is_named = names.contains(name);
        if !names.is_empty() && !is_named {
            continue;
        }
        let key = server.as_ref().ok().filter(|_| *is_of_workspace);
        let key = key.and_then(|server| key_variable(ctx, server));
        let said = match server {
            Err(why) => format!("not taken: {why}"),
            Ok(_) if *is_of_workspace && !is_named => {
                format!(
                    "not taken, since it comes with this folder: rewake mcp import {} --yes",
                    shown(name)
                )
            }
            Ok(_) if key.is_some() => format!(
                "not taken: it comes with this folder, and asks for {}, which is for the key of a provider",
                key.unwrap_or_default()
            ),
            Ok(_) if taken.contains(name.as_str()) => {
                "the name is taken: stays as it is".to_string()
            }
            Ok(server) => {
                taken.insert(name);
                new.insert(name.clone(), server.clone());
                one_line(&command(&start(server)), 100)
            }
        };
        line(&format!(
            "{:<wide$}  {agent:<9}  {said}  ({})",
            shown(name),
            file.display()
        ));
    }
    if new.is_empty() {
        note("there is nothing to add");
        return Ok(exit::DONE);
    }
    let has_values = new.values().any(|server| {
        let mut values = server.env.values().chain(server.headers.values());
        values.any(|value| !value.contains("${"))
    });
    if !yes {
        note(&format!(
            "nothing was added yet; rewake mcp import --yes adds {} to your own config",
            count(new.len() as u64, "server")
        ));
        return Ok(exit::DONE);
    }
    let servers: Vec<(String, McpServer)> = new.into_iter().collect();
    let target = WriteTarget::config(&ctx.paths);
    let again = write::add_servers(&target, &servers)?;
    let added = servers.len() - again.len();
    line(&format!(
        "{} added to {}",
        count(added as u64, "server"),
        target.file.display()
    ));
    if has_values {
        note(
            "values of variables and headers stand in that file now; ${NAME} in their place keeps them out of it",
        );
    }
    note("hint: rewake mcp doctor tries them");
    Ok(exit::DONE)
}

/// Returns a variable that contains a provider's key and that the server uses.
fn key_variable(ctx: &AppContext, server: &McpServer) -> Option<String> {
    let mut asked = asked_variables(server).into_iter();
    asked.find(|name| ctx.loaded.key_variables.contains(name))
}

fn shown(name: &str) -> String {
    one_line(&command(name), 40)
}
