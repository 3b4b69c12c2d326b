//! `rewake acp`: the agent inside an editor.

use clap::Args;
use tracing_appender::non_blocking::WorkerGuard;

use super::key::{self, KeyArgs};
use super::place::SessionPlace;
use crate::acp::{self, Options};
use crate::config::Setting;
use crate::core::entry::Mode;
use crate::report::CliError;
use crate::session::sandbox::probe_kernel_in_background;
use crate::ui::commands;

/// Run inside an editor over ACP (stdin and stdout)
#[derive(Debug, Clone, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AcpArgs {
    /// Skip all approvals and run commands WITHOUT the sandbox
    #[arg(long)]
    pub yolo: bool,
    /// A login that the editor starts in a terminal.
    #[command(subcommand)]
    login: Option<Login>,
}

#[derive(Debug, Clone, PartialEq, clap::Subcommand)]
enum Login {
    #[command(hide = true)]
    Key(KeyArgs),
}

pub(super) fn run(
    mut place: SessionPlace,
    args: AcpArgs,
    log: &mut Option<WorkerGuard>,
) -> Result<u8, CliError> {
    if let Some(Login::Key(args)) = &args.login {
        return key::run(&place.of_person()?.config()?, args);
    }
    if args.yolo {
        let mode = Mode::BypassPermissions.name();
        place
            .settings
            .push(Setting::new("--yolo", "permission_mode", mode)?);
    }
    let ctx = place.work(log)?;
    probe_kernel_in_background(&ctx);
    let options = Options {
        is_yolo: args.yolo,
        is_own_command: commands::is_own,
    };
    acp::run(ctx, &options)
}
