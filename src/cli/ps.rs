//! `rewake ps`: lists the commands and servers of all sessions, also of agents that ended.

use clap::{Args, Subcommand};

use super::print_json;
use crate::command::Stopped;
use crate::core::text::one_line;
use crate::report::{CliError, exit, line, note};
use crate::session::{
    AppContext, NotStopped, clock, now_ms, process_objects, short_id, stop_process,
};

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
    let (_, command, stopped) = stop_process(ctx, run).map_err(not_stopped)?;
    match stopped {
        Stopped::Asked => line(&format!("{} is being stopped", one_line(&command, 100))),
        Stopped::NotBegun => line("it had not started and will not"),
        Stopped::Over => line("it had ended already"),
    }
    Ok(exit::DONE)
}

fn not_stopped(error: NotStopped) -> CliError {
    let (said, hint) = (error.to_string(), error.hint());
    let trouble = match error {
        NotStopped::Session(error) => return error.into(),
        NotStopped::Failed(_) => CliError::failed(said),
        _ => CliError::usage(said),
    };
    trouble.with_any_hint(hint)
}
