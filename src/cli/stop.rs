//! `rewake stop ID`: stops the current turn of a session.

use clap::Args;

use super::{print_json, steer};
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::{Accepted, AppContext};

/// Stop the current turn of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StopArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// The session is in the shared database
    #[cfg(feature = "fleet")]
    #[arg(long)]
    pub shared: bool,
    /// Print a JSON object, as the server's route does
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &StopArgs) -> Result<u8, CliError> {
    if !args.json {
        return steer::send_signal(ctx, &args.id, Signal::STOP);
    }
    let mut store = steer::open_store(ctx)?;
    let info = ctx.steering().find_session(&store, &args.id)?;
    let receipt = ctx.steer(&mut store, &info, Signal::STOP, steer::ORIGIN)?;
    print_json(&Accepted::of(info.id, &[receipt]))
}
