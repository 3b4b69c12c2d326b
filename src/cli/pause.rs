//! `rewake pause ID`: pauses a session.

use clap::Args;

use super::steer;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::AppContext;

/// Pause a session after the calls that are running
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct PauseArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// The session is in the shared database
    #[cfg(feature = "fleet")]
    #[arg(long)]
    pub shared: bool,
}

pub(super) fn run(ctx: &AppContext, args: &PauseArgs) -> Result<u8, CliError> {
    steer::send_signal(ctx, &args.id, Signal::PAUSE)
}
