//! `rewake unblock ID`: lets a paused or failed session continue.

use clap::Args;

use super::steer;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::AppContext;

/// Unblock a paused or failed session
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub(crate) struct UnblockArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// The session is in the shared database
    #[cfg(feature = "fleet")]
    #[arg(long)]
    pub shared: bool,
}

pub(super) fn run(ctx: &AppContext, args: &UnblockArgs) -> Result<u8, CliError> {
    steer::send_signal(ctx, &args.id, Signal::GoOn)
}
