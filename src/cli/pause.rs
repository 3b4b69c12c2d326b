//! `rewake pause ID`: pauses a session.

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use super::steer::SteeredSession;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::AppContext;

/// Pause a session after the calls that are running
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("The session is in the shared database", &[]))]
pub(crate) struct PauseArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
}

pub(super) fn run(ctx: &AppContext, args: &PauseArgs) -> Result<u8, CliError> {
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let receipt = session.signal(Signal::PAUSE)?;
    Ok(session.report(receipt.sending))
}
