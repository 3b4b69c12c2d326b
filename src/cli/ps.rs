//! `rewake ps`: lists the commands and servers of all sessions, also of agents that ended.

use clap::{Args, Subcommand};

use crate::command::server::ServerInfo;
use crate::command::{How, RunEnd, RunInfo, RunState, Stopped};
use crate::core::text::one_line;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, clock, now_ms, short_id};

/// List running commands and servers of all sessions, or stop one
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct PsArgs {
    #[command(subcommand)]
    pub action: Option<PsAction>,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(crate) enum PsAction {
    /// Stop a command or a server
    Stop {
        /// ID that `rewake ps` shows
        #[arg(value_name = "RUN")]
        run: String,
    },
}

pub(super) fn run(ctx: &AppContext, args: &PsArgs) -> Result<u8, CliError> {
    match &args.action {
        None => list(ctx),
        Some(PsAction::Stop { run }) => stop(ctx, run),
    }
}

fn list(ctx: &AppContext) -> Result<u8, CliError> {
    let mut shown = 0;
    for info in ctx.runs()?.list() {
        if let Some(state) = state(&info) {
            shown += 1;
            line(&format!(
                "{}  {}  {:>8}  {state}  {}",
                short_id(&info.run),
                short_id(&info.spec.session),
                clock(now_ms() - info.since_ms),
                one_line(&info.spec.command, 100),
            ));
        }
    }
    for info in ctx.servers()?.list() {
        if let Some(state) = server_state(&info) {
            shown += 1;
            line(&format!(
                "{}  {}  {:>8}  {state}  {}",
                short_id(&info.run),
                short_id(&info.spec.session),
                clock(now_ms() - info.since_ms),
                one_line(&info.spec.command_line(), 100),
            ));
        }
    }
    if shown == 0 {
        note("no running commands");
    }
    Ok(exit::DONE)
}

/// Returns the state, or `None` for a command that ended.
fn state(info: &RunInfo) -> Option<String> {
    match &info.state {
        RunState::Running { group, .. } => {
            let group = group.map(|g| format!(" group {g}")).unwrap_or_default();
            let kind = match info.spec.is_of_user() {
                true => "typed by you",
                false if info.spec.child.is_some() => "task",
                false if info.spec.background => "background",
                false => "running",
            };
            Some(format!("{kind}{group}"))
        }
        RunState::Ended(ended) => match ended.how {
            How::Lost { group: Some(group) } => Some(format!("left behind, group {group}")),
            _ => survivors_of(ended),
        },
        RunState::NotBegun => None,
    }
}

/// Returns the processes of a command that could not be ended.
fn survivors_of(ended: &RunEnd) -> Option<String> {
    let living = ended.sandbox.as_ref()?.living();
    let pids: Vec<String> = living.iter().map(|one| one.pid.to_string()).collect();
    match &pids[..] {
        [] => None,
        [one] => Some(format!("left behind, process {one}")),
        _ => Some(format!("left behind, processes {}", pids.join(" "))),
    }
}

/// Returns the state, or `None` for a server that ended.
fn server_state(info: &ServerInfo) -> Option<String> {
    let name = one_line(&info.spec.name, 40);
    match (info.is_kept, info.group) {
        (true, Some(group)) => Some(format!("server {name} group {group}")),
        (true, None) => Some(format!("server {name}")),
        (false, Some(group)) => Some(format!("server {name} left behind, group {group}")),
        (false, None) => None,
    }
}

/// Stops the command or server whose ID begins with `run`.
fn stop(ctx: &AppContext, run: &str) -> Result<u8, CliError> {
    let run = run.trim();
    if run.is_empty() {
        // An empty text is a prefix of every ID, so an unset variable in a script would stop a
        // command.
        return Err(
            CliError::new(exit::USAGE, "no command is named: the id is empty")
                .with_hint("rewake ps lists the ids"),
        );
    }
    let (runs, servers) = (ctx.runs()?, ctx.servers()?);
    let commands = runs.list().into_iter();
    let commands = commands.map(|info| (info.run, info.spec.command, false));
    let all_servers = servers.list().into_iter();
    let all_servers = all_servers.map(|info| (info.run, info.spec.command_line(), true));
    let all = commands.chain(all_servers);
    let found: Vec<(String, String, bool)> = all.filter(|(id, _, _)| id.starts_with(run)).collect();
    let (id, shown, is_server) = match &found[..] {
        [(id, shown, is_server)] => (id, shown, is_server),
        [] => {
            return Err(
                CliError::new(exit::USAGE, format!("there is no command {run:?}"))
                    .with_hint("rewake ps lists them"),
            );
        }
        _ => {
            return Err(CliError::new(
                exit::USAGE,
                format!("{run:?} could be any of {} commands", found.len()),
            )
            .with_hint("give more of the id"));
        }
    };
    let stopped = match is_server {
        true => servers.stop(id),
        false => runs.stop(id),
    };
    match stopped {
        Ok(Stopped::Asked) => line(&format!("{} is being stopped", one_line(shown, 100))),
        Ok(Stopped::NotBegun) => line("it had not started and will not"),
        Ok(Stopped::Over) => line("it had ended already"),
        Err(e) => return Err(CliError::new(exit::FAILED, e.to_string())),
    }
    Ok(exit::DONE)
}
