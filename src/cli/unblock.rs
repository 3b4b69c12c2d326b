//! `rewake unblock ID`: lets a paused or failed session continue.

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use super::steer::SteeredSession;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::AppContext;

/// Unblock a paused or failed session
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(shared_flag("The session is in the shared database", &[]))]
pub(crate) struct UnblockArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
}

pub(super) fn run(ctx: &AppContext, args: &UnblockArgs) -> Result<u8, CliError> {
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let receipt = session.signal(Signal::GoOn)?;
    Ok(session.report(receipt.sending))
}
