//! `rewake stop ID`: stops the current turn of a session.

use clap::Args;

use super::print_json;
use super::shared::{SharedCommand, SharedFlag};
use super::steer::SteeredSession;
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::{Accepted, AppContext};

/// Stop the current turn of a session
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("The session is in the shared database", &[]))]
pub(crate) struct StopArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Print a JSON object, as the server's route does
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &StopArgs) -> Result<u8, CliError> {
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let receipt = session.signal(Signal::STOP)?;
    // In a shared session the result is always a line of text.
    if args.json && !session.is_shared() {
        return print_json(&Accepted::of(session.id, &[receipt]));
    }
    Ok(session.report(receipt.sending))
}
