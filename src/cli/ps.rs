//! `rewake ps`: lists the commands and servers of all sessions, also of agents that ended.

use clap::{Args, Subcommand};

use super::print_json;
use crate::command::Stopped;
use crate::core::text::one_line;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, clock, now_ms, process_objects, short_id};

/// List running commands and servers of all sessions, or stop one
#[derive(Debug, Clone, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PsArgs {
    #[command(subcommand)]
    pub action: Option<PsAction>,
    /// Print JSON, as the server's route does
    #[arg(long)]
    pub json: bool,
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
        None if args.json => print_json(&process_objects(ctx)?),
        None => list(ctx),
        Some(PsAction::Stop { run }) => stop(ctx, run),
    }
}

fn list(ctx: &AppContext) -> Result<u8, CliError> {
    let all = process_objects(ctx)?;
    for one in &all {
        line(&format!(
            "{}  {}  {:>8}  {}  {}",
            short_id(&one.id),
            short_id(&one.session),
            clock(now_ms() - one.since_ms),
            one.state(),
            one_line(&one.command, 100),
        ));
    }
    if all.is_empty() {
        note("no running commands");
    }
    Ok(exit::DONE)
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
