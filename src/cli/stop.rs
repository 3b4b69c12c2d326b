//! `rewake stop ID`: stops the current turn of a session.

use clap::Args;

use super::steer;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::AppContext;

/// Stop the current turn of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StopArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
}

pub(super) fn run(ctx: &AppContext, args: &StopArgs) -> Result<u8, CliError> {
    steer::send_signal(ctx, &args.id, Signal::STOP)
}
