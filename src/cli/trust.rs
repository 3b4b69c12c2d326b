//! `rewake trust`: trusts the config, the servers and the custom commands of a folder.

use std::collections::BTreeMap;

use clap::Args;

use super::confirm::{can_ask, is_yes};
use super::place::SessionPlace;
use crate::config::{self, Paths, trust};
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::{commands_to_trust, trust_commands};
use crate::ui::commands::is_own;
use crate::workspace::{StartFolder, here};

/// Maximum number of listed commands.
const MAX_LISTED: usize = 50;

/// Trust the config, commands and MCP servers of this folder
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct TrustArgs {
    /// Withdraw the trust
    #[arg(long)]
    pub remove: bool,
    /// Trust what is listed without asking
    #[arg(long, conflicts_with = "remove")]
    pub yes: bool,
}

pub(super) fn run(place: &SessionPlace, args: &TrustArgs) -> Result<u8, CliError> {
    place.paths.create()?;
    let project = project_of(&place.paths, &place.here)?;
    match args.remove {
        true => untrust(&place.paths, &project),
        false => trust(&place.paths, &project, args.yes),
    }
}

/// Returns the project of a worktree that rewake made: trust in the project applies in it.
fn project_of(paths: &Paths, here_now: &StartFolder) -> Result<StartFolder, CliError> {
    match config::project_root(paths, &here_now.root)? {
        root if root == here_now.root => Ok(here_now.clone()),
        root => Ok(here(&root)?),
    }
}

fn trust(paths: &Paths, here: &StartFolder, yes: bool) -> Result<u8, CliError> {
    let root = here.root.display();
    let content = trust::content(&here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    let commands = commands_to_trust(here, paths, is_own);
    show(&root.to_string(), &content, &commands);
    if !yes {
        if !can_ask() {
            return Err(CliError::new(
                exit::USAGE,
                "nothing was trusted: there is no terminal to ask for a yes",
            )
            .with_hint("rewake trust --yes trusts what is listed above"));
        }
        if !is_yes("trust it with this?") {
            note("nothing was trusted");
            return Ok(exit::DONE);
        }
    }
    let config_is_new = trust::trust(paths, &here.root, &content)?;
    let commands_are_new = trust_commands(here, paths, commands)?;
    if !config_is_new && !commands_are_new {
        line(&format!(
            "{root} was trusted already, with what it says now"
        ));
        return Ok(exit::DONE);
    }
    line(&format!(
        "{root} is trusted now: its .rewake/config.toml is read whole, and its MCP servers and \
         custom commands are used, until they say something else"
    ));
    Ok(exit::DONE)
}

/// Shows everything that is about to be trusted. A server is a program that will run, so the user
/// must see it first.
fn show(root: &str, content: &trust::Content, commands: &BTreeMap<String, String>) {
    let lines = content.lines(usize::MAX);
    match lines.is_empty() && commands.is_empty() {
        true => line(&format!(
            "{root} has no config, server or command of its own"
        )),
        false => line(&format!("{root} says:")),
    }
    for text in lines {
        line(&format!("  {}", command(&text).replace('\n', "\n  ")));
    }
    if !commands.is_empty() {
        line("custom commands and agents:");
    }
    for path in commands.keys().take(MAX_LISTED) {
        line(&format!("  {path}"));
    }
    if let Some(more) = commands.len().checked_sub(MAX_LISTED).filter(|n| *n > 0) {
        line(&format!("  {more} more"));
    }
}

fn untrust(paths: &Paths, here: &StartFolder) -> Result<u8, CliError> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => line(&format!("{root} is trusted no longer")),
        false => line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
