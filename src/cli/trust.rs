//! `rewake trust`: trusts the config, the servers, the custom commands and the hooks of a folder.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use super::confirm::{can_ask, is_yes};
use super::place::SessionPlace;
use crate::config::{self, Paths, foreign_guards, trust};
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::hooks::with_hook_places;
use crate::session::{commands_to_trust, trust_commands};
use crate::ui::commands::is_own;
use crate::workspace::hooks::{HooksToTrust, hooks_to_trust};
use crate::workspace::{StartFolder, here};

/// Maximum number of listed commands.
const MAX_LISTED: usize = 50;

/// Trust the config, commands, hooks and MCP servers of this folder
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
        false => trust(place, &project, args.yes),
    }
}

/// Returns the project of a worktree that rewake made: trust in the project applies in it.
fn project_of(paths: &Paths, here_now: &StartFolder) -> Result<StartFolder, CliError> {
    match config::project_root(paths, &here_now.root)? {
        root if root == here_now.root => Ok(here_now.clone()),
        root => Ok(here(&root)?),
    }
}

fn trust(place: &SessionPlace, here: &StartFolder, yes: bool) -> Result<u8, CliError> {
    let paths = &place.paths;
    let root = here.root.display();
    let content = trust::content(&here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    let commands = commands_to_trust(here, paths, is_own);
    let hooks = hooks_of(place, here)?;
    show(&root.to_string(), &content, &commands, &hooks);
    show_foreign(place, here)?;
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
    let mut hooks_are_new = false;
    for file in hooks {
        hooks_are_new |= trust::trust_hooks(paths, &file.path, file.hooks)?;
    }
    if !config_is_new && !commands_are_new && !hooks_are_new {
        line(&format!(
            "{root} was trusted already, with what it says now"
        ));
        return Ok(exit::DONE);
    }
    line(&format!(
        "{root} is trusted now: its .rewake/config.toml is read whole, and its MCP servers, custom \
         commands and hooks are used, until they change"
    ));
    Ok(exit::DONE)
}

/// Shows everything that is about to be trusted. A server is a program that will run, so the user
/// must see it first.
fn show(
    root: &str,
    content: &trust::Content,
    commands: &BTreeMap<String, String>,
    hooks: &[HooksToTrust],
) {
    let lines = content.lines(usize::MAX);
    let has_hooks = hooks.iter().any(|file| !file.lines.is_empty());
    match lines.is_empty() && commands.is_empty() && !has_hooks {
        true => line(&format!(
            "{root} has no config, server, command or hook of its own"
        )),
        false => line(&format!("{root} says:")),
    }
    for text in lines {
        line(&format!("  {}", command(&text).replace('\n', "\n  ")));
    }
    if has_hooks {
        line("hooks, which run without a sandbox and with your rights:");
    }
    for text in hooks.iter().flat_map(|file| &file.lines) {
        line(&format!("  {}", command(text)));
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

/// Returns the hooks of the folder, and those of the files of other agents that are used already,
/// also below the home folder.
fn hooks_of(place: &SessionPlace, here: &StartFolder) -> Result<Vec<HooksToTrust>, CliError> {
    let known = trust::trusted_hooks(&place.paths)?;
    let is_known = |path: &Path| known.contains_key(path.to_string_lossy().as_ref());
    let found = with_hook_places(&place.env, &place.paths, &here.root, &here.root, |places| {
        hooks_to_trust(places, |path, is_own| {
            (is_own && path.starts_with(&here.root)) || is_known(path)
        })
    });
    Ok(found?)
}

/// Names the guards of other agents, which this does not trust.
fn show_foreign(place: &SessionPlace, here: &StartFolder) -> Result<(), CliError> {
    let known = trust::trusted_hooks(&place.paths)?;
    for file in foreign_guards::find(&here.root, None) {
        if !known.contains_key(file.path.to_string_lossy().as_ref()) {
            note(&file.line());
        }
    }
    Ok(())
}

fn untrust(paths: &Paths, here: &StartFolder) -> Result<u8, CliError> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => line(&format!("{root} is trusted no longer")),
        false => line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
