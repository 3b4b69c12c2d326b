//! `rewake trust`: trusts the config, the servers, the custom commands and the hooks of a folder.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use super::confirm::{answer_to, can_ask, is_yes};
use super::place::SessionPlace;
use super::values;
use crate::config::trusted::TrustedHooks;
use crate::config::{self, NO_SANDBOX, Paths, SandboxUse, foreign_guards, trust};
use crate::core::access::{Access, WORKSPACE_ACCESS};
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::hooks::with_hook_places;
use crate::session::sandbox::ask_kernel;
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
    /// Set the access of all listed hooks and servers in the sandbox
    #[arg(long, value_name = "LEVEL", conflicts_with = "remove", value_parser = values::workspace_access())]
    pub access: Option<Access>,
}

pub(super) fn run(place: &SessionPlace, args: &TrustArgs) -> Result<u8, CliError> {
    place.paths.create()?;
    let project = project_of(&place.paths, &place.here)?;
    if args.remove {
        untrust(&place.paths, &project)
    } else {
        trust(place, &project, args)
    }
}

/// Returns the project of a worktree that rewake made: trust in the project applies in it.
fn project_of(paths: &Paths, here_now: &StartFolder) -> Result<StartFolder, CliError> {
    match config::project_root(paths, &here_now.root)? {
        root if root == here_now.root => Ok(here_now.clone()),
        root => Ok(here(&root)?),
    }
}

fn trust(place: &SessionPlace, here: &StartFolder, args: &TrustArgs) -> Result<u8, CliError> {
    let paths = &place.paths;
    let root = here.root.display();
    let mut content = trust::content(paths, &here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    let commands = commands_to_trust(here, paths, is_own);
    let known = trust::trusted_hooks(paths)?;
    let mut hooks = hooks_of(place, here, &known)?;
    let has_sandbox = has_sandbox(place, here);
    show(&root.to_string(), &content, &commands, &hooks, has_sandbox);
    show_foreign(here, &known);
    if !args.yes {
        if !can_ask() {
            return Err(CliError::usage(
                "nothing was trusted: there is no terminal to ask for a yes",
            )
            .with_hint("rewake trust --yes trusts what is listed above"));
        }
        if !is_yes("trust it with this?") {
            note("nothing was trusted");
            return Ok(exit::DONE);
        }
    }
    let choose = |line: &str, before: Access| match args.access {
        Some(access) => access,
        None if args.yes || !has_sandbox => before,
        None => asked_access(line, before),
    };
    for ((_, name), server) in &mut content.servers {
        let choose = |before| choose(&format!("server {name}"), before);
        server.access = server.access.map(choose);
    }
    for file in &mut hooks {
        let before = known.get(file.path.to_string_lossy().as_ref());
        file.choose_access(before, choose);
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
    has_sandbox: bool,
) {
    let lines = content.lines(usize::MAX);
    let has_hooks = hooks.iter().any(|file| !file.hooks.is_empty());
    match lines.is_empty() && commands.is_empty() && !has_hooks {
        true => line(&format!(
            "{root} has no config, server, command or hook of its own"
        )),
        false => line(&format!("{root} says:")),
    }
    for text in lines {
        line(&format!("  {}", command(&text).replace('\n', "\n  ")));
    }
    let without = "which run without a sandbox and with your rights:";
    let (of_workspace, of_user): (Vec<_>, Vec<_>) =
        hooks.iter().partition(|file| file.is_of_workspace());
    let with = if has_sandbox {
        "which run in the sandbox, with access workspace unless you choose another:"
    } else {
        without
    };
    for (title, files) in [
        (format!("hooks, {with}"), of_workspace),
        (format!("hooks of your own files, {without}"), of_user),
    ] {
        let lines: Vec<_> = files.iter().flat_map(|file| file.lines()).collect();
        if !lines.is_empty() {
            line(&title);
        }
        for text in lines {
            line(&format!("  {}", command(text)));
        }
    }
    let has_servers = content
        .servers
        .values()
        .any(|server| server.access.is_some());
    if !has_sandbox && (has_hooks || has_servers) {
        line(&format!(
            "{NO_SANDBOX}: hooks and servers run with all your rights; `rewake doctor` says why"
        ));
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
fn hooks_of(
    place: &SessionPlace,
    here: &StartFolder,
    known: &BTreeMap<String, TrustedHooks>,
) -> Result<Vec<HooksToTrust>, CliError> {
    let is_known = |path: &Path| known.contains_key(path.to_string_lossy().as_ref());
    let found = with_hook_places(&place.env, &place.paths, &here.root, &here.root, |places| {
        hooks_to_trust(places, |path, is_own| {
            (is_own && path.starts_with(&here.root)) || is_known(path)
        })
    });
    Ok(found?)
}

/// Names the guards of other agents, which this does not trust.
fn show_foreign(here: &StartFolder, known: &BTreeMap<String, TrustedHooks>) {
    for file in foreign_guards::find(&here.root, None) {
        if !known.contains_key(file.path.to_string_lossy().as_ref()) {
            note(&file.line());
        }
    }
}

/// Returns whether hooks and servers of the folder run in a sandbox. A config that cannot be read
/// does not turn it off.
fn has_sandbox(place: &SessionPlace, here: &StartFolder) -> bool {
    let loaded = config::load(&place.env, &place.paths, &here.root, &place.settings);
    match loaded.map_or(SandboxUse::Auto, |loaded| loaded.config.sandbox.enabled) {
        SandboxUse::Never => false,
        SandboxUse::Always => true,
        SandboxUse::Auto => ask_kernel(&place.env).is_ok_and(|kernel| kernel.can_sandbox()),
    }
}

/// Asks for the access of a hook or a server.
fn asked_access(about: &str, before: Access) -> Access {
    let names = WORKSPACE_ACCESS.map(Access::name).join(" or ");
    let question = format!("access of {}: {names}? [{before}]", command(about));
    let answer = answer_to(&question);
    let mut levels = WORKSPACE_ACCESS.into_iter();
    let is_begin = |access: &Access| !answer.is_empty() && access.name().starts_with(&answer);
    levels.find(is_begin).unwrap_or(before)
}

fn untrust(paths: &Paths, here: &StartFolder) -> Result<u8, CliError> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => line(&format!("{root} is trusted no longer")),
        false => line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
